//! Admission in a real engine: a flood of one agent does not drown another, what cannot wait is told so, and commands that
//! only wait for something all run at once.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test says what it expected by panicking")]

use shellkeep_runtime::{
    AdmissionConfig, CreateSession, Created, Engine, EngineConfig, IfBusy, NodeView, OnTimeout, OpError, RunCommand,
    RunError, RunInput, RunView,
};
use shellkeep_session::{QuotaName, RunId, RunStatus, SessionId};
use shellkeep_store::{Durability, Store};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;

/// Far more than anything here takes, on a machine that does something else beside it.
const LONG: Duration = Duration::from_secs(200);
/// What a command of a flood may take, which waits for all before it.
const PATIENCE: Duration = Duration::from_secs(600);

/// An engine in a directory of its own. Another bash can be tried by naming it.
struct Node {
    engine: Engine,
    _directory: TempDir,
}

impl Node {
    async fn start(shells: u64, admission: AdmissionConfig) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let bash = PathBuf::from(std::env::var_os("SHELLKEEP_BASH").unwrap_or_else(|| "/bin/bash".into()));
        let store = Store::open("memory://", directory.path(), Durability::Process).unwrap();
        let mut config = EngineConfig::new(directory.path().to_owned(), bash);
        config.spare_shells = 0;
        config.quotas.set(QuotaName::LiveShells, shells);
        config.admission = admission;
        Self { engine: Engine::start(config, store).await.unwrap(), _directory: directory }
    }

    async fn session(&self, agent: Option<&str>) -> SessionId {
        let request = CreateSession { agent: agent.map(str::to_owned), ..CreateSession::default() };
        match self.engine.create(request).await.unwrap() {
            Created::New(view) | Created::Existing(view) => view.meta.session_id,
        }
    }

    /// Runs a command in a task of its own.
    fn send(&self, id: &SessionId, command: RunCommand) -> JoinHandle<Result<Box<RunView>, OpError>> {
        let (engine, id) = (self.engine.clone(), id.clone());
        tokio::spawn(async move { engine.run(&id, command).await })
    }

    /// Starts a command that runs until it is told to go on.
    async fn hold(&self, id: &SessionId) -> RunId {
        let view = self.engine.run(id, patient("read line")).await.unwrap();
        assert_eq!(view.status, RunStatus::Running);
        view.run_id
    }

    /// Tells it to go on, and waits for its end.
    async fn let_go(&self, id: &SessionId, run: &RunId) {
        self.engine.runs().input(id, run, RunInput::LastBytes(b"on\n".to_vec()), None).await.unwrap();
        let view = self.engine.runs().view(id, run, LONG, 0).await.unwrap().run;
        assert_eq!(view.exit_code, Some(0), "{view:?}");
    }

    /// Waits until the node is in this state.
    async fn until(&self, what: &str, is_so: impl Fn(&NodeView) -> bool) {
        shellkeep_poll::until_async(LONG, what, async || {
            is_so(&self.engine.node().view().await.unwrap()).then_some(())
        })
        .await;
    }

    async fn stop(self) {
        self.engine.shutdown().await;
    }
}

/// A command that is answered when it has started, and has time.
fn patient(command: &str) -> RunCommand {
    RunCommand { blocking: false, timeout: LONG, ..RunCommand::new(command) }
}

fn ok(answer: Result<Result<Box<RunView>, OpError>, tokio::task::JoinError>) {
    let view = answer.unwrap().unwrap();
    assert_eq!(view.exit_code, Some(0), "{view:?}");
}

fn is_overloaded(answer: &Result<Box<RunView>, OpError>) -> bool {
    matches!(answer, Err(error) if error.code() == "overloaded")
}

