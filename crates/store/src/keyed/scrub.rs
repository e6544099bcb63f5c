//! Masks a secret in a keyed store: in every value, current or past. A key with the secret in its name is deleted,
//! because a masked name would be another key.

use super::{Keyed, KeyedError, add, hash, past};
use rusqlite::{Connection, params};
use shellkeep_redact::Redactor;
use shellkeep_session::KvScrubbed;

impl Keyed {
    /// Masks what the redactor finds. Returns what was masked, and the names of the keys, with the secret masked. What an
    /// earlier scrub masked that was cut off before its record is returned with it, until [`Keyed::scrub_recorded`].
    pub fn scrub(&mut self, redactor: &Redactor) -> Result<(KvScrubbed, Vec<String>), KeyedError> {
        let transaction = self.db.transaction()?;
        let mut names = Vec::new();
        {
            let mut keys = transaction.prepare("SELECT DISTINCT key FROM history")?;
            let keys: Vec<String> = keys.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
            for key in keys.iter().filter(|key| !redactor.find(key.as_bytes()).is_empty()) {
                transaction.execute("DELETE FROM history WHERE key = ?1", [key])?;
                transaction.execute("DELETE FROM entries WHERE key = ?1", [key])?;
                let name = redactor.redact_str(key);
                transaction.execute("INSERT OR IGNORE INTO masked_keys (name) VALUES (?1)", [&name])?;
                names.push(name);
            }
            transaction.execute_batch("CREATE INDEX history_by_content ON history (content)")?;
            let mut values =
                transaction.prepare("SELECT id, lower(hex(sha256)) FROM contents JOIN blobs USING (id)")?;
            let values: Vec<(i64, String)> =
                values.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect::<Result<_, _>>()?;
            for (id, old) in values {
                let bytes: Vec<u8> =
                    transaction.query_row("SELECT content FROM blobs WHERE id = ?1", [id], |row| row.get(0))?;
                if redactor.find(&bytes).is_empty() {
                    continue;
                }
                let bytes = redactor.redact(&bytes);
                let new = hash(&bytes);
                names.extend(replace(&transaction, id, add(&transaction, &new, &bytes)?)?);
                transaction.execute("UPDATE masked SET new = ?1 WHERE new = ?2", [&new, &old])?;
                transaction.execute("INSERT OR REPLACE INTO masked (old, new) VALUES (?1, ?2)", [&old, &new])?;
            }
            transaction.execute_batch("DROP INDEX history_by_content")?;
        }
        // What is missing here may have the secret: the log that has it is not kept.
        past::set_missing(&transaction, 0)?;
        let scrubbed = past::unrecorded(&transaction)?;
        transaction.commit()?;
        // The log in front of the database has the old pages.
        self.db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
        self.db.execute_batch("VACUUM")?;
        self.db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
        names.sort();
        names.dedup();
        Ok((scrubbed, names))
    }

    /// What was masked is recorded now.
    pub fn scrub_recorded(&mut self) -> Result<(), KeyedError> {
        Ok(self.db.execute_batch("BEGIN; DELETE FROM masked; DELETE FROM masked_keys; COMMIT")?)
    }
}

/// Replaces one value by another everywhere. Returns the keys that had it.
fn replace(db: &Connection, old: i64, new: i64) -> rusqlite::Result<Vec<String>> {
    let mut keys = db.prepare_cached("SELECT DISTINCT key FROM history WHERE content = ?1 ORDER BY key")?;
    let keys: Vec<String> = keys.query_map([old], |row| row.get(0))?.collect::<Result<_, _>>()?;
    db.prepare_cached("UPDATE history SET content = ?1 WHERE content = ?2")?.execute(params![new, old])?;
    for key in &keys {
        past::make_current(db, key, i64::MAX)?;
    }
    db.prepare_cached("DELETE FROM blobs WHERE id = ?1")?.execute([old])?;
    db.prepare_cached("DELETE FROM contents WHERE id = ?1")?.execute([old])?;
    Ok(keys)
}
