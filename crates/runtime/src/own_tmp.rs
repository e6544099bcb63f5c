//! What a session has put into its own `/tmp` where its room needs a directory. A room is entered without following links, so
//! such a session gets no shell until it is removed.

use std::fs;
use std::path::{Path, PathBuf};

/// Where a room has the session's own directory for temporary files.
const PLACES: [&str; 2] = ["/tmp", "/var/tmp"];

/// What is in the way.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct InTheWay {
    /// Where it is for the session.
    pub(crate) path: PathBuf,
    /// Where it is for others.
    pub(crate) outside: PathBuf,
    pub(crate) found: &'static str,
}

/// The first of what is in the way of these directories and files, which a room has at the same paths as the machine. `tmp` is
/// the session's.
pub(crate) fn find<'a>(tmp: &Path, directories: impl IntoIterator<Item = &'a Path>) -> Option<InTheWay> {
    directories.into_iter().find_map(|directory| {
        let place = PLACES.iter().map(Path::new).find(|place| directory.starts_with(place))?;
        let (mut path, mut outside) = (place.to_owned(), tmp.to_owned());
        for name in directory.strip_prefix(place).ok()? {
            path.push(name);
            outside.push(name);
            let found = match fs::symlink_metadata(&outside).ok()?.file_type() {
                kind if kind.is_dir() => continue,
                // A room needs a file where it gets one of the machine's.
                kind if kind.is_file() && path == *directory && directory.is_file() => continue,
                kind if kind.is_symlink() => "a symbolic link",
                _ => "a file",
            };
            return Some(InTheWay { path, outside, found });
        }
        None
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_that_is_no_directory_is_in_the_way() {
        let tmp = tempfile::tempdir().unwrap();
        let at = |name: &str| tmp.path().join(name);
        fs::create_dir_all(at("a/b")).unwrap();
        fs::write(at("a/file"), "").unwrap();
        std::os::unix::fs::symlink("/", at("a/link")).unwrap();
        let look = |directory: &str| find(tmp.path(), [Path::new("/usr/share"), Path::new(directory)]);
        for fine in ["/tmp", "/tmp/a", "/tmp/a/b", "/var/tmp/a/b/missing/more", "/home/a/link", "/tmpa/link"] {
            assert_eq!(look(fine), None, "{fine}");
        }
        for (directory, path, found) in [
            ("/tmp/a/link/usr/share", "/tmp/a/link", "a symbolic link"),
            ("/var/tmp/a/link", "/var/tmp/a/link", "a symbolic link"),
            ("/tmp/a/file/x", "/tmp/a/file", "a file"),
        ] {
            let outside = at(path.rsplit_once("tmp/").unwrap().1);
            assert_eq!(look(directory), Some(InTheWay { path: path.into(), outside, found }));
        }
        // The machine's own file, where the room needs a file to mount it on.
        let shared = tempfile::Builder::new().tempfile_in("/tmp").unwrap();
        let name = shared.path().file_name().unwrap();
        fs::write(tmp.path().join(name), "").unwrap();
        assert_eq!(find(tmp.path(), [shared.path()]), None);
        fs::remove_file(shared.path()).unwrap();
        fs::create_dir(shared.path()).unwrap();
        assert_eq!(find(tmp.path(), [shared.path()]).unwrap().found, "a file");
        fs::remove_dir(shared.path()).unwrap();
    }
}
