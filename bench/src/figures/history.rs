//! History in a database: how fast records are written beside bare inserts of the same rows, what it costs a command, and
//! what memory a database costs that is away.

use crate::daemon::Daemon;
use crate::fallible::Fallible;
use crate::http::{Client, post};
use crate::report::{Report, Row, Target};
use crate::setup::Setup;
use crate::stats::{self, Rounds};
use crate::{machine, stats::digits};
use serde_json::{Value as Json, json};
use shellkeep_history::database::{insert, transaction};
use shellkeep_history::{Database, JournalSource, Value, open, schema, write};
use shellkeep_servers::{DatabaseServer, Kind, free_port};
use shellkeep_session::Timestamp;
use shellkeep_store::{FeedEntry, Mark};
use std::time::{Duration, Instant};

const THROUGHPUT: Target = Target::RatioAtLeast(0.7);
const OVERHEAD: Target = Target::RatioAtMost(1.05);
/// Records of one transaction, for both.
const BATCH: usize = 1000;
const BATCHES: usize = 20;
/// Records of one session: some runs, messages and events.
const SESSION: u64 = 100;
const LIVE_SHELLS: usize = 4;
/// Sessions whose agents do something every second.
const AGENTS: usize = 100;
/// What an hour of that may add to the memory while there is no database.
const AWAY_MIB: f64 = 16.0;
/// By then the proofs of what was written are copied, too.
const COPIES: Duration = Duration::from_secs(2);
/// The tables that records fill, with their columns.
const TABLES: [(&str, &str); 3] = [
    ("sk_records", "session_id, seq, epoch, at, type, line, exact"),
    ("sk_messages", "session_id, seq_id, seq, epoch, role, content, at"),
    (
        "sk_runs",
        "session_id, run_id, seq, epoch, request_id, command, command_text, by_token, started_at, finished_at, status, \
         exit_code, duration_us, stdout_bytes, stderr_bytes",
    ),
];

pub fn measure(setup: &Setup, report: &mut Report) -> Fallible<()> {
    for kind in [Kind::Postgres, Kind::Mariadb] {
        let server = start(kind)?;
        throughput(kind, &server.url(), setup, report)?;
    }
    let server = start(Kind::Postgres)?;
    overhead(&server.url(), setup, report)?;
    away(setup, report)
}

fn start(kind: Kind) -> Fallible<DatabaseServer> {
    DatabaseServer::start(kind)?.ok_or_else(|| format!("{kind:?} is not installed").into())
}

fn throughput(kind: Kind, url: &str, setup: &Setup, report: &mut Report) -> Fallible<()> {
    let mut database = open(url)?;
    let database = &mut *database;
    schema::migrate(database)?;
    let entries = entries()?;
    let source = JournalSource { id: "bench".to_owned(), node: "bench".to_owned() };
    for (table, _) in TABLES {
        database.run(&match kind {
            Kind::Postgres => format!("CREATE TABLE bare_{table} (LIKE {table} INCLUDING ALL)"),
            Kind::Mariadb => format!("CREATE TABLE bare_{table} LIKE {table}"),
        })?;
    }
    let (mut floor, mut ours) = (Vec::new(), Vec::new());
    for round in 0..setup.effort.rounds as u64 {
        let tables = TABLES.iter().flat_map(|(table, _)| [(*table).to_owned(), format!("bare_{table}")]);
        for table in tables.chain(["sk_sessions".to_owned()]) {
            database.run(&format!("TRUNCATE TABLE {table}"))?;
        }
        let start = Instant::now();
        for (batch, offset) in entries.chunks(BATCH).zip(1..) {
            write::write(database, &source, batch, Mark { segment: round + 1, offset })?;
        }
        ours.push(entries.len() as f64 / start.elapsed().as_secs_f64());
        let batches = written(database)?;
        let start = Instant::now();
        bare(database, batches)?;
        floor.push(entries.len() as f64 / start.elapsed().as_secs_f64());
    }
    let count = digits(entries.len() as f64);
    let what = format!("history: {count} records by {BATCH} into {kind:?}; floor: bare inserts of the same rows");
    report.row(Row::rate(what, "records/s", stats::median(floor), stats::median(ours), THROUGHPUT));
    Ok(())
}

/// Rows of one table.
type Rows = Vec<Vec<Value>>;

/// What is in each of the tables, in as many parts as there were transactions.
fn written(database: &mut dyn Database) -> Fallible<Vec<[Rows; TABLES.len()]>> {
    let mut all = Vec::new();
    for (table, columns) in TABLES {
        all.push(database.query(&format!("SELECT {columns} FROM {table}"), &[])?.rows);
    }
    let part =
        |number: usize, rows: &Rows| rows[rows.len() * number / BATCHES..rows.len() * (number + 1) / BATCHES].to_vec();
    Ok((0..BATCHES).map(|number| std::array::from_fn(|table| part(number, &all[table]))).collect())
}

