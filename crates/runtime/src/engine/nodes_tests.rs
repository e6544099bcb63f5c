//! Engines that share a store in memory: what becomes of a session when its caller, its lease or its node's disk goes away in the
//! middle of something.

use crate::actor::Message;
use crate::cluster::{ClusterConfig, Creation, in_memory};
use crate::engine::{Engine, EngineConfig};
use crate::ops::{
    ClusterError, CreateSession, Created, NewEvent, NodeEntry, OpError, RunCommand, StartService, Whereabouts,
};
use crate::pending::Removal;
use serde_json::json;
use shellkeep_session::SessionId;
use shellkeep_session::ownership::{Ask, Claim, Claimed, Claims};
use shellkeep_shared::memory::MemoryTier;
use shellkeep_shared::{ClaimRequest, Closing, LEASE, Tier as _, WhenAlone};
use shellkeep_store::fault::Point;
use shellkeep_store::{Durability, Store};
use std::future::poll_fn;
use std::path::PathBuf;
use std::task::Poll;
use std::time::Duration;
use tempfile::TempDir;
use tokio::time::timeout;

/// Far more than anything here takes.
const LONG: Duration = Duration::from_secs(60);

/// How often a caller is polled before it goes away, at most: a takeover waits for something fewer times.
const MOST_POLLS: usize = 12;

/// A node, and what only its tests reach.
struct Node {
    engine: Engine,
    store: Store,
    _directory: TempDir,
}

impl Node {
    /// A node of the cluster whose store has this URL.
    async fn start(url: &str, name: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let bash = PathBuf::from(std::env::var_os("SHELLKEEP_BASH").unwrap_or_else(|| "/bin/bash".into()));
        let store = Store::open("sqlite://s.db", directory.path(), Durability::Process).unwrap();
        let cluster = ClusterConfig {
            url: url.to_owned(),
            node: name.to_owned(),
            advertise: String::new(),
            blobs: None,
            when_alone: WhenAlone::Serve,
        };
        let config = EngineConfig::new(directory.path().to_owned(), bash);
        let config = EngineConfig { spare_shells: 0, cluster: Some(cluster), ..config };
        Self { engine: Engine::start(config, store.clone()).await.unwrap(), store, _directory: directory }
    }

    async fn create(&self, name: &str) -> SessionId {
        let id = SessionId::parse(name).unwrap();
        let request = CreateSession { session_id: Some(id.clone()), ..CreateSession::default() };
        assert!(matches!(self.engine.create(request).await.unwrap(), Created::New(_)));
        id
    }

    /// Stops it in order: other nodes take its sessions at once.
    async fn stop(self) {
        self.engine.shutdown().await;
        self.engine.close_store(Closing::Stop).await.unwrap();
    }

    /// Lets the node find a session and take it if it must, and goes away when that has waited for something this often.
    async fn seek_and_leave(&self, id: &SessionId, mut polls: usize) -> Option<bool> {
        let node = self.engine.node();
        let cluster = node.cluster().unwrap();
        let mut seeking = cluster.locate(id);
        let answer = poll_fn(|context| match seeking.as_mut().poll(context) {
            Poll::Ready(answer) => Poll::Ready(Some(answer)),
            Poll::Pending if polls <= 1 => Poll::Ready(None),
            Poll::Pending => {
                polls -= 1;
                Poll::Pending
            }
        });
        answer.await.map(|answer| matches!(answer, Ok(Whereabouts::Here)))
    }

    /// Drains it, and returns when it has no session.
    async fn drain(&self) -> NodeEntry {
        let node = self.engine.node();
        let cluster = node.cluster().unwrap();
        cluster.drain(LONG).await.unwrap()
    }
}

/// A shared store that is this test's own.
fn shared(test: &str) -> (String, MemoryTier) {
    let url = format!("memory://{test}");
    let tier = in_memory::at(&url).unwrap();
    (url, tier)
}

/// The bug: a client that hung up while its session moved here left the session claimed, with a lease that this node renewed, and
/// without a task. Every other request got 503 for as long as the node lived, and a drain of it never ended.
#[tokio::test]
async fn a_caller_that_goes_away_leaves_a_session_that_can_be_used() {
    let (url, _tier) = shared("a caller goes away");
    let first = Node::start(&url, "n1").await;
    let mut sessions = Vec::new();
    for number in 1..=MOST_POLLS {
        let id = first.create(&format!("s{number}")).await;
        first.engine.run(&id, RunCommand::new("n=1")).await.unwrap();
        sessions.push(id);
    }
    first.stop().await;
    let second = Node::start(&url, "n2").await;
    for (id, polls) in sessions.iter().zip(1..) {
        second.seek_and_leave(id, polls).await;
    }
    for (id, polls) in sessions.iter().zip(1..) {
        assert_eq!(second.seek_and_leave(id, usize::MAX).await, Some(true), "{id} after {polls}");
        let view = second.engine.access.at_large().ctx.registry.ask(id, Message::View).await;
        assert_eq!(view.unwrap().meta.session_id, *id, "after {polls}");
    }
    let drained = timeout(LONG, second.drain()).await.expect("it lets go of all sessions");
    assert_eq!(drained.sessions, 0);
    second.stop().await;
}

/// Another node takes a session, as if the lease of its owner had ended, and that one does not know it yet.
fn taken_by_another(tier: &mut MemoryTier, id: &SessionId) {
    tier.end_lease(id);
    let ask = Ask { node: "n2".to_owned(), nonce: "y".to_owned(), mine: None, seen: 0, claims: Claims::default() };
    let request = ClaimRequest { session_id: id.clone(), ask, data_dir: String::new(), agent: None, create: None };
    assert!(matches!(tier.claim(&request, LEASE), Ok(Ok(Claimed::Taken(_)))), "another node takes it");
}

