//! What is wrong is said, and the connection stays usable.

use crate::client::Client;
use crate::support::{Daemon, procs};
use serde_json::{Value, json};
use std::collections::BTreeSet;

#[test]
fn what_is_no_message_is_answered_and_the_next_one_served() {
    let daemon = Daemon::start();
    let mut client = Client::start(&daemon, daemon.directory(), &[]);
    // What is sent, the error's code, the id it comes with.
    let table: &[(&[u8], i64, Value)] = &[
        (b"{nonsense\n", -32700, Value::Null),
        (b"\xff\xfe\n", -32700, Value::Null),
        (b"{\"jsonrpc\": \"2.0\", \"id\":69, \"method\": \"tools/list\",\n", -32700, json!(69)),
        (b"[]\n", -32600, Value::Null),
        (b"\"text\"\n", -32600, Value::Null),
        (b"{\"jsonrpc\": \"2.0\", \"id\": 70}\n", -32600, json!(70)),
        (b"{\"jsonrpc\": \"2.0\", \"id\": 71, \"method\": 5}\n", -32600, json!(71)),
        (b"{\"jsonrpc\": \"2.0\", \"id\": 72, \"method\": \"no/such\"}\n", -32601, json!(72)),
        (b"{\"jsonrpc\": \"2.0\", \"id\": 73, \"method\": \"tools/call\"}\n", -32602, json!(73)),
        (
            b"{\"jsonrpc\": \"2.0\", \"id\": 74, \"method\": \"tools/call\", \"params\": {\"name\": 4}}\n",
            -32602,
            json!(74),
        ),
    ];
    for (bytes, code, id) in table {
        client.write(bytes);
        let answer = client.next();
        assert_eq!((&answer["error"]["code"], answer.get("id")), (&json!(code), Some(id)), "{answer} to {bytes:?}");
    }
    client.write(b"\n  \r\n");
    assert_eq!(client.run("echo fine").text(), "fine\n");
}

/// The answer to a wrong line was lost when another answer was ready at the same moment.
#[test]
fn every_line_is_answered_however_fast_they_come() {
    const LINES: u64 = 200;
    let daemon = Daemon::start();
    let mut client = Client::start(&daemon, daemon.directory(), &[]);
    let line = |message: Value| format!("{message}\n");
    let pair = |number: u64| {
        let right = line(json!({"jsonrpc": "2.0", "id": 1000 + number, "method": "ping"}));
        right + &line(json!({"jsonrpc": "2.0", "id": 5000 + number, "method": 5}))
    };
    client.write((0..LINES).map(pair).collect::<String>().as_bytes());
    let mut open: BTreeSet<u64> = (0..LINES).flat_map(|number| [1000 + number, 5000 + number]).collect();
    while !open.is_empty() {
        let answer = client.next();
        assert!(open.remove(&answer["id"].as_u64().unwrap()), "{answer}");
    }
}

