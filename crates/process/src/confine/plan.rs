//! What a room's root directory is made of, in the form that `room/room.c` reads.

use super::grants::SHARED_MEMORY;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// Devices that every program may use.
const DEVICES: [&str; 6] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"];
/// Links that programs expect in `/dev`.
const DEVICE_LINKS: [(&str, &str); 5] = [
    ("/dev/fd", "/proc/self/fd"),
    ("/dev/stdin", "/proc/self/fd/0"),
    ("/dev/stdout", "/proc/self/fd/1"),
    ("/dev/stderr", "/proc/self/fd/2"),
    ("/dev/ptmx", "pts/ptmx"),
];
/// Files in a room's shared memory: more than programs make, and an empty one takes memory too.
const SHARED_FILES: u32 = 1 << 14;
/// Where programs write temporary files.
const TEMPORARY: [&str; 2] = ["/tmp", "/var/tmp"];
/// The part of `/sys` that programs read to learn how many processors there are.
pub(super) const PROCESSORS: &str = "/sys/devices/system";
/// What a room has its own of, or no part of.
const NOT_FROM_OUTSIDE: [&str; 3] = ["/proc", "/sys", "/dev"];

/// The symbolic links in `/`, such as `/bin`.
#[derive(Debug, Default)]
pub(super) struct RootLinks(Vec<(PathBuf, PathBuf)>);

impl RootLinks {
    /// Those of this machine.
    pub(super) fn read() -> Self {
        let entries = std::fs::read_dir("/").into_iter().flatten().flatten().map(|entry| entry.path());
        Self(entries.filter_map(|path| std::fs::read_link(&path).ok().map(|target| (path, target))).collect())
    }
}

/// A plan under construction.
#[derive(Debug)]
pub(super) struct Plan(Vec<u8>);

impl Plan {
    /// Begins with an empty root, which is mounted on a directory.
    pub(super) fn new(root: &Path) -> Self {
        let mut plan = Self(Vec::new());
        plan.entry(b'R', &[root]);
        plan
    }

    /// Continues another one with what is a session's own: first a directory for temporary files at the usual places.
    pub(super) fn own(temporary: &Path) -> Self {
        let mut plan = Self(Vec::new());
        for place in TEMPORARY {
            plan.entry(b'w', &[temporary, Path::new(place)]);
        }
        plan
    }

    /// What is read from outside, at the same path.
    pub(super) fn readable<'a>(mut self, paths: impl Iterator<Item = &'a Path>) -> Self {
        for path in paths.filter(|path| is_shared(path)) {
            self.entry(b'r', &[path]);
        }
        self
    }

    /// What every room has: the number of processors, the root's links, devices, and this many bytes of shared memory.
    pub(super) fn system(mut self, links: &RootLinks, shared_memory: u64) -> Self {
        self.entry(b'r', &[Path::new(PROCESSORS)]);
        for (path, target) in &links.0 {
            self.entry(b'l', &[path, target]);
        }
        for device in DEVICES {
            self.entry(b'v', &[Path::new(device)]);
        }
        let options = format!("mode=1777,size={shared_memory},nr_inodes={SHARED_FILES}");
        self.entry(b't', &[Path::new(SHARED_MEMORY), Path::new(&options)]);
        self.entry(b'p', &[Path::new("/dev/pts")]);
        for (path, target) in DEVICE_LINKS {
            self.entry(b'l', &[Path::new(path), Path::new(target)]);
        }
        self
    }

    /// Another file at the path of one of the system.
    pub(super) fn instead(mut self, file: &Path, path: &Path) -> Self {
        self.entry(b'o', &[file, path]);
        self
    }

    /// What is writable, at the same path as outside.
    pub(super) fn writable<'a>(mut self, paths: impl Iterator<Item = &'a Path>) -> Self {
        for path in paths.filter(|path| is_shared(path)) {
            self.entry(b'w', &[path, path]);
        }
        self
    }

    pub(super) fn finish(self) -> Vec<u8> {
        self.0
    }

    /// A path has no NUL in it: the system gave it to us, or took it from us.
    fn entry(&mut self, kind: u8, paths: &[&Path]) {
        self.0.push(kind);
        for path in paths {
            self.0.extend(path.as_os_str().as_bytes().iter().filter(|byte| **byte != 0));
            self.0.push(0);
        }
    }
}

/// Whether a path is below a directory for temporary files, which would hide it if that came later.
pub(super) fn is_below_temporary(path: &Path) -> bool {
    TEMPORARY.iter().any(|place| path.starts_with(place))
}

/// Whether a path contains a directory for temporary files, and would hide it if that came earlier.
pub(super) fn has_temporary(path: &Path) -> bool {
    TEMPORARY.iter().any(|place| Path::new(place).starts_with(path))
}

/// Whether a path inside may be the one outside.
fn is_shared(path: &Path) -> bool {
    !NOT_FROM_OUTSIDE.iter().any(|own| path.starts_with(own))
}

