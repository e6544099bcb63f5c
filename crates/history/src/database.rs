//! A relational database as this crate uses it: statements with `?` for values, which both kinds understand after a small
//! translation. One thread uses one connection, so it may block.

use shellkeep_session::Timestamp;

/// A value of a row.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Null,
    Int(i64),
    Float(f64),
    Text(String),
    Bytes(Vec<u8>),
    /// Microseconds since 1970, UTC.
    Time(i64),
}

impl Value {
    /// A time, to the microsecond.
    pub fn time(at: Timestamp) -> Self {
        Self::Time(at.as_microsecond())
    }

    /// A number that counts something. No count comes near the limit.
    pub fn count(number: u64) -> Self {
        Self::Int(i64::try_from(number).unwrap_or(i64::MAX))
    }

    /// Text that every database can hold.
    pub fn text(text: impl AsRef<str>) -> Self {
        Self::Text(text.as_ref().replace('\0', "\u{2400}"))
    }

    /// Such a text, or nothing.
    pub fn maybe_text(text: Option<impl AsRef<str>>) -> Self {
        text.map_or(Self::Null, Self::text)
    }

    /// A decimal number as a database writes it.
    pub(crate) fn decimal(text: String) -> Self {
        if let Ok(number) = text.parse() {
            return Self::Int(number);
        }
        text.parse().map_or(Self::Text(text), Self::Float)
    }

    /// The number, if it is one.
    pub fn as_int(&self) -> Option<i64> {
        match self {
            Self::Int(number) => Some(*number),
            _ => None,
        }
    }

    /// The bytes, if it has some.
    pub fn as_bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Text(text) => Some(text.as_bytes()),
            Self::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// The text, if it is one.
    pub fn as_str(&self) -> Option<&str> {
        self.as_bytes().and_then(|bytes| std::str::from_utf8(bytes).ok())
    }

    /// The time, if it is one.
    pub fn as_time(&self) -> Option<Timestamp> {
        match self {
            Self::Time(at) => Timestamp::from_microsecond(*at).ok(),
            _ => None,
        }
    }
}

/// Why a database did not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DatabaseError {
    /// It cannot be reached, or it refused; trying again may help.
    #[error("{reason}")]
    Failed {
        /// What it said.
        reason: String,
    },
    /// A row with the key of another was to be inserted.
    #[error("{reason}")]
    Taken {
        /// What it said.
        reason: String,
    },
    /// The URL cannot be used.
    #[error("'{url}' is not a history database: {reason}")]
    BadUrl {
        /// The URL without its password.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A newer program has changed the schema.
    #[error(
        "the history database has schema version {found}, but this program knows versions up to {ours} only; use a \
         newer shellkeep"
    )]
    NewerSchema { found: i64, ours: i64 },
    /// No daemon has made the tables, or one of an older version.
    #[error(
        "the database has no history of this version: it has schema version {found}, and this program reads version \
         {ours}; start a daemon of this version with `shellkeep serve --history URL`"
    )]
    OlderSchema {
        /// 0 if there are no tables.
        found: i64,
        ours: i64,
    },
}

impl DatabaseError {
    /// What a database said.
    pub(crate) fn failed(error: impl std::fmt::Display) -> Self {
        Self::Failed { reason: error.to_string() }
    }
}

/// The kinds of databases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    Postgres,
    Mysql,
}

/// Rows that were found.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Found {
    pub columns: Vec<String>,
    pub rows: Vec<Vec<Value>>,
}

/// A connection.
pub trait Database: Send {
    fn dialect(&self) -> Dialect;

    /// Runs statements without values.
    fn run(&mut self, sql: &str) -> Result<(), DatabaseError>;

    /// Runs one statement; how many rows it changed.
    fn execute(&mut self, sql: &str, values: &[Value]) -> Result<u64, DatabaseError>;

    /// The same with the values of several rows, one row after another.
    fn execute_rows(&mut self, sql: &str, rows: &[Vec<Value>]) -> Result<u64, DatabaseError>;

