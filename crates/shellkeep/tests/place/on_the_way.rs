//! Who follows or uses a session through a node while the session moves to another one.

use crate::nodes::run_when_taken_over;
use crate::redis::Redis;
use crate::support::daemon::signal;
use crate::support::http::{LiveResponse, ServerEvent};
use crate::support::{Daemon, Request, Response};
use serde_json::{Value, json};
use shellkeep_poll::{pass, until};
use std::sync::mpsc;
use std::time::Duration;

/// How long a stream of which nothing is expected any more may stay open.
const ENDED: Duration = Duration::from_secs(20);

fn follow(daemon: &Daemon, session: &str, after: Option<&str>) -> LiveResponse {
    let request = Request::new("GET", &format!("/v1/sessions/{session}/events"));
    let request = request.header("accept", "text/event-stream");
    let request = match after {
        Some(id) => request.header("last-event-id", id),
        None => request,
    };
    let live = request.open(&daemon.door()).expect("the daemon answers");
    assert_eq!(live.status, 200);
    live
}

/// All events of a stream that ends. It is read aside, since a stream that does not end still sends comments.
fn all_of(mut live: LiveResponse) -> Vec<ServerEvent> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let events: Vec<ServerEvent> = std::iter::from_fn(|| live.next_event()).collect();
        // A test that failed meanwhile does not wait for it.
        let _ = sender.send(events);
    });
    receiver.recv_timeout(ENDED).expect("the stream ends")
}

/// Checks that a stream said that its session moved, and follows on from its last event through the same node.
fn goes_on_elsewhere(live: LiveResponse, asked: &Daemon, owner: (&Daemon, &str), session: &str) {
    let events = all_of(live);
    let last = events.last().expect("an event");
    assert!(last.event == "error" && last.data.contains("owner_unreachable"), "{last:?}");
    let after = events.iter().rev().find_map(|event| event.id.clone()).expect("a number");
    owner.0.sh(session, "echo later");
    let mut again = follow(asked, session, Some(&after));
    let node = again.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("shellkeep-node"));
    assert_eq!(node.map(|(_, value)| value.as_str()), Some(owner.1));
    let next = again.next_event().expect("an event").id.expect("a number");
    assert_eq!(next.parse::<u64>().unwrap(), after.parse::<u64>().unwrap() + 1);
}

/// The bug: who followed a session at the node that had it got comments and nothing else after it had moved. Through another
/// node, the stream ended with an error.
#[test]
fn who_follows_a_session_of_a_node_that_is_drained_is_told() {
    let redis = Redis::start();
    let (first, second) = (redis.node("n1"), redis.node("n2"));
    for session in ["awake", "asleep"] {
        first.create(session);
        first.sh(session, "true");
    }
    first.hibernate("asleep");
    let followed = ["awake", "asleep"].map(|session| (session, follow(&first, session, None)));
    let drained = second.post("/v1/nodes/n1/drain?wait=30", &json!({}));
    assert_eq!(drained.json()["status"], "drained", "{}", drained.text());
    for (session, live) in followed {
        goes_on_elsewhere(live, &first, (&second, "n2"), session);
    }
}

/// The same of a node that was stopped for longer than its lease.
#[test]
fn who_follows_a_session_that_its_node_lost_is_told() {
    let redis = Redis::start();
    let (first, second) = (redis.node("n1"), redis.node("n2"));
    first.create("s");
    first.sh("s", "true");
    let followed = follow(&first, "s", None);
    signal(first.pid(), "STOP");
    run_when_taken_over(&second, "s", &json!({"command": "true"}));
    signal(first.pid(), "CONT");
    goes_on_elsewhere(followed, &first, (&second, "n2"), "s");
}

/// Asks a node about MCP, as a client of the host that names no session.
fn ask_mcp(daemon: &Daemon, mcp_session: Option<&str>, message: &Value) -> Response {
    let request = Request::new("POST", "/mcp").header("accept", "application/json, text/event-stream");
    let request = match mcp_session {
        Some(id) => request.header("mcp-session-id", id).header("mcp-protocol-version", "2025-06-18"),
        None => request,
    };
    daemon.send(&request.json(message.to_string()))
}

