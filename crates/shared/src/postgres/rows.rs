//! What is in the columns of the tables.

use super::connection::Failed;
use crate::tier::{ForkNote, Found, KeptFiles, NodeEntry};
use shellkeep_session::ownership::{Claim, Head, Point};
use std::str::FromStr;
use std::time::Duration;
use tokio_postgres::Row;

pub(super) fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

pub(super) fn number(seq: u64) -> Result<i64, Failed> {
    i64::try_from(seq).map_err(|_| Failed::Foreign(format!("{seq} is too large")))
}

pub(super) fn read<T: FromStr>(text: &str) -> Result<T, Failed>
where
    T::Err: std::fmt::Display,
{
    text.parse().map_err(|error: T::Err| Failed::Foreign(error.to_string()))
}

pub(super) fn json<T: serde::Serialize>(value: &T) -> Result<String, Failed> {
    serde_json::to_string(value).map_err(|error| Failed::Foreign(error.to_string()))
}

/// The head in a row.
pub(super) fn head(row: &Row) -> Result<Head, Failed> {
    let (owner, at, claims): (&str, &str, &str) = (row.try_get("owner")?, row.try_get("at")?, row.try_get("claims")?);
    let seq = u64::try_from(row.try_get::<_, i64>("seq")?).map_err(|error| Failed::Foreign(error.to_string()))?;
    let at = if at.is_empty() { None } else { Some(read(at)?) };
    Ok(Head { owner: read(owner)?, last: Point { seq, at }, claims: read(claims)? })
}

/// Who holds the lease in a row.
pub(super) fn lease(row: &Row) -> Result<Option<Claim>, Failed> {
    row.try_get::<_, Option<&str>>("lease")?.map(read).transpose()
}

/// What is known of the session in a row.
pub(super) fn found(row: &Row) -> Result<Found, Failed> {
    let files: Option<KeptFiles> =
        row.try_get::<_, Option<&str>>("files")?.and_then(|files| serde_json::from_str(files).ok());
    Ok(Found {
        head: head(row)?,
        lease: lease(row)?,
        data_dir: row.try_get("data")?,
        agent: row.try_get("agent")?,
        files,
        is_free: row.try_get("is_free")?,
        forks: ForkNote::all_of(row.try_get("forks")?),
    })
}

/// The node in a row.
pub(super) fn entry(row: &Row) -> Option<NodeEntry> {
    serde_json::from_str(row.try_get(0).ok()?).ok()
}