    /// Asks for rows.
    fn query(&mut self, sql: &str, values: &[Value]) -> Result<Found, DatabaseError>;

    /// The longest value that it accepts.
    fn most_bytes(&self) -> usize;
}

/// Does everything or nothing.
pub fn transaction<T>(
    database: &mut dyn Database,
    work: impl FnOnce(&mut dyn Database) -> Result<T, DatabaseError>,
) -> Result<T, DatabaseError> {
    database.run("BEGIN")?;
    match work(database) {
        Ok(done) => {
            database.run("COMMIT")?;
            Ok(done)
        }
        Err(error) => {
            // A connection that broke has rolled back already.
            let _ = database.run("ROLLBACK");
            Err(error)
        }
    }
}

/// How many rows one statement inserts. A few sizes, so that prepared statements are used again, and few statements for
/// any number of rows.
const ROWS_AT_ONCE: [usize; 8] = [128, 64, 32, 16, 8, 4, 2, 1];

/// How many bytes one statement has, if it is for more than one row: a server accepts no packet of any length.
const BYTES_AT_ONCE: usize = 512 * 1024;

fn bytes(row: &[Value]) -> usize {
    row.iter().filter_map(Value::as_bytes).map(<[u8]>::len).sum()
}

/// Inserts rows; how many the database says were new. `into` is the table with its columns, `on_conflict` follows the
/// values.
pub fn insert(
    database: &mut dyn Database,
    into: &str,
    rows: &[Vec<Value>],
    on_conflict: &str,
) -> Result<u64, DatabaseError> {
    let mut changed = 0;
    for rows in parts(rows) {
        let row = format!("({})", marks(rows[0].len()));
        let sql = format!("INSERT INTO {into} VALUES {} {on_conflict}", vec![row; rows.len()].join(", "));
        changed += database.execute_rows(&sql, rows)?;
    }
    Ok(changed)
}

/// Parts of some rows, each for one statement. None of them is empty.
fn parts(mut rows: &[Vec<Value>]) -> impl Iterator<Item = &[Vec<Value>]> {
    std::iter::from_fn(move || {
        let fits = |size: &usize| {
            rows.get(..*size).is_some_and(|rows| rows.iter().map(|row| bytes(row)).sum::<usize>() <= BYTES_AT_ONCE)
        };
        let count = ROWS_AT_ONCE.into_iter().find(fits).unwrap_or(1);
        let (now, later) = rows.split_at_checked(count)?;
        rows = later;
        Some(now)
    })
}

/// `?, ?, ?` for a list of values.
pub fn marks(count: usize) -> String {
    vec!["?"; count].join(", ")
}

/// Repeats the last of some values until there are as many as in few other lists: prepared statements are used again.
pub(crate) fn padded(mut values: Vec<Value>) -> Vec<Value> {
    if let Some(last) = values.last().cloned() {
        values.resize(values.len().next_power_of_two(), last);
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_inserted_by_few_statements_that_are_not_too_long() {
        let rows = |count: usize, bytes: usize| vec![vec![Value::Int(1), Value::Text("x".repeat(bytes))]; count];
        let sizes = |rows: &[Vec<Value>]| parts(rows).map(<[_]>::len).collect::<Vec<usize>>();
        assert!(sizes(&[]).is_empty());
        assert_eq!(sizes(&rows(1000, 1)), [128, 128, 128, 128, 128, 128, 128, 64, 32, 8]);
        assert_eq!(sizes(&rows(10, 1)), [8, 2]);
        assert_eq!(sizes(&rows(5, BYTES_AT_ONCE / 2)), [2, 2, 1]);
        assert_eq!(sizes(&rows(2, BYTES_AT_ONCE + 1)), [1, 1], "one row may be of any length");
    }

    #[test]
    fn lists_have_few_lengths() {
        let of = |count: i64| padded((0..count).map(Value::Int).collect());
        assert!(of(0).is_empty());
        assert_eq!(of(1), [Value::Int(0)]);
        assert_eq!(of(3), [0, 1, 2, 2].map(Value::Int));
        assert_eq!(of(500).len(), 512);
    }
}
