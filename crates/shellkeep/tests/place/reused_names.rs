//! A name that is used again after its session was removed, while other nodes have a copy of the old one.

use crate::nodes::run_when_taken_over;
use crate::redis::Redis;
use crate::support::{Agent, Daemon, Request};
use crate::taken_back::lose;
use serde_json::json;
use shellkeep_poll::until;
use std::time::{Duration, Instant};

/// How long an owner that is to leave is waited for.
const LEAVING: Duration = Duration::from_secs(10);

/// A session of ann's on the first node, which loses it to the second.
fn lost_by_first(first: &Daemon, second: &Daemon) {
    first.create_with(json!({"session_id": "s", "agent": "ann"}));
    first.sh("s", "n=1; echo secret > f");
    let put = Request::new("PUT", "/v1/sessions/s/kv/colour").json(json!("blue").to_string());
    assert!(first.send(&put).status < 300);
    lose(first, second, &["s"]);
    assert!(first.data().join("workspaces/s/f").exists(), "it has a copy");
}

/// The bug: a node that had had a session kept its files and its keyed store, and the next session of the name, another agent's,
/// found them there. Before that, the node answered with the removed session.
#[test]
fn a_new_session_has_nothing_of_a_removed_one() {
    let redis = Redis::start();
    let (first, second) = (redis.node("n1"), redis.node("n2"));
    lost_by_first(&first, &second);
    second.destroy("s");
    let made = first.post("/v1/sessions", &json!({"session_id": "s", "agent": "bob"}));
    assert_eq!((made.status, made.json()["agent"].as_str()), (201, Some("bob")), "{}", made.text());
    assert_eq!(first.sh("s", "ls -A; echo \"<$n>\"").out(), "<>\n");
    assert_eq!(first.get("/v1/sessions/s/kv/colour").status, 404);
    let events = first.get("/v1/sessions/s/events").json();
    assert!(!events.to_string().contains("secret"), "{events}");
    assert_eq!(first.get("/v1/sessions/s/runs").json()["runs"].as_array().map(Vec::len), Some(1));
    // It is a session like any other.
    second.sh("s", "echo $((40 + 2))");
    first.destroy("s");
    assert_eq!(second.get("/v1/sessions/s").status, 404);
}

/// What a node had of a session that was removed while it was down is deleted when it starts.
#[test]
fn a_node_that_was_down_deletes_its_copy_of_a_removed_session() {
    let redis = Redis::start();
    let (mut first, second) = (redis.node("n1"), redis.node("n2"));
    lost_by_first(&first, &second);
    first.kill();
    second.destroy("s");
    first.restart();
    until("the copy is deleted", || (!first.data().join("workspaces/s").exists()).then_some(()));
    assert_eq!(first.get("/v1/sessions/s").status, 404);
}

/// The bug: a node with a copy of the removed session answered a creation with that one, or with 403 if it had been another agent's.
#[test]
fn a_former_node_answers_with_the_session_that_there_is() {
    let redis = Redis::start();
    let (first, second) = (redis.node("n1"), redis.node("n2"));
    lost_by_first(&first, &second);
    // Its own copy is older than what the other node has.
    let request = json!({"session_id": "s"});
    let found = first.post("/v1/sessions", &request);
    let there = second.get("/v1/sessions/s").json();
    assert_eq!((found.status, &found.json()["seq"]), (200, &there["seq"]), "{}", found.text());
    second.destroy("s");
    second.create_with(json!({"session_id": "s", "agent": "bob"}));
    let found = first.post("/v1/sessions", &request);
    assert_eq!((found.status, found.json()["agent"].as_str()), (200, Some("bob")), "{}", found.text());
}

