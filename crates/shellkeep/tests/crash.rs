//! The daemon killed at named points in the life of a command, and at any moment: what was answered is there, what was
//! not is `lost`, nothing runs twice, no process is left.

mod support;

use serde_json::json;
use shellkeep_poll::until;
use support::procs::{self, unique_sleep};
use support::{Daemon, Request, Settings};

/// The points of the runtime, with what a retry of the same request must find and how often the command ran.
const POINTS: [(&str, &str, &[usize]); 4] = [
    ("start_recorded", "lost", &[0]),
    ("begun", "lost", &[0, 1]),
    ("done", "lost", &[1]),
    ("result_recorded", "exited", &[1]),
];

fn crashing_daemon(point: &str, store: Option<&str>) -> Daemon {
    let settings = Settings::default().env("SHELLKEEP_CRASH_AT", point);
    let daemon = Daemon::with(match store {
        Some(url) => settings.store(url),
        None => settings,
    });
    daemon.create("s");
    assert_eq!(daemon.sh("s", "x=1; cd /usr; f() { echo f; }").exit_code(), Some(0));
    daemon
}

/// Sends a command that kills the daemon on its way.
fn send_and_crash(daemon: &Daemon, body: &serde_json::Value) {
    let answer = Request::new("POST", "/v1/sessions/s/run").json(body.to_string()).send(&daemon.door());
    assert!(answer.is_err(), "the daemon should have died: {answer:?}");
}

fn kill_at_points(store: Option<&str>) {
    for (point, status, times) in POINTS {
        let mut daemon = crashing_daemon(point, store);
        let (marker, job) = (daemon.directory().join("marker"), unique_sleep());
        let command = format!("echo ran >> {}; sleep {job} & y=2 # crash-here", marker.display());
        let body = json!({"command": command, "request_id": "once"});
        send_and_crash(&daemon, &body);
        daemon.restart();
        let again = daemon.run("s", body);
        assert_eq!(again.status(), status, "{point}: {:?}", again.json);
        let ran = std::fs::read_to_string(&marker).unwrap_or_default().lines().count();
        assert!(times.contains(&ran), "{point}: ran {ran} times");
        assert!(procs::marked(&job).is_empty(), "{point}: a process is left");
        let after = daemon.sh("s", "echo $x $PWD ${y-unset}; f");
        let y = if status == "exited" { "2" } else { "unset" };
        assert_eq!(after.out(), format!("1 /usr {y}\nf\n"), "{point}");
        assert_eq!(after.notice_codes().is_empty(), status == "exited", "{point}: {}", after.notice_text());
    }
}

#[test]
fn killed_at_every_named_point() {
    kill_at_points(None);
}

#[test]
fn killed_at_every_named_point_on_files() {
    kill_at_points(Some("file://{data}/files"));
}

#[test]
fn killed_before_anything_was_written() {
    let mut daemon = crashing_daemon("accepted", None);
    let marker = daemon.directory().join("marker");
    send_and_crash(&daemon, &json!({"command": format!("echo ran >> {} # crash-here", marker.display())}));
    daemon.restart();
    assert!(!marker.exists());
    let after = daemon.sh("s", "echo $x $PWD");
    assert_eq!((after.out().as_str(), after.notice_codes()), ("1 /usr\n", vec![]));
}

/// A bug in the task of one session: its caller learns that it was a bug, and the session continues without a restart.
#[test]
fn a_panic_in_a_session_is_an_error_and_the_session_continues() {
    for (point, status, times) in POINTS {
        let daemon = crashing_daemon(&format!("panic:{point}"), None);
        daemon.create("other");
        let (marker, job) = (daemon.directory().join("marker"), unique_sleep());
        let command = format!("echo ran >> {}; sleep {job} & y=2 # crash-here", marker.display());
        let body = json!({"command": command, "request_id": "once"});
        let failed = daemon.post("/v1/sessions/s/run", &body);
        assert_eq!((failed.status, failed.json()["code"].as_str()), (500, Some("internal_error")), "{point}");
        assert!(failed.text().contains("bug in shellkeep"), "{point}: {}", failed.text());
        assert_eq!(daemon.sh("other", "echo fine").out(), "fine\n", "{point}");
        let after = daemon.sh("s", "echo $x $PWD; f");
        assert_eq!(after.out(), "1 /usr\nf\n", "{point}");
        let again = daemon.run("s", body);
        assert_eq!(again.status(), status, "{point}: {:?}", again.json);
        let ran = std::fs::read_to_string(&marker).unwrap_or_default().lines().count();
        assert!(times.contains(&ran), "{point}: ran {ran} times");
        until(&format!("{point}: no process is left"), || procs::marked(&job).is_empty().then_some(()));
        let runs = daemon.get("/v1/sessions/s/runs").json();
        assert!(!runs.to_string().contains("\"running\""), "{point}: {runs}");
    }
}

