//! Nothing of a command runs after it was interrupted, at whatever moment that was.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test says what it expected by panicking")]

mod support;

use serde_json::json;
use std::fs;
use std::process::{Command, Stdio};
use support::daemon::signal;
use support::services::in_parallel;
use support::{Daemon, bash};

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

/// Bash starts what runs in the background with INT and QUIT ignored. A command that waited for such a child ended at once, but
/// its caller was told so five seconds later, and that it had been killed.
#[test]
fn a_child_that_ignores_an_interruption_is_not_waited_for() {
    let daemon = Daemon::start();
    daemon.create("s");
    let ready = daemon.cwd("s").join("ready");
    for (signal, code) in [("INT", 130), ("QUIT", 131)] {
        let _ = fs::remove_file(&ready);
        let body = json!({"command": "sleep 600 & : > ready; wait; echo no", "blocking": false, "timeout": 60});
        let run = daemon.run("s", body).run_id().to_owned();
        shellkeep_poll::until("the command to begin", || ready.exists().then_some(()));
        daemon.signal_run("s", &run, signal);
        let done = daemon.wait_run("s", &run, 20);
        let result = (done.status(), done.exit_code(), done.signal());
        assert_eq!(result, ("interrupted", Some(code), Some(signal)), "{:?}", done.json);
        assert_eq!(done.out(), "", "{:?}", done.json);
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

/// `run` in the session `s`, started by `before`, with a command that says by a file that it has begun.
fn client(daemon: &Daemon, before: &[&str], flags: &[&str], command: &str) -> std::process::Child {
    let ready = daemon.cwd("s").join("ready");
    let _ = fs::remove_file(&ready);
    let words = [before, &[env!("CARGO_BIN_EXE_shellkeep"), "run", "--no-start", "-s", "s"], flags].concat();
    let mut client = Command::new(words[0]);
    client.args(&words[1..]).arg("--socket").arg(daemon.directory().join("s.sock"));
    client.args(["--", &format!(": > ready; {command}")]).env_clear().envs(bash::environment());
    let client =
        client.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the client starts");
    shellkeep_poll::until("the command to begin", || ready.exists().then_some(()));
    client
}

/// SIGTERM and SIGHUP ended the client alone: its command went on, and kept the session busy until its timeout.
#[test]
fn a_signal_to_the_client_is_one_to_its_command() {
    let daemon = Daemon::start();
    daemon.create("s");
    for (name, code) in [("TERM", 143), ("HUP", 129), ("INT", 130)] {
        for flags in [&[][..], &["--json"]] {
            let client = client(&daemon, &[], flags, "sleep 600; echo no");
            signal(client.id(), name);
            let ended = client.wait_with_output().unwrap();
            assert_eq!(ended.status.code(), Some(code), "{name} {flags:?}: {ended:?}");
            let run = daemon.get("/v1/sessions/s/runs?limit=1").json()["runs"][0].clone();
            assert_eq!((&run["status"], &run["exit_code"]), (&json!("interrupted"), &json!(code)), "{name}: {run}");
        }
    }
    // The client waits for what the command still does.
    let program = "bash -c \"trap 'sleep 0.5; echo cleaned; exit 0' TERM; while :; do sleep 0.1; done\"";
    let client = client(&daemon, &[], &[], program);
    signal(client.id(), "TERM");
    let ended = client.wait_with_output().unwrap();
    let run = daemon.get("/v1/sessions/s/runs?limit=1").json()["runs"][0].clone();
    assert_eq!((json!(ended.status.code()), ended.stdout.as_slice()), (run["exit_code"].clone(), &b"cleaned\n"[..]));
}

/// What `nohup` is for: the command goes on when the terminal is gone.
#[test]
fn a_hangup_that_is_ignored_reaches_no_command() {
    let daemon = Daemon::start();
    daemon.create("s");
    let client = client(&daemon, &["nohup"], &[], "until [ -e go ]; do sleep 0.01; done; echo done");
    signal(client.id(), "HUP");
    // A second one would make the client leave.
    signal(client.id(), "HUP");
    (0..20).for_each(|_| drop(daemon.get("/healthz")));
    fs::write(daemon.cwd("s").join("go"), "").unwrap();
    let ended = client.wait_with_output().unwrap();
    assert_eq!((ended.status.code(), ended.stdout.as_slice()), (Some(0), &b"done\n"[..]), "{ended:?}");
}

/// The client waited without end for a stuck daemon to pass the signal on, and heard no second one meanwhile: `timeout` could
/// not end it.
#[test]
fn a_stuck_daemon_keeps_no_client() {
    let daemon = Daemon::start();
    daemon.create("s");
    for flags in [&[][..], &["--json"]] {
        let client = client(&daemon, &[], flags, "sleep 600");
        signal(daemon.pid(), "STOP");
        signal(client.id(), "TERM");
        let ended = client.wait_with_output().unwrap();
        signal(daemon.pid(), "CONT");
        assert_eq!(ended.status.code(), Some(143), "{flags:?}: {ended:?}");
        let told = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert!(told.contains("the daemon does not answer"), "{flags:?}: {told}");
        let run = daemon.get("/v1/sessions/s/runs?limit=1").json()["runs"][0]["run_id"].as_str().unwrap().to_owned();
        daemon.signal_run("s", &run, "TERM");
        daemon.wait_run("s", &run, 20);
    }
}

/// A client that wrote to a pipe that nobody read heard no signal at all.
#[test]
fn a_second_signal_ends_a_client_that_cannot_write() {
    let daemon = Daemon::start();
    daemon.create("s");
    let mut client = client(&daemon, &[], &[], "yes");
    let unread = client.stdout.take().unwrap();
    let is_filled = || rustix::io::ioctl_fionread(&unread).is_ok_and(|bytes| bytes > 1 << 15).then_some(());
    shellkeep_poll::until("the pipe to be full", is_filled);
    signal(client.id(), "TERM");
    signal(client.id(), "HUP");
    let code = shellkeep_poll::until("the client to end", || client.try_wait().unwrap()).code();
    // Which of the two is heard first is not said.
    assert!([Some(143), Some(129)].contains(&code), "{code:?}");
}
