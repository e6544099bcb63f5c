//! Control groups, where the machine has them. Version 2 is looked for first, wherever it is mounted; a pids
//! controller of version 1 is used beside it on machines that have only that.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Where groups can be made.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Mounts {
    /// Our own group in the unified hierarchy (membership, freeze, kill).
    pub unified: Option<PathBuf>,
    /// Our own group in the version 1 pids hierarchy.
    pub pids_v1: Option<PathBuf>,
}

impl Mounts {
    /// Finds them for this process.
    pub fn find() -> Self {
        let mountinfo = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let membership = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        parse(&mountinfo, &membership)
    }
}

fn parse(mountinfo: &str, membership: &str) -> Mounts {
    let own = |wanted: &dyn Fn(&str) -> bool| {
        membership.lines().find_map(|line| {
            let mut parts = line.splitn(3, ':');
            let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
            wanted(controllers).then(|| path.to_owned())
        })
    };
    let mut mounts = Mounts::default();
    for line in mountinfo.lines() {
        let Some((before, after)) = line.split_once(" - ") else { continue };
        let (Some(root), Some(point)) = (before.split(' ').nth(3), before.split(' ').nth(4)) else { continue };
        let (kind, options) = (after.split(' ').next(), after.split(' ').nth(2).unwrap_or_default());
        if kind == Some("cgroup2") {
            mounts.unified = own(&|controllers| controllers.is_empty()).map(|path| locate(point, root, &path));
        } else if kind == Some("cgroup") && options.split(',').any(|option| option == "pids") {
            let is_pids = |controllers: &str| controllers.split(',').any(|name| name == "pids");
            mounts.pids_v1 = own(&is_pids).map(|path| locate(point, root, &path));
        }
    }
    mounts
}

/// A container sees only a part of the hierarchy: `root` is what the mount point shows of it.
fn locate(point: &str, root: &str, path: &str) -> PathBuf {
    let inside = path.strip_prefix(root.trim_end_matches('/')).unwrap_or(path);
    Path::new(point).join(inside.trim_start_matches('/'))
}

/// One group. Its directory is removed when it is dropped, if it is empty by then.
#[derive(Debug)]
pub struct Group {
    path: PathBuf,
}

impl Group {
    /// Makes the group.
    pub fn create(path: PathBuf) -> io::Result<Self> {
        match fs::create_dir(&path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => Ok(Self { path }),
        }
    }

    /// Puts a process into it; its children will be born there.
    pub fn add(&self, pid: u32) -> io::Result<()> {
        self.write("cgroup.procs", &pid.to_string())
    }

    /// Who is in it.
    pub fn members(&self) -> io::Result<Vec<u32>> {
        let text = fs::read_to_string(self.path.join("cgroup.procs"))?;
        Ok(text.lines().filter_map(|line| line.parse().ok()).filter(|&pid| pid != 0).collect())
    }

    /// Ends everyone in it, whatever they ignore. Needs version 2.
    pub fn kill(&self) -> io::Result<()> {
        self.write("cgroup.kill", "1")
    }

    /// Stops everyone in it, or lets them go on. Needs version 2.
    pub fn freeze(&self, frozen: bool) -> io::Result<()> {
        self.write("cgroup.freeze", if frozen { "1" } else { "0" })
    }

    /// Limits how many processes it may hold.
    pub fn limit_processes(&self, most: u64) -> io::Result<()> {
        self.write("pids.max", &most.to_string())
    }

    /// How often something was not started because of the limit.
    pub fn limit_hits(&self) -> u64 {
        let text = fs::read_to_string(self.path.join("pids.events")).unwrap_or_default();
        text.lines().find_map(|line| line.strip_prefix("max ")?.trim().parse().ok()).unwrap_or(0)
    }

    /// Its directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn write(&self, file: &str, text: &str) -> io::Result<()> {
        // Never create: the file is there or the kernel does not offer it.
        let mut options = fs::OpenOptions::new();
        let mut handle = options.write(true).open(self.path.join(file))?;
        io::Write::write_all(&mut handle, text.as_bytes())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // A group that still has members stays; the next sweep finds it by its name.
        let _ = fs::remove_dir(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hybrid_machine_has_both() {
        let mountinfo = "39 31 0:36 / /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids\n\
                         41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";
        let mounts = parse(mountinfo, "8:pids:/a/b\n0::/\n");
        assert_eq!(mounts.unified, Some("/sys/fs/cgroup/unified".into()));
        assert_eq!(mounts.pids_v1, Some("/sys/fs/cgroup/pids/a/b".into()));
    }

    #[test]
    fn a_pure_machine_has_one() {
        let mountinfo = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";
        let mounts = parse(mountinfo, "0::/user.slice/app.scope\n");
        assert_eq!(mounts.unified, Some("/sys/fs/cgroup/user.slice/app.scope".into()));
        assert_eq!(mounts.pids_v1, None);
    }

    #[test]
    fn a_container_sees_its_part() {
        let mountinfo = "30 23 0:26 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup ro\n";
        let mounts = parse(mountinfo, "0::/docker/abc/child\n");
        assert_eq!(mounts.unified, Some("/sys/fs/cgroup/child".into()));
    }
}
