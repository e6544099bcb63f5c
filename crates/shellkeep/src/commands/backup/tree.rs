//! Copies a data directory to a backup in two passes: the first copies everything while the daemon runs, the second
//! only what has changed since, while the daemon pauses writes. Also restores and verifies.

use super::manifest::{Entries, Entry, Kind};
use crate::noted;
use crate::terminal::Progress;
use rustix::fd::{AsRawFd as _, OwnedFd};
use rustix::fs::{
    AtFlags, CWD, Mode, OFlags, ResolveFlags, Timespec, Timestamps, UTIME_OMIT, openat, openat2, utimensat,
};
use rustix::io::Errno;
use shellkeep_session::ByteString;
use std::collections::{BTreeSet, HashMap};
use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// Bytes that are copied at a time.
const PIECE: usize = 256 << 10;
/// Not part of a backup: the lock, where the daemon listens, and what belongs to running commands.
const SKIPPED: [&str; 3] = ["lock", noted::NAME, "scratch"];
/// SQLite's index of its log; recreated when it is missing.
const SKIPPED_ENDING: &[u8] = b"-shm";
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
    /// Files with several names, by device and inode.
    links: HashMap<(u64, u64), PathBuf>,
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
        let (entries, copied, links) = (Entries::new(), HashMap::new(), HashMap::new());
        Self { from, to, entries, copied, links, left_out: 0, progress }
    }

    /// Copies what is new or was changed, and removes from the copy what is gone.
    pub fn pass(&mut self) -> io::Result<()> {
        self.left_out = 0;
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

    fn visit(&mut self, path: ByteString, seen: &mut BTreeSet<ByteString>) -> io::Result<()> {
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
        } else if !about.is_file() || path.as_bytes().ends_with(SKIPPED_ENDING) {
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
            let mut file = match opened {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                // A link by now.
                Err(error) if error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) => return Ok(()),
                other => other?,
            };
            if !file.metadata()?.is_file() {
                return Ok(());
            }
            let place = below(self.to, &path);
            let twin = self.links.get(&(about.dev(), about.ino())).filter(|_| about.nlink() > 1);
            let kind = match twin.and_then(|twin| self.linked(twin, &place)) {
                Some(kind) => kind,
                None => copy(&mut file, about.len(), &place, self.progress)?,
            };
            if about.nlink() > 1 {
                self.links.insert((about.dev(), about.ino()), place);
            }
            self.entries.insert(path.clone(), Entry { mode: about.mode() & MODE, modified: modified(about), kind });
            self.copied.insert(path.clone(), Seen::of(about));
        }
        seen.insert(path);
        Ok(())
    }

    /// Another name (hard link) of a file that has been copied.
    fn linked(&self, twin: &Path, place: &Path) -> Option<Kind> {
        let name = twin.strip_prefix(self.to).ok()?;
        let kind = self.entries.get(&ByteString(name.as_os_str().as_bytes().to_vec()))?.kind.clone();
        fs::hard_link(twin, place).ok().map(|()| kind)
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

/// Copies this many bytes of a file that may be growing.
fn copy(from: &mut File, bytes: u64, to: &Path, progress: &mut Progress) -> io::Result<Kind> {
    let mut out = OpenOptions::new().write(true).create_new(true).mode(0o600).open(to)?;
    let (mut hasher, mut piece, mut done) = (blake3::Hasher::new(), vec![0; PIECE], 0);
    let mut from = from.take(bytes);
    loop {
        let count = from.read(&mut piece)?;
        if count == 0 {
            break;
        }
        out.write_all(&piece[..count])?;
        hasher.update(&piece[..count]);
        done += count as u64;
        progress.add(count as u64);
    }
    Ok(Kind::File { bytes: done, hash: hasher.finalize().to_hex().to_string() })
}

/// Reads every file of a backup again; returns the first that does not match the manifest.
pub fn check(data: &Path, entries: &Entries, progress: &mut Progress) -> Result<(), String> {
    let mut piece = vec![0; PIECE];
    for (path, entry) in entries {
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
    Ok(())
}

/// Creates a data directory from a backup's files; each is checked while it is copied.
pub fn restore(data: &Path, entries: &Entries, to: &Path, progress: &mut Progress) -> Result<(), String> {
    let mut links: HashMap<(u64, u64), PathBuf> = HashMap::new();
    for (path, entry) in entries {
        let failed = |error: io::Error| format!("{} cannot be restored: {error}", path.to_text());
        let place = below(to, path);
        match &entry.kind {
            Kind::Directory => DirBuilder::new().mode(0o700).create(&place).map_err(failed)?,
            Kind::Link { target } => {
                std::os::unix::fs::symlink(target.as_path(), &place).map_err(failed)?;
            }
            Kind::File { bytes, hash } => {
                let mut file = File::open(below(data, path)).map_err(failed)?;
                let about = file.metadata().map_err(failed)?;
                let key = (about.dev(), about.ino());
                if links.get(&key).is_some_and(|twin| fs::hard_link(twin, &place).is_ok()) {
                    continue;
                }
                let found = copy(&mut file, u64::MAX, &place, progress).map_err(failed)?;
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
    })
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
    use std::os::unix::fs::symlink;

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
