//! The quotas in effect: configured values, and what the host has changed at run time, kept in a file across restarts.

use crate::ops::{FilesReason, OpError, QuotaChanges};
use crate::sync::{lock, read, write};
use shellkeep_session::{QuotaName, Quotas};
use shellkeep_store::QuotaFile;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, RwLock};

/// The quotas. Reading one is a load of a number, so that a hot path may.
pub(crate) struct NodeQuotas {
    configured: RwLock<Quotas>,
    in_force: [AtomicU64; QuotaName::COUNT],
    set: Mutex<BTreeMap<QuotaName, u64>>,
    file: QuotaFile,
}

impl NodeQuotas {
    /// Reads what the host has changed before. An invalid file is an error: a broken file must not lift a limit.
    pub(crate) fn load(configured: Quotas, data_dir: &Path) -> io::Result<Self> {
        let file = QuotaFile::of(data_dir);
        let set = file.load()?;
        let limit = |name: QuotaName| set.get(&name).copied().unwrap_or_else(|| configured.get(name));
        let in_force = QuotaName::ALL.map(|name| AtomicU64::new(limit(name)));
        Ok(Self { configured: RwLock::new(configured), in_force, set: Mutex::new(set), file })
    }

    /// The limit in effect.
    pub(crate) fn get(&self, name: QuotaName) -> u64 {
        self.in_force[name as usize].load(Ordering::Relaxed)
    }

    /// The configured value.
    pub(crate) fn configured(&self, name: QuotaName) -> u64 {
        read(&self.configured).get(name)
    }

    /// Applies new configured values.
    pub(crate) fn configure(&self, configured: Quotas) {
        let set = lock(&self.set);
        *write(&self.configured) = configured;
        self.put_in_force(&set);
    }

    fn put_in_force(&self, set: &BTreeMap<QuotaName, u64>) {
        for (name, limit) in QuotaName::ALL.into_iter().zip(&self.in_force) {
            limit.store(set.get(&name).copied().unwrap_or_else(|| self.configured(name)), Ordering::Relaxed);
        }
    }

    /// The value set at run time.
    pub(crate) fn set_since(&self, name: QuotaName) -> Option<u64> {
        lock(&self.set).get(&name).copied()
    }

    /// Changes several atomically. They are on disk before they take effect.
    pub(crate) fn change(&self, changes: &QuotaChanges) -> Result<(), OpError> {
        for (name, limit) in changes {
            let (least, most) = name.bounds();
            if limit.is_some_and(|limit| !(least..=most).contains(&limit)) {
                let detail = format!("{name} must be from {least} to {most}; nothing was changed");
                return Err(OpError::Invalid { detail });
            }
        }
        let mut set = lock(&self.set);
        let mut changed = set.clone();
        for (name, limit) in changes {
            match limit {
                Some(limit) => changed.insert(*name, *limit),
                None => changed.remove(name),
            };
        }
        self.file.save(&changed).map_err(|error| {
            let what = format!("cannot store the quotas in {}", self.file.path().display());
            OpError::not_stored(FilesReason::from(&error).of(what))
        })?;
        self.put_in_force(&changed);
        *set = changed;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_kept_and_can_be_taken_back() {
        let home = tempfile::tempdir().unwrap();
        let book = NodeQuotas::load(Quotas::default(), home.path()).unwrap();
        book.change(&QuotaChanges::from([(QuotaName::ServicesPerAgent, Some(9))])).unwrap();
        let book = NodeQuotas::load(Quotas::default(), home.path()).unwrap();
        assert_eq!(book.get(QuotaName::ServicesPerAgent), 9);
        assert_eq!(book.set_since(QuotaName::ServicesPerAgent), Some(9));
        let text = std::fs::read_to_string(home.path().join("quotas.json")).unwrap();
        std::fs::write(home.path().join("quotas.json"), text.replace('9', "8")).unwrap();
        assert!(NodeQuotas::load(Quotas::default(), home.path()).is_err());
        book.change(&QuotaChanges::from([(QuotaName::ServicesPerAgent, None)])).unwrap();
        assert_eq!(book.get(QuotaName::ServicesPerAgent), 5);
    }

    #[test]
    fn one_wrong_limit_changes_nothing() {
        let home = tempfile::tempdir().unwrap();
        let book = NodeQuotas::load(Quotas::default(), home.path()).unwrap();
        let changes = QuotaChanges::from([(QuotaName::Services, Some(7)), (QuotaName::LiveShells, Some(0))]);
        assert!(matches!(book.change(&changes), Err(OpError::Invalid { .. })));
        assert_eq!(book.get(QuotaName::Services), 500);
        std::fs::write(home.path().join("quotas.json"), "{\"services\": \"many\"}").unwrap();
        assert!(NodeQuotas::load(Quotas::default(), home.path()).is_err());
    }
}
