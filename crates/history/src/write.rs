//! Writes a part of the journal in one transaction, together with the place up to which it was read. So a batch is there
//! once or not at all, and whoever asks after a crash learns where to go on.

use crate::database::{self, Database, DatabaseError, Dialect, Value, marks, transaction};
use crate::rows::Rows;
use shellkeep_session::{Event, Record, Timestamp};
use shellkeep_store::{FeedEntry, Mark};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

pub(crate) const RECORD_COLUMNS: &str = "session_id, seq, epoch, at, type, line, exact";
pub(crate) const RUN_COLUMNS: &str = "session_id, run_id, seq, epoch, request_id, command, command_text, by_token, \
    started_at, finished_at, status, exit_code, `signal`, duration_us, stdout_bytes, stderr_bytes";

/// Tables with rows of sessions.
pub(crate) const TABLES: [&str; 5] = ["sk_records", "sk_superseded", "sk_messages", "sk_runs", "sk_sessions"];

/// Sessions that one statement asks about.
const ASKED_AT_ONCE: usize = 500;

/// Where the records come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalSource {
    /// Identifies the data directory.
    pub id: String,
    /// The node's name.
    pub node: String,
}

/// Up to which place a source's records are written; none if there are none.
pub fn place(database: &mut dyn Database, source: &str) -> Result<Option<Mark>, DatabaseError> {
    read_place(database, source, "")
}

/// Writes records and the place after them. Those before the place that is there already are skipped.
pub fn write(
    database: &mut dyn Database,
    source: &JournalSource,
    entries: &[FeedEntry],
    to: Mark,
) -> Result<(), DatabaseError> {
    transaction(database, |database| {
        let written = read_place(database, &source.id, "FOR UPDATE")?;
        let is_new = |entry: &&FeedEntry| written.is_none_or(|written| entry.place >= written);
        let entries: Vec<&FeedEntry> = entries.iter().filter(is_new).collect();
        for lives in one_life_each(&entries) {
            Writer { database, source }.write(lives)?;
        }
        if written.is_none_or(|written| to > written) {
            write_place(database, source, to)?;
        }
        Ok(())
    })
}

/// Goes back to an earlier place: what follows it is written again, where it is not there.
pub fn go_back(database: &mut dyn Database, source: &JournalSource, to: Mark) -> Result<(), DatabaseError> {
    write_place(database, source, to)
}

fn read_place(database: &mut dyn Database, source: &str, lock: &str) -> Result<Option<Mark>, DatabaseError> {
    let sql = format!("SELECT segment, position FROM sk_sources WHERE source = ? {lock}");
    let found = database.query(&sql, &[Value::text(source)])?;
    let number = |value: &Value| value.as_int().and_then(|number| u64::try_from(number).ok());
    let place = |row: &Vec<Value>| Some(Mark { segment: number(row.first()?)?, offset: number(row.get(1)?)? });
    Ok(found.rows.first().and_then(place))
}

fn write_place(database: &mut dyn Database, source: &JournalSource, to: Mark) -> Result<(), DatabaseError> {
    let row = vec![
        Value::text(&source.id),
        Value::text(&source.node),
        Value::count(to.segment),
        Value::count(to.offset),
        Value::time(Timestamp::now()),
    ];
    let update = upsert(database.dialect(), "source", &["node", "segment", "position", "updated_at"]);
    database::insert(database, "sk_sources (source, node, segment, position, updated_at)", vec![row], &update)?;
    Ok(())
}

/// Replaces columns of a row that is there.
fn upsert(dialect: Dialect, key: &str, columns: &[&str]) -> String {
    let set = |column: &&str| match dialect {
        Dialect::Postgres => format!("{column} = excluded.{column}"),
        Dialect::Mysql => format!("{column} = VALUES({column})"),
    };
    on_conflict(dialect, key, &columns.iter().map(set).collect::<Vec<_>>().join(", "))
}

fn on_conflict(dialect: Dialect, key: &str, set: &str) -> String {
    match dialect {
        Dialect::Postgres => format!("ON CONFLICT ({key}) DO UPDATE SET {set}"),
        Dialect::Mysql => format!("ON DUPLICATE KEY UPDATE {set}"),
    }
}

/// Leaves a row alone that is there. It does not count as changed.
fn or_leave(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Postgres => "ON CONFLICT DO NOTHING",
        // Not INSERT IGNORE, which ignores values that do not fit as well.
        Dialect::Mysql => "ON DUPLICATE KEY UPDATE session_id = session_id",
    }
}

