//! PostgreSQL.

use crate::database::{Database, DatabaseError, Dialect, Found, Value};
use crate::url;
use bytes::BytesMut;
use postgres::config::SslMode;
use postgres::error::SqlState;
use postgres::types::{Format, FromSql, IsNull, ToSql, Type};
use postgres::{Client, Config, NoTls, Statement};
use shellkeep_session::Timestamp;
use shellkeep_tls::postgres::{self as tls, Tls};
use std::collections::HashMap;
use std::error::Error;
use std::time::Duration;

/// How long connecting may take, and how long a server may leave sent bytes unacknowledged.
const CONNECT: Duration = Duration::from_secs(5);
const UNACKNOWLEDGED: Duration = Duration::from_secs(15);

/// Prepared statements that are kept: there are eight sizes of each insert, and few other statements.
const MOST_STATEMENTS: usize = 200;

/// The longest value: the limit of `jsonb`.
const MOST_BYTES: usize = 255 * 1024 * 1024;

/// Microseconds from 1970 to 2000, where PostgreSQL counts from.
const TO_2000: i64 = 946_684_800_000_000;

/// A connection to PostgreSQL.
pub(crate) struct Postgres {
    client: Client,
    statements: HashMap<String, Statement>,
}

impl Postgres {
    pub(crate) fn open(url: &str) -> Result<Self, DatabaseError> {
        let (plain, asked) = tls::take_from(url).map_err(|reason| url::bad(url, reason))?;
        let mut config: Config = plain.parse().map_err(|error| url::bad(url, said(&error)))?;
        config.connect_timeout(CONNECT).tcp_user_timeout(UNACKNOWLEDGED).keepalives_idle(CONNECT);
        config.application_name("shellkeep").ssl_mode(asked.mode);
        let connected = match asked.mode {
            SslMode::Disable => config.connect(NoTls),
            _ => config.connect(Tls::new(&asked).map_err(|reason| url::bad(url, reason))?),
        };
        let client = connected.map_err(failed)?;
        let mut postgres = Self { client, statements: HashMap::new() };
        postgres.run("SET TIME ZONE 'UTC'")?;
        Ok(postgres)
    }

    fn prepared(&mut self, sql: &str, has_values: bool) -> Result<Statement, DatabaseError> {
        if let Some(statement) = self.statements.get(sql) {
            return Ok(statement.clone());
        }
        // A statement of ours has no other question marks than those for its values.
        let numbered = if has_values { numbered(sql) } else { sql.to_owned() };
        let statement = self.client.prepare(&numbered).map_err(failed)?;
        if self.statements.len() >= MOST_STATEMENTS {
            self.statements.clear();
        }
        self.statements.insert(sql.to_owned(), statement.clone());
        Ok(statement)
    }
}

impl Database for Postgres {
    fn dialect(&self) -> Dialect {
        Dialect::Postgres
    }

    fn run(&mut self, sql: &str) -> Result<(), DatabaseError> {
        self.client.batch_execute(sql).map_err(failed)
    }

    fn execute(&mut self, sql: &str, values: &[Value]) -> Result<u64, DatabaseError> {
        let statement = self.prepared(sql, !values.is_empty())?;
        self.client.execute(&statement, &parameters(values.iter())).map_err(failed)
    }

    fn execute_rows(&mut self, sql: &str, rows: &[Vec<Value>]) -> Result<u64, DatabaseError> {
        let statement = self.prepared(sql, true)?;
        self.client.execute(&statement, &parameters(rows.iter().flatten())).map_err(failed)
    }

    fn query(&mut self, sql: &str, values: &[Value]) -> Result<Found, DatabaseError> {
        let statement = self.prepared(sql, !values.is_empty())?;
        let found = self.client.query(&statement, &parameters(values.iter())).map_err(failed)?;
        let columns = statement.columns().iter().map(|column| column.name().to_owned()).collect();
        let row = |row: &postgres::Row| (0..row.len()).map(|column| row.try_get(column).map_err(failed)).collect();
        Ok(Found { columns, rows: found.iter().map(row).collect::<Result<_, _>>()? })
    }

    fn most_bytes(&self) -> usize {
        MOST_BYTES
    }
}

fn parameters<'a>(values: impl Iterator<Item = &'a Value>) -> Vec<&'a (dyn ToSql + Sync)> {
    values.map(|value| value as &(dyn ToSql + Sync)).collect()
}

/// `$1, $2` for `?, ?`.
fn numbered(sql: &str) -> String {
    let mut count = 0;
    let number = |part: &str| {
        count += 1;
        format!("{part}${count}")
    };
    let (all, last) = sql.rsplit_once('?').map_or((None, sql), |(all, last)| (Some(all), last));
    all.map_or_else(String::new, |all| all.split('?').map(number).collect()) + last
}

fn failed(error: postgres::Error) -> DatabaseError {
    let reason = said(&error);
    match error.code() {
        Some(&SqlState::UNIQUE_VIOLATION) => DatabaseError::Taken { reason },
        _ => DatabaseError::Failed { reason },
    }
}

