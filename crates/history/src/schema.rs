//! The schema: made, numbered and migrated here. `docs/history.md` describes the tables.

use crate::database::{Database, DatabaseError, Dialect, Found, Value};

/// What makes each version from the one before, for both kinds of databases. Each step may be repeated: MySQL commits
/// after every statement, so a crash may leave half of one.
const STEPS: [(&str, &str); 4] = [
    (include_str!("../schema/postgres/1.sql"), include_str!("../schema/mysql/1.sql")),
    (include_str!("../schema/postgres/2.sql"), include_str!("../schema/mysql/2.sql")),
    (include_str!("../schema/postgres/3.sql"), include_str!("../schema/mysql/3.sql")),
    (include_str!("../schema/postgres/4.sql"), include_str!("../schema/mysql/4.sql")),
];

/// The version that this program writes.
pub const VERSION: i64 = STEPS.len() as i64;

/// One migration at a time, however many programs start: any number, the same for all of them.
const LOCK: i64 = 7_433_016;

/// Brings the schema to this program's version, or refuses a newer one.
pub fn migrate(database: &mut dyn Database) -> Result<(), DatabaseError> {
    migrate_to(database, VERSION)
}

/// The same up to an earlier version, which lets tests begin there.
#[doc(hidden)]
pub fn migrate_to(database: &mut dyn Database, version: i64) -> Result<(), DatabaseError> {
    match database.dialect() {
        Dialect::Postgres => crate::database::transaction(database, |database| {
            database.query("SELECT pg_advisory_xact_lock(?)::text", &[Value::Int(LOCK)])?;
            steps(database, version)
        }),
        Dialect::Mysql => {
            database.query("SELECT GET_LOCK('shellkeep_history', 60)", &[])?;
            let done = steps(database, version);
            // It ends with the connection at the latest.
            let _ = database.query("SELECT RELEASE_LOCK('shellkeep_history')", &[]);
            done
        }
    }
}

/// Checks that the tables are those that this program reads.
pub fn check(database: &mut dyn Database) -> Result<(), DatabaseError> {
    let place = match database.dialect() {
        Dialect::Postgres => "current_schema()",
        Dialect::Mysql => "DATABASE()",
    };
    let sql = format!(
        "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = {place} AND table_name = 'sk_schema'"
    );
    let has_tables = number(&database.query(&sql, &[])?) > 0;
    match if has_tables { version(database)? } else { 0 } {
        VERSION => Ok(()),
        found if found > VERSION => Err(DatabaseError::NewerSchema { found, ours: VERSION }),
        found => Err(DatabaseError::OlderSchema { found, ours: VERSION }),
    }
}

/// The version of the tables; 0 if there are none.
fn version(database: &mut dyn Database) -> Result<i64, DatabaseError> {
    Ok(number(&database.query("SELECT COALESCE(MAX(version), 0) FROM sk_schema", &[])?))
}

fn number(found: &Found) -> i64 {
    found.rows.first().and_then(|row| row.first()).and_then(Value::as_int).unwrap_or(0)
}

fn steps(database: &mut dyn Database, to: i64) -> Result<(), DatabaseError> {
    database.run("CREATE TABLE IF NOT EXISTS sk_schema (version BIGINT NOT NULL PRIMARY KEY)")?;
    let found = version(database)?;
    if found > VERSION {
        return Err(DatabaseError::NewerSchema { found, ours: VERSION });
    }
    for (next, (postgres, mysql)) in (1..).zip(STEPS).filter(|(next, _)| *next > found && *next <= to) {
        database.run(match database.dialect() {
            Dialect::Postgres => postgres,
            Dialect::Mysql => mysql,
        })?;
        database.execute("INSERT INTO sk_schema (version) VALUES (?)", &[Value::Int(next)])?;
    }
    Ok(())
}
