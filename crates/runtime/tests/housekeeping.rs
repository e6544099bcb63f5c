//! What is looked after from time to time, in a real engine with real shells and services, but with a clock and a machine
//! of our own: hours pass in no time, and memory runs out when the test says so.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test says what it expected by panicking")]

use shellkeep_poll::until_async;
use shellkeep_process::proc::Stat;
use shellkeep_process::{Pressure, PressureSource};
use shellkeep_runtime::{
    CreateSession, Created, Engine, EngineConfig, ExpectedFile, Fork, LogQuery, NewEvent, NewMessage, OpError,
    OutputQuery, QuotasView, Reclaim, RunCommand, RunView, Senses, ServiceView, StartService, Stream, WriteFile,
};
use shellkeep_session::service::Ready;
use shellkeep_session::{NoticeCode, QuotaName, RestartPolicy, RunId, ServiceStatus, SessionId, Timestamp};
use shellkeep_store::fault::Point;
use shellkeep_store::{Durability, Store};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tempfile::TempDir;
use tokio::time::timeout;

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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_takes_too_much_disk_is_told_and_can_make_room() {
    let node = Node::start(|config| config.quotas.set(QuotaName::DiskBytesPerSession, 2 << 20)).await;
    let id = node.session("s").await;
    assert!(codes(&node.sh(&id, "head -c 5M /dev/zero > big").await).is_empty());
    node.after(SECOND).await;
    let next = node.sh(&id, "echo still runs").await;
    assert_eq!(next.stdout.bytes, b"still runs\n");
    assert_eq!(codes(&next), [NoticeCode::DiskQuota], "{:?}", next.notices);
    assert!(next.notices[0].message.contains("uses 5 MiB of disk space; its limit is 2 MiB"), "{:?}", next.notices);
    let refused = node.engine.services().start(&id, StartService::new("true")).await;
    let Err(OpError::QuotaExceeded(met)) = refused else { panic!("{refused:?}") };
    assert_eq!((met.quota, met.limit), (QuotaName::DiskBytesPerSession, 2 << 20));
    // What makes room may run, and then all is well again.
    node.sh(&id, "rm big").await;
    node.after(SECOND).await;
    assert!(codes(&node.sh(&id, "true").await).is_empty());
    node.service(&id, "echo up; exec sleep 1000").await;
    node.stop().await;
}

/// Only services were refused; what came through the API was written, however much there was already.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_takes_too_much_disk_writes_no_more_through_the_api() {
    let node = Node::start(|config| config.quotas.set(QuotaName::DiskBytesPerAgent, 6 << 20)).await;
    let id = node.session_of("s", Some("ann")).await;
    let upload = |name: &str, bytes: usize| WriteFile {
        path: name.into(),
        bytes: vec![0; bytes],
        mode: None,
        expected: ExpectedFile::Anything,
    };
    let quota = |error: OpError| match error {
        OpError::QuotaExceeded(met) => met.quota,
        other => panic!("{other:?}"),
    };
    let files = node.engine.files();
    files.write(&id, upload("a", 4 << 20)).await.unwrap();
    // It counts before it was measured.
    assert_eq!(quota(files.write(&id, upload("b", 4 << 20)).await.unwrap_err()), QuotaName::DiskBytesPerAgent);
    assert_eq!(quota(files.fork(&id, Fork::default()).await.unwrap_err()), QuotaName::DiskBytesPerAgent);
    let event = || vec![NewEvent { event_type: "x_note".to_owned(), data: serde_json::json!({}) }];
    let message = || NewMessage { role: "user".to_owned(), content: "hello".into() };
    let records = node.engine.records();
    records.post_events(&id, event()).await.unwrap();
    node.sh(&id, "head -c 7M /dev/zero > big").await;
    node.after(SECOND).await;
    assert_eq!(quota(records.post_events(&id, event()).await.unwrap_err()), QuotaName::DiskBytesPerAgent);
    assert_eq!(quota(records.add_message(&id, message()).await.unwrap_err()), QuotaName::DiskBytesPerAgent);
    // Another agent goes on, and so does this one when it has made room.
    let other = node.session_of("other", Some("bob")).await;
    records.add_message(&other, message()).await.unwrap();
    files.remove(&id, &"big".into(), false).await.unwrap();
    files.remove(&id, &"a".into(), false).await.unwrap();
    node.after(SECOND).await;
    records.add_message(&id, message()).await.unwrap();
    node.stop().await;
}