/// Inserts rows without asking what is there.
fn bare(database: &mut dyn Database, batches: Vec<[Rows; TABLES.len()]>) -> Fallible<()> {
    for batch in batches {
        transaction(database, |database| {
            for ((table, columns), rows) in TABLES.iter().zip(batch) {
                insert(database, &format!("bare_{table} ({columns})"), &rows, "")?;
            }
            Ok(())
        })?;
    }
    Ok(())
}

/// Records as sessions have them.
fn entries() -> Fallible<Vec<FeedEntry>> {
    let count = (BATCH * BATCHES) as u64;
    let entry = |number: u64| {
        let (session, seq) = (number / SESSION, number % SESSION + 1);
        let event = event(session, seq);
        let record =
            json!({"session_id": format!("bench-{session}"), "seq": seq, "at": Timestamp::now(), "event": event});
        let record = serde_json::from_value(record)?;
        // All of them are after every place.
        let place = Mark { segment: u64::MAX, offset: number };
        Ok(FeedEntry { place, epoch: 0, created_at: Some(Timestamp::UNIX_EPOCH), record })
    };
    (0..count).map(entry).collect()
}

fn event(session: u64, seq: u64) -> Json {
    let run = format!("run-{session}-{}", seq / 4);
    match seq % 4 {
        0 => {
            json!({"run_started": {"run_id": run, "request_id": format!("key-{seq}"), "command": "cargo test --workspace"}})
        }
        1 => json!({"run_finished": {"run_id": run, "result":
            {"status": "exited", "exit_code": 0, "duration_us": 1234, "cwd": "/home/agent/project"}}}),
        2 => json!({"message_added": {"message": {"seq_id": seq / 4 + 1, "role": "user",
            "content": "Please run the tests again.", "at": Timestamp::now()}}}),
        _ => {
            json!({"noted": {"event_type": "tool_call", "data": {"tool_name": "grep", "parameters": {"pattern": "fn main"},
            "output": "src/main.rs:1:fn main() {", "error": null, "duration": 0.01}}})
        }
    }
}

/// A warm command with history beside the same without it.
fn overhead(url: &str, setup: &Setup, report: &mut Report) -> Fallible<()> {
    let start = |settings: &[(&str, &str)]| Daemon::start_with(&setup.program, &setup.bash, LIVE_SHELLS, settings);
    let (without, with) = (start(&[])?, start(&[("SHELLKEEP_HISTORY", url)])?);
    let (mut plain, mut written) = (Client::connect(&without.socket())?, Client::connect(&with.socket())?);
    let sessions = (plain.create()?, written.create()?);
    let (mut floor, mut ours) = (Rounds::default(), Rounds::default());
    for _ in 0..setup.effort.rounds {
        floor.turn(setup.effort.commands, |count| plain.times(&sessions.0, "true", count))?;
        plain.settle()?;
        ours.turn(setup.effort.commands, |count| written.times(&sessions.1, "true", count))?;
        // What it still does would take time from the next turn of the other.
        written.settle_history()?;
        std::thread::sleep(COPIES);
    }
    let what = "`true`, HTTP, with history; floor: without".to_owned();
    report.row(Row::latency(what, floor.middle(), ours.middle(), OVERHEAD));
    Ok(())
}

/// An hour of events while there is no database: the journal keeps them, and the memory of the daemon stays as it is.
fn away(setup: &Setup, report: &mut Report) -> Fallible<()> {
    let url = format!("postgres://{}/history", free_port()?);
    let daemon = Daemon::start_with(&setup.program, &setup.bash, LIVE_SHELLS, &[("SHELLKEEP_HISTORY", &url)])?;
    let mut client = Client::connect(&daemon.socket())?;
    let sessions = (0..AGENTS).map(|_| client.create()).collect::<Fallible<Vec<_>>>()?;
    let event = json!({"event_type": "tool_call", "data": {"tool_name": "grep", "parameters": {"pattern": "fn main"},
        "output": "src/main.rs:1:fn main() {", "error": null, "duration": 0.01}});
    let minute = json!({"events": vec![event; 60]}).to_string();
    let mut minutes = |count: usize| -> Fallible<u64> {
        for session in (0..count).flat_map(|_| &sessions) {
            let answer: Json =
                serde_json::from_slice(client.call(&post(&format!("/v1/sessions/{session}/events"), &minute))?)?;
            if !answer["seq"].is_u64() {
                return Err(format!("events were not accepted: {answer}").into());
            }
        }
        client.settle()?;
        machine::resident(daemon.pid())
    };
    // After ten minutes it has what it needs for its work.
    let (before, after) = (minutes(10)?, minutes(60)?);
    let what = format!(
        "memory that an hour without a history database adds: {} events of {AGENTS} sessions",
        digits((AGENTS * 60 * 60) as f64)
    );
    report.row(Row::limit(what, after.saturating_sub(before) as f64 / 1024.0, "MiB", AWAY_MIB));
    Ok(())
}
