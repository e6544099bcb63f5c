//! A node that is drained or stopped: its services end before another node starts them again, and whatever was asked for is
//! done once.

use crate::redis::Redis;
use crate::support::daemon::signal;
use crate::support::gap::Gap;
use crate::support::{Daemon, procs, services};
use serde_json::{Value, json};
use shellkeep_poll::{pass, until};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How a node leaves.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Leaves {
    Drained,
    Stopped,
}

/// Ends what goes on beside a test when that is over, also if it fails.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
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
            let over = Over(&is_over);
            match leaves {
                Leaves::Drained => {
                    let drained = second.post("/v1/nodes/n1/drain?wait=30", &json!({}));
                    assert_eq!(drained.json()["status"], "drained", "{}\n{}", drained.text(), first.log());
                    // It used to be listed with its last session until its next sign of life.
                    assert_eq!(status_of(&second, "n1"), (json!("drained"), json!(0)));
                }
                Leaves::Stopped => assert_eq!(first.stop(), Some(0)),
            }
            drop(over);
            assert!(!procs::alive(pid), "{leaves:?}: {}", first.log());
        });
        second.sh("s", "true");
        let seen = std::fs::read_to_string(&witness).expect("a file");
        assert!(!seen.contains("twice"), "{leaves:?}: {seen}");
    }
}

/// The bug: a node that restarted gave up its leases and left the others' list, while its services went on, so that another node
/// took its sessions and started the services a second time.
#[test]
fn a_node_that_restarts_keeps_its_sessions() {
    let redis = Redis::start();
    let (first, gap) = Gap::daemon(redis.settings("n1"));
    let second = redis.node("n2");
    first.create("s");
    let [lock, witness] = ["lock", "witness"].map(|name| redis.directory().join(name));
    let command = slow_to_end(&lock, &witness);
    let pid = services::pid(&first.start_service("s", json!({"command": command, "restart": "always"})));
    first.sh("s", "x=kept");
    gap.restart(&first);
    let answer = second.post("/v1/sessions/s/run", &json!({"command": "true"}));
    assert_eq!((answer.status, &answer.json()["code"]), (503, &json!("owner_unreachable")), "{}", answer.text());
    gap.go_on();
    let reply = until("it is back", || {
        let answer = second.post("/v1/sessions/s/run", &json!({"command": "echo $x"}));
        (answer.status == 200).then(|| answer.json())
    });
    assert_eq!((&reply["stdout"], &reply["notices"]), (&json!("kept\n"), &json!([])), "{reply}");
    assert_eq!(status_of(&second, "n1").0, json!("up"));
    assert!(procs::alive(pid), "{}", first.log());
    assert_eq!(std::fs::read_to_string(&witness).expect("a file"), "begun\n");
}

/// The bug: a restart that a signal turned into a stop did not drain the node, and left its services running.
#[test]
fn a_restart_that_becomes_a_stop_ends_services() {
    let redis = Redis::start();
    let mut first = Daemon::with(redis.settings("n1").env("SHELLKEEP_STOP_GRACE", "600s"));
    let second = redis.node("n2");
    first.create("s");
    first.create("busy");
    let [lock, witness] = ["lock", "witness"].map(|name| redis.directory().join(name));
    let command = slow_to_end(&lock, &witness);
    let pid = services::pid(&first.start_service("s", json!({"command": command, "restart": "always"})));
    until("it began", || std::fs::read_to_string(&witness).is_ok_and(|text| text == "begun\n").then_some(()));
    let mut events = first.stream("busy", &json!({"command": "echo begun; sleep 600", "timeout": 600}));
    while !events.next_event().expect("it runs").data.contains("begun") {}
    assert_eq!(first.post("/v1/daemon/stop", &json!({"restart": true})).status, 202);
    until("it waits for the command", || (first.get("/readyz").json()["status"] == "degraded").then_some(()));
    assert_eq!(first.stop(), Some(0), "{}", first.log());
    assert!(!procs::alive(pid), "{}", first.log());
    let moved = second.sh("s", "true");
    assert!(moved.notice_codes().contains(&"service_ended"), "{:?}", moved.notice_codes());
    until("it began again", || {
        let seen = std::fs::read_to_string(&witness).expect("a file");
        assert!(!seen.contains("twice"), "{seen}");
        (seen.lines().count() == 2).then_some(())
    });
}

/// What was stopped in order used to stay stopped, whatever its restart policy.
#[test]
fn services_of_a_drained_node_start_again_by_their_policy() {
    let redis = Redis::start();
    let (first, second) = (redis.node("n1"), redis.node("n2"));
    first.create("s");
    let [always, on_failure, never] = ["always", "on_failure", "never"].map(|policy| {
        // It ends with success when it is asked to.
        let command = "trap 'exit 0' TERM; while :; do sleep 0.05; done";
        first.start_service("s", json!({"command": command, "name": policy, "restart": policy}))
    });
    let drained = second.post("/v1/nodes/n1/drain?wait=30", &json!({}));
    assert_eq!(drained.json()["status"], "drained", "{}", drained.text());
    let moved = second.sh("s", "true");
    assert!(moved.notice_codes().contains(&"service_ended"), "{:?}", moved.notice_codes());
    for service in [&always, &on_failure] {
        second.service_until("s", services::id(service), "running");
    }
    let stays = second.service("s", services::id(&never));
    assert_eq!(stays["status"], "stopped", "{stays}");
    assert!(stays.to_string().contains("its node was drained"), "{stays}");
    assert_eq!(second.all_services().len(), 2);
}

