//! A keyed store and its log: what the owner of a session writes, and what its next owner makes of it.

use super::log::{DRAFT, ENDING, LARGE, Log, LogFile, LogPart, LogPlace, Replayed, TIMES, logs};
use super::{DEFAULT_TYPE, Keyed, KeyedError, add, past};
use rusqlite::{Connection, params};
use shellkeep_session::{Claims, KvChange, KvState, KvValue};
use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Write};
use std::path::Path;

impl Keyed {
    /// Appends a change to the log. If there is no log of this claim, or it lacks something, one is begun with everything that
    /// the store has, this change among it. Returns when it is on the disk.
    pub fn share(&mut self, place: &LogPlace, part: LogPart, values: &[(String, Vec<u8>)]) -> Result<(), KeyedError> {
        let kept = self.used()?.kept;
        let is_good = |log: &Log| {
            let is_of_place = log.claim == place.claim && log.version == place.after;
            is_of_place && log.bytes < LARGE.max(kept.saturating_mul(TIMES)) && log.is_there()
        };
        let mut log = match self.log.take().filter(is_good) {
            Some(log) => log,
            None => match Log::open(place)?.filter(is_good) {
                Some(log) => log,
                None => return self.share_all(place, part.version),
            },
        };
        let (mut bytes, version) = (Vec::<u8>::new(), part.version);
        log.bytes += part.write(values, &mut bytes)?;
        log.file.write_all(&bytes)?;
        log.file.sync_data()?;
        place.keep(&log.path)?;
        log.version = version;
        self.log = Some(log);
        Ok(())
    }

    /// Begins a log with everything that the store has, and removes the earlier ones. Those of earlier owners stay if the store
    /// lacks what they have.
    pub fn share_all(&mut self, place: &LogPlace, version: u64) -> Result<(), KeyedError> {
        self.log = None;
        fs::create_dir_all(&place.directory)?;
        let files = place.files()?;
        let number =
            files.iter().filter(|file| file.claim == place.claim).map(|file| file.number + 1).max().unwrap_or(1);
        let name = format!("{}-{number}{ENDING}", place.claim);
        let (path, draft) = (place.directory.join(&name), place.directory.join(format!("{name}{DRAFT}")));
        let mut to = BufWriter::new(File::create(&draft)?);
        // What was there before a change counts even if the change is not recorded.
        let before = if version > place.after { place.seq - 1 } else { place.seq };
        let seq_of = |version: u64| if version > place.after { place.seq } else { before };
        let mut bytes = dump(&self.db, seq_of, &mut to)?;
        let restored_to = Some(past::restored_to(&self.db)?);
        for version in [place.after, version] {
            let end = LogPart { seq: seq_of(version), version, restored_to, ..LogPart::default() };
            bytes += end.write(&[], &mut to)?;
        }
        let file = to.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.sync_all()?;
        fs::rename(&draft, &path)?;
        for directory in place.directory.ancestors().take(3) {
            File::open(directory)?.sync_all()?;
        }
        place.keep(&path)?;
        self.log = Some(Log { file, path, claim: place.claim.clone(), version, bytes });
        let has_all = past::missing_to(&self.db)? == 0;
        let is_replaced =
            |file: &LogFile| file.claim == place.claim || (has_all && file.claim.epoch < place.claim.epoch);
        files.into_iter().filter(is_replaced).try_for_each(|file| place.remove(&file.path))?;
        Ok(())
    }

    /// Makes a store in `directory`, which has none, from the log in another one: what was recorded, as far as the log has it. A part
    /// counts if its record is the session's: made by the claim that wrote the part. None if there is no log.
    pub fn replay(
        directory: &Path,
        from: &Path,
        claims: &Claims,
        recorded: KvState,
    ) -> Result<Option<Replayed>, KeyedError> {
        for file in logs(from)? {
            let mut parts = BufReader::new(File::open(&file.path)?);
            let counts = |part: &LogPart| {
                part.version <= recorded.version && claims.of(part.seq).is_none_or(|claim| *claim == file.claim)
            };
            let mut keyed = None;
            let mut version = 0;
            while let Some(part) = LogPart::read(&mut parts)? {
                let Some(values) = part.read_values(&mut parts)? else { break };
                if !counts(&part) {
                    continue;
                }
                let keyed = match &mut keyed {
                    Some(keyed) => keyed,
                    None => {
                        fs::create_dir_all(directory)?;
                        let mut new = Self { db: Connection::open(directory.join(super::FILE))?, log: None };
                        new.set_up(crate::Durability::Process)?;
                        keyed.insert(new)
                    }
                };
                version = part.version;
                keyed.apply(part, &values)?;
            }
            if let Some(keyed) = keyed {
                // A rewind that was recorded last is done when the store is opened.
                let last = recorded.restored.map_or(0, |restored| restored.version);
                let is_complete = version == recorded.version || (last == recorded.version && version + 1 == last);
                drop(keyed);
                return Ok(Some(Replayed { is_complete }));
            }
        }
        Ok(None)
    }

