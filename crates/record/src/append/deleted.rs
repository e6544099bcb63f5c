//! Where the recording of a session goes that its agent deleted. The session is gone; what it did is not.

use super::snapshot;
use crate::heads;
use crate::marks;
use crate::private::make_directory;
use crate::read::{segment_name, segments};
use crate::scrub;
use std::fs;
use std::io;
use std::path::Path;

/// The directory of the recording, in the directory of a removed session.
pub const RECORDING: &str = "recording";

/// The same while files are being moved.
const UNFINISHED: &str = "recording.part";

/// Whether a recording was moved there.
pub(super) fn is_filled(kept: &Path) -> bool {
    kept.join(RECORDING).exists()
}

/// Moves a recording's files. After a crash it may be called again: what was moved stays, and the rest follows. Others may
/// have files in the directory, so it is not moved as a whole.
pub(super) fn fill(directory: &Path, kept: &Path) -> io::Result<()> {
    let unfinished = kept.join(UNFINISHED);
    make_directory(&unfinished)?;
    let names = segments(directory)?.into_iter().map(segment_name);
    for name in names.chain([heads::NAME.to_owned(), snapshot::NAME.to_owned()]) {
        let (from, to) = (directory.join(&name), unfinished.join(&name));
        let moved = if to.exists() { fs::remove_file(&from) } else { fs::rename(&from, &to) };
        match moved {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            moved => moved?,
        }
    }
    scrub::remove_leftovers(directory)?;
    marks::remove(directory)?;
    let _ = fs::remove_dir(directory);
    fs::rename(unfinished, kept.join(RECORDING))
}
