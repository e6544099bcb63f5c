//! Control groups, where the machine has them. Version 2 is looked for first, wherever it is mounted; a pids
//! controller of version 1 is used beside it on machines that have only that.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fs::{self, File};
use std::io::{self, Read, Seek, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Bounds of a search through the hierarchy: far more than a machine has, far less than would be felt.
const MOST_LOOKS: usize = 20_000;
const DEEPEST: usize = 12;
/// How often a group is looked at that is about to freeze.
const FREEZE_LOOK: Duration = Duration::from_millis(1);

/// Everyone in a group is stopped for as long as this lives.
#[derive(Debug)]
pub struct Frozen(File);

impl Drop for Frozen {
    fn drop(&mut self) {
        let _ = self.0.write_all(b"0");
    }
}

/// Where groups can be made.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Mounts {
    /// Our own group in the unified hierarchy (membership, freeze, kill).
    pub unified: Option<PathBuf>,
    /// Our own group in the version 1 pids hierarchy.
    pub pids_v1: Option<PathBuf>,
    /// Our own group in the version 1 memory hierarchy.
    pub memory_v1: Option<PathBuf>,
    /// Our own group in the version 1 hierarchy of processor shares.
    pub cpu_v1: Option<PathBuf>,
    /// Where the unified hierarchy is mounted.
    pub unified_top: Option<PathBuf>,
    /// The part of the unified hierarchy that is mounted there.
    unified_root: String,
}

impl Mounts {
    /// Finds them for this process.
    pub fn find() -> Self {
        let mountinfo = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let membership = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        parse(&mountinfo, &membership)
    }

    /// The directory of a process's group in the unified hierarchy. `membership` is what its `/proc/PID/cgroup` says.
    pub fn unified_group(&self, membership: &str) -> Option<PathBuf> {
        let path = membership.lines().find_map(|line| line.strip_prefix("0::"))?;
        Some(locate(self.unified_top.as_ref()?.to_str()?, &self.unified_root, path))
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
            mounts.unified_top = Some(point.into());
            mounts.unified_root = root.to_owned();
        } else if kind == Some("cgroup") {
            let slots = [("pids", &mut mounts.pids_v1), ("memory", &mut mounts.memory_v1), ("cpu", &mut mounts.cpu_v1)];
            for (name, slot) in slots {
                if options.split(',').any(|option| option == name) {
                    let is_it = |controllers: &str| controllers.split(',').any(|other| other == name);
                    *slot = own(&is_it).map(|path| locate(point, root, &path));
                }
            }
        }
    }
    mounts
}

/// The groups directly in this one.
pub fn groups_in(path: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path()).collect()
}

/// Whether a group of the unified hierarchy has a controller.
pub fn offers(group: &Path, controller: &str) -> bool {
    let listed = fs::read_to_string(group.join("cgroup.controllers")).unwrap_or_default();
    listed.split_whitespace().any(|name| name == controller)
}

/// Gives a controller to the groups in each of these. Returns whether all took it.
pub fn switch_on(groups: &[&Path], controller: &str) -> bool {
    let on = |group: &&Path| fs::write(group.join("cgroup.subtree_control"), format!("+{controller}")).is_ok();
    groups.iter().all(on)
}

/// Whether we may make groups here.
pub fn may_make_groups(group: &Path) -> bool {
    rustix::fs::access(group, rustix::fs::Access::WRITE_OK).is_ok()
}

/// A container sees only a part of the hierarchy: `root` is what the mount point shows of it.
fn locate(point: &str, root: &str, path: &str) -> PathBuf {
    let inside = path.strip_prefix(root.trim_end_matches('/')).unwrap_or(path);
    Path::new(point).join(inside.trim_start_matches('/'))
}

/// Groups of this name anywhere below `top`. A daemon may have been started in another place than the one before it.
pub fn find_named(top: &Path, name: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut waiting = vec![(top.to_owned(), 0)];
    let mut looks = 0;
    while let Some((directory, depth)) = waiting.pop() {
        looks += 1;
        if looks > MOST_LOOKS || depth > DEEPEST {
            continue;
        }
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                continue;
            }
            if entry.file_name() == name {
                found.push(entry.path());
            } else {
                waiting.push((entry.path(), depth + 1));
            }
        }
    }
    found
}

