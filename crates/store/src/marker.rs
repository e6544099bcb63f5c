//! `store.json` in the data directory: says that a store exists here, and which segment of the journal is the newest.
//! So a missing store or journal is not mistaken for a new one.

use crate::error::OpenError;
use crate::sealed::{self, Survives};
use crate::sum::{self, Unsealed};
use serde::{Deserialize, Serialize};
use shellkeep_session::FORMAT_VERSION;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

const NAME: &str = "store.json";

/// What the file says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Marker {
    format: u32,
    /// The store's id.
    store: String,
    /// The newest segment of the journal.
    pub segment: u64,
}

fn path(data_dir: &Path) -> PathBuf {
    data_dir.join(NAME)
}

/// Whether a store was created here, even if it is gone.
pub(crate) fn is_there(data_dir: &Path) -> bool {
    path(data_dir).exists()
}

/// What the file says; `None` if there is none, as in a directory that only older versions have used.
pub(crate) fn read(data_dir: &Path) -> Result<Option<Marker>, OpenError> {
    let path = path(data_dir);
    let bytes = match fs::read(&path) {
        // A loss of power may leave it empty: it is not synced, since it is written while others append.
        Ok(bytes) if bytes.is_empty() => return Ok(None),
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(OpenError::not_writable(&path, &error)),
    };
    let marker = match sum::unseal(bytes) {
        Unsealed::Checked(bytes) => serde_json::from_slice::<Marker>(&bytes).map_err(|error| error.to_string()),
        Unsealed::Without(_) => Err(sum::MISSING.to_owned()),
        Unsealed::Broken => Err(sum::MISMATCH.to_owned()),
    };
    match marker {
        Ok(marker) if marker.format > FORMAT_VERSION => {
            Err(OpenError::NewerFormat { place: path, found: marker.format, ours: FORMAT_VERSION })
        }
        Ok(marker) => Ok(Some(marker)),
        Err(reason) => Err(OpenError::MarkerDamaged { path, reason }),
    }
}

/// Writes it atomically.
pub(crate) fn write(data_dir: &Path, store: &str, segment: u64) -> io::Result<()> {
    let marker = Marker { format: FORMAT_VERSION, store: store.to_owned(), segment };
    sealed::write(&path(data_dir), &marker, Survives::Crash)
}
