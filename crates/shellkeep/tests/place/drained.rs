//! A node that is drained or stopped: its services end before another node starts them again, and whatever was asked for is
//! done once.

use crate::redis::Redis;
use crate::support::{Daemon, procs, services};
use serde_json::{Value, json};
use shellkeep_poll::until;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// How a node leaves.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Leaves {
    Drained,
    Stopped,
}

/// What a node says of another.
fn status_of(daemon: &Daemon, name: &str) -> (Value, Value) {
    let nodes = daemon.get("/v1/nodes").json();
    let found = nodes["nodes"].as_array().expect("a list").iter().find(|node| node["name"] == name);
    let node = found.unwrap_or_else(|| panic!("no {name} in {nodes}"));
    (node["status"].clone(), node["sessions"].clone())
}

/// A service that takes its time to end, and writes down if it finds another of its kind running.
fn slow_to_end(lock: &Path, witness: &Path) -> String {
    let (lock, witness) = (lock.display(), witness.display());
    format!(
        "trap 'sleep 0.3; exit 0' TERM; exec 9>>{lock}; flock -n 9 || echo twice >> {witness}; echo begun >> {witness}; \
         while :; do sleep 0.05; done"
    )
}

/// The bug: a node with sleeping sessions was drained at once, and left their services running while another node started them
/// again.
#[test]
fn services_end_before_another_node_starts_them_again() {
    for leaves in [Leaves::Drained, Leaves::Stopped] {
        let redis = Redis::start();
        let (mut first, second) = (redis.node("n1"), redis.node("n2"));
        first.create("s");
        let [lock, witness] = ["lock", "witness"].map(|name| redis.directory().join(name));
        let command = slow_to_end(&lock, &witness);
        let pid = services::pid(&first.start_service("s", json!({"command": command, "restart": "always"})));
        until("it began", || std::fs::read_to_string(&witness).is_ok_and(|text| text == "begun\n").then_some(()));
        until("the session sleeps", || (redis.cli(&["EXISTS", "sk:{s}:lease"]).trim() == "0").then_some(()));

        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            // Takes the session as soon as it can be had.
            scope.spawn(|| {
                while !is_over.load(Ordering::SeqCst) {
                    let answer = second.post("/v1/sessions/s/run", &json!({"command": "true"}));
                    assert!(matches!(answer.status, 200 | 503), "{}", answer.text());
                }
            });
            match leaves {
                Leaves::Drained => {
                    let drained = second.post("/v1/nodes/n1/drain?wait=30", &json!({}));
                    assert_eq!(drained.json()["status"], "drained", "{}", drained.text());
                    // It used to be listed with its last session until its next sign of life.
                    assert_eq!(status_of(&second, "n1"), (json!("drained"), json!(0)));
                }
                Leaves::Stopped => assert_eq!(first.stop(), Some(0)),
            }
            is_over.store(true, Ordering::SeqCst);
            assert!(!procs::alive(pid), "{leaves:?}: {}", first.log());
        });
        second.sh("s", "true");
        let seen = std::fs::read_to_string(&witness).expect("a file");
        assert!(!seen.contains("twice"), "{leaves:?}: {seen}");
    }
}
