//! Looking through sessions for those that a filter keeps. By activity, only an index is read.

use super::row::failed;
use crate::backend::BackendError;
use crate::walk::{Candidate, SessionOrder, Walk};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension as _, Row};
use shellkeep_session::{SessionId, SessionPlace, Timestamp};
use std::borrow::Cow;

/// Sessions that one search looks at: some tens of milliseconds.
const MOST_LOOKED_AT: usize = 25_000;

/// All that is read is in the index, in its order. `?1` and `?2` are the time and the id of the session before.
const BY_ACTIVITY: &str = "SELECT id, agent, cwd, last, failed, last_active_at FROM sessions INDEXED BY sessions_found \
    WHERE last_active_at <= ?1 AND (last_active_at < ?1 OR id > ?2) ORDER BY last_active_at DESC, id";

const BY_ID: &str = "SELECT id, agent, cwd, last, failed, last_active_at FROM sessions WHERE id > ?1 ORDER BY id";
const OF_AGENT_BY_ID: &str =
    "SELECT id, agent, cwd, last, failed, last_active_at FROM sessions WHERE id > ?1 AND agent = ?2 ORDER BY id";

type Result<T> = std::result::Result<T, BackendError>;

/// Sessions that a filter keeps.
pub(super) struct Matches {
    pub(super) ids: Vec<SessionId>,
    /// Behind the last session that was looked at, if there are more.
    pub(super) next: Option<SessionPlace>,
}

/// Looks through sessions.
pub(super) fn search(db: &Connection, walk: &Walk<'_>) -> Result<Matches> {
    // No id is empty, so every id is greater than the empty text.
    let after = walk.after.map_or("", |after| after.session_id.as_str());
    match (walk.order, walk.agent) {
        (SessionOrder::Active, _) => {
            let at = match walk.after.and_then(|after| after.last_active_at) {
                Some(at) => Some(at.to_string()),
                None => active_at(db, after)?,
            };
            let (at, id) = at.map_or_else(|| (Timestamp::MAX.to_string(), ""), |at| (at, after));
            look(db, BY_ACTIVITY, &[&at.as_str(), &id], walk)
        }
        (SessionOrder::Id, Some(agent)) => look(db, OF_AGENT_BY_ID, &[&after, &agent], walk),
        (SessionOrder::Id, None) => look(db, BY_ID, &[&after], walk),
    }
}

/// When a session was last active.
fn active_at(db: &Connection, id: &str) -> Result<Option<String>> {
    let mut statement = db.prepare_cached("SELECT last_active_at FROM sessions WHERE id = ?1").map_err(failed)?;
    statement.query_row([id], |row| row.get(0)).optional().map_err(failed)
}

fn look(db: &Connection, sql: &str, values: &[&dyn rusqlite::ToSql], walk: &Walk<'_>) -> Result<Matches> {
    let mut statement = db.prepare_cached(sql).map_err(failed)?;
    let mut rows = statement.query(values).map_err(failed)?;
    let (mut ids, mut last, mut at, mut looked_at) = (Vec::new(), String::new(), String::new(), 0);
    while let Some(row) = rows.next().map_err(failed)? {
        if ids.len() == walk.limit || looked_at == MOST_LOOKED_AT {
            let next = SessionId::parse(&last).ok().map(|last| place(walk.order, last, &at));
            return Ok(Matches { ids, next });
        }
        let candidate = candidate(row)?;
        looked_at += 1;
        last.clear();
        last.push_str(candidate.id);
        at.clear();
        at.push_str(row.get_ref(5).map_err(failed)?.as_str().unwrap_or_default());
        let is_of_agent = walk.agent.is_none_or(|agent| candidate.agent == Some(agent));
        if is_of_agent && (walk.keeps)(&candidate) {
            ids.extend(SessionId::parse(candidate.id));
        }
    }
    Ok(Matches { ids, next: None })
}

/// The place behind a session. Without a time that can be read, it is that of the session when the search goes on.
fn place(order: SessionOrder, session_id: SessionId, at: &str) -> SessionPlace {
    match at.parse() {
        Ok(at) => order.place(&session_id, at),
        Err(_) => session_id.into(),
    }
}

