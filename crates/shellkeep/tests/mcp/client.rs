//! A small JSON-RPC client on the pipes of `shellkeep mcp`, so that the tests see the messages and not what a library
//! makes of them.

use crate::support::Daemon;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

/// Longest silence before a test gives up.
const SILENCE: Duration = Duration::from_secs(60);

/// A client and its `shellkeep mcp`.
pub struct Client {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    next_id: u64,
    /// Notifications that came while an answer was waited for.
    pub notifications: Vec<Value>,
    /// What the server said at the handshake.
    pub hello: Value,
}

/// What a tool answered.
pub struct Answer(pub Value);

impl Client {
    /// A client of this daemon in a project, after the handshake.
    pub fn start(daemon: &Daemon, project: &Path, args: &[&str]) -> Self {
        let mut client = Self::raw(daemon, project, args);
        client.shake_hands();
        client
    }

    pub fn shake_hands(&mut self) {
        let about = json!({"name": "Test Client", "version": "1"});
        let params = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": about});
        self.hello = self.request("initialize", params)["result"].clone();
        note(&format!("=== instructions\n{}\n\n", self.hello["instructions"].as_str().unwrap_or_default()));
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    }

    /// A client that has said nothing yet.
    pub fn raw(daemon: &Daemon, project: &Path, args: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_shellkeep"));
        command.arg("mcp").arg("--socket").arg(daemon.directory().join("s.sock")).arg("--no-start").args(args);
        Self::spawn(command, project)
    }

    pub fn spawn(mut command: Command, project: &Path) -> Self {
        command.current_dir(project).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        let stdout = child.stdout.take().expect("its output is piped");
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        let stdin = child.stdin.take();
        Self { child, stdin, lines, next_id: 0, notifications: Vec::new(), hello: Value::Null }
    }

    pub fn write(&mut self, bytes: &[u8]) {
        self.stdin.as_mut().expect("still open").write_all(bytes).expect("the program reads");
    }

    pub fn send(&mut self, message: &Value) {
        self.write(format!("{message}\n").as_bytes());
    }

    /// Sends a request and returns its id.
    pub fn ask(&mut self, method: &str, params: Value) -> u64 {
        self.next_id += 1;
        let id = self.next_id;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    /// The next message, whatever it is.
    pub fn next(&mut self) -> Value {
        let line = self.lines.recv_timeout(SILENCE).expect("the server says something");
        let message: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
        if let Some(told) = message["error"]["message"].as_str() {
            note(&format!("=== an error of the protocol, {}\n{told}\n\n", message["error"]["code"]));
        }
        message
    }

    /// The answer to a request.
    pub fn answer(&mut self, id: u64) -> Value {
        loop {
            let message = self.next();
            match message.get("method") {
                Some(_) => self.notifications.push(message),
                None if message["id"] == id => return message,
                None => panic!("an answer to something else: {message}"),
            }
        }
    }

    pub fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.ask(method, params);
        self.answer(id)
    }

    pub fn call(&mut self, tool: &str, arguments: Value) -> Answer {
        let answer = self.request("tools/call", json!({"name": tool, "arguments": arguments}));
        assert!(answer["result"].is_object(), "{answer}");
        let answer = Answer(answer["result"].clone());
        note_view(tool, &arguments, &answer);
        answer
    }

    pub fn run(&mut self, command: &str) -> Answer {
        self.call("run_command", json!({"command": command}))
    }

    /// The name of its session, from the instructions it was given.
    pub fn session(&self) -> String {
        let instructions = self.hello["instructions"].as_str().expect("there are instructions");
        instructions.split('\'').nth(1).expect("they name the session").to_owned()
    }

    /// Closes its end and returns the program's exit code.
    pub fn leave(&mut self) -> Option<i32> {
        self.stdin = None;
        self.child.wait().expect("it ends").code()
    }

    /// Ends as a crashed client would.
    pub fn crash(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.crash();
    }
}

/// Adds what a model is told to a file of all that it is told in these tests, for a person to read as a model would.
fn note_view(tool: &str, arguments: &Value, answer: &Answer) {
    const LONGEST: usize = 600;
    let shorten = |text: &str| {
        let all: Vec<char> = text.chars().collect();
        match all.len() {
            0..=LONGEST => text.to_owned(),
            length => [&all[..LONGEST / 2], &['…'], &all[length - LONGEST / 2..]].concat().iter().collect(),
        }
    };
    let kind = if answer.is_error() { " -> error" } else { "" };
    let texts = answer.0["content"].as_array().into_iter().flatten();
    let texts: Vec<String> = texts.map(|text| shorten(text["text"].as_str().unwrap_or_default())).collect();
    let entry = format!("=== {tool} {}{kind}\n{}\n\n", shorten(&arguments.to_string()), texts.join("\n"));
    note(&entry);
}

/// Adds an entry to the file. An entry is one write, so that tests that run at the same time do not mix theirs.
fn note(entry: &str) {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("models-view.txt");
    let opened = std::fs::File::options().create(true).append(true).open(&path);
    opened.and_then(|mut file| file.write_all(entry.as_bytes())).unwrap_or_else(|error| panic!("{path:?}: {error}"));
}

impl Answer {
    pub fn text(&self) -> &str {
        self.0["content"][0]["text"].as_str().unwrap_or_default()
    }

    pub fn data(&self) -> &Value {
        &self.0["structuredContent"]
    }

    pub fn is_error(&self) -> bool {
        self.0["isError"] == true
    }

    pub fn run_id(&self) -> String {
        self.data()["run_id"].as_str().expect("a run has an id").to_owned()
    }
}
