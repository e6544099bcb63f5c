//! A session that is deleted at a node which does not know what became of it: another node has it by now, or may soon.

use crate::nodes::run_when_taken_over;
use crate::proxy::{Fault, Proxy};
use crate::redis::{Redis, settings};
use crate::support::daemon::signal;
use crate::support::{Daemon, Request};
use serde_json::json;
use shellkeep_poll::{pass, until, until_within};
use std::path::Path;
use std::thread;
use std::time::Duration;
use tempfile::TempDir;

/// How long a request has to reach a node that is stopped, where it waits.
const ON_ITS_WAY: Duration = Duration::from_millis(300);
/// Within this time another node answers for a session whose node is cut off: a renewal whose answer was lost, the lease
/// and 2 s.
const TAKEN_OVER: Duration = Duration::from_secs(9);

/// A node whose checkpoints and keyed stores all nodes can read.
fn sharing(name: &str, redis: &str, blobs: &Path) -> Daemon {
    Daemon::with(settings(name, redis).env("SHELLKEEP_BLOBS", &format!("file://{}", blobs.display())))
}

fn put(daemon: &Daemon, key: &str, value: &str) {
    let put = Request::new("PUT", &format!("/v1/sessions/s/kv/{key}")).json(json!(value).to_string());
    let answer = daemon.send(&put);
    assert!(answer.status < 300, "{}", answer.text());
}

fn value(daemon: &Daemon, key: &str) -> (u16, String) {
    let answer = daemon.get(&format!("/v1/sessions/s/kv/{key}"));
    (answer.status, answer.text())
}

/// The bug: a node that had been stopped, and whose session another node had taken, deleted the session's checkpoints and its keyed
/// store where all nodes read them, and answered 204. The session lived on; when its node died, its keys and files were gone.
#[test]
fn a_former_owner_deletes_nothing_of_a_session_that_went_on() {
    let (redis, blobs) = (Redis::start(), TempDir::new().expect("a temporary directory"));
    let url = format!("redis://{}", redis.address);
    let (first, mut second) = (sharing("n1", &url, blobs.path()), sharing("n2", &url, blobs.path()));
    first.create("s");
    first.sh("s", "n=1");
    put(&first, "a", "early");
    signal(first.pid(), "STOP");
    run_when_taken_over(&second, "s", &json!({"command": "n=2"}));
    put(&second, "b", "late");
    let deleted = thread::scope(|scope| {
        let asked = scope.spawn(|| Request::new("DELETE", "/v1/sessions/s").send(&first.door()));
        pass(ON_ITS_WAY);
        signal(first.pid(), "CONT");
        asked.join().expect("a thread").expect("an answer")
    });
    if deleted.status == 204 {
        // The request came late, and was sent to the node that has the session.
        assert_eq!(second.get("/v1/sessions/s").status, 404);
        return;
    }
    assert_eq!((deleted.status, deleted.json()["code"].as_str()), (503, Some("session_moved")), "{}", deleted.text());
    assert_eq!(second.sh("s", "echo $n").out(), "2\n");
    put(&second, "c", "later");
    second.kill();
    run_when_taken_over(&first, "s", &json!({"command": "true"}));
    for (key, expected) in [("a", "early"), ("b", "late"), ("c", "later")] {
        assert_eq!(value(&first, key), (200, json!(expected).to_string()));
    }
    // It can be deleted where it is.
    first.destroy("s");
    until("nothing of it is left for other nodes", || (!blobs.path().join("s").exists()).then_some(()));
}

/// The bug: a node that was cut off from Redis deleted what all nodes have of a session's files, and answered 204. Another node took
/// the session over without them, and when the first one was back it let the session live.
#[test]
fn what_a_node_that_is_cut_off_deleted_is_deleted_when_it_is_back() {
    let (redis, blobs) = (Redis::start(), TempDir::new().expect("a temporary directory"));
    let to_redis = Proxy::to(redis.address);
    let second = sharing("n2", &format!("redis://{}", redis.address), blobs.path());
    let first = sharing("n1", &format!("redis://{}", to_redis.address), blobs.path());
    first.create("s");
    first.sh("s", "n=1");
    put(&first, "a", "early");
    to_redis.set(Fault::BlackHole);
    to_redis.cut();
    until("it knows that Redis is away", || (first.get("/readyz").json()["status"] == "degraded").then_some(()));
    first.destroy("s");
    assert!(blobs.path().join("s").exists(), "until Redis can be told, another node may need it");
    until_within(TAKEN_OVER, "the other node takes it meanwhile", || {
        let answer = second.post("/v1/sessions/s/run", &json!({"command": "echo $n"}));
        (answer.status == 200).then(|| assert_eq!(answer.json()["stdout"], "1\n", "{}", answer.text()))
    });
    assert_eq!(value(&second, "a"), (200, json!("early").to_string()));

    to_redis.set(Fault::None);
    until("it is gone on all nodes", || (second.get("/v1/sessions/s").status == 404).then_some(()));
    until("nothing of it is left for other nodes", || (!blobs.path().join("s").exists()).then_some(()));
    until("its name is free", || {
        (second.post("/v1/sessions", &json!({"session_id": "s"})).status == 201).then_some(())
    });
    assert_eq!(second.sh("s", "echo \"<$n>\"").out(), "<>\n");
}
