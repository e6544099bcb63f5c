//! Locks: the directory against a second daemon, by a lock that the kernel releases when its holder dies, and mutexes.

use crate::error::OpenError;
use rustix::fs::{FlockOperation, flock};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{Read as _, Seek as _, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A killed daemon may leave a child that was being started and holds the lock a little longer. How long and how
/// often to retry, if the daemon itself is gone.
const DYING_STEP: Duration = Duration::from_millis(10);
const DYING_LOOKS: u32 = 200;

fn is_gone(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(") ").map(|(_, rest)| rest.as_bytes().first().copied());
    matches!(state, None | Some(None | Some(b'Z' | b'X')))
}

/// Takes the lock, or returns who holds it. It is held until the file is dropped.
pub(crate) fn take(path: &Path) -> Result<File, OpenError> {
    let not_writable = |error: std::io::Error| OpenError::not_writable(path, &error);
    let mut file =
        OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).map_err(not_writable)?;
    let mut holder = String::new();
    // Without a readable pid the message is poorer, the refusal is the same.
    let _ = file.read_to_string(&mut holder);
    let holder: Option<u32> = holder.trim().parse().ok();
    let mut patience = DYING_LOOKS;
    loop {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => break,
            Err(rustix::io::Errno::WOULDBLOCK) if patience > 0 && holder.is_some_and(is_gone) => {
                patience -= 1;
                std::thread::sleep(DYING_STEP);
            }
            Err(rustix::io::Errno::WOULDBLOCK) => {
                return Err(OpenError::Locked { path: path.to_owned(), pid: holder });
            }
            Err(error) => return Err(not_writable(error.into())),
        }
    }
    file.rewind().map_err(not_writable)?;
    file.set_len(0).map_err(not_writable)?;
    writeln!(file, "{}", std::process::id()).map_err(not_writable)?;
    Ok(file)
}

/// Creates a directory that only its owner may enter, since variables and output contain secrets. An existing one is
/// not changed.
pub(crate) fn private_directory(path: &Path) -> std::io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Locks a mutex even if another thread panicked while it held it: every statement leaves the value consistent.
pub(crate) fn hold<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
