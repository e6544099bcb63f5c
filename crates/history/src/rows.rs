//! What a record becomes in the tables. Pure: records in, rows out.

use crate::database::Value;
use serde_json::Value as Json;
use shellkeep_session::{ByteString, Event, Json as _, Record, RunResult, RunStatus, SessionMeta, Timestamp};
use std::collections::BTreeMap;

/// Longest name of a type of event in the table; events may have longer ones.
const MOST_TYPE: usize = 190;

/// Bytes of a command in the table of runs; the record has all of it.
const MOST_COMMAND: usize = 256 * 1024;

/// A record on its way into the tables.
#[derive(Debug, Clone)]
pub(crate) struct Incoming<'a> {
    /// The name of its session in the tables: another one than in the record if the name was used again.
    pub name: String,
    pub seq: u64,
    pub at: Timestamp,
    pub epoch: u64,
    /// When its session was created, if that is known.
    pub created_at: Option<Timestamp>,
    pub content: Content<'a>,
}

/// What a record says.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Content<'a> {
    Record(&'a Record),
    /// It was longer than a broker accepts.
    LeftOut {
        bytes: u64,
    },
}

impl<'a> Incoming<'a> {
    pub(crate) fn new(record: &'a Record, epoch: u64, created_at: Option<Timestamp>) -> Self {
        let name = record.session_id.as_str().to_owned();
        Self { name, seq: record.seq, at: record.at, epoch, created_at, content: Content::Record(record) }
    }

    /// What happened, if that is known.
    pub(crate) fn event(&self) -> Option<&'a Event> {
        match self.content {
            Content::Record(record) => Some(&record.event),
            Content::LeftOut { .. } => None,
        }
    }
}

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
    status: RunStatus,
    exit_code: Option<i32>,
    signal: Option<String>,
    duration_us: u64,
    stdout_bytes: u64,
    stderr_bytes: u64,
    at: Timestamp,
}

impl EndRow {
    /// Without the outputs, which may be long.
    fn new(result: &RunResult, at: Timestamp) -> Self {
        let RunResult { status, exit_code, duration_us, stdout, stderr, .. } = result;
        Self {
            status: *status,
            exit_code: *exit_code,
            signal: result.signal.clone(),
            duration_us: *duration_us,
            stdout_bytes: stdout.total,
            stderr_bytes: stderr.total,
            at,
        }
    }
}

/// What records say about their session.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SessionRow {
    pub agent: Option<String>,
    pub created_at: Option<Timestamp>,
    pub last_active_at: Timestamp,
    pub seq: u64,
    pub epoch: u64,
    /// Whether one of them ends it, or else makes it active again; none if there is none of both kinds.
    pub ends: Option<bool>,
    /// When it was deleted, and by whom.
    pub deleted: Option<(Timestamp, Option<String>)>,
}

impl Rows {
    /// Adds what a record says. A line longer than `most` bytes is left out, and its row says so.
    pub(crate) fn add(&mut self, incoming: &Incoming, most: usize) -> Result<(), serde_json::Error> {
        self.records.push(record_row(incoming, most)?);
        self.derive(incoming);
        Ok(())
    }

    /// Adds what a record says about messages, runs and its session.
    pub(crate) fn derive(&mut self, incoming: &Incoming) {
        let Incoming { name, seq, at, epoch, .. } = incoming;
        match incoming.event() {
            Some(Event::MessageAdded { message, .. }) => self.messages.push(vec![
                Value::text(name),
                Value::count(message.seq_id),
                Value::count(*seq),
                Value::count(*epoch),
                Value::text(&message.role),
                Value::Text(without_nul(&message.content).to_string()),
                Value::time(message.at),
            ]),
            Some(Event::RunStarted { run_id, request_id, command, by, .. }) => {
                let command = ByteString::from(&command.as_bytes()[..command.as_bytes().len().min(MOST_COMMAND)]);
                let (request_id, by) = (request_id.clone(), by.clone());
                let start = StartRow { request_id, command, by, at: *at };
                let end = self.runs.remove(&(name.clone(), run_id.to_string())).and_then(|run| run.end);
                let run = RunRow { seq: *seq, epoch: *epoch, start: Some(start), end };
                self.runs.insert((name.clone(), run_id.to_string()), run);
            }
            Some(Event::RunFinished { run_id, result, .. }) => {
                let run = self.runs.entry((name.clone(), run_id.to_string()));
                let run = run.or_insert(RunRow { seq: *seq, epoch: *epoch, start: None, end: None });
                run.end = Some(EndRow::new(result, *at));
            }
            _ => {}
        }
        self.derive_session(incoming);
    }

