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

/// What the record of a rewind says of the store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KvRewound {
    /// Where it was taken back to.
    #[serde(flatten)]
    pub restored: KvRestored,
    /// Keys that stay as they are, because their values of that time were removed to free space.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
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
    /// Whether some records are not known here: others may have changed any key.
    is_partial: bool,
    /// The last rewind.
    restored: Option<KvRestored>,
    /// Each key with its versions; a deletion has no value.
    history: BTreeMap<String, Vec<(u64, Option<Told>)>>,
}

/// What distinguishes one value from another.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Told {
    sha256: String,
    content_type: String,
}

impl KvTold {
    /// Applies a change.
    pub fn changed(&mut self, version: u64, changes: Vec<KvChange>) {
        self.version = self.version.max(version);
        for KvChange { key, version, value } in changes {
            let told = value.map(|KvValue { sha256, content_type, .. }| Told { sha256, content_type });
            self.history.entry(key).or_default().push((version, told));
        }
    }

    /// Applies a rewind.
    pub fn restored(&mut self, KvRewound { restored, missing }: &KvRewound) {
        let KvRestored { from, version } = *restored;
        self.restored = Some(*restored);
        self.version = self.version.max(version);
        let kept = self.history.iter_mut().filter(|(key, _)| !missing.contains(key));
        for (_, versions) in kept {
            let then = versions.iter().rfind(|(version, _)| *version <= from).and_then(|(_, told)| told.clone());
            let now = versions.last().and_then(|(_, told)| told.clone());
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
        for told in self.history.values_mut().flatten().filter_map(|(_, told)| told.as_mut()) {
            if let Some(new) = scrubbed.values.get(&told.sha256) {
                told.sha256.clone_from(new);
            }
        }
    }

    /// Some records are not known here.
    pub fn lacks_records(&mut self) {
        self.is_partial = true;
    }

    /// Whether all records are known, so that the store can be compared with them.
    pub fn is_whole(&self) -> bool {
        !self.is_partial
    }

    /// The version that the records lead to.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// What a session's state knows of the store after these records.
    pub fn state(&self) -> KvState {
        KvState { version: self.version, restored: self.restored }
    }

    /// Each current key, with its version and the hash of its value.
    pub fn entries(&self) -> BTreeMap<String, (u64, String)> {
        let current = self.history.iter().filter_map(|(key, versions)| {
            let (version, told) = versions.last()?;
            Some((key.clone(), (*version, told.as_ref()?.sha256.clone())))
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

    fn rewound(from: u64, version: u64, missing: &[&str]) -> KvRewound {
        let missing = missing.iter().map(|key| (*key).to_owned()).collect();
        KvRewound { restored: KvRestored { from, version }, missing }
    }

    /// A rewind that changed only a type, or could not bring a value back, was taken for damage.
    #[test]
    fn a_rewind_changes_types_too_and_not_what_is_gone() {
        let mut told = KvTold::default();
        let mut typed = put("a", 2, Some("x"));
        typed.value.as_mut().unwrap().content_type = "text/plain".to_owned();
        told.changed(1, vec![put("a", 1, Some("x")), put("b", 1, Some("y"))]);
        told.changed(2, vec![typed, put("b", 2, Some("z"))]);
        told.restored(&rewound(1, 3, &["b"]));
        let entry = |key: &str, version: u64, hash: &str| (key.to_owned(), (version, hash.to_owned()));
        assert_eq!(told.entries(), [entry("a", 3, "x"), entry("b", 2, "z")].into());
    }

    #[test]
    fn the_records_tell_what_the_store_holds() {
        let mut told = KvTold::default();
        told.changed(1, vec![put("a", 1, Some("x")), put("b", 1, Some("y"))]);
        told.changed(2, vec![put("a", 2, Some("z")), put("b", 2, None)]);
        let entry = |key: &str, version: u64, hash: &str| (key.to_owned(), (version, hash.to_owned()));
        assert_eq!(told.entries(), [entry("a", 2, "z")].into());
        told.restored(&rewound(1, 3, &[]));
        assert_eq!(told.entries(), [entry("a", 3, "x"), entry("b", 3, "y")].into());
        let values = [("x".to_owned(), "m".to_owned())].into();
        told.scrubbed(&KvScrubbed { values, removed: vec!["b".to_owned()] });
        assert_eq!((told.entries(), told.version()), ([entry("a", 3, "m")].into(), 3));
    }
}
