//! What is recorded: what it costs a warm command, a million events in one session, and how fast secrets are masked.

use crate::fallible::Fallible;
use crate::library::Library;
use crate::report::{Report, Row, Target};
use crate::setup::Setup;
use crate::stats::Rounds;
use crate::{machine, stats};
use serde_json::json;
use shellkeep_record::Recording;
use shellkeep_redact::{Config, Redactor};
use shellkeep_runtime::{EventPage, EventQuery, NewEvent};
use shellkeep_session::SessionId;
use shellkeep_store::RecordOptions;
use std::time::{Duration, Instant};

const LIVE_SHELLS: usize = 4;
const SPARE_SHELLS: usize = 1;
const OVERHEAD: Target = Target::RatioAtMost(1.1);
/// Events that are posted at a time.
const BATCH: usize = 1000;
/// Lines of a page.
const PAGE: usize = 100;
/// What is said in one event only, in the middle.
const NEEDLE: &str = "a-needle-in-the-hay";
/// What reading and writing a large recording may add to the memory.
const MEMORY_MIB: f64 = 64.0;
const MASKING: f64 = 100.0;
/// Size of a text that is masked, and for how long; the best round counts.
const TEXT: usize = 256 << 10;
const ROUNDS: usize = 200;

pub fn measure(setup: &Setup, report: &mut Report) -> Fallible<()> {
    overhead(setup, report)?;
    many_events(setup, report)?;
    masking(report)
}

/// A warm command with a recording beside the same without one.
fn overhead(setup: &Setup, report: &mut Report) -> Fallible<()> {
    let start = |options| Library::start_with(&setup.bash, LIVE_SHELLS, SPARE_SHELLS, options);
    let (without, with) = (start(RecordOptions::off())?, start(RecordOptions::default())?);
    let (plain, recorded) = (without.create()?, with.create()?);
    let (mut floor, mut ours) = (Rounds::default(), Rounds::default());
    for _ in 0..setup.effort.rounds {
        floor.turn(setup.effort.commands, |count| without.times(&plain, "true", "", count))?;
        ours.turn(setup.effort.commands, |count| with.times(&recorded, "true", "", count))?;
    }
    let what = "`true`, library, recorded; floor: without a recording".to_owned();
    report.row(Row::latency(what, floor.middle(), ours.middle(), OVERHEAD));
    Ok(())
}

/// A session with very many events: written, paged through, searched, checked, played.
fn many_events(setup: &Setup, report: &mut Report) -> Fallible<()> {
    let library = Library::start(&setup.bash, LIVE_SHELLS, 0)?;
    let session = library.create()?;
    let (events, us) = (setup.effort.events, std::process::id());
    let count = format!("{} events", stats::digits(events as f64));
    machine::forget_peak(us)?;
    let before = machine::resident(us)?;
    let start = Instant::now();
    post(&library, &session, events)?;
    let posted = start.elapsed();
    // A page is read from the files, so this waits until all of it is written there.
    let (_, first) = page(&library, &session, EventQuery { after: 0, limit: PAGE, ..EventQuery::default() })?;
    let written = posted + first;
    report.row(Row::alone(format!("{count} posted by {BATCH}, library"), "events/s", per_second(events, posted)));
    report.row(Row::alone(format!("{count} until they are in the files"), "events/s", per_second(events, written)));
    for (name, after) in [("first", 0), ("middle", events / 2), ("last", events - PAGE)] {
        let query = EventQuery { after: after as u64, limit: PAGE, ..EventQuery::default() };
        let (_, elapsed) = page(&library, &session, query)?;
        report.row(Row::alone(format!("{count}: the {name} page of {PAGE}"), "ms", elapsed.as_secs_f64() * 1e3));
    }
    let needle = EventQuery { limit: 1, search: Some(NEEDLE.to_owned()), ..EventQuery::default() };
    let (found, elapsed) = page(&library, &session, needle)?;
    if found.events.len() != 1 {
        return Err("the search found nothing".into());
    }
    report.row(Row::alone(format!("{count}: a word in the middle is found"), "s", elapsed.as_secs_f64()));
    check(&library, &session, report, &count)?;
    play(&library, &session, report, &count, events)?;
    let growth = machine::peak(us)?.saturating_sub(before) as f64 / 1024.0;
    report.row(Row::limit(format!("{count}: memory at its peak, above what it was"), growth, "MiB", MEMORY_MIB));
    Ok(())
}

