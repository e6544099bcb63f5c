//! How long history is kept, and removing what is older: a few rows at a time, between batches of new ones.

use crate::database::{Database, DatabaseError, Value, transaction};
use crate::names::TABLES;
use shellkeep_session::Timestamp;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Rows that one step removes at most, of each table: few enough that new records do not wait.
const ROWS_AT_ONCE: usize = 500;

/// Sessions that one step looks at.
const SESSIONS_AT_ONCE: i64 = 200;

/// Names of removed sessions that are reported; the others are counted.
const MOST_NAMES: usize = 20;

/// How often old rows are looked for at most and at least. Between them it is a tenth of the shortest time.
const EVERY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(3600));

/// Tables whose rows have the number of a record, besides that of the records.
const NUMBERED: [&str; 4] = ["sk_superseded", "sk_messages", "sk_runs", "sk_lines"];

/// How long history is kept. None is forever.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Retention {
    /// A record is removed when it is this old.
    pub keep: Option<Duration>,
    /// The same for the sessions of some agents, instead.
    pub agents: BTreeMap<String, Option<Duration>>,
    /// A session that was deleted is removed after this time, even if its records are younger than [`Self::keep`].
    pub keep_deleted: Option<Duration>,
}

impl Retention {
    /// How often to look for old rows; never, if nothing is ever removed.
    fn interval(&self) -> Option<Duration> {
        let shortest = self.agents.values().chain([&self.keep, &self.keep_deleted]).flatten().min()?;
        Some((*shortest / 10).clamp(EVERY.0, EVERY.1))
    }

    /// What happens to a session's rows.
    fn fate(&self, session: &Stored, now: Timestamp) -> Fate {
        let before = |time: Option<Duration>| now.checked_sub(time?).ok();
        let keep = session.agent.as_ref().and_then(|agent| self.agents.get(agent)).unwrap_or(&self.keep);
        let is_past =
            |at: Option<Timestamp>, cutoff: Option<Timestamp>| at.zip(cutoff).is_some_and(|(at, cutoff)| at < cutoff);
        if is_past(session.deleted_at, before(self.keep_deleted)) || is_past(session.last_active_at, before(*keep)) {
            return Fate::RemoveAll;
        }
        match before(*keep) {
            Some(cutoff) if session.created_at.is_none_or(|at| at < cutoff) => Fate::RemoveBefore(cutoff),
            _ => Fate::Keep,
        }
    }
}

/// A session as its table has it.
#[derive(Debug, Default)]
struct Stored {
    name: String,
    agent: Option<String>,
    created_at: Option<Timestamp>,
    last_active_at: Option<Timestamp>,
    deleted_at: Option<Timestamp>,
}

#[derive(Debug, PartialEq, Eq)]
enum Fate {
    Keep,
    RemoveBefore(Timestamp),
    RemoveAll,
}

/// What one pass has removed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Removed {
    pub rows: u64,
    /// Sessions of which nothing is left.
    pub sessions: u64,
    /// The names of the first of them.
    pub names: Vec<String>,
}

impl std::fmt::Display for Removed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} rows, {} whole sessions", self.rows, self.sessions)?;
        if !self.names.is_empty() {
            let more = if self.sessions > self.names.len() as u64 { ", …" } else { "" };
            write!(f, ": {}{more}", self.names.join(", "))?;
        }
        Ok(())
    }
}

/// One pass over all sessions.
#[derive(Debug)]
pub(crate) struct Pass {
    retention: Retention,
    now: Timestamp,
    /// Sessions that were read and not looked at, in reverse order.
    waiting: Vec<Stored>,
    /// The last session that was read.
    after: String,
    removed: Removed,
}

impl Pass {
    fn new(retention: Retention, now: Timestamp) -> Self {
        Self { retention, now, waiting: Vec::new(), after: String::new(), removed: Removed::default() }
    }

