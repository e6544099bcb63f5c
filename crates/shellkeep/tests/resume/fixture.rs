//! What the tests share: sessions with agents, messages for them, and what was recorded.

use crate::support::http::LiveResponse;
use crate::support::procs::{self, Process};
use crate::support::{Daemon, Request, Response};
use serde_json::{Value, json};
use std::path::Path;

/// An agent of the examples.
pub fn example(name: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/agents").join(name);
    vec!["python3".to_owned(), path.canonicalize().unwrap().to_str().unwrap().to_owned()]
}

/// Makes a session with an agent of the examples.
pub fn with_example(daemon: &Daemon, session: &str, name: &str, env: Value) {
    let mut env = env;
    // Nothing is to be left in the tree of the sources.
    env["PYTHONDONTWRITEBYTECODE"] = "1".into();
    create(daemon, session, json!({"command": example(name), "env": env}));
}

/// Makes a session whose agent is a script for bash.
pub fn with_script(daemon: &Daemon, session: &str, script: &str) {
    create(daemon, session, json!({"command": ["bash", "-c", script]}));
}

pub fn create(daemon: &Daemon, session: &str, agent: Value) {
    daemon.create_with(json!({"session_id": session, "config": {"agent": agent}}));
}

/// Sends a message, whatever comes of it.
pub fn send(daemon: &Daemon, session: &str, body: &Value) -> Response {
    daemon.post(&format!("/v1/sessions/{session}/resume"), body)
}

/// Sends a message and gives what came of it.
pub fn resume(daemon: &Daemon, session: &str, message: &str) -> Value {
    resume_with(daemon, session, json!({"message": message}))
}

pub fn resume_with(daemon: &Daemon, session: &str, body: Value) -> Value {
    let answer = send(daemon, session, &body);
    assert_eq!(answer.status, 200, "{body}: {}\nthe daemon's log:\n{}", answer.text(), daemon.log());
    answer.json()
}

/// Sends a message that the agent must be done with.
pub fn done(daemon: &Daemon, session: &str, message: &str) -> Value {
    let result = resume(daemon, session, message);
    assert_eq!(result["status"], "done", "{message}: {result}");
    result
}

/// Sends a message and watches what comes of it.
pub fn watch(daemon: &Daemon, session: &str, body: &Value) -> LiveResponse {
    let request = Request::new("POST", &format!("/v1/sessions/{session}/resume"));
    let request = request.header("accept", "text/event-stream").json(body.to_string());
    let live = request.open(&daemon.door()).expect("the daemon answers");
    assert_eq!(live.status, 200);
    live
}

/// Reads until the agent has answered something with these words in it.
pub fn until_said(live: &mut LiveResponse, words: &str) {
    let mut said = String::new();
    while !said.contains(words) {
        let event = live.next_event().expect("the agent answers");
        assert_ne!(event.event, "result", "it ended before it said {words:?}: {}", event.data);
        if event.event == "output" {
            let data: Value = serde_json::from_str(&event.data).unwrap();
            said.push_str(data["text"].as_str().unwrap());
        }
    }
}

/// Everything that was recorded of a session; its numbers have no gap.
pub fn events(daemon: &Daemon, session: &str) -> Vec<Value> {
    let mut events: Vec<Value> = Vec::new();
    loop {
        let after = events.last().map_or(0, |event| event["seq"].as_u64().unwrap());
        let answer = daemon.get(&format!("/v1/sessions/{session}/events?after={after}&limit=1000"));
        assert_eq!(answer.status, 200, "{}", answer.text());
        let page = answer.json()["events"].as_array().unwrap().clone();
        if page.is_empty() {
            break;
        }
        events.extend(page);
    }
    for (index, event) in events.iter().enumerate() {
        assert_eq!(event["seq"], index as u64 + 1, "there is a gap");
    }
    events
}

/// The types of events, in order.
pub fn types(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["event_type"].as_str().unwrap()).collect()
}

/// The data of the events of one type.
pub fn of_type<'a>(events: &'a [Value], event_type: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event["event_type"] == event_type).map(|event| &event["data"]).collect()
}

/// The conversation, as `role: content`.
pub fn conversation(daemon: &Daemon, session: &str) -> Vec<String> {
    let answer = daemon.get(&format!("/v1/sessions/{session}/messages"));
    assert_eq!(answer.status, 200, "{}", answer.text());
    let messages = answer.json()["messages"].as_array().unwrap().clone();
    let said = |message: &Value| {
        let text = |name: &str| message[name].as_str().unwrap().to_owned();
        format!("{}: {}", text("role"), text("content"))
    };
    messages.iter().map(said).collect()
}

/// The agent's state.
pub fn state(daemon: &Daemon, session: &str) -> Value {
    let answer = daemon.get(&format!("/v1/sessions/{session}/agent_state"));
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

/// That the recording is as it was written.
pub fn verify(daemon: &Daemon, session: &str) {
    let answer = daemon.post(&format!("/v1/sessions/{session}/verify"), &json!({}));
    assert_eq!(answer.json()["intact"], true, "{}", answer.text());
}

/// Agents that live, with all they have started: processes that work below this daemon's directory and are neither the
/// daemon nor shells of its sessions.
pub fn living_agents(daemon: &Daemon) -> Vec<Process> {
    let is_shell = |process: &Process| process.command_line == "bash" || process.command_line.contains("--norc");
    // A shell that is being started still looks like the daemon.
    let is_daemon = |process: &Process| process.command_line.contains(" serve --data ");
    let is_agent = |process: &Process| !is_daemon(process) && !is_shell(process);
    procs::working_in(daemon.directory()).into_iter().filter(is_agent).collect()
}
