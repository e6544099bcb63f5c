//! What is looked after from time to time, in a real engine with real shells and services, but with a clock and a machine
//! of our own: hours pass in no time, and memory runs out when the test says so.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test says what it expected by panicking")]

mod disk;

use shellkeep_poll::until_async;
use shellkeep_process::{Pressure, PressureSource};
use shellkeep_runtime::{
    CreateSession, Created, Engine, EngineConfig, LogQuery, OpError, QuotasView, Reclaim, RunCommand, RunView, Senses,
    ServiceView, StartService,
};
use shellkeep_session::service::Ready;
use shellkeep_session::{NoticeCode, QuotaName, ServiceStatus, SessionId, Timestamp};
use shellkeep_store::fault::Point;
use shellkeep_store::{Durability, Store};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tempfile::TempDir;

/// Far more than anything here takes, on a machine that does something else beside it.
const LONG: Duration = Duration::from_secs(60);
const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(60 * 60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// A machine and a clock that are told what they are.
#[derive(Debug)]
struct Told {
    at: Mutex<Timestamp>,
    pressure: Mutex<Pressure>,
}

impl Senses for Told {
    fn now(&self) -> Timestamp {
        *self.at.lock().unwrap()
    }

    fn pressure(&self) -> Pressure {
        *self.pressure.lock().unwrap()
    }
}

/// An engine in a directory of its own.
struct Node {
    engine: Engine,
    store: Store,
    senses: Arc<Told>,
    directory: TempDir,
}

impl Node {
    async fn start(change: impl FnOnce(&mut EngineConfig)) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let bash = PathBuf::from(std::env::var_os("SHELLKEEP_BASH").unwrap_or_else(|| "/bin/bash".into()));
        let store = Store::open("memory://", directory.path(), Durability::Process).unwrap();
        let calm = Pressure { cpu: 0.0, memory: 0.0, memory_free: 0.9, source: PressureSource::Stall };
        // Records have the real time, so ours begins there and only goes faster.
        let senses = Arc::new(Told { at: Mutex::new(Timestamp::now()), pressure: Mutex::new(calm) });
        let mut config = EngineConfig::new(directory.path().to_owned(), bash);
        config.spare_shells = 0;
        config.senses = Arc::clone(&senses) as Arc<dyn Senses>;
        change(&mut config);
        Self { engine: Engine::start(config, store.clone()).await.unwrap(), store, senses, directory }
    }

    async fn session(&self, name: &str) -> SessionId {
        self.session_of(name, None).await
    }

    async fn session_of(&self, name: &str, agent: Option<&str>) -> SessionId {
        let id = SessionId::parse(name).unwrap();
        let agent = agent.map(str::to_owned);
        let request = CreateSession { session_id: Some(id.clone()), agent, ..CreateSession::default() };
        assert!(matches!(self.engine.create(request).await.unwrap(), Created::New(_)));
        id
    }

    async fn sh(&self, id: &SessionId, command: &str) -> RunView {
        *self.engine.run(id, RunCommand::new(command)).await.unwrap()
    }

    /// A service, once it says that it is up.
    async fn service(&self, id: &SessionId, command: &str) -> ServiceView {
        let ready = Some(Ready::Log("^up".to_owned()));
        let request = StartService { ready, wait: LONG, ..StartService::new(command) };
        let view = self.engine.services().start(id, request).await.unwrap();
        assert_eq!(view.status, ServiceStatus::Running, "{view:?}");
        view
    }

    /// Lets time pass and looks after everything once.
    async fn after(&self, time: Duration) {
        {
            let mut at = self.senses.at.lock().unwrap();
            *at = at.checked_add(time).unwrap();
        }
        self.engine.node().keep_house().await.unwrap();
    }

    /// The machine has this much memory left.
    fn memory_free(&self, share: f64) {
        self.senses.pressure.lock().unwrap().memory_free = share;
    }

    fn cpu(&self, share: f64) {
        self.senses.pressure.lock().unwrap().cpu = share;
    }

    async fn limit(&self, name: QuotaName) -> u64 {
        limit(&self.engine.node().quotas().await, name)
    }

    async fn status(&self, service: &ServiceView) -> ServiceStatus {
        self.engine
            .services()
            .get(&service.session_id, service.service_id.as_str(), Duration::ZERO)
            .await
            .unwrap()
            .status
    }

    /// The service as it ended; it was told to a moment ago.
    async fn ended(&self, service: &ServiceView) -> ServiceView {
        until_async(LONG, "the service ends", async || {
            let view = self
                .engine
                .services()
                .get(&service.session_id, service.service_id.as_str(), Duration::ZERO)
                .await
                .unwrap();
            (!view.status.is_live()).then_some(view)
        })
        .await
    }

    async fn exists(&self, id: &SessionId) -> bool {
        self.engine.get(id).await.is_ok()
    }

    /// Services run on without their engine, so they are ended first.
    async fn stop(self) {
        let all = self.engine.services().all(None).await.unwrap();
        for service in all {
            self.engine
                .services()
                .stop(&service.session_id, service.service_id.as_str(), Duration::ZERO)
                .await
                .unwrap();
        }
        self.engine.shutdown().await;
    }
}