/// One group. If it is ours, its directory is removed when it is dropped and empty by then.
#[derive(Debug)]
pub struct Group {
    path: PathBuf,
    is_ours: bool,
    /// Whether its directory was removed.
    is_removed: AtomicBool,
}

impl Group {
    /// Makes the group; it is ours.
    pub fn create(path: PathBuf) -> io::Result<Self> {
        let group = Self::owned(path);
        group.create_again().map(|()| group)
    }

    /// Makes its directory, if it is not there.
    pub fn create_again(&self) -> io::Result<()> {
        self.is_removed.store(false, Ordering::Relaxed);
        match fs::create_dir(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => Ok(()),
        }
    }

    /// A group that is there; it is ours from now on.
    pub fn owned(path: PathBuf) -> Self {
        Self { path, is_ours: true, is_removed: AtomicBool::new(false) }
    }

    /// A group that is there, to look at.
    pub fn at(path: PathBuf) -> Self {
        Self { path, is_ours: false, is_removed: AtomicBool::new(false) }
    }

    /// Removes its directory if nobody is in it and it is ours; returns whether it did.
    pub fn remove(&self) -> bool {
        let is_gone = self.is_ours && fs::remove_dir(&self.path).is_ok();
        self.is_removed.fetch_or(is_gone, Ordering::Relaxed);
        is_gone
    }

    /// Puts a process into it; its children will be born there.
    pub fn add(&self, pid: u32) -> io::Result<()> {
        self.set("cgroup.procs", &pid.to_string())
    }

    /// Its processes.
    pub fn members(&self) -> io::Result<Vec<u32>> {
        let text = fs::read_to_string(self.path.join("cgroup.procs"))?;
        Ok(text.lines().filter_map(|line| line.parse().ok()).filter(|&pid| pid != 0).collect())
    }

    /// Ends everyone in it, whatever they ignore. Needs version 2.
    pub fn kill(&self) -> io::Result<()> {
        self.set("cgroup.kill", "1")
    }

    /// Stops everyone in it, and waits until they have stopped: one that is in the middle of a fork stops after it, so its
    /// child is there too. Who hangs in the kernel never stops, so it waits no longer than `limit`. They continue when what
    /// it returns is dropped. Needs version 2.
    pub fn freeze(&self, limit: Duration) -> io::Result<Frozen> {
        let mut events = File::open(self.path.join("cgroup.events"))?;
        // Held open, so that it takes no descriptor to let them continue.
        let mut switch = File::options().write(true).open(self.path.join("cgroup.freeze"))?;
        switch.write_all(b"1")?;
        let frozen = Frozen(switch);
        let until = Instant::now() + limit;
        let mut text = String::new();
        loop {
            text.clear();
            let read = events.rewind().and_then(|()| events.read_to_string(&mut text));
            let left = until.saturating_duration_since(Instant::now());
            if read.is_err() || text.lines().any(|line| line == "frozen 1") || left.is_zero() {
                return Ok(frozen);
            }
            // The file has something urgent to say when it has changed since it was read. The kernel says so only once in
            // some ten milliseconds, and the last time may have been just now.
            let left = Timespec::try_from(left.min(FREEZE_LOOK)).unwrap_or_default();
            let _ = poll(&mut [PollFd::new(&events, PollFlags::PRI)], Some(&left));
        }
    }

    /// Lets everyone in it continue. Needs version 2.
    pub fn thaw(&self) -> io::Result<()> {
        self.set("cgroup.freeze", "0")
    }

    /// How many threads are in it and below it, where the pids controller counts them.
    pub fn counted(&self) -> Option<u64> {
        fs::read_to_string(self.path.join("pids.current")).ok()?.trim().parse().ok()
    }

    /// How many threads are in it, counted by looking.
    pub fn threads(&self) -> u64 {
        let text = fs::read_to_string(self.path.join("cgroup.threads")).unwrap_or_default();
        text.lines().count() as u64
    }

    /// Limits how many processes it may hold.
    pub fn limit_processes(&self, most: u64) -> io::Result<()> {
        self.set("pids.max", &most.to_string())
    }

    /// How often something was not started because of the limit.
    pub fn limit_hits(&self) -> u64 {
        self.figure("pids.events", "max ").unwrap_or(0)
    }

    /// Limits how much memory its processes may use together, swapped or not. What is not offered is left out.
    pub fn limit_memory(&self, most: u64) {
        let _ = self.set("memory.max", &most.to_string());
        let _ = self.set("memory.swap.max", "0");
    }

