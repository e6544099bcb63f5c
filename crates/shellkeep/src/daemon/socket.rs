//! Opens the daemon's socket. One daemon at a time does that in a directory: of two that start together, the second must find
//! the socket of the first, and not replace what it took for that of a dead daemon.

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use shellkeep_server::{BindError, bind_unix};
use std::fs::File;
use std::path::Path;
use std::time::Duration;
use tokio::net::UnixListener;

/// How often, and how many times, to look whether another daemon has opened its socket, which takes milliseconds. Somebody else
/// who has locked the directory for longer does not prevent a start.
const STEP: Duration = Duration::from_millis(10);
const LOOKS: u32 = 200;

/// Opens a socket, unless a live daemon has it.
pub(super) async fn open(path: &Path) -> Result<UnixListener, BindError> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let _turn = turn(directory).await;
    bind_unix(path)
}

/// The turn in a directory, which ends with the file. It is a lock on the directory itself, so that nothing is left behind.
/// `None` if there is none to be had.
async fn turn(directory: &Path) -> Option<File> {
    let file = File::open(directory).ok()?;
    for _ in 0..LOOKS {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Some(file),
            Err(Errno::WOULDBLOCK) => tokio::time::sleep(STEP).await,
            // Some file systems have no locks for directories.
            Err(_) => return None,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bug: both looked before either had bound, and the second took the path from the first, which went on unreachable.
    #[tokio::test]
    async fn of_two_daemons_that_start_together_the_second_finds_the_first() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("k.sock");
        let first = turn(directory.path()).await.expect("nobody else has it");
        let binding = async {
            let listener = bind_unix(&path).unwrap();
            drop(first);
            listener
        };
        let (second, _listener) = tokio::join!(open(&path), binding);
        assert!(matches!(second, Err(BindError::SocketInUse { .. })));
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1, "nothing but the socket");
    }
}
