//! What a record becomes in the tables. Pure: records in, rows out.

use crate::database::Value;
use serde_json::Value as Json;
use shellkeep_session::{ByteString, Event, Record, RunResult, RunStatus, SessionMeta, Timestamp};
use shellkeep_store::FeedEntry;
use std::collections::BTreeMap;

/// Longest name of a type of event in the table; events may have longer ones.
const MOST_TYPE: usize = 190;

/// Bytes of a command in the table of runs; the record has all of it.
const MOST_COMMAND: usize = 256 * 1024;

/// What the tables get.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    pub records: Vec<Vec<Value>>,
    pub messages: Vec<Vec<Value>>,
    /// By session and run.
    pub runs: BTreeMap<(String, String), RunRow>,
    pub sessions: BTreeMap<String, SessionRow>,
}

/// A run: what is known of its start, its end, or both.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RunRow {
    pub seq: u64,
    pub epoch: u64,
    pub start: Option<StartRow>,
    pub end: Option<EndRow>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct StartRow {
    request_id: Option<String>,
    command: ByteString,
    by: Option<String>,
    at: Timestamp,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct EndRow {
    result: Box<RunResult>,
    at: Timestamp,
}

/// What records say about their session.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SessionRow {
    pub agent: Option<String>,
    pub created_at: Option<Timestamp>,
    pub last_active_at: Timestamp,
    pub seq: u64,
    pub epoch: u64,
    /// Whether it ended, or became active again; none if nothing was said.
    pub ended: Option<Option<Timestamp>>,
    /// When it was deleted, and by whom.
    pub deleted: Option<(Timestamp, Option<String>)>,
}

impl Rows {
    /// Adds what a record says. A line longer than `most` bytes is left out, and its row says so.
    pub(crate) fn add(&mut self, entry: &FeedEntry, most: usize) -> Result<(), serde_json::Error> {
        self.records.push(record_row(entry, most)?);
        self.derive(&entry.record, entry.epoch);
        Ok(())
    }

    /// Adds what a record says about messages, runs and its session.
    pub(crate) fn derive(&mut self, record: &Record, epoch: u64) {
        let id = record.session_id.as_str();
        match &record.event {
            Event::MessageAdded { message, .. } => self.messages.push(vec![
                Value::text(id),
                Value::count(message.seq_id),
                Value::count(record.seq),
                Value::count(epoch),
                Value::text(&message.role),
                Value::Text(without_nul(&message.content).to_string()),
                Value::time(message.at),
            ]),
            Event::RunStarted { run_id, request_id, command, by, .. } => {
                let command = ByteString::from(&command.as_bytes()[..command.as_bytes().len().min(MOST_COMMAND)]);
                let (request_id, by) = (request_id.clone(), by.clone());
                let start = StartRow { request_id, command, by, at: record.at };
                let run = RunRow { seq: record.seq, epoch, start: Some(start), end: None };
                self.runs.insert((id.to_owned(), run_id.to_string()), run);
            }
            Event::RunFinished { run_id, result, .. } => {
                let run = self.runs.entry((id.to_owned(), run_id.to_string()));
                let run = run.or_insert(RunRow { seq: record.seq, epoch, start: None, end: None });
                run.end = Some(EndRow { result: result.clone(), at: record.at });
            }
            _ => {}
        }
        self.derive_session(record, epoch);
    }

