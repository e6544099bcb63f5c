//! What is asked of a session while a command runs in it: it is refused soon, says what it waits for, and can be cancelled.

use super::support::daemon::signal;
use super::support::{Daemon, Request, bash};
use super::tools::{Files, program};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::thread;

/// Starts a command that ends when it is sent a line.
fn occupy(daemon: &Daemon, session: &str) -> String {
    let started = daemon.run(session, json!({"command": "echo busy; read line", "blocking": false}));
    started.run_id().to_owned()
}

fn let_go(daemon: &Daemon, session: &str, run_id: &str) {
    let sent = daemon.ask(session, &format!("runs/{run_id}/input"), json!({"text": "go\n"}));
    assert_eq!(sent.status, 200, "{}", sent.text());
    assert_eq!(daemon.wait_run(session, run_id, 60).status(), "exited");
}

fn rewinds(daemon: &Daemon, session: &str) -> Vec<Value> {
    daemon.at(session, "events?type=session_rewound").json()["events"].as_array().unwrap().clone()
}

/// `undo` on a busy session waited in silence, and happened after its caller had gone.
#[test]
fn a_busy_session_refuses_to_go_back_and_says_why() {
    let daemon = Daemon::start();
    daemon.create("s");
    daemon.sh("s", "echo one > file");
    daemon.checkpoints("s");
    let run_id = occupy(&daemon, "s");
    let undo = Request::new("POST", "/v1/sessions/s/rewind").json(json!({"to": "undo"}).to_string());
    let left = undo.open_and_leave(&daemon.door()).unwrap();
    thread::scope(|scope| {
        let asked = [
            scope.spawn(|| daemon.ask("s", "rewind", json!({"to": "undo"}))),
            scope.spawn(|| daemon.at("s", "diff")),
            scope.spawn(|| daemon.ask("s", "checkpoints", json!({}))),
        ];
        for answer in asked.map(|asked| asked.join().unwrap()) {
            assert_eq!(answer.refused(), (409, "session_busy".to_owned()), "{}", answer.text());
            let problem = answer.json();
            assert_eq!((&problem["run_id"], &problem["command"]), (&json!(run_id), &json!("echo busy; read line")));
            // They were told that a command waits without if_busy=reject, which none of them has.
            assert_eq!(problem["hint"], "try_after_run", "{problem}");
        }
        let run = |more: Value| {
            let mut body = json!({"command": "true"});
            body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            daemon.ask("s", "run", body).json()
        };
        assert_eq!(run(json!({"if_busy": "reject"}))["hint"], "wait_for_run");
        let waited = run(json!({"timeout": 0.3}));
        assert_eq!((&waited["hint"], &waited["code"]), (&json!("wait_longer"), &json!("session_busy")), "{waited}");
        assert!(waited["detail"].as_str().unwrap().contains("nothing was run"), "{waited}");
        let undone = scope.spawn(|| program(&daemon, &["undo", "s"])).join().unwrap();
        let said = String::from_utf8_lossy(&undone.stderr).into_owned();
        assert_eq!(undone.status.code(), Some(1), "{said}");
        assert!(said.contains(&run_id) && said.contains("shellkeep runs signal"), "{said}");
    });
    drop(left);
    let late = undo.open_and_leave(&daemon.door()).unwrap();
    drop(late);
    let_go(&daemon, "s", &run_id);
    assert_eq!(daemon.tree("s"), super::tools::files(&[("file", "one\n")]));
    assert_eq!(rewinds(&daemon, "s"), Vec::<Value>::new());
    // A command that ends soon is waited for.
    let run_id = occupy(&daemon, "s");
    thread::scope(|scope| {
        let undone = scope.spawn(|| daemon.ask("s", "rewind", json!({"to": "undo"})));
        let_go(&daemon, "s", &run_id);
        assert_eq!(undone.join().unwrap().status, 200);
    });
}

/// A command that waited for its turn ran though its caller had pressed Ctrl-C.
#[test]
fn a_command_that_waits_says_for_what_and_can_be_cancelled() {
    let daemon = Daemon::start();
    daemon.create("s");
    let never = daemon.cwd("s").join("never");
    let touch = format!("touch {}", never.display());
    let run_id = occupy(&daemon, "s");
    // By its request id.
    let body = json!({"command": touch, "request_id": "later", "timeout": 60});
    thread::scope(|scope| {
        let waiting = scope.spawn(|| daemon.ask("s", "run", body));
        let cancelled = shellkeep_poll::until("the command has joined the queue", || {
            let sent = daemon.signal_run("s", "later", "TERM");
            (sent.status == 200).then(|| sent.json())
        });
        assert_eq!(cancelled, json!({"run_id": "later", "signal": "TERM", "cancelled": true}));
        assert_eq!(waiting.join().unwrap().refused(), (409, "run_cancelled".to_owned()));
    });
    assert_eq!(daemon.signal_run("s", "later", "INT").refused(), (404, "run_not_found".to_owned()));
    // By Ctrl-C, and as a supervisor does it.
    let signals = [("INT", 130), ("TERM", 143), ("HUP", 129)];
    for (flags, (name, code)) in [&[][..], &["--json"], &["--no-wait"]].into_iter().zip(signals) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_shellkeep"));
        command.args(["run", "--no-start", "-s", "s", "--socket"]).arg(daemon.directory().join("s.sock"));
        command.args(flags).arg(&touch).env_clear().envs(bash::environment()).current_dir(daemon.directory());
        let mut child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
        let first = said.next().unwrap().unwrap();
        assert!(first.contains(&format!("waiting for {run_id} in session 's'")), "{flags:?}: {first}");
        assert!(first.contains("echo busy; read line"), "{flags:?}: {first}");
        signal(child.id(), name);
        assert_eq!(child.wait().unwrap().code(), Some(code), "{flags:?} {name}");
    }
    let_go(&daemon, "s", &run_id);
    assert_eq!(daemon.sh("s", "echo next").out(), "next\n");
    assert!(!never.exists(), "a command that was cancelled ran");
    // One that runs is found by its request id, too.
    let running = daemon.run("s", json!({"command": "sleep 1000", "blocking": false, "request_id": "mine"}));
    let sent = daemon.signal_run("s", "mine", "INT");
    assert_eq!((sent.status, &sent.json()["run_id"]), (200, &json!(running.run_id())));
    assert_eq!(daemon.wait_run("s", running.run_id(), 60).signal(), Some("INT"));
}
