//! How these tests write and read records.

use super::support::{Daemon, Request, Response};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

/// What recordings look like from outside.
pub trait Records {
    /// Posts one event and gives its number.
    fn note(&self, session: &str, event_type: &str, data: Value) -> u64;
    /// All events after a number, read page by page.
    fn events_after(&self, session: &str, after: u64, query: &str) -> Vec<Value>;
    /// All events.
    fn events(&self, session: &str) -> Vec<Value> {
        self.events_after(session, 0, "")
    }
    /// What a check of the recording finds.
    fn verdict(&self, session: &str) -> Value;
    /// Asserts that the recording is whole: numbers without a gap, no hole, everything proven.
    fn assert_whole(&self, session: &str) -> Vec<Value>;
    /// Adds a message and gives its number.
    fn say(&self, session: &str, role: &str, content: &str) -> u64;
    /// Saves the agent's state.
    fn save(&self, session: &str, headers: &[(&str, &str)], bytes: &[u8]) -> Response;
    /// A number of `/metrics`, all labels together.
    fn metric(&self, name: &str) -> f64;
}

impl Records for Daemon {
    fn note(&self, session: &str, event_type: &str, data: Value) -> u64 {
        let body = json!({"event_type": event_type, "data": data});
        let answer = self.post(&format!("/v1/sessions/{session}/events"), &body);
        assert_eq!(answer.status, 201, "{}\n{}", answer.text(), self.log());
        answer.json()["seq"].as_u64().unwrap()
    }

    fn events_after(&self, session: &str, after: u64, query: &str) -> Vec<Value> {
        let (mut after, mut events) = (after, Vec::new());
        loop {
            let answer = self.get(&format!("/v1/sessions/{session}/events?after={after}&limit=1000{query}"));
            assert_eq!(answer.status, 200, "{}\n{}", answer.text(), self.log());
            let page = answer.json();
            events.extend(page["events"].as_array().unwrap().iter().cloned());
            match page["next"].as_u64() {
                Some(next) => after = next,
                None => return events,
            }
        }
    }

    fn verdict(&self, session: &str) -> Value {
        let answer = self.post(&format!("/v1/sessions/{session}/verify"), &json!({}));
        assert_eq!(answer.status, 200, "{}\n{}", answer.text(), self.log());
        answer.json()
    }

    fn assert_whole(&self, session: &str) -> Vec<Value> {
        let events = self.events(session);
        for (index, event) in events.iter().enumerate() {
            assert_eq!(event["seq"], json!(index + 1), "a gap before {event}");
            assert!(event["event_type"] != "hole" && event["event_type"] != "records_lost", "{event}");
        }
        let verdict = self.verdict(session);
        assert_eq!((&verdict["intact"], verdict.get("holes")), (&json!(true), None), "{verdict}\n{}", self.log());
        events
    }

    fn say(&self, session: &str, role: &str, content: &str) -> u64 {
        let body = json!({"role": role, "content": content});
        let answer = self.post(&format!("/v1/sessions/{session}/messages"), &body);
        assert_eq!(answer.status, 201, "{}", answer.text());
        answer.json()["seq_id"].as_u64().unwrap()
    }

    fn save(&self, session: &str, headers: &[(&str, &str)], bytes: &[u8]) -> Response {
        let mut request = Request::new("PUT", &format!("/v1/sessions/{session}/agent_state"));
        for (name, value) in headers {
            request = request.header(name, value);
        }
        request.body = bytes.to_vec();
        self.send(&request)
    }

    fn metric(&self, name: &str) -> f64 {
        let text = self.get("/metrics").text();
        let of_it = |line: &&str| line.strip_prefix(name).is_some_and(|rest| rest.starts_with([' ', '{']));
        text.lines().filter(of_it).filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
    }
}

/// The types of events, in order.
pub fn types(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["event_type"].as_str().unwrap()).collect()
}

/// Files under a directory that hold some bytes.
pub fn holding(directory: &Path, bytes: &[u8]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            found.extend(holding(&path, bytes));
        } else if kind.is_file() {
            let content = fs::read(&path).unwrap_or_default();
            if content.windows(bytes.len()).any(|part| part == bytes) {
                found.push(path);
            }
        }
    }
    found
}
