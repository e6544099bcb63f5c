//! The part of the journal that a failed sync covered.

use crate::line;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

/// A place in a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Extent {
    /// Bytes before it.
    pub bytes: u64,
    /// Lines before it, without the header.
    pub lines: u64,
}

/// A part of a segment that may not be on disk.
#[derive(Clone)]
pub(super) struct Stretch {
    pub number: u64,
    pub file: Arc<File>,
    /// Everything before it is on disk.
    pub from: Extent,
    pub to: Extent,
}

impl Stretch {
    /// Its lines, as they were written. Data that the kernel has dropped cannot be read back.
    pub(super) fn lines(&self) -> io::Result<Vec<Vec<u8>>> {
        let mut bytes = vec![0; usize::try_from(self.to.bytes - self.from.bytes).unwrap_or(0)];
        self.file.read_exact_at(&mut bytes, self.from.bytes)?;
        let gone = || io::Error::other("what was written since the last sync cannot be read back");
        let lines = bytes.split_inclusive(|byte| *byte == b'\n');
        lines.map(|line| line.strip_suffix(b"\n").and_then(line::bare).ok_or_else(gone)).collect()
    }
}
