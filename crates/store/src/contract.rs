//! One suite of stories for all backends, told through the front as the runtime uses it.

mod behind;
mod crash;
mod damage;
mod database;
mod golden;
mod property;
mod recording;
mod requests;
mod scrub;
mod stories;

use crate::{AllRuns, AppendError, Durability, OpenError, RecordOptions, RequestIndex, Store};
use shellkeep_record::{Recording, Verdict, verify};
use shellkeep_session::shell::{Function, Variable};
use shellkeep_session::{
    AgentState, Author, Cause, Checkpoint, Content, Event, FilesAt, KvChange, KvRestored, KvRewound, KvValue, LeftOut,
    Message, Notice, NoticeCode, Output, Ready, Record, RestartPolicy, RunId, RunKey, RunResult, RunStatus, ServiceEnd,
    ServiceId, ServiceSpec, ServiceStamps, ServiceStatus, SessionId, SessionMeta, SessionState, ShellDelta, ShellState,
    Stamp, Timestamp,
};
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use tempfile::TempDir;

/// Makes a test of each story for each backend. The stories pass through as one token, because a macro cannot repeat
/// one list inside another.
macro_rules! tell {
    ($($backend:ident = $url:literal),*; $stories:tt) => {
        $(tell!(@ $backend $url $stories);)*
    };
    (@ $backend:ident $url:literal ($($story:ident),* $(,)?)) => {
        mod $backend {
            $(#[test]
            fn $story() {
                super::$story(super::House::new($url));
            })*
        }
    };
}
use tell;

/// A data directory and the URL of the store in it.
pub(super) struct House {
    directory: TempDir,
    url: &'static str,
}

impl House {
    pub(super) fn new(url: &'static str) -> Self {
        Self { directory: TempDir::new().unwrap(), url }
    }

    pub(super) fn path(&self) -> &Path {
        self.directory.path()
    }

    pub(super) fn open(&self) -> Store {
        self.try_open().unwrap()
    }

    pub(super) fn try_open(&self) -> Result<Store, OpenError> {
        Store::open(self.url, self.path(), Durability::Process)
    }

    /// The house as a killed daemon leaves it: a copy, taken while the store still runs.
    pub(super) fn after_kill(&self) -> Self {
        let copy = Self::new(self.url);
        copy_directory(self.path(), copy.path());
        copy
    }

    /// The journal's segments, ascending.
    pub(super) fn segments(&self) -> Vec<PathBuf> {
        let journal = self.path().join("journal");
        crate::segment::numbers(&journal).unwrap().iter().map(|n| crate::segment::path(&journal, *n)).collect()
    }
}

fn copy_directory(from: &Path, to: &Path) {
    let entries = match std::fs::read_dir(from) {
        // The store goes on meanwhile, and may have removed it.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return,
        entries => entries.unwrap(),
    };
    std::fs::create_dir_all(to).unwrap();
    for entry in entries {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_directory(&entry.path(), &target);
        } else {
            match std::fs::copy(entry.path(), target) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                copied => drop(copied.unwrap()),
            }
        }
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits for a future without a runtime; the store needs none.
pub(super) fn wait<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park(),
        }
    }
}

pub(super) fn id(text: &str) -> SessionId {
    SessionId::parse(text).unwrap()
}

/// A session's history while it is written, with the state that the store must give back.
pub(super) struct Teller {
    pub(super) state: SessionState,
    pub(super) records: Vec<Record>,
}

impl Teller {
    pub(super) fn begin(name: &str, agent: Option<&str>) -> Self {
        let mut shell = ShellState { cwd: "/start".into(), ..ShellState::default() };
        shell.variables.insert("HOME".into(), Variable::scalar("x", "/home"));
        shell.functions.insert("f".into(), Function { attributes: String::new(), source: "f () { :; }".into() });
        let meta = SessionMeta {
            agent: agent.map(str::to_owned),
            agent_config: serde_json::json!({ "model": "m", "depth": 1 }),
            created_at: at(1),
            workspace: "/start".into(),
            ..SessionMeta::of_name(id(name))
        };
        let event = Event::SessionCreated { meta: Box::new(meta), shell: Box::new(shell) };
        let record = Record { session_id: id(name), seq: 1, at: at(1), event };
        Self { state: SessionState::create(&record).unwrap(), records: vec![record] }
    }

