//! Measures what a recording costs to write, and what it takes to read a long one.
//!
//! `cargo run --release -p shellkeep-record --example record [LINES] [DIRECTORY]`

use shellkeep_record::{Filter, Key, Masker, Recorder, RecorderOptions, Recording, Search, verify};
use shellkeep_redact::{Config, Redactor};
use shellkeep_session::{
    Event, Output, Record, RunId, RunResult, RunStatus, SessionId, SessionMeta, ShellDelta, ShellState, Timestamp,
};
use std::path::Path;
use std::time::{Duration, Instant};

/// Sessions that take turns, as on a busy node.
const SESSIONS: u64 = 16;

/// Records in a batch, as the store hands them over.
const BATCH: usize = 4096;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let lines: u64 = arguments.next().map_or(Ok(1_000_000), |text| text.parse())?;
    let root = match arguments.next() {
        Some(directory) => directory.into(),
        None => std::env::temp_dir().join(format!("shellkeep-record-{}", std::process::id())),
    };
    many_sessions(&root.join("many"), lines.min(400_000))?;
    one_session(&root.join("one"), lines)?;
    Ok(std::fs::remove_dir_all(&root)?)
}

fn many_sessions(root: &Path, lines: u64) -> Result<()> {
    let names = (0..SESSIONS).map(|n| SessionId::parse(&format!("session-{n}")));
    let ids: Vec<_> = names.collect::<std::result::Result<_, _>>()?;
    let mut recorder = Recorder::open(root.to_owned(), Key([7; 32]), RecorderOptions::default())?;
    let make = |n: u64| record(&ids[(n % SESSIONS) as usize], n / SESSIONS + 1);
    let spent = write_all(&mut recorder, lines, make)?;
    println!("{SESSIONS} sessions, {lines} records in batches of {BATCH}: {}", spent.each(lines));
    Ok(())
}

/// What something took: by the clock, and of a processor, which is what counts beside others.
struct Spent {
    wall: Duration,
    cpu: Duration,
}

impl Spent {
    fn each(&self, count: u64) -> String {
        let each = |time: Duration| time.as_nanos() as f64 / 1000.0 / count as f64;
        format!("{:.2} µs a record, {:.2} µs of a processor", each(self.wall), each(self.cpu))
    }
}

/// Time that this thread had a processor.
fn cpu() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    Duration::from_nanos(text.split(' ').next().and_then(|nanos| nanos.parse().ok()).unwrap_or(0))
}

fn write_all(recorder: &mut Recorder, count: u64, make: impl Fn(u64) -> Record) -> Result<Spent> {
    let mut spent = Spent { wall: Duration::ZERO, cpu: Duration::ZERO };
    for from in (0..count).step_by(BATCH) {
        let records: Vec<Record> = (from..count.min(from + BATCH as u64)).map(&make).collect();
        let (wall, used) = (Instant::now(), cpu());
        write(recorder, &records)?;
        spent.wall += wall.elapsed();
        spent.cpu += cpu() - used;
    }
    Ok(spent)
}

