//! The keyed store of a session in its records. Values are stored separately; a record has their hashes.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One key that changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KvChange {
    pub key: String,
    /// Its version from now on.
    pub version: u64,
    /// Its value; none if it was deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<KvValue>,
}

/// A value, without its bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KvValue {
    /// The SHA-256 of its bytes, in hexadecimal.
    pub sha256: String,
    /// How many bytes it has.
    pub bytes: u64,
    /// The content type.
    pub content_type: String,
}

/// A rewind of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct KvRestored {
    /// The version whose content it has again.
    pub from: u64,
    /// The version that it has from now on.
    pub version: u64,
}

/// What a session's state knows about its keyed store: not the keys, which are loaded only if they are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct KvState {
    /// The highest version that was recorded; 0 if the store was never used.
    pub version: u64,
    /// The last rewind of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restored: Option<KvRestored>,
}

impl KvState {
    /// Whether the store was never used.
    pub fn is_unused(&self) -> bool {
        self.version == 0
    }
}

/// What a scrub did to a keyed store.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct KvScrubbed {
    /// The hashes of masked values, before and after.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub values: BTreeMap<String, String>,
    /// Keys that were deleted because their names contained the secret, masked.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub removed: Vec<String>,
}

impl KvScrubbed {
    /// Whether nothing was masked.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A keyed store according to its records, to compare with the database.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KvTold {
    version: u64,
    /// Each key with its versions; a deletion has no hash.
    history: BTreeMap<String, Vec<(u64, Option<String>)>>,
}

impl KvTold {
    /// Applies a change.
    pub fn changed(&mut self, version: u64, changes: Vec<KvChange>) {
        self.version = self.version.max(version);
        for KvChange { key, version, value } in changes {
            self.history.entry(key).or_default().push((version, value.map(|value| value.sha256)));
        }
    }

    /// Applies a rewind.
    pub fn restored(&mut self, KvRestored { from, version }: KvRestored) {
        self.version = self.version.max(version);
        for versions in self.history.values_mut() {
            let then = versions.iter().rfind(|(version, _)| *version <= from).and_then(|(_, hash)| hash.clone());
            let now = versions.last().and_then(|(_, hash)| hash.clone());
            if then != now {
                versions.push((version, then));
            }
        }
    }

    /// Applies a scrub.
    pub fn scrubbed(&mut self, scrubbed: &KvScrubbed) {
        for key in &scrubbed.removed {
            self.history.remove(key);
        }
        let hashes = self.history.values_mut().flatten().filter_map(|(_, hash)| hash.as_mut());
        for hash in hashes {
            if let Some(new) = scrubbed.values.get(hash) {
                hash.clone_from(new);
            }
        }
    }

    /// The version that the records lead to.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Each current key, with its version and the hash of its value.
    pub fn entries(&self) -> BTreeMap<String, (u64, String)> {
        let current = self.history.iter().filter_map(|(key, versions)| {
            let (version, hash) = versions.last()?;
            Some((key.clone(), (*version, hash.clone()?)))
        });
        current.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(key: &str, version: u64, hash: Option<&str>) -> KvChange {
        let value = |hash: &str| KvValue { sha256: hash.to_owned(), bytes: 1, content_type: String::new() };
        KvChange { key: key.to_owned(), version, value: hash.map(value) }
    }

    #[test]
    fn the_records_tell_what_the_store_holds() {
        let mut told = KvTold::default();
        told.changed(1, vec![put("a", 1, Some("x")), put("b", 1, Some("y"))]);
        told.changed(2, vec![put("a", 2, Some("z")), put("b", 2, None)]);
        let entry = |key: &str, version: u64, hash: &str| (key.to_owned(), (version, hash.to_owned()));
        assert_eq!(told.entries(), [entry("a", 2, "z")].into());
        told.restored(KvRestored { from: 1, version: 3 });
        assert_eq!(told.entries(), [entry("a", 3, "x"), entry("b", 3, "y")].into());
        let values = [("x".to_owned(), "m".to_owned())].into();
        told.scrubbed(&KvScrubbed { values, removed: vec!["b".to_owned()] });
        assert_eq!((told.entries(), told.version()), ([entry("a", 3, "m")].into(), 3));
    }
}