    pub(super) fn say(&mut self, event: Event) -> &Record {
        let seq = self.state.seq + 1;
        let session_id = self.state.meta.session_id.clone();
        let record = Record { session_id, seq, at: at(seq), event };
        self.state.apply(&record).unwrap();
        self.records.push(record);
        self.records.last().unwrap()
    }

    pub(super) fn start(&mut self, request_id: Option<&str>) -> RunId {
        self.start_with(request_id, "true")
    }

    pub(super) fn start_command(&mut self, command: &str) -> RunId {
        self.start_with(None, command)
    }

    fn start_with(&mut self, request_id: Option<&str>, command: &str) -> RunId {
        let run_id = RunId::from_seq(self.state.seq + 1);
        let request_id = request_id.map(str::to_owned);
        self.say(Event::RunStarted {
            run_id: run_id.clone(),
            request_id,
            command: command.into(),
            call: None,
            by: None,
            files_unkept: false,
        });
        run_id
    }

    pub(super) fn finish(&mut self, run_id: &RunId, delta: ShellDelta) {
        self.say(Event::RunFinished { run_id: run_id.clone(), result: Box::new(result()), delta: Box::new(delta) });
    }

    /// A session with a bit of everything behind it and nothing open.
    pub(super) fn lived(name: &str) -> Self {
        let mut teller = Self::begin(name, Some("ann"));
        teller.say(Event::ShellStarted { generation: 1 });
        let run = teller.start(Some("req-1"));
        let mut delta = set("A", "1");
        delta.functions.insert("f".into(), None);
        delta.cwd = Some("/elsewhere".into());
        teller.finish(&run, delta);
        let notice = Notice { code: NoticeCode::ShellReplaced, message: "a new shell".to_owned() };
        teller.say(Event::ShellStopped { reason: "died".to_owned(), notices: vec![notice] });
        teller
    }

    /// A session with services, as there are since format version 2.
    pub(super) fn served(name: &str) -> Self {
        let mut teller = Self::lived(name);
        let service_id = ServiceId::from_seq(teller.state.seq + 1);
        let spec = ServiceSpec {
            name: "web".to_owned(),
            command: "serve".into(),
            cwd: "/elsewhere".into(),
            env: [("PORT".to_owned(), "80".to_owned())].into(),
            ready: Some(Ready::Port(80)),
            restart: RestartPolicy::OnFailure,
            by: Some("tok_1".to_owned()),
        };
        teller.say(Event::ServiceStarted { service_id: service_id.clone(), spec: Box::new(spec.clone()) });
        let stamp = |pid: u32| Stamp { pid, started_ticks: 7 };
        let stamps = ServiceStamps { keeper: stamp(11), main: stamp(12), boot_id: "b".to_owned() };
        teller.say(Event::ServiceLive { service_id: service_id.clone(), stamps: stamps.clone(), restarts: 0 });
        teller.say(Event::ServiceReady { service_id: service_id.clone() });
        let end =
            ServiceEnd { exit_code: Some(143), signal: Some("TERM".to_owned()), at: at(99), reason: "x".to_owned() };
        let status = ServiceStatus::Exited;
        teller.say(Event::ServiceEnded { service_id, status, end, notices: Vec::new() });
        teller.say(Event::SessionEnded { reason: "done".to_owned() });
        let service_id = ServiceId::from_seq(teller.state.seq + 1);
        teller.say(Event::ServiceStarted { service_id: service_id.clone(), spec: Box::new(spec) });
        teller.say(Event::ServiceLive { service_id, stamps, restarts: 1 });
        teller
    }

