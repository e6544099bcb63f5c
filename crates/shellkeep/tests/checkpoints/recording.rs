//! The recording of a session that went back or was copied: it proves itself, and shows where it went another way.

use super::support::Daemon;
use super::tools::{Files, program, seq, text};
use serde_json::json;

#[test]
fn a_recording_shows_the_branch_and_still_proves_itself() {
    let daemon = Daemon::start();
    daemon.create("demo");
    daemon.sh("demo", "echo one > a");
    let early = seq(&daemon, "demo");
    daemon.checkpoints("demo");
    daemon.sh("demo", "echo two > a");
    daemon.rewind_to("demo", json!(early));
    let made = daemon.ask("demo", "fork", json!({"session_id": "other"}));
    assert_eq!(made.status, 201, "{}", made.text());
    let at = made.json()["forked_from"]["seq"].clone();
    let fast = text(&program(&daemon, &["replay", "--fast", "demo"]));
    assert!(fast.contains(&format!("rewound to #{early}")), "{fast}");
    assert!(fast.contains(&format!("copied to other, as it was after #{at}")), "{fast}");
    let fast = text(&program(&daemon, &["replay", "--fast", "other"]));
    assert!(fast.contains(&format!("a copy of demo, as it was after #{at}")), "{fast}");
    let events = text(&program(&daemon, &["events", "demo", "--type", "checkpoint_created"]));
    assert!(events.contains("files saved: 1 added (tool_run_command_"), "{events}");
    let key = text(&program(&daemon, &["key", "--data", daemon.data().to_str().unwrap()]));
    for session in ["demo", "other"] {
        assert!(text(&program(&daemon, &["verify", session])).starts_with("intact"));
        let export = daemon.directory().join(format!("{session}.jsonl"));
        text(&program(&daemon, &["export", session, "-o", export.to_str().unwrap()]));
        assert!(
            text(&program(&daemon, &["verify", "--key", key.trim(), export.to_str().unwrap()])).starts_with("intact")
        );
    }
    let page = text(&program(&daemon, &["export", "demo", "--format", "html"]));
    assert!(page.contains(" turn\"") && page.contains(&format!("rewound to #{early}")), "a page without its turn");
    let cast = text(&program(&daemon, &["export", "demo", "--format", "asciicast"]));
    assert!(cast.contains(&format!("rewound to #{early}")), "{cast}");
}

#[test]
fn a_recording_that_goes_back_is_done_again() {
    let daemon = Daemon::start();
    daemon.create("demo");
    daemon.sh("demo", "echo one > a; X=1");
    let early = seq(&daemon, "demo");
    daemon.checkpoints("demo");
    daemon.sh("demo", "echo two > a; X=2; cat a");
    daemon.rewind_to("demo", json!(early));
    daemon.sh("demo", "cat a; echo $X; echo three > b");
    daemon.checkpoints("demo");
    let again = program(&daemon, &["replay", "--exec", "--json", "demo"]);
    let report: serde_json::Value = serde_json::from_slice(&again.stdout).unwrap_or_default();
    assert_eq!((&report["identical"], &report["steps"]), (&json!(true), &json!(4)), "{report}");
}

#[test]
fn a_long_session_goes_back_from_its_marks_and_also_without_them() {
    let daemon = Daemon::start();
    daemon.create("s");
    let much = |count: usize| {
        for _ in 0..count {
            let events: Vec<_> = (0..1000).map(|n| json!({"event_type": "x_much", "data": {"n": n}})).collect();
            assert_eq!(daemon.ask("s", "events", json!({"events": events})).status, 201);
        }
    };
    let mut runs = Vec::new();
    for n in 1..=3 {
        runs.push(daemon.sh("s", &format!("n={n}; echo v{n} > f")).run_id().to_owned());
        much(3);
    }
    let assert_back = || {
        for (n, run) in (1..=3).zip(&runs) {
            daemon.rewind_to("s", json!(run));
            assert_eq!(daemon.sh("s", "echo $n; cat f").out(), format!("{n}\nv{n}\n"), "{run}");
        }
        let kept = daemon.checkpoints("s");
        let of_runs = runs.iter().filter(|run| kept.iter().any(|view| view["run_id"] == ***run)).count();
        assert_eq!(of_runs, 3);
    };
    assert_back();
    let marks = || -> Vec<_> {
        let entries = std::fs::read_dir(daemon.data().join("sessions/s/past")).unwrap();
        entries.map(|entry| entry.unwrap().path()).collect()
    };
    assert!(marks().len() >= 7, "{:?}", marks());
    for mark in marks() {
        let mut bytes = std::fs::read(&mark).unwrap();
        let last = bytes.len() - 10;
        bytes[last] ^= 1;
        std::fs::write(mark, bytes).unwrap();
    }
    assert_back();
    let verdict = daemon.ask("s", "verify", json!({})).json();
    assert_eq!(verdict["intact"], true, "{verdict}");
}