    fn derive_session(&mut self, incoming: &Incoming) {
        let Incoming { name, seq, at, epoch, created_at, .. } = incoming;
        let row = self.sessions.entry(name.clone()).or_insert(SessionRow {
            agent: None,
            created_at: *created_at,
            last_active_at: *at,
            seq: *seq,
            epoch: *epoch,
            ends: None,
            deleted: None,
        });
        row.last_active_at = row.last_active_at.max(*at);
        (row.seq, row.epoch) = (row.seq.max(*seq), row.epoch.max(*epoch));
        let Some(event) = incoming.event() else { return };
        if let Some(meta) = meta(event) {
            (row.agent, row.created_at) = (meta.agent.clone(), Some(meta.created_at));
        }
        match event {
            Event::SessionEnded { .. } => row.ends = Some(true),
            Event::SessionDestroyed => row.deleted = Some((*at, None)),
            Event::SessionDeleted { by, .. } => row.deleted = Some((*at, by.clone())),
            Event::RunStarted { .. } | Event::ServiceStarted { .. } | Event::MessageAdded { .. } => {
                row.ends = row.ends.or(Some(false));
            }
            _ => {}
        }
    }
}

impl RunRow {
    /// Its row, in the order of [`crate::write::RUN_COLUMNS`].
    pub(crate) fn row(&self, session_id: &str, run_id: &str) -> Vec<Value> {
        let (start, end) = (self.start.as_ref(), self.end.as_ref());
        let started = start.map(|start| start.at).or_else(|| {
            let micros = end.map(|end| end.at.as_microsecond() - end.duration_us.cast_signed())?;
            Timestamp::from_microsecond(micros).ok()
        });
        let status = end.map_or(RunStatus::Running, |end| end.status).as_str();
        let time = |at: Option<Timestamp>| at.map_or(Value::Null, Value::time);
        let count = |of: fn(&EndRow) -> u64| end.map_or(Value::Null, |end| Value::count(of(end)));
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
            end.and_then(|end| end.exit_code).map_or(Value::Null, |code| Value::Int(code.into())),
            Value::maybe_text(end.and_then(|end| end.signal.as_deref())),
            count(|end| end.duration_us),
            count(|end| end.stdout_bytes),
            count(|end| end.stderr_bytes),
        ]
    }
}

/// The type of a record, as long as the column allows.
fn type_of(event: &Event) -> &str {
    let name = event.stored_type();
    name.char_indices().nth(MOST_TYPE).map_or(name, |(end, _)| &name[..end])
}

/// Its metadata, if the record has all of it.
fn meta(event: &Event) -> Option<&SessionMeta> {
    match event {
        Event::SessionCreated { meta, .. } => Some(meta),
        Event::Owned { state: Some(state), .. } | Event::RecordsLost { state, .. } => Some(&state.meta),
        _ => None,
    }
}

fn record_row(incoming: &Incoming, most: usize) -> Result<Vec<Value>, serde_json::Error> {
    let (kind, line, exact) = match incoming.content {
        Content::Record(record) => lines(record, most)?,
        Content::LeftOut { bytes } => {
            let line = left_out(&incoming.name, incoming.seq, incoming.at, bytes);
            (Value::text("left_out"), Value::Text(line), Value::Null)
        }
    };
    let Incoming { name, seq, epoch, at, .. } = incoming;
    Ok(vec![Value::text(name), Value::count(*seq), Value::count(*epoch), Value::time(*at), kind, line, exact])
}

/// The line of a record that is too long.
fn left_out(session_id: &str, seq: u64, at: Timestamp, bytes: u64) -> String {
    serde_json::json!({"session_id": session_id, "seq": seq, "at": at, "left_out_bytes": bytes}).to_string()
}

/// The type of a record, its line, and the exact line if that is another one.
fn lines(record: &Record, most: usize) -> Result<(Value, Value, Value), serde_json::Error> {
    let json = record.to_json_text()?;
    let has_nul = json.contains("\\u0000");
    // A line with that character is there twice.
    let (line, exact) = if json.len() * if has_nul { 2 } else { 1 } > most {
        tracing::error!(session = %record.session_id, seq = record.seq, "a record is too large for the history database");
        (left_out(record.session_id.as_str(), record.seq, record.at, json.len() as u64), Value::Null)
    } else if has_nul {
        (without_nul(&serde_json::from_str(&json)?).to_string(), Value::Bytes(json.into_bytes()))
    } else {
        (json, Value::Null)
    };
    Ok((Value::text(type_of(&record.event)), Value::Text(line), exact))
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

    fn record(seq: u64, event: Json) -> Record {
        let record = json!({"session_id": "s", "seq": seq, "at": "2026-11-17T01:02:03.000004Z", "event": event});
        serde_json::from_value(record).expect("a record")
    }

    fn rows(events: Vec<Json>) -> Rows {
        let mut rows = Rows::default();
        for (seq, event) in (1..).zip(events) {
            rows.add(&Incoming::new(&record(seq, event), 3, None), 10_000).expect("it can be written");
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
            record(1, json!({"noted": {"event_type": "x_a", "data": {"t": "a\u{0}b", "u": "\\u0000"}}}))
        );
        let long = record(1, json!({"noted": {"event_type": "x_a", "data": {"t": "x".repeat(20_000)}}}));
        let mut rows = Rows::default();
        rows.add(&Incoming::new(&long, 3, None), 10_000).expect("it can be written");
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
        assert_eq!(rows.sessions["s"].ends, Some(false));
    }
}
