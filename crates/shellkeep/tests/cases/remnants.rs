//! What a command leaves running when its shell has ended, or when it ran in the background: it keeps no other session from
//! a shell, what it writes is kept, and nobody ends it without saying so.

use crate::support::procs::{self, unique_sleep};
use crate::support::{Daemon, Reply, Request, Settings};
use serde_json::json;
use shellkeep_poll::until;
use std::fs;

/// A command that has gone to the background.
fn in_background(daemon: &Daemon, command: &str) -> Reply {
    let run = daemon.run("s", json!({"command": command, "timeout": 0.5, "on_timeout": "background"}));
    assert_eq!(run.status(), "running", "{:?}", run.json);
    run
}

/// Each of them had a place among the node's shells for as long as the session lived; after as many as there are places
/// nobody on the node got a shell.
#[test]
fn a_shell_that_ended_has_no_place() {
    let daemon = Daemon::with(Settings::default().env("SHELLKEEP_MAX_SHELLS", "2").env("SHELLKEEP_SPARE_SHELLS", "0"));
    daemon.create("s");
    daemon.create("t");
    let mark = unique_sleep();
    for _ in 0..4 {
        let left = daemon.run("s", json!({"command": format!("sleep {mark} & exit"), "timeout": 20}));
        assert_eq!(left.status(), "exited", "{:?}", left.json);
    }
    let other = daemon.run("t", json!({"command": "echo here", "timeout": 20}));
    assert_eq!(other.out(), "here\n", "{:?}", other.json);
    assert_eq!(procs::marked(&mark).len(), 4, "what was left runs on");
}

#[test]
fn what_runs_without_a_shell_is_ended_with_a_notice() {
    let daemon = Daemon::start();
    daemon.create("s");
    let mark = unique_sleep();
    daemon.sh("s", &format!("sleep {mark} & exit"));
    daemon.hibernate("s");
    assert!(procs::marked(&mark).is_empty(), "it runs although the session sleeps");
    let next = daemon.sh("s", "echo next");
    assert!(next.notice_text().contains("background jobs were killed: "), "{:?}", next.json);
    assert!(next.notice_text().contains(&mark), "{:?}", next.json);
}

/// Its pipes were closed when it ended, and the next line that one of its children wrote killed that child.
#[test]
fn what_a_background_command_leaves_writes_on() {
    let daemon = Daemon::start();
    daemon.create("s");
    daemon.sh("s", "mkfifo go");
    let run = in_background(&daemon, "{ read -r _ < go; echo late; echo later; } & sleep 1; echo end");
    let ended = daemon.wait_run("s", run.run_id(), 20);
    assert_eq!((ended.status(), ended.out().as_str()), ("exited", "end\n"), "{:?}", ended.json);
    fs::write(daemon.cwd("s").join("go"), "\n").unwrap();
    let mut told = String::new();
    until("the child has written", || {
        told.push_str(&daemon.sh("s", ":").background_output());
        (told == "late\nlater\n").then_some(())
    });
}

/// While a command's shell is back and what it started has time to exit, nobody was listened to.
#[test]
fn what_is_being_ended_can_be_killed() {
    let daemon = Daemon::start();
    daemon.create("s");
    let (stays, goes) = (unique_sleep(), unique_sleep());
    let run = in_background(&daemon, &format!("(trap '' TERM; exec sleep {stays}) & sleep {goes}"));
    until("both run", || (procs::marked(&stays).len() == 1 && procs::marked(&goes).len() == 1).then_some(()));
    let stop = format!("/v1/sessions/s/services/{}/stop", run.run_id());
    let request = Request::new("POST", &stop).json(json!({"grace": 100}).to_string());
    let _stopping = request.open_and_leave(&daemon.door()).unwrap();
    until("the command itself has ended", || procs::marked(&goes).is_empty().then_some(()));
    let sent = daemon.signal_run("s", run.run_id(), "KILL");
    assert_eq!(sent.status, 200, "{}", sent.text());
    let ended = daemon.wait_run("s", run.run_id(), 20);
    assert_eq!(ended.status(), "interrupted", "{:?}", ended.json);
    assert!(procs::marked(&stays).is_empty());
}

/// The session waited for a shell that read nothing, without a limit, and heard nobody.
#[test]
fn a_stopped_shell_does_not_hold_up_a_long_command() {
    let daemon = Daemon::start();
    daemon.create("s");
    daemon.sh("s", "kept=yes; mkfifo go; (read -r _ < go; kill -STOP $$) &");
    let shell = daemon.shell_pid("s").expect("a shell");
    fs::write(daemon.cwd("s").join("go"), "\n").unwrap();
    until("the shell is stopped", || procs::is_stopped(shell).then_some(()));
    let long = format!(": {}", "x".repeat(4 << 20));
    let run = daemon.run("s", json!({"command": long, "timeout": 1}));
    assert_eq!(run.status(), "timed_out", "{:?}", run.json);
    assert_eq!(daemon.sh("s", "echo $kept").out(), "yes\n");
}
