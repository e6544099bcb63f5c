//! Masking a secret in a keyed store: in every value there is, current or past. A key that has the secret in its name goes,
//! because a masked name would be another key.

use super::{Keyed, KeyedError, hash};
use rusqlite::params;
use shellkeep_redact::Redactor;
use shellkeep_session::KvScrubbed;

impl Keyed {
    /// Masks what the redactor finds. Returns what was masked, and the names of the keys, with the secret masked.
    pub fn scrub(&mut self, redactor: &Redactor) -> Result<(KvScrubbed, Vec<String>), KeyedError> {
        let transaction = self.db.transaction()?;
        let (mut scrubbed, mut names) = (KvScrubbed::default(), Vec::new());
        {
            let mut keys = transaction.prepare("SELECT DISTINCT key FROM history")?;
            let keys: Vec<String> = keys.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
            for key in keys.iter().filter(|key| !redactor.find(key.as_bytes()).is_empty()) {
                transaction.execute("DELETE FROM history WHERE key = ?1", [key])?;
                transaction.execute("DELETE FROM entries WHERE key = ?1", [key])?;
                scrubbed.removed.push(redactor.redact_str(key));
                names.push(redactor.redact_str(key));
            }
            let mut hashes = transaction.prepare("SELECT sha256 FROM contents")?;
            let hashes: Vec<String> = hashes.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
            for old in hashes {
                let bytes: Vec<u8> =
                    transaction
                        .query_row("SELECT content FROM contents WHERE sha256 = ?1", [&old], |row| row.get(0))?;
                if redactor.find(&bytes).is_empty() {
                    continue;
                }
                let bytes = redactor.redact(&bytes);
                let (new, length) = (hash(&bytes), bytes.len() as i64);
                let add = "INSERT OR IGNORE INTO contents (sha256, bytes, content) VALUES (?1, ?2, ?3)";
                transaction.execute(add, params![new, length, bytes])?;
                transaction.execute("DELETE FROM contents WHERE sha256 = ?1", [&old])?;
                for table in ["history", "entries"] {
                    let sql = format!("UPDATE {table} SET sha256 = ?1, bytes = ?2 WHERE sha256 = ?3");
                    transaction.execute(&sql, params![new, length, old])?;
                }
                let mut keys =
                    transaction.prepare("SELECT DISTINCT key FROM history WHERE sha256 = ?1 ORDER BY key")?;
                for key in keys.query_map([&new], |row| row.get(0))? {
                    names.push(key?);
                }
                scrubbed.values.insert(old, new);
            }
        }
        transaction.commit()?;
        // The log in front of the database has the old pages.
        self.db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
        self.db.execute_batch("VACUUM")?;
        self.db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
        names.sort();
        names.dedup();
        Ok((scrubbed, names))
    }
}
