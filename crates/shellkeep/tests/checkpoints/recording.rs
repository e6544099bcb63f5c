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
    assert!(fast.contains(&format!("⟲ taken back to #{early}")), "{fast}");
    assert!(fast.contains(&format!("⑂ copied to other, as it was after #{at}")), "{fast}");
    let fast = text(&program(&daemon, &["replay", "--fast", "other"]));
    assert!(fast.contains(&format!("⑂ a copy of demo, as it was after #{at}")), "{fast}");
    let events = text(&program(&daemon, &["events", "demo", "--type", "checkpoint_created"]));
    assert!(events.contains("files kept: 1 new (tool_run_command_"), "{events}");
    for session in ["demo", "other"] {
        assert!(text(&program(&daemon, &["verify", session])).starts_with("intact"));
        let export = daemon.directory().join(format!("{session}.jsonl"));
        text(&program(&daemon, &["export", session, "-o", export.to_str().unwrap()]));
        assert!(text(&program(&daemon, &["verify", export.to_str().unwrap()])).starts_with("intact"));
    }
    let page = text(&program(&daemon, &["export", "demo", "--format", "html"]));
    assert!(page.contains(" turn\"") && page.contains("⟲ taken back to"), "a page without its turn");
    let cast = text(&program(&daemon, &["export", "demo", "--format", "asciicast"]));
    assert!(cast.contains("⟲ taken back to"), "{cast}");
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
