//! The daemon killed in the middle of a checkpoint, a rewind, a fork: the files are before or after, and nothing is lost.

use super::support::{Daemon, Request, Settings};
use super::tools::{Files, seq};
use serde_json::json;
use std::path::{Path, PathBuf};

/// A session that the named points take note of.
const NAME: &str = "crash-here";

fn daemon(point: &str) -> Daemon {
    let daemon = Daemon::with(Settings::default().env("SHELLKEEP_CRASH_AT", point));
    daemon.create(NAME);
    daemon
}

fn workspace(daemon: &Daemon, name: &str) -> PathBuf {
    daemon.data().join("workspaces").join(name)
}

fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Sends a request that kills the daemon on its way, and starts another daemon.
fn crash(daemon: &mut Daemon, path: &str, body: serde_json::Value) {
    let answer = Request::new("POST", path).json(body.to_string()).send(&daemon.door());
    assert!(answer.is_err(), "the daemon should have died: {answer:?}");
    daemon.restart();
}

#[test]
fn killed_in_the_middle_of_a_rewind() {
    for (point, is_after) in
        [("rewind_staged", false), ("rewind_noted", false), ("rewind_applied", true), ("rewind_recorded", true)]
    {
        let mut daemon = daemon(point);
        daemon.sh(NAME, "echo one > a; mkdir d; echo deep > d/f; x=one");
        let first = seq(&daemon, NAME);
        daemon.sh(NAME, "echo two > a; rm -r d; echo file > d; echo new > n; x=two");
        let second = seq(&daemon, NAME);
        crash(&mut daemon, &format!("/v1/sessions/{NAME}/rewind"), json!({"to": first}));
        let home = workspace(&daemon, NAME);
        let expected = if is_after { "one\ndeep\none\n" } else { "two\nfile\ntwo\n" };
        let after = daemon.sh(NAME, "cat a; cat d/f 2> /dev/null || cat d; echo $x");
        assert_eq!(after.out(), expected, "{point}");
        assert_eq!(home.join("n").exists(), !is_after, "{point}");
        assert!(names(&daemon.data().join("pending")).is_empty(), "{point}");
        // There is a way from where it is to where it was.
        let back = if is_after { second } else { first };
        assert_eq!(daemon.ask(NAME, "rewind", json!({"to": back, "dry_run": true})).status, 200, "{point}");
        let verdict = daemon.ask(NAME, "verify", json!({})).json();
        assert_eq!(verdict["intact"], true, "{point}: {verdict}");
    }
}

#[test]
fn killed_in_the_middle_of_a_fork() {
    let mut daemon = daemon("fork_copied");
    daemon.create("origin");
    daemon.sh("origin", "echo one > a");
    crash(&mut daemon, "/v1/sessions/origin/fork", json!({"session_id": NAME.to_owned() + "-fork"}));
    assert_eq!(names(&daemon.data().join("workspaces")), ["origin"]);
    assert_eq!(names(&daemon.data().join("checkpoints")), ["origin"]);
    assert!(names(&daemon.data().join("pending")).is_empty());
    assert_eq!(daemon.sh("origin", "cat a").out(), "one\n");
    let fork = daemon.ask("origin", "fork", json!({"session_id": "fork"})).json();
    assert_eq!(fork["forked_from"]["session_id"], "origin");
    assert_eq!(daemon.sh("fork", "cat a").out(), "one\n");
}

#[test]
fn killed_in_the_middle_of_a_checkpoint() {
    let mut daemon = daemon("files_kept");
    // Its answer does not wait for the checkpoint, the next command does; the daemon dies in between.
    for _ in 0..2 {
        let run = Request::new("POST", &format!("/v1/sessions/{NAME}/run"));
        let answer = run.json(json!({"command": "echo one > a"}).to_string()).send(&daemon.door());
        if answer.is_err() {
            break;
        }
    }
    assert!(Request::new("GET", "/healthz").send(&daemon.door()).is_err(), "the daemon should have died");
    daemon.restart_with(Settings::default());
    assert_eq!(daemon.sh(NAME, "cat a; echo two > b").out(), "one\n");
    let last = seq(&daemon, NAME);
    daemon.sh(NAME, "rm a b");
    daemon.rewind_to(NAME, json!(last));
    assert_eq!(daemon.sh(NAME, "cat a b").out(), "one\ntwo\n");
}