/// 2,000 commands of one agent wait in 40 sessions. A line without turns would let 40 of them go before each command of
/// the other agent, for that is how many sessions have one at the gate.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_one_agent_does_not_drown_another() {
    const SESSIONS: usize = 40;
    const EACH: usize = 50;
    let node = Node::start(100, AdmissionConfig { young: 1, queue_wait: PATIENCE, ..AdmissionConfig::default() }).await;
    let other = node.session(Some("other")).await;
    ok(node.send(&other, RunCommand::new("true")).await);
    let answered = Arc::new(AtomicUsize::new(0));
    let mut greedy = JoinSet::new();
    for _ in 0..SESSIONS {
        let id = node.session(Some("greedy")).await;
        for _ in 0..EACH {
            let (engine, id, answered) = (node.engine.clone(), id.clone(), Arc::clone(&answered));
            greedy.spawn(async move {
                let answer = engine.run(&id, RunCommand { timeout: PATIENCE, ..RunCommand::new("true") }).await;
                answered.fetch_add(1, Ordering::SeqCst);
                answer
            });
        }
    }
    node.until("a line", |node| node.waiting >= SESSIONS / 2).await;
    let mut overtaken: Vec<usize> = Vec::new();
    for _ in 0..51 {
        let before = answered.load(Ordering::SeqCst);
        ok(node.send(&other, RunCommand { timeout: PATIENCE, ..RunCommand::new("true") }).await);
        overtaken.push(answered.load(Ordering::SeqCst) - before);
    }
    assert!(answered.load(Ordering::SeqCst) < SESSIONS * EACH, "the flood was over before it was measured");
    overtaken.sort_unstable();
    let median = overtaken[overtaken.len() / 2];
    assert!(median <= 10, "a command of the other agent was overtaken by so many: {overtaken:?}");
    while let Some(answer) = greedy.join_next().await {
        ok(answer);
    }
    assert_eq!(answered.load(Ordering::SeqCst), SESSIONS * EACH);
    node.stop().await;
}

