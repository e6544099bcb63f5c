//! Masks a secret in the rows of a session.

use crate::database::{Database, DatabaseError, Value, transaction};
use crate::proof;
use shellkeep_record::{Line, Masker};
use shellkeep_redact::Redactor;
use shellkeep_session::SessionId;

/// Rows that are read at once.
const PAGE: i64 = 200;

/// Masks what the redactor finds in every row of a session, those set aside included. The recording in the data directory
/// `source` is masked already, and is copied again.
pub(crate) fn scrub(
    database: &mut dyn Database,
    source: &str,
    session_id: &SessionId,
    redactor: &Redactor,
) -> Result<(), DatabaseError> {
    let masker = Masker::of_values(redactor.clone());
    let scrubbing = Scrubbing { id: Value::text(session_id.as_str()), masker: &masker, redactor };
    transaction(database, |database| {
        for table in ["sk_records", "sk_superseded"] {
            scrubbing.lines(database, table)?;
        }
        scrubbing.messages(database)?;
        scrubbing.runs(database)?;
        proof::forget(database, session_id.as_str(), source)?;
        scrubbing.recordings(database)
    })
}

struct Scrubbing<'a> {
    id: Value,
    masker: &'a Masker,
    redactor: &'a Redactor,
}

impl Scrubbing<'_> {
    fn lines(&self, database: &mut dyn Database, table: &str) -> Result<(), DatabaseError> {
        let select = format!(
            "SELECT seq, epoch, line, exact FROM {table} WHERE session_id = ? AND seq > ? ORDER BY seq, epoch LIMIT {PAGE}"
        );
        let update = format!("UPDATE {table} SET line = ?, exact = ? WHERE session_id = ? AND seq = ? AND epoch = ?");
        let mut after = Value::Int(-1);
        loop {
            let rows = database.query(&select, &[self.id.clone(), after.clone()])?.rows;
            let Some(last) = rows.last().map(|row| row[0].clone()) else { return Ok(()) };
            for row in &rows {
                let (line, exact) = (self.json(&row[2]), self.json_bytes(&row[3]));
                if line != row[2] || exact != row[3] {
                    let key = [self.id.clone(), row[0].clone(), row[1].clone()];
                    database.execute(&update, &[&[line, exact], &key[..]].concat())?;
                }
            }
            after = last;
        }
    }

    fn messages(&self, database: &mut dyn Database) -> Result<(), DatabaseError> {
        let select = format!(
            "SELECT seq_id, content FROM sk_messages WHERE session_id = ? AND seq_id > ? ORDER BY seq_id LIMIT {PAGE}"
        );
        let mut after = Value::Int(-1);
        loop {
            let rows = database.query(&select, &[self.id.clone(), after.clone()])?.rows;
            let Some(last) = rows.last().map(|row| row[0].clone()) else { return Ok(()) };
            for row in &rows {
                let content = self.json(&row[1]);
                if content != row[1] {
                    let update = "UPDATE sk_messages SET content = ? WHERE session_id = ? AND seq_id = ?";
                    database.execute(update, &[content, self.id.clone(), row[0].clone()])?;
                }
            }
            after = last;
        }
    }

    fn runs(&self, database: &mut dyn Database) -> Result<(), DatabaseError> {
        let select = format!(
            "SELECT seq, run_id, command, command_text, request_id FROM sk_runs WHERE session_id = ? AND seq > ? \
             ORDER BY seq LIMIT {PAGE}"
        );
        let update =
            "UPDATE sk_runs SET command = ?, command_text = ?, request_id = ? WHERE session_id = ? AND run_id = ?";
        let mut after = Value::Int(-1);
        loop {
            let rows = database.query(&select, &[self.id.clone(), after.clone()])?.rows;
            let Some(last) = rows.last().map(|row| row[0].clone()) else { return Ok(()) };
            for row in &rows {
                let masked = [self.bytes(&row[2]), self.text(&row[3]), self.text(&row[4])];
                if masked != row[2..5] {
                    database.execute(update, &[&masked[..], &[self.id.clone(), row[1].clone()]].concat())?;
                }
            }
            after = last;
        }
    }

    /// Lines of the recordings that other nodes had.
    fn recordings(&self, database: &mut dyn Database) -> Result<(), DatabaseError> {
        let select = format!(
            "SELECT source, seq, line FROM sk_lines WHERE session_id = ? AND (source > ? OR (source = ? AND seq > ?)) \
             ORDER BY source, seq LIMIT {PAGE}"
        );
        let (mut source, mut after) = (Value::text(""), Value::Int(-1));
        loop {
            let rows = database.query(&select, &[self.id.clone(), source.clone(), source, after])?.rows;
            let Some(last) = rows.last() else { return Ok(()) };
            for row in &rows {
                let line = row[2].as_bytes().and_then(|bytes| Line::parse(bytes.trim_ascii_end()).ok());
                let Some(line) = line else { continue };
                let masked = self.masker.mask_line(&line, None);
                if masked != line {
                    let mut bytes = Vec::new();
                    masked.write_to(&mut bytes).map_err(DatabaseError::failed)?;
                    let update = "UPDATE sk_lines SET line = ? WHERE session_id = ? AND source = ? AND seq = ?";
                    let values = [Value::Bytes(bytes), self.id.clone(), row[0].clone(), row[1].clone()];
                    database.execute(update, &values)?;
                }
            }
            (source, after) = (last[0].clone(), last[1].clone());
        }
    }

    /// JSON with everything masked; as it is if nothing is found, so that rows without the secret are not written.
    fn json(&self, value: &Value) -> Value {
        let Some(Ok(before)) = value.as_bytes().map(serde_json::from_slice::<serde_json::Value>) else {
            return value.clone();
        };
        let mut after = before.clone();
        self.masker.mask_value(&mut after);
        if after == before { value.clone() } else { Value::Text(after.to_string()) }
    }

    fn json_bytes(&self, value: &Value) -> Value {
        match self.json(value) {
            masked if masked == *value => masked,
            Value::Text(text) => Value::Bytes(text.into_bytes()),
            other => other,
        }
    }

    fn bytes(&self, value: &Value) -> Value {
        match value.as_bytes().map(|bytes| (bytes, self.redactor.redact(bytes))) {
            Some((bytes, masked)) if masked != bytes => Value::Bytes(masked),
            _ => value.clone(),
        }
    }

    fn text(&self, value: &Value) -> Value {
        match (self.bytes(value), value) {
            (Value::Bytes(masked), Value::Text(_)) => Value::text(String::from_utf8_lossy(&masked)),
            (masked, _) => masked,
        }
    }
}