    fn derive_session(&mut self, record: &Record, epoch: u64) {
        let row = self.sessions.entry(record.session_id.as_str().to_owned()).or_insert(SessionRow {
            agent: None,
            created_at: None,
            last_active_at: record.at,
            seq: record.seq,
            epoch,
            ended: None,
            deleted: None,
        });
        row.last_active_at = row.last_active_at.max(record.at);
        (row.seq, row.epoch) = (row.seq.max(record.seq), row.epoch.max(epoch));
        if let Some(meta) = meta(&record.event) {
            (row.agent, row.created_at) = (meta.agent.clone(), Some(meta.created_at));
        }
        match &record.event {
            Event::SessionEnded { .. } => row.ended = Some(Some(record.at)),
            Event::SessionDestroyed => row.deleted = Some((record.at, None)),
            Event::SessionDeleted { by, .. } => row.deleted = Some((record.at, by.clone())),
            Event::RunStarted { .. } | Event::ServiceStarted { .. } | Event::MessageAdded { .. } => {
                row.ended = Some(None);
            }
            _ => {}
        }
    }
}

impl RunRow {
    /// Its row, in the order of [`crate::write::RUN_COLUMNS`].
    pub(crate) fn row(&self, session_id: &str, run_id: &str) -> Vec<Value> {
        let (start, end) = (self.start.as_ref(), self.end.as_ref());
        let result = end.map(|end| &*end.result);
        let started = start.map(|start| start.at).or_else(|| {
            let micros = end.map(|end| end.at.as_microsecond() - end.result.duration_us.cast_signed())?;
            Timestamp::from_microsecond(micros).ok()
        });
        let status = result.map_or(RunStatus::Running, |result| result.status).as_str();
        let time = |at: Option<Timestamp>| at.map_or(Value::Null, Value::time);
        let count = |of: fn(&RunResult) -> u64| result.map_or(Value::Null, |result| Value::count(of(result)));
        vec![
            Value::text(session_id),
            Value::text(run_id),
            Value::count(self.seq),
            Value::count(self.epoch),
            Value::maybe_text(start.and_then(|start| start.request_id.as_deref())),
            start.map_or(Value::Null, |start| Value::Bytes(start.command.as_bytes().to_vec())),
            start.map_or(Value::Null, |start| Value::text(start.command.to_text())),
            Value::maybe_text(start.and_then(|start| start.by.as_deref())),
            time(started),
            time(end.map(|end| end.at)),
            Value::text(status),
            result.and_then(|result| result.exit_code).map_or(Value::Null, |code| Value::Int(code.into())),
            Value::maybe_text(result.and_then(|result| result.signal.as_deref())),
            count(|result| result.duration_us),
            count(|result| result.stdout.total),
            count(|result| result.stderr.total),
        ]
    }
}

/// The kind of a record: the type of an event, or the name of the fact, which is the first word of its JSON.
fn kind<'a>(event: &'a Event, json: &'a str) -> &'a str {
    match event {
        Event::Noted { event_type, .. } => {
            let end = event_type.char_indices().nth(MOST_TYPE).map_or(event_type.len(), |(end, _)| end);
            &event_type[..end]
        }
        _ => json.split("\"event\":").nth(1).and_then(|rest| rest.split('"').nth(1)).unwrap_or_default(),
    }
}

/// Its metadata, if the record has all of it.
fn meta(event: &Event) -> Option<&SessionMeta> {
    match event {
        Event::SessionCreated { meta, .. } => Some(meta),
        Event::Owned { state: Some(state), .. } | Event::RecordsLost { state, .. } => Some(&state.meta),
        _ => None,
    }
}

fn record_row(entry: &FeedEntry, most: usize) -> Result<Vec<Value>, serde_json::Error> {
    let record = &entry.record;
    let json = serde_json::to_string(record)?;
    let kind = Value::text(kind(&record.event, &json));
    let has_nul = json.contains("\\u0000");
    // A line with that character is there twice.
    let (line, exact) = if json.len() * if has_nul { 2 } else { 1 } > most {
        tracing::error!(session = %record.session_id, seq = record.seq, "a record is too large for the history database");
        let left_out = serde_json::json!({"session_id": record.session_id, "seq": record.seq, "at": record.at,
            "left_out_bytes": json.len()});
        (left_out.to_string(), Value::Null)
    } else if has_nul {
        (without_nul(&serde_json::from_str(&json)?).to_string(), Value::Bytes(json.into_bytes()))
    } else {
        (json, Value::Null)
    };
    Ok(vec![
        Value::text(record.session_id.as_str()),
        Value::count(record.seq),
        Value::count(entry.epoch),
        Value::time(record.at),
        kind,
        Value::Text(line),
        exact,
    ])
}