/// Each upload counted as one more file, and nothing that was removed was subtracted: a session without a shell was not
/// measured.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_of_a_session_without_a_shell_count_as_long_as_they_are_there() {
    let node = Node::start(|config| config.quotas.set(QuotaName::DiskBytesPerSession, 20 << 20)).await;
    let id = node.session("s").await;
    let upload = |name: &str, bytes: usize| WriteFile {
        path: name.into(),
        bytes: vec![0; bytes],
        mode: None,
        expected: ExpectedFile::Anything,
    };
    let files = node.engine.files();
    for _ in 0..6 {
        files.write(&id, upload("a", 4 << 20)).await.unwrap();
    }
    let refused = files.write(&id, upload("b", 17 << 20)).await;
    let Err(OpError::QuotaExceeded(met)) = refused else { panic!("{refused:?}") };
    // The file, and what a checkpoint has of it if it was measured meanwhile.
    assert!(met.quota == QuotaName::DiskBytesPerSession && met.used < 9 << 20, "{met:?}");
    files.remove(&id, &"a".into(), false).await.unwrap();
    node.after(SECOND).await;
    // Its checkpoints may still have the first.
    files.write(&id, upload("b", 15 << 20)).await.unwrap();
    node.stop().await;
}

/// Each session was within its own quota, and an agent had as many as it liked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_sessions_of_an_agent_share_a_disk_quota() {
    let node = Node::start(|config| config.quotas.set(QuotaName::DiskBytesPerAgent, 5 << 20)).await;
    let (one, two) = (node.session_of("one", Some("ann")).await, node.session_of("two", Some("ann")).await);
    let other = node.session("other").await;
    for id in [&one, &two, &other] {
        node.sh(id, "head -c 3M /dev/zero > big").await;
    }
    node.after(SECOND).await;
    let told = node.sh(&one, "true").await;
    assert_eq!(codes(&told), [NoticeCode::DiskQuota], "{:?}", told.notices);
    assert!(told.notices[0].message.contains("(disk_bytes_per_agent)"), "{:?}", told.notices);
    assert!(codes(&node.sh(&other, "true").await).is_empty());
    node.sh(&two, "rm big").await;
    node.after(SECOND).await;
    // The first was not used since, so it is measured with its next command.
    node.sh(&one, "true").await;
    node.after(SECOND).await;
    assert!(codes(&node.sh(&one, "true").await).is_empty());
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_opens_too_many_files_is_told_once() {
    let node = Node::start(|config| config.quotas.set(QuotaName::OpenFiles, 1100)).await;
    let id = node.session("s").await;
    let many = "python3 -c \"files = [open('/dev/null') for _ in range(2000)]\"";
    let failed = node.sh(&id, many).await;
    assert_eq!(codes(&failed), [NoticeCode::OpenFilesLimit], "{failed:?}");
    assert!(failed.notices[0].message.contains("may have 1100 open (open_files)"), "{:?}", failed.notices);
    assert!(codes(&node.sh(&id, many).await).is_empty());
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_writes_on_beyond_the_disk_quota_is_ended() {
    let node = Node::start(|config| config.quotas.set(QuotaName::DiskBytesPerSession, 8 << 20)).await;
    let id = node.session("s").await;
    let writer = RunCommand { blocking: false, timeout: LONG, ..RunCommand::new("yes > big") };
    let run = node.engine.run(&id, writer).await.unwrap().run_id;
    let ending = async {
        loop {
            node.engine.node().keep_house().await.unwrap();
            let view = node.engine.runs().view(&id, &run, Duration::from_millis(20), 0).await.unwrap().run;
            if view.status != shellkeep_session::RunStatus::Running {
                return view;
            }
        }
    };
    let view = timeout(LONG, ending).await.expect("it is ended");
    assert_eq!(view.signal.as_deref(), Some("KILL"), "{view:?}");
    assert_eq!(codes(&node.sh(&id, "rm big").await), [NoticeCode::DiskQuota]);
    node.stop().await;
}

/// Only the command that ran was ended, and only sessions that were used were measured: a service, and what a command had
/// left running, wrote on until the disk was full.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn services_and_what_is_left_running_do_not_write_beyond_the_disk_quota() {
    const WRITER: &str = "echo $BASHPID > pid; while :; do head -c 5000000 /dev/zero >> big; sleep 0.02; done";
    let node = Node::start(|config| config.quotas.set(QuotaName::DiskBytesPerSession, 8 << 20)).await;
    let [served, left, gone] = [node.session("served").await, node.session("left").await, node.session("gone").await];
    // One that is restarted whenever it ends by itself.
    let request = StartService { restart: RestartPolicy::Always, ..StartService::new(WRITER) };
    let service = node.engine.services().start(&served, request).await.unwrap();
    let in_background = format!("n=1; ( {WRITER} ) > /dev/null 2>&1 &");
    node.sh(&left, &in_background).await;
    // Its shell has ended.
    node.sh(&gone, &format!("{in_background} exit 3")).await;
    let is_over = |id: &SessionId| {
        let pid = std::fs::read_to_string(node.directory.path().join("workspaces").join(id.as_str()).join("pid"));
        pid.ok().and_then(|pid| pid.trim().parse().ok()).is_some_and(|pid| Stat::read(pid).is_none())
    };
    until_async(LONG, "all that writes is ended", async || {
        node.engine.node().keep_house().await.unwrap();
        [&served, &left, &gone].into_iter().all(is_over).then_some(())
    })
    .await;
    let ended = node.ended(&service).await;
    assert_eq!((ended.status, ended.restarts), (ServiceStatus::Stopped, 0), "{ended:?}");
    let detail = ended.detail.unwrap();
    assert!(detail.contains("its limit is 8 MiB (disk_bytes_per_session)") && detail.contains("delete"), "{detail}");
    assert_eq!(codes(&node.sh(&served, "rm big").await), [NoticeCode::ServiceEnded, NoticeCode::DiskQuota]);
    for id in [&left, &gone] {
        let told = node.sh(id, "echo $n; rm big").await;
        assert_eq!(told.stdout.bytes, b"1\n", "{told:?}");
        assert!(codes(&told).contains(&NoticeCode::DiskQuota), "{told:?}");
        let lost = told.notices.iter().find(|notice| notice.code == NoticeCode::ShellReplaced);
        assert!(lost.is_some_and(|lost| lost.message.contains("over its disk quota")), "{told:?}");
    }
    node.stop().await;
}