/// Kills at whatever moment it happens to be, again and again, while commands are being sent.
#[test]
fn killed_at_any_moment() {
    let mut daemon = Daemon::start();
    daemon.create("s");
    let log = daemon.directory().join("log");
    daemon.sh("s", "n=0");
    let mut answered = 0;
    for round in 0..12u64 {
        let (door, path) = (daemon.door(), log.clone());
        let first = answered + 1;
        let sender = std::thread::spawn(move || {
            let mut last = first - 1;
            for number in first.. {
                let command = format!("echo {number} >> {}; n={number}", path.display());
                let body = json!({"command": command, "request_id": format!("q{number}-{round}")});
                match Request::new("POST", "/v1/sessions/s/run").json(body.to_string()).send(&door) {
                    Ok(answer) if answer.status == 200 => last = number,
                    _ => return last,
                }
            }
            last
        });
        // A different moment in each round; no particular one is meant.
        shellkeep_poll::pass(std::time::Duration::from_micros(2_000 + round * 3_371));
        daemon.restart();
        let last = sender.join().expect("the sender ends with the daemon");
        let n: u64 = daemon.sh("s", "echo $n").out().trim().parse().expect("n is a number");
        assert!(n == last || n == last + 1, "round {round}: answered up to {last}, but the state says {n}");
        if last >= first {
            let body = json!({"command": format!("echo {last} >> {}; n={last}", log.display()), "request_id": format!("q{last}-{round}")});
            assert_eq!(daemon.run("s", body).status(), "exited", "round {round}: an answered result is gone");
        }
        answered = n.max(last) + 1;
        daemon.sh("s", &format!("n={answered}"));
    }
    let text = std::fs::read_to_string(&log).unwrap_or_default();
    let mut numbers: Vec<&str> = text.lines().collect();
    let total = numbers.len();
    numbers.dedup();
    assert_eq!(numbers.len(), total, "a command ran twice");
}

#[test]
fn a_failing_journal_is_a_notice_and_nothing_is_lost() {
    let mut daemon = Daemon::with(Settings::default().env("SHELLKEEP_FAULT", "store_journal_write:12"));
    daemon.create("s");
    let first = daemon.sh("s", "x=kept; echo out");
    assert_eq!((first.out().as_str(), first.exit_code()), ("out\n", Some(0)));
    assert!(first.notice_codes().contains(&"store_failed"), "{:?}", first.json);
    // The writes are retried until they succeed; a read waits for that.
    let view = daemon.get("/v1/sessions/s");
    assert_eq!(view.status, 200, "{}", view.text());
    daemon.stop();
    daemon.restart();
    assert_eq!(daemon.sh("s", "echo $x").out(), "kept\n");
}

#[test]
fn the_same_request_is_run_once() {
    let daemon = Daemon::start();
    daemon.create("s");
    let body = json!({"command": "n=$((n+1)); echo $n", "request_id": "a"});
    let first = daemon.run("s", body.clone());
    let again = daemon.run("s", body);
    assert_eq!(first.json, again.json);
    let other = daemon.post("/v1/sessions/s/run", &json!({"command": "echo other", "request_id": "a"}));
    assert_eq!((other.status, other.json()["code"].as_str()), (409, Some("request_id_reused")));
    assert_eq!(daemon.sh("s", "echo $n").out(), "1\n");
}
