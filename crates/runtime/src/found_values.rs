//! The values that a session's secret variables have or had, as far as they can be masked. Commands choose how many there
//! are, and to look for them takes many times their length in memory.

use shellkeep_redact::{ALL_FORMS, ConfigError, MOST_FOUND, Redactor, is_maskable};
use std::collections::BTreeSet;
use std::sync::Arc;

/// About how many bytes of memory it takes to look for a byte of a value.
const MEMORY_OF_A_BYTE: usize = 30;
/// About how many bytes all forms of a value have for each of its own.
const ALL_FORMS_OF_A_BYTE: usize = 30;

/// Values, or how many bytes they would have, if that is more than can be masked.
#[derive(Clone, Default)]
pub(crate) struct FoundValues {
    /// Shared by copies, which are made for each command and each reader.
    values: Arc<BTreeSet<Vec<u8>>>,
    bytes: usize,
}

impl FoundValues {
    /// Adds values; returns whether one is new.
    pub(crate) fn add(&mut self, values: impl IntoIterator<Item = Vec<u8>>) -> bool {
        let mut is_new = false;
        for value in values {
            if self.are_too_many() {
                break;
            }
            if is_maskable(&value) && !self.values.contains(&value) {
                self.bytes += value.len();
                Arc::make_mut(&mut self.values).insert(value);
                is_new = true;
            }
        }
        if self.are_too_many() {
            self.values = Arc::default();
        }
        is_new
    }

    /// How many bytes are kept of them.
    pub(crate) fn bytes(&self) -> usize {
        if self.are_too_many() { 0 } else { self.bytes }
    }

    /// About how much memory it takes to mask them.
    pub(crate) fn memory(&self) -> usize {
        let bytes = self.bytes();
        let looked_for = bytes.min(ALL_FORMS) * ALL_FORMS_OF_A_BYTE + bytes.saturating_sub(ALL_FORMS);
        looked_for * MEMORY_OF_A_BYTE
    }

    /// Whether they are more than can be masked. Then they are not kept.
    pub(crate) fn are_too_many(&self) -> bool {
        self.bytes > MOST_FOUND
    }

    /// What masks these values and registered ones.
    pub(crate) fn redactor<V: AsRef<[u8]>>(
        &self,
        base: &Redactor,
        registered: impl IntoIterator<Item = V>,
    ) -> Result<Redactor, ConfigError> {
        if self.are_too_many() {
            return Err(ConfigError::TooManyValues { bytes: self.bytes, most: MOST_FOUND });
        }
        base.with_values(registered, self.values.iter())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every value that a session ever had was kept, and looked for.
    #[test]
    fn values_are_kept_until_they_are_too_many() {
        let mut found = FoundValues::default();
        assert!(found.add([b"horse-battery".to_vec(), b"short".to_vec()]));
        assert!(!found.add([b"horse-battery".to_vec()]));
        let copy = found.clone();
        assert!(found.add((0..8).map(|number| format!("{number}{}", "x-y".repeat(MOST_FOUND / 16)).into_bytes())));
        assert!(found.are_too_many() && found.values.is_empty() && !copy.are_too_many());
        assert!(!found.add([b"another-value".to_vec()]), "there is no end to them");
        let base = Redactor::new(&Default::default()).unwrap();
        assert_eq!(copy.redactor(&base, ["registered"]).unwrap().redact_str("horse-battery registered"), "*** ***");
        let refused = found.redactor(&base, ["registered"]).err().unwrap();
        assert!(matches!(refused, ConfigError::TooManyValues { bytes, most } if bytes > most), "{refused}");
    }
}