/// An error with its cause: alone it only says "db error".
fn said(error: &postgres::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

impl ToSql for Value {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        match self {
            Self::Null => return Ok(IsNull::Yes),
            Self::Int(number) if *ty == Type::INT8 => out.extend_from_slice(&number.to_be_bytes()),
            Self::Time(at) if *ty == Type::TIMESTAMPTZ => out.extend_from_slice(&(at - TO_2000).to_be_bytes()),
            Self::Int(number) => out.extend_from_slice(number.to_string().as_bytes()),
            Self::Float(number) => out.extend_from_slice(number.to_string().as_bytes()),
            Self::Text(text) => out.extend_from_slice(text.as_bytes()),
            Self::Bytes(bytes) => out.extend_from_slice(bytes),
            Self::Time(at) => out.extend_from_slice(Timestamp::from_microsecond(*at)?.to_string().as_bytes()),
        }
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    fn to_sql_checked(&self, ty: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        self.to_sql(ty, out)
    }

    /// Bytes as they are, and numbers and times of which there are many as the server has them; all else as text, which
    /// every type reads.
    fn encode_format(&self, ty: &Type) -> Format {
        match self {
            Self::Bytes(_) => Format::Binary,
            Self::Int(_) if *ty == Type::INT8 => Format::Binary,
            Self::Time(_) if *ty == Type::TIMESTAMPTZ => Format::Binary,
            _ => Format::Text,
        }
    }
}

impl<'a> FromSql<'a> for Value {
    fn from_sql(ty: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(match *ty {
            Type::INT8 => Self::Int(i64::from_sql(ty, raw)?),
            Type::INT4 => Self::Int(i32::from_sql(ty, raw)?.into()),
            Type::INT2 => Self::Int(i16::from_sql(ty, raw)?.into()),
            Type::BOOL => Self::Int(bool::from_sql(ty, raw)?.into()),
            Type::FLOAT8 => Self::Float(f64::from_sql(ty, raw)?),
            Type::FLOAT4 => Self::Float(f32::from_sql(ty, raw)?.into()),
            Type::NUMERIC => Self::decimal(numeric(raw).ok_or("a number cannot be read")?),
            Type::BYTEA => Self::Bytes(raw.to_vec()),
            Type::JSONB => Self::Text(String::from_utf8(raw.get(1..).unwrap_or_default().to_vec())?),
            Type::TIMESTAMPTZ | Type::TIMESTAMP => Self::Time(i64::from_be_bytes(raw.try_into()?) + TO_2000),
            Type::JSON | Type::TEXT | Type::VARCHAR | Type::NAME | Type::BPCHAR | Type::UNKNOWN => {
                Self::Text(String::from_utf8(raw.to_vec())?)
            }
            _ => return Err(format!("a column has the type {ty}; cast it to text: column::text").into()),
        })
    }

    fn from_sql_null(_: &Type) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self::Null)
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

/// A `numeric` as text: groups of four digits, of which the first counts 10000 to the power of a weight.
fn numeric(raw: &[u8]) -> Option<String> {
    let part = |index: usize| Some(i16::from_be_bytes(raw.get(2 * index..2 * index + 2)?.try_into().ok()?));
    let (groups, weight, sign, scale) = (part(0)?, part(1)?, part(2)?.cast_unsigned(), part(3)?);
    let sign = match sign {
        0 => "",
        0x4000 => "-",
        _ => return Some("NaN".to_owned()),
    };
    let group = |place: i16| match usize::try_from(place) {
        Ok(index) if place < groups => part(4 + index),
        _ => Some(0),
    };
    let whole = (0..=weight.max(0)).map(|place| Some(format!("{:04}", if weight < 0 { 0 } else { group(place)? })));
    let whole = whole.collect::<Option<String>>()?;
    let whole = match whole.trim_start_matches('0') {
        "" => "0",
        digits => digits,
    };
    let behind = (0..(scale + 3) / 4).map(|place| Some(format!("{:04}", group(weight + 1 + place)?)));
    let behind = behind.collect::<Option<String>>()?;
    let behind = behind.get(..usize::try_from(scale).ok()?)?;
    Some(if behind.is_empty() { format!("{sign}{whole}") } else { format!("{sign}{whole}.{behind}") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_numeric_is_read() {
        let raw = |parts: &[i16]| parts.iter().flat_map(|part| part.to_be_bytes()).collect::<Vec<u8>>();
        for (parts, text) in [
            (&[0_i16, 0, 0, 0][..], "0"),
            (&[1, 0, 0, 0, 42], "42"),
            (&[2, 1, 0, 0, 12, 3456], "123456"),
            (&[1, 1, 0, 0, 5], "50000"),
            (&[2, 0, 0x4000, 2, 7, 2500], "-7.25"),
            (&[1, -1, 0, 4, 12], "0.0012"),
            (&[1, -2, 0, 6, 1200], "0.000012"),
        ] {
            assert_eq!(numeric(&raw(parts)).as_deref(), Some(text));
        }
        assert_eq!(numeric(&raw(&[2, 1, 0, 0, 12])), None);
    }

    #[test]
    fn what_is_written_as_the_server_has_it_is_read_back() {
        let at = Value::time("2026-11-17T01:02:03.000004Z".parse().expect("a time"));
        for (value, ty) in [(Value::Int(-7), Type::INT8), (at, Type::TIMESTAMPTZ)] {
            let mut out = BytesMut::new();
            assert!(matches!(value.to_sql(&ty, &mut out), Ok(IsNull::No)));
            assert!(matches!(value.encode_format(&ty), Format::Binary));
            assert_eq!(Value::from_sql(&ty, &out).expect("a value"), value);
        }
        // Another type than that of the value reads text.
        let mut out = BytesMut::new();
        assert!(matches!(Value::Int(7).to_sql(&Type::INT4, &mut out), Ok(IsNull::No)));
        assert!(&out[..] == b"7" && matches!(Value::Int(7).encode_format(&Type::INT4), Format::Text));
    }

    #[test]
    fn values_are_numbered() {
        assert_eq!(numbered("SELECT 1"), "SELECT 1");
        assert_eq!(numbered("a = ? AND (?, ?)"), "a = $1 AND ($2, $3)");
    }
}