/// A node that was drained and started again goes on with what no other node has taken.
#[test]
fn a_drained_node_that_starts_again_starts_its_services_again() {
    let redis = Redis::start();
    let mut first = redis.node("n1");
    first.create("s");
    let service = first.start_service("s", json!({"command": "sleep 1000", "restart": "always"}));
    assert_eq!(first.stop(), Some(0));
    assert!(!procs::alive(services::pid(&service)));
    first.restart();
    first.service_until("s", services::id(&service), "running");
}

/// The bug: a session whose commands followed each other without a pause was never let go of.
#[test]
fn a_busy_session_leaves_a_node_that_is_drained() {
    let redis = Redis::start();
    let (first, second) = (redis.node("n1"), redis.node("n2"));
    first.create("s");
    first.sh("s", "n=0");
    let witness = redis.directory().join("witness");
    let body = json!({"command": format!("n=$((n+1)); sleep 0.05; echo >> {}", witness.display())});
    let lines = || std::fs::read_to_string(&witness).map_or(0, |text| text.lines().count());
    let is_over = AtomicBool::new(false);
    let ask = |daemon: &Daemon| {
        let mut count = 0_usize;
        while !is_over.load(Ordering::SeqCst) {
            let answer = daemon.post("/v1/sessions/s/run", &body);
            assert_eq!((answer.status, answer.json()["exit_code"].as_i64()), (200, Some(0)), "{}", answer.text());
            count += 1;
        }
        count
    };
    let ask = &ask;
    let answered: usize = std::thread::scope(|scope| {
        let asking = [&first, &first, &second, &second].map(|daemon| scope.spawn(move || ask(daemon)));
        let over = Over(&is_over);
        until("they are busy", || (lines() > 4).then_some(()));
        let drained = second.post("/v1/nodes/n1/drain?wait=30", &json!({}));
        let before = lines();
        until("they go on elsewhere", || (lines() > before + 4).then_some(()));
        drop(over);
        assert_eq!(drained.json()["status"], "drained", "{}", drained.text());
        asking.map(|asked| asked.join().expect("all are answered")).iter().sum()
    });
    assert_eq!(lines(), answered, "each ran once");
    let counted = first.post("/v1/sessions/s/run", &json!({"command": "echo $n"}));
    assert_eq!(counted.header("shellkeep-node"), Some("n2"), "{}", counted.text());
    assert_eq!(counted.json()["stdout"], format!("{answered}\n"));
}

/// The bug: a session that slept while a command of it ran in the background was let go of, and the command was lost.
#[test]
fn a_command_in_the_background_keeps_its_session_until_it_ends() {
    let redis = Redis::start();
    let (first, second) = (redis.node("n1"), redis.node("n2"));
    first.create("s");
    let gate = redis.directory().join("go");
    let command = format!("until [ -e {} ]; do sleep 0.02; done", gate.display());
    let run = first.run("s", json!({"command": command, "timeout": 0.2, "on_timeout": "background"}));
    let run_id = run.json["run_id"].as_str().expect("an id").to_owned();
    first.hibernate("s");
    until("the session sleeps", || (redis.cli(&["EXISTS", "sk:{s}:lease"]).trim() == "0").then_some(()));

    assert_eq!(second.post("/v1/nodes/n1/drain?wait=0", &json!({})).status, 200);
    until("the other node knows", || (status_of(&second, "n1") == (json!("draining"), json!(1))).then_some(()));
    let meanwhile = second.post("/v1/sessions/s/run", &json!({"command": "echo here"}));
    assert_eq!((meanwhile.status, meanwhile.header("shellkeep-node")), (200, Some("n1")), "{}", meanwhile.text());
    std::fs::write(&gate, "").expect("a file");
    let drained = second.post("/v1/nodes/n1/drain?wait=30", &json!({}));
    assert_eq!(drained.json()["status"], "drained", "{}", drained.text());
    let ended = second.get(&format!("/v1/sessions/s/runs/{run_id}")).json();
    assert_eq!(ended["exit_code"], 0, "{ended}");
}

/// The bug: a command that was sent on to a node that was stopping, while another ran in its session, was answered with
/// `shutting_down`, although other nodes were there to run it.
#[test]
fn a_command_for_a_node_that_stops_runs_on_the_next_one() {
    let redis = Redis::start();
    let first = Daemon::with(redis.settings("n1").env("SHELLKEEP_STOP_GRACE", "600s"));
    let second = redis.node("n2");
    first.create("s");
    let gate = redis.directory().join("go");
    let waits = format!("n=1; echo begun; until [ -e {} ]; do sleep 0.02; done; n=2", gate.display());
    let mut events = first.stream("s", &json!({"command": waits}));
    while !events.next_event().expect("it runs").data.contains("begun") {}
    signal(first.pid(), "TERM");
    until("it is about to stop", || (status_of(&second, "n1").0 == json!("draining")).then_some(()));
    let answer = std::thread::scope(|scope| {
        let asked = scope.spawn(|| second.post("/v1/sessions/s/run", &json!({"command": "echo $n"})));
        // It used to be refused at once.
        pass(Duration::from_millis(300));
        std::fs::write(&gate, "").expect("a file");
        asked.join().expect("it is answered")
    });
    assert_eq!((answer.status, answer.json()["stdout"].as_str()), (200, Some("2\n")), "{}", answer.text());
}
