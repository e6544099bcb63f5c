//! What every shared tier must do, told once and run for memory and for a real Redis.

use shellkeep_poll::until;
use shellkeep_session::SessionId;
use shellkeep_session::ownership::{Ask, Claim, Claimed, Head, Point, Refusal};
use shellkeep_shared::memory::MemoryTier;
use shellkeep_shared::{Append, ClaimRequest, KeptFiles, NodeEntry, Tier, open};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

const LEASE: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(1);

fn id(name: &str) -> SessionId {
    SessionId::parse(name).unwrap()
}

fn request(name: &str, node: &str, nonce: &str, mine: Option<&Claim>) -> ClaimRequest {
    let ask = Ask { node: node.to_owned(), nonce: nonce.to_owned(), mine: mine.cloned() };
    let (agent, data_dir) = (Some("ann".to_owned()), format!("/data/{node}"));
    ClaimRequest { session_id: id(name), ask, data_dir, agent, create: false }
}

fn claimed(tier: &mut dyn Tier, request: &ClaimRequest, lease: Duration) -> Head {
    match tier.claim(request, lease).unwrap() {
        Some(Claimed::New(head) | Claimed::Kept(head) | Claimed::Taken(head)) => head,
        other => panic!("{other:?}"),
    }
}

fn send(tier: &mut dyn Tier, name: &str, head: &Head, from: u64, lines: &[&str]) -> Result<Head, Refusal> {
    let append = Append {
        session_id: id(name),
        claim: head.owner.clone(),
        after: head.last.clone(),
        from,
        through: head.last.seq + lines.len() as u64,
        lines: lines.iter().map(|line| line.as_bytes().to_vec()).collect(),
    };
    tier.append(std::slice::from_ref(&append), LEASE).unwrap().remove(0)?;
    let last =
        if lines.is_empty() { head.last.clone() } else { Point { seq: append.through, at: Some(head.owner.clone()) } };
    Ok(Head { last, ..head.clone() })
}

fn lines(tier: &mut dyn Tier, name: &str) -> Vec<String> {
    tier.load(&id(name)).unwrap().lines.into_iter().map(|line| String::from_utf8(line).unwrap()).collect()
}

/// Everything, in order.
fn contract(tier: &mut dyn Tier) {
    claims_are_exclusive_and_fenced(tier);
    a_lost_answer_is_recognised(tier);
    creation_has_one_winner(tier);
    records_are_shortened(tier);
    files_are_noted_by_the_owner(tier);
    removal_is_remembered(tier);
    nodes_come_and_go(tier);
}

fn claims_are_exclusive_and_fenced(tier: &mut dyn Tier) {
    assert_eq!(tier.find(&id("a")).unwrap(), None);
    let first = claimed(tier, &request("a", "n1", "x", None), LEASE);
    assert_eq!((first.owner.to_string().as_str(), first.last.seq), ("1.n1.x", 0));
    let first = send(tier, "a", &first, 2, &["one", "two"]).unwrap();
    let held = tier.claim(&request("a", "n2", "y", None), LEASE).unwrap();
    assert_eq!(held, Some(Claimed::Held(first.owner.clone())));
    // The lease is given up by the claim that has it, and by no other.
    tier.release(&id("a"), &"9.n9.z".parse().unwrap(), false).unwrap();
    assert_eq!(tier.find(&id("a")).unwrap().unwrap().lease, Some(first.owner.clone()));
    tier.release(&id("a"), &first.owner, false).unwrap();
    let found = tier.find(&id("a")).unwrap().unwrap();
    assert_eq!((found.lease, found.agent.as_deref(), found.data_dir.as_str()), (None, Some("ann"), "/data/n1"));
    assert_eq!(found.head.claims.to_string(), "2=1.n1.x");
    // Others are told if its owner does not go on with it, until it is claimed again.
    assert!(!found.is_free);
    tier.release(&id("a"), &"9.n9.z".parse().unwrap(), true).unwrap();
    assert!(!tier.find(&id("a")).unwrap().unwrap().is_free);
    tier.release(&id("a"), &first.owner, true).unwrap();
    assert!(tier.find(&id("a")).unwrap().unwrap().is_free);
    // The next owner goes on after what is there.
    let second = claimed(tier, &request("a", "n2", "y", None), LEASE);
    assert_eq!((second.owner.to_string().as_str(), second.last.seq), ("2.n2.y", 2));
    assert!(!tier.find(&id("a")).unwrap().unwrap().is_free);
    let second = send(tier, "a", &second, 3, &["three"]).unwrap();
    assert_eq!(send(tier, "a", &first, 2, &["late"]), Err(Refusal::Fenced(Some(second.owner.clone()))));
    assert_eq!(lines(tier, "a"), ["one", "two", "three"]);
    assert_eq!(tier.find(&id("a")).unwrap().unwrap().head.claims.to_string(), "2=1.n1.x 3=2.n2.y");
    // A node goes on under its own claim, also while its lease is there.
    let again = tier.claim(&request("a", "n2", "z", Some(&second.owner)), LEASE).unwrap();
    assert!(matches!(&again, Some(Claimed::Kept(head)) if head.last == second.last), "{again:?}");
    // A lease that ended and that nobody took is taken back by the next append.
    tier.release(&id("a"), &second.owner, false).unwrap();
    send(tier, "a", &second, 3, &[]).unwrap();
    assert_eq!(tier.find(&id("a")).unwrap().unwrap().lease, Some(second.owner));
}