    /// A session whose agent told of itself, as there are since the same version.
    pub(super) fn told(name: &str) -> Self {
        let mut teller = Self::served(name);
        let data = serde_json::json!({"model": "m", "latency": 0.25});
        teller.say(Event::Noted { event_type: "llm_call".to_owned(), data, author: Default::default() });
        teller.message("user", "hello");
        teller.message("assistant", "hello yourself");
        teller.save("application/json", br#"{"node": 3}"#);
        teller
    }

    /// A session with everything behind it that version 4 knows, and a keyed store that was changed and taken back.
    pub(super) fn keyed(name: &str) -> Self {
        let mut teller = Self::branched(name);
        let value = |digit: &str| KvValue { sha256: digit.repeat(64), bytes: 5, content_type: "text/plain".to_owned() };
        let change = |version: u64, value: Option<KvValue>| {
            let changes = vec![KvChange { key: "plan".to_owned(), version, value }];
            Event::KvChanged { version, changes, author: Author::caller(None) }
        };
        teller.say(change(1, Some(value("a"))));
        teller.say(change(2, None));
        let state = teller.state.clone();
        teller.say(Event::Rewound {
            to: state.seq - 1,
            step: None,
            by: None,
            files: state.files.clone(),
            kept_back: Vec::new(),
            shell: Box::new(state.shell.clone()),
            agent_state: state.agent_state.clone(),
            kv: Some(KvRewound { restored: KvRestored { from: 1, version: 3 }, missing: Vec::new() }),
            notices: Vec::new(),
        });
        teller
    }

    /// A session with everything behind it that version 5 knows, that was taken over by another node, as there are since
    /// version 6.
    pub(super) fn moved(name: &str) -> Self {
        let mut teller = Self::keyed(name);
        let owned = |claim: &str, because: &str, state| Event::Owned {
            claim: claim.parse().unwrap(),
            because: because.to_owned(),
            state,
        };
        teller.say(owned("1.n1.9f3a", "joined", None));
        let mut here = teller.state.clone();
        here.files = None;
        here.shell.cwd = "/elsewhere".into();
        teller.say(owned("2.n2.7c01", "owner_gone", Some(Box::new(here))));
        teller
    }

    /// A session that was kept, taken back and copied, as there are since version 3.
    pub(super) fn branched(name: &str) -> Self {
        let mut teller = Self::told(name);
        let files = |name: &str, digit: &str| FilesAt { name: name.to_owned(), commit: digit.repeat(40) };
        let checkpoint = |at: FilesAt, covers: u64, cause: Cause| Checkpoint {
            at,
            covers,
            cause,
            tool_name: None,
            added: 2,
            changed: 1,
            deleted: 0,
            bytes: 300,
            overtaken: false,
            left_out: vec![LeftOut { path: b"s\xff".to_vec().into(), reason: "a socket".to_owned() }],
            left_out_total: 1,
            uncertain: Vec::new(),
            uncertain_total: 0,
        };
        let run_id = RunId::from_seq(2);
        let cause = Cause::Tool { run_id, tool_name: "run_command".to_owned() };
        let first = files("tool_run_command_20231114T221320.000002Z", "a");
        let seq = teller.state.seq;
        teller.say(Event::Checkpointed { checkpoint: Box::new(checkpoint(first.clone(), seq, cause)) });
        let second = files("rewind_20231114T221320.000003Z", "b");
        teller.say(Event::Checkpointed { checkpoint: Box::new(checkpoint(second, seq + 1, Cause::Rewind)) });
        let notice = Notice { code: NoticeCode::Rewound, message: "taken back".to_owned() };
        teller.say(Event::Rewound {
            to: seq,
            step: None,
            by: None,
            files: Some(first),
            kept_back: vec![LeftOut { path: "x".into(), reason: "changed meanwhile".to_owned() }],
            shell: Box::new(teller.state.shell.clone()),
            agent_state: teller.state.agent_state.clone(),
            kv: None,
            notices: vec![notice],
        });
        teller.say(Event::Forked { session_id: id("other"), at: seq, diverged_on: None, notices: Vec::new() });
        teller
    }

    /// A session with input to a command, which its agent deleted, as there are since version 4.
    pub(super) fn deleted(name: &str) -> Self {
        let mut teller = Self::begin(name, Some("ann"));
        let run_id = teller.start(None);
        let by = Some("tok_1".to_owned());
        let typed = |input: &[u8], bytes, hidden, end| Event::RunInput {
            run_id: run_id.clone(),
            input: input.to_vec().into(),
            bytes,
            hidden,
            end,
            by: by.clone(),
        };
        let inputs = [
            typed(b"yes\n", Some(4), false, false),
            typed(b"\xffhalf", Some(900), false, false),
            typed(b"", None, true, false),
            typed(b"", Some(0), false, true),
        ];
        for input in inputs {
            teller.say(input);
        }
        teller.finish(&run_id, ShellDelta::default());
        teller.say(Event::SessionDeleted { by, kept_as: id("golden.deleted.7") });
        teller
    }

    /// Some records that no disk takes, and the one that says so.
    pub(super) fn lose(&mut self, count: u64) {
        let from = self.state.seq + 1;
        let kept = self.records.len();
        for number in 0..count {
            self.say(Event::ShellStarted { generation: 70 + number });
        }
        self.records.truncate(kept);
        let state = Box::new(self.state.clone());
        self.say(Event::RecordsLost { from, reason: "the disk was full".to_owned(), state });
    }

    pub(super) fn message(&mut self, role: &str, text: &str) {
        let (seq_id, at) = (self.state.messages + 1, at(self.state.seq + 1));
        let message = Message { seq_id, role: role.to_owned(), content: text.into(), at };
        self.say(Event::MessageAdded { message: Box::new(message), author: Default::default() });
    }

    pub(super) fn save(&mut self, media_type: &str, bytes: &[u8]) {
        let version = self.state.agent_state.as_ref().map_or(1, |state| state.version + 1);
        let content = Content::Inline(bytes.into());
        let state = AgentState { version, media_type: media_type.to_owned(), content };
        self.say(Event::AgentStateSaved { state: Box::new(state), author: Default::default() });
    }

    /// The recording must have everything that was acknowledged, and prove it.
    pub(super) fn assert_recorded_in(&self, store: &Store) {
        let verdict = self.verdict(store);
        assert_eq!((&verdict.bad, verdict.lines), (&None, self.state.seq), "{verdict:?}");
        assert!(verdict.holes.is_empty(), "{verdict:?}");
    }

    pub(super) fn verdict(&self, store: &Store) -> Verdict {
        let session_id = &self.state.meta.session_id;
        wait(store.flush_about(session_id)).unwrap();
        let recording = Recording::open(&store.recording(session_id)).unwrap();
        verify(&recording, Some(&store.session_key(session_id)), Some(self.state.seq)).unwrap()
    }

    pub(super) fn append_to(&self, store: &Store) {
        for record in &self.records {
            store.append(record).unwrap();
        }
    }

    pub(super) fn append_last(&self, store: &Store) -> Result<(), AppendError> {
        store.append(self.records.last().unwrap())
    }

    /// The store has its state: at once, and when the backend has all of it, if it can.
    pub(super) fn assert_in(&self, store: &Store) {
        let session_id = &self.state.meta.session_id;
        assert_eq!(wait(store.load(session_id)).unwrap().as_ref(), Some(&self.state));
        if wait(store.runs(session_id, u64::MAX, 1)).is_ok() {
            assert_eq!(wait(store.load(session_id)).unwrap().as_ref(), Some(&self.state));
        }
    }
}

pub(super) fn set(name: &str, value: &str) -> ShellDelta {
    let mut delta = ShellDelta::default();
    delta.variables.insert(name.into(), Some(Variable::scalar("", value)));
    delta
}

pub(super) fn at(seq: u64) -> Timestamp {
    Timestamp::from_microsecond(1_700_000_000_000_000 + i64::try_from(seq).unwrap()).unwrap()
}

pub(super) fn result() -> RunResult {
    RunResult {
        status: RunStatus::Exited,
        exit_code: Some(0),
        signal: None,
        stdout: Output { total: 3, kept: 3, inline: Some("hi\n".into()), ..Output::default() },
        stderr: Output::default(),
        duration_us: 42,
        cwd: "/elsewhere".into(),
        changes: Default::default(),
        background_output: None,
        notices: Vec::new(),
        terminal: None,
    }
}
