//! What a repository takes on the disk, and when it has too many files.

use super::database::Database;
use super::error::Result;
use super::gathered::Written;
use super::objects::Objects;
use super::refs::Refs;
use crate::sync::lock;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

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
    pub(super) bytes: u64,
    loose_objects: u64,
    packs: u64,
    loose_refs: u64,
}

impl Use {
    fn look(directory: &Path, objects: &Objects, refs: &Refs) -> Result<Self> {
        Ok(Self {
            bytes: bytes_below(directory),
            loose_objects: objects.loose()?.len() as u64,
            packs: objects.packs().len() as u64,
            loose_refs: refs.loose_count()?,
        })
    }

    /// With what was written since.
    fn plus(mut self, written: Written) -> Self {
        // Half a block is lost in each file on average; the next look counts exactly.
        self.bytes += written.bytes + written.loose * BLOCK / 2;
        self.loose_objects += written.loose;
        self.packs += written.packs;
        self
    }

    /// Whether there are enough files for a pack.
    pub(super) fn has_many_files(&self) -> bool {
        self.loose_objects > LOOSE_OBJECTS_MOST || self.packs > PACKS_MOST || self.loose_refs > LOOSE_REFS_MOST
    }
}

/// What was seen, and what had been written by then.
#[derive(Debug)]
struct Seen {
    used: Use,
    written: Written,
}

/// What a repository takes on the disk: looked at once, then counted along.
#[derive(Debug, Default)]
pub(super) struct Space {
    seen: Mutex<Option<Seen>>,
}

impl Space {
    /// What the repository in `directory` takes.
    pub(super) fn used(&self, directory: &Path, objects: &Database, refs: &Refs) -> Result<Use> {
        let mut seen = lock(&self.seen);
        let written = objects.written();
        let seen = match &mut *seen {
            Some(seen) => seen,
            None => seen.insert(Seen { used: Use::look(directory, &objects.stored, refs)?, written }),
        };
        Ok(seen.used.plus(written.since(seen.written)))
    }

    /// Counts a new tag.
    pub(super) fn add_tag(&mut self) {
        if let Some(seen) = self.seen.get_mut().unwrap_or_else(PoisonError::into_inner) {
            seen.used.loose_refs += 1;
        }
    }

    /// The next question looks again.
    pub(super) fn forget(&mut self) {
        self.seen = Mutex::default();
    }
}

/// What files below a directory take; what was deleted in the meantime takes nothing.
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
