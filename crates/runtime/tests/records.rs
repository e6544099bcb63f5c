//! Records that no disk takes, in a real engine with a real store whose journal fails when the test says so: what can be
//! refused is refused, what has happened goes on, and the recording says what it lacks.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test says what it expected by panicking")]

use serde_json::json;
use shellkeep_runtime::{
    CreateSession, Engine, EngineConfig, EventQuery, NewEvent, NewMessage, OpError, RunCommand, SessionError, Verdict,
};
use shellkeep_session::{NoticeCode, SessionId};
use shellkeep_store::fault::Point;
use shellkeep_store::{Durability, Store};
use std::path::PathBuf;
use std::time::Duration;
use tempfile::TempDir;

/// Far more than anything here takes, on a machine that does something else beside it.
const LONG: Duration = Duration::from_secs(120);
/// More than the journal keeps in memory, in events of this size.
const EVENTS: usize = 100;
const EVENT_BYTES: usize = 1_000_000;

struct Node {
    engine: Engine,
    store: Store,
    _directory: TempDir,
}

impl Node {
    async fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let bash = PathBuf::from(std::env::var_os("SHELLKEEP_BASH").unwrap_or_else(|| "/bin/bash".into()));
        let store = Store::open("sqlite://s.db", directory.path(), Durability::Process).unwrap();
        let config = EngineConfig { spare_shells: 0, ..EngineConfig::new(directory.path().to_owned(), bash) };
        Self { engine: Engine::start(config, store.clone()).await.unwrap(), store, _directory: directory }
    }

    async fn session(&self, name: &str) -> SessionId {
        let id = SessionId::parse(name).unwrap();
        let request = CreateSession { session_id: Some(id.clone()), ..CreateSession::default() };
        self.engine.create(request).await.unwrap();
        id
    }

    /// Lets the disk refuse until nothing more fits into memory, and gives what the last event was told.
    async fn fill(&self, id: &SessionId) -> OpError {
        self.store.faults().arm(Point::JournalWrite, u64::MAX);
        let event = NewEvent { event_type: "x_fill".to_owned(), data: json!({"text": "y".repeat(EVENT_BYTES)}) };
        for _ in 0..EVENTS {
            match self.engine.records().post_events(id, vec![event.clone()]).await {
                Ok(posted) => assert_eq!(posted.notices[0].code, NoticeCode::StoreFailed),
                Err(error) => return error,
            }
        }
        panic!("the queue has no end");
    }

    async fn verdict(&self, id: &SessionId) -> Verdict {
        self.engine.records().verify(id).await.unwrap()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_that_no_disk_takes_are_told_of_and_nothing_else_is_lost() {
    let node = Node::start().await;
    let id = node.session("s").await;
    let before = node.engine.run(&id, RunCommand::new("x=1")).await.unwrap();
    assert!(before.notices.is_empty());
    let refused = node.fill(&id).await;
    assert_eq!(refused.code(), "store_unavailable");
    // What was refused never was: its number is free.
    let message = NewMessage { role: "user".to_owned(), content: json!("hello") };
    let large = NewMessage { content: json!("y".repeat(EVENT_BYTES)), ..message.clone() };
    let seq = node.engine.get(&id).await.unwrap().seq;
    assert!(node.engine.records().add_message(&id, large).await.is_err());
    assert_eq!(node.engine.get(&id).await.unwrap().seq, seq);
    // A command has happened and cannot be refused. It fills what is left of the memory, if that is what it takes.
    let text = "y".repeat(EVENT_BYTES);
    let run = node.engine.run(&id, RunCommand::new(format!("x=2; echo on # {text}"))).await.unwrap();
    assert_eq!((run.stdout.bytes.as_slice(), run.exit_code), (b"on\n".as_slice(), Some(0)));
    assert!(run.notices.iter().any(|notice| notice.code == NoticeCode::StoreFailed), "{:?}", run.notices);
    let lost = node.engine.get(&id).await.unwrap().seq;
    // A session that is written nowhere could not be found again, so it is not made.
    let name = SessionId::parse("late").unwrap();
    let request = CreateSession { session_id: Some(name.clone()), config: json!({"text": text}), ..Default::default() };
    assert_eq!(node.engine.create(request.clone()).await.unwrap_err().code(), "store_unavailable");
    assert!(matches!(node.engine.get(&name).await, Err(OpError::Session(SessionError::NotFound { .. }))));
    node.store.faults().arm(Point::JournalWrite, 0);
    // Nobody does anything: the owner itself says what is lost as soon as that is taken.
    let types = vec!["records_lost".to_owned()];
    let query = EventQuery { after: lost, types: types.clone(), ..EventQuery::default() };
    let mut told = node.engine.records().follow_events(&id, query).await.unwrap();
    let told = tokio::time::timeout(LONG, told.next()).await.unwrap().unwrap();
    assert_eq!(told[0].data["through"], json!(lost));
    let verdict = node.verdict(&id).await;
    assert!(verdict.is_intact() && verdict.bad.is_none(), "{verdict:?}");
    assert!(!verdict.holes.is_empty() && verdict.holes.iter().all(|hole| hole.declared), "{verdict:?}");
    let added = node.engine.records().add_message(&id, message).await.unwrap();
    assert_eq!((added.seq_id, added.notices.len()), (1, 0));
    node.engine.hibernate(&id).await.unwrap();
    // What the lost records led to is there, also for those who read it from the store.
    let after = node.engine.run(&id, RunCommand::new("echo $x")).await.unwrap();
    assert_eq!(after.stdout.bytes, b"2\n");
    let query = EventQuery { limit: 10, types, ..EventQuery::default() };
    assert_eq!(node.engine.records().events(&id, query).await.unwrap().events.len(), verdict.holes.len());
    node.engine.create(request).await.unwrap();
    assert_eq!(node.engine.run(&name, RunCommand::new("echo made")).await.unwrap().stdout.bytes, b"made\n");
    assert!(node.engine.node().health().await.problems.is_empty());
    node.engine.shutdown().await;
}
