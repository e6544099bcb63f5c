//! The names of sessions in the tables. A session's name may be used again once it is deleted. The latest session has the
//! name in the tables; the rows of earlier ones have the name with the time of their creation, in whatever order they come.

use crate::database::{Database, DatabaseError, Value, marks, padded};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Tables with rows of sessions.
pub(crate) const TABLES: [&str; 8] =
    ["sk_records", "sk_superseded", "sk_messages", "sk_runs", "sk_lines", "sk_heads", "sk_copies", "sk_sessions"];

/// Sessions that one statement asks about.
pub(crate) const ASKED_AT_ONCE: usize = 512;

/// What the table of sessions has of one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KnownSession {
    /// In microseconds.
    pub created_at: Option<i64>,
    pub epoch: i64,
}

/// What is known of sessions, by their names.
pub(crate) type KnownSessions = HashMap<String, KnownSession>;

/// When the session was created that has a name in the tables, in microseconds.
pub(crate) struct Latest(BTreeMap<String, i64>);

impl Latest {
    /// The name in the tables of a session that is not the one which has its name now.
    pub(crate) fn earlier(&self, name: &str, created_at: Option<i64>) -> Option<String> {
        let created_at = created_at.filter(|at| self.0.get(name).is_some_and(|latest| at < latest))?;
        Some(with_time(name, created_at))
    }
}

/// What the table of sessions has of some of them.
pub(crate) fn known<'a>(
    database: &mut dyn Database,
    names: impl Iterator<Item = &'a str>,
) -> Result<KnownSessions, DatabaseError> {
    let names: BTreeSet<&str> = names.collect();
    let mut known = HashMap::new();
    for names in names.into_iter().collect::<Vec<_>>().chunks(ASKED_AT_ONCE) {
        let values = padded(names.iter().map(Value::text).collect());
        let sql = format!(
            "SELECT session_id, created_at, epoch FROM sk_sessions WHERE session_id IN ({})",
            marks(values.len())
        );
        for row in database.query(&sql, &values)?.rows {
            let created_at = match row.get(1) {
                Some(Value::Time(at)) => Some(*at),
                _ => None,
            };
            let epoch = row.get(2).and_then(Value::as_int).unwrap_or(0);
            let name = row.first().and_then(Value::as_str).unwrap_or_default().to_owned();
            known.insert(name, KnownSession { created_at, epoch });
        }
    }
    Ok(known)
}

/// Tells sessions with one name apart by the time of their creation. If one of these is later than the one in the tables,
/// the rows of that one are renamed.
pub(crate) fn tell_apart<'a>(
    database: &mut dyn Database,
    sessions: impl Iterator<Item = (&'a str, Option<i64>)>,
    known: &mut KnownSessions,
) -> Result<Latest, DatabaseError> {
    let mut latest: BTreeMap<String, i64> = BTreeMap::new();
    for (name, created_at) in sessions {
        let Some(created_at) = created_at else { continue };
        match latest.get_mut(name) {
            Some(latest) => *latest = created_at.max(*latest),
            None => drop(latest.insert(name.to_owned(), created_at)),
        }
    }
    for (name, latest) in &mut latest {
        match known.get(name).and_then(|known| known.created_at) {
            Some(before) if before < *latest => {
                rename(database, name, &with_time(name, before))?;
                known.remove(name);
            }
            Some(current) => *latest = current,
            None => {}
        }
    }
    Ok(Latest(latest))
}

fn rename(database: &mut dyn Database, from: &str, to: &str) -> Result<(), DatabaseError> {
    TABLES.into_iter().try_for_each(|table| {
        let sql = format!("UPDATE {table} SET session_id = ? WHERE session_id = ?");
        database.execute(&sql, &[Value::text(to), Value::text(from)]).map(drop)
    })
}

/// The name of a session in the tables after its name was used again.
fn with_time(name: &str, created_at: i64) -> String {
    format!("{name}~{created_at}")
}