fn begin_mcp(daemon: &Daemon) -> String {
    let client = json!({"name": "test", "version": "1"});
    let params = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client});
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
    let answer = ask_mcp(daemon, None, &message);
    assert_eq!(answer.status, 200, "{}", answer.text());
    let id = answer.header("mcp-session-id").expect("a session").to_owned();
    ask_mcp(daemon, Some(&id), &json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    id
}

fn call_mcp(daemon: &Daemon, id: &str, command: &str) -> Response {
    let params = json!({"name": "run_command", "arguments": {"command": command}});
    ask_mcp(daemon, Some(id), &json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params}))
}

/// The bug: the MCP session of a client that names no session stayed on the node that was drained, and each call of a tool
/// said that the session was about to leave, until the client began anew by itself.
#[test]
fn an_mcp_session_without_a_name_is_unknown_when_its_session_has_left() {
    let redis = Redis::start();
    let (first, second) = (redis.node("n1"), redis.node("n2"));
    let (used, unused) = (begin_mcp(&first), begin_mcp(&first));
    assert!(used.starts_with("n1."), "{used}");
    until("the other node knows it", || {
        call_mcp(&second, &used, "echo v is $((40 + 2))").text().contains("v is 42").then_some(())
    });
    let drained = second.post("/v1/nodes/n1/drain?wait=30", &json!({}));
    assert_eq!(drained.json()["status"], "drained", "{}", drained.text());
    for (daemon, id) in [(&first, &used), (&second, &used), (&first, &unused)] {
        let gone = call_mcp(daemon, id, "true");
        assert_eq!(gone.status, 404, "{}", gone.text());
    }
    let again = begin_mcp(&first);
    assert!(again.starts_with("n2."), "{again}");
    let called = call_mcp(&first, &again, "echo v is $((40 + 3))");
    assert!(called.text().contains("v is 43"), "{}", called.text());
}

/// Asks each of these nodes twice at once, and says what the commands wrote, in order.
fn ask_at_once(nodes: &[&Daemon], session: &str) -> Vec<String> {
    let body = json!({"command": "n=$((n+1)); echo $n"});
    let ask = |daemon: &Daemon| {
        let answer = daemon.post(&format!("/v1/sessions/{session}/run"), &body);
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()["stdout"].as_str().expect("text").trim().to_owned()
    };
    let ask = &ask;
    std::thread::scope(|scope| {
        let asked: Vec<_> = nodes.iter().chain(nodes).copied().map(|daemon| scope.spawn(move || ask(daemon))).collect();
        let mut numbers: Vec<String> = asked.into_iter().map(|asked| asked.join().expect("it is answered")).collect();
        numbers.sort();
        numbers
    })
}

/// The bug: of two nodes that wanted a session at once, one got it, and the callers of the other were told that the first
/// cannot be reached.
#[test]
fn whoever_takes_a_session_answers_for_both() {
    let redis = Redis::start();
    let (mut first, second, third) = (redis.node("n1"), redis.node("n2"), redis.node("n3"));
    let sessions = ["s0", "s1", "s2", "s3", "s4", "s5"];
    for session in sessions.iter().chain(&["gone"]) {
        first.create(session);
        first.sh(session, "n=0");
    }
    first.kill();
    run_when_taken_over(&second, "gone", &json!({"command": "true"}));
    for session in sessions {
        assert_eq!(ask_at_once(&[&second, &third], session), ["1", "2", "3", "4"], "{session}");
    }
}

/// The same while a node is drained that runs a command of the session: all wait for its end, and then run elsewhere.
#[test]
fn what_waits_for_a_drain_at_three_nodes_runs_once() {
    let redis = Redis::start();
    let (first, second, third) = (redis.node("n1"), redis.node("n2"), redis.node("n3"));
    first.create("s");
    let gate = redis.directory().join("go");
    let waits = format!("n=0; echo begun; until [ -e {} ]; do sleep 0.02; done", gate.display());
    let mut events = first.stream("s", &json!({"command": waits}));
    while !events.next_event().expect("it runs").data.contains("begun") {}
    assert_eq!(third.post("/v1/nodes/n1/drain?wait=0", &json!({})).status, 200);
    let numbers = std::thread::scope(|scope| {
        let asked = scope.spawn(|| ask_at_once(&[&first, &second, &third], "s"));
        pass(Duration::from_millis(300));
        std::fs::write(&gate, "").expect("a file");
        asked.join().expect("all are answered")
    });
    assert_eq!(numbers, ["1", "2", "3", "4", "5", "6"]);
}