/// Columns as a dialect writes them.
pub(crate) fn columns(dialect: Dialect, columns: &str) -> String {
    match dialect {
        Dialect::Postgres => columns.replace('`', ""),
        Dialect::Mysql => columns.to_owned(),
    }
}

/// Parts in which no session is created after other records of the same name: a name may be used again once its session
/// is deleted.
fn one_life_each<'a>(entries: &'a [&'a FeedEntry]) -> Vec<&'a [&'a FeedEntry]> {
    let (mut parts, mut start, mut seen) = (Vec::new(), 0, HashSet::new());
    for (index, entry) in entries.iter().enumerate() {
        let id = &entry.record.session_id;
        if !seen.insert(id) && matches!(entry.record.event, Event::SessionCreated { .. }) {
            parts.push(&entries[start..index]);
            (start, seen) = (index, HashSet::from([id]));
        }
    }
    parts.push(&entries[start..]);
    parts
}

/// Writes records within a transaction.
struct Writer<'a> {
    database: &'a mut dyn Database,
    source: &'a JournalSource,
}

impl Writer<'_> {
    fn write(&mut self, entries: &[&FeedEntry]) -> Result<(), DatabaseError> {
        if entries.is_empty() {
            return Ok(());
        }
        self.set_former_lives_aside(entries)?;
        let outdated = self.outdated(entries)?;
        let most = self.database.most_bytes();
        let mut rows = Rows::default();
        let current = || entries.iter().filter(|entry| !outdated.contains(&key(&entry.record)));
        for entry in current() {
            rows.add(entry, most).map_err(DatabaseError::failed)?;
        }
        let mut lost = Rows::default();
        for entry in entries.iter().filter(|entry| outdated.contains(&key(&entry.record))) {
            lost.add(entry, most).map_err(DatabaseError::failed)?;
        }
        self.insert("sk_superseded", RECORD_COLUMNS, lost.records)?;
        let count = rows.records.len() as u64;
        let records = std::mem::take(&mut rows.records);
        let inserted = self.insert("sk_records", RECORD_COLUMNS, records.clone())?;
        let mut changed = self.set_later_aside(&current().copied().collect::<Vec<_>>())?;
        if inserted < count {
            changed.extend(self.decide(records)?);
        }
        self.insert_derived(rows)?;
        changed.into_iter().try_for_each(|session_id| self.derive_again(&session_id))
    }

    fn insert(&mut self, table: &str, of: &str, rows: Vec<Vec<Value>>) -> Result<u64, DatabaseError> {
        let dialect = self.database.dialect();
        database::insert(self.database, &format!("{table} ({})", columns(dialect, of)), rows, or_leave(dialect))
    }

    fn insert_derived(&mut self, mut rows: Rows) -> Result<(), DatabaseError> {
        let dialect = self.database.dialect();
        self.insert(
            "sk_messages",
            "session_id, seq_id, seq, epoch, role, content, at",
            std::mem::take(&mut rows.messages),
        )?;
        let row = |((session_id, run_id), run): (&(String, String), &crate::rows::RunRow)| run.row(session_id, run_id);
        let (begun, ended): (Vec<_>, Vec<_>) = rows.runs.iter().partition(|(_, run)| run.start.is_some());
        self.insert("sk_runs", RUN_COLUMNS, begun.into_iter().map(row).collect())?;
        let signal = columns(dialect, "`signal`");
        let end = ["finished_at", "status", "exit_code", &signal, "duration_us", "stdout_bytes", "stderr_bytes"];
        let update = upsert(dialect, "session_id, run_id", &end);
        let into = format!("sk_runs ({})", columns(dialect, RUN_COLUMNS));
        database::insert(self.database, &into, ended.into_iter().map(row).collect(), &update)?;
        self.upsert_sessions(rows)
    }

    fn upsert_sessions(&mut self, rows: Rows) -> Result<(), DatabaseError> {
        let dialect = self.database.dialect();
        let node = &self.source.node;
        let time = |at: Option<Timestamp>| at.map_or(Value::Null, Value::time);
        let row = |(id, row): (&String, &crate::rows::SessionRow)| {
            vec![
                Value::text(id),
                Value::maybe_text(row.agent.as_deref()),
                time(row.created_at),
                Value::time(row.last_active_at),
                Value::count(row.seq),
                Value::text(node),
                Value::count(row.epoch),
            ]
        };
        let new = |column: &str| match dialect {
            Dialect::Postgres => format!("excluded.{column}"),
            Dialect::Mysql => format!("VALUES({column})"),
        };
        let old = |column: &str| format!("sk_sessions.{column}");
        let greatest = |column: &str| format!("{column} = GREATEST({}, {})", old(column), new(column));
        let first = |column: &str| format!("{column} = COALESCE({}, {})", old(column), new(column));
        let set = [
            first("agent"),
            first("created_at"),
            greatest("last_active_at"),
            greatest("seq"),
            format!(
                "node = CASE WHEN {} >= {} THEN {} ELSE {} END",
                new("epoch"),
                old("epoch"),
                new("node"),
                old("node")
            ),
            // Last: MySQL assigns in order, and the line before compares it.
            greatest("epoch"),
        ];
        let into = "sk_sessions (session_id, agent, created_at, last_active_at, seq, node, epoch)";
        let update = on_conflict(dialect, "session_id", &set.join(", "));
        database::insert(self.database, into, rows.sessions.iter().map(row).collect(), &update)?;
        for (id, row) in &rows.sessions {
            if let Some(ended) = row.ended {
                let values = [time(ended), Value::text(id), time(ended)];
                let differs = match dialect {
                    Dialect::Postgres => "ended_at IS DISTINCT FROM ?",
                    Dialect::Mysql => "NOT (ended_at <=> ?)",
                };
                let sql = format!("UPDATE sk_sessions SET ended_at = ? WHERE session_id = ? AND {differs}");
                self.database.execute(&sql, &values)?;
            }
            if let Some((at, by)) = &row.deleted {
                let values = [Value::time(*at), Value::maybe_text(by.as_deref()), Value::text(id)];
                let sql = "UPDATE sk_sessions SET deleted_at = ?, deleted_by = ? WHERE session_id = ?";
                self.database.execute(sql, &values)?;
            }
        }
        Ok(())
    }

    /// A session's name may be used again. What is there of the former session gets another name.
    fn set_former_lives_aside(&mut self, entries: &[&FeedEntry]) -> Result<(), DatabaseError> {
        let created = entries.iter().filter_map(|entry| match &entry.record.event {
            Event::SessionCreated { meta, .. } => Some((meta.session_id.as_str(), meta.created_at.as_microsecond())),
            _ => None,
        });
        let created: BTreeMap<&str, i64> = created.collect();
        for ids in created.keys().copied().collect::<Vec<_>>().chunks(ASKED_AT_ONCE) {
            let sql =
                format!("SELECT session_id, created_at FROM sk_sessions WHERE session_id IN ({})", marks(ids.len()));
            let values: Vec<Value> = ids.iter().map(Value::text).collect();
            for row in self.database.query(&sql, &values)?.rows {
                let (Some(id), Some(Value::Time(before))) = (row.first().and_then(Value::as_str), row.get(1)) else {
                    continue;
                };
                if created.get(id).is_some_and(|now| now != before) {
                    self.rename(id, &format!("{id}~{before}"))?;
                }
            }
        }
        Ok(())
    }

    fn rename(&mut self, from: &str, to: &str) -> Result<(), DatabaseError> {
        TABLES.into_iter().try_for_each(|table| {
            let sql = format!("UPDATE {table} SET session_id = ? WHERE session_id = ?");
            self.database.execute(&sql, &[Value::text(to), Value::text(from)]).map(drop)
        })
    }

    /// Records of an owner that another had replaced before it wrote them.
    fn outdated(&mut self, entries: &[&FeedEntry]) -> Result<HashSet<(String, u64)>, DatabaseError> {
        let mut outdated = HashSet::new();
        let ids: BTreeSet<&str> = entries.iter().map(|entry| entry.record.session_id.as_str()).collect();
        if entries.iter().all(|entry| entry.epoch == 0) {
            return Ok(outdated);
        }
        for ids in ids.into_iter().collect::<Vec<_>>().chunks(ASKED_AT_ONCE) {
            let sql = format!("SELECT session_id, epoch FROM sk_sessions WHERE session_id IN ({})", marks(ids.len()));
            let values: Vec<Value> = ids.iter().map(Value::text).collect();
            let epochs: HashMap<String, i64> =
                self.database.query(&sql, &values)?.rows.iter().filter_map(|row| pair(row)).collect();
            let is_behind = |entry: &&&FeedEntry| {
                epochs.get(entry.record.session_id.as_str()).is_some_and(|epoch| *epoch > entry.epoch.cast_signed())
            };
            for entry in entries.iter().filter(is_behind) {
                let sql = "SELECT 1 FROM sk_records WHERE session_id = ? AND type = 'owned' AND epoch > ? AND seq <= ? LIMIT 1";
                let values = [
                    Value::text(entry.record.session_id.as_str()),
                    Value::count(entry.epoch),
                    Value::count(entry.record.seq),
                ];
                if !self.database.query(sql, &values)?.rows.is_empty() {
                    outdated.insert(key(&entry.record));
                }
            }
        }
        Ok(outdated)
    }

    /// A new owner continues after a record of its choice: what an earlier owner wrote beyond it is set aside. Returns the
    /// sessions for which that was so.
    fn set_later_aside(&mut self, entries: &[&FeedEntry]) -> Result<BTreeSet<String>, DatabaseError> {
        let mut changed = BTreeSet::new();
        for entry in entries.iter().filter(|entry| matches!(entry.record.event, Event::Owned { .. })) {
            let id = entry.record.session_id.as_str();
            let values = [Value::text(id), Value::count(entry.record.seq), Value::count(entry.epoch)];
            if self.set_aside("session_id = ? AND seq >= ? AND epoch < ?", &values)? > 0 {
                changed.insert(id.to_owned());
            }
        }
        Ok(changed)
    }

    /// Moves records to the superseded ones; how many.
    fn set_aside(&mut self, which: &str, values: &[Value]) -> Result<u64, DatabaseError> {
        let keep = or_leave(self.database.dialect()).replace("session_id = session_id", "seq = sk_superseded.seq");
        let sql = format!(
            "INSERT INTO sk_superseded ({RECORD_COLUMNS}) SELECT {RECORD_COLUMNS} FROM sk_records WHERE {which} {keep}"
        );
        self.database.execute(&sql, values)?;
        self.database.execute(&format!("DELETE FROM sk_records WHERE {which}"), values)
    }

    /// Some records' numbers are taken. The one of the higher epoch stays, or else the later one; the other is set aside.
    /// Returns the sessions for which that was so.
    fn decide(&mut self, records: Vec<Vec<Value>>) -> Result<BTreeSet<String>, DatabaseError> {
        let mut changed = BTreeSet::new();
        for row in records {
            let sql = "SELECT epoch, at FROM sk_records WHERE session_id = ? AND seq = ?";
            let found = self.database.query(sql, &row[..2])?.rows.into_iter().next();
            let rank = |epoch: Option<&Value>, at: Option<&Value>| match (epoch, at) {
                (Some(Value::Int(epoch)), Some(Value::Time(at))) => (*epoch, *at),
                _ => (0, 0),
            };
            let ours = rank(row.get(2), row.get(3));
            let theirs = found.map(|found| rank(found.first(), found.get(1)));
            match theirs {
                Some(theirs) if theirs == ours => {}
                Some(theirs) if theirs > ours => {
                    changed.extend(row[0].as_str().map(str::to_owned));
                    self.insert("sk_superseded", RECORD_COLUMNS, vec![row])?;
                }
                _ => {
                    self.set_aside("session_id = ? AND seq = ?", &row[..2])?;
                    changed.extend(row[0].as_str().map(str::to_owned));
                    self.insert("sk_records", RECORD_COLUMNS, vec![row])?;
                }
            }
        }
        Ok(changed)
    }

    /// Makes a session's messages and runs from its records again.
    fn derive_again(&mut self, session_id: &str) -> Result<(), DatabaseError> {
        let id = [Value::text(session_id)];
        self.database.execute("DELETE FROM sk_messages WHERE session_id = ?", &id)?;
        self.database.execute("DELETE FROM sk_runs WHERE session_id = ?", &id)?;
        let sql = "SELECT line, exact, epoch FROM sk_records WHERE session_id = ? ORDER BY seq";
        let mut rows = Rows::default();
        for row in self.database.query(sql, &id)?.rows {
            let json = row.get(1).and_then(Value::as_bytes).or_else(|| row.first().and_then(Value::as_bytes));
            let record = json.and_then(|json| serde_json::from_slice::<Record>(json).ok());
            let epoch = row.get(2).and_then(Value::as_int).unwrap_or(0).cast_unsigned();
            if let Some(record) = record {
                rows.derive(&record, epoch);
            }
        }
        let last = rows.sessions.get(session_id).map_or(0, |row| row.seq);
        self.insert_derived(rows)?;
        let values = [Value::count(last), Value::text(session_id)];
        self.database.execute("UPDATE sk_sessions SET seq = ? WHERE session_id = ?", &values)?;
        Ok(())
    }
}

fn key(record: &Record) -> (String, u64) {
    (record.session_id.as_str().to_owned(), record.seq)
}

fn pair(row: &[Value]) -> Option<(String, i64)> {
    Some((row.first()?.as_str()?.to_owned(), row.get(1)?.as_int()?))
}
