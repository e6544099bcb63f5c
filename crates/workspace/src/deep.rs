//! Going through directories that somebody else made, nested as deep as he likes. No step is a call within a call and no
//! path is put together, so neither a thread's stack, nor the descriptors of this process, nor the length of a path is a
//! limit: of the directories on the way down only the first are held open, and the way back from the others is their `..`.

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, fstat, openat, statat, unlinkat};
use rustix::io::Errno;
use std::ffi::{CStr, CString};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// How many directories on the way down stay open.
const HELD: usize = 64;
/// To list a directory: itself, not what a link of its name points to.
const LISTED: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// To name things in a directory.
const NAMED: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// The way down to a directory.
#[derive(Debug, Default)]
pub(crate) struct Descent {
    levels: Vec<Level>,
}

/// A directory on the way down.
#[derive(Debug)]
struct Level {
    /// None while we are further down than is held.
    place: Option<OwnedFd>,
    /// Its device and inode.
    is: (u64, u64),
    /// In the one above.
    name: CString,
    /// Directories in it that were not gone to yet.
    waiting: Vec<CString>,
}

impl Descent {
    /// Goes into a directory, in which these are to be gone to.
    pub fn enter(&mut self, place: OwnedFd, name: CString, waiting: Vec<CString>) -> Result<(), Errno> {
        let about = fstat(&place)?;
        if self.levels.len() > HELD
            && let Some(above) = self.levels.last_mut()
        {
            above.place = None;
        }
        self.levels.push(Level { place: Some(place), is: (about.st_dev, about.st_ino), name, waiting });
        Ok(())
    }

    /// The next directory to go to, in the one that we are in. None if there is none left here.
    pub fn next(&mut self) -> Option<(BorrowedFd<'_>, CString)> {
        let level = self.levels.last_mut()?;
        let place = level.place.as_ref()?;
        Some((place.as_fd(), level.waiting.pop()?))
    }

    /// The directory that we are in. None before the first and after it.
    pub fn place(&self) -> Option<BorrowedFd<'_>> {
        self.levels.last()?.place.as_ref().map(AsFd::as_fd)
    }

    /// Goes back to the directory above; returns the name of the one that was left, or none if we are in none. An error if
    /// it was moved elsewhere since we went in: then we are in the nearest one above that is held.
    pub fn leave(&mut self) -> Result<Option<CString>, Errno> {
        let Some(left) = self.levels.pop() else { return Ok(None) };
        if let (Some(above), Some(place)) = (self.levels.last_mut(), &left.place)
            && above.place.is_none()
        {
            match back(place, above.is) {
                Ok(opened) => above.place = Some(opened),
                Err(error) => {
                    self.levels.truncate(HELD);
                    return Err(error);
                }
            }
        }
        Ok(Some(left.name))
    }
}

/// Opens what a directory is in, if that is still what it was.
fn back(place: &OwnedFd, is: (u64, u64)) -> Result<OwnedFd, Errno> {
    let above = openat(place, c"..", NAMED, Mode::empty())?;
    let about = fstat(&above)?;
    if (about.st_dev, about.st_ino) == is { Ok(above) } else { Err(Errno::STALE) }
}

/// Opens a directory in another one, to list it.
pub(crate) fn open_listed(above: BorrowedFd<'_>, name: &CStr) -> Result<OwnedFd, Errno> {
    openat(above, name, LISTED, Mode::empty())
}

/// Removes a directory with everything in it, or a link, as [`std::fs::remove_dir_all`] does, which calls itself for each
/// directory within another and overflows the stack of its thread after some thousands of them.
pub fn remove_all(path: &Path) -> io::Result<()> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let above = path.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let above = openat(CWD, above, NAMED, Mode::empty())?;
    Ok(remove_at(above.as_fd(), name.as_bytes())?)
}

/// The same for a name in an open directory.
pub(crate) fn remove_at(above: BorrowedFd<'_>, name: &[u8]) -> Result<(), Errno> {
    let name = CString::new(name).map_err(|_| Errno::INVAL)?;
    let about = statat(above, &name, AtFlags::SYMLINK_NOFOLLOW)?;
    if FileType::from_raw_mode(about.st_mode) == FileType::Symlink {
        return unlinkat(above, &name, AtFlags::empty());
    }
    let (place, waiting) = open_emptied(above, &name)?;
    let mut descent = Descent::default();
    descent.enter(place, name, waiting)?;
    loop {
        let Some((here, next)) = descent.next() else {
            let Some(left) = descent.leave()? else { return Ok(()) };
            match unlinkat(descent.place().unwrap_or(above), &left, AtFlags::REMOVEDIR) {
                Ok(()) | Err(Errno::NOENT) => continue,
                Err(error) => return Err(error),
            }
        };
        match open_emptied(here, &next) {
            Ok((place, waiting)) => descent.enter(place, next, waiting)?,
            // Somebody else removed it.
            Err(Errno::NOENT) => {}
            // Somebody put something else in its place.
            Err(Errno::NOTDIR | Errno::LOOP) => unlinkat(here, &next, AtFlags::empty())?,
            Err(error) => return Err(error),
        }
    }
}