#[test]
fn a_wrong_call_says_what_would_be_right() {
    let daemon = Daemon::start();
    let mut client = Client::start(&daemon, daemon.directory(), &[]);
    let unknown = client.request("tools/call", json!({"name": "bash", "arguments": {"command": "true"}}));
    assert_eq!(unknown["error"]["code"], -32602);
    assert!(unknown["error"]["message"].as_str().unwrap().contains("run_command"), "{unknown}");
    let table = [
        ("run_command", json!({"comand": "true"}), "unknown argument `comand`"),
        ("run_command", json!({}), "missing argument `command`"),
        ("run_command", json!({"command": 5}), "command: invalid type"),
        ("run_command", json!({"command": "true", "timeout": -1}), "timeout"),
        ("run_command", json!({"command": "a\0b"}), "NUL"),
        ("run_command", json!({"command": "true", "cwd": "/no/such/place"}), "(bad_cwd)"),
        ("read_output", json!({"id": "r999"}), "(run_not_found)"),
        ("read_output", json!({"id": ""}), "(invalid_request)"),
        // What cannot be an id may be the name of a service.
        ("read_output", json!({"id": "../x"}), "(service_not_found)"),
        ("stop_service", json!({"service_id": "sleep 60"}), "(service_not_found)"),
        ("read_output", json!({"id": "r3", "stream": "both"}), "stream"),
        ("read_output", json!({"id": "r3", "grep": "("}), "regular expression"),
        ("read_output", json!({"id": "r3", "wait": -1}), "wait: -1"),
        ("signal", json!({"id": "r999"}), "(run_not_found)"),
        ("list_checkpoints", json!({"limit": 0}), "limit: 0 is not between 1 and 100"),
        ("signal", json!({"id": "s3"}), "stop_service"),
        ("signal", json!({"id": "r3"}), "(run_ended)"),
        ("diff", json!({"from": "no moment"}), "from: 'no moment'"),
        ("diff", json!({"from": "r999"}), "(run_not_found)"),
        ("rewind", json!({}), "missing argument `to`"),
        ("rewind", json!({"to": "now"}), "to: 'now'"),
        ("rewind", json!({"to": "redo"}), "nothing to redo"),
        ("send_input", json!({"id": "r999", "text": "x"}), "(run_not_found)"),
        ("send_input", json!({"id": "s3", "text": "x"}), "services read no input"),
        ("read_output", json!({"id": "s999"}), "(service_not_found)"),
        ("stop_service", json!({"service_id": "s999"}), "(service_not_found)"),
        ("stop_service", json!({"service_id": "s3", "session": "nobody"}), "(session_not_found)"),
        ("stop_service", json!({"service_id": "r3"}), "interrupt it with signal(id=\"r3\")"),
        ("stop_service", json!({}), "missing argument `service_id`"),
        ("list_services", json!({"all": true}), "unknown argument `all`"),
        ("start_service", json!({"command": ""}), "command: must not be empty"),
        ("start_service", json!({"command": "true", "ready_port": 1, "ready_log": "x"}), "only one of"),
        ("start_service", json!({"command": "true", "ready_log": "("}), "(invalid_request)"),
        ("start_service", json!({"command": "true", "ready_http": "ftp://x"}), "(invalid_request)"),
        ("start_service", json!({"command": "true", "restart": "sometimes"}), "restart: unknown value"),
        ("start_service", json!({"command": "true", "cwd": "/no/such/place"}), "(bad_cwd)"),
    ];
    client.run("echo one");
    for (tool, arguments, expected) in table {
        let answer = client.call(tool, arguments.clone());
        assert!(answer.is_error(), "{tool} {arguments}");
        assert!(answer.text().contains(expected), "{tool} {arguments}: {}", answer.text());
    }
    assert_eq!(client.run("echo fine").text(), "fine\n");
}

#[test]
fn a_message_beyond_the_limit_is_refused_by_its_id() {
    const LIMIT: usize = 64 << 20;
    let daemon = Daemon::start();
    let mut client = Client::start(&daemon, daemon.directory(), &[]);
    // What its first command takes is there.
    assert_eq!(client.run("echo fine").text(), "fine\n");
    let before = procs::resident_kib(daemon.pid());
    assert!(before > 0, "its memory can be read");
    let head = "{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"tools/call\",\"params\":{\"name\":\"run_command\",\"arguments\":{\"command\":\"";
    let tail = "\"}}}\n";
    // Far longer than the limit, so that it shows in the memory if all of it is kept.
    let (block, count) = (vec![b'x'; 1 << 20], (LIMIT >> 20) * 5 / 2);
    client.write(head.as_bytes());
    for _ in 0..count {
        client.write(&block);
    }
    client.write(tail.as_bytes());
    let answer = client.next();
    let grown = procs::peak_resident_kib(daemon.pid()) - before;
    // It kept what fits, once, until it knew that there is more.
    assert!(grown < LIMIT as u64 / 1024 * 3 / 2, "the daemon grew by {grown} KiB");
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(9), &json!(-32600)), "{answer}");
    let (sent, told) = (head.len() + count * block.len() + tail.len(), answer["error"]["message"].as_str().unwrap());
    assert!(told.starts_with(&format!("a message of {sent} bytes")), "{answer}");
    assert!(told.contains(&format!("limit is {LIMIT}")), "{answer}");
    assert_eq!(client.run("echo fine").text(), "fine\n");
}

/// It was parsed, for a hundred times its length in memory.
#[test]
fn a_message_of_too_many_values_is_refused_by_its_id() {
    let daemon = Daemon::start();
    let mut client = Client::start(&daemon, daemon.directory(), &[]);
    let zeros = ",0".repeat(5_000_000);
    let call =
        r#"{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"run_command","arguments":{"command":[0"#;
    client.write(format!("{call}{zeros}]}}}}}}\n").as_bytes());
    let answer = client.next();
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(9), &json!(-32600)), "{answer}");
    assert!(answer["error"]["message"].as_str().unwrap().contains("too much memory"), "{answer}");
    assert_eq!(client.run("echo fine").text(), "fine\n");
}

#[test]
fn the_route_says_what_it_is_for() {
    let daemon = Daemon::start();
    let answer = daemon.get("/v1/mcp/stdio");
    assert_eq!((answer.status, answer.json()["code"].as_str()), (426, Some("upgrade_required")), "{}", answer.text());
    let mut wrong = Client::raw(&daemon, daemon.directory(), &["-s", "a/b"]);
    assert_eq!(wrong.leave(), Some(2));
}
