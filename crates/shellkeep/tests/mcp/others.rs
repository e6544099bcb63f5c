//! Clients that others use: the official Python client, the conformance suite and the inspector, as `install.sh` fetches
//! them. Where they are missing the tests fail, and are only passed over where they cannot be had.

use crate::proxy;
use crate::support::{Daemon, Door, Settings, tools};
use serde_json::{Value, json};
use std::path::Path;
use std::process::{Command, Output};

const TOKEN: &str = "the-token-of-the-host";

fn daemon() -> Daemon {
    Daemon::with(Settings::default().tcp().env("SHELLKEEP_TOKEN", TOKEN))
}

fn address(daemon: &Daemon) -> std::net::SocketAddr {
    match daemon.tcp_door() {
        Door::Tcp(address) => address,
        Door::Socket(_) => unreachable!("the TCP door is TCP"),
    }
}

fn stdio(daemon: &Daemon, session: &str) -> Vec<String> {
    let program = env!("CARGO_BIN_EXE_shellkeep");
    let socket = daemon.directory().join("s.sock");
    [program, "mcp", "--socket", &socket.to_string_lossy(), "--no-start", "-s", session].map(str::to_owned).to_vec()
}

fn checked(mut command: Command, daemon: &Daemon) -> Output {
    let output = command.output().expect("it starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}\n{}\nthe daemon's log:\n{}",
        output.status,
        text(&output.stdout),
        text(&output.stderr),
        daemon.log()
    );
    output
}

fn python(door: &str, mode: &str) {
    let Some(tools) = tools("mcp-tools") else { return };
    let daemon = daemon();
    let session = format!("py-{door}-{mode}");
    let place = match door {
        "stdio" => stdio(&daemon, &session),
        _ => vec![format!("http://{}/mcp", address(&daemon)), TOKEN.to_owned(), session],
    };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mcp/client.py");
    for act in ["first", "second"] {
        let mut command = Command::new(tools.join("venv/bin/python"));
        command.arg(&script).args([act, door, mode]).arg(daemon.directory()).arg("--").args(&place);
        checked(command, &daemon);
    }
}

#[test]
fn the_python_client_on_stdio() {
    python("stdio", "legacy");
}

#[test]
fn the_python_client_on_stdio_without_a_handshake() {
    python("stdio", "auto");
}

#[test]
fn the_python_client_over_http() {
    python("http", "legacy");
}

#[test]
fn the_python_client_over_http_without_a_handshake() {
    python("http", "auto");
}

#[test]
fn the_conformance_suite() {
    let Some(tools) = tools("mcp-tools") else { return };
    let daemon = daemon();
    let url = format!("http://{}/mcp", proxy::start(address(&daemon), TOKEN));
    let mut command = Command::new(tools.join("venv/node"));
    command.arg(tools.join("node_modules/@modelcontextprotocol/conformance/dist/index.js"));
    command.args(["server", "--suite", "all", "--url", &url, "--expected-failures"]);
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mcp/conformance.yml"));
    let output = checked(command, &daemon);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("dns-rebinding-protection: 2 passed, 0 failed"), "{text}");
}

/// `before` and `after` are where the server is, on the side of the arguments where the inspector wants it.
fn inspect(tools: &Path, daemon: &Daemon, [before, after]: [&[String]; 2], args: &[&str]) -> Value {
    let mut command = Command::new(tools.join("venv/node"));
    command.arg(tools.join("node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js"));
    command.arg("--cli").args(before).args(args).args(after).env("HOME", daemon.directory());
    let output = checked(command, daemon);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
        panic!("{error}: {}", String::from_utf8_lossy(&output.stdout));
    })
}

#[test]
fn the_inspector() {
    let Some(tools) = tools("mcp-tools") else { return };
    let daemon = daemon();
    let header = format!("authorization: Bearer {TOKEN}");
    let url = format!("http://{}/mcp", address(&daemon));
    let http = ["--transport", "http", "--server-url", &url, "--header", &header, "shellkeep-session: inspected"];
    let http = http.map(str::to_owned);
    let mut stdio = vec!["--".to_owned()];
    stdio.extend(self::stdio(&daemon, "inspected"));
    for (place, expected) in [([&[], &stdio[..]], "[]\n"), ([&http[..], &[]], "[1]\n")] {
        let listed = inspect(&tools, &daemon, place, &["--method", "tools/list", "--strict"]);
        assert_eq!(listed["tools"][0]["name"], "run_command", "{listed}");
        // Each call is a process of its own; the session is the same.
        let args = ["--method", "tools/call", "--tool-name", "run_command", "--tool-arg"];
        let called = inspect(&tools, &daemon, place, &[&args[..], &["command=echo \"[$x]\"; x=1"]].concat());
        assert_eq!(called["structuredContent"]["stdout"], json!(expected), "{called}");
    }
}
