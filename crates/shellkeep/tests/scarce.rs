//! A machine that cannot start another shell: too few descriptors, no bash. Every command is answered, with the reason
//! where it was not run; the daemon pauses between its tries, goes on as soon as it can, and can be stopped meanwhile.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test says what it expected by panicking")]

mod support;

use serde_json::{Value, json};
use shellkeep_poll::until;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use support::services::in_parallel;
use support::{Daemon, Settings};

/// Descriptors of a daemon that is to run out of them, and the commands it gets at the same time.
const DESCRIPTORS: usize = 150;
const COMMANDS: usize = 120;
/// The pause after a failed start is at least this, so a second has no more failures than 20.
const SHORTEST_PAUSE: Duration = Duration::from_millis(50);
/// Lines about it that a daemon may log, however often it happens.
const LOG_LINES: usize = 10;

/// A daemon whose bash is a copy that can be taken away.
fn with_own_bash() -> (Daemon, PathBuf) {
    let directory = tempfile::Builder::new().prefix("shellkeep-test-").tempdir().expect("a temporary directory");
    let bash = directory.path().join("bash");
    fs::copy("/bin/bash", &bash).expect("there is a bash");
    let settings = Settings::default().set("--bash", bash.to_str().expect("a plain path"));
    (Daemon::on(directory, settings), bash)
}

/// What the metrics say of failed starts.
fn failed_starts(daemon: &Daemon) -> f64 {
    let metrics = daemon.get("/metrics").text();
    let line = metrics.lines().find_map(|line| line.strip_prefix("shellkeep_shell_starts_failed_total "));
    line.map_or(0.0, |value| value.trim().parse().expect("a number"))
}

/// The log has the reason, but not once for every failure.
fn log_is_calm(daemon: &Daemon) {
    let log = daemon.log();
    let about = ["could not be started", "could not be accepted", "started again"];
    let lines = log.lines().filter(|line| about.iter().any(|words| line.contains(words))).count();
    assert!((1..LOG_LINES).contains(&lines), "{lines} lines about it:\n{log}");
}

/// Creates sessions and runs one command in each until there is no shell for the next; gives the refusal.
fn run_until_refused(daemon: &Daemon, prefix: &str) -> (String, Value) {
    for number in 0..50 {
        let session = format!("{prefix}{number}");
        daemon.create(&session);
        let answer = daemon.post(&format!("/v1/sessions/{session}/run"), &json!({"command": "echo ok", "timeout": 20}));
        if answer.status != 200 {
            assert_eq!(answer.status, 503, "{}", answer.text());
            return (session, answer.json());
        }
    }
    panic!("50 sessions got a shell without a bash to start");
}

/// Without descriptors a failed start woke the keeper of spares, which failed and woke itself: one thread was busy with
/// that for ever, half of the time no command was answered again and SIGTERM was not heard. Commands that had a shell but
/// no pipes waited for their timeout.
#[test]
fn without_descriptors_every_command_is_answered() {
    let limit = format!("--nofile={DESCRIPTORS}:{DESCRIPTORS}");
    let settings = Settings { wrapper: vec!["prlimit".to_owned(), limit], ..Settings::default() };
    let mut daemon = Daemon::with(settings);
    let names: Vec<String> = (0..COMMANDS).map(|number| format!("s{number}")).collect();
    for name in &names {
        daemon.create(name);
    }
    let answers = in_parallel(COMMANDS, &names, |name| {
        let body = json!({"command": "echo ok", "timeout": 4});
        daemon.post(&format!("/v1/sessions/{name}/run"), &body)
    });
    let mut served = 0;
    for answer in &answers {
        let json = answer.json();
        match answer.status {
            200 => {
                assert_eq!(
                    (json["status"].as_str(), json["stdout"].as_str()),
                    (Some("exited"), Some("ok\n")),
                    "{json}"
                );
                served += 1;
            }
            503 if json["code"] == "shell_unavailable" => {
                let detail = json["detail"].as_str().expect("a sentence");
                assert!(detail.contains("os error 24") && detail.contains("ulimit -n"), "{detail}");
            }
            _ => panic!("{}: {json}", answer.status),
        }
    }
    println!("{served} of {COMMANDS} commands were run with {DESCRIPTORS} descriptors");
    assert_eq!(daemon.sh("s0", "echo after").out(), "after\n", "the node works on");
    log_is_calm(&daemon);
    assert!(!daemon.log().contains("no longer signed"), "a file that could not be read was taken for a changed one");
    daemon.stop();
    assert!(daemon.log().contains("stopping"), "SIGTERM was not heard:\n{}", daemon.log());
}

#[test]
fn without_bash_the_answer_says_so_and_it_goes_on_when_bash_is_back() {
    let (daemon, bash) = with_own_bash();
    let away = bash.with_extension("away");
    fs::rename(&bash, &away).expect("bash can be moved");
    let begun = Instant::now();
    let (mut session, refusal) = run_until_refused(&daemon, "s");
    assert_eq!(refusal["code"], "shell_unavailable", "{refusal}");
    let detail = refusal["detail"].as_str().expect("a sentence");
    let parts = [bash.to_str().expect("a plain path"), "os error 2", "--bash", "Nothing was run"];
    assert!(parts.iter().all(|part| detail.contains(part)), "{detail}");
    // A shell that was starting when bash was moved may still arrive.
    let mut late = 0;
    for _ in 0..200 {
        let answer = daemon.post(&format!("/v1/sessions/{session}/run"), &json!({"command": "echo no"}));
        if answer.status == 200 && late < 2 {
            late += 1;
            session = run_until_refused(&daemon, &format!("late{late}-")).0;
            continue;
        }
        assert_eq!((answer.status, answer.json()["code"].as_str()), (503, Some("shell_unavailable")));
    }
    let (failed, may_have) = (failed_starts(&daemon), begun.elapsed().as_secs_f64() / SHORTEST_PAUSE.as_secs_f64());
    assert!(failed >= 1.0 && failed <= may_have + 2.0, "{failed} starts failed in {:?}", begun.elapsed());
    log_is_calm(&daemon);

    fs::rename(&away, &bash).expect("bash can be moved back");
    until("commands are run again", || {
        let answer = daemon.post(&format!("/v1/sessions/{session}/run"), &json!({"command": "echo yes"}));
        (answer.status == 200).then(|| assert_eq!(answer.json()["stdout"], "yes\n"))
    });
}

#[test]
fn a_daemon_without_bash_can_be_stopped() {
    let (mut daemon, bash) = with_own_bash();
    fs::remove_file(&bash).expect("bash can be removed");
    run_until_refused(&daemon, "s");
    daemon.stop();
    assert!(daemon.log().contains("stopping"), "SIGTERM was not heard:\n{}", daemon.log());
}
