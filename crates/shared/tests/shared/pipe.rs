//! Appends on a connection of their own: they are answered as the tier answers, and whatever becomes of the connection, no
//! record is lost or there twice.

use crate::contract::{LEASE, RedisServer, claimed, id, lines, request};
use shellkeep_session::ownership::{Head, Refusal};
use shellkeep_session::{Event, Record, SessionId, Timestamp};
use shellkeep_shared::memory::MemoryTier;
use shellkeep_shared::{
    Append, NodeEntry, PipeError, Remembered, Settled, Ship, ShipOptions, Start, Tier, WhenAlone, open,
};
use std::io::{Read, Write};
use std::net::TcpStream;
use tokio::sync::mpsc;

fn append(name: &str, head: &Head, lines: &[&str]) -> Append {
    Append {
        session_id: id(name),
        claim: head.owner.clone(),
        after: head.last.clone(),
        from: 1,
        first: head.last.seq + 1,
        through: head.last.seq + lines.len() as u64,
        lines: lines.iter().map(|line| line.as_bytes().to_vec()).collect(),
    }
}

async fn answers_are_those_of_the_tier(tier: &mut dyn Tier) {
    let mut pipe = tier.pipe().unwrap().unwrap();
    let (a, b) =
        (claimed(tier, &request("a", "n1", "x", None), LEASE), claimed(tier, &request("b", "n1", "x", None), LEASE));
    let large = "x".repeat(5 << 20);
    let both = [append("a", &a, &["one", "two"]), append("b", &b, &[&large, "two"])];
    assert_eq!(pipe.append(&both, LEASE).await, Ok(vec![Ok(Vec::new()), Ok(Vec::new())]));
    assert_eq!(lines(tier, "a"), ["one", "two"]);
    assert!(lines(tier, "b") == [&large, "two"]);
    // The answer was lost, and it is sent again.
    let again = pipe.append(&both, LEASE).await.unwrap();
    let is_known = |answer: &Result<_, Refusal>| matches!(answer, Err(Refusal::Apart(head)) if head.last.seq == 2 && head.last.at == Some(a.owner.clone()));
    assert!(again.iter().all(is_known), "{again:?}");
    tier.release(&id("a"), &a.owner, false).unwrap();
    let owner = claimed(tier, &request("a", "n2", "y", None), LEASE).owner;
    let late = [append("a", &a, &["late"]), append("b", &b, &["late"])];
    let late = pipe.append(&late, LEASE).await.unwrap();
    assert_eq!(late[0], Err(Refusal::Fenced(Some(owner))));
    assert!(is_known(&late[1]), "{late:?}");
    assert_eq!(lines(tier, "a"), ["one", "two"]);
}

#[tokio::test]
async fn the_pipe_of_memory_answers_as_memory_does() {
    answers_are_those_of_the_tier(&mut MemoryTier::default()).await;
}

#[tokio::test]
async fn the_pipe_of_redis_answers_as_redis_does() {
    let server = RedisServer::start();
    answers_are_those_of_the_tier(&mut *open(&server.url()).unwrap()).await;
}

/// Says something to the server on a connection of its own.
pub(crate) fn say(server: &RedisServer, command: &str) {
    let mut stream = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
    stream.write_all(format!("{command}\r\n").as_bytes()).unwrap();
    let mut answer = [0; 64];
    let bytes = stream.read(&mut answer).unwrap();
    assert!(matches!(answer.first(), Some(b'+' | b':')), "{command}: {}", String::from_utf8_lossy(&answer[..bytes]));
}

#[tokio::test]
async fn a_pipe_says_whether_it_broke_or_the_server_is_silent() {
    let server = RedisServer::start();
    let mut tier = open(&server.url()).unwrap();
    let head = claimed(&mut *tier, &request("a", "n1", "x", None), LEASE);
    let one = [append("a", &head, &["one"])];
    let mut without_script = tier.pipe().unwrap().unwrap();
    say(&server, "SCRIPT FLUSH");
    let broken = without_script.append(&one, LEASE).await;
    assert!(matches!(&broken, Err(PipeError::Broken { reason }) if reason.contains("NOSCRIPT")), "{broken:?}");
    let mut closed = tier.pipe().unwrap().unwrap();
    say(&server, "CLIENT KILL TYPE normal SKIPME yes");
    assert!(matches!(closed.append(&one, LEASE).await, Err(PipeError::Broken { .. })));
    let mut silent = tier.pipe().unwrap().unwrap();
    say(&server, "CLIENT PAUSE 60000 ALL");
    assert!(matches!(silent.append(&one, LEASE).await, Err(PipeError::Silent(_))));
}

