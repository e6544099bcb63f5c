//! The turn to start a daemon on a data directory. One process at a time has it, by a lock on a file there.

use rustix::fs::{FlockOperation, flock, fstat, stat};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// The lock. It ends with the file, however we end.
pub struct StartTurn(File);

impl StartTurn {
    /// Waits for the turn. The data directory is made if there is none.
    pub async fn take(data: &Path) -> io::Result<Self> {
        let data = data.to_owned();
        let lock = move || {
            DirBuilder::new().recursive(true).mode(0o700).create(&data)?;
            let mut options = OpenOptions::new();
            let file = options.write(true).create(true).truncate(false).mode(0o600).open(path(&data))?;
            flock(&file, FlockOperation::LockExclusive)?;
            Ok(Self(file))
        };
        tokio::task::spawn_blocking(lock).await.map_err(io::Error::other)?
    }

    /// As the standard input of the daemon that this process becomes: so the turn stays taken in between, and a daemon
    /// reads no input. [`StartTurn::end_inherited`] ends it.
    pub fn into_stdin(self) -> Stdio {
        self.0.into()
    }

    /// Ends the turn that this daemon got as its standard input, if it got one.
    pub fn end_inherited(data: &Path) -> io::Result<()> {
        let (Ok(input), Ok(lock)) = (fstat(rustix::stdio::stdin()), stat(path(data))) else { return Ok(()) };
        if (input.st_dev, input.st_ino) == (lock.st_dev, lock.st_ino) {
            rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
        }
        Ok(())
    }
}

fn path(data: &Path) -> PathBuf {
    data.join("start.lock")
}
