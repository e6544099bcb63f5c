//! What the tests of files ask of a daemon.

use super::support::{Daemon, Request, Response, bash};
use serde_json::{Value, json};
use std::process::{Command, Output, Stdio};

/// Asking about a session's files.
pub trait Files {
    fn at(&self, session: &str, rest: &str) -> Response;
    fn ask(&self, session: &str, rest: &str, body: Value) -> Response;
    fn checkpoints(&self, session: &str) -> Vec<Value>;
    fn rewind_to(&self, session: &str, to: Value) -> Value;
    fn tree(&self, session: &str) -> Vec<(String, String)>;
}

impl Files for Daemon {
    fn at(&self, session: &str, rest: &str) -> Response {
        self.get(&format!("/v1/sessions/{session}/{rest}"))
    }

    fn ask(&self, session: &str, rest: &str, body: Value) -> Response {
        self.post(&format!("/v1/sessions/{session}/{rest}"), &body)
    }

    /// All of them; what the last command changed is among them, because a list waits for it.
    fn checkpoints(&self, session: &str) -> Vec<Value> {
        // A checkpoint is taken beside the answer; one that is asked for comes after it.
        let settled = self.ask(session, "checkpoints", json!({}));
        assert!([201, 204].contains(&settled.status), "{}", settled.text());
        let answer = self.at(session, "checkpoints?limit=1000");
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()["checkpoints"].as_array().unwrap().clone()
    }

    fn rewind_to(&self, session: &str, to: Value) -> Value {
        let answer = self.ask(session, "rewind", json!({"to": to}));
        assert_eq!(answer.status, 200, "rewind to {to}: {}\n{}", answer.text(), self.log());
        answer.json()
    }

    /// Names and contents of the files in a session's workspace, by name.
    fn tree(&self, session: &str) -> Vec<(String, String)> {
        let workspace = self.get(&format!("/v1/sessions/{session}")).json()["workspace"].as_str().unwrap().to_owned();
        let mut found = Vec::new();
        let mut open = vec![std::path::PathBuf::from(&workspace)];
        while let Some(directory) = open.pop() {
            for entry in std::fs::read_dir(directory).unwrap().map(Result::unwrap) {
                if entry.file_type().unwrap().is_dir() {
                    open.push(entry.path());
                    continue;
                }
                let name = entry.path().strip_prefix(&workspace).unwrap().to_string_lossy().into_owned();
                let bytes = std::fs::read(entry.path()).unwrap_or_default();
                found.push((name, String::from_utf8_lossy(&bytes).into_owned()));
            }
        }
        found.sort();
        found
    }
}

/// Files as `tree` tells them.
pub fn files(list: &[(&str, &str)]) -> Vec<(String, String)> {
    list.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
}

/// The number of a session's last record.
pub fn seq(daemon: &Daemon, session: &str) -> u64 {
    daemon.get(&format!("/v1/sessions/{session}")).json()["seq"].as_u64().unwrap()
}

/// An answer that is asked for as something else than JSON.
pub fn raw(daemon: &Daemon, session: &str, rest: &str, accept: &str) -> Response {
    daemon.send(&Request::new("GET", &format!("/v1/sessions/{session}/{rest}")).header("accept", accept))
}

/// Runs the program without a terminal.
pub fn program(daemon: &Daemon, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_shellkeep"));
    command.arg(args[0]).args(["--no-start", "--socket"]).arg(daemon.directory().join("s.sock"));
    command.args(&args[1..]).env_clear().envs(bash::environment()).current_dir(daemon.directory());
    command.stdin(Stdio::null()).output().expect("the program starts")
}

/// Runs the program with the words of a hint, as a person would type them.
pub fn typed(daemon: &Daemon, words: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_shellkeep"));
    command.args(words.split(' ')).env_clear().envs(bash::environment()).current_dir(daemon.directory());
    command.stdin(Stdio::null()).output().expect("the program starts")
}

/// What it printed, if it went well.
pub fn text(output: &Output) -> String {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{:?}: {errors}\n{}", output.status, String::from_utf8_lossy(&output.stdout));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// What it printed as JSON, if it went well.
pub fn told(output: &Output) -> Value {
    serde_json::from_str(&text(output)).expect("JSON")
}
