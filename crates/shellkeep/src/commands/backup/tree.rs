//! Copies a data directory to a backup in two passes: the first copies everything while the daemon runs, the second
//! only what has changed since, while the daemon pauses writes. Also restores and verifies.

mod contents;

use super::manifest::{Entries, Entry, Kind, LeftOut};
use crate::noted;
use crate::terminal::{Progress, harmless, notice};
use contents::{PIECE, copy};
use rustix::fd::{AsRawFd as _, OwnedFd};
use rustix::fs::{
    AtFlags, CWD, Mode, OFlags, ResolveFlags, Timespec, Timestamps, UTIME_OMIT, openat, openat2, utimensat,
};
use rustix::io::Errno;
use shellkeep_session::ByteString;
use std::collections::{BTreeSet, HashMap};
use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// Not part of a backup: the lock, where the daemon listens, and what belongs to running commands.
const SKIPPED: [&str; 3] = ["lock", noted::NAME, "scratch"];
/// SQLite's index of its log, directly in the data directory, where the store is; recreated when it is missing. Further down a
/// file of that name is a session's.
const SKIPPED_ENDING: &[u8] = b"-shm";
/// What is in these belongs to sessions, which can make files that nobody else can read. The daemon's own can all be read, or
/// there is no backup.
const OF_SESSIONS: [&[u8]; 2] = [b"workspaces/", b"homes/"];
/// Bytes in the path of a session's file below the data directory. The kernel takes 4,096 in all; the rest is for the directory
/// that it is restored to.
const LONGEST_PATH: usize = 3584;
/// Bytes in the holes of a session's files together, of its workspace and its home each. They take no space, and hashing so many
/// takes about half a minute; a file of eight terabytes would take an hour.
const MOST_HOLES: u64 = 64 << 30;
/// What records refer to is copied after them, so that it exists.
const FIRST: &str = "journal";
/// Nanoseconds in a second.
const NANOSECONDS: i64 = 1_000_000_000;
/// Permissions; without setuid, setgid and sticky.
const MODE: u32 = 0o777;

/// A data directory that is being copied.
pub struct Copier<'a> {
    from: &'a Path,
    to: &'a Path,
    pub entries: Entries,
    /// The state of each file when it was copied.
    copied: HashMap<ByteString, Seen>,
    /// Files with several names, by device and inode, as they were when this pass copied them. Once such a file is gone, another
    /// one may get its number.
    links: HashMap<(u64, u64), (Seen, PathBuf)>,
    /// The bytes that this pass may still hash for the holes of a session's files, by directory.
    holes: HashMap<Vec<u8>, u64>,
    /// Sockets, pipes and devices.
    pub left_out: u64,
    progress: &'a mut Progress,
}

/// A file for which all of these are equal has not been written to.
#[derive(PartialEq, Eq)]
struct Seen {
    device: u64,
    inode: u64,
    bytes: u64,
    modified: i64,
    changed: (i64, i64),
}

impl Seen {
    fn of(about: &Metadata) -> Self {
        let changed = (about.ctime(), about.ctime_nsec());
        Self { device: about.dev(), inode: about.ino(), bytes: about.len(), modified: modified(about), changed }
    }
}

fn modified(about: &Metadata) -> i64 {
    about.mtime().saturating_mul(NANOSECONDS).saturating_add(about.mtime_nsec())
}

/// A path below a directory, of any bytes.
pub fn below(directory: &Path, path: &ByteString) -> PathBuf {
    directory.join(path.as_path())
}

impl<'a> Copier<'a> {
    pub fn new(from: &'a Path, to: &'a Path, progress: &'a mut Progress) -> Self {
        let (entries, copied, links, holes) = (Entries::default(), HashMap::new(), HashMap::new(), HashMap::new());
        Self { from, to, entries, copied, links, holes, left_out: 0, progress }
    }