/// The bug: a node that had lost a session without knowing it started a service there, beside the node that had the session, and
/// its caller was told that the request had been refused and nothing was run.
#[tokio::test]
async fn a_node_that_lost_a_session_starts_no_service_in_it() {
    let (url, mut tier) = shared("a service of a lost session");
    let node = Node::start(&url, "n1").await;
    let id = node.create("s").await;
    node.engine.run(&id, RunCommand::new("true")).await.unwrap();
    taken_by_another(&mut tier, &id);
    let started = node.engine.services().start(&id, StartService::new("exec sleep 300")).await;
    // Which of the two errors of a session that moves depends on whether a renewal has told the node before.
    let has_moved = |error: &OpError| {
        matches!(error, OpError::Cluster(ClusterError::Moved { .. } | ClusterError::OwnerUnreachable { .. }))
    };
    assert!(started.as_ref().is_err_and(has_moved), "{started:?}");
    let services = &node.engine.access.at_large().ctx.services;
    assert_eq!(services.list(|_| true).len(), 0, "none was started, and none is in the way of others");
    node.stop().await;
}

/// The bug: on a full disk the first record of a new session was kept in memory until it could be written, and the same was taken
/// for a failure of the second. The caller was told that nothing was changed; the session was there, with a lease that this node
/// renewed for ever.
#[tokio::test]
async fn a_creation_on_a_full_disk_is_answered_and_lets_go_of_its_session() {
    let (url, _tier) = shared("a creation on a full disk");
    let node = Node::start(&url, "n1").await;
    node.store.faults().arm(Point::JournalWrite, u64::MAX);
    node.create("s").await;
    node.store.faults().arm(Point::JournalWrite, 0);
    let drained = timeout(LONG, node.drain()).await.expect("it lets go of the session");
    assert_eq!(drained.sessions, 0);
    node.engine.shutdown().await;
}

/// The bug: a deletion whose last record this node could not keep had removed the session from the shared store, and stopped there.
/// Its files stayed, and nobody could use its name until the node was started again.
#[tokio::test]
async fn a_deletion_that_cannot_be_recorded_is_completed() {
    let (url, tier) = shared("a deletion that cannot be recorded");
    let node = Node::start(&url, "n1").await;
    let id = node.create("s").await;
    node.store.close().unwrap();
    let ctx = &node.engine.access.at_large().ctx;
    ctx.remover.destroy_unread(&id, Removal::Purge).await.unwrap();
    assert_eq!(tier.clone().find(&id), Ok(None));
    assert!(!ctx.cluster.as_ref().unwrap().removals().is_waiting(&id) && !ctx.names.contains(&id), "its name is free");
    node.engine.shutdown().await;
}

/// The bug: a creation that had waited for the shared store for long closed the lane of whatever had its name by then. A later
/// creation of the name lost its lease in the middle.
#[tokio::test]
async fn a_creation_that_ends_late_leaves_a_later_one_of_its_name_alone() {
    let (url, _tier) = shared("a creation that ends late");
    let node = Node::start(&url, "n1").await;
    let (id, earlier) = (SessionId::parse("s").unwrap(), "1.n1.earlier".parse::<Claim>().unwrap());
    let ctx = &node.engine.access.at_large().ctx;
    let cluster = ctx.cluster.as_ref().unwrap();
    let Ok(Creation::Mine { name, .. }) = cluster.create(&id, None, 9).await else { panic!("it is this node's") };
    ctx.registry.left_asleep(&id, Some(&earlier)).await;
    assert!(cluster.members().works_with(&id));
    ctx.registry.left_asleep(&id, Some(name.claim())).await;
    assert!(!cluster.members().works_with(&id));
    drop(name);
    node.stop().await;
}

/// Twice this many records are more than a node keeps at hand after it has sent them: it gives its state in their place.
const MANY: usize = 50;

/// The bug: when the shared store lacked more of a session than its node had at hand, the node read the session's state from its own
/// store, once. If that failed, the session was never shared again, and every command waited for seconds.
#[tokio::test]
async fn a_session_is_given_again_when_its_node_can_read_it() {
    let (url, tier) = shared("a state that cannot be read");
    let node = Node::start(&url, "n1").await;
    let id = node.create("s").await;
    node.engine.run(&id, RunCommand::new("true")).await.unwrap();
    let copied = tier.copy();
    let event = NewEvent { event_type: "x_step".to_owned(), data: json!({"text": "one of many"}) };
    for _ in 0..2 {
        node.engine.records().post_events(&id, vec![event.clone(); MANY]).await.unwrap();
    }
    node.store.faults().arm(Point::Load, u64::MAX);
    tier.fall_back(copied);
    // It ends when nothing has confirmed it for a while; by then the state was to be read.
    node.engine.run(&id, RunCommand::new("true")).await.unwrap();
    node.store.faults().arm(Point::Load, 0);
    let shared_again = async {
        loop {
            node.engine.run(&id, RunCommand::new("true")).await.unwrap();
            let seq = node.engine.get(&id).await.unwrap().seq;
            if tier.clone().find(&id).unwrap().is_some_and(|found| found.head.last.seq == seq) {
                break;
            }
        }
    };
    timeout(LONG, shared_again).await.expect("it is given again");
    node.stop().await;
}
