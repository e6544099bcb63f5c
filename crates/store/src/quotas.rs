//! `quotas.json`: the limits that the host has set at run time, kept across restarts.

use crate::sealed::{self, Survives};
use shellkeep_session::QuotaName;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

/// The file. The daemon that holds the data directory is the only writer.
#[derive(Debug, Clone)]
pub struct QuotaFile {
    path: PathBuf,
}

impl QuotaFile {
    pub fn of(data_dir: &Path) -> Self {
        Self { path: data_dir.join("quotas.json") }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// All limits in the file; none if there is no file. A damaged file is an error: it must not lift a limit.
    pub fn load(&self) -> io::Result<BTreeMap<QuotaName, u64>> {
        Ok(sealed::read(&self.path)?.unwrap_or_default())
    }

    /// Replaces the file. It survives a loss of power: one that cannot be read keeps the daemon from starting.
    pub fn save(&self, limits: &BTreeMap<QuotaName, u64>) -> io::Result<()> {
        sealed::write(&self.path, limits, Survives::Power)
    }
}
