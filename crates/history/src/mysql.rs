//! MySQL and MariaDB.

use crate::database::{Database, DatabaseError, Dialect, Found, Value};
use crate::url;
use jiff::civil;
use jiff::tz::TimeZone;
use mysql::consts::ColumnType;
use mysql::prelude::Queryable;
use mysql::{Conn, Opts, OptsBuilder, Params};
use shellkeep_session::Timestamp;
use std::time::Duration;

/// How long connecting may take, and how long an answer.
const CONNECT: Duration = Duration::from_secs(5);
const ANSWER: Duration = Duration::from_secs(60);

/// Prepared statements that are kept: there are eight sizes of each insert, and few other statements.
const MOST_STATEMENTS: usize = 200;

/// The server's number for a key that is taken.
const DUPLICATE_KEY: u16 = 1062;

/// A packet has more in it than one value.
const PACKET_MARGIN: usize = 64 * 1024;

/// How the names of settings begin that are about TLS: those of the servers' own clients, and of the crate that is used here.
const ABOUT_TLS: [&str; 6] = ["ssl", "tls", "require_ssl", "verify_", "root_cert_path", "danger_"];

/// Errors instead of truncated values, one time zone, and no locks on gaps between rows.
const SETTINGS: [&str; 4] = [
    "SET NAMES utf8mb4",
    "SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ZERO_DATE,NO_ZERO_IN_DATE,ERROR_FOR_DIVISION_BY_ZERO'",
    "SET SESSION time_zone = '+00:00'",
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
];

/// A connection to MySQL or MariaDB.
pub(crate) struct Mysql {
    connection: Conn,
    most_bytes: usize,
}

impl Mysql {
    pub(crate) fn open(url: &str) -> Result<Self, DatabaseError> {
        let rest = without_tls(url.split_once("://").map_or("", |(_, rest)| rest));
        let rest = rest.map_err(|reason| url::bad(url, reason))?;
        let opts = Opts::from_url(&format!("mysql://{rest}")).map_err(|error| url::bad(url, error))?;
        if opts.get_db_name().is_none_or(str::is_empty) {
            return Err(url::bad(url, "it names no database; end it with /DATABASE"));
        }
        let builder = OptsBuilder::from_opts(opts).tcp_connect_timeout(Some(CONNECT)).prefer_socket(false);
        let builder = builder.read_timeout(Some(ANSWER)).write_timeout(Some(ANSWER));
        let builder = builder.stmt_cache_size(MOST_STATEMENTS).init(SETTINGS.to_vec());
        let mut connection = Conn::new(builder).map_err(failed)?;
        let packet: Option<u64> = connection.query_first("SELECT @@max_allowed_packet").map_err(failed)?;
        let packet = packet.and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(usize::MAX);
        Ok(Self { connection, most_bytes: packet.saturating_sub(PACKET_MARGIN) })
    }
}

/// An address without what says that there is no TLS. A reason if it asks for TLS in any of the ways that clients have.
fn without_tls(address: &str) -> Result<String, String> {
    let Some((place, query)) = address.split_once('?') else { return Ok(address.to_owned()) };
    let mut others = Vec::new();
    for pair in query.split('&') {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let name = name.to_ascii_lowercase();
        let is_about_tls = ABOUT_TLS.iter().any(|begin| name.starts_with(begin));
        if !is_about_tls {
            others.push(pair);
        } else if !["disabled", "disable", "false", "0"].contains(&value.to_ascii_lowercase().as_str()) {
            return Err(format!(
                "it asks for TLS ('{name}'), which there is only to PostgreSQL; connect to MySQL and MariaDB through a \
                 private network or a tunnel"
            ));
        }
    }
    let query = if others.is_empty() { String::new() } else { format!("?{}", others.join("&")) };
    Ok(format!("{place}{query}"))
}

impl Database for Mysql {
    fn dialect(&self) -> Dialect {
        Dialect::Mysql
    }

    fn run(&mut self, sql: &str) -> Result<(), DatabaseError> {
        let statements = sql.split(";\n").map(str::trim).filter(|statement| !statement.is_empty());
        statements.into_iter().try_for_each(|sql| self.connection.query_drop(sql).map_err(failed))
    }

    fn execute(&mut self, sql: &str, values: &[Value]) -> Result<u64, DatabaseError> {
        self.connection.exec_drop(sql, parameters(values)).map_err(failed)?;
        Ok(self.connection.affected_rows())
    }

    fn execute_rows(&mut self, sql: &str, rows: &[Vec<Value>]) -> Result<u64, DatabaseError> {
        let values = Params::Positional(rows.iter().flatten().map(written).collect());
        self.connection.exec_drop(sql, values).map_err(failed)?;
        Ok(self.connection.affected_rows())
    }