fn ship(tier: Box<dyn Tier>) -> Ship {
    let node = NodeEntry { name: "n1".to_owned(), ..NodeEntry::default() };
    let (when_alone, remembered) = (WhenAlone::Serve, Remembered::default());
    Ship::start(ShipOptions { tier, node, when_alone, remembered, news: mpsc::unbounded_channel().0 }).unwrap()
}

fn record(id: &SessionId, seq: u64) -> Record {
    Record { session_id: id.clone(), seq, at: Timestamp::UNIX_EPOCH, event: Event::ShellStarted { generation: seq } }
}

/// Connections break and scripts are lost all the time, and everything settles, once and in order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_settle_once_while_connections_break() {
    let server = RedisServer::start();
    let mut tier = open(&server.url()).unwrap();
    let ship = ship(open(&server.url()).unwrap());
    let sessions: Vec<SessionId> = ["a", "b", "c"].map(id).into();
    for session in &sessions {
        let head = claimed(&mut *tier, &request(session.as_str(), "n1", "x", None), LEASE);
        let start = Start { claim: head.owner, created_at: None, from: 1, known: Some(head.last), seq: 0 };
        ship.begin(session, start, |_| None);
    }
    for seq in 1..=300 {
        sessions.iter().for_each(|session| ship.offer(&record(session, seq)));
        match seq % 30 {
            0 => say(&server, "CLIENT KILL TYPE normal SKIPME yes"),
            15 => say(&server, "SCRIPT FLUSH"),
            _ => {}
        }
        for session in &sessions {
            assert_eq!(ship.settle(session, seq).await, Settled::Kept, "{session} {seq}");
        }
    }
    for session in &sessions {
        let kept = lines(&mut *tier, session.as_str());
        let numbers: Vec<u64> = kept.iter().map(|line| serde_json::from_str::<Record>(line).unwrap().seq).collect();
        assert!(numbers.iter().copied().eq(1..=300), "{session}: {numbers:?}");
    }
}

/// The bug: a server that was silent was waited for once for each answer, so a node with many sessions, and each one
/// that connected anew and loaded its scripts, waited for many times as long as others wait for it.
#[test]
fn a_silent_server_is_waited_for_once() {
    let server = RedisServer::start();
    let mut tier = open(&server.url()).unwrap();
    let head = claimed(&mut *tier, &request("a", "n1", "x", None), LEASE);
    let many = vec![append("a", &head, &[]); 10_000];
    say(&server, "CLIENT PAUSE 600000 ALL");
    assert!(tier.append(&many, LEASE).is_err());
    assert!(tier.append(&many, LEASE).is_err(), "also if it must connect first");
}

/// How often the server refused `SET`.
fn refused(server: &RedisServer) -> u64 {
    let mut stream = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
    stream.write_all(b"INFO commandstats\r\nQUIT\r\n").unwrap();
    let mut told = String::new();
    stream.read_to_string(&mut told).unwrap();
    let line = told.lines().find(|line| line.starts_with("cmdstat_set:")).unwrap_or_default();
    let count = line.split(',').find_map(|part| part.strip_prefix("rejected_calls="));
    count.map_or(0, |count| count.parse().unwrap())
}

/// The bug: a server that answers and takes nothing counted as back, and was found to be away again with the next
/// record.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_takes_nothing_is_not_back() {
    let server = RedisServer::start();
    let ship = ship(open(&server.url()).unwrap());
    ship.tokens().wait_for(Option::is_some).await.unwrap();
    say(&server, "CONFIG SET maxmemory 1");
    let alone = ship.alone();
    alone.until_away().await;
    let tries = async {
        let before = refused(&server);
        shellkeep_poll::until_async(shellkeep_poll::LONG, "it is tried again", async || {
            (refused(&server) > before + 2).then_some(())
        })
        .await;
    };
    tokio::select! {
        () = alone.until_reached() => panic!("it takes nothing"),
        () = tries => {}
    }
    say(&server, "CONFIG SET maxmemory 0");
    alone.until_reached().await;
}

/// The bug: the reason named the same refusal once for each of nine commands.
#[test]
fn a_refusal_is_told_once() {
    let server = RedisServer::start();
    say(&server, "CONFIG SET requirepass secret");
    let reason = open(&server.url()).unwrap().ping().unwrap_err().reason;
    assert_eq!(reason.matches("uthentication required").count(), 1, "{reason}");
}
