//! Whether something was mounted or unmounted on this machine. A room that was made in advance has the mounts of that moment,
//! and keeps what was unmounted since from being removed.

use crate::sync::lock;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use shellkeep_process::stdio;
use std::fs::File;
use std::io;
use std::sync::Mutex;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// The kernel's list of the mounts that this process sees. Whoever has it open is told when it changes.
const LIST: &str = "/proc/self/mountinfo";

/// The mounts of this machine.
#[derive(Debug)]
pub(crate) struct HostMounts {
    seen: Mutex<Seen>,
}

#[derive(Debug)]
struct Seen {
    list: File,
    changes: u64,
}

impl HostMounts {
    pub(crate) fn open() -> io::Result<Self> {
        let mounts = Self { seen: Mutex::new(Seen { list: File::open(LIST)?, changes: 0 }) };
        mounts.changes()?;
        Ok(mounts)
    }

    /// A number that is another one after they have changed.
    pub(crate) fn changes(&self) -> io::Result<u64> {
        let mut seen = lock(&self.seen);
        let mut list = [PollFd::new(&seen.list, PollFlags::PRI)];
        poll(&mut list, Some(&Timespec::default()))?;
        let has_changed = list[0].revents().contains(PollFlags::PRI);
        seen.changes += u64::from(has_changed);
        Ok(seen.changes)
    }
}

/// Tells when they change.
#[derive(Debug)]
pub(crate) struct MountChanges(AsyncFd<File>);

impl MountChanges {
    pub(crate) fn open() -> io::Result<Self> {
        Ok(Self(stdio::watch(File::open(LIST)?, Interest::PRIORITY)?))
    }

    /// Returns after they have changed. The first time it may return at once.
    pub(crate) async fn next(&self) -> io::Result<()> {
        self.0.ready(Interest::PRIORITY).await?.clear_ready();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// In a namespace of its own, so that the machine does not notice.
    #[test]
    fn a_mount_is_noticed_once() {
        let inside = std::env::var_os("SHELLKEEP_IN_NAMESPACE").is_some();
        if !inside {
            let name = "host_mounts::tests::a_mount_is_noticed_once";
            let mut command = Command::new("unshare");
            command.args(["--user", "--map-root-user", "--mount"]).arg(std::env::current_exe().unwrap());
            command.args([name, "--exact"]).env("SHELLKEEP_IN_NAMESPACE", "1");
            let output = command.output().unwrap();
            let has_passed = output.status.success() && String::from_utf8_lossy(&output.stdout).contains("1 passed");
            let is_allowed = !String::from_utf8_lossy(&output.stderr).contains("unshare failed");
            assert!(has_passed || (!is_allowed && std::env::var_os("CI").is_none()), "{output:?}");
            return;
        }
        let mounts = HostMounts::open().unwrap();
        let before = mounts.changes().unwrap();
        assert_eq!(mounts.changes().unwrap(), before);
        let directory = tempfile::tempdir().unwrap();
        let status = Command::new("mount").args(["-t", "tmpfs", "none"]).arg(directory.path()).status().unwrap();
        assert!(status.success());
        let mounted = mounts.changes().unwrap();
        assert_ne!(mounted, before);
        assert_eq!(mounts.changes().unwrap(), mounted);
        assert!(Command::new("umount").arg(directory.path()).status().unwrap().success());
        assert_ne!(mounts.changes().unwrap(), mounted);
    }
}
