//! What happened, looked at again: the player on a terminal, printed and played, exports, proofs, and doing it again.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test says what it expected by panicking")]

mod browser;
mod documents;
mod exec;
mod export;
mod player;
mod printed;
#[path = "../support/mod.rs"]
mod support;
#[path = "../top/terminal.rs"]
mod terminal;

use serde_json::{Value, json};
use std::io::Write as _;
use std::process::{Command, Output, Stdio};
use support::{Daemon, bash};

/// A value that rules for secrets find by its shape, made here so that no file holds one.
pub fn secret() -> String {
    format!("{}_{}", "ghp", "Zq3vX8mK2pL9wR4tY7uN1bC6dF5gH0jS3aE8")
}

/// Runs the program without a terminal.
pub fn program(daemon: &Daemon, args: &[&str]) -> Output {
    program_with(daemon, args, b"")
}

/// Likewise, with something to read.
pub fn program_with(daemon: &Daemon, args: &[&str], input: &[u8]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_shellkeep"));
    command.args(args).arg("--no-start").arg("--socket").arg(daemon.directory().join("s.sock"));
    command.arg("--data").arg(daemon.data()).env_clear().envs(bash::environment()).current_dir(daemon.directory());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program starts");
    // A program that does not read may be gone already.
    let _ = child.stdin.take().expect("a pipe").write_all(input);
    child.wait_with_output().expect("it ends")
}

/// What it printed, if it went well.
pub fn text(output: &Output) -> String {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{:?}: {errors}\n{}", output.status, String::from_utf8_lossy(&output.stdout));
    String::from_utf8(output.stdout.clone()).expect("text")
}

/// The JSON of each line.
pub fn lines(output: &Output) -> Vec<Value> {
    text(output).lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

/// Posts an event and gives its number.
pub fn post(daemon: &Daemon, session: &str, event_type: &str, data: Value) -> u64 {
    let answer =
        daemon.post(&format!("/v1/sessions/{session}/events"), &json!({"event_type": event_type, "data": data}));
    assert_eq!(answer.status, 201, "{}", answer.text());
    answer.json()["seq"].as_u64().expect("a number")
}

/// A session in which an agent was asked something, worked, failed once, and answered.
pub fn story(daemon: &Daemon, session: &str) {
    daemon.create(session);
    post(daemon, session, "user_input", json!({"message": "please list the fruit"}));
    let llm = json!({"prompt": "p", "response": "I will look", "token_usage": {"total": 12}, "duration": 0.5});
    post(daemon, session, "llm_call", llm);
    daemon.sh(session, "printf 'apple\\nbanana\\n' > fruit; cat fruit");
    daemon.sh(session, "printf '\\033[31mred apple\\033[0m\\n'; echo oops >&2; exit_code() { return 3; }; exit_code");
    daemon.sh(session, &format!("export GITHUB_TOKEN={0}; echo token is {0}", secret()));
    post(daemon, session, "x_review", json!({"verdict": "good"}));
    post(daemon, session, "final_output", json!({"output": "apple and banana", "stream": false}));
}
