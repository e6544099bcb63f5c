//! What a repository takes on the disk, and when it has too many files.

use super::gathered::Written;
use super::{Repo, Result};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::PoisonError;

/// More loose objects than this are packed: each takes a block, and looking for one takes a call.
const LOOSE_OBJECTS_MOST: u64 = 2048;

/// More packs than this are merged: every object that is looked for may be looked for in each.
const PACKS_MOST: u64 = 24;

/// More loose refs than this are put into one file.
const LOOSE_REFS_MOST: u64 = 1024;

/// The least that a file takes.
const BLOCK: u64 = 4096;

/// What is there.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Use {
    bytes: u64,
    loose_objects: u64,
    packs: u64,
    pub(super) loose_refs: u64,
}

impl Use {
    /// Counts what was written since.
    pub(super) fn add(&mut self, written: Written) {
        // Half a block is lost in each file on average; the next look counts exactly.
        self.bytes += written.bytes + written.loose * BLOCK / 2;
        self.loose_objects += written.loose;
        self.packs += written.packs;
    }
}

impl Repo {
    /// Bytes on the disk. Looks once, then counts along. What a fork shares is counted in both.
    pub fn size(&self) -> u64 {
        self.used().map_or(0, |used| used.bytes)
    }

    /// Whether so many files have gathered that [`Repo::gather`] would help.
    pub fn needs_compaction(&self) -> bool {
        self.used().is_ok_and(|used| {
            used.loose_objects > LOOSE_OBJECTS_MOST || used.packs > PACKS_MOST || used.loose_refs > LOOSE_REFS_MOST
        })
    }

    /// What is there, looked at once.
    pub(super) fn used(&self) -> Result<Use> {
        let mut known = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(used) = *known {
            return Ok(used);
        }
        let used = Use {
            bytes: bytes_below(&self.directory),
            loose_objects: self.objects.loose()?.len() as u64,
            packs: self.objects.packs().len() as u64,
            loose_refs: self.refs.loose_count()?,
        };
        *known = Some(used);
        Ok(used)
    }

    /// The next question looks again.
    pub(super) fn forget_use(&mut self) {
        *self.used.get_mut().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// What files below a directory take; what is gone meanwhile takes nothing.
fn bytes_below(directory: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(directory) else { return 0 };
    entries
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let meta = entry.metadata().ok()?;
            let below = if meta.is_dir() { bytes_below(&entry.path()) } else { 0 };
            Some(meta.blocks() * 512 + below)
        })
        .sum()
}
