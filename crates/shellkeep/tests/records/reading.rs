//! Reading recordings: pages, types, searches, following, exports, and what a session began with.

use super::support::http::LiveResponse;
use super::support::{Daemon, Request, Settings};
use super::tools::{Records, types};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, Ordering};

fn numbered(daemon: &Daemon, count: usize) {
    daemon.create_with(json!({"session_id": "s", "env": {"SOME_API_KEY": "first-secret-value"}}));
    let event =
        |n: usize| json!({"event_type": if n.is_multiple_of(2) { "x_even" } else { "x_odd" }, "data": {"n": n}});
    let events: Vec<Value> = (0..count).map(event).collect();
    assert_eq!(daemon.post("/v1/sessions/s/events", &json!({"events": events})).status, 201);
}

#[test]
fn pages_types_and_searches() {
    let daemon = Daemon::start();
    numbered(&daemon, 50);
    let page = |query: &str| daemon.get(&format!("/v1/sessions/s/events?{query}")).json();
    let seqs = |page: &Value| -> Vec<u64> {
        page["events"].as_array().unwrap().iter().map(|event| event["seq"].as_u64().unwrap()).collect()
    };
    assert_eq!(seqs(&page("after=10&limit=3")), [11, 12, 13]);
    assert_eq!(seqs(&page("after=49&limit=3")), [50, 51]);
    assert_eq!((seqs(&page("after=51")), page("after=51")["next"].clone()), (vec![], Value::Null));
    assert_eq!(seqs(&page("type=x_odd&limit=2")), [3, 5]);
    assert_eq!(seqs(&page("type=x_odd,session_created&limit=2")), [1, 3]);
    assert_eq!(daemon.events_after("s", 0, "&type=x_even").len(), 25);
    daemon.sh("s", "echo needle");
    assert_eq!(types(&daemon.events_after("s", 0, "&search=n%5Be%5Dedle")), ["run_started", "tool_call"]);
    for (query, detail) in [
        ("limit=0", "limit"),
        ("limit=1001", "limit"),
        ("after=x", "after"),
        ("search=(", "search"),
        ("redact=maybe", "redact"),
        ("what=1", "what"),
    ] {
        let refused = daemon.get(&format!("/v1/sessions/s/events?{query}"));
        assert_eq!(refused.status, 400, "{query}: {}", refused.text());
        assert!(refused.json()["detail"].as_str().unwrap().contains(detail), "{query}: {}", refused.text());
    }
}

fn follow(daemon: &Daemon, query: &str, last: Option<&str>) -> LiveResponse {
    let request = Request::new("GET", &format!("/v1/sessions/s/events{query}")).header("accept", "text/event-stream");
    let request = match last {
        Some(last) => request.header("last-event-id", last),
        None => request,
    };
    request.open(&daemon.door()).unwrap()
}

/// The next event of a stream, with its number.
fn next(stream: &mut LiveResponse) -> (u64, Value) {
    let event = stream.next_event().expect("a stream has no end of its own");
    assert_eq!(event.event, "event", "{event:?}");
    let data: Value = serde_json::from_str(&event.data).unwrap();
    assert_eq!(event.id.unwrap(), data["seq"].to_string());
    (data["seq"].as_u64().unwrap(), data)
}

#[test]
fn a_follower_gets_what_is_there_and_then_what_happens() {
    let daemon = Daemon::start();
    numbered(&daemon, 3000);
    let mut stream = follow(&daemon, "", None);
    assert_eq!(stream.status, 200);
    for seq in 1..=3001 {
        assert_eq!(next(&mut stream).0, seq);
    }
    daemon.sh("s", "echo one");
    let happened: Vec<Value> = (0..3).map(|_| next(&mut stream).1).collect();
    assert_eq!(types(&happened), ["shell_started", "run_started", "tool_call"]);
    // Others see only what they ask for, from where they were.
    let mut odd = follow(&daemon, "?type=x_odd,x_late", Some("2998"));
    assert_eq!((next(&mut odd).0, next(&mut odd).0), (2999, 3001));
    daemon.note("s", "x_even", json!({}));
    let late = daemon.note("s", "x_late", json!({}));
    assert_eq!(next(&mut odd).0, late);
    assert_eq!(next(&mut stream).0, late - 1);
    assert_eq!(next(&mut stream).0, late);
    daemon.destroy("s");
    let end = stream.next_event().unwrap();
    assert_eq!((end.event.as_str(), end.data.contains("session_not_found")), ("error", true), "{end:?}");
    assert!(stream.next_event().is_none());
}

