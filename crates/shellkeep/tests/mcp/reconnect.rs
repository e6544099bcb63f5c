//! A client keeps its server when the daemon restarts or crashes. `shellkeep mcp` ended with its daemon, and most
//! clients start a server only once.

use crate::client::Client;
use crate::support::Daemon;
use crate::support::procs::{self, unique_sleep};
use serde_json::json;
use shellkeep_poll::until;

#[test]
fn a_client_goes_on_with_the_next_daemon() {
    let mut daemon = Daemon::start();
    let mut client = Client::start(&daemon, daemon.directory(), &[]);
    assert_eq!(client.run("x=5; cd /usr; echo one").text(), "one\n[cwd /usr]");
    for _ in 0..2 {
        daemon.restart();
        let after = client.run("pwd; echo $x");
        assert!(after.text().ends_with("/usr\n5\n"), "{}", after.text());
    }
    assert_eq!(client.notifications, Vec::<serde_json::Value>::new(), "the handshake is not repeated to the client");
    assert_eq!(client.leave(), Some(0));
}

#[test]
fn a_call_in_flight_is_answered_with_what_became_of_it() {
    let mut daemon = Daemon::start();
    let mut client = Client::start(&daemon, daemon.directory(), &[]);
    let mark = unique_sleep();
    let arguments = json!({"command": format!("echo begun; sleep {mark}"), "timeout": 600, "request_id": "k"});
    let params = json!({"name": "run_command", "arguments": arguments, "_meta": {"progressToken": 1}});
    let call = client.ask("tools/call", params);
    assert_eq!(client.next()["method"], "notifications/progress");
    let other = client.ask("tools/call", json!({"name": "run_command", "arguments": {"command": "echo queued"}}));
    let list =
        client.ask("tools/call", json!({"name": "read_output", "arguments": {"id": "r3", "offset": 6, "wait": 600}}));
    until("the sleep runs", || (!procs::marked(&mark).is_empty()).then_some(()));
    daemon.kill();
    for (id, next) in [
        (call, "Call again with the same request_id"),
        (other, "Check what it did before you repeat it"),
        (list, "Nothing was changed. Call again"),
    ] {
        let answer = client.answer(id);
        assert_eq!(
            (&answer["error"]["code"], &answer["error"]["data"]["code"]),
            (&json!(-32603), &json!("connection_lost"))
        );
        assert!(answer["error"]["message"].as_str().unwrap().contains(next), "{answer}");
    }
    daemon.restart();
    let again = client.call("run_command", arguments);
    assert_eq!(again.data()["status"], "lost", "{}", again.text());
    let after = client.run("echo fine");
    assert!(after.text().ends_with("fine\n"), "{}", after.text());
}

#[test]
fn each_window_keeps_its_session() {
    let mut daemon = Daemon::start();
    let mut windows: Vec<Client> = (0..3).map(|_| Client::start(&daemon, daemon.directory(), &[])).collect();
    for (number, window) in windows.iter_mut().enumerate() {
        window.run(&format!("window={number}"));
    }
    daemon.restart();
    // In another order than they were opened.
    for (number, window) in windows.iter_mut().enumerate().rev() {
        let after = window.run("echo $window");
        assert!(after.text().ends_with(&format!("{number}\n")), "{number}: {}", after.text());
    }
    let names: Vec<String> = windows.iter().map(Client::session).collect();
    assert!(!names.contains(&Client::start(&daemon, daemon.directory(), &[]).session()), "their names are taken");
}