fn per_second(count: usize, elapsed: Duration) -> f64 {
    count as f64 / elapsed.as_secs_f64()
}

/// Posts events as an agent's framework does.
fn post(library: &Library, session: &SessionId, count: usize) -> Fallible<()> {
    let id = session.clone();
    library.with(move |engine| async move {
        for from in (0..count).step_by(BATCH) {
            let batch = (from..count.min(from + BATCH)).map(|n| event(n, count)).collect();
            let posted = engine.records().post_events(&id, batch).await?;
            if !posted.notices.is_empty() {
                return Err(format!("events were not taken down: {:?}", posted.notices).into());
            }
        }
        Ok(())
    })
}

fn event(n: usize, count: usize) -> NewEvent {
    let output = if n == count / 2 { NEEDLE } else { "and so it goes on, step by step" };
    let data = json!({
        "model": "some-model",
        "prompt": format!("step {n}: what comes next?"),
        "response": output,
        "tokens": { "input": n % 4096, "output": n % 512 },
        "duration": 0.25,
    });
    NewEvent { event_type: "llm_call".to_owned(), data }
}

fn page(library: &Library, session: &SessionId, query: EventQuery) -> Fallible<(EventPage, Duration)> {
    let id = session.clone();
    library.with(move |engine| async move {
        let start = Instant::now();
        let page = engine.records().events(&id, query).await?;
        Ok((page, start.elapsed()))
    })
}

fn check(library: &Library, session: &SessionId, report: &mut Report, count: &str) -> Fallible<()> {
    let id = session.clone();
    let start = Instant::now();
    let verdict = library.with(move |engine| async move { Ok(engine.records().verify(&id).await?) })?;
    if !verdict.is_intact() {
        return Err(format!("the recording is not whole: {verdict:?}").into());
    }
    report.row(Row::alone(
        format!("{count}: checked"),
        "events/s",
        per_second(verdict.lines as usize, start.elapsed()),
    ));
    Ok(())
}

/// Every line in order, as a player reads them.
fn play(library: &Library, session: &SessionId, report: &mut Report, count: &str, events: usize) -> Fallible<()> {
    let recording = Recording::open(&library.data().join("sessions").join(session.as_str()))?;
    let start = Instant::now();
    let mut played = 0;
    for line in recording.lines(1)? {
        line?;
        played += 1;
    }
    if played < events {
        return Err(format!("{played} lines were played").into());
    }
    report.row(Row::alone(format!("{count}: played through"), "events/s", per_second(played, start.elapsed())));
    report.note(format!("The {count} are in {} files.", recording.files().len()));
    Ok(())
}

/// Texts of three kinds, without a secret in them.
fn masking(report: &mut Report) -> Fallible<()> {
    let redactor = Redactor::new(&Config::default())?;
    let source = include_bytes!("record.rs").iter().copied().cycle().take(TEXT).collect();
    for (name, text) in [("source code", source), ("JSON logs", logs()), ("random bytes", random())] {
        let best = (0..ROUNDS).map(|_| masked(&redactor, &text)).min().unwrap_or_default();
        let speed = text.len() as f64 / best.as_secs_f64() / 1e6;
        report.row(Row::least(format!("secrets masked in {name}"), speed, "MB/s", MASKING));
    }
    Ok(())
}

fn masked(redactor: &Redactor, text: &[u8]) -> Duration {
    let start = Instant::now();
    let mut out = Vec::with_capacity(text.len());
    let mut stream = redactor.stream();
    stream.push(text, &mut out);
    stream.finish(&mut out);
    start.elapsed()
}

fn logs() -> Vec<u8> {
    let line = |n: u64| {
        let id = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let (day, hour, milli, took) = (n % 28 + 1, n % 24, n % 1000, id % 900);
        let time = format!("2024-01-{day:02}T{hour:02}:{:02}:{:02}.{milli:03}Z", n % 60, n % 59);
        format!(
            "{{\"ts\":\"{time}\",\"level\":\"info\",\"msg\":\"GET /v1/items/{n} took {took} ms\",\"trace_id\":\"{id:016x}\"}}\n"
        )
    };
    (0..).flat_map(|n| line(n).into_bytes()).take(TEXT).collect()
}

fn random() -> Vec<u8> {
    let mut state = 42_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    (0..TEXT / 8).flat_map(|_| next()).collect()
}