    /// Copies what is new or was changed, and removes from the copy what is gone.
    pub fn pass(&mut self) -> io::Result<()> {
        self.left_out = 0;
        self.entries.left_out = LeftOut::default();
        self.links.clear();
        self.holes.clear();
        let mut seen = BTreeSet::new();
        let mut top: Vec<_> = fs::read_dir(self.from)?.collect::<io::Result<_>>()?;
        top.sort_by_key(|entry| (entry.file_name() != FIRST, entry.file_name()));
        for entry in top {
            let name = entry.file_name();
            if !SKIPPED.iter().any(|skipped| name == *skipped) {
                self.visit(ByteString(name.as_bytes().to_vec()), &mut seen)?;
            }
        }
        let gone: Vec<_> = self.entries.keys().filter(|path| !seen.contains(*path)).cloned().collect();
        // The entries of a directory come after it.
        for path in gone.iter().rev() {
            self.drop(path)?;
        }
        Ok(())
    }

    fn drop(&mut self, path: &ByteString) -> io::Result<()> {
        self.copied.remove(path);
        let place = below(self.to, path);
        match self.entries.remove(path).map(|entry| entry.kind) {
            Some(Kind::Directory) => fs::remove_dir(place),
            Some(Kind::File { .. }) => fs::remove_file(place),
            Some(Kind::Link { .. }) | None => Ok(()),
        }
    }

    /// Copies what is at a path. What a session has made so that it cannot be copied is left out, so that no session decides whether
    /// there is a backup.
    fn visit(&mut self, path: ByteString, seen: &mut BTreeSet<ByteString>) -> io::Result<()> {
        if !is_of_session(&path) {
            return self.look_at(path, seen);
        }
        let too_long = path.as_bytes().len() > LONGEST_PATH;
        let looked = if too_long { Err(io::Error::from(Errno::NAMETOOLONG)) } else { self.look_at(path.clone(), seen) };
        match looked {
            Err(error) if is_sessions_doing(&error) => {
                self.entries.left_out.add(path, reason(&error));
                Ok(())
            }
            other => other,
        }
    }

    fn look_at(&mut self, path: ByteString, seen: &mut BTreeSet<ByteString>) -> io::Result<()> {
        let above = path.as_path().parent().unwrap_or(Path::new(""));
        // Removed in the meantime.
        let Some(above) = Held::open(self.from, above)? else { return Ok(()) };
        let from = above.path().join(path.as_path().file_name().unwrap_or_default());
        let about = match fs::symlink_metadata(&from) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            other => other?,
        };
        let kind = if about.is_dir() {
            Kind::Directory
        } else if about.is_symlink() {
            match fs::read_link(&from) {
                Ok(target) => Kind::Link { target: ByteString(target.as_os_str().as_bytes().to_vec()) },
                // Removed, or replaced.
                Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidInput) => {
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
        } else if !about.is_file() || is_index_of_store(&path) {
            self.left_out += u64::from(!about.is_file());
            return Ok(());
        } else {
            return self.file(&from, path, &about, seen);
        };
        let was = self.entries.get(&path).map(|entry| matches!(entry.kind, Kind::Directory));
        if was.is_some_and(|was_directory| was_directory != about.is_dir()) {
            self.drop_below(&path)?;
        }
        if about.is_dir() && was != Some(true) {
            DirBuilder::new().mode(0o700).create(below(self.to, &path))?;
        }
        let entry = Entry { mode: about.mode() & MODE, modified: modified(&about), kind };
        self.entries.insert(path.clone(), entry);
        seen.insert(path.clone());
        if about.is_dir() {
            for name in names(self.from, path.as_path())? {
                self.visit(ByteString([path.as_bytes(), b"/", &name].concat()), seen)?;
            }
        }
        Ok(())
    }

    /// Removes an entry that had another kind in the first pass.
    fn drop_below(&mut self, path: &ByteString) -> io::Result<()> {
        let inside = [path.as_bytes(), b"/"].concat();
        let all: Vec<_> = self
            .entries
            .keys()
            .filter(|other| *other == path || other.as_bytes().starts_with(&inside))
            .cloned()
            .collect();
        all.iter().rev().try_for_each(|path| self.drop(path))
    }