/// Whether the room that a plan makes has a directory, which is given by its real path outside. What is in a place that the
/// room has its own of is not looked at.
pub(super) fn has(plan: &[u8], directory: &Path) -> bool {
    let mut rest = plan;
    while let Some((kind, paths)) = rest.split_first() {
        rest = paths;
        let path = next_path(&mut rest);
        let second = matches!(kind, b'w' | b'l' | b'o' | b't').then(|| next_path(&mut rest));
        let is_there = match (kind, second) {
            (b'r' | b't' | b'p', _) => directory.starts_with(path) || path.starts_with(directory),
            (b'v', _) => path.starts_with(directory),
            (b'w', Some(inside)) => match directory.strip_prefix(inside) {
                Ok(below) => below.as_os_str().is_empty() || path.join(below).is_dir(),
                Err(_) => inside.starts_with(directory),
            },
            _ => false,
        };
        if is_there {
            return true;
        }
    }
    directory.starts_with("/proc")
}

/// Takes a path from what is left of a plan.
fn next_path<'a>(rest: &mut &'a [u8]) -> &'a Path {
    let end = rest.iter().position(|byte| *byte == 0).unwrap_or(rest.len());
    let (path, after) = rest.split_at(end);
    *rest = after.get(1..).unwrap_or_default();
    Path::new(std::ffi::OsStr::from_bytes(path))
}

/// The entry of a plan that begins here, for a message.
pub(super) fn entry_at(plan: &[u8], at: usize) -> String {
    let path = plan.get(at + 1..).unwrap_or_default().split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(path).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_begins_with_its_root_and_has_no_host_proc() {
        let read = [Path::new("/usr"), Path::new("/proc"), Path::new("/sys"), Path::new("/dev/x")];
        let links = RootLinks(vec![(PathBuf::from("/bin"), PathBuf::from("usr/bin"))]);
        let plan = Plan::new(Path::new("/base")).readable(read.into_iter()).system(&links, 1 << 20).finish();
        let text = String::from_utf8(plan.clone()).unwrap();
        assert!(text.starts_with("R/base\0r/usr\0r/sys/devices/system\0"), "{text:?}");
        assert!(text.ends_with("l/dev/ptmx\0pts/ptmx\0"), "{text:?}");
        assert!(text.contains("t/dev/shm\0mode=1777,size=1048576,nr_inodes=16384\0"), "{text:?}");
        assert!(!text.contains("r/proc\0") && !text.contains("r/sys\0"), "{text:?}");
        assert_eq!(entry_at(&plan, 7), "/usr");
    }

    #[test]
    fn what_is_a_session_s_own_begins_with_temporary_files() {
        let plan = Plan::own(Path::new("/d/tmp")).writable([Path::new("/d/work")].into_iter()).finish();
        let text = String::from_utf8(plan).unwrap();
        assert_eq!(text, "w/d/tmp\0/tmp\0w/d/tmp\0/var/tmp\0w/d/work\0/d/work\0");
        for (path, is_below, has) in [
            ("/tmp", true, true),
            ("/tmp/a", true, false),
            ("/var/tmp/a", true, false),
            ("/var", false, true),
            ("/", false, true),
            ("/usr", false, false),
            ("/tmpx", false, false),
        ] {
            let path = Path::new(path);
            assert_eq!((is_below_temporary(path), has_temporary(path)), (is_below, has), "{}", path.display());
        }
    }

    #[test]
    fn a_room_has_what_its_plan_brings_in_and_what_leads_there() {
        let own = tempfile::tempdir().unwrap();
        let at = |name: &str| own.path().join(name);
        for name in ["tmp/made", "work/sub", "other"] {
            std::fs::create_dir_all(at(name)).unwrap();
        }
        let links = RootLinks(vec![(PathBuf::from("/bin"), PathBuf::from("usr/bin"))]);
        let (tmp, work) = (at("tmp"), at("work"));
        let shared = Plan::new(&at("root")).readable([Path::new("/usr")].into_iter()).system(&links, 1 << 20).finish();
        let own_part = Plan::own(&tmp).instead(&at("file"), Path::new("/etc/resolv.conf"));
        let plan = [shared, own_part.writable([&*work].into_iter()).finish()].concat();
        let has = |path: &Path| has(&plan, path);
        for path in ["/", "/usr", "/usr/lib", "/tmp", "/tmp/made", "/var/tmp", "/dev", "/dev/shm/x", "/proc/1", "/sys"]
        {
            assert!(has(Path::new(path)), "{path}");
        }
        assert!(has(&work) && has(&at("work/sub")) && has(own.path()));
        for path in ["/home", "/home/ann", "/etc", "/tmp/other", "/usr2", "/sys/kernel", "/bin"] {
            assert!(!has(Path::new(path)), "{path}");
        }
        assert!(!has(&at("other")) && !has(&at("work2")) && !has(&at("root")));
    }

    #[test]
    fn an_entry_beyond_the_end_is_empty() {
        let plan = Plan::new(Path::new("/base")).finish();
        assert_eq!(entry_at(&plan, plan.len()), "");
    }
}