/// A value of a wrong type is as none: those who read the session report it.
fn candidate<'a>(row: &'a Row<'_>) -> Result<Candidate<'a>> {
    let value = |index| row.get_ref(index).map_err(failed);
    let text = |value: ValueRef<'a>| value.as_str().ok();
    let (id, agent) = (text(value(0)?).unwrap_or_default(), text(value(1)?));
    let cwd = String::from_utf8_lossy(value(2)?.as_bytes().unwrap_or_default());
    let command = Cow::Borrowed(text(value(3)?).unwrap_or_default());
    let failed = value(4)?.as_i64().is_ok_and(|failed| failed != 0);
    Ok(Candidate { id, agent, cwd, command, failed })
}

#[cfg(test)]
mod tests {
    use super::super::schema;
    use super::*;
    use crate::error::Durability;
    use tempfile::TempDir;

    /// A database of sessions with nothing but names, agents and last commands; the first is the most recently active.
    fn database(sessions: usize) -> (TempDir, Connection) {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("store.db");
        let db = schema::open(&path, Durability::Process).unwrap().db;
        let sql = "INSERT INTO sessions (id, agent, last_active_at, cwd, generation, seq, pending, rest, last, failed) \
                   WITH RECURSIVE numbers (n) AS (VALUES (0) UNION ALL SELECT n + 1 FROM numbers WHERE n + 1 < ?1) \
                   SELECT printf('s%06d', n), iif(n % 2, 'bob', 'ann'), printf('2026-01-01T%06dZ', 999999 - n), \
                   '/tmp', 1, 1, '', '', printf('make part-%d', n), n % 3 = 0 FROM numbers";
        db.execute(sql, [i64::try_from(sessions).unwrap()]).unwrap();
        (directory, db)
    }

    #[test]
    fn by_activity_only_the_index_is_read() {
        let (_directory, db) = database(1);
        let mut statement = db.prepare(&format!("EXPLAIN QUERY PLAN {BY_ACTIVITY}")).unwrap();
        let plan = statement.query_map(["x", "y"], |row| row.get::<_, String>(3)).unwrap();
        let plan: Vec<String> = plan.map(|step| step.unwrap()).collect();
        assert_eq!(plan, ["SEARCH sessions USING COVERING INDEX sessions_found (last_active_at<?)"]);
    }

    #[test]
    fn a_search_goes_on_where_it_ended() {
        let (_directory, db) = database(MOST_LOOKED_AT + 10);
        let last = format!("part-{}", MOST_LOOKED_AT + 9);
        let keeps =
            |candidate: &Candidate<'_>| candidate.command.ends_with(&last) || candidate.command == "make part-7";
        // With an agent and by id, an index has only that agent's sessions.
        let searches = [
            (SessionOrder::Active, None, 2),
            (SessionOrder::Active, Some("bob"), 2),
            (SessionOrder::Id, None, 2),
            (SessionOrder::Id, Some("bob"), 1),
        ];
        for (order, agent, steps) in searches {
            let walk =
                |after: Option<&SessionPlace>| search(&db, &Walk { agent, order, after, limit: 9, keeps: &keeps });
            let Matches { ids: mut found, mut next } = walk(None).unwrap();
            let mut taken = 1;
            while let Some(after) = next {
                let more = walk(Some(&after)).unwrap();
                found.extend(more.ids);
                (next, taken) = (more.next, taken + 1);
            }
            let found: Vec<&str> = found.iter().map(SessionId::as_str).collect();
            assert_eq!((found, taken), (vec!["s000007", "s025009"], steps), "{order:?} {agent:?}");
        }
    }

    #[test]
    fn as_many_as_asked_for_are_returned() {
        let (_directory, db) = database(30);
        let keeps = |candidate: &Candidate<'_>| candidate.failed;
        let (mut all, mut after) = (Vec::new(), None);
        loop {
            let walk =
                Walk { agent: None, order: SessionOrder::Active, after: after.as_ref(), limit: 4, keeps: &keeps };
            let Matches { ids, next } = search(&db, &walk).unwrap();
            assert!(ids.len() <= 4);
            all.extend(ids);
            match next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
        let wanted: Vec<String> = (0..30).step_by(3).map(|number| format!("s{number:06}")).collect();
        assert_eq!(all.iter().map(SessionId::as_str).collect::<Vec<_>>(), wanted);
    }
}