    fn file(
        &mut self,
        from: &Path,
        path: ByteString,
        about: &Metadata,
        seen: &mut BTreeSet<ByteString>,
    ) -> io::Result<()> {
        let is_same = self.copied.get(&path).is_some_and(|copied| *copied == Seen::of(about));
        if !is_same {
            self.drop_below(&path)?;
            let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
            let opened = OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(from);
            let file = match opened {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                // A link by now.
                Err(error) if error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) => return Ok(()),
                other => other?,
            };
            // What was opened may be another file than the one that was looked at.
            let about = file.metadata()?;
            if !about.is_file() {
                return Ok(());
            }
            let place = below(self.to, &path);
            let kind = match self.linked(&about, &place) {
                Some(kind) => kind,
                None => self.copy(&file, &about, &path, &place)?,
            };
            if about.nlink() > 1 {
                self.links.insert((about.dev(), about.ino()), (Seen::of(&about), place));
            }
            self.entries.insert(path.clone(), Entry { mode: about.mode() & MODE, modified: modified(&about), kind });
            self.copied.insert(path.clone(), Seen::of(&about));
        }
        seen.insert(path);
        Ok(())
    }

    /// Copies the contents of a file; nothing is left of what could not be copied.
    fn copy(&mut self, file: &File, about: &Metadata, path: &ByteString, place: &Path) -> io::Result<Kind> {
        let mut any = u64::MAX;
        let holes = if is_of_session(path) {
            self.holes.entry(directory_of_session(path)).or_insert(MOST_HOLES)
        } else {
            &mut any
        };
        let copied = copy(file, about, place, holes, self.progress);
        if copied.is_err() {
            // It may not have been made.
            let _ = fs::remove_file(place);
        }
        copied
    }

    /// Another name (hard link) of a file that this pass has copied, as it is now.
    fn linked(&self, about: &Metadata, place: &Path) -> Option<Kind> {
        let (seen, twin) = self.links.get(&(about.dev(), about.ino()))?;
        if about.nlink() < 2 || *seen != Seen::of(about) {
            return None;
        }
        let name = twin.strip_prefix(self.to).ok()?;
        let kind = self.entries.get(&ByteString(name.as_os_str().as_bytes().to_vec()))?.kind.clone();
        fs::hard_link(twin, place).ok().map(|()| kind)
    }
}

/// Whether it is a session's and not the daemon's.
fn is_of_session(path: &ByteString) -> bool {
    OF_SESSIONS.iter().any(|directory| path.as_bytes().starts_with(directory))
}

/// The workspace or the home that a session's file is in: the first two names of its path.
fn directory_of_session(path: &ByteString) -> Vec<u8> {
    path.as_bytes().split(|byte| *byte == b'/').take(2).collect::<Vec<_>>().join(&b'/')
}

fn is_index_of_store(path: &ByteString) -> bool {
    path.as_bytes().ends_with(SKIPPED_ENDING) && !path.as_bytes().contains(&b'/')
}

