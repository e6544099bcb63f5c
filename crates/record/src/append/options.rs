//! How recordings are written.

use crate::mask::Masker;
use crate::sign::Signer;
use rustix::process::{Resource, getrlimit};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// A file is closed at this size, and the next begins: small enough for any editor and any mail, large enough that a session
/// seldom has two.
pub const SEGMENT_BYTES: u64 = 100_000_000;

/// Files that are kept open. A session that is not among them is opened anew, which reads its last line, and is signed
/// when it is closed: with 256 files and 1,000 busy sessions that took a fifth of the processor.
const OPEN_FILES: usize = 4096;
/// And no more than this part of the descriptors that the process may have: shells and connections need them too.
const PART_OF_DESCRIPTORS: usize = 8;
/// But a few in any case.
const FEWEST_OPEN_FILES: usize = 4;

/// Called before each write; what it says goes for what the disk said. For tests.
pub type BeforeWrite = Arc<dyn Fn() -> io::Result<()> + Send + Sync>;

/// How recordings are written.
#[derive(Clone)]
pub struct RecorderOptions {
    /// A line that would make a file longer than this begins the next file.
    pub segment_bytes: u64,
    /// Files that are kept open.
    pub open_files: usize,
    /// The directory that has, for each session, a directory with its long outputs.
    pub outputs: Option<PathBuf>,
    /// The directory in which sessions that their agents removed have one each, for their recordings. Without it those are
    /// removed too.
    pub deleted: Option<PathBuf>,
    /// Masks fields before they are written. What it masks was never recorded, so nothing shows that it is missing.
    pub masker: Option<Masker>,
    /// Makes writes fail.
    pub before_write: Option<BeforeWrite>,
    /// Signs how far recordings have come; nothing is signed without it.
    pub signer: Option<Arc<Signer>>,
}

impl Default for RecorderOptions {
    fn default() -> Self {
        let segment_bytes = SEGMENT_BYTES;
        Self {
            segment_bytes,
            open_files: open_files(),
            outputs: None,
            deleted: None,
            masker: None,
            before_write: None,
            signer: None,
        }
    }
}

/// How many files may be kept open, by the limit of descriptors of this process.
fn open_files() -> usize {
    let soft = getrlimit(Resource::Nofile).current.and_then(|soft| usize::try_from(soft).ok());
    soft.map_or(OPEN_FILES, |soft| (soft / PART_OF_DESCRIPTORS).clamp(FEWEST_OPEN_FILES, OPEN_FILES))
}
