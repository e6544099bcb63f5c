//! Names that were claimed and given back without a record. The bug: each fork that was refused because its files were not
//! apart left one behind, for ever.

use crate::contract::{LEASE, NO_LIMIT, RedisServer, claimed, id, postgres, request, send};
use crate::emptied::execute;
use shellkeep_session::ownership::Head;
use shellkeep_shared::{ClaimRequest, Tier, open};
use std::io::{Read, Write};
use std::net::TcpStream;

/// Claims the name of a session that is to be created.
fn create(tier: &mut dyn Tier, name: &str, node: &str) -> Head {
    claimed(tier, &ClaimRequest { create: Some(NO_LIMIT), ..request(name, node, "x", None) }, LEASE)
}

/// The first line that the server answers to a command.
fn answer(server: &RedisServer, command: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
    stream.write_all(format!("{command}\r\nQUIT\r\n").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.lines().next().unwrap().to_owned()
}

/// Whether the head of a session stays for ever.
fn stays(server: &RedisServer, name: &str) -> bool {
    let answer = answer(server, &format!("PTTL sk:{{{name}}}:head"));
    let expiry: i64 = answer.strip_prefix(':').unwrap().parse().unwrap();
    assert_ne!(expiry, -2, "it is not there");
    expiry == -1
}

#[test]
fn redis_forgets_a_name_that_was_given_back() {
    let server = RedisServer::start();
    let mut tier = open(&server.url()).unwrap();
    let tier = &mut *tier;
    let first = create(tier, "a", "n1");
    assert!(stays(&server, "a"));
    tier.release(&id("a"), &"7.n7.x".parse().unwrap(), false).unwrap();
    assert!(stays(&server, "a"), "only who has it gives it back");
    tier.release(&id("a"), &first.owner, false).unwrap();
    assert!(!stays(&server, "a"));
    // It is claimed again meanwhile, under a later epoch.
    let second = create(tier, "a", "n2");
    assert!(stays(&server, "a") && second.owner.epoch > first.owner.epoch);
    // One who gave it back goes on, as nobody claimed it since.
    let nothing: &[&str] = &[];
    for lines in [nothing, &["one"]] {
        tier.release(&id("a"), &second.owner, false).unwrap();
        assert!(!stays(&server, "a"));
        send(tier, "a", &second, 1, lines).unwrap();
        assert!(stays(&server, "a"));
    }
    tier.release(&id("a"), &second.owner, true).unwrap();
    assert!(stays(&server, "a"), "it has a record");
}

/// The bug: a build that knows of no expiry claimed a name that was given back, and did not take the expiry from it. The session
/// that it created under the name lost its head within the minute. Such a build deletes a head without an owner before it claims.
#[test]
fn a_name_that_was_given_back_has_no_owner() {
    let server = RedisServer::start();
    let mut tier = open(&server.url()).unwrap();
    let tier = &mut *tier;
    let owner = || answer(&server, "HGET sk:{a}:head owner");
    let first = create(tier, "a", "n1");
    assert_ne!(owner(), "$-1");
    tier.release(&id("a"), &first.owner, false).unwrap();
    assert_eq!(owner(), "$-1", "nobody has it");
    assert_eq!(tier.find(&id("a")).unwrap().map(|found| found.head.owner), Some(first.owner.clone()));
    send(tier, "a", &first, 1, &[]).unwrap();
    assert_ne!(owner(), "$-1", "who gave it back goes on");
    tier.release(&id("a"), &first.owner, false).unwrap();
    tier.remove(&id("a"), &first.owner).unwrap();
    assert_eq!(tier.find(&id("a")).unwrap(), None);
}

#[test]
fn postgres_forgets_a_name_that_was_given_back() {
    let server = postgres();
    let mut tier = open(&server.url()).unwrap();
    let tier = &mut *tier;
    let [given_back, used] = ["a", "b"].map(|name| create(tier, name, "n1"));
    let used = send(tier, "b", &used, 1, &["one"]).unwrap();
    for (name, head) in [("a", &given_back), ("b", &used)] {
        tier.release(&id(name), &head.owner, false).unwrap();
    }
    create(tier, "c", "n1");
    let known = |tier: &mut dyn Tier| ["a", "b", "c"].map(|name| tier.find(&id(name)).unwrap().is_some());
    assert_eq!(known(tier), [true; 3], "the next owner has a later epoch");
    execute(
        &server.url(),
        "UPDATE sk_shared_heads SET lease_until = lease_until - interval '1 h' WHERE session_id <> 'c'",
    );
    // The agent that left it behind creates another session.
    create(tier, "d", "n1");
    assert_eq!(known(tier), [false, true, true]);
    assert_eq!(create(tier, "a", "n2").last.seq, 0);
}