#[test]
fn a_follower_that_does_not_read_holds_nothing_up() {
    let daemon = Daemon::start();
    daemon.create("s");
    let _unread = follow(&daemon, "", None);
    let event = json!({"event_type": "x_big", "data": {"text": "y".repeat(20_000)}});
    for _ in 0..20 {
        let events = vec![event.clone(); 20];
        assert_eq!(daemon.post("/v1/sessions/s/events", &json!({"events": events})).status, 201);
    }
    assert_eq!(daemon.sh("s", "echo on").out(), "on\n");
    daemon.assert_whole("s");
}

#[test]
fn secrets_are_masked_for_those_who_ask() {
    let daemon = Daemon::with(Settings::default().env("SHELLKEEP_RECORD_SECRETS", "registered-horse"));
    numbered(&daemon, 2);
    daemon.sh("s", "export DB_PASSWORD=second-secret-value");
    daemon.sh("s", "echo $DB_PASSWORD $SOME_API_KEY registered-horse mail ann@example.com plain");
    daemon.sh("s", "unset DB_PASSWORD");
    let secrets = ["first-secret-value", "second-secret-value", "registered-horse", "ann@example.com"];
    let text = |query: &str| daemon.get(&format!("/v1/sessions/s/events?{query}")).text();
    let (plain, masked) = (text("limit=100"), text("limit=100&redact=true"));
    for secret in secrets {
        assert!(plain.contains(secret) && !masked.contains(secret), "{secret}");
    }
    let events = daemon.events_after("s", 0, "&redact=1");
    let call = events.iter().find(|event| event["data"]["output"].as_str().is_some_and(|out| out.contains("plain")));
    assert_eq!(call.unwrap()["data"]["output"], "*** *** *** mail *** plain\n");
    // A search must not find out what is masked.
    assert!(daemon.events_after("s", 0, "&redact=true&search=second-secret").is_empty());
    assert!(!daemon.events_after("s", 0, "&search=second-secret").is_empty());
    let snapshot = |query: &str| daemon.get(&format!("/v1/sessions/s/config_snapshot{query}"));
    assert_eq!(snapshot("").json()["session_id"], "s");
    assert!(snapshot("").text().contains(secrets[0]) && !snapshot("?redact=true").text().contains(secrets[0]));
    for format in ["jsonl", "asciicast", "html"] {
        let export = daemon.get(&format!("/v1/sessions/s/export?format={format}&redact=true"));
        assert_eq!(export.status, 200);
        assert!(export.body.len() > 500 && export.header("content-disposition").unwrap().contains("attachment"));
        for secret in secrets {
            assert!(!export.text().contains(secret), "{secret} in {format}");
        }
    }
    let lines = daemon.get("/v1/sessions/s/export").text();
    assert_eq!(lines.lines().count(), daemon.events("s").len());
    assert!(lines.contains("second-secret-value"));
    assert_eq!(daemon.get("/v1/sessions/s/export?format=pdf").status, 400);
}

#[test]
fn a_large_export_streams() {
    let daemon = Daemon::start();
    daemon.create("s");
    let event = json!({"event_type": "x_big", "data": {"text": "y".repeat(5_000)}});
    for _ in 0..20 {
        let events = vec![event.clone(); 50];
        assert_eq!(daemon.post("/v1/sessions/s/events", &json!({"events": events})).status, 201);
    }
    let export = daemon.get("/v1/sessions/s/export?format=jsonl");
    assert_eq!(export.text().lines().count(), 1001);
    assert!(export.body.len() > 5_000_000);
}

/// They look like other numbers, so they are left alone otherwise.
#[test]
fn telephone_numbers_are_masked_if_the_host_asks_for_it() {
    let phone = "+49 30 12345678";
    for (setting, is_masked) in [("false", false), ("true", true)] {
        let daemon = Daemon::with(Settings::default().env("SHELLKEEP_RECORD_PHONE_NUMBERS", setting));
        daemon.create("s");
        daemon.sh("s", &format!("echo {phone}"));
        let shown = daemon.get("/v1/sessions/s/events?redact=true").text();
        assert_eq!(shown.contains(phone), !is_masked, "{shown}");
    }
}

/// Whoever reads a session while it is deleted is told that there is none; it was `recording_unreadable` one time in ten.
#[test]
fn a_session_that_is_deleted_while_it_is_read_is_not_there() {
    let daemon = Daemon::start();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for target in ["/v1/sessions/brief/checkpoints?limit=1", "/v1/sessions/brief/events?limit=5"] {
            let (daemon, over) = (&daemon, &over);
            scope.spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    let answer = daemon.get(target);
                    assert!([200, 404].contains(&answer.status), "{target}: {}", answer.text());
                }
            });
        }
        for _ in 0..20 {
            daemon.create("brief");
            daemon.sh("brief", "touch $(seq 50)");
            daemon.destroy("brief");
        }
        over.store(true, Ordering::Relaxed);
    });
}