    /// The same in a hierarchy of version 1. The limit with swap is never below the one without.
    pub fn limit_memory_v1(&self, most: u64) {
        let both = ["memory.limit_in_bytes", "memory.memsw.limit_in_bytes"];
        for file in both.iter().chain(both.iter().rev()) {
            let _ = self.set(file, &most.to_string());
        }
    }

    /// How many bytes are charged to it that no process needs to have: files in memory, such as those in `/dev/shm`. Version
    /// 1 has a line of what was swapped out, which may be such files; in version 2 nothing is, see [`Self::limit_memory`].
    /// The kernel may leave out what is newer than two seconds. Adding it up costs the kernel some work, so it is read once.
    pub fn files_in_memory(&self) -> u64 {
        fs::read_to_string(self.path.join("memory.stat")).map_or(0, |text| files_in(&text))
    }

    /// How many processes were killed because of the limit of memory.
    pub fn memory_kills(&self) -> u64 {
        let killed = |file: &str| self.figure(file, "oom_kill ");
        killed("memory.events").or_else(|| killed("memory.oom_control")).unwrap_or(0)
    }

    fn figure(&self, file: &str, name: &str) -> Option<u64> {
        figure_in(&fs::read_to_string(self.path.join(file)).ok()?, name)
    }

    /// Its directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Sets one of its values.
    pub fn set(&self, file: &str, text: &str) -> io::Result<()> {
        // Never create: the file is there or the kernel does not offer it.
        let mut options = fs::OpenOptions::new();
        let mut handle = options.write(true).open(self.path.join(file))?;
        io::Write::write_all(&mut handle, text.as_bytes())
    }
}

fn files_in(stat: &str) -> u64 {
    ["shmem ", "swap "].into_iter().filter_map(|name| figure_in(stat, name)).sum()
}

fn figure_in(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
}

impl Drop for Group {
    fn drop(&mut self) {
        // A group that still has members stays; the next sweep finds it by its name.
        if !self.is_removed.load(Ordering::Relaxed) {
            self.remove();
        }
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
        assert_eq!(mounts.unified_top, Some("/sys/fs/cgroup/unified".into()));
    }

    #[test]
    fn a_pure_machine_has_one() {
        let mountinfo = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";
        let mounts = parse(mountinfo, "0::/user.slice/app.scope\n");
        assert_eq!(mounts.unified, Some("/sys/fs/cgroup/user.slice/app.scope".into()));
        assert_eq!(mounts.pids_v1, None);
    }

    /// A name that only begins like one of these is another.
    #[test]
    fn files_in_memory_are_counted_as_each_version_writes_them() {
        for (stat, expected) in [
            ("anon 7\nshmem 4096\nshmem_thp 9\nswapcached 3\n", 4096),
            ("cache 7\nshmem 4096\nswap 50\ntotal_shmem 8192\ntotal_swap 100\n", 4146),
            ("cache 7\nswap 50\n", 50),
            ("", 0),
        ] {
            assert_eq!(files_in(stat), expected, "{stat}");
        }
    }

    #[test]
    fn groups_are_found_by_name_wherever_they_are() {
        let top = tempfile::tempdir().unwrap();
        for path in ["a/b/wanted/work", "wanted", "c/other"] {
            fs::create_dir_all(top.path().join(path)).unwrap();
        }
        let mut found = find_named(top.path(), "wanted");
        found.sort();
        assert_eq!(found, [top.path().join("a/b/wanted"), top.path().join("wanted")]);
    }

    #[test]
    fn only_an_empty_group_of_ours_is_removed() {
        let top = tempfile::tempdir().unwrap();
        let path = top.path().join("group");
        let group = Group::create(path.clone()).unwrap();
        fs::create_dir(path.join("member")).unwrap();
        assert!(!group.remove() && path.exists());
        fs::remove_dir(path.join("member")).unwrap();
        assert!(!Group::at(path.clone()).remove() && path.exists());
        assert!(group.remove() && !path.exists());
        // Another one of the same name is not its own any more.
        fs::create_dir(&path).unwrap();
        drop(group);
        assert!(path.exists());
    }

    #[test]
    fn a_container_sees_its_part() {
        let mountinfo = "30 23 0:26 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup ro\n";
        let mounts = parse(mountinfo, "0::/docker/abc/child\n");
        assert_eq!(mounts.unified, Some("/sys/fs/cgroup/child".into()));
    }
}
