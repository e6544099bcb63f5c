//! What a keyed store was at an earlier version.

use super::entry::{KeyedEntry, entry};
use rusqlite::{Connection, OptionalExtension as _, params};
use shellkeep_session::{KvScrubbed, KvValue};

/// What each key that was not deleted had at a version.
const AT: &str = "SELECT key, version, sha256, bytes, content_type, content FROM past_values p WHERE version = \
                  (SELECT max(version) FROM history h WHERE h.key = p.key AND h.version <= ?1)";

/// Makes the latest version of a key up to `at` the current one.
pub(super) fn make_current(db: &Connection, key: &str, at: i64) -> rusqlite::Result<()> {
    db.prepare_cached("DELETE FROM entries WHERE key = ?1")?.execute([key])?;
    let sql = "INSERT INTO entries (key, version, content, content_type) \
               SELECT key, version, content, content_type FROM history WHERE key = ?1 AND content IS NOT NULL \
               AND version = (SELECT max(version) FROM history WHERE key = ?1 AND version <= ?2)";
    db.prepare_cached(sql)?.execute(params![key, at]).map(|_| ())
}

/// The keys whose content at a version is not what is current, with what it was; none if there was no such key.
pub(super) fn differences(db: &Connection, version: u64) -> rusqlite::Result<Vec<(String, Option<KvValue>)>> {
    let sql = format!(
        "SELECT coalesce(p.key, e.key), p.sha256, p.bytes, p.content_type FROM \
         ({AT}) p FULL JOIN current_values e ON e.key = p.key \
         WHERE p.content IS NOT e.content OR p.content_type IS NOT e.content_type"
    );
    let mut statement = db.prepare_cached(&sql)?;
    let found = statement.query_map([version as i64], |row| {
        let sha256: Option<String> = row.get(1)?;
        let value = match sha256 {
            Some(sha256) => {
                let (bytes, content_type): (i64, String) = (row.get(2)?, row.get(3)?);
                Some(KvValue { sha256, bytes: bytes.unsigned_abs(), content_type })
            }
            None => None,
        };
        Ok((row.get(0)?, value))
    })?;
    found.collect()
}

/// All keys with their values at a version, or now.
pub(super) fn content(db: &Connection, at: Option<u64>) -> rusqlite::Result<Vec<KeyedEntry>> {
    match at {
        Some(version) => {
            let sql = format!("{AT} ORDER BY key");
            db.prepare_cached(&sql)?.query_map([version as i64], entry)?.collect()
        }
        None => {
            let sql = "SELECT key, version, sha256, bytes, content_type FROM current_values ORDER BY key";
            db.prepare_cached(sql)?.query_map([], entry)?.collect()
        }
    }
}

/// Whether a value is kept.
pub(super) fn has_content(db: &Connection, sha256: &str) -> rusqlite::Result<bool> {
    db.prepare_cached("SELECT 1 FROM contents JOIN blobs USING (id) WHERE sha256 = unhex(?1)")?.exists([sha256])
}

/// The version of the last rewind that was done here.
pub(super) fn restored_to(db: &Connection) -> rusqlite::Result<u64> {
    let sql = "SELECT value FROM meta WHERE name = 'restored'";
    let found: Option<i64> = db.prepare_cached(sql)?.query_row([], |row| row.get(0)).optional()?;
    Ok(found.unwrap_or(0).unsigned_abs())
}

pub(super) fn set_restored(db: &Connection, version: u64) -> rusqlite::Result<()> {
    let sql = "INSERT OR REPLACE INTO meta (name, value) VALUES ('restored', ?1)";
    db.prepare_cached(sql)?.execute([version as i64]).map(|_| ())
}

/// Up to which version the store was missing when it was made; 0 if it had everything.
pub(super) fn missing_to(db: &Connection) -> rusqlite::Result<u64> {
    let sql = "SELECT value FROM meta WHERE name = 'missing'";
    let found: Option<i64> = db.prepare_cached(sql)?.query_row([], |row| row.get(0)).optional()?;
    Ok(found.unwrap_or(0).unsigned_abs())
}

pub(super) fn set_missing(db: &Connection, version: u64) -> rusqlite::Result<()> {
    let sql = "INSERT OR REPLACE INTO meta (name, value) VALUES ('missing', ?1)";
    db.prepare_cached(sql)?.execute([version as i64]).map(|_| ())
}

/// What was masked and is not recorded yet.
pub(super) fn unrecorded(db: &Connection) -> rusqlite::Result<KvScrubbed> {
    let mut masked = db.prepare_cached("SELECT old, new FROM masked")?;
    let values = masked.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect::<Result<_, _>>()?;
    let mut keys = db.prepare_cached("SELECT name FROM masked_keys")?;
    let removed = keys.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    Ok(KvScrubbed { values, removed })
}
