//! Opens the database that a URL names.

use crate::database::{Database, DatabaseError};
use crate::mysql::Mysql;
use crate::postgres::Postgres;
use crate::url;

/// Opens the database that a URL names: `postgres://…`, `mysql://…` or `mariadb://…`.
pub fn open(url: &str) -> Result<Box<dyn Database>, DatabaseError> {
    match url.split_once("://").map(|(scheme, _)| scheme) {
        Some("postgres" | "postgresql") => Ok(Box::new(Postgres::open(url)?)),
        Some("mysql" | "mariadb") => Ok(Box::new(Mysql::open(url)?)),
        _ => Err(url::bad(url, "use postgres://USER:PASSWORD@HOST:PORT/DATABASE or mysql://…")),
    }
}