/// Whether a session can make a file for which this is the answer: with a lease on it, in a path that is too long, with holes
/// that are too large, or without permissions.
fn is_sessions_doing(error: &io::Error) -> bool {
    let made = [Errno::AGAIN, Errno::NAMETOOLONG, Errno::FBIG, Errno::ACCESS, Errno::PERM];
    made.iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

fn reason(error: &io::Error) -> String {
    match Errno::from_io_error(error) {
        Some(Errno::AGAIN) => "a process has a lease on it".to_owned(),
        Some(Errno::FBIG) => "it is too large, or its holes are".to_owned(),
        _ => error.to_string(),
    }
}

/// A directory of the data directory, held open. Sessions may have other users than we, who could put a link to what only we can
/// read in its place, or in that of one above.
struct Held(OwnedFd);

impl Held {
    /// Opens one; none if it is gone, or something else by now.
    fn open(data: &Path, path: &Path) -> io::Result<Option<Self>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let data = openat(CWD, data, flags, Mode::empty())?;
        let named = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let within = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        let opened = match openat2(&data, named, flags, Mode::empty(), within) {
            // Kernels before 5.6 and some sandboxes: at least the last name is not a link.
            Err(Errno::NOSYS | Errno::PERM) => openat(&data, named, flags | OFlags::NOFOLLOW, Mode::empty()),
            other => other,
        };
        match opened {
            Ok(held) => Ok(Some(Self(held))),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// A name that leads to it, whatever its own leads to by now.
    fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.0.as_raw_fd()))
    }
}

fn names(data: &Path, directory: &Path) -> io::Result<Vec<Vec<u8>>> {
    let Some(held) = Held::open(data, directory)? else { return Ok(Vec::new()) };
    fs::read_dir(held.path())?.map(|entry| entry.map(|entry| entry.file_name().as_bytes().to_vec())).collect()
}

/// Reads every file of a backup again; returns the first that does not match the manifest. Then says what is not in it.
pub fn check(data: &Path, entries: &Entries, progress: &mut Progress) -> Result<(), String> {
    let mut piece = vec![0; PIECE];
    for (path, entry) in entries.iter() {
        let Kind::File { bytes, hash } = &entry.kind else { continue };
        let wrong = |reason: &str| format!("{} in the backup does not match what was copied: {reason}", path.to_text());
        let mut file = File::open(below(data, path)).map_err(|error| wrong(&error.to_string()))?;
        let (mut hasher, mut done) = (blake3::Hasher::new(), 0);
        loop {
            let count = file.read(&mut piece).map_err(|error| wrong(&error.to_string()))?;
            if count == 0 {
                break;
            }
            hasher.update(&piece[..count]);
            done += count as u64;
            progress.add(count as u64);
        }
        if done != *bytes || hasher.finalize().to_hex().as_str() != hash {
            return Err(wrong("its bytes differ"));
        }
    }
    tell(&entries.left_out);
    Ok(())
}

/// Names the files of sessions that could not be copied.
fn tell(left_out: &LeftOut) {
    for not_copied in &left_out.named {
        // A name with a line break must not look like another line.
        let path = harmless(&not_copied.path.to_text()).replace('\n', "?");
        notice(&format!("not in the backup: {path}: {}", not_copied.reason));
    }
    let more = left_out.count.saturating_sub(left_out.named.len() as u64);
    if more > 0 {
        notice(&format!("not in the backup: {more} more files of sessions"));
    }
}

/// Creates a data directory from a backup's files; each is checked while it is copied.
pub fn restore(data: &Path, entries: &Entries, to: &Path, progress: &mut Progress) -> Result<(), String> {
    let mut links: HashMap<(u64, u64), PathBuf> = HashMap::new();
    // What is in a backup was let in.
    let mut holes = u64::MAX;
    for (path, entry) in entries.iter() {
        let failed = |error: io::Error| format!("{} cannot be restored: {error}", path.to_text());
        let place = below(to, path);
        match &entry.kind {
            Kind::Directory => DirBuilder::new().mode(0o700).create(&place).map_err(failed)?,
            Kind::Link { target } => {
                std::os::unix::fs::symlink(target.as_path(), &place).map_err(failed)?;
            }
            Kind::File { bytes, hash } => {
                let file = File::open(below(data, path)).map_err(failed)?;
                let about = file.metadata().map_err(failed)?;
                let key = (about.dev(), about.ino());
                if links.get(&key).is_some_and(|twin| fs::hard_link(twin, &place).is_ok()) {
                    continue;
                }
                let found = copy(&file, &about, &place, &mut holes, progress).map_err(failed)?;
                if found != (Kind::File { bytes: *bytes, hash: hash.clone() }) {
                    return Err(format!("{} is damaged in the backup; nothing was restored", path.to_text()));
                }
                if about.nlink() > 1 {
                    links.insert(key, place);
                }
            }
        }
    }
    // Deepest first: a directory may not be accessible, and its time changes when something is put into it.
    entries.iter().rev().try_for_each(|(path, entry)| {
        finish(&below(to, path), entry).map_err(|error| format!("{} cannot be restored: {error}", path.to_text()))
    })?;
    tell(&entries.left_out);
    Ok(())
}