fn limit(quotas: &QuotasView, name: QuotaName) -> u64 {
    quotas.quotas.iter().find(|quota| quota.name == name).unwrap().limit
}

fn codes(run: &RunView) -> Vec<NoticeCode> {
    run.notices.iter().map(|notice| notice.code).collect()
}

// ---- services whose session cannot be woken ----

/// The bug: the end of a service whose session slept while the store was away was told to nobody, and the session said for
/// ever that it runs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_end_while_the_store_is_away_is_recorded_when_it_is_back() {
    let node = Node::start(|config| config.idle_services = None).await;
    let id = node.session("s").await;
    let service = node.service(&id, "echo up; until [ -e gone ]; do sleep 0.1; done; exit 3").await;
    node.store.faults().arm(Point::Load, u64::MAX);
    until_async(LONG, "the session sleeps and cannot be woken", async || {
        let _ = node.engine.hibernate(&id).await;
        let refused = node.engine.run(&id, RunCommand::new("true")).await.err()?;
        matches!(refused, OpError::StoreUnavailable { .. }).then_some(())
    })
    .await;
    std::fs::write(node.directory.path().join("workspaces").join(id.as_str()).join("gone"), "").unwrap();
    // Who waits for the service does not wait for the store.
    assert_eq!(node.ended(&service).await.exit_code, Some(3));
    node.store.faults().arm(Point::Load, 0);
    until_async(LONG, "the session says how it ended", async || {
        codes(&node.sh(&id, "true").await).contains(&NoticeCode::ServiceEnded).then_some(())
    })
    .await;
    assert_eq!(node.status(&service).await, ServiceStatus::Exited);
    node.stop().await;
}