/// Opens a directory and removes what is in it but directories, which are returned.
fn open_emptied(above: BorrowedFd<'_>, name: &CStr) -> Result<(OwnedFd, Vec<CString>), Errno> {
    let place = open_listed(above, name)?;
    let mut directories = Vec::new();
    for entry in Dir::read_from(&place)? {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        if entry.file_type() == FileType::Directory {
            directories.push(name.to_owned());
            continue;
        }
        match unlinkat(&place, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            // Some file systems do not say what it is.
            Err(Errno::ISDIR) => directories.push(name.to_owned()),
            Err(error) => return Err(error),
        }
    }
    Ok((place, directories))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::thread;

    /// Less than any thread has in which trees are walked.
    const SMALL_STACK: usize = 128 << 10;

    /// Makes directories of this name within each other, and a file in the last one.
    pub(crate) fn nest(top: &Path, name: &str, levels: usize) {
        let mut place = openat(CWD, top, NAMED, Mode::empty()).unwrap();
        for _ in 0..levels {
            rustix::fs::mkdirat(&place, name, Mode::RWXU).unwrap();
            place = openat(&place, name, NAMED, Mode::empty()).unwrap();
        }
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::CLOEXEC;
        let file = openat(&place, "file", flags, Mode::RUSR).unwrap();
        io::Write::write_all(&mut std::fs::File::from(file), &vec![1; 1 << 20]).unwrap();
    }

    /// The standard library's removal overflowed the stack, which ended the daemon, and the next one at its start, because
    /// it completes the removal.
    #[test]
    fn directories_are_removed_however_deep_they_are() {
        let home = tempfile::tempdir().unwrap();
        for (name, levels) in [("d".to_owned(), 20_000), ("n".repeat(250), 100), ("few".to_owned(), HELD + 2)] {
            let top = home.path().join("top");
            fs::create_dir(&top).unwrap();
            nest(&top, &name, levels);
            fs::rename(top.join(&name), top.join("beside")).unwrap();
            nest(&top, &name, levels);
            symlink(home.path(), top.join("link")).unwrap();
            let removal = move || {
                remove_all(&top).unwrap();
                top.exists()
            };
            let thread = thread::Builder::new().stack_size(SMALL_STACK).spawn(removal).unwrap();
            assert!(!thread.join().unwrap(), "{levels}");
        }
        assert!(home.path().exists());
    }

    #[test]
    fn a_link_is_removed_and_a_file_is_not() {
        let home = tempfile::tempdir().unwrap();
        let at = |name: &str| home.path().join(name);
        fs::create_dir(at("kept")).unwrap();
        fs::write(at("kept/file"), "x").unwrap();
        symlink(at("kept"), at("link")).unwrap();
        remove_all(&at("link")).unwrap();
        assert!(at("kept/file").exists() && !at("link").is_symlink());
        assert!(remove_all(&at("kept/file")).is_err());
        assert_eq!(remove_all(&at("none")).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(remove_all(&at("none/either")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    /// Whoever is moved while we are in it does not lead us elsewhere.
    #[test]
    fn the_way_back_is_the_way_that_was_gone() {
        let home = tempfile::tempdir().unwrap();
        nest(home.path(), "d", HELD + 4);
        let mut descent = Descent::default();
        let top = openat(CWD, home.path(), LISTED, Mode::empty()).unwrap();
        descent.enter(top, c"top".to_owned(), vec![c"d".to_owned()]).unwrap();
        let mut deepest = home.path().to_owned();
        while descent.levels.len() < HELD + 4 {
            let (here, next) = descent.next().unwrap();
            let place = open_listed(here, &next).unwrap();
            deepest.push("d");
            descent.enter(place, next, vec![c"d".to_owned()]).unwrap();
        }
        assert_eq!(descent.levels.iter().filter(|level| level.place.is_some()).count(), HELD + 1);
        fs::rename(&deepest, home.path().join("moved")).unwrap();
        assert_eq!(descent.leave(), Err(Errno::STALE));
        assert_eq!(descent.levels.len(), HELD);
        assert!(descent.place().is_some());
    }
}
