//! Writes a part of the journal in one transaction, together with the place up to which it was read. So a batch is there
//! once or not at all, and whoever asks after a crash learns where to go on.

use crate::database::{self, Database, DatabaseError, Dialect, Value, marks, padded, transaction};
use crate::names::{self, ASKED_AT_ONCE, KnownSessions};
use crate::rows::{Incoming, Rows, RunRow, SessionRow};
use shellkeep_session::{Event, EventName, Json, Record, Timestamp};
use shellkeep_store::{FeedEntry, Mark};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

pub(crate) const RECORD_COLUMNS: &str = "session_id, seq, epoch, at, type, line, exact";
pub(crate) const RUN_COLUMNS: &str = "session_id, run_id, seq, epoch, request_id, command, command_text, by_token, \
    started_at, finished_at, status, exit_code, `signal`, duration_us, stdout_bytes, stderr_bytes";

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
    in_transaction(database, |database, expected| {
        let written = read_place(database, &source.id, "FOR UPDATE")?;
        let is_new = |entry: &&FeedEntry| written.is_none_or(|written| entry.place >= written);
        let new = entries.iter().filter(is_new);
        let entries = new.map(|entry| Incoming::new(&entry.record, entry.epoch, entry.created_at)).collect();
        Writer { database, source, expected }.write(entries)?;
        if written.is_none_or(|written| to > written) {
            write_place(database, source, to)?;
        }
        Ok(())
    })
}

/// Writes records that came through a broker: perhaps not for the first time, and perhaps in another order.
pub(crate) fn write_delivered(
    database: &mut dyn Database,
    source: &JournalSource,
    entries: &[Incoming],
) -> Result<(), DatabaseError> {
    in_transaction(database, |database, expected| {
        wait_for_turn(database, source)?;
        Writer { database, source, expected }.write(entries.to_vec())
    })
}

/// What a writer expects to find of what it inserts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expected {
    /// Nothing, as is usual. An insert that finds something fails; one that looks first costs the database more.
    Nothing,
    /// Rows of an earlier delivery, or of another node.
    Anything,
}

/// Does everything or nothing: first as if all of it were new, and if not, once more.
fn in_transaction(
    database: &mut dyn Database,
    mut work: impl FnMut(&mut dyn Database, Expected) -> Result<(), DatabaseError>,
) -> Result<(), DatabaseError> {
    match transaction(database, |database| work(database, Expected::Nothing)) {
        Err(DatabaseError::Taken { .. }) => transaction(database, |database| work(database, Expected::Anything)),
        done => done,
    }
}

/// What came through a broker from one source is written by one writer at a time: waits until the transactions of others
/// are over.
pub(crate) fn wait_for_turn(database: &mut dyn Database, source: &JournalSource) -> Result<(), DatabaseError> {
    if read_place(database, &source.id, "FOR UPDATE")?.is_none() {
        write_place(database, source, Mark::default())?;
    }
    Ok(())
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
    database::insert(database, "sk_sources (source, node, segment, position, updated_at)", &[row], &update)?;
    Ok(())
}

/// Replaces columns of a row that is there.
pub(crate) fn upsert(dialect: Dialect, key: &str, columns: &[&str]) -> String {
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
pub(crate) fn or_leave(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Postgres => "ON CONFLICT DO NOTHING",
        // Not INSERT IGNORE, which ignores values that do not fit as well.
        Dialect::Mysql => "ON DUPLICATE KEY UPDATE session_id = session_id",
    }
}

/// A table with its columns.
fn into(dialect: Dialect, table: &str, of: &str) -> String {
    format!("{table} ({})", columns(dialect, of))
}

/// Columns as a dialect writes them.
pub(crate) fn columns(dialect: Dialect, columns: &str) -> String {
    match dialect {
        Dialect::Postgres => columns.replace('`', ""),
        Dialect::Mysql => columns.to_owned(),
    }
}