// ---- idle services ----

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_is_stopped_after_two_quiet_hours_and_not_before() {
    let node = Node::start(|_| {}).await;
    let id = node.session("s").await;
    let service = node.service(&id, "echo up; exec sleep 1000").await;
    node.after(Duration::ZERO).await;
    node.after(2 * HOUR - SECOND).await;
    assert_eq!(node.status(&service).await, ServiceStatus::Running, "a second too early");
    node.after(SECOND).await;
    let ended = node.ended(&service).await;
    assert_eq!(ended.status, ServiceStatus::Stopped);
    let why = ended.detail.unwrap();
    assert_eq!(why, "it was stopped after 2 h without output, connections or work");
    let next = node.sh(&id, "true").await;
    assert_eq!(codes(&next), [NoticeCode::ServiceEnded], "{:?}", next.notices);
    assert!(next.notices[0].message.contains(&why), "{:?}", next.notices);
    assert!(codes(&node.sh(&id, "true").await).is_empty(), "said once");
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn output_begins_the_two_hours_anew() {
    let node = Node::start(|_| {}).await;
    let id = node.session("s").await;
    let service =
        node.service(&id, "mkfifo f; exec 3<>f; echo up; while read -r line <&3; do echo \"$line\"; done").await;
    node.after(Duration::ZERO).await;
    node.after(2 * HOUR - SECOND).await;
    node.sh(&id, "echo again > f").await;
    until_async(LONG, "the line is in the log", async || {
        let query = LogQuery { offset: 0, limit: 100, tail: None, grep: None };
        let log = node.engine.services().log(&id, service.service_id.as_str(), query).await.unwrap();
        (log.bytes == b"up\nagain\n").then_some(())
    })
    .await;
    node.after(SECOND).await;
    assert_eq!(node.status(&service).await, ServiceStatus::Running);
    node.after(2 * HOUR - SECOND).await;
    assert_eq!(node.status(&service).await, ServiceStatus::Running);
    node.after(SECOND).await;
    assert_eq!(node.ended(&service).await.status, ServiceStatus::Stopped);
    node.stop().await;
}

const SERVER: &str = "python3 -uc 'import socket
s = socket.create_server((\"127.0.0.1\", 0))
print(\"up\")
while True:
    c = s.accept()[0]
    c.recv(1)
    c.close()'";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_open_connection_keeps_a_service() {
    let node = Node::start(|_| {}).await;
    let id = node.session("s").await;
    let service = node.service(&id, SERVER).await;
    let &[port] = &service.ports[..] else { panic!("one port: {service:?}") };
    node.after(Duration::ZERO).await;
    let connection = TcpStream::connect(("127.0.0.1", port)).unwrap();
    for _ in 0..5 {
        node.after(2 * HOUR).await;
        assert_eq!(node.status(&service).await, ServiceStatus::Running);
    }
    drop(connection);
    node.after(2 * HOUR).await;
    assert_eq!(node.ended(&service).await.status, ServiceStatus::Stopped);
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_limit_no_service_is_ever_idle() {
    let node = Node::start(|config| config.idle_services = None).await;
    let id = node.session("s").await;
    let service = node.service(&id, "echo up; exec sleep 1000").await;
    node.after(Duration::ZERO).await;
    node.after(1000 * DAY).await;
    assert_eq!(node.status(&service).await, ServiceStatus::Running);
    node.stop().await;
}

// ---- limits that follow the machine ----

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_follow_memory_down_and_up_and_are_put_in_force() {
    let node = Node::start(|config| {
        config.quotas.set(QuotaName::LiveShells, 20);
        config.quotas.set(QuotaName::Services, 20);
        config.admission.min_running = 3;
    })
    .await;
    let mut ids = Vec::new();
    for number in 0..10 {
        let id = node.session(&format!("s{number}")).await;
        node.sh(&id, &format!("n={number}")).await;
        ids.push(id);
    }
    assert_eq!(node.engine.node().view().await.unwrap().live_shells, 10);
    node.memory_free(0.05);
    let mut lows = Vec::new();
    for _ in 0..12 {
        node.after(10 * SECOND).await;
        lows.push(node.limit(QuotaName::LiveShells).await);
    }
    assert_eq!(lows[..4], [15, 11, 8, 6], "a quarter at a time");
    assert_eq!(*lows.last().unwrap(), 4, "and not below the least");
    let view = node.engine.node().view().await.unwrap();
    assert!(view.live_shells <= 4, "idle shells are given up: {view:?}");
    assert_eq!(view.running_limit, 3);
    assert_eq!(limit(&view.quotas, QuotaName::Services), 4);
    let first = view.quotas.changes.last().unwrap();
    assert_eq!((first.from, first.to), (20, 15), "newest first: {first:?}");
    assert!(first.reason.contains("5 % of it free"), "{first:?}");
    // Less is allowed, and still everything works.
    for (number, id) in ids.iter().enumerate() {
        let run = node.sh(id, "echo $n").await;
        assert_eq!(run.stdout.bytes, format!("{number}\n").into_bytes(), "{run:?}");
    }
    node.memory_free(0.15);
    for _ in 0..100 {
        node.after(10 * SECOND).await;
    }
    assert_eq!(node.limit(QuotaName::LiveShells).await, 4, "between the two marks nothing changes");
    climbs(&node).await;
    node.stop().await;
}

/// The machine is calm again.
async fn climbs(node: &Node) {
    node.memory_free(0.9);
    node.after(Duration::ZERO).await;
    node.after(29 * SECOND).await;
    assert_eq!(node.limit(QuotaName::LiveShells).await, 4, "a pause is not calm yet");
    let mut highs = Vec::new();
    for _ in 0..40 {
        node.after(10 * SECOND).await;
        highs.push(node.limit(QuotaName::LiveShells).await);
    }
    assert!(highs.is_sorted() && highs[0] == 5, "bit by bit: {highs:?}");
    assert_eq!(*highs.last().unwrap(), 20, "all of it in the end, and no more");
    assert_eq!(node.engine.node().view().await.unwrap().running_limit, 20);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_processor_limits_commands_and_nothing_else() {
    let node = Node::start(|config| config.admission.min_running = 2).await;
    node.cpu(0.95);
    for _ in 0..40 {
        node.after(10 * SECOND).await;
    }
    let view = node.engine.node().view().await.unwrap();
    assert_eq!(view.running_limit, 2);
    assert_eq!((limit(&view.quotas, QuotaName::LiveShells), limit(&view.quotas, QuotaName::Services)), (200, 500));
    assert!(view.quotas.changes.iter().all(|change| change.limit == "running"), "{:?}", view.quotas.changes);
    node.stop().await;
}

/// Under pressure nothing that runs is taken away; only nothing new is started.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn services_that_run_stay_when_their_limit_sinks() {
    let node = Node::start(|config| {
        config.quotas.set(QuotaName::Services, 8);
        config.quotas.set(QuotaName::ServicesPerAgent, 8);
    })
    .await;
    let id = node.session("s").await;
    for _ in 0..6 {
        node.service(&id, "echo up; exec sleep 1000").await;
    }
    node.memory_free(0.01);
    for _ in 0..10 {
        node.after(10 * SECOND).await;
    }
    assert_eq!(node.limit(QuotaName::Services).await, 4);
    let refused = node.engine.services().start(&id, StartService::new("true")).await;
    let Err(OpError::QuotaExceeded(met)) = refused else { panic!("{refused:?}") };
    assert_eq!((met.quota, met.limit, met.used), (QuotaName::Services, 4, 6));
    assert_eq!(node.engine.services().all(None).await.unwrap().len(), 6);
    node.stop().await;
}

// ---- disk ----

fn files_of(node: &Node, id: &SessionId) -> bool {
    ["workspaces", "outputs", "services"].iter().any(|part| node.directory.path().join(part).join(id.as_str()).exists())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_ended_session_is_reclaimed_by_age_and_one_in_use_never() {
    let node = Node::start(|config| config.idle_services = None).await;
    let mut ids = Vec::new();
    for name in ["ended", "used-again", "with-service", "never-ended", "slept"] {
        let id = node.session(name).await;
        node.sh(&id, "echo data > file; seq 100000").await;
        ids.push(id);
    }
    let [ended, again, served, never, slept] = &ids[..] else { panic!("five") };
    for id in [ended, again, served] {
        node.engine.node().end_session(id).await.unwrap();
    }
    node.engine.hibernate(slept).await.unwrap();
    node.sh(again, "true").await;
    node.engine.hibernate(again).await.unwrap();
    node.service(served, "echo up; exec sleep 1000").await;
    node.after(7 * DAY - HOUR).await;
    assert!(node.exists(ended).await, "an hour too early");
    // The end was a moment of real time after our clock began.
    node.after(HOUR + LONG).await;
    assert!(!node.exists(ended).await, "reclaimed");
    assert!(!files_of(&node, ended), "with its files");
    node.after(1000 * DAY).await;
    for id in [again, served, never, slept] {
        assert!(node.exists(id).await && files_of(&node, id), "{id} was reclaimed");
        assert_eq!(node.sh(id, "cat file").await.stdout.bytes, b"data\n", "{id}");
    }
    node.stop().await;
}

/// The bug: a store that did not answer when ended sessions were looked at counted as one that does not have them, and their
/// files stayed for good.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_ended_session_that_cannot_be_read_now_is_reclaimed_later() {
    let node = Node::start(|_| {}).await;
    let id = node.session("s").await;
    node.sh(&id, "echo data > file").await;
    node.engine.node().end_session(&id).await.unwrap();
    node.store.faults().arm(Point::Load, u64::MAX);
    node.after(8 * DAY).await;
    assert!(files_of(&node, &id));
    node.store.faults().arm(Point::Load, 0);
    // One that has just been ended may still be awake, and is left alone then.
    until_async(LONG, "the session is reclaimed", async || {
        node.after(SECOND).await;
        (!node.exists(&id).await).then_some(())
    })
    .await;
    assert!(!files_of(&node, &id));
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_oldest_ended_sessions_make_room() {
    let node = Node::start(|config| config.reclaim = Reclaim { after: 7 * DAY, bytes: 5 << 20 }).await;
    let mut ids = Vec::new();
    for name in ["first", "second", "third", "alive"] {
        let id = node.session(name).await;
        node.sh(&id, "head -c 2M /dev/zero > file").await;
        ids.push(id);
    }
    for id in &ids[..3] {
        node.engine.node().end_session(id).await.unwrap();
    }
    // One that has just been ended may still be awake, and is left alone then.
    let mut left = Vec::new();
    for _ in 0..100 {
        node.after(SECOND).await;
        left.clear();
        for id in &ids {
            left.push(node.exists(id).await);
        }
        if left.contains(&false) {
            break;
        }
    }
    assert_eq!(left, [false, true, true, true], "only as many as needed, the oldest first");
    node.stop().await;
}