    /// Does a little; what was removed by all steps after the last one.
    pub(crate) fn step(&mut self, database: &mut dyn Database) -> Result<Option<Removed>, DatabaseError> {
        if self.waiting.is_empty() {
            self.waiting = sessions(database, &self.after)?;
            match self.waiting.first() {
                Some(last) => self.after.clone_from(&last.name),
                None => return Ok(Some(std::mem::take(&mut self.removed))),
            }
        }
        while let Some(session) = self.waiting.pop() {
            let fate = self.retention.fate(&session, self.now);
            let cutoff = match fate {
                Fate::Keep => continue,
                Fate::RemoveAll => None,
                Fate::RemoveBefore(cutoff) => Some(cutoff),
            };
            let (rows, is_done) = transaction(database, |database| remove(database, &session.name, cutoff))?;
            metrics::counter!("shellkeep_history_removed_rows_total").increment(rows);
            self.removed.rows += rows;
            match (is_done, fate) {
                (false, _) => self.waiting.push(session),
                (true, Fate::RemoveAll) => self.note(session.name),
                (true, _) => {}
            }
            if rows > 0 {
                return Ok(None);
            }
        }
        Ok(None)
    }

    fn note(&mut self, name: String) {
        metrics::counter!("shellkeep_history_removed_sessions_total").increment(1);
        self.removed.sessions += 1;
        if self.removed.names.len() < MOST_NAMES {
            self.removed.names.push(name);
        }
    }
}

/// Passes over all sessions, from time to time.
#[derive(Debug)]
pub(crate) struct Passes {
    retention: Retention,
    pass: Option<Pass>,
    /// When the next one begins.
    next: Instant,
}

/// How far removing is.
#[derive(Debug)]
pub(crate) enum Removal {
    /// There is nothing to do now.
    Idle,
    /// There is more to do.
    UnderWay,
    /// A pass has ended.
    Done(Removed),
}

impl Passes {
    pub(crate) fn new(retention: Retention) -> Self {
        Self { retention, pass: None, next: Instant::now() }
    }

    /// From now on history is kept for this long. The next pass begins at once; one that is under way goes on to its end with
    /// the new times, because only then is what it removed reported.
    pub(crate) fn set(&mut self, retention: Retention) {
        if retention != self.retention {
            if let Some(pass) = &mut self.pass {
                pass.retention.clone_from(&retention);
            }
            self.retention = retention;
            self.next = Instant::now();
        }
    }

    /// Does a little, if it is time for it.
    pub(crate) fn step<E>(&mut self, step: impl FnOnce(&mut Pass) -> Result<Option<Removed>, E>) -> Result<Removal, E> {
        let now = Instant::now();
        if let Some(interval) = self.retention.interval().filter(|_| self.pass.is_none() && now >= self.next) {
            self.next = now + interval;
            self.pass = Some(Pass::new(self.retention.clone(), Timestamp::now()));
        }
        let Some(pass) = &mut self.pass else { return Ok(Removal::Idle) };
        let Some(removed) = step(pass)? else { return Ok(Removal::UnderWay) };
        self.pass = None;
        Ok(Removal::Done(removed))
    }
}

/// The next sessions after a name, the first one last.
fn sessions(database: &mut dyn Database, after: &str) -> Result<Vec<Stored>, DatabaseError> {
    let sql = format!(
        "SELECT session_id, agent, created_at, last_active_at, deleted_at FROM sk_sessions WHERE session_id > ? \
         ORDER BY session_id LIMIT {SESSIONS_AT_ONCE}"
    );
    let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
    let time = |value: Option<&Value>| value.and_then(Value::as_time);
    let stored = |row: &Vec<Value>| Stored {
        name: text(row.first()).unwrap_or_default(),
        agent: text(row.get(1)),
        created_at: time(row.get(2)),
        last_active_at: time(row.get(3)),
        deleted_at: time(row.get(4)),
    };
    Ok(database.query(&sql, &[Value::text(after)])?.rows.iter().rev().map(stored).collect())
}

