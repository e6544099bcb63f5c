//! Many clients at once, and clients that do not read: others are not disturbed.

use crate::client::Client;
use crate::support::{Daemon, Door, procs};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Enough to show that nothing is counted per process, and within a test's own limit of descriptors.
const CROWD: usize = 2000;
/// What the daemon may take of memory, whatever one client does.
const MEMORY_KIB: u64 = 512 << 10;
/// What a command may take beside a crowd, on two processors with another test beside it.
const PROMPT: Duration = Duration::from_secs(2);

/// A connection as `shellkeep mcp` makes it, without the program.
fn connect(daemon: &Daemon) -> BufReader<UnixStream> {
    let Door::Socket(path) = daemon.door() else { unreachable!("the door is a socket") };
    let stream = UnixStream::connect(path).expect("the daemon accepts");
    let mut reader = BufReader::new(stream);
    let head = "GET /v1/mcp/stdio HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: shellkeep-mcp\r\n\r\n";
    reader.get_mut().write_all(head.as_bytes()).unwrap();
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    assert!(line.contains("101"), "{line}");
    while line != "\r\n" {
        line.clear();
        reader.read_line(&mut line).unwrap();
    }
    let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params":
        {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}});
    reader.get_mut().write_all(format!("{hello}\n").as_bytes()).unwrap();
    line.clear();
    reader.read_line(&mut line).unwrap();
    assert!(line.contains("shellkeep"), "{line}");
    reader
}

#[test]
fn thousands_of_clients_leave_room_for_one_more() {
    let daemon = Daemon::start();
    let before = procs::resident_kib(daemon.pid());
    let mut crowd: Vec<_> = (0..CROWD).map(|_| connect(&daemon)).collect();
    let each = procs::resident_kib(daemon.pid()).saturating_sub(before) / CROWD as u64;
    assert!(each < 200, "{each} KiB for each client");
    let mut client = Client::start(&daemon, daemon.directory(), &[]);
    client.run("true");
    let started = Instant::now();
    assert_eq!(client.run("echo fine").text(), "fine\n");
    assert!(started.elapsed() < PROMPT, "{:?}", started.elapsed());
    // One of the crowd works too.
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    crowd[CROWD / 2].get_mut().write_all(format!("{call}\n").as_bytes()).unwrap();
    let mut line = String::new();
    crowd[CROWD / 2].read_line(&mut line).unwrap();
    assert!(line.contains("\"id\":1"), "{line}");
}

#[test]
fn a_client_that_does_not_read_holds_up_nobody_else() {
    let daemon = Daemon::start();
    let mut writer = Client::start(&daemon, daemon.directory(), &["-s", "big"]);
    let run = writer.run("yes | head -c 4000000").run_id();
    let mut deaf = connect(&daemon);
    let uri = format!("shellkeep://sessions/big/runs/{run}/stdout");
    for id in 1..=20 {
        let ask = json!({"jsonrpc": "2.0", "id": id, "method": "resources/read", "params": {"uri": uri}});
        deaf.get_mut().write_all(format!("{ask}\n").as_bytes()).unwrap();
    }
    let started = Instant::now();
    assert_eq!(writer.run("echo fine").text(), "fine\n");
    assert!(started.elapsed() < PROMPT, "{:?}", started.elapsed());
    // When it reads at last, everything is there.
    let mut lines = 0;
    for line in deaf.lines().take(20) {
        assert!(line.unwrap().len() > 4_000_000);
        lines += 1;
    }
    assert_eq!(lines, 20);
}

fn send(client: &mut BufReader<UnixStream>, messages: &[Value]) {
    let lines: String = messages.iter().map(|message| format!("{message}\n")).collect();
    client.get_mut().write_all(lines.as_bytes()).unwrap();
}

fn next(client: &mut BufReader<UnixStream>) -> Value {
    let mut line = String::new();
    client.read_line(&mut line).unwrap();
    serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
}

fn ping(id: u64) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "ping"})
}

fn cancelled(id: u64) -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}})
}

/// Each request became a task as soon as it was read: one client that sent and did not wait took 3 GB and 520 threads.
#[test]
fn a_client_has_so_many_requests_at_a_time_and_can_always_cancel() {
    /// As many as one client may have open, and as many as may wait.
    const OPEN: u64 = 64;
    const HELD: u64 = 192;
    let daemon = Daemon::start();
    let mut busy = connect(&daemon);
    let call = json!({"name": "run_command", "arguments": {"command": "sleep 600", "timeout": 900}});
    let call = |id: u64| json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": call});
    send(&mut busy, &(1..=OPEN).map(call).collect::<Vec<_>>());
    send(&mut busy, &(1001..=1000 + HELD).map(ping).collect::<Vec<_>>());
    send(&mut busy, &[ping(2000)]);
    let refused = next(&mut busy);
    assert_eq!(refused["id"], 2000, "{refused}");
    assert!(refused["error"]["message"].as_str().is_some_and(|words| words.contains("cancel some")), "{refused}");
    // Nobody else is held up.
    let mut client = Client::start(&daemon, daemon.directory(), &["-s", "other"]);
    assert_eq!(client.run("echo fine").text(), "fine\n");
    // One that waits is never answered, and makes room for another; with the end of an open one the others have their turn.
    send(&mut busy, &[cancelled(1001), ping(3000), cancelled(OPEN)]);
    let answered: BTreeSet<u64> = (0..HELD).map(|_| next(&mut busy)["id"].as_u64().unwrap()).collect();
    let expected: BTreeSet<u64> = (1002..=1000 + HELD).chain([3000]).collect();
    assert_eq!(answered, expected);
}

/// Answers that are not read yet count as open requests, and each request of a client that reads has an answer.
#[test]
fn requests_that_are_sent_without_waiting_are_all_answered() {
    const REQUESTS: u64 = 5_000;
    let daemon = Daemon::start();
    let mut client = connect(&daemon);
    let mut writer = client.get_ref().try_clone().unwrap();
    let list = json!({"name": "list_services", "arguments": {}});
    let sending = std::thread::spawn(move || {
        for id in 1..=REQUESTS {
            let call = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": list});
            writer.write_all(format!("{call}\n").as_bytes()).unwrap();
        }
    });
    let answered: BTreeSet<u64> = (0..REQUESTS).map(|_| next(&mut client)["id"].as_u64().unwrap()).collect();
    assert_eq!(answered.len() as u64, REQUESTS);
    sending.join().unwrap();
    let peak = procs::peak_resident_kib(daemon.pid());
    assert!(peak < MEMORY_KIB, "{peak} KiB");
}
