//! Files and directories that only their owner may read: variables and output hold secrets.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

/// Permissions of directories.
const DIRECTORY_MODE: u32 = 0o700;

/// Permissions of files.
pub(crate) const FILE_MODE: u32 = 0o600;

/// Makes a directory with its parents. One that is there stays as it is.
pub(crate) fn make_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(DIRECTORY_MODE).create(path)
}

/// Makes a directory, and none of its parents: where the data directory was removed, nothing of it comes back by itself.
pub(crate) fn make_last_directory(path: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(DIRECTORY_MODE).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

/// Opens a file for reading and appending, and makes it if it is not there.
pub(crate) fn open_to_append(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).append(true).create(true).mode(FILE_MODE).open(path)
}

/// Opens a file for writing, empty, and makes it if it is not there.
pub(crate) fn open_empty(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(true).mode(FILE_MODE).open(path)
}
