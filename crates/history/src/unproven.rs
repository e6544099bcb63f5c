//! The events of a session that only its records tell of, without a proof.

use crate::database::{Database, DatabaseError, Value};
use serde_json::json;
use shellkeep_record::from_record::unproven_line;
use shellkeep_record::{Hash, Head, Line};
use shellkeep_session::{Author, Event, Record, RunId, SessionId};
use std::collections::HashMap;
use std::io::Write;

/// Rows that are read at once.
const PAGE: i64 = 200;

/// Writes the lines of records after a number, to another if one is given; the number of the last.
pub(crate) fn write_unproven(
    database: &mut dyn Database,
    id: &SessionId,
    after: u64,
    through: Option<u64>,
    out: &mut dyn Write,
) -> Result<u64, DatabaseError> {
    let sql = format!(
        "SELECT line, exact, seq, at, type FROM sk_records WHERE session_id = ? AND seq > ? AND seq <= ? \
         ORDER BY seq LIMIT {PAGE}"
    );
    let through = through.map_or(Value::Int(i64::MAX), Value::count);
    let (mut last, mut begun, mut is_first) = (after, HashMap::new(), after == 0);
    loop {
        let rows = database.query(&sql, &[Value::text(id.as_str()), Value::count(last), through.clone()])?.rows;
        if rows.is_empty() {
            return Ok(last);
        }
        for row in &rows {
            let mut line = match record(row) {
                Some(record) => {
                    let line = unproven_line(&record, run_of(&record).and_then(|run_id| begun.get(run_id)));
                    if let Event::RunStarted { run_id, .. } = &record.event {
                        begun.insert(run_id.clone(), record.clone());
                    }
                    line
                }
                None => left_out(row).ok_or_else(|| DatabaseError::failed("a row of sk_records cannot be read"))?,
            };
            if is_first {
                is_first = false;
                line.proof.head = Some(Head { seq: last_seq(database, id)?, hash: Hash::NONE });
            }
            last = row.get(2).and_then(Value::as_int).unwrap_or(i64::MAX).cast_unsigned();
            write(&line, out)?;
        }
    }
}

/// The record of a row: `line` and `exact`. None if it was too large for the table.
pub(crate) fn record(row: &[Value]) -> Option<Record> {
    let json = row.get(1).and_then(Value::as_bytes).or_else(|| row.first().and_then(Value::as_bytes))?;
    serde_json::from_slice(json).ok()
}

fn last_seq(database: &mut dyn Database, id: &SessionId) -> Result<u64, DatabaseError> {
    let sql = "SELECT MAX(seq) FROM sk_records WHERE session_id = ?";
    let rows = database.query(sql, &[Value::text(id.as_str())])?.rows;
    Ok(rows.first().and_then(|row| row.first()?.as_int()).unwrap_or(0).cast_unsigned())
}

/// The run that a record ends.
fn run_of(record: &Record) -> Option<&RunId> {
    match &record.event {
        Event::RunFinished { run_id, .. } => Some(run_id),
        _ => None,
    }
}

/// The line of a record that was too large for the table.
fn left_out(row: &[Value]) -> Option<Line> {
    let data: serde_json::Value = serde_json::from_str(row.first()?.as_str()?).ok()?;
    Some(Line {
        seq: row.get(2)?.as_int()?.cast_unsigned(),
        event_type: row.get(4)?.as_str()?.to_owned(),
        timestamp: row.get(3)?.as_time()?,
        author: Author::runtime(None),
        data: json!({"left_out_bytes": data.get("left_out_bytes")}),
        ..Line::default()
    })
}

pub(crate) fn write(line: &Line, out: &mut dyn Write) -> Result<(), DatabaseError> {
    let mut bytes = Vec::new();
    line.write_to(&mut bytes).map_err(DatabaseError::failed)?;
    out.write_all(&bytes).map_err(DatabaseError::failed)
}