    fn query(&mut self, sql: &str, values: &[Value]) -> Result<Found, DatabaseError> {
        let result = self.connection.exec_iter(sql, parameters(values)).map_err(failed)?;
        let columns = result.columns().as_ref().iter().map(|column| column.name_str().into_owned()).collect();
        let kinds: Vec<_> = result.columns().as_ref().iter().map(mysql::Column::column_type).collect();
        let read = |(value, kind): (mysql::Value, &ColumnType)| match read(value) {
            Value::Text(text) if *kind == ColumnType::MYSQL_TYPE_NEWDECIMAL => Value::decimal(text),
            value => value,
        };
        let row = |row: mysql::Result<mysql::Row>| {
            Ok(row.map_err(failed)?.unwrap().into_iter().zip(&kinds).map(read).collect())
        };
        Ok(Found { columns, rows: result.map(row).collect::<Result<_, DatabaseError>>()? })
    }

    fn most_bytes(&self) -> usize {
        self.most_bytes
    }
}

fn failed(error: mysql::Error) -> DatabaseError {
    match &error {
        mysql::Error::MySqlError(said) if said.code == DUPLICATE_KEY => {
            DatabaseError::Taken { reason: error.to_string() }
        }
        _ => DatabaseError::failed(error),
    }
}

fn parameters(values: &[Value]) -> Params {
    match values {
        [] => Params::Empty,
        values => Params::Positional(values.iter().map(written).collect()),
    }
}

fn written(value: &Value) -> mysql::Value {
    match value {
        Value::Null => mysql::Value::NULL,
        Value::Int(number) => mysql::Value::Int(*number),
        Value::Float(number) => mysql::Value::Double(*number),
        Value::Text(text) => mysql::Value::Bytes(text.as_bytes().to_vec()),
        Value::Bytes(bytes) => mysql::Value::Bytes(bytes.clone()),
        Value::Time(at) => date(*at).unwrap_or(mysql::Value::NULL),
    }
}

/// A time as MySQL writes it; none for one that is out of range.
fn date(at: i64) -> Option<mysql::Value> {
    let at = Timestamp::from_microsecond(at).ok()?.to_zoned(TimeZone::UTC).datetime();
    let part = |number: i8| u8::try_from(number).ok();
    let micros = u32::try_from(at.subsec_nanosecond() / 1000).ok()?;
    let (year, month, day) = (u16::try_from(at.year()).ok()?, part(at.month())?, part(at.day())?);
    Some(mysql::Value::Date(year, month, day, part(at.hour())?, part(at.minute())?, part(at.second())?, micros))
}

fn read(value: mysql::Value) -> Value {
    match value {
        mysql::Value::NULL | mysql::Value::Time(..) => Value::Null,
        mysql::Value::Int(number) => Value::Int(number),
        mysql::Value::UInt(number) => Value::count(number),
        mysql::Value::Float(number) => Value::Float(number.into()),
        mysql::Value::Double(number) => Value::Float(number),
        mysql::Value::Bytes(bytes) => match String::from_utf8(bytes) {
            Ok(text) => Value::Text(text),
            Err(error) => Value::Bytes(error.into_bytes()),
        },
        mysql::Value::Date(year, month, day, hour, minute, second, micros) => {
            read_date((year, month, day), (hour, minute, second), micros).unwrap_or(Value::Null)
        }
    }
}

fn read_date((year, month, day): (u16, u8, u8), (hour, minute, second): (u8, u8, u8), micros: u32) -> Option<Value> {
    let part = |number: u8| i8::try_from(number).ok();
    let nanos = i32::try_from(micros * 1000).ok()?;
    let date = civil::Date::new(i16::try_from(year).ok()?, part(month)?, part(day)?).ok()?;
    let time = civil::Time::new(part(hour)?, part(minute)?, part(second)?, nanos).ok()?;
    Some(Value::time(date.to_datetime(time).to_zoned(TimeZone::UTC).ok()?.timestamp()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_that_asks_for_tls_is_refused() {
        let refused =
            ["ssl-mode=REQUIRED", "sslmode=require", "require_ssl=true", "verify_ca=true", "ssl-ca=/ca.pem", "tls=1"];
        for query in refused {
            let reason = Mysql::open(&format!("mysql://u:word@h/d?{query}")).err().expect(query).to_string();
            assert!(reason.contains("asks for TLS") && !reason.contains("word"), "{reason}");
        }
        assert_eq!(without_tls("u@h/d?ssl-mode=DISABLED"), Ok("u@h/d".to_owned()));
        assert_eq!(without_tls("u@h/d?compress=true&ssl-mode=DISABLED"), Ok("u@h/d?compress=true".to_owned()));
    }

    #[test]
    fn a_time_survives_to_the_microsecond() {
        for at in ["2026-11-17T00:11:12.123456Z", "1970-01-01T00:00:00Z", "2038-01-19T03:14:08.000001Z"] {
            let value = Value::time(at.parse().expect("a time"));
            assert_eq!(read(written(&value)), value, "{at}");
        }
    }
}
