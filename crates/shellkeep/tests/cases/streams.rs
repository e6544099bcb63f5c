//! What a caller hears of a run: its id first, both outputs in one if asked for, and what follows if it hangs up.

use crate::support::{Daemon, Request, Settings, procs};
use serde_json::{Value, json};
use shellkeep_poll::until;
use std::fs;

/// A workspace was made by the first command, so a first command with that very directory as its `cwd` was refused.
#[test]
fn a_session_has_its_workspace_from_its_creation() {
    let daemon = Daemon::start();
    let made = daemon.create("s");
    let workspace = made["workspace"].as_str().unwrap();
    assert!(fs::metadata(workspace).unwrap().is_dir(), "{workspace}");
    let reply = daemon.run("s", json!({"command": "pwd", "cwd": workspace}));
    assert_eq!(reply.out(), format!("{workspace}\n"));
}

#[test]
fn a_stream_begins_with_the_id_of_its_run() {
    let daemon = Daemon::start();
    daemon.create("s");
    let body = json!({"command": "read line; echo \"got $line\"", "blocking": false, "request_id": "k"});
    let (mut live, started) = daemon.stream_from_start("s", &body);
    let run_id = started["run_id"].as_str().unwrap();
    assert_eq!(run_id, format!("r{}", started["seq"]), "{started}");
    // The id is of use at once: the command waits for its input.
    let target = format!("/v1/sessions/s/runs/{run_id}/input");
    assert_eq!(daemon.post(&target, &json!({"text": "it\n"})).status, 200);
    let output = live.next_event().unwrap();
    assert_eq!((output.event.as_str(), output.data.contains("got it")), ("stdout", true), "{}", output.data);
    let result: Value = serde_json::from_str(&live.next_event().unwrap().data).unwrap();
    assert_eq!(result["run_id"], started["run_id"]);
    // A repeated request hears the same of a run that has ended.
    let (_, again) = daemon.stream_from_start("s", &body);
    assert_eq!(again, started);
}

#[test]
fn both_outputs_come_in_the_order_they_were_written() {
    let daemon = Daemon::start();
    daemon.create("s");
    let command = "for i in {1..500}; do echo o$i; echo e$i >&2; /bin/echo p$i; done; ls /none 2>&1 >&2";
    let merged = daemon.run("s", json!({"command": command, "stderr": "merge"}));
    let mut expected: String = (1..=500).map(|i| format!("o{i}\ne{i}\np{i}\n")).collect();
    let out = merged.out();
    assert!(out.starts_with(&expected), "{}", &out[..200]);
    expected = out[expected.len()..].to_owned();
    assert!(expected.contains("/none"), "{expected}");
    assert_eq!((merged.err().as_str(), &merged.json["stderr_bytes"]), ("", &json!(0)));
    // The next command has them apart again, and so has one after a hibernation.
    for _ in 0..2 {
        let apart = daemon.sh("s", "echo out; echo err >&2");
        assert_eq!((apart.out().as_str(), apart.err().as_str()), ("out\n", "err\n"));
        let again = daemon.run("s", json!({"command": "echo a >&2; exec 2>/dev/null; echo b", "stderr": "merge"}));
        assert_eq!((again.out().as_str(), again.err().as_str()), ("a\nb\n", ""));
        daemon.hibernate("s");
    }
    // Reading by stream says where it went, also while the run goes on, and the recording tells how it was run.
    let run_id = merged.run_id();
    let page = daemon.get(&format!("/v1/sessions/s/runs/{run_id}/output?stream=stderr")).json();
    assert_eq!((&page["text"], &page["merged"]), (&json!(""), &json!(true)), "{page}");
    let page = daemon.get(&format!("/v1/sessions/s/runs/{run_id}/output")).json();
    assert_eq!((&page["text"], page.get("merged")), (&merged.json["stdout"], None));
    let live = daemon.run("s", json!({"command": "echo x >&2; read line", "stderr": "merge", "blocking": false}));
    let page = daemon.get(&format!("/v1/sessions/s/runs/{}/output?stream=stderr", live.run_id())).json();
    assert_eq!(page["merged"], json!(true), "{page}");
    let events = daemon.get("/v1/sessions/s/events?type=run_started&limit=1").json();
    assert_eq!(events["events"][0]["data"]["merged"], json!(true), "{events}");
    let wrong = daemon.post("/v1/sessions/s/run", &json!({"command": ":", "stderr": "mix"}));
    assert_eq!((wrong.status, &wrong.json()["code"]), (400, &json!("invalid_request")));
}

