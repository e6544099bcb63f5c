//! An agent with a token, for the figures in which one does what it likes.

use crate::daemon::Daemon;
use crate::fallible::Fallible;
use crate::http::{self, Client};
use serde_json::{Value, json};
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// What an agent's own command may take, in seconds.
pub const LONG: u64 = 120;
/// How long one write may take before the daemon has evidently stopped listening to it.
const PATIENCE: Duration = Duration::from_millis(500);

/// An agent, and one of its sessions.
pub struct TokenHolder<'a> {
    daemon: &'a Daemon,
    token: String,
    session: String,
}

impl<'a> TokenHolder<'a> {
    /// An agent of this name, with a token and a session.
    pub fn new(daemon: &'a Daemon, host: &mut Client, name: &str, session: &str) -> Fallible<Self> {
        let body = json!({ "agent": name }).to_string();
        let made: Value = serde_json::from_slice(host.call(&http::post("/v1/tokens", &body))?)?;
        let token = made["token"].as_str().ok_or("no token was made")?.to_owned();
        let mut agent = Self { daemon, token, session: String::new() };
        agent.session = agent.create(session)?;
        Ok(agent)
    }

    /// Makes a session and gives its id.
    pub fn create(&self, session: &str) -> Fallible<String> {
        let created = self.ask("POST", "/v1/sessions", &json!({ "session_id": session }))?;
        created["session_id"].as_str().map(str::to_owned).ok_or_else(|| "no session was made".into())
    }

    /// Below its session.
    pub fn path(&self, rest: &str) -> String {
        format!("/v1/sessions/{}/{rest}", self.session)
    }

    /// A request with its token.
    pub fn request(&self, method: &str, path: &str, more: &str, body: &str) -> Vec<u8> {
        let (token, length) = (&self.token, body.len());
        format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\ncontent-type: \
             application/json\r\n{more}content-length: {length}\r\n\r\n{body}"
        )
        .into_bytes()
    }

    /// Asks and waits for the answer.
    pub fn ask(&self, method: &str, path: &str, body: &Value) -> Fallible<Value> {
        let mut client = Client::connect(&self.daemon.socket())?;
        Ok(serde_json::from_slice(client.call(&self.request(method, path, "", &body.to_string()))?)?)
    }

    /// Runs a command in its session, waits for it and gives the name of the run.
    pub fn run(&self, command: &str) -> Fallible<String> {
        let body = json!({ "command": command, "timeout": LONG, "max_output": 1000 });
        let result = self.ask("POST", &self.path("run"), &body)?;
        result["run_id"].as_str().map(str::to_owned).ok_or_else(|| "the agent's command was refused".into())
    }

    /// Sends without waiting for an answer, as far as the daemon takes it.
    pub fn throw(&self, bytes: &[u8]) -> Fallible<UnixStream> {
        let mut connection = UnixStream::connect(self.daemon.socket())?;
        connection.set_write_timeout(Some(PATIENCE))?;
        // Whether the daemon hangs up or stops reading is its business.
        let _ = connection.write_all(bytes);
        Ok(connection)
    }
}
