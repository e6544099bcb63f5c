//! One agent attacks the node through its door; what another agent's commands take meanwhile, and how much memory the
//! daemon needs at its peak. Each attack has a daemon of its own, so that none pays for the one before it.

use super::token_holder::{LONG, TokenHolder};
use crate::daemon::Daemon;
use crate::fallible::Fallible;
use crate::http::Client;
use crate::machine;
use crate::report::{Report, Row, Target};
use crate::setup::Setup;
use crate::stats::{Rounds, SETTLE};
use serde_json::json;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

const TARGET: Target = Target::RatioAtMost(2.0);
/// What the daemon may have in memory at its peak, in MiB.
const MEMORY: f64 = 512.0;
const LIVE_SHELLS: usize = 50;

/// What is tried, and how.
const ATTACKS: [(&str, Attack); 7] = [
    ("three searches for a costly pattern in 24 MB", searches),
    ("twelve variables of 15 MB, then many small ones", variables),
    ("100 followers of a long recording that never read", followers),
    ("4,000 connections with half a header", half_headers),
    ("2,000 MCP sessions", seats),
    ("20 bodies of 60 MiB that never end", bodies),
    ("2,500 directories with 1,000 ignore rules each", ignore_rules),
];

/// Attacks, and gives the connections that keep the attack going while they are open.
type Attack = fn(&TokenHolder) -> Fallible<Vec<UnixStream>>;

pub fn measure(setup: &Setup, report: &mut Report) -> Fallible<()> {
    for (name, attack) in ATTACKS {
        let daemon = Daemon::start(&setup.program, &setup.bash, LIVE_SHELLS)?;
        let mut host = Client::connect(&daemon.socket())?;
        let victim = host.create_for("victim")?;
        let attacker = TokenHolder::new(&daemon, &mut host, "attacker", "x")?;
        host.times(&victim, "true", SETTLE)?;
        let (mut alone, mut beside) = (Rounds::default(), Rounds::default());
        alone.push(within(&mut host, &victim, setup.effort.window)?);
        let held = attack(&attacker)?;
        beside.push(within(&mut host, &victim, setup.effort.window)?);
        let peak = machine::peak(daemon.pid())? as f64 / 1024.0;
        held.iter().for_each(|connection| drop(connection.shutdown(Shutdown::Both)));
        report.row(Row::latency(
            format!("`true` of one agent during another's attack, against before: {name}"),
            alone.middle(),
            beside.middle(),
            TARGET,
        ));
        report.row(Row::limit(format!("daemon's memory at its peak: {name}"), peak, "MiB", MEMORY));
    }
    Ok(())
}

/// The victim's commands, one after the other, for a while.
fn within(client: &mut Client, id: &str, window: Duration) -> Fallible<Vec<Duration>> {
    let end = Instant::now() + window;
    let mut times = Vec::new();
    while Instant::now() < end {
        times.extend(client.times(id, "true", 1)?);
    }
    Ok(times)
}

fn searches(attacker: &TokenHolder) -> Fallible<Vec<UnixStream>> {
    let run = attacker.run("head -c 18000000 /dev/zero | tr '\\0' a | fold -w 100000")?;
    let path = attacker.path(&format!("runs/{run}/output?stream=stdout&grep=a%5Bab%5D%7B1500%7DX"));
    (0..3).map(|_| attacker.throw(&attacker.request("GET", &path, "", ""))).collect()
}

fn variables(attacker: &TokenHolder) -> Fallible<Vec<UnixStream>> {
    for n in 0..12 {
        attacker.run(&format!("big_{n}=$(head -c 15000000 /dev/zero | tr '\\0' a)"))?;
    }
    let small = |n: usize| {
        let body = json!({ "command": format!("small_{n}=1"), "timeout": LONG }).to_string();
        attacker.request("POST", &attacker.path("run"), "", &body)
    };
    Ok(vec![attacker.throw(&(0..500).flat_map(small).collect::<Vec<u8>>())?])
}

fn followers(attacker: &TokenHolder) -> Fallible<Vec<UnixStream>> {
    let text = "a".repeat(4000);
    let event = json!({ "event_type": "user_input", "data": { "message": text } });
    for _ in 0..20 {
        attacker.ask("POST", &attacker.path("events"), &json!({ "events": vec![&event; 500] }))?;
    }
    let path = attacker.path("events?after=0");
    let request = attacker.request("GET", &path, "accept: text/event-stream\r\n", "");
    (0..100).map(|_| attacker.throw(&request)).collect()
}

fn half_headers(attacker: &TokenHolder) -> Fallible<Vec<UnixStream>> {
    (0..4000).map(|_| attacker.throw(b"GET /healthz HTTP/1.1\r\nhost: loc")).collect()
}

fn seats(attacker: &TokenHolder) -> Fallible<Vec<UnixStream>> {
    let about = json!({ "name": "bench", "version": "1" });
    let params = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": about });
    let body = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params }).to_string();
    let more = "accept: application/json, text/event-stream\r\n";
    (0..2000).map(|_| attacker.throw(&attacker.request("POST", "/mcp", more, &body))).collect()
}

fn bodies(attacker: &TokenHolder) -> Fallible<Vec<UnixStream>> {
    let mut request = attacker.request("POST", &attacker.path("run"), "", &" ".repeat(60 << 20));
    request.truncate(request.len() - 1);
    (0..20).map(|_| attacker.throw(&request)).collect()
}

fn ignore_rules(attacker: &TokenHolder) -> Fallible<Vec<UnixStream>> {
    attacker.run(
        "seq -f 'some/long/pattern-%g-*.[a-z]' 1000 >.gitignore; \
         for d in {1..2500}; do mkdir d$d; cp .gitignore d$d; echo $d >d$d/file; done",
    )?;
    let change = json!({ "command": "echo again >d1/file", "timeout": LONG }).to_string();
    Ok(vec![attacker.throw(&attacker.request("POST", &attacker.path("run"), "", &change))?])
}
