//! Measures what it costs to make many sessions with some state, to bring them to a backend, and to find them again: in
//! wall time, and in processor time of the store's own thread, which a busy machine does not change much.
//!
//! `cargo run --release -p shellkeep-store --example create [SESSIONS] [URL]`

use shellkeep_session::shell::Variable;
use shellkeep_session::{Event, Record, RunId, SessionId, SessionMeta, ShellState, Timestamp};
use shellkeep_store::{Durability, Store};
use std::future::Future;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// Variables of each session, as a daemon's environment and its caller give them.
const VARIABLES: usize = 60;
/// Sessions that are read one by one afterwards.
const LOADS: u64 = 2000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let sessions: u64 = arguments.next().map_or(Ok(20_000), |text| text.parse())?;
    let url = arguments.next().unwrap_or_else(|| "sqlite://store.db".to_owned());
    let root = std::env::temp_dir().join(format!("shellkeep-create-{}", std::process::id()));
    let store = Store::open(&url, &root, Durability::Process)?;
    let each = |time: Duration, count: u64| time.as_nanos() as f64 / count as f64 / 1000.0;
    let mut time = Timer::start();
    for number in 0..sessions {
        store.append(&creation(number)?)?;
    }
    let (appended, _) = time.lap();
    block_on(store.flush())?;
    let (applied, writer) = time.lap();
    println!(
        "a session: made and appended {:.1} µs, applied after {:.1} µs more; the store's thread took {:.1} µs",
        each(appended, sessions),
        each(applied, sessions),
        each(writer, sessions),
    );
    for number in 0..LOADS {
        let number = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) % sessions;
        let state = block_on(store.load(&id(number)?))?.ok_or("a session is missing")?;
        store.append(&started(number, state.seq + 1)?)?;
    }
    let (loaded, writer) = time.lap();
    println!(
        "load, with a record between: {:.1} µs; the store's thread {:.1} µs",
        each(loaded, LOADS),
        each(writer, LOADS)
    );
    store.close()?;
    drop(store);
    let start = Instant::now();
    let store = Store::open(&url, &root, Durability::Process)?;
    let opened = start.elapsed();
    let names = block_on(store.names())?.len();
    println!("opened again after {opened:.1?}, {names} names after {:.1?}", start.elapsed());
    store.close()?;
    drop(store);
    println!("{:.1} KiB a session on disk", size(&root)? as f64 / 1024.0 / sessions as f64);
    Ok(std::fs::remove_dir_all(&root)?)
}

/// Laps of the clock and of the processor time of the store's thread.
struct Timer {
    wall: Instant,
    processor: Duration,
}

impl Timer {
    fn start() -> Self {
        Self { wall: Instant::now(), processor: writer_time() }
    }

    fn lap(&mut self) -> (Duration, Duration) {
        let before = std::mem::replace(self, Self::start());
        (self.wall - before.wall, self.processor.saturating_sub(before.processor))
    }
}

/// Processor time of the store's thread so far; nothing if the kernel does not tell.
fn writer_time() -> Duration {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let read = |task: &Path, name: &str| std::fs::read_to_string(task.join(name)).unwrap_or_default();
    let nanos: u64 = tasks
        .map(|task| task.path())
        .filter(|task| read(task, "comm").trim() == "store-writer")
        .filter_map(|task| read(&task, "schedstat").split(' ').next()?.parse::<u64>().ok())
        .sum();
    Duration::from_nanos(nanos)
}

fn size(directory: &Path) -> std::io::Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        bytes += if metadata.is_dir() { size(&entry.path())? } else { metadata.len() };
    }
    Ok(bytes)
}

/// A name in no order, as a UUID is.
fn id(number: u64) -> Result<SessionId, shellkeep_session::IdError> {
    let mixed = number.wrapping_add(1).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    SessionId::parse(&format!("{mixed:016x}-0000-4000-8000-{number:012x}"))
}

fn creation(number: u64) -> Result<Record, shellkeep_session::IdError> {
    let mut shell = ShellState { cwd: "/workspace".into(), ..ShellState::default() };
    for n in 0..VARIABLES {
        let value = format!("/srv/projects/{number}/component-{n:02}/lib:/usr/local/share/thing-{n}");
        shell.variables.insert(format!("PROJECT_{n:02}").into(), Variable::scalar("x", value));
    }
    let meta = SessionMeta {
        session_id: id(number)?,
        agent: Some(format!("agent-{}", number / 20)),
        agent_config: serde_json::json!({"model": "any"}),
        created_at: Timestamp::UNIX_EPOCH,
        workspace: "/workspace".into(),
        by: None,
        forked_from: None,
    };
    let event = Event::SessionCreated { meta: Box::new(meta), shell: Box::new(shell) };
    Ok(Record { session_id: id(number)?, seq: 1, at: Timestamp::now(), event })
}

fn started(number: u64, seq: u64) -> Result<Record, shellkeep_session::IdError> {
    let run_id = RunId::from_seq(seq);
    let event = Event::RunStarted {
        run_id,
        request_id: None,
        command: "true".into(),
        call: None,
        by: None,
        files_unkept: false,
    };
    Ok(Record { session_id: id(number)?, seq, at: Timestamp::now(), event })
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