fn one_session(root: &Path, lines: u64) -> Result<()> {
    let id = SessionId::parse("long")?;
    let key = Key([7; 32]);
    let mut recorder = Recorder::open(root.to_owned(), key.clone(), RecorderOptions::default())?;
    let spent = write_all(&mut recorder, lines, |n| record(&id, n + 1))?;
    println!("one session, {lines} records: {}, RSS {} MiB", spent.each(lines), rss());
    let directory = recorder.directory(&id);
    let recording = Recording::open(&directory)?;
    let bytes: u64 = recording.files().iter().filter_map(|path| path.metadata().ok()).map(|file| file.len()).sum();
    println!("{} files, {} MB", recording.files().len(), bytes / 1_000_000);
    let timed = |what: &str, work: &dyn Fn() -> Result<String>| -> Result<()> {
        let (wall, used) = (Instant::now(), cpu());
        let said = work()?;
        let (wall, used) = (wall.elapsed().as_secs_f64() * 1000.0, (cpu() - used).as_secs_f64() * 1000.0);
        println!("{what:<36} {wall:>9.2} ms, {used:>9.2} of a processor   {said}   RSS {} MiB", rss());
        Ok(())
    };
    timed("1,000 lines by number", &|| {
        for n in 0..1000 {
            recording.line((n * 7919) % lines + 1)?.ok_or("no line")?;
        }
        Ok("all found".to_owned())
    })?;
    timed("a page of 100 in the middle", &|| {
        Ok(format!("{} lines", recording.page(lines / 2, 100, &Filter::default())?.lines.len()))
    })?;
    timed("last line", &|| Ok(format!("{:?}", recording.last()?.map(|line| line.seq))))?;
    let search = |pattern: &str| -> Result<String> {
        let filter = Filter { search: Some(Search::new(pattern)?), ..Filter::default() };
        Ok(format!("{} found", recording.page(0, 100, &filter)?.lines.len()))
    };
    timed("search of a text that is nowhere", &|| search("no such text"))?;
    timed("search of a pattern that is nowhere", &|| search("no s[u]ch text"))?;
    timed("count", &|| Ok(format!("{}", recording.count()?)))?;
    timed("all lines in order", &|| Ok(format!("{}", recording.lines(1)?.filter(|line| line.is_ok()).count())))?;
    let masker = Masker::new(Redactor::new(&Config::default())?.with_secrets(["some-secret-value"])?);
    timed("100,000 lines masked", &|| {
        let lines = recording.lines(1)?.take(100_000).filter_map(|line| line.ok());
        Ok(format!("{} masked", lines.filter(|line| !masker.mask_line(line, None).proof.masked.is_empty()).count()))
    })?;
    timed("verify", &|| {
        let verdict = verify(&recording, Some(&key.of(&id)), Some(lines))?;
        Ok(format!("intact: {}", verdict.is_intact()))
    })
}

fn write(recorder: &mut Recorder, records: &[Record]) -> Result<()> {
    let records: Vec<&Record> = records.iter().collect();
    match recorder.take(&records).pop() {
        Some(stall) => Err(stall.reason.into()),
        None => Ok(()),
    }
}

/// Memory in use, in MiB.
fn rss() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * 4096 / (1 << 20)
}

/// The two records of a run of `true`, again and again.
fn record(session_id: &SessionId, seq: u64) -> Record {
    let run_id = RunId::from_seq(seq - seq % 2);
    let event = match seq {
        1 => Event::SessionCreated {
            meta: Box::new(SessionMeta {
                session_id: session_id.clone(),
                agent: Some("agent".to_owned()),
                agent_config: serde_json::json!({"model": "any"}),
                created_at: Timestamp::UNIX_EPOCH,
                workspace: "/workspace".into(),
                by: None,
                forked_from: None,
            }),
            shell: Box::new(ShellState { cwd: "/workspace".into(), ..ShellState::default() }),
        },
        seq if seq % 2 == 0 => Event::RunStarted {
            run_id,
            request_id: None,
            command: "true".into(),
            call: None,
            by: None,
            files_unkept: false,
        },
        _ => Event::RunFinished { run_id, result: Box::new(result()), delta: Box::new(ShellDelta::default()) },
    };
    let at = Timestamp::from_microsecond(1_700_000_000_000_000 + seq as i64 * 50).unwrap_or_default();
    Record { session_id: session_id.clone(), seq, at, event }
}

fn result() -> RunResult {
    RunResult {
        status: RunStatus::Exited,
        exit_code: Some(0),
        signal: None,
        stdout: Output { total: 0, kept: 0, inline: Some("".into()), ..Output::default() },
        stderr: Output { total: 0, kept: 0, inline: Some("".into()), ..Output::default() },
        duration_us: 412,
        cwd: "/workspace".into(),
        changes: Default::default(),
        background_output: None,
        notices: Vec::new(),
    }
}
