//! Handles on processes. A process is signalled through one, never by a pid that may have been reused.

use crate::proc::{ProcessStamp, Stat};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::os::fd::{AsFd, OwnedFd};

/// The number of a process as the kernel's calls take it.
pub(crate) fn number(pid: u32) -> Option<Pid> {
    Pid::from_raw(i32::try_from(pid).ok()?)
}

/// The session that a process is in, if it lives and is in one that can be seen from here.
pub(crate) fn session_of(pid: Pid) -> Option<Pid> {
    // SAFETY: the call takes a number and gives one. rustix's takes it for granted that it is never 0; the kernel's own
    // threads have that.
    Pid::from_raw(unsafe { libc::getsid(pid.as_raw_pid()) }.max(0))
}

/// A handle on the process that has this number now.
pub fn open(pid: u32) -> Option<OwnedFd> {
    pidfd_open(number(pid)?, PidfdFlags::NONBLOCK).ok()
}

/// A handle on exactly this process, if it is alive. The number is looked at after the handle is there: from then on it
/// cannot be given to another without the handle knowing.
pub fn open_exact(stamp: ProcessStamp) -> Option<OwnedFd> {
    let handle = open(stamp.pid)?;
    Stat::read(stamp.pid).filter(|stat| stat.stamp() == stamp).map(|_| handle)
}

/// Sends a signal through a handle. False if the process has ended.
pub fn send(handle: impl AsFd, signal: Signal) -> bool {
    pidfd_send_signal(handle, signal).is_ok()
}

/// Whether the process behind a handle has not ended.
pub fn is_alive(handle: impl AsFd) -> bool {
    let mut polled = [PollFd::new(&handle, PollFlags::IN)];
    loop {
        match poll(&mut polled, Some(&Timespec::default())) {
            // A signal that is pending ends the call even though it does not wait; it says nothing about the process.
            Err(Errno::INTR) => {}
            found => return found == Ok(0),
        }
    }
}

/// Waits until the processes behind these handles have ended.
pub async fn gone(handles: Vec<OwnedFd>) {
    for handle in handles {
        if let Ok(handle) = crate::stdio::watch(handle, tokio::io::Interest::READABLE) {
            let _ = handle.readable().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_known_where_there_is_one() {
        // What /proc says: 0, no session, for one whose leader is outside this pid namespace.
        for pid in [std::process::id(), 1] {
            let said = Stat::read(pid).unwrap().session;
            assert_eq!(session_of(number(pid).unwrap()), number(said), "of {pid}");
        }
        // No one has this number, and the kernel's own threads are in no session.
        assert_eq!(session_of(number(i32::MAX as u32).unwrap()), None);
        if Stat::read(2).is_some_and(|stat| stat.session == 0) {
            assert_eq!(session_of(number(2).unwrap()), None);
        }
    }

    #[test]
    fn a_stamp_of_another_start_is_not_this_process() {
        let own = Stat::read(std::process::id()).unwrap().stamp();
        assert!(open_exact(own).is_some());
        assert!(open_exact(ProcessStamp { started_ticks: own.started_ticks + 1, ..own }).is_none());
    }
}
