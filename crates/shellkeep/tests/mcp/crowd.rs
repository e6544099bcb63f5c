//! Many clients at once, and clients that do not read: others are not disturbed.

use crate::client::Client;
use crate::support::{Daemon, Door, procs};
use serde_json::json;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Enough to show that nothing is counted per process, and within a test's own limit of descriptors.
const CROWD: usize = 2000;
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
