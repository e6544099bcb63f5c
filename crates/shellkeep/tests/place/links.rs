//! The connections between nodes.

use crate::proxy::{Fault, Proxy};
use crate::redis::Redis;
use crate::support::{Daemon, Request};
use serde_json::json;
use shellkeep_poll::until;
use std::fs;

/// Each request that was sent on had a connection of its own, which cost more than the command.
#[test]
fn a_connection_to_another_node_is_used_again() {
    let (redis, proxy) = (Redis::start(), Proxy::open());
    let (first, second) = (redis.node_behind(&proxy, "n1"), redis.node("n2"));
    first.create("s");
    for count in 1..=30 {
        let ran = second.post("/v1/sessions/s/run", &json!({"command": "n=$((n+1)); echo $n"}));
        assert_eq!(
            (ran.json()["stdout"].clone(), ran.header("shellkeep-node")),
            (json!(format!("{count}\n")), Some("n1"))
        );
    }
    assert!((1..10).contains(&proxy.accepted()), "{} connections", proxy.accepted());
}

/// A connection that was kept may have ended meanwhile.
#[test]
fn a_connection_that_was_closed_is_replaced() {
    let (redis, proxy) = (Redis::start(), Proxy::open());
    let (mut first, second) = (redis.node_behind(&proxy, "n1"), redis.node("n2"));
    first.create("s");
    let asked = || second.get("/v1/sessions/s");
    assert_eq!(asked().header("shellkeep-node"), Some("n1"));
    let before = proxy.accepted();
    proxy.cut();
    // The node learns of it when it next looks at the connection.
    let again = until("the node has learned of it", || Some(asked()).filter(|answer| answer.status == 200));
    assert_eq!(again.header("shellkeep-node"), Some("n1"));
    assert!(proxy.accepted() > before);

    assert_eq!(first.stop(), Some(0), "connections that others keep do not hold up the end of a node");
}

/// The node lives, so nothing but the link itself says that no answer will come. Requests on a kept connection waited for ever.
#[test]
fn what_waits_for_a_link_that_loses_everything_is_answered() {
    let (redis, proxy) = (Redis::start(), Proxy::open());
    let (first, second) = (redis.node_behind(&proxy, "n1"), redis.node("n2"));
    first.create("s");
    assert_eq!(second.sh("s", "n=0; echo $n").out(), "0\n");
    for (fault, key) in [(Fault::BlackHole, "k1"), (Fault::AnswersLost, "k2")] {
        let count = json!({"command": "n=$((n+1)); echo $n", "request_id": key});
        proxy.set(fault);
        let lost = second.post("/v1/sessions/s/run", &count);
        assert_eq!((lost.status, lost.json()["code"].as_str()), (503, Some("owner_unreachable")), "{}", lost.text());
        assert!(
            lost.json()["detail"].as_str().is_some_and(|detail| detail.contains("may have run")),
            "{}",
            lost.text()
        );
        proxy.set(Fault::None);
        let again = until("the link is back", || {
            Some(second.post("/v1/sessions/s/run", &count)).filter(|answer| answer.status == 200)
        });
        assert_eq!((again.header("shellkeep-node"), again.json()["status"].as_str()), (Some("n1"), Some("exited")));
    }
    // Whether a request arrived or not, its command ran once.
    assert_eq!(first.sh("s", "echo $n").out(), "2\n");

    let (mut live, _) = second.stream_from_start("s", &json!({"command": "echo first; sleep 1000", "timeout": 600}));
    assert!(live.next_event().expect("its first line").data.contains("first"));
    proxy.set(Fault::AnswersLost);
    let last = live.next_event().expect("the end is told");
    assert_eq!(last.event, "error", "{}", last.data);
    assert!(last.data.contains("owner_unreachable") && live.next_event().is_none(), "{}", last.data);
}

/// Every request that was sent on asked the shared store twice for where to.
#[test]
fn the_node_that_answered_is_asked_again_without_the_store() {
    let redis = Redis::start();
    let (first, second) = (redis.node("n1"), redis.node("n2"));
    first.create("s");
    // A node knows that a session is its own while it is awake.
    first.sh("s", "true");
    let before = redis.calls("hmget");
    for _ in 0..30 {
        assert_eq!(second.get("/v1/sessions/s").header("shellkeep-node"), Some("n1"));
    }
    let asked = redis.calls("hmget") - before;
    assert!((1..15).contains(&asked), "asked {asked} times");
}

/// What was known of a session a moment ago is no reason to refuse it.
#[test]
fn a_session_that_moved_is_found_at_its_new_node() {
    let redis = Redis::start();
    let (first, second) = (redis.node("n1"), redis.node("n2"));
    first.create("s");
    first.sh("s", "v=1");
    assert_eq!(second.get("/v1/sessions/s").header("shellkeep-node"), Some("n1"));
    let drained = first.post("/v1/nodes/n1/drain?wait=30", &json!({}));
    assert_eq!(drained.json()["status"], "drained", "{}", drained.text());
    let ran = second.post("/v1/sessions/s/run", &json!({"command": "echo $v"}));
    assert_eq!((ran.json()["stdout"].clone(), ran.header("shellkeep-node")), (json!("1\n"), None), "{}", ran.text());

    // The same if the node has stopped.
    let third = redis.node("n3");
    assert_eq!(third.get("/v1/sessions/s").header("shellkeep-node"), Some("n2"));
    let mut second = second;
    assert_eq!(second.stop(), Some(0));
    let ran = third.post("/v1/sessions/s/run", &json!({"command": "echo $v"}));
    assert_eq!((ran.json()["stdout"].clone(), ran.header("shellkeep-node")), (json!("1\n"), None), "{}", ran.text());
}

/// A connection that is kept must not keep a command whose caller has gone.
#[test]
fn a_disconnect_reaches_the_node_that_runs_the_command() {
    let redis = Redis::start();
    let (first, second) = (redis.node("n1"), redis.node("n2"));
    first.create("s");
    let fifo = first.cwd("s").join("fifo");
    first.sh("s", "mkfifo fifo");
    assert_eq!(second.get("/v1/sessions/s").header("shellkeep-node"), Some("n1"));
    let body = json!({"command": "echo > fifo; sleep 1000", "timeout": 600, "on_disconnect": "interrupt"});
    // Before its answer begins.
    let caller =
        Request::new("POST", "/v1/sessions/s/run").json(body.to_string()).open_and_leave(&second.door()).unwrap();
    fs::read(&fifo).unwrap();
    drop(caller);
    assert_interrupted(&first);
    // In the middle of it.
    let (live, _) = second.stream_from_start("s", &body);
    fs::read(&fifo).unwrap();
    drop(live);
    assert_interrupted(&first);
    assert_eq!(second.get("/v1/sessions/s").header("shellkeep-node"), Some("n1"));
}

/// Waits for the end of the last command of the session.
fn assert_interrupted(daemon: &Daemon) {
    let ended = until("the command ends", || {
        let run = daemon.get("/v1/sessions/s/runs?limit=1").json()["runs"][0].clone();
        (run["status"] != json!("running")).then_some(run)
    });
    assert_eq!(ended["status"], json!("interrupted"), "{ended}");
}
