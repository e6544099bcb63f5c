//! One JSON file of a session: reading, replacing, and errors.

use crate::backend::BackendError;
use crate::sum::{self, Unsealed};
use serde::Serialize;
use shellkeep_session::Json;
use std::fs::{self, File};
use std::io;
use std::path::Path;

type Result<T> = std::result::Result<T, BackendError>;

/// Reads a file; a missing one is `None`, an unreadable one is damage, and so is one without a checksum if all should
/// have one.
pub(super) fn read<T: Json>(path: &Path, sealed: bool) -> Result<Option<T>> {
    let damaged = |reason: &str| BackendError::Damaged { reason: format!("cannot read {}: {reason}", name(path)) };
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(path, &error)),
    };
    let bytes = match sum::unseal(bytes) {
        Unsealed::Checked(bytes) => bytes,
        Unsealed::Without(bytes) if !sealed => bytes,
        Unsealed::Without(_) => return Err(damaged(sum::MISSING)),
        Unsealed::Broken => return Err(damaged(sum::MISMATCH)),
    };
    T::from_json(&bytes).map(Some).map_err(|error| damaged(&error.to_string()))
}

/// Replaces a file atomically: a reader sees the old one or the new one.
pub(super) fn write<T: Serialize>(path: &Path, value: &T) -> Result<()> {
    let temporary = path.with_extension("tmp");
    let bytes = sum::seal(serde_json::to_vec_pretty(value).map_err(|error| failed(path, &error.into()))?);
    fs::write(&temporary, bytes).and_then(|()| fs::rename(&temporary, path)).map_err(|error| failed(path, &error))
}

/// Brings a file that was replaced, and its name, to the disk.
pub(super) fn sync(path: &Path) -> Result<()> {
    let synced = File::open(path).and_then(|file| file.sync_all());
    let named = synced.and_then(|()| path.parent().map_or(Ok(()), |directory| File::open(directory)?.sync_all()));
    named.map_err(|error| failed(path, &error))
}

/// A failure of the file system.
pub(super) fn failed(path: &Path, error: &io::Error) -> BackendError {
    BackendError::Failed { reason: format!("{}: {error}", path.display()) }
}

fn name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}