/// Who is over its quota can still clean up, so a shell in which nothing works stays, with what only it has.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_quiet_shell_over_the_disk_quota_stays() {
    let node = Node::start(|config| config.quotas.set(QuotaName::DiskBytesPerSession, 2 << 20)).await;
    let id = node.session("s").await;
    node.sh(&id, "exec 7<> kept").await;
    node.engine.node().keep_house().await.unwrap();
    node.sh(&id, "head -c 5000000 /dev/zero > big").await;
    let generation = async || node.engine.get(&id).await.unwrap().generation;
    let before = generation().await;
    node.engine.node().keep_house().await.unwrap();
    assert_eq!(codes(&node.sh(&id, "echo here >&7; rm big").await), [NoticeCode::DiskQuota]);
    assert_eq!(generation().await, before);
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn old_outputs_give_way_to_new_ones() {
    let node = Node::start(|config| config.quotas.set(QuotaName::OutputBytesPerSession, 1 << 20)).await;
    let id = node.session("s").await;
    let mut runs = Vec::new();
    for letter in ["a", "b", "c"] {
        runs.push(node.sh(&id, &format!("head -c 400000 /dev/zero | tr '\\0' {letter}")).await.run_id);
    }
    let read = async |run: &RunId| {
        let query = OutputQuery { stream: Stream::Stdout, offset: 300_000, limit: 10, tail: None, grep: None };
        node.engine.output(&id, run, query).await.map(|page| page.bytes)
    };
    assert_eq!(read(&runs[0]).await.unwrap(), b"aaaaaaaaaa", "all of them fit until somebody looks");
    node.after(SECOND).await;
    let gone = read(&runs[0]).await.unwrap_err();
    assert_eq!(gone.code(), "output_reclaimed", "{gone}");
    assert_eq!(read(&runs[1]).await.unwrap(), b"bbbbbbbbbb");
    assert_eq!(read(&runs[2]).await.unwrap(), b"cccccccccc");
    // It is gone and known; one that somebody removed is missed.
    let verdict = node.engine.records().verify(&id).await.unwrap();
    assert!(verdict.is_intact() && verdict.files_reclaimed == 1, "{verdict:?}");
    std::fs::remove_file(node.directory.path().join(format!("outputs/s/{}.stdout", runs[1]))).unwrap();
    let bad = node.engine.records().verify(&id).await.unwrap().bad.unwrap();
    assert!(bad.reason.contains("no event says"), "{bad:?}");
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn old_checkpoints_are_removed_by_themselves_when_a_session_is_idle() {
    let node = Node::start(|config| config.checkpoints.keep_all = 4).await;
    let id = node.session("a").await;
    for n in 0..12 {
        node.sh(&id, &format!("echo {n} > f")).await;
        // Each gets a checkpoint of its own.
        node.engine.files().checkpoints(&id, 0, 1).await.unwrap();
    }
    let kept = async || {
        let page = node.engine.files().checkpoints(&id, 0, 100).await.unwrap();
        assert_eq!(page.checkpoints.len(), 12, "the list stays");
        page.checkpoints.iter().filter(|view| view.kept).count()
    };
    assert_eq!(kept().await, 12);
    // It is in use: its next command should not wait.
    node.after(SECOND).await;
    assert_eq!(kept().await, 12);
    node.engine.hibernate(&id).await.unwrap();
    // The newest four stay, and the last of the hour.
    let thinned = async {
        while kept().await != 5 {
            node.after(2 * HOUR).await;
        }
    };
    timeout(LONG, thinned).await.unwrap();
    assert_eq!(node.sh(&id, "cat f").await.stdout.bytes, b"11\n");
}
