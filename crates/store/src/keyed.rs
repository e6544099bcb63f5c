//! The keyed store of one session: keys, their versions and their values, in a separate database.
//!
//! The journal decides what happened. A change is written here first and then recorded; one that was not recorded when
//! the daemon died is reverted when the store is opened ([`Keyed::open`] gets the last recorded version). Old versions
//! stay, so that a rewind or a fork finds them; their values are dropped first when room is needed. Current entries
//! have their own table, so a scan does not grow with history.

mod check;
mod entry;
mod log;
mod past;
mod scrub;
mod share;

pub use check::compare_files;
pub use entry::{KeyedEntry, hash};
pub use log::{LogKeeper, LogPart, LogPlace, Replayed};

use crate::error::Durability;
use entry::entry;
use rusqlite::types::Value as Sql;
use rusqlite::{Connection, OptionalExtension as _, params};
use shellkeep_session::{KvChange, KvRestored, KvState};
use std::collections::{BTreeMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};

/// The file of a session's store, in a directory of its own.
pub const FILE: &str = "kv.sqlite";

/// The default content type. It is not stored.
const DEFAULT_TYPE: &str = "application/octet-stream";

/// `entries` is what is current, `history` every version there was (a deletion has no content). `contents` has the values
/// by hash, each with the number of entries that have it, and `blobs` their bytes, as long as they are kept. The views show
/// entries and history with the hashes. `masked` and `masked_keys` are what a scrub did and no record says yet. What the
/// values take is counted by triggers, because each change asks for it.
const SCHEMA: &str = "
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
INSERT OR IGNORE INTO meta (name, value) VALUES ('current', 0), ('kept', 0);
CREATE TABLE IF NOT EXISTS contents (
    id INTEGER PRIMARY KEY, sha256 BLOB NOT NULL UNIQUE, bytes INTEGER NOT NULL, uses INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX IF NOT EXISTS contents_unused ON contents (id) WHERE uses = 0;
CREATE TABLE IF NOT EXISTS blobs (id INTEGER PRIMARY KEY, content BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS history (
    key TEXT NOT NULL, version INTEGER NOT NULL, content INTEGER, content_type TEXT, PRIMARY KEY (key, version)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS history_by_version ON history (version);
CREATE TABLE IF NOT EXISTS masked (old TEXT PRIMARY KEY, new TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS masked_keys (name TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS entries (
    key TEXT PRIMARY KEY, version INTEGER NOT NULL, content INTEGER NOT NULL, content_type TEXT
) WITHOUT ROWID;
CREATE VIEW IF NOT EXISTS current_values AS
    SELECT key, version, lower(hex(sha256)) AS sha256, bytes,
           coalesce(content_type, 'application/octet-stream') AS content_type, content
    FROM entries JOIN contents ON id = content;
CREATE VIEW IF NOT EXISTS past_values AS
    SELECT key, version, lower(hex(sha256)) AS sha256, bytes,
           coalesce(content_type, 'application/octet-stream') AS content_type, content
    FROM history JOIN contents ON id = content;
CREATE TRIGGER IF NOT EXISTS entry_added AFTER INSERT ON entries BEGIN
    UPDATE contents SET uses = uses + 1 WHERE id = NEW.content;
END;
CREATE TRIGGER IF NOT EXISTS entry_removed AFTER DELETE ON entries BEGIN
    UPDATE contents SET uses = uses - 1 WHERE id = OLD.content;
END;
CREATE TRIGGER IF NOT EXISTS content_used AFTER UPDATE OF uses ON contents WHEN (OLD.uses = 0) <> (NEW.uses = 0) BEGIN
    UPDATE meta SET value = value + iif(NEW.uses = 0, -NEW.bytes, NEW.bytes) WHERE name = 'current';
END;
CREATE TRIGGER IF NOT EXISTS blob_added AFTER INSERT ON blobs BEGIN
    UPDATE meta SET value = value + length(NEW.content) WHERE name = 'kept';
END;
CREATE TRIGGER IF NOT EXISTS blob_removed AFTER DELETE ON blobs BEGIN
    UPDATE meta SET value = value - length(OLD.content) WHERE name = 'kept';
END;
";

/// Why the keyed store cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeyedError {
    /// The database refused.
    #[error("cannot use the keyed store: {0}")]
    Database(#[from] rusqlite::Error),
    /// Its directory cannot be made.
    #[error("cannot create the keyed store: {0}")]
    Io(#[from] io::Error),
    /// A value does not match its hash.
    #[error("the value of '{key}' is damaged: {reason}")]
    Damaged {
        /// Whose value.
        key: String,
        /// What is wrong with it.
        reason: String,
    },
}

/// The size of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KeyedUse {
    /// Bytes of the values that are current.
    pub current: u64,
    /// Bytes of all values that are kept.
    pub kept: u64,
}

/// What a copy of a store has.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KeyedCopy {
    /// The keys with their values.
    pub entries: Vec<KeyedEntry>,
    /// Keys that it lacks, because their values are damaged or were dropped to make room.
    pub lost: Vec<String>,
}

/// The keyed store of one session, open.
#[derive(Debug)]
pub struct Keyed {
    db: Connection,
    /// Where other nodes read it, if it was shared since it was opened.
    log: Option<log::Log>,
}

/// Where a session's keyed store is, below the data directory.
pub fn directory(data: &Path, session: &str) -> PathBuf {
    data.join("kv").join(session)
}

impl Keyed {
    /// Opens or creates the store in a directory, and brings it to the recorded version.
    pub fn open(directory: &Path, recorded: KvState, durability: Durability) -> Result<Self, KeyedError> {
        let is_new = !Self::exists(directory);
        std::fs::create_dir_all(directory)?;
        let mut keyed = Self { db: Connection::open(directory.join(FILE))?, log: None };
        keyed.set_up(durability)?;
        if is_new && durability == Durability::Power {
            // The names of the file, of its directory and of the directory of all stores: the database writes only content.
            for made in directory.ancestors().take(3) {
                std::fs::File::open(made)?.sync_all()?;
            }
        }
        if is_new && !recorded.is_unused() {
            past::set_missing(&keyed.db, recorded.version)?;
        }
        keyed.settle(recorded)?;
        Ok(keyed)
    }

    /// Whether a session has a store.
    pub fn exists(directory: &Path) -> bool {
        directory.join(FILE).exists()
    }

    fn set_up(&mut self, durability: Durability) -> Result<(), KeyedError> {
        self.db.pragma_update(None, "journal_mode", "WAL")?;
        let synchronous = if durability == Durability::Power { "FULL" } else { "NORMAL" };
        self.db.pragma_update(None, "synchronous", synchronous)?;
        // What a scrub or a deletion removes must not stay in unused pages.
        self.db.pragma_update(None, "secure_delete", "ON")?;
        Ok(self.db.execute_batch(SCHEMA)?)
    }

    /// Reverts what was not recorded, and completes what was recorded but not done.
    fn settle(&mut self, recorded: KvState) -> Result<(), KeyedError> {
        if let Some(restored) = recorded.restored
            && self.restored_to()? < restored.version
        {
            // The record of a rewind comes before the rewind of the store.
            self.take_back(restored.version - 1)?;
            self.restore(restored)?;
        }
        self.take_back(recorded.version)
    }

    /// A key and what is known of its value.
    pub fn get(&self, key: &str) -> Result<Option<KeyedEntry>, KeyedError> {
        let sql = "SELECT key, version, sha256, bytes, content_type FROM current_values WHERE key = ?1";
        Ok(self.db.prepare_cached(sql)?.query_row([key], entry).optional()?)
    }

    /// The bytes of a value, compared with their hash.
    pub fn read(&self, found: &KeyedEntry) -> Result<Vec<u8>, KeyedError> {
        let damaged = |reason: &str| KeyedError::Damaged { key: found.key.clone(), reason: reason.to_owned() };
        let sql = "SELECT content FROM blobs JOIN contents USING (id) WHERE sha256 = unhex(?1)";
        let bytes: Option<Vec<u8>> =
            self.db.prepare_cached(sql)?.query_row([&found.value.sha256], |row| row.get(0)).optional()?;
        let bytes = bytes.ok_or_else(|| damaged("it is missing"))?;
        if bytes.len() as u64 != found.value.bytes || hash(&bytes) != found.value.sha256 {
            return Err(damaged("it does not match its hash"));
        }
        Ok(bytes)
    }

    /// How large the value with this hash is, if there is one.
    pub fn size_of(&self, sha256: &str) -> Result<Option<u64>, KeyedError> {
        let sql = "SELECT bytes FROM contents JOIN blobs USING (id) WHERE sha256 = unhex(?1)";
        let found: Option<i64> = self.db.prepare_cached(sql)?.query_row([sha256], |row| row.get(0)).optional()?;
        Ok(found.map(i64::unsigned_abs))
    }

    /// How large the value with this hash is, if only the past has it.
    pub fn size_of_past(&self, sha256: &str) -> Result<Option<u64>, KeyedError> {
        let sql = "SELECT bytes FROM contents JOIN blobs USING (id) WHERE sha256 = unhex(?1) AND uses = 0";
        let found: Option<i64> = self.db.prepare_cached(sql)?.query_row([sha256], |row| row.get(0)).optional()?;
        Ok(found.map(i64::unsigned_abs))
    }

    /// At most `limit` keys with a prefix after a key, in their order.
    pub fn scan(&self, prefix: &str, after: &str, limit: usize) -> Result<Vec<KeyedEntry>, KeyedError> {
        let sql = "SELECT key, version, sha256, bytes, content_type FROM current_values \
                   WHERE key > ?1 AND key >= ?2 AND (?3 IS NULL OR key < ?3) ORDER BY key LIMIT ?4";
        let end = after_prefix(prefix).map_or(Sql::Null, Sql::Text);
        let mut statement = self.db.prepare_cached(sql)?;
        // Every key is longer than the empty one.
        let found = statement.query_map(params![after, prefix, end, limit as i64], entry)?;
        Ok(found.collect::<Result<_, _>>()?)
    }

    /// Writes changes with their values. They count once they are recorded.
    pub fn change(&mut self, changes: &[KvChange], values: &[(String, Vec<u8>)]) -> Result<(), KeyedError> {
        let transaction = self.db.transaction()?;
        {
            for (sha256, bytes) in values {
                add(&transaction, sha256, bytes)?;
            }
            for change in changes {
                set(&transaction, change)?;
            }
        }
        Ok(transaction.commit()?)
    }

    /// Reverts all changes after a version.
    pub fn take_back(&mut self, version: u64) -> Result<(), KeyedError> {
        let transaction = self.db.transaction()?;
        {
            let later = "SELECT DISTINCT key FROM history WHERE version > ?1";
            let mut statement = transaction.prepare_cached(later)?;
            let keys: Vec<String> =
                statement.query_map([version as i64], |row| row.get(0))?.collect::<Result<_, _>>()?;
            transaction.prepare_cached("DELETE FROM history WHERE version > ?1")?.execute([version as i64])?;
            for key in keys {
                past::make_current(&transaction, &key, i64::MAX)?;
            }
        }
        Ok(transaction.commit()?)
    }

    pub fn used(&self) -> Result<KeyedUse, KeyedError> {
        let mut statement = self.db.prepare_cached("SELECT value FROM meta WHERE name = ?1")?;
        let mut counted = |name: &str| statement.query_row([name], |row| row.get::<_, i64>(0)).map(i64::unsigned_abs);
        Ok(KeyedUse { current: counted("current")?, kept: counted("kept")? })
    }

    /// Drops values that only the past needs, the oldest first, until `bytes` are free or none is left; none of `needed`.
    /// Returns how many bytes were freed.
    pub fn make_room(&mut self, bytes: u64, needed: &HashSet<&str>) -> Result<u64, KeyedError> {
        let transaction = self.db.transaction()?;
        let mut freed = 0;
        {
            let oldest = "SELECT id, bytes, lower(hex(sha256)) FROM contents JOIN blobs USING (id) \
                          WHERE uses = 0 ORDER BY id";
            let mut statement = transaction.prepare_cached(oldest)?;
            let mut rows = statement.query([])?;
            let mut remove = transaction.prepare_cached("DELETE FROM blobs WHERE id = ?1")?;
            let mut dropped: Vec<i64> = Vec::new();
            while let (true, Some(row)) = (freed < bytes, rows.next()?) {
                if needed.contains(row.get::<_, String>(2)?.as_str()) {
                    continue;
                }
                dropped.push(row.get(0)?);
                freed += row.get::<_, i64>(1)?.unsigned_abs();
            }
            for id in dropped {
                remove.execute([id])?;
            }
        }
        transaction.commit()?;
        Ok(freed)
    }

    /// Compares the current entries with the records, up to a version of the store. Returns the differences.
    pub fn compare(&self, mut told: BTreeMap<String, (u64, String)>, version: u64) -> Result<Vec<String>, KeyedError> {
        let masked = past::unrecorded(&self.db)?;
        let mut wrong = Vec::new();
        let mut after = String::new();
        loop {
            let page = self.scan("", &after, 100)?;
            let Some(last) = page.last() else { break };
            after.clone_from(&last.key);
            for found in &page {
                let told = told.remove(&found.key);
                let is_told = told.as_ref() == Some(&(found.version, found.value.sha256.clone()));
                // What was put after the records were read is not among them.
                if !is_told && found.version <= version {
                    let is_masked = told.is_some_and(|(_, old)| masked.values.get(&old) == Some(&found.value.sha256));
                    wrong.push(match is_masked {
                        true => {
                            format!("the value of '{}' was masked by a scrub that did not end; scrub again", found.key)
                        }
                        false => format!("the value of '{}' is not the one that was recorded", found.key),
                    });
                }
                match self.read(found) {
                    Ok(_) => {}
                    Err(error @ KeyedError::Damaged { .. }) => wrong.push(error.to_string()),
                    Err(error) => return Err(error),
                }
            }
        }
        let later = "SELECT 1 FROM history WHERE key = ?1 AND version > ?2";
        for key in told.into_keys() {
            if !self.db.prepare_cached(later)?.exists(params![key, version as i64])? {
                wrong.push(format!("'{key}' was recorded and is missing"));
            }
        }
        Ok(wrong)
    }

    /// What a rewind to a version would do: nothing, or take keys back. Returns those that it cannot take back, because
    /// their values were dropped to make room.
    pub fn plan_restore(&self, version: u64) -> Result<Option<Vec<String>>, KeyedError> {
        let differences = past::differences(&self.db, version)?;
        if differences.is_empty() {
            return Ok(None);
        }
        let mut missing = Vec::new();
        for (key, value) in differences {
            if let Some(value) = value
                && !past::has_content(&self.db, &value.sha256)?
            {
                missing.push(key);
            }
        }
        Ok(Some(missing))
    }

    /// Restores an earlier version. Keys that differ get the new version; those whose values were dropped to make room
    /// are not changed.
    fn restore(&mut self, restored: KvRestored) -> Result<(), KeyedError> {
        let KvRestored { from, version } = restored;
        let transaction = self.db.transaction()?;
        for (key, value) in past::differences(&transaction, from)? {
            let is_there = match &value {
                Some(value) => past::has_content(&transaction, &value.sha256)?,
                None => true,
            };
            if is_there {
                set(&transaction, &KvChange { key, version, value })?;
            }
        }
        past::set_restored(&transaction, version)?;
        Ok(transaction.commit()?)
    }

    fn restored_to(&self) -> Result<u64, KeyedError> {
        Ok(past::restored_to(&self.db)?)
    }

    /// Copies the content of a version, or what is current, to another session's store, which must not exist yet.
    pub fn copy_to(&self, directory: &Path, at: Option<u64>, durability: Durability) -> Result<KeyedCopy, KeyedError> {
        let entries = past::content(&self.db, at)?;
        let mut copy = Self::open(directory, KvState::default(), durability)?;
        let transaction = copy.db.transaction()?;
        let mut copied = KeyedCopy::default();
        for found in entries {
            let bytes = match self.read(&found) {
                Ok(bytes) => bytes,
                Err(KeyedError::Damaged { key, .. }) => {
                    copied.lost.push(key);
                    continue;
                }
                Err(error) => return Err(error),
            };
            let KeyedEntry { key, version, value } = found.clone();
            add(&transaction, &value.sha256, &bytes)?;
            set(&transaction, &KvChange { key, version, value: Some(value) })?;
            copied.entries.push(found);
        }
        transaction.commit()?;
        Ok(copied)
    }
}

/// Keeps a value. Returns its number.
fn add(db: &Connection, sha256: &str, bytes: &[u8]) -> rusqlite::Result<i64> {
    let sql = "INSERT INTO contents (sha256, bytes) VALUES (unhex(?1), ?2) ON CONFLICT DO NOTHING";
    db.prepare_cached(sql)?.execute(params![sha256, bytes.len() as i64])?;
    let sql = "SELECT id FROM contents WHERE sha256 = unhex(?1)";
    let id = db.prepare_cached(sql)?.query_row([sha256], |row| row.get(0))?;
    let sql = "INSERT INTO blobs (id, content) VALUES (?1, ?2) ON CONFLICT DO NOTHING";
    db.prepare_cached(sql)?.execute(params![id, bytes])?;
    Ok(id)
}

/// Applies one change, to the history and to the current entries.
fn set(db: &Connection, change: &KvChange) -> rusqlite::Result<()> {
    let KvChange { key, version, value } = change;
    let version = *version as i64;
    let (content, content_type) = match value {
        Some(value) => {
            // A value without its bytes is not taken.
            let sql = "SELECT id FROM contents JOIN blobs USING (id) WHERE sha256 = unhex(?1)";
            let id: i64 = db.prepare_cached(sql)?.query_row([&value.sha256], |row| row.get(0))?;
            (Some(id), Some(value.content_type.as_str()).filter(|content_type| *content_type != DEFAULT_TYPE))
        }
        None => (None, None),
    };
    let sql = "INSERT OR REPLACE INTO history (key, version, content, content_type) VALUES (?1, ?2, ?3, ?4)";
    db.prepare_cached(sql)?.execute(params![key, version, content, content_type])?;
    past::make_current(db, key, i64::MAX)
}

/// The first text after all texts with a prefix; none if there is no such text.
fn after_prefix(prefix: &str) -> Option<String> {
    let mut letters: Vec<char> = prefix.chars().collect();
    while let Some(last) = letters.pop() {
        // The numbers of surrogates are no characters.
        let next = if last == '\u{d7ff}' { Some('\u{e000}') } else { char::from_u32(u32::from(last) + 1) };
        if let Some(next) = next {
            letters.push(next);
            return Some(letters.into_iter().collect());
        }
    }
    None
}

#[cfg(test)]
mod tests;