/// All the shells there may be are worn by sessions of the greedy agent, whose commands never end to come. The other
/// agent's turn must be worth something: it gets the shell of a session that waits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_without_a_shell_gets_one_when_its_turn_comes() {
    let node = Node::start(2, AdmissionConfig { young: 1, queue_wait: PATIENCE, ..AdmissionConfig::default() }).await;
    let mut greedy = JoinSet::new();
    let answered = Arc::new(AtomicUsize::new(0));
    for _ in 0..2 {
        let id = node.session(Some("greedy")).await;
        for _ in 0..200 {
            let (engine, id, answered) = (node.engine.clone(), id.clone(), Arc::clone(&answered));
            greedy.spawn(async move {
                let answer = engine.run(&id, RunCommand { timeout: PATIENCE, ..RunCommand::new("true") }).await;
                answered.fetch_add(1, Ordering::SeqCst);
                answer
            });
        }
    }
    node.until("two shells", |node| node.live_shells == 2 && node.waiting > 0).await;
    let other = node.session(Some("other")).await;
    ok(node.send(&other, RunCommand { timeout: LONG, ..RunCommand::new("true") }).await);
    let then = answered.load(Ordering::SeqCst);
    assert!(then < 400, "it had to wait for the end of the flood");
    while let Some(answer) = greedy.join_next().await {
        ok(answer);
    }
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_wait_is_refused_and_not_run() {
    let config = AdmissionConfig { queue_length: 2, queue_wait: LONG, ..AdmissionConfig::default() };
    let node = Node::start(1, config).await;
    let first = node.session(None).await;
    let run = node.hold(&first).await;
    let (greedy, again) = (node.session(Some("greedy")).await, node.session(Some("greedy")).await);
    let older = node.send(&greedy, RunCommand { timeout: LONG, ..RunCommand::new("true") });
    node.until("one that waits", |node| node.waiting == 1).await;
    let newer = node.send(&again, RunCommand { timeout: LONG, ..RunCommand::new("touch newer") });
    node.until("two that wait", |node| node.waiting == 2).await;

    let hasty = node.session(Some("hasty")).await;
    let answer = node.engine.run(&hasty, RunCommand { if_busy: IfBusy::Reject, ..RunCommand::new("true") }).await;
    assert!(is_overloaded(&answer), "who does not want to wait is told at once: {answer:?}");
    let answer = node.engine.run(&node.session(Some("greedy")).await, RunCommand::new("true")).await;
    let Err(OpError::Run(RunError::Overloaded { waiting: 2, limit: 2, waited: Duration::ZERO, .. })) = answer else {
        panic!("{answer:?}")
    };

    let modest = node.send(&hasty, RunCommand { timeout: LONG, ..RunCommand::new("true") });
    let refused = timeout(LONG, newer).await.expect("it gives way to another agent").unwrap();
    assert!(is_overloaded(&refused), "{refused:?}");
    node.let_go(&first, &run).await;
    ok(older.await);
    ok(modest.await);
    let view = node.engine.run(&again, RunCommand::new("test ! -e newer")).await.unwrap();
    assert_eq!(view.exit_code, Some(0), "what was refused was not run");
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_ends_with_the_limit_or_with_the_commands_own_timeout() {
    let config = AdmissionConfig { queue_wait: Duration::from_millis(300), ..AdmissionConfig::default() };
    let node = Node::start(1, config).await;
    let first = node.session(None).await;
    let run = node.hold(&first).await;
    let waiting = node.session(None).await;
    for limit in [LONG, Duration::from_millis(100)] {
        let asked = Instant::now();
        let answer = node.engine.run(&waiting, RunCommand { timeout: limit, ..RunCommand::new("touch ran") }).await;
        let Err(OpError::Run(RunError::Overloaded { waited, .. })) = answer else { panic!("{answer:?}") };
        // Its own timeout begins before it is put into the queue.
        let took = asked.elapsed();
        assert!(took >= limit.min(Duration::from_millis(300)) && waited <= took, "{waited:?} of {took:?}");
    }
    node.let_go(&first, &run).await;
    let view = node.engine.run(&waiting, RunCommand::new("test ! -e ran")).await.unwrap();
    assert_eq!(view.exit_code, Some(0));
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_waits_answers_and_can_be_ended() {
    let node = Node::start(1, AdmissionConfig { queue_wait: LONG, ..AdmissionConfig::default() }).await;
    let first = node.session(None).await;
    let run = node.hold(&first).await;
    let (ended, restarted) = (node.session(None).await, node.session(None).await);
    let of_ended = node.send(&ended, RunCommand { timeout: LONG, ..RunCommand::new("true") });
    let of_restarted = node.send(&restarted, RunCommand { timeout: LONG, ..RunCommand::new("true") });
    node.until("two that wait", |node| node.waiting == 2 && node.agents_waiting == 2).await;
    timeout(LONG, node.engine.get(&ended)).await.expect("its owner answers").unwrap();
    timeout(LONG, node.engine.destroy(&ended)).await.expect("it can be ended").unwrap();
    assert_eq!(of_ended.await.unwrap().unwrap_err().code(), "session_not_found");
    timeout(LONG, node.engine.restart(&restarted)).await.expect("it can be restarted").unwrap();
    assert_eq!(of_restarted.await.unwrap().unwrap_err().code(), "session_restarted");
    let view = node.engine.node().view().await.unwrap();
    assert_eq!((view.waiting, view.running), (0, 1), "who is gone does not wait");
    node.let_go(&first, &run).await;
    ok(node.send(&restarted, RunCommand::new("true")).await);
    node.stop().await;
}

/// Commands that wait for something are young for a moment only: far more of them run at once than there are places for
/// young ones.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_that_only_wait_all_run_at_once() {
    const SESSIONS: usize = 50;
    let node = Node::start(100, AdmissionConfig { young: 2, queue_wait: LONG, ..AdmissionConfig::default() }).await;
    let mut started = JoinSet::new();
    for _ in 0..SESSIONS {
        let id = node.session(None).await;
        let engine = node.engine.clone();
        started.spawn(async move { (id.clone(), engine.run(&id, patient("read line")).await.unwrap().run_id) });
    }
    let runs = started.join_all().await;
    assert_eq!(node.engine.node().view().await.unwrap().running, SESSIONS);
    for (id, run) in &runs {
        node.let_go(id, run).await;
    }
    node.until("rest", |node| node.running == 0).await;
    assert_eq!(node.engine.node().view().await.unwrap().commands_total, SESSIONS as u64);
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_in_the_background_makes_room_for_another() {
    let node = Node::start(2, AdmissionConfig::default()).await;
    let id = node.session(None).await;
    let outgrown =
        RunCommand { timeout: Duration::from_millis(50), on_timeout: OnTimeout::Background, ..patient("read line") };
    let run = node.engine.run(&id, outgrown).await.unwrap().run_id;
    node.until("nothing that counts as running", |node| node.running == 0).await;
    let view = node.engine.runs().view(&id, &run, Duration::ZERO, 0).await.unwrap().run;
    assert_eq!(view.status, RunStatus::Running, "{view:?}");
    ok(node.send(&id, RunCommand::new("true")).await);
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_stops_refuses_those_who_wait() {
    let node = Node::start(1, AdmissionConfig { queue_wait: LONG, ..AdmissionConfig::default() }).await;
    let (first, second) = (node.session(None).await, node.session(None).await);
    node.hold(&first).await;
    let waiting = node.send(&second, RunCommand { timeout: LONG, ..RunCommand::new("true") });
    node.until("one that waits", |node| node.waiting == 1).await;
    timeout(LONG, node.engine.shutdown()).await.expect("it stops");
    assert_eq!(waiting.await.unwrap().unwrap_err().code(), "shutting_down");
}
