//! An agent with a token, at the daemon's TCP port or else at its socket.

use super::{Daemon, Request, Response};
use serde_json::{Value, json};

pub struct Agent<'a> {
    pub daemon: &'a Daemon,
    pub id: String,
    pub token: String,
}

impl<'a> Agent<'a> {
    pub fn new(daemon: &'a Daemon, body: Value) -> Self {
        let answer = daemon.post("/v1/tokens", &body);
        assert_eq!(answer.status, 201, "{}", answer.text());
        let text = |name: &str| answer.json()[name].as_str().unwrap().to_owned();
        assert!(text("token").starts_with("sk_"));
        Self { daemon, id: text("id"), token: text("token") }
    }

    pub fn named(daemon: &'a Daemon, agent: &str) -> Self {
        Self::new(daemon, json!({"agent": agent}))
    }

    pub fn signed(&self, request: Request) -> Request {
        request.header("authorization", &format!("Bearer {}", self.token))
    }

    pub fn send(&self, request: Request) -> Response {
        self.signed(request).send(&self.daemon.any_door()).unwrap()
    }

    pub fn get(&self, target: &str) -> Response {
        self.send(Request::new("GET", target))
    }

    pub fn post(&self, target: &str, body: &Value) -> Response {
        self.send(Request::new("POST", target).json(body.to_string()))
    }

    /// Creates a session and returns its id.
    pub fn create(&self, session: &str) -> String {
        let answer = self.post("/v1/sessions", &json!({"session_id": session}));
        assert_eq!(answer.status, 201, "{}", answer.text());
        answer.json()["session_id"].as_str().unwrap().to_owned()
    }

    pub fn run(&self, session: &str, body: &Value) -> Value {
        let answer = self.post(&format!("/v1/sessions/{session}/run"), body);
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()
    }

    pub fn sh(&self, session: &str, command: &str) -> Value {
        self.run(session, &json!({"command": command}))
    }
}