/// Removes the oldest rows of a session, those before a time or all; how many, and whether none is left to remove. Without
/// a time the session's own row goes with the last of them.
fn remove(database: &mut dyn Database, name: &str, before: Option<Timestamp>) -> Result<(u64, bool), DatabaseError> {
    let sql = format!("SELECT seq, at FROM sk_records WHERE session_id = ? ORDER BY seq LIMIT {ROWS_AT_ONCE}");
    let found = database.query(&sql, &[Value::text(name)])?.rows;
    let is_old = |row: &&Vec<Value>| match (before, row.get(1).and_then(Value::as_time)) {
        (Some(before), at) => at.is_some_and(|at| at < before),
        (None, _) => true,
    };
    let old: Vec<&Vec<Value>> = found.iter().take_while(is_old).collect();
    let is_done = old.len() < ROWS_AT_ONCE;
    let mut rows = 0;
    if let Some(last) = old.last().and_then(|row| row.first()) {
        for table in NUMBERED.into_iter().chain(["sk_records"]) {
            let sql = format!("DELETE FROM {table} WHERE session_id = ? AND seq <= ?");
            rows += database.execute(&sql, &[Value::text(name), last.clone()])?;
        }
    }
    if is_done && before.is_none() {
        for table in TABLES {
            rows += database.execute(&format!("DELETE FROM {table} WHERE session_id = ?"), &[Value::text(name)])?;
        }
    }
    Ok((rows, is_done))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Option<Timestamp> {
        Timestamp::from_second(seconds).ok()
    }

    #[test]
    fn a_session_is_kept_as_long_as_the_host_says() {
        let seconds = |time| Some(Duration::from_secs(time));
        let retention = Retention {
            keep: seconds(100),
            agents: BTreeMap::from([("ci".to_owned(), seconds(10)), ("law".to_owned(), None)]),
            keep_deleted: seconds(30),
        };
        let now = Timestamp::from_second(1000).expect("a time");
        let fate = |agent: &str, created_at, active, deleted| {
            let agent = Some(agent.to_owned()).filter(|agent| !agent.is_empty());
            let times = (at(created_at), at(active), (deleted > 0).then(|| at(deleted)).flatten());
            let session = Stored {
                agent,
                created_at: times.0,
                last_active_at: times.1,
                deleted_at: times.2,
                ..Stored::default()
            };
            retention.fate(&session, now)
        };
        let before = |seconds| Fate::RemoveBefore(at(seconds).expect("a time"));
        assert_eq!(fate("", 950, 960, 0), Fate::Keep);
        assert_eq!(fate("", 850, 960, 0), before(900));
        assert_eq!(fate("ann", 850, 899, 0), Fate::RemoveAll);
        assert_eq!(fate("ci", 950, 995, 0), before(990));
        assert_eq!(fate("ci", 950, 960, 0), Fate::RemoveAll);
        assert_eq!(fate("law", 1, 2, 0), Fate::Keep);
        assert_eq!(fate("law", 1, 2, 969), Fate::RemoveAll, "deleted, and kept for long enough");
        assert_eq!(fate("ann", 950, 971, 971), Fate::Keep, "deleted just now");
        assert_eq!(retention.interval(), seconds(1));
        assert_eq!(Retention::default().interval(), None);
    }

    #[test]
    fn what_a_pass_removed_is_reported_though_the_times_change_meanwhile() {
        let days = |days: u64| Retention { keep: Some(Duration::from_secs(days * 86_400)), ..Retention::default() };
        for after in [days(60), Retention::default()] {
            let mut passes = Passes::new(days(30));
            let first = passes.step::<()>(|pass| {
                pass.note("old".to_owned());
                Ok(None)
            });
            assert!(matches!(first, Ok(Removal::UnderWay)));
            passes.set(after.clone());
            let last = passes.step::<()>(|pass| {
                assert_eq!(pass.retention, after, "nothing more is removed by the times before");
                Ok(Some(std::mem::take(&mut pass.removed)))
            });
            assert!(matches!(last, Ok(Removal::Done(Removed { names, .. })) if names == ["old"]));
            let next = passes.step::<()>(|_| Ok(None));
            let is_next = matches!(next, Ok(Removal::UnderWay));
            assert_eq!(is_next, after.interval().is_some(), "the next one begins at once");
        }
    }
}
