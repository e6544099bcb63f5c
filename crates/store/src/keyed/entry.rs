//! A key of a keyed store, as a row of the database.

use rusqlite::Row;
use shellkeep_session::KvValue;

/// A key with what is known of its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyedEntry {
    pub key: String,
    pub version: u64,
    /// Its value, without the bytes.
    pub value: KvValue,
}

/// Reads a row of key, version, hash, bytes and content type.
pub(super) fn entry(row: &Row<'_>) -> rusqlite::Result<KeyedEntry> {
    Ok(KeyedEntry {
        key: row.get(0)?,
        version: row.get::<_, i64>(1)?.unsigned_abs(),
        value: KvValue { sha256: row.get(2)?, bytes: row.get::<_, i64>(3)?.unsigned_abs(), content_type: row.get(4)? },
    })
}

/// The SHA-256 of a value, in hexadecimal.
pub fn hash(bytes: &[u8]) -> String {
    use sha2::Digest as _;
    sha2::Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