    fn apply(&mut self, part: LogPart, values: &[(String, Vec<u8>)]) -> Result<(), KeyedError> {
        let LogPart { changes, restored, restored_to, version, .. } = part;
        if !changes.is_empty() || restored.is_some() {
            // A change that was not recorded may be followed by another of its version.
            self.take_back(version.saturating_sub(1))?;
        }
        let transaction = self.db.transaction()?;
        for (sha256, bytes) in values {
            add(&transaction, sha256, bytes)?;
        }
        for change in &changes {
            set_known(&transaction, change)?;
        }
        if let Some(version) = restored_to {
            past::set_restored(&transaction, version)?;
        }
        transaction.commit()?;
        match restored {
            Some(restored) => self.restore(restored),
            None => Ok(()),
        }
    }
}

/// Writes all versions of all keys, each value once. Returns how many bytes.
fn dump(db: &Connection, seq_of: impl Fn(u64) -> u64, to: &mut impl Write) -> Result<u64, KeyedError> {
    let sql = "SELECT h.version, h.key, lower(hex(sha256)), bytes, content_type, content \
               FROM history h LEFT JOIN contents ON id = content ORDER BY h.version, h.key";
    let mut statement = db.prepare(sql)?;
    let mut rows = statement.query([])?;
    let mut read = db.prepare("SELECT content FROM blobs WHERE id = ?1")?;
    let (mut written, mut bytes) = (HashSet::new(), 0);
    let (mut part, mut values) = (LogPart::default(), Vec::new());
    while let Some(row) = rows.next()? {
        let version = row.get::<_, i64>(0)?.unsigned_abs();
        if version != part.version && !part.changes.is_empty() {
            bytes += std::mem::take(&mut part).write(&std::mem::take(&mut values), to)?;
        }
        (part.seq, part.version) = (seq_of(version), version);
        let content: Option<i64> = row.get(5)?;
        let value = match content {
            Some(id) => {
                let (sha256, length): (String, i64) = (row.get(2)?, row.get(3)?);
                if written.insert(id)
                    && let Some(bytes) = read.query_map([id], |row| row.get::<_, Vec<u8>>(0))?.next().transpose()?
                {
                    values.push((sha256.clone(), bytes));
                }
                let content_type: Option<String> = row.get(4)?;
                let content_type = content_type.unwrap_or_else(|| DEFAULT_TYPE.to_owned());
                Some(KvValue { sha256, bytes: length.unsigned_abs(), content_type })
            }
            None => None,
        };
        part.changes.push(KvChange { key: row.get(1)?, version, value });
    }
    if !part.changes.is_empty() {
        bytes += part.write(&values, to)?;
    }
    Ok(bytes)
}

/// Applies a change whose value may have been dropped to make room.
fn set_known(db: &Connection, change: &KvChange) -> rusqlite::Result<()> {
    let KvChange { key, version, value } = change;
    let (content, content_type): (Option<i64>, _) = match value {
        Some(KvValue { sha256, bytes, content_type }) => {
            let sql = "INSERT INTO contents (sha256, bytes) VALUES (unhex(?1), ?2) ON CONFLICT DO NOTHING";
            db.prepare_cached(sql)?.execute(params![sha256, *bytes as i64])?;
            let id = "SELECT id FROM contents WHERE sha256 = unhex(?1)";
            let id = db.prepare_cached(id)?.query_row([sha256], |row| row.get(0))?;
            (Some(id), Some(content_type.as_str()).filter(|content_type| *content_type != DEFAULT_TYPE))
        }
        None => (None, None),
    };
    let sql = "INSERT OR REPLACE INTO history (key, version, content, content_type) VALUES (?1, ?2, ?3, ?4)";
    db.prepare_cached(sql)?.execute(params![key, *version as i64, content, content_type])?;
    past::make_current(db, key, i64::MAX)
}
