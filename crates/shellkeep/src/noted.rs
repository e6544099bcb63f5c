//! Where the daemon of a data directory listens, if its socket is elsewhere: it notes that in the directory, and clients that
//! know only the directory find it.

use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// The file in the data directory: the daemon's process id and the socket's path.
pub const NAME: &str = "listening.txt";
/// What becomes that file.
const DRAFT: &str = "listening.txt.tmp";

/// The usual place of a data directory's socket.
pub fn usual(data: &Path) -> PathBuf {
    data.join("shellkeep.sock")
}

/// Notes where this daemon listens, which has the directory's lock.
pub fn write(data: &Path, socket: &Path) -> io::Result<()> {
    if socket == usual(data) {
        return remove(data);
    }
    let draft = data.join(DRAFT);
    if socket == draft || socket == data.join(NAME) {
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, "the socket has the name of the note"));
    }
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
    file.set_permissions(Permissions::from_mode(0o600))?;
    file.write_all(&[format!("{} ", std::process::id()).as_bytes(), socket.as_os_str().as_bytes()].concat())?;
    fs::rename(&draft, data.join(NAME))
}

/// Forgets it.
pub fn remove(data: &Path) -> io::Result<()> {
    match fs::remove_file(data.join(NAME)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Where the daemon of this directory listens, if it runs and has noted that. A daemon that was killed leaves its note, and a
/// copy of the directory has the original's, but in neither does that process have the lock.
pub fn read(data: &Path) -> Option<PathBuf> {
    let mut note = fs::read(data.join(NAME)).ok()?;
    let space = note.iter().position(|byte| *byte == b' ')?;
    let socket = note.split_off(space + 1);
    let pid: u32 = std::str::from_utf8(&note[..space]).ok()?.parse().ok()?;
    let lock = fs::metadata(data.join("lock")).ok()?.ino();
    let locks = fs::read_to_string("/proc/locks").ok()?;
    let socket = PathBuf::from(std::ffi::OsString::from_vec(socket));
    has_lock(&locks, pid, lock).then_some(socket)
}

/// Whether a process has the lock of a file, as `/proc/locks` shows it: `1: FLOCK  ADVISORY  WRITE 7 fe:00:9 0 EOF`. The
/// device is not compared: some file systems show another there than `stat` does.
fn has_lock(locks: &str, pid: u32, file: u64) -> bool {
    let (pid, file) = (pid.to_string(), file.to_string());
    let is_it = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let inode = words.get(5).and_then(|word| word.rsplit(':').next());
        (words.get(1), words.get(4), inode) == (Some(&"FLOCK"), Some(&pid.as_str()), Some(file.as_str()))
    };
    locks.lines().any(is_it)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{FlockOperation, flock};
    use std::fs::File;
    use std::os::unix::net::{UnixListener, UnixStream};

    #[test]
    fn only_a_daemon_that_runs_there_is_found() {
        let home = tempfile::tempdir().unwrap();
        let [data, copy] = ["data", "copy"].map(|name| home.path().join(name));
        [&data, &copy].iter().for_each(|directory| fs::create_dir(directory).unwrap());
        let socket = home.path().join("a b.sock");
        fs::write(data.join("lock"), "").unwrap();
        write(&data, &socket).unwrap();
        assert_eq!(read(&data), None, "nobody has the lock");
        let lock = File::open(data.join("lock")).unwrap();
        flock(&lock, FlockOperation::LockExclusive).unwrap();
        assert_eq!(read(&data), Some(socket.clone()));
        for name in ["lock", NAME] {
            fs::copy(data.join(name), copy.join(name)).unwrap();
        }
        assert_eq!(read(&copy), None, "a copy is not the original");
        fs::write(data.join(NAME), format!("1 {}", socket.display())).unwrap();
        assert_eq!(read(&data), None, "of an earlier daemon");
        write(&data, &usual(&data)).unwrap();
        assert!(!data.join(NAME).exists(), "where everybody looks needs no note");
    }

    /// `serve --data D --socket D/socket` wrote its note over its own socket.
    #[test]
    fn a_socket_in_the_data_directory_is_kept() {
        let data = tempfile::tempdir().unwrap();
        for (name, is_noted) in [("socket", true), ("socket.tmp", true), (NAME, false), (DRAFT, false)] {
            let socket = data.path().join(name);
            let _listener = UnixListener::bind(&socket).unwrap();
            assert_eq!(write(data.path(), &socket).is_ok(), is_noted, "{name}");
            UnixStream::connect(&socket).unwrap_or_else(|error| panic!("{name}: {error}"));
            remove(data.path()).unwrap();
        }
    }

    #[test]
    fn a_lock_is_of_one_process_and_file() {
        let locks = "1: FLOCK  ADVISORY  WRITE 7 fe:00:9 0 EOF\n1: -> FLOCK  ADVISORY  WRITE 8 fe:00:9 0 EOF\n\
            2: POSIX  ADVISORY  READ 7 fe:00:10 0 EOF\n";
        let found = [(7, 9), (8, 9), (7, 10), (7, 99)].map(|(pid, file)| has_lock(locks, pid, file));
        assert_eq!(found, [true, false, false, false]);
    }
}