/// Replaces some columns of a row that has no value in `missing` yet, which is one of them.
fn upsert_if_missing(dialect: Dialect, table: &str, key: &str, columns: &[&str], missing: &str) -> String {
    match dialect {
        Dialect::Postgres => {
            format!("{} WHERE {table}.{missing} IS NULL", upsert(dialect, key, columns))
        }
        Dialect::Mysql => {
            // Last: MySQL assigns in order, and the others look at it.
            let ordered = columns.iter().filter(|column| **column != missing).chain([&missing]);
            let set = ordered.map(|column| format!("{column} = IF({missing} IS NULL, VALUES({column}), {column})"));
            on_conflict(dialect, key, &set.collect::<Vec<_>>().join(", "))
        }
    }
}

/// The name of a session in the tables, and the number of a record.
type Key = (String, i64);

/// The epoch and the time of a record. Of two records with one key the one of the higher rank stays.
type Rank = (i64, i64);

/// A record among those with the same key.
#[derive(Debug, Clone, Copy)]
struct Ranked {
    rank: Rank,
    /// Whether it stands for a record, and those before it, that its node did not have. It has the rank of that record.
    stands_in: bool,
}

/// Writes records within a transaction.
struct Writer<'a> {
    database: &'a mut dyn Database,
    source: &'a JournalSource,
    expected: Expected,
}

