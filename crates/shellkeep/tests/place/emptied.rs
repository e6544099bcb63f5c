//! Redis that was emptied, or is away, and sessions that it does not know any more.

use crate::nodes::run_when_taken_over;
use crate::redis::Redis;
use crate::support::Daemon;
use serde_json::json;
use shellkeep_poll::until;

/// Runs `echo $n` through a node until it is answered, and fails if the node says that there is no such session.
fn counted(daemon: &Daemon, session: &str) -> String {
    until("the session is answered for", || {
        let answer = daemon.post(&format!("/v1/sessions/{session}/run"), &json!({"command": "echo $n"}));
        assert!(matches!(answer.status, 200 | 503), "{} {}", answer.status, answer.text());
        (answer.status == 200).then(|| answer.json()["stdout"].as_str().unwrap_or_default().to_owned())
    })
}

/// A node has seen another.
fn knows(daemon: &Daemon, other: &str) {
    let (file, name) = (daemon.directory().join("data/nodes.given"), format!("{other} "));
    until("the other node is noted", || std::fs::read_to_string(&file).ok().filter(|text| text.contains(&name)));
}

fn refused(daemon: &Daemon, session: &str, code: &str) {
    let answer = daemon.get(&format!("/v1/sessions/{session}"));
    assert_eq!((answer.status, answer.json()["code"].as_str()), (503, Some(code)), "{}", answer.text());
    assert!(answer.header("retry-after").is_some(), "{}", answer.text());
}

/// The bug: a node looked at its sessions only after a new connection. One that slept when Redis was emptied was not
/// given again: 404 through other nodes for ever, and its name could be taken.
#[test]
fn sessions_are_given_again_to_a_redis_that_was_emptied() {
    let redis = Redis::start();
    let (first, second) = (redis.node("n1"), redis.node("n2"));
    for (session, number) in [("asleep", 1), ("awake", 2)] {
        first.create(session);
        first.sh(session, &format!("n={number}"));
    }
    knows(&second, "n1");
    first.hibernate("asleep");
    until("it sleeps", || redis.cli(&["EXISTS", "sk:{asleep}:lease"]).trim().eq("0").then_some(()));
    redis.cli(&["FLUSHALL"]);
    // Whatever has been noticed by then, the names are not free.
    for session in ["asleep", "awake"] {
        let answer = second.post("/v1/sessions", &json!({"session_id": session}));
        assert!(matches!(answer.status, 200 | 503), "{} {}", answer.status, answer.text());
    }
    assert_eq!(counted(&second, "awake"), "2\n");
    assert_eq!(counted(&second, "asleep"), "1\n");
    until("one that never was is known as such", || (second.get("/v1/sessions/never").status == 404).then_some(()));
    let sessions = second.get("/v1/sessions").json();
    assert_eq!(sessions["sessions"].as_array().map(Vec::len), Some(2), "nothing was forked: {sessions}");
}

/// The bug: a session whose node was down when Redis was emptied was unknown (404) until the node was back.
#[test]
fn a_session_whose_node_is_down_is_not_unknown_to_a_redis_that_was_emptied() {
    let redis = Redis::start();
    let (mut first, mut second) = (redis.node("n1"), redis.node("n2"));
    first.create("s");
    first.sh("s", "n=1");
    knows(&second, "n1");
    first.kill();
    redis.cli(&["FLUSHALL"]);
    until("it is noticed", || (second.get("/v1/sessions/s").status == 503).then_some(()));
    refused(&second, "s", "store_unavailable");
    // It is also known after a restart.
    second.restart();
    until("it is ready", || (second.get("/readyz").json()["status"] == "ready").then_some(()));
    refused(&second, "s", "store_unavailable");
    // Other sessions can be created meanwhile.
    until("another is created", || {
        (second.post("/v1/sessions", &json!({"session_id": "t"})).status == 201).then_some(())
    });
    first.restart();
    assert_eq!(counted(&second, "s"), "1\n");
}

/// The bug: while Redis was away, a node that never saw a session said that there is none.
#[test]
fn a_session_of_another_node_is_not_unknown_while_redis_is_away() {
    let mut redis = Redis::start();
    let (first, second) = (redis.node("n1"), redis.node("n2"));
    first.create("s");
    first.sh("s", "n=1");
    redis.stop();
    until("the node is alone", || (second.get("/readyz").json()["status"] == "degraded").then_some(()));
    refused(&second, "s", "store_unavailable");
    assert_eq!(counted(&first, "s"), "1\n");
    redis.restart();
    assert_eq!(counted(&second, "s"), "1\n");
    until("one that never was is known as such", || (second.get("/v1/sessions/never").status == 404).then_some(()));
}

/// The bug: a Redis that was emptied did not know any more what had been removed, and took it again from a node that had been down.
/// A session that has the name of a removed one is left alone.
#[test]
fn a_removed_session_does_not_come_back_after_redis_was_emptied() {
    let redis = Redis::start();
    let (mut first, mut second) = (redis.node("n1"), redis.node("n2"));
    for session in ["removed", "replaced"] {
        first.create(session);
        first.sh(session, "n=1; echo secret > f");
    }
    first.kill();
    for session in ["removed", "replaced"] {
        run_when_taken_over(&second, session, &json!({"command": "true"}));
        second.destroy(session);
    }
    second.create("replaced");
    second.sh("replaced", "n=2");
    // It knows of removals after a restart.
    second.restart();
    assert_eq!(counted(&second, "replaced"), "2\n");
    redis.cli(&["FLUSHALL"]);
    until("it has what is left", || {
        let seq = redis.cli(&["HGET", "sk:{replaced}:head", "seq"]);
        seq.trim().parse::<u64>().ok().filter(|seq| *seq > 0)
    });
    first.restart();
    for session in ["removed", "replaced"] {
        let copy = first.data().join("workspaces").join(session).join("f");
        until("the copy is deleted", || (!copy.exists()).then_some(()));
    }
    for daemon in [&first, &second] {
        assert_eq!(daemon.get("/v1/sessions/removed").status, 404);
        assert_eq!(counted(daemon, "replaced"), "2\n");
        let sessions = daemon.get("/v1/sessions").json();
        assert_eq!(
            sessions["sessions"].as_array().map(Vec::len),
            Some(1),
            "nothing came back or was forked: {sessions}"
        );
    }
}

/// The bug: a node with a copy of a removed session, which it gave to a Redis that had been emptied, had the name marked as removed. The
/// next session of the name, whose node was down, was deleted when that came back.
#[test]
fn a_living_session_is_not_taken_for_a_removed_one_of_its_name() {
    let redis = Redis::start();
    let (mut first, second, mut third) = (redis.node("n1"), redis.node("n2"), redis.node("n3"));
    first.create("s");
    first.sh("s", "n=1; echo secret > f");
    first.kill();
    run_when_taken_over(&second, "s", &json!({"command": "true"}));
    second.destroy("s");
    third.create("s");
    third.sh("s", "n=2; echo kept > g");
    third.kill();
    redis.cli(&["FLUSHALL"]);
    until("the mark is there again", || (!redis.cli(&["KEYS", "sk:{s}:removed:*"]).trim().is_empty()).then_some(()));
    first.restart();
    until("the copy is deleted", || (!first.data().join("workspaces/s/f").exists()).then_some(()));
    third.restart();
    assert_eq!(counted(&third, "s"), "2\n");
    assert_eq!(third.sh("s", "cat g").out(), "kept\n");
}