/// The bug: a node that was down while its session was removed, and the name used again, declared its copy a fork of the new session,
/// with everything that had been removed.
#[test]
fn a_removed_session_does_not_come_back_as_a_fork() {
    let redis = Redis::start();
    let (mut first, mut second) = (redis.node("n1"), redis.node("n2"));
    first.create_with(json!({"session_id": "s", "agent": "ann"}));
    first.sh("s", "echo secret > f");
    first.kill();
    run_when_taken_over(&second, "s", &json!({"command": "true"}));
    second.destroy("s");
    second.create_with(json!({"session_id": "s", "agent": "bob"}));
    second.sh("s", "n=1");
    first.restart();
    until("the copy is gone", || (!first.data().join("workspaces/s").exists()).then_some(()));
    let list = first.get("/v1/sessions").json();
    let names: Vec<&str> =
        list["sessions"].as_array().expect("a list").iter().filter_map(|one| one["session_id"].as_str()).collect();
    assert_eq!(names, ["s"], "{list}");
    let answer = second.sh("s", "echo $n");
    assert_eq!((answer.out().as_str(), answer.notice_codes()), ("1\n", vec![]));
    assert!(!second.get("/v1/sessions/s/events").text().contains("session_forked"));
    // It also took the new session for the removed one's agent's when it took it over.
    let (ann, bob) = (Agent::named(&first, "ann"), Agent::named(&first, "bob"));
    second.kill();
    run_when_taken_over(&first, "s", &json!({"command": "true"}));
    assert_eq!((ann.get("/v1/sessions/s").status, bob.get("/v1/sessions/s").status), (404, 200));
}

/// The bug: a fork under the name of a removed session was answered with `session_not_found`, and with `session_exists` by a node that
/// had a copy of the removed one.
#[test]
fn a_fork_may_have_the_name_of_a_removed_session() {
    let redis = Redis::start();
    let (mut first, second) = (redis.node("n1"), redis.node("n2"));
    lost_by_first(&first, &second);
    second.create("t");
    for session in ["s", "t"] {
        second.destroy(session);
    }
    first.create_with(json!({"session_id": "origin", "agent": "bob"}));
    first.sh("origin", "n=7; echo mine > g");
    for session in ["s", "t"] {
        let fork = first.post("/v1/sessions/origin/fork", &json!({"session_id": session}));
        assert_eq!(fork.status, 201, "{session}: {}", fork.text());
        assert_eq!(first.sh(session, "ls -A; echo $n").out(), "g\n7\n");
        assert_eq!(first.get(&format!("/v1/sessions/{session}/kv/colour")).status, 404);
        assert_eq!(second.sh(session, "echo $n").out(), "7\n");
    }
    // It is in the shared store like any other.
    first.kill();
    let (answer, _) = run_when_taken_over(&second, "s", &json!({"command": "echo $n"}));
    assert_eq!(answer["stdout"], "7\n");
}

/// The bug: a node that learned from a request that another had removed a session forgot the name, and then kept what it had of it.
#[test]
fn what_has_no_name_any_more_is_deleted() {
    let redis = Redis::start();
    let first = redis.node("n1");
    first.create("s");
    first.sh("s", "echo secret > f");
    first.hibernate("s");
    until("it sleeps", || redis.cli(&["GET", "sk:{s}:lease"]).trim().is_empty().then_some(()));
    // Another node takes it and removes it.
    redis.cli(&["DEL", "sk:{s}:head", "sk:{s}:log", "sk:{s}:base", "sk:{s}:next", "sk:{s}:packed"]);
    redis.cli(&["HSET", "sk:{s}:head", "removed", "1", "owner", "9.n2.x"]);
    assert_eq!(first.post("/v1/sessions/s/run", &json!({"command": "true"})).status, 404);
    assert!(first.data().join("workspaces/s/f").exists(), "it is deleted with the next look");
    redis.cli(&["CLIENT", "KILL", "TYPE", "normal"]);
    until("it is deleted", || (!first.data().join("workspaces/s/f").exists()).then_some(()));
}

/// The bug: a fork under the name of a session that was awake waited for that to fall asleep before it was refused.
#[test]
fn a_fork_does_not_wait_for_the_session_that_has_its_name() {
    let redis = Redis::start();
    let first = redis.node("n1");
    for session in ["origin", "taken"] {
        first.create(session);
        first.sh(session, "true");
    }
    let asked = Instant::now();
    let fork = first.post("/v1/sessions/origin/fork", &json!({"session_id": "taken"}));
    assert_eq!((fork.status, fork.json()["code"].as_str()), (409, Some("session_exists")), "{}", fork.text());
    assert!(asked.elapsed() < LEAVING, "it waited");
    assert_eq!(first.sh("taken", "echo here").out(), "here\n");
}