impl Writer<'_> {
    fn write(&mut self, mut entries: Vec<Incoming>) -> Result<(), DatabaseError> {
        if entries.is_empty() {
            return Ok(());
        }
        let mut known = names::known(self.database, entries.iter().map(|entry| entry.name.as_str()))?;
        let sessions = entries.iter().map(|entry| (entry.name.as_str(), created_at(entry)));
        let latest = names::tell_apart(self.database, sessions, &mut known)?;
        for entry in &mut entries {
            if let Some(name) = latest.earlier(&entry.name, created_at(entry)) {
                entry.name = name;
            }
        }
        let lost = self.take_outdated(&mut entries, &known)?;
        let most = self.database.most_bytes();
        let lost = rows(&lost, most)?;
        self.insert_missing("sk_superseded", RECORD_COLUMNS, &lost.records)?;
        let rows = rows(&entries, most)?;
        let inserted = self.insert("sk_records", RECORD_COLUMNS, &rows.records)?;
        let mut changed = self.set_later_aside(&entries)?;
        if inserted < rows.records.len() as u64 {
            changed.extend(self.decide(&rows.records)?);
        }
        self.insert_derived(&rows)?;
        changed.into_iter().try_for_each(|name| self.derive_again(&name))
    }

    /// Inserts rows; how many were new.
    fn insert(&mut self, table: &str, of: &str, rows: &[Vec<Value>]) -> Result<u64, DatabaseError> {
        let dialect = self.database.dialect();
        let on_conflict = match self.expected {
            Expected::Nothing => "",
            Expected::Anything => or_leave(dialect),
        };
        database::insert(self.database, &into(dialect, table, of), rows, on_conflict)
    }

    /// Inserts rows that are not there.
    fn insert_missing(&mut self, table: &str, of: &str, rows: &[Vec<Value>]) -> Result<(), DatabaseError> {
        let dialect = self.database.dialect();
        database::insert(self.database, &into(dialect, table, of), rows, or_leave(dialect)).map(drop)
    }

    fn insert_derived(&mut self, rows: &Rows) -> Result<(), DatabaseError> {
        self.insert("sk_messages", "session_id, seq_id, seq, epoch, role, content, at", &rows.messages)?;
        self.upsert_runs(rows)?;
        self.upsert_sessions(rows)
    }

    /// Start and end of a run may come one by one, in any order, and again.
    fn upsert_runs(&mut self, rows: &Rows) -> Result<(), DatabaseError> {
        let dialect = self.database.dialect();
        let signal = columns(dialect, "`signal`");
        let start = ["seq", "epoch", "request_id", "command", "command_text", "by_token", "started_at"];
        let end = ["finished_at", "status", "exit_code", &signal, "duration_us", "stdout_bytes", "stderr_bytes"];
        let key = "session_id, run_id";
        let kinds = [
            ((true, false), upsert_if_missing(dialect, "sk_runs", key, &start, "command")),
            ((false, true), upsert(dialect, key, &end)),
            ((true, true), upsert(dialect, key, &[&start[..], &end[..]].concat())),
        ];
        let into = into(dialect, "sk_runs", RUN_COLUMNS);
        for (kind, update) in kinds {
            // The start of a run is its first record.
            let update = if kind.0 && self.expected == Expected::Nothing { "" } else { &update };
            let is_of_kind = |run: &RunRow| (run.start.is_some(), run.end.is_some()) == kind;
            let runs = rows.runs.iter().filter(|(_, run)| is_of_kind(run));
            let runs: Vec<Vec<Value>> = runs.map(|((name, run_id), run)| run.row(name, run_id)).collect();
            database::insert(self.database, &into, &runs, update)?;
        }
        Ok(())
    }

    fn upsert_sessions(&mut self, rows: &Rows) -> Result<(), DatabaseError> {
        let dialect = self.database.dialect();
        let node = &self.source.node;
        let time = |at: Option<Timestamp>| at.map_or(Value::Null, Value::time);
        let row = |(id, row): (&String, &SessionRow)| {
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
        let sessions: Vec<Vec<Value>> = rows.sessions.iter().map(row).collect();
        database::insert(self.database, into, &sessions, &update)?;
        self.update_ended(rows)?;
        for (id, row) in &rows.sessions {
            if let Some((at, by)) = &row.deleted {
                // A former owner sets its copy aside as a deleted session; the session itself goes on.
                let epoch = Value::count(row.epoch);
                let values = [Value::time(*at), Value::maybe_text(by.as_deref()), Value::text(id), epoch];
                let sql = "UPDATE sk_sessions SET deleted_at = ?, deleted_by = ? WHERE session_id = ? AND epoch <= ?";
                self.database.execute(sql, &values)?;
            }
        }
        Ok(())
    }

    /// Says when sessions ended, by the last record of each that ends it or makes it active again: records may come in any
    /// order. Without one that ends it among those just written, only a session that has ended can change. The rows of
    /// these sessions were just written, so no other writer changes them meanwhile.
    fn update_ended(&mut self, rows: &Rows) -> Result<(), DatabaseError> {
        let of_kind = |ends: bool| rows.sessions.iter().filter(move |(_, row)| row.ends == Some(ends));
        let mut names: Vec<Value> = of_kind(true).map(|(name, _)| Value::text(name)).collect();
        let active: Vec<Value> = of_kind(false).map(|(name, _)| Value::text(name)).collect();
        for active in active.chunks(ASKED_AT_ONCE) {
            let active = padded(active.to_vec());
            let sql = format!(
                "SELECT session_id FROM sk_sessions WHERE session_id IN ({}) AND ended_at IS NOT NULL",
                marks(active.len())
            );
            names.extend(self.database.query(&sql, &active)?.rows.into_iter().flatten());
        }
        let sql = "UPDATE sk_sessions SET ended_at = (SELECT CASE WHEN type = 'session_ended' THEN at END FROM sk_records \
                   WHERE sk_records.session_id = ? AND type IN ('session_ended', 'run_started', 'service_started', \
                   'message_added') ORDER BY seq DESC LIMIT 1) WHERE session_id = ?";
        names.into_iter().try_for_each(|name| self.database.execute(sql, &[name.clone(), name]).map(drop))
    }

    /// Takes out the records of an owner that another had replaced before it wrote them.
    fn take_outdated<'e>(
        &mut self,
        entries: &mut Vec<Incoming<'e>>,
        known: &KnownSessions,
    ) -> Result<Vec<Incoming<'e>>, DatabaseError> {
        let mut outdated = HashSet::new();
        let is_behind =
            |entry: &&Incoming| known.get(&entry.name).is_some_and(|known| known.epoch > entry.epoch.cast_signed());
        for entry in entries.iter().filter(is_behind) {
            let sql =
                "SELECT 1 FROM sk_records WHERE session_id = ? AND type = 'owned' AND epoch > ? AND seq <= ? LIMIT 1";
            let values = [Value::text(&entry.name), Value::count(entry.epoch), Value::count(entry.seq)];
            if !self.database.query(sql, &values)?.rows.is_empty() {
                outdated.insert((entry.name.clone(), entry.seq));
            }
        }
        if outdated.is_empty() {
            return Ok(Vec::new());
        }
        let all = std::mem::take(entries).into_iter();
        let (lost, kept) = all.partition(|entry| outdated.contains(&(entry.name.clone(), entry.seq)));
        *entries = kept;
        Ok(lost)
    }

    /// A new owner continues after a record of its choice: what an earlier owner wrote beyond it is set aside. Returns the
    /// sessions for which that was so.
    fn set_later_aside(&mut self, entries: &[Incoming]) -> Result<BTreeSet<String>, DatabaseError> {
        let mut changed = BTreeSet::new();
        for entry in entries.iter().filter(|entry| matches!(entry.event(), Some(Event::Owned { .. }))) {
            let values = [Value::text(&entry.name), Value::count(entry.seq), Value::count(entry.epoch)];
            if self.set_aside("session_id = ? AND seq >= ? AND epoch < ?", &values)? > 0 {
                changed.insert(entry.name.clone());
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
    fn decide(&mut self, records: &[Vec<Value>]) -> Result<BTreeSet<String>, DatabaseError> {
        let mut found = self.ranks(records)?;
        let mut changed = BTreeSet::new();
        for row in records {
            let Some((key, ours)) = ranked(row) else { continue };
            match found.get(&key) {
                Some(theirs) if theirs.rank == ours.rank && (ours.stands_in || !theirs.stands_in) => {}
                Some(theirs) if theirs.rank > ours.rank => {
                    changed.insert(key.0);
                    self.insert_missing("sk_superseded", RECORD_COLUMNS, std::slice::from_ref(row))?;
                }
                _ => {
                    self.set_aside("session_id = ? AND seq = ?", &row[..2])?;
                    self.insert("sk_records", RECORD_COLUMNS, std::slice::from_ref(row))?;
                    changed.insert(key.0.clone());
                    found.insert(key, ours);
                }
            }
        }
        Ok(changed)
    }

    /// Epoch and time of the records that are there with the numbers of these.
    fn ranks(&mut self, records: &[Vec<Value>]) -> Result<HashMap<Key, Ranked>, DatabaseError> {
        let mut ranges: BTreeMap<String, (i64, i64)> = BTreeMap::new();
        for ((name, seq), _) in records.iter().filter_map(|row| ranked(row)) {
            let (first, last) = ranges.entry(name).or_insert((seq, seq));
            (*first, *last) = (seq.min(*first), seq.max(*last));
        }
        let sql =
            "SELECT session_id, seq, epoch, at, type FROM sk_records WHERE session_id = ? AND seq BETWEEN ? AND ?";
        let mut ranks = HashMap::new();
        for (name, (first, last)) in ranges {
            let values = [Value::text(name), Value::Int(first), Value::Int(last)];
            ranks.extend(self.database.query(sql, &values)?.rows.iter().filter_map(|row| ranked(row)));
        }
        Ok(ranks)
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
            let record = json.and_then(|json| Record::from_json(json).ok());
            let epoch = row.get(2).and_then(Value::as_int).unwrap_or(0).cast_unsigned();
            if let Some(record) = record {
                rows.derive(&Incoming { name: session_id.to_owned(), ..Incoming::new(&record, epoch, None) });
            }
        }
        let last = rows.sessions.get(session_id).map_or(0, |row| row.seq);
        self.insert_derived(&rows)?;
        let values = [Value::count(last), Value::text(session_id)];
        self.database.execute("UPDATE sk_sessions SET seq = ? WHERE session_id = ?", &values)?;
        Ok(())
    }
}

/// When the session of a record was created, in microseconds.
fn created_at(incoming: &Incoming) -> Option<i64> {
    incoming.created_at.map(Timestamp::as_microsecond)
}

/// What some records become in the tables.
fn rows(entries: &[Incoming], most: usize) -> Result<Rows, DatabaseError> {
    let mut rows = Rows::default();
    entries.iter().try_for_each(|entry| rows.add(entry, most)).map_err(DatabaseError::failed)?;
    Ok(rows)
}

/// Key and rank of a row that begins with session, number, epoch, time and type.
fn ranked(row: &[Value]) -> Option<(Key, Ranked)> {
    let [name, Value::Int(seq), Value::Int(epoch), Value::Time(at), kind, ..] = row else { return None };
    let stands_in = kind.as_str() == Some(EventName::RecordsLost.stored());
    Some(((name.as_str()?.to_owned(), *seq), Ranked { rank: (*epoch, *at), stands_in }))
}
