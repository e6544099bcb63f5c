//! `kill -9` at whatever moment it happens to be, while events are posted and commands run.

use super::support::{Daemon, Door, Request, Settings};
use super::tools::Records;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::time::Duration;

/// How often the daemon is killed.
const ROUNDS: u64 = 24;

/// What was acknowledged: the number, and what must be found under it.
type Acknowledged = Vec<(u64, Value)>;

fn send(door: &Door, target: &str, body: &Value) -> Option<Value> {
    let answer = Request::new("POST", target).json(body.to_string()).send(door).ok()?;
    (answer.status < 300).then(|| serde_json::from_slice(&answer.body).ok())?
}

/// Posts events, one by one and many at once, until the daemon is gone.
fn post_events(door: &Door, round: u64) -> Acknowledged {
    let mut told = Vec::new();
    for n in 0.. {
        if n % 5 == 4 {
            let data = |part: u64| json!({"round": round, "n": n, "part": part});
            let events: Vec<Value> = (0..7).map(|part| json!({"event_type": "x_part", "data": data(part)})).collect();
            let Some(answer) = send(door, "/v1/sessions/s/events", &json!({"events": events})) else { return told };
            let first = answer["first_seq"].as_u64().unwrap();
            told.extend((0..7).map(|part| (first + part, data(part))));
        } else {
            let data = json!({"round": round, "n": n});
            let body = json!({"event_type": "x_one", "data": data});
            let Some(answer) = send(door, "/v1/sessions/s/events", &body) else { return told };
            told.push((answer["seq"].as_u64().unwrap(), data));
        }
    }
    told
}

/// Runs commands until the daemon is gone; gives the runs that were answered with what they printed.
fn run_commands(door: &Door, round: u64) -> Vec<(String, String)> {
    let mut told = Vec::new();
    for n in 0.. {
        let body = json!({"command": format!("echo {round}-{n}")});
        let Some(answer) = send(door, "/v1/sessions/s/run", &body) else { return told };
        let text = |name: &str| answer[name].as_str().unwrap().to_owned();
        told.push((text("run_id"), text("stdout")));
    }
    told
}

fn kill_again_and_again(settings: Settings) {
    let mut daemon = Daemon::with(settings);
    daemon.create("s");
    let (mut events, mut runs): (Acknowledged, Vec<(String, String)>) = Default::default();
    for round in 0..ROUNDS {
        let door = daemon.door();
        let (posted, ran) = std::thread::scope(|scope| {
            let posting = scope.spawn(|| post_events(&door, round));
            let running = scope.spawn(|| run_commands(&door, round));
            // Another moment in each round; no particular one is meant.
            shellkeep_poll::pass(Duration::from_micros(3_000 + round * 7_919));
            daemon.kill();
            (posting.join().unwrap(), running.join().unwrap())
        });
        daemon.restart();
        events.extend(posted);
        runs.extend(ran);
    }
    let found = daemon.assert_whole("s");
    for (seq, data) in &events {
        let event = found.get(usize::try_from(*seq).unwrap() - 1);
        assert_eq!(event.map(|event| &event["data"]), Some(data), "event {seq} was acknowledged");
    }
    let calls = found.iter().filter(|event| event["event_type"] == "tool_call");
    let calls: HashMap<&str, &Value> =
        calls.filter_map(|event| Some((event["data"]["run_id"].as_str()?, event))).collect();
    for (run_id, stdout) in &runs {
        let call = calls.get(run_id.as_str());
        assert_eq!(call.map(|call| &call["data"]["output"]), Some(&json!(stdout)), "run {run_id} was answered");
    }
    assert!(events.len() > 100 && runs.len() > 10, "too little happened: {} and {}", events.len(), runs.len());
}

#[test]
fn nothing_acknowledged_is_lost() {
    kill_again_and_again(Settings::default().env("SHELLKEEP_RECORD_SEGMENT_BYTES", "30000"));
}

#[test]
fn nothing_acknowledged_is_lost_on_files() {
    kill_again_and_again(Settings::default().store("file://{data}/files"));
}

#[test]
fn a_cut_last_line_is_mended() {
    let mut daemon = Daemon::start();
    daemon.create("s");
    for n in 0..20 {
        daemon.note("s", "x_n", json!({"n": n}));
    }
    daemon.assert_whole("s");
    daemon.kill();
    let path = daemon.data().join("sessions/s/events.jsonl");
    let whole = std::fs::read(&path).unwrap();
    // As a crash in the middle of a write leaves it. What was applied is not in the journal any more, so this can only be
    // half of a line that comes again.
    let mut torn = whole.clone();
    torn.extend_from_slice(b"{\"seq\":22,\"event_type\":\"x_n\",\"timest");
    std::fs::write(&path, torn).unwrap();
    daemon.restart();
    daemon.note("s", "x_after", json!({}));
    assert_eq!(daemon.assert_whole("s").len(), 22);
    assert!(std::fs::read(&path).unwrap().starts_with(&whole));
}