/// The bug: 350 ms after the signal it was killed in the middle of its cleanup.
#[test]
fn a_signal_leaves_a_program_time_to_clean_up() {
    let daemon = Daemon::start();
    daemon.create("s");
    for signal in ["INT", "TERM", "HUP", "QUIT"] {
        let program =
            format!("trap 'sleep 1.5; echo cleaned; exit 0' {signal}; echo begun; while :; do sleep 0.1; done");
        // Bash lets no background child have INT and QUIT, so it runs in the foreground.
        let command = format!("bash -c \"{program}\"");
        let (mut live, started) = daemon.stream_from_start("s", &json!({"command": command, "timeout": 600}));
        assert_eq!(live.next_event().unwrap().event, "stdout", "{signal}");
        let run_id = started["run_id"].as_str().unwrap();
        assert_eq!(daemon.signal_run("s", run_id, signal).status, 200, "{signal}");
        let ended = daemon.wait_run("s", run_id, 60);
        assert_eq!((ended.out().as_str(), ended.signal()), ("begun\ncleaned\n", Some(signal)), "{:?}", ended.json);
    }
}

/// A cancelled caller left its command running and the session busy.
#[test]
fn a_command_may_end_with_its_caller() {
    // Sockets are counted, so none are those of shells that are just being started.
    let daemon = Daemon::with(Settings::default().env("SHELLKEEP_SPARE_SHELLS", "0"));
    daemon.create("s");
    let body = |extra: Value| {
        let mut body = json!({"command": "echo begun; sleep 1000", "timeout": 600, "on_disconnect": "interrupt"});
        body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        body
    };
    let (mut live, started) = daemon.stream_from_start("s", &body(json!({})));
    assert_eq!(live.next_event().unwrap().event, "stdout");
    drop(live);
    let ended = daemon.wait_run("s", started["run_id"].as_str().unwrap(), 60);
    assert_eq!((ended.status(), ended.signal()), ("interrupted", Some("TERM")), "{:?}", ended.json);
    // A caller that waits for the whole answer, and a second one whose command waits for its turn.
    let (fifo, never) = (daemon.cwd("s").join("fifo"), daemon.cwd("s").join("never"));
    daemon.sh("s", "mkfifo fifo");
    let request = |body: &Value| {
        let request = Request::new("POST", "/v1/sessions/s/run").json(body.to_string());
        request.open_and_leave(&daemon.door()).unwrap()
    };
    let command = "echo > fifo; sleep 1000";
    let first = request(&body(json!({"command": command, "request_id": "first"})));
    // It writes into the pipe as soon as it runs.
    fs::read(&fifo).unwrap();
    // The daemon has seen that the second is gone, before its command's turn comes.
    let sockets = procs::sockets(daemon.pid());
    let second = request(&body(json!({"command": format!("touch {}", never.display())})));
    until("the second is connected", || (procs::sockets(daemon.pid()) > sockets).then_some(()));
    drop(second);
    until("the second is gone", || (procs::sockets(daemon.pid()) <= sockets).then_some(()));
    drop(first);
    let answer = daemon.run("s", json!({"command": command, "request_id": "first", "timeout": 60}));
    assert_eq!(answer.status(), "interrupted", "{:?}", answer.json);
    assert_eq!(daemon.sh("s", "echo next").out(), "next\n");
    assert!(!never.exists(), "a command whose caller had gone was begun");
    // Without it the command goes on; and an answer that comes at once has no caller to end with.
    let kept = json!({"command": "echo begun; read line < fifo; echo $line", "timeout": 60});
    let (live, started) = daemon.stream_from_start("s", &kept);
    drop(live);
    fs::write(&fifo, "kept\n").unwrap();
    let ended = daemon.wait_run("s", started["run_id"].as_str().unwrap(), 60);
    assert_eq!((ended.status(), ended.out().as_str()), ("exited", "begun\nkept\n"));
    let at_once = daemon.post("/v1/sessions/s/run", &body(json!({"blocking": false})));
    assert_eq!(at_once.status, 400, "{}", at_once.text());
    assert!(at_once.text().contains("on_disconnect"), "{}", at_once.text());
}