fn finish(place: &Path, entry: &Entry) -> io::Result<()> {
    if !matches!(entry.kind, Kind::Link { .. }) {
        fs::set_permissions(place, Permissions::from_mode(entry.mode & MODE))?;
    }
    let (seconds, nanoseconds) = (entry.modified.div_euclid(NANOSECONDS), entry.modified.rem_euclid(NANOSECONDS));
    let times = Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        last_modification: Timespec { tv_sec: seconds, tv_nsec: nanoseconds },
    };
    Ok(utimensat(CWD, place, &times, AtFlags::SYMLINK_NOFOLLOW)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::mkdirat;
    use rustix::process::geteuid;
    use std::os::unix::fs::symlink;

    /// A data directory with a session's workspace, and where its copy goes.
    fn places(home: &Path) -> (PathBuf, PathBuf) {
        let (from, to) = (home.join("data"), home.join("backup"));
        fs::create_dir_all(from.join("workspaces/s")).unwrap();
        fs::create_dir(&to).unwrap();
        (from, to)
    }

    /// Files with several names were known by device and inode alone, for all passes: the second pass gave a file that was changed
    /// its old contents, and a file that got the number of a removed one the contents of that, another agent's.
    #[test]
    fn a_file_gets_the_contents_of_a_twin_only_if_it_is_one_now() {
        let home = tempfile::tempdir().unwrap();
        let (from, to) = places(home.path());
        let names = ["workspaces/s/a", "workspaces/s/b"];
        fs::write(from.join(names[0]), "old").unwrap();
        fs::hard_link(from.join(names[0]), from.join(names[1])).unwrap();
        let mut progress = Progress::new("copying");
        let mut copier = Copier::new(&from, &to, &mut progress);
        copier.pass().unwrap();
        fs::write(from.join(names[0]), "newer").unwrap();
        copier.pass().unwrap();
        for name in names {
            assert_eq!(fs::read_to_string(to.join(name)).unwrap(), "newer", "{name}");
        }
        let numbers = names.map(|name| fs::metadata(to.join(name)).unwrap().ino());
        assert_eq!(numbers[0], numbers[1], "it has two names there too");
        // As if the number of a file that is gone were that of this one.
        let (about, gone) = (fs::metadata(from.join(names[0])).unwrap(), fs::metadata(home.path()).unwrap());
        copier.links.insert((about.dev(), about.ino()), (Seen::of(&gone), to.join(names[0])));
        assert_eq!(copier.linked(&about, &to.join("c")), None);
        assert!(!to.join("c").exists());
    }

    /// Every file of a session whose name ended like that was missing, and nobody was told.
    #[test]
    fn only_the_stores_index_is_left_out() {
        let home = tempfile::tempdir().unwrap();
        let (from, to) = places(home.path());
        for name in ["shellkeep.db-shm", "workspaces/s/app.db-shm"] {
            fs::write(from.join(name), "index").unwrap();
        }
        let mut progress = Progress::new("copying");
        Copier::new(&from, &to, &mut progress).pass().unwrap();
        assert!(to.join("workspaces/s/app.db-shm").exists() && !to.join("shellkeep.db-shm").exists());
    }

    /// One such file of any session, and there was no backup of anybody.
    #[test]
    fn what_a_session_makes_that_cannot_be_copied_is_left_out_and_named() {
        let home = tempfile::tempdir().unwrap();
        let (from, to) = places(home.path());
        let work = from.join("workspaces/s");
        fs::write(work.join("whole"), "whole").unwrap();
        File::create(work.join("hollow")).unwrap().set_len(8 << 40).unwrap();
        // Longer than the kernel takes at once.
        let (name, flags) = ("x".repeat(200), OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC);
        let mut deep = openat(CWD, work.as_path(), flags, Mode::empty()).unwrap();
        for _ in 0..25 {
            mkdirat(&deep, name.as_str(), Mode::RWXU).unwrap();
            deep = openat(&deep, name.as_str(), flags, Mode::empty()).unwrap();
        }
        let mut expected = 2;
        // Root may read everything.
        if !geteuid().is_root() {
            fs::write(work.join("closed"), "closed").unwrap();
            fs::set_permissions(work.join("closed"), Permissions::from_mode(0o000)).unwrap();
            expected += 1;
        }
        let mut progress = Progress::new("copying");
        let mut copier = Copier::new(&from, &to, &mut progress);
        for _ in 0..2 {
            copier.pass().unwrap();
            assert_eq!(copier.entries.left_out.count, expected, "{:?}", copier.entries.left_out);
        }
        let named = &copier.entries.left_out.named;
        assert!(named.iter().any(|left| left.path == ByteString::from("workspaces/s/hollow")), "{named:?}");
        assert_eq!(fs::read_to_string(to.join("workspaces/s/whole")).unwrap(), "whole");
        assert!(!to.join("workspaces/s/hollow").exists());
        let entries = std::mem::take(&mut copier.entries);
        check(&to, &entries, &mut progress).unwrap();
    }

    /// The daemon's own files are all there, or there is no backup.
    #[test]
    fn only_sessions_may_have_files_that_cannot_be_copied() {
        for (path, is_sessions) in [
            ("token", false),
            ("workspaces", false),
            ("outputs/s/r1.stdout", false),
            ("workspaces/s", true),
            ("homes/s/tmp/f", true),
        ] {
            assert_eq!(is_of_session(&path.into()), is_sessions, "{path}");
        }
        assert_eq!(directory_of_session(&"workspaces/s/d/f".into()), b"workspaces/s");
    }

    #[test]
    fn what_sessions_put_in_the_place_of_a_directory_is_not_followed() {
        let home = tempfile::tempdir().unwrap();
        let at = |name: &str| home.path().join(name);
        for directory in ["data/workspaces/s/d/e", "victim/e", "backup"] {
            fs::create_dir_all(at(directory)).unwrap();
        }
        for file in ["victim/f", "victim/e/f"] {
            fs::write(at(file), "secret").unwrap();
        }
        fs::write(at("data/workspaces/s/d/f"), "own").unwrap();
        let (from, to, mut progress) = (at("data"), at("backup"), Progress::new("copying"));
        let mut copier = Copier::new(&from, &to, &mut progress);
        copier.pass().unwrap();
        assert_eq!(fs::read_to_string(at("backup/workspaces/s/d/f")).unwrap(), "own");
        // Between a look at the directory and one at what is in it.
        fs::rename(at("data/workspaces/s/d"), at("data/workspaces/s/away")).unwrap();
        symlink(at("victim"), at("data/workspaces/s/d")).unwrap();
        for path in ["workspaces/s/d/f", "workspaces/s/d/e", "workspaces/s/d/e/f"] {
            let mut seen = BTreeSet::new();
            copier.visit(ByteString::from(path), &mut seen).unwrap();
            assert!(seen.is_empty(), "{path}: {seen:?}");
        }
        assert!(names(&from, Path::new("workspaces/s/d")).unwrap().is_empty());
        copier.pass().unwrap();
        assert!(at("backup/workspaces/s/away/f").exists() && !at("backup/workspaces/s/d").exists());
        assert!(matches!(copier.entries[&ByteString::from("workspaces/s/d")].kind, Kind::Link { .. }));
    }
}