/// JSON without the one character that PostgreSQL cannot hold in text.
fn without_nul(json: &Json) -> Json {
    let clean = |text: &str| text.replace('\0', "\u{2400}");
    match json {
        Json::String(text) => Json::String(clean(text)),
        Json::Array(items) => Json::Array(items.iter().map(without_nul).collect()),
        Json::Object(fields) => fields.iter().map(|(name, value)| (clean(name), without_nul(value))).collect(),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use shellkeep_store::Mark;

    fn entry(seq: u64, event: Json) -> FeedEntry {
        let record = json!({"session_id": "s", "seq": seq, "at": "2026-11-17T01:02:03.000004Z", "event": event});
        let record = serde_json::from_value(record).expect("a record");
        FeedEntry { place: Mark::default(), epoch: 3, record }
    }

    fn rows(events: Vec<Json>) -> Rows {
        let mut rows = Rows::default();
        for (seq, event) in (1..).zip(events) {
            rows.add(&entry(seq, event), 10_000).expect("it can be written");
        }
        rows
    }

    #[test]
    fn a_record_has_the_type_of_its_event_or_the_name_of_its_fact() {
        let noted = json!({"noted": {"event_type": "tool_call", "data": {"tool_name": "\"event\":{\"x"}}});
        let rows = rows(vec![noted, json!("session_destroyed"), json!({"shell_started": {"generation": 1}})]);
        let types: Vec<_> = rows.records.iter().map(|row| row[4].as_str().expect("text")).collect();
        assert_eq!(types, ["tool_call", "session_destroyed", "shell_started"]);
        assert!(rows.sessions["s"].deleted.is_some());
    }

    #[test]
    fn what_a_database_cannot_hold_is_kept_beside_it() {
        let rows = rows(vec![json!({"noted": {"event_type": "x_a", "data": {"t": "a\u{0}b", "u": "\\u0000"}}})]);
        let line = rows.records[0][5].as_str().expect("text");
        assert!(line.contains("a\u{2400}b") && line.contains("\\\\u0000") && !line.contains("a\\u0000"), "{line}");
        let exact = rows.records[0][6].as_bytes().expect("the exact line");
        assert_eq!(
            serde_json::from_slice::<Record>(exact).expect("a record"),
            entry(
                1,
                json!({"noted":
            {"event_type": "x_a", "data": {"t": "a\u{0}b", "u": "\\u0000"}}})
            )
            .record
        );
        let long = entry(1, json!({"noted": {"event_type": "x_a", "data": {"t": "x".repeat(20_000)}}}));
        let mut rows = Rows::default();
        rows.add(&long, 10_000).expect("it can be written");
        assert!(rows.records[0][5].as_str().expect("text").contains("left_out_bytes"));
    }

    #[test]
    fn start_and_end_of_a_run_are_one_row() {
        let start = json!({"run_started": {"run_id": "r1", "request_id": "k", "command": "true"}});
        let end = json!({"run_finished": {"run_id": "r1", "result":
            {"status": "exited", "exit_code": 3, "duration_us": 7, "cwd": "/"}}});
        let rows = rows(vec![start, end]);
        let run = rows.runs[&("s".to_owned(), "r1".to_owned())].row("s", "r1");
        assert_eq!(run[4], Value::text("k"));
        assert_eq!(run[5], Value::Bytes(b"true".to_vec()));
        assert_eq!((&run[10], &run[11]), (&Value::text("exited"), &Value::Int(3)));
        assert_eq!(rows.sessions["s"].ended, Some(None));
    }
}
