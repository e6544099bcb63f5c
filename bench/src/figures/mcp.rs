//! What MCP adds to a short command: on stdio through `shellkeep mcp`, and over HTTP at `/mcp`, against the plain HTTP
//! run on the same daemon.

use crate::daemon::Daemon;
use crate::fallible::Fallible;
use crate::http::{Client, check};
use crate::report::{Report, Row, Target};
use crate::setup::Setup;
use crate::stats::Rounds;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// Two processes and three pipes more than plain HTTP.
const STDIO: Target = Target::RatioAtMost(3.0);
/// The same connection, a longer message.
const HTTP: Target = Target::RatioAtMost(3.0);
const LIVE_SHELLS: usize = 8;

pub fn measure(setup: &Setup, report: &mut Report) -> Fallible<()> {
    let daemon = Daemon::start(&setup.program, &setup.bash, LIVE_SHELLS)?;
    let mut plain = Client::connect(&daemon.socket())?;
    let mut over_http = Client::connect(&daemon.socket())?;
    let mut on_stdio = Pump::start(&setup.program, &daemon.socket())?;
    let session = plain.create()?;
    let (mut floor, mut stdio, mut http) = (Rounds::default(), Rounds::default(), Rounds::default());
    for _ in 0..setup.effort.rounds {
        floor.turn(setup.effort.commands, |count| plain.times(&session, "true", count))?;
        stdio.turn(setup.effort.commands, |count| on_stdio.times(count))?;
        http.turn(setup.effort.commands, |count| posts(&mut over_http, count))?;
    }
    let floor = floor.middle();
    report.row(Row::latency("`true`, MCP on stdio, against plain HTTP".to_owned(), floor, stdio.middle(), STDIO));
    report.row(Row::latency("`true`, MCP over HTTP, against plain HTTP".to_owned(), floor, http.middle(), HTTP));
    Ok(())
}

fn call(meta: Value) -> String {
    let params = json!({"name": "run_command", "arguments": {"command": "true"}, "_meta": meta});
    json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).to_string()
}

/// The protocol of 2026-07-28: one request, one answer in JSON.
fn posts(client: &mut Client, count: usize) -> Fallible<Vec<Duration>> {
    let body = call(json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }));
    let request = format!(
        "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         accept: application/json, text/event-stream\r\nmcp-protocol-version: 2026-07-28\r\n\
         mcp-method: tools/call\r\nmcp-name: run_command\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut times = Vec::with_capacity(count);
    for _ in 0..count {
        let start = Instant::now();
        let answer = client.call(request.as_bytes())?;
        times.push(start.elapsed());
        check(answer)?;
    }
    Ok(times)
}

/// A client on stdio. Dropping it ends its program.
struct Pump {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Pump {
    fn start(program: &Path, socket: &Path) -> Fallible<Self> {
        let mut command = Command::new(program);
        command.args(["mcp", "--no-start", "-s", "bench", "--socket"]).arg(socket);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("the pump has no pipes".into());
        };
        let mut pump = Self { child, stdin, stdout: BufReader::new(stdout) };
        let about = json!({"name": "bench", "version": "1"});
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": about});
        pump.ask(&json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}).to_string())?;
        Ok(pump)
    }

    fn times(&mut self, count: usize) -> Fallible<Vec<Duration>> {
        let request = call(json!({}));
        let mut times = Vec::with_capacity(count);
        for _ in 0..count {
            let start = Instant::now();
            let answer = self.ask(&request)?;
            times.push(start.elapsed());
            check(answer.as_bytes())?;
        }
        Ok(times)
    }

    fn ask(&mut self, request: &str) -> Fallible<String> {
        self.stdin.write_all(format!("{request}\n").as_bytes())?;
        let mut answer = String::new();
        self.stdout.read_line(&mut answer)?;
        Ok(answer)
    }
}

impl Drop for Pump {
    fn drop(&mut self) {
        crate::floor::end(&mut self.child);
    }
}
