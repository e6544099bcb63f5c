//! Nothing of a command runs after it was interrupted, at whatever moment that was.

mod support;

use serde_json::json;
use support::Daemon;
use support::services::in_parallel;

const SESSIONS: usize = 6;
/// Interruptions in each session; the long form multiplies them.
const ROUNDS: usize = 50;
/// What a round may do between starting the command and interrupting it, so that the moments differ.
const DELAYS: usize = 4;

/// Bash ignored an interruption that arrived before the command itself, ran it, and went on with the next step when the
/// one that it waited for was killed: 6 of 1,800 printed `no`.
#[test]
fn nothing_runs_after_an_interruption() {
    let daemon = Daemon::start();
    let names: Vec<String> = (0..SESSIONS).map(|number| format!("s{number}")).collect();
    for name in &names {
        daemon.create(name);
    }
    let command = "echo go; sleep 60; echo no; /bin/echo no";
    in_parallel(SESSIONS, &names, |name| {
        for round in 0..ROUNDS * support::soak() {
            let started = daemon.run(name, json!({"command": command, "blocking": false, "timeout": 30}));
            let run_id = started.run_id().to_owned();
            for _ in 0..round % DELAYS {
                daemon.get("/healthz");
            }
            let signal = ["INT", "TERM"][round / DELAYS % 2];
            let sent = daemon.signal_run(name, &run_id, signal);
            assert_eq!(sent.status, 200, "{}", sent.text());
            let done = daemon.wait_run(name, &run_id, 20);
            assert_eq!(done.status(), "interrupted", "round {round}: {:?}", done.json);
            // A child that was being forked did not get the signal and was killed five seconds later: 31 of 4,000.
            let code = if signal == "INT" { 130 } else { 143 };
            assert_eq!(done.exit_code(), Some(code), "round {round}: {:?}", done.json);
            assert!(["", "go\n"].contains(&done.out().as_str()), "round {round}: {:?}", done.json);
            // Bash waited for the child of the interrupted command again: 137 for an `echo`, and its death on stderr.
            let next = daemon.sh(name, "echo next");
            let result = (next.exit_code(), next.out(), next.err());
            assert_eq!(result, (Some(0), "next\n".to_owned(), String::new()), "round {round}: {:?}", next.json);
        }
    });
}

/// An interruption that comes too late for its command does not hit the next one.
#[test]
fn an_interruption_hits_its_own_command_only() {
    let daemon = Daemon::start();
    daemon.create("s");
    for round in 0..2 * ROUNDS * support::soak() {
        let started = daemon.run("s", json!({"command": ":", "blocking": false}));
        let sent = daemon.signal_run("s", started.run_id(), "INT");
        assert!([200, 409].contains(&sent.status), "{}", sent.text());
        let next = daemon.sh("s", "echo whole; /bin/echo whole");
        assert_eq!(
            (next.status(), next.out().as_str()),
            ("exited", "whole\nwhole\n"),
            "round {round}: {:?}",
            next.json
        );
    }
}

/// The user's queue of signals is shared by all sessions without users of their own, and one process can fill it. Then the
/// request to interrupt was lost: the children got their TERM, the command went on after them, and was told as a success.
#[test]
fn a_full_queue_of_signals_stops_no_interruption() {
    let daemon = Daemon::start();
    daemon.create("s");
    // As if others had filled it: what is queued for a process counts against its own limit.
    let full = "ulimit -S -i 0";
    let late = daemon.run("s", json!({"command": format!("{full}; sleep 60; echo no; /bin/echo no"), "timeout": 1}));
    let result = (late.status(), late.exit_code(), late.out());
    assert_eq!(result, ("timed_out", Some(143), String::new()), "{:?}", late.json);
    let ready = daemon.cwd("s").join("ready");
    let start = |command: &str| {
        let _ = std::fs::remove_file(&ready);
        let run = daemon.run("s", json!({"command": command, "blocking": false, "timeout": 60}));
        shellkeep_poll::until("the command to begin", || ready.exists().then_some(()));
        run.run_id().to_owned()
    };
    let run = start(&format!("{full}; : > ready; sleep 60; echo no"));
    daemon.signal_run("s", &run, "INT");
    let done = daemon.wait_run("s", &run, 20);
    assert_eq!((done.status(), done.out()), ("interrupted", String::new()), "{:?}", done.json);
    // A trap still gets its signal.
    let run = start(&format!("{full}; trap 'got=1' USR1; : > ready; until [ \"$got\" ]; do :; done; echo got"));
    daemon.signal_run("s", &run, "USR1");
    let done = daemon.wait_run("s", &run, 20);
    assert_eq!((done.status(), done.out().as_str()), ("exited", "got\n"), "{:?}", done.json);
}
