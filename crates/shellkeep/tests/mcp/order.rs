//! Calls that a client sends before the ones before them have been answered.

use crate::client::Client;
use crate::support::Daemon;
use serde_json::json;
use shellkeep_poll::until;
use std::fs;
use std::time::{Duration, Instant};

/// Calls that are sent together, as for several calls of a model in one turn, ran in any order.
#[test]
fn commands_run_in_the_order_in_which_they_were_sent() {
    let daemon = Daemon::start();
    let mut client = Client::start(&daemon, daemon.directory(), &[]);
    let call = |number: u32| json!({"name": "run_command", "arguments": {"command": format!("seen+=' {number}'")}});
    // A call that is refused holds up none.
    let wrong = client.ask("tools/call", json!({"name": "run_command", "arguments": {"timeout": 1}}));
    let calls: Vec<u64> = (0..50).map(|number| client.ask("tools/call", call(number))).collect();
    let mut open: Vec<u64> = std::iter::once(wrong).chain(calls).collect();
    while !open.is_empty() {
        let answer = client.next();
        open.retain(|id| answer["id"] != *id);
    }
    let expected: String = (0..50).map(|number| format!(" {number}")).collect();
    assert_eq!(client.run("echo \"$seen\"").text(), format!("{expected}\n"));
}

/// A command that waited for its turn was started for a call that had been cancelled, and then interrupted.
#[test]
fn a_cancelled_command_that_waits_is_not_started() {
    let daemon = Daemon::start();
    let mut client = Client::start(&daemon, daemon.directory(), &["-s", "s"]);
    let call = |command: &str| json!({"name": "run_command", "arguments": {"command": command}});
    let first = client.ask("tools/call", call("touch begun; until [ -e go ]; do sleep 0.01; done; echo over"));
    let begun = daemon.directory().join("begun");
    until("the first runs", || begun.exists().then_some(()));
    let second = client.ask("tools/call", call("echo second"));
    client.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": second}}));
    // The cancellation has arrived when this is answered.
    client.request("ping", json!({}));
    fs::write(daemon.directory().join("go"), "").unwrap();
    assert_eq!(client.answer(first)["result"]["structuredContent"]["stdout"], "over\n");
    client.run("echo third");
    let runs = daemon.get("/v1/sessions/s/runs").text();
    assert!(runs.contains("echo third") && !runs.contains("echo second"), "{runs}");
}

/// Calls that were sent together to a busy session were refused one after the other, each after a wait of its own. One with
/// `blocking=false` waited twice, for those before it and for the session, and the second wait was before theirs.
#[test]
fn commands_for_a_busy_session_are_refused_together() {
    const TIMEOUT: u64 = 4;
    let daemon = Daemon::start();
    let mut client = Client::start(&daemon, daemon.directory(), &["-s", "s"]);
    client.run("true");
    let busy = json!({"command": "sleep 600", "timeout": 900, "blocking": false});
    assert_eq!(daemon.post("/v1/sessions/s/run", &busy).json()["status"], "running");
    let began = Instant::now();
    let call = |blocking: bool| {
        let arguments = json!({"command": "echo late", "timeout": TIMEOUT, "blocking": blocking});
        json!({"name": "run_command", "arguments": arguments})
    };
    let mut open: Vec<u64> =
        [true, true, true, false].into_iter().map(|blocking| client.ask("tools/call", call(blocking))).collect();
    while !open.is_empty() {
        let answer = client.next();
        open.retain(|id| answer["id"] != *id);
        assert!(answer.to_string().contains("(session_busy)"), "{answer}");
    }
    assert!(began.elapsed() < Duration::from_secs(2 * TIMEOUT), "{:?}", began.elapsed());
    assert!(!daemon.get("/v1/sessions/s/runs").text().contains("echo late"));
}