fn a_lost_answer_is_recognised(tier: &mut dyn Tier) {
    let head = claimed(tier, &request("b", "n1", "x", None), LEASE);
    let after = send(tier, "b", &head, 1, &["one"]).unwrap();
    match send(tier, "b", &head, 1, &["one"]) {
        Err(Refusal::Apart(found)) => assert_eq!(found.last, after.last),
        other => panic!("{other:?}"),
    }
    assert_eq!(lines(tier, "b"), ["one"]);
    let repeated = claimed(tier, &request("b", "n1", "x", None), LEASE);
    assert_eq!(repeated.owner, head.owner, "the same question has the same answer");
    let unknown = Head { owner: "1.n1.x".parse().unwrap(), last: Point::default(), claims: Default::default() };
    assert_eq!(send(tier, "nobody", &unknown, 1, &["one"]), Err(Refusal::Fenced(None)));
}

fn creation_has_one_winner(tier: &mut dyn Tier) {
    let create = |node: &str, nonce: &str| ClaimRequest { create: true, ..request("c", node, nonce, None) };
    let first = claimed(tier, &create("n1", "x"), SHORT);
    // Its creator dies before the first record.
    let second = until("the lease ends", || match tier.claim(&create("n2", "y"), LEASE).unwrap() {
        Some(Claimed::Taken(head)) => Some(head),
        _ => None,
    });
    assert!(second.owner != first.owner && second.last.seq == 0);
    let second = send(tier, "c", &second, 2, &["one", "two"]).unwrap();
    tier.release(&id("c"), &second.owner, false).unwrap();
    let third = tier.claim(&create("n3", "z"), LEASE).unwrap();
    assert_eq!(third, Some(Claimed::Held(second.owner)), "one that has records is left alone");
}

fn records_are_shortened(tier: &mut dyn Tier) {
    let head = claimed(tier, &request("d", "n1", "x", None), LEASE);
    let head = send(tier, "d", &head, 1, &["1", "2"]).unwrap();
    tier.rest(&id("d"), &head.owner, b"all to 2").unwrap();
    assert_eq!(lines(tier, "d"), ["1", "2"], "those since the last time stay");
    let head = send(tier, "d", &head, 1, &["3"]).unwrap();
    tier.rest(&id("d"), &"7.n7.x".parse().unwrap(), b"another's").unwrap();
    tier.rest(&id("d"), &head.owner, b"all to 3").unwrap();
    assert_eq!(lines(tier, "d"), ["all to 2", "3"]);
    let head = send(tier, "d", &head, 1, &["4"]).unwrap();
    tier.rest(&id("d"), &head.owner, b"all to 4").unwrap();
    assert_eq!(lines(tier, "d"), ["all to 3", "4"]);
}

