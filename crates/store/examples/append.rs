//! Measures what an append costs, and what it costs to bring the records to each backend.
//!
//! `cargo run --release -p shellkeep-store --example append [RECORDS] [URL]...`

use shellkeep_session::shell::Variable;
use shellkeep_session::{
    Event, Output, Record, RunId, RunResult, RunStatus, SessionId, SessionMeta, ShellDelta, ShellState, Timestamp,
};
use shellkeep_store::{Durability, Store};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// Sessions that take turns, as on a busy node.
const SESSIONS: u64 = 16;

/// Between bursts the writer gets this long to go to sleep, so that a paced append pays for waking it.
const PACE: Duration = Duration::from_millis(30);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let records: u64 = arguments.next().map_or(Ok(100_000), |text| text.parse())?;
    let root = std::env::temp_dir().join(format!("shellkeep-append-{}", std::process::id()));
    let mut urls: Vec<String> = arguments.collect();
    if urls.is_empty() {
        urls = ["memory://", "sqlite://store.db", "file://store"].map(str::to_owned).to_vec();
    }
    for url in &urls {
        let directory = root.join(url.split(':').next().unwrap_or_default());
        let store = Store::open(url, &directory, Durability::Process)?;
        measure(url, &store, records)?;
        store.close()?;
    }
    Ok(std::fs::remove_dir_all(&root)?)
}

fn measure(url: &str, store: &Store, records: u64) -> Result<(), Box<dyn std::error::Error>> {
    let ids: Vec<_> = (0..SESSIONS).map(|n| SessionId::parse(&format!("session-{n}"))).collect::<Result<_, _>>()?;
    let made: Vec<Record> = (0..records).map(|n| record(&ids[(n % SESSIONS) as usize], n / SESSIONS + 1)).collect();
    let begin = Instant::now();
    for record in &made {
        store.append(record)?;
    }
    let appended = begin.elapsed();
    block_on(store.flush())?;
    let total = begin.elapsed();
    let mut paced = Vec::new();
    for record in (0..SESSIONS).map(|n| record(&ids[n as usize], records / SESSIONS + 1)) {
        std::thread::sleep(PACE);
        let begin = Instant::now();
        store.append(&record)?;
        paced.push(begin.elapsed());
    }
    paced.sort_unstable();
    let begin = Instant::now();
    let loads = 1000;
    for n in 0..loads {
        block_on(store.load(&ids[n % ids.len()]))?;
    }
    let each = |time: Duration, count: u64| time.as_nanos() as f64 / count as f64 / 1000.0;
    println!(
        "{url:<20} append {:.2} µs   paced append {:.1} µs   until applied {:.2} µs a record   load {:.1} µs",
        each(appended, records),
        each(paced[paced.len() / 2], 1),
        each(total, records),
        each(begin.elapsed(), loads as u64),
    );
    Ok(())
}

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
        seq if seq % 2 == 0 => {
            let request_id = Some(format!("request-{seq}"));
            Event::RunStarted {
                run_id,
                request_id,
                command: "export COUNT=1".into(),
                call: None,
                by: None,
                files_unkept: false,
            }
        }
        _ => Event::RunFinished { run_id, result: Box::new(result()), delta: Box::new(delta(seq)) },
    };
    Record { session_id: session_id.clone(), seq, at: Timestamp::now(), event }
}

fn result() -> RunResult {
    RunResult {
        status: RunStatus::Exited,
        exit_code: Some(0),
        signal: None,
        stdout: Output { total: 6, kept: 6, inline: Some("hello\n".into()), ..Output::default() },
        stderr: Output::default(),
        duration_us: 40,
        cwd: "/workspace".into(),
        changes: Default::default(),
        background_output: None,
        notices: Vec::new(),
    }
}

fn delta(seq: u64) -> ShellDelta {
    let mut delta = ShellDelta::default();
    delta.variables.insert("COUNT".into(), Some(Variable::scalar("x", seq.to_string())));
    delta
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park(),
        }
    }
}
