//! The daemon killed in the middle of a checkpoint, a rewind, a fork: the files are before or after, and nothing is lost.

use super::support::{Daemon, Request, Settings};
use super::tools::{Files, seq};
use serde_json::json;
use shellkeep_poll::until;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

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
    assert_eq!(names(&daemon.data().join("workspaces")), [NAME, "origin"]);
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

/// `n=1; v1 > f`, `n=2; v2 > f`, and the daemon is killed; a rewind to the second gives what it did, and not what is older.
/// `false` if the checkpoint was there before the kill, so that nothing was due.
fn killed_before_its_checkpoint(point: Option<&str>) -> bool {
    let settings = point.map_or_else(Settings::default, |point| Settings::default().env("SHELLKEEP_CRASH_AT", point));
    let mut daemon = Daemon::start();
    daemon.create(NAME);
    daemon.sh(NAME, "n=1; echo v1 > f");
    let second = daemon.ask(NAME, "run", json!({"command": "n=2; echo v2 > f; mkdir d; echo x > d/x"})).json();
    daemon.kill();
    if point.is_some() {
        // The next one dies, too, while it makes up for it, which it begins as soon as it starts.
        let is_open = daemon.restart_to_die(&settings);
        let third = json!({"command": "n=3; echo v3 > f; rm -r d"});
        let run = Request::new("POST", &format!("/v1/sessions/{NAME}/run")).json(third.to_string());
        if is_open && run.send(&daemon.door()).is_ok() {
            return false;
        }
    }
    daemon.restart_with(Settings::default());
    daemon.sh(NAME, "n=3; echo v3 > f; rm -r d");
    let back = daemon.rewind_to(NAME, second["run_id"].clone());
    assert!(back.get("uncertain").is_none(), "{point:?}: {back}");
    assert_eq!(daemon.sh(NAME, "echo $n; cat f d/x").out(), "2\nv2\nx\n", "{point:?}: {back}");
    true
}

#[test]
fn killed_before_a_checkpoint_that_was_due() {
    for point in [None, Some("files_owed"), Some("files_kept")] {
        let was_due = (0..10).any(|_| killed_before_its_checkpoint(point));
        assert!(was_due, "the daemon should have died at {point:?}");
    }
}

/// What a command did to the files before the daemon was killed under it is kept before the next command changes them.
#[test]
fn killed_in_the_middle_of_a_command() {
    let mut daemon = Daemon::start();
    daemon.create(NAME);
    daemon.sh(NAME, "echo v1 > f");
    let second = daemon.ask(NAME, "run", json!({"command": "echo v2 > f; sleep 60", "blocking": false})).json();
    let file = workspace(&daemon, NAME).join("f");
    until("the command has written", || (std::fs::read_to_string(&file).ok()? == "v2\n").then_some(()));
    daemon.restart();
    daemon.sh(NAME, "echo v3 > f");
    let back = daemon.rewind_to(NAME, second["run_id"].clone());
    assert_eq!(daemon.sh(NAME, "cat f").out(), "v2\n", "{back}");
}

#[test]
fn a_checkpoint_that_was_due_is_made_before_a_rewind_and_a_look() {
    let mut daemon = Daemon::start();
    daemon.create("s");
    daemon.sh("s", "echo v1 > f");
    let second = daemon.ask("s", "run", json!({"command": "echo v2 > f"})).json();
    daemon.restart();
    let file = daemon.at("s", &format!("checkpoints/{}/file?path=f", second["run_id"].as_str().unwrap()));
    assert_eq!(file.text(), "v2\n");
    let third = daemon.ask("s", "run", json!({"command": "echo v3 > f"})).json();
    daemon.restart();
    daemon.rewind_to("s", second["run_id"].clone());
    daemon.rewind_to("s", third["run_id"].clone());
    assert_eq!(daemon.sh("s", "cat f").out(), "v3\n");
}

#[test]
fn what_changed_while_no_daemon_ran_is_named() {
    let mut daemon = Daemon::start();
    daemon.create("s");
    daemon.sh("s", "echo v1 > f; echo v1 > g; echo v1 > h");
    daemon.checkpoints("s");
    // The answer does not wait for the checkpoint; a daemon that is stopped in time has not made it.
    let second = daemon.ask("s", "run", json!({"command": "echo v2 > f; echo v2 > g"})).json();
    daemon.kill();
    // The file system's clock has ticks of some milliseconds, and lags behind the one that the answer has its time from.
    let (by_hand, killed) = (workspace(&daemon, "s").join("f"), SystemTime::now());
    until("what is written is younger than the answer", || {
        std::fs::write(&by_hand, "by hand\n").unwrap();
        let about = std::fs::metadata(&by_hand).unwrap();
        let changed = Duration::new(about.ctime().cast_unsigned(), about.ctime_nsec() as u32);
        (UNIX_EPOCH + changed > killed).then_some(())
    });
    std::fs::remove_file(workspace(&daemon, "s").join("h")).unwrap();
    daemon.restart();
    daemon.sh("s", "echo v3 | tee f g h");
    let back = daemon.rewind_to("s", second["run_id"].clone());
    let named: Vec<&str> =
        back["uncertain"].as_array().into_iter().flatten().map(|left| left["path"].as_str().unwrap()).collect();
    let checkpoints = daemon.checkpoints("s");
    let in_time = checkpoints.iter().any(|made| made["run_id"] == second["run_id"] && made.get("uncertain").is_none());
    if in_time {
        assert_eq!(daemon.sh("s", "cat f g h").out(), "v2\nv2\nv1\n");
    } else {
        assert_eq!(named, ["f", "h"], "{back}");
        assert_eq!(back["uncertain_total"], 2);
        let notices = back["notices"].as_array().unwrap();
        assert!(notices.iter().any(|notice| notice["code"] == "files_uncertain"), "{back}");
        assert_eq!(daemon.sh("s", "cat g").out(), "v2\n");
    }
}

/// The file that tells the next daemon of a live session was removed by work that had begun when the session had no shell:
/// a command that came in between ran without it, and a crash then lost what the command had changed.
#[test]
fn a_session_that_wakes_while_its_files_come_to_rest_is_still_live() {
    let daemon = Daemon::start();
    daemon.create("s");
    let note = daemon.data().join("checkpoints/s/kept-to");
    for number in 0..40 {
        daemon.hibernate("s");
        daemon.sh("s", &format!("echo {number} > a"));
        // The next command waits until the files of the one before are kept.
        daemon.sh("s", "true");
        assert!(note.exists(), "round {number}");
    }
}