fn files_are_noted_by_the_owner(tier: &mut dyn Tier) {
    let first = claimed(tier, &request("f", "n1", "x", None), SHORT);
    send(tier, "f", &first, 2, &["one"]).unwrap();
    let files = |name: &str| KeptFiles { folder: "1-1".to_owned(), name: name.to_owned(), commit: "ab".to_owned() };
    assert!(tier.note_files(&id("f"), &first.owner, &files("c1")).unwrap());
    tier.release(&id("f"), &first.owner, false).unwrap();
    let second = claimed(tier, &request("f", "n2", "y", None), LEASE);
    // The next owner finds it, and the former one no longer changes it.
    assert!(!tier.note_files(&id("f"), &first.owner, &files("late")).unwrap());
    assert_eq!(tier.find(&id("f")).unwrap().unwrap().files, Some(files("c1")));
    assert!(tier.note_files(&id("f"), &second.owner, &files("c2")).unwrap());
    assert_eq!(tier.find(&id("f")).unwrap().unwrap().files, Some(files("c2")));
    tier.remove(&id("f"), &second.owner).unwrap();
    assert!(!tier.note_files(&id("f"), &second.owner, &files("gone")).unwrap());
}

fn removal_is_remembered(tier: &mut dyn Tier) {
    let head = claimed(tier, &request("e", "n1", "x", None), LEASE);
    send(tier, "e", &head, 1, &["one"]).unwrap();
    tier.remove(&id("e"), &"7.n7.x".parse().unwrap()).unwrap();
    assert!(tier.find(&id("e")).unwrap().is_some(), "only its owner removes it");
    tier.remove(&id("e"), &head.owner).unwrap();
    assert_eq!(tier.find(&id("e")).unwrap(), None);
    assert_eq!(tier.claim(&request("e", "n2", "y", None), LEASE).unwrap(), None, "a copy does not bring it back");
    let anew = claimed(tier, &ClaimRequest { create: true, ..request("e", "n2", "y", None) }, LEASE);
    assert_eq!(anew.last.seq, 0);
    assert!(lines(tier, "e").is_empty());
}

fn nodes_come_and_go(tier: &mut dyn Tier) {
    let node = |name: &str| NodeEntry {
        name: name.to_owned(),
        url: format!("http://{name}:1"),
        version: "1".to_owned(),
        since: "2026-01-01T00:00:00Z".to_owned(),
        sessions: 3,
        draining: name == "n2",
    };
    assert!(tier.nodes().unwrap().is_empty());
    for name in ["n2", "n1"] {
        tier.beat(&node(name), LEASE).unwrap();
    }
    tier.beat(&node("n3"), SHORT).unwrap();
    until("a node that is silent is gone", || tier.node("n3").unwrap().is_none().then_some(()));
    assert_eq!(tier.nodes().unwrap(), [node("n1"), node("n2")]);
    assert_eq!(tier.node("n2").unwrap(), Some(node("n2")));
    tier.leave("n2").unwrap();
    assert_eq!(tier.node("n2").unwrap(), None);
}

/// A server with its data in a temporary directory.
struct RedisServer {
    child: Child,
    port: u16,
    _directory: TempDir,
}

impl RedisServer {
    fn start() -> Self {
        let directory = TempDir::new().unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let child = Command::new("redis-server")
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--dir"])
            .arg(directory.path())
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server is installed (Debian: redis-server)");
        let server = Self { child, port, _directory: directory };
        let mut tier = open(&server.url()).unwrap();
        until("redis-server answers", || tier.ping().ok());
        server
    }

    fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn memory_keeps_the_contract() {
    contract(&mut MemoryTier::default());
}

#[test]
fn redis_keeps_the_contract() {
    let server = RedisServer::start();
    contract(&mut *open(&server.url()).unwrap());
}

#[test]
fn a_server_that_is_away_is_down_and_not_waited_for() {
    let mut server = RedisServer::start();
    let mut tier = open(&server.url()).unwrap();
    tier.ping().unwrap();
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    let down = tier.ping().unwrap_err();
    assert!(down.reason.contains(&server.url()), "{down}");
}
