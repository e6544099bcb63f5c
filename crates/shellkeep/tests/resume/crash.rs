//! Daemon and agent killed in the middle of a step: the next message goes on from the last step that was completed, and no
//! command runs twice.

use crate::fixture::*;
use crate::support::daemon::signal;
use crate::support::{Daemon, Settings};
use serde_json::{Value, json};
use shellkeep_poll::until;

const NODES: [&str; 4] = ["read", "append", "count", "report"];

/// What must be so after a message was cut off and another one was sent.
fn went_on(daemon: &Daemon, point: &str, file: &str) {
    let at_rest = state_or_first(daemon);
    let cut_off = events(daemon, "s").len();
    let result = done(daemon, "s", "second");
    let state = state(daemon, "s");
    for node in NODES {
        assert_eq!(state["visits"][node], 2, "{point}: a completed step was done again: {state}");
    }
    assert!(result["output"].as_str().unwrap().ends_with("2 notes, the last one: second\n"), "{point}: {result}");
    let notes = daemon.sh("s", &format!("cat {file}")).out();
    assert_eq!(notes, "1 first\n2 second\n", "{point}: a command ran twice, or not at all");
    let events = events(daemon, "s");
    let transitions = of_type(&events[cut_off..], "state_transition");
    assert_eq!(transitions[0]["from_node"], at_rest["node"], "{point}: it did not go on where it was");
    assert_eq!(conversation(daemon, "s").iter().filter(|said| said.starts_with("user")).count(), 2, "{point}");
    verify(daemon, "s");
}

/// The state that is kept; none means that no step was completed.
fn state_or_first(daemon: &Daemon) -> Value {
    let answer = daemon.get("/v1/sessions/s/agent_state");
    if answer.status == 404 { json!({"node": "read"}) } else { answer.json() }
}

#[test]
fn an_agent_killed_at_any_place_goes_on_with_the_next_message() {
    let daemon = Daemon::start();
    for node in NODES {
        for place in ["begin", "called", "sent", "saved"] {
            let point = format!("{node}:{place}");
            with_example(&daemon, "s", "counter.py", json!({}));
            daemon.sh("s", &format!("export COUNTER_CRASH={point}"));
            let failed = resume(&daemon, "s", "first");
            assert_eq!(failed["status"], "failed", "{point}: {failed}");
            assert!(failed["error"].as_str().unwrap().contains("by signal 9"), "{point}: {failed}");
            daemon.sh("s", "unset COUNTER_CRASH");
            went_on(&daemon, &point, "notes.txt");
            daemon.destroy("s");
        }
    }
}

#[test]
fn daemon_and_agent_killed_at_any_place_go_on_with_the_next_message() {
    for (number, node) in NODES.into_iter().enumerate() {
        for place in ["begin", "called", "sent", "saved"] {
            let point = format!("{node}:{place}");
            let mut daemon = Daemon::start();
            with_example(&daemon, "s", "counter.py", json!({}));
            daemon.sh("s", &format!("export COUNTER_HANG={point}"));
            let mut live = watch(&daemon, "s", &json!({"message": "first"}));
            until_said(&mut live, &format!("waiting at {point}"));
            let agents = living_agents(&daemon);
            assert_eq!(agents.len(), 1, "{agents:?}");
            daemon.kill();
            // Killed with the daemon, or left for the next one to end.
            if number % 2 == 0 {
                signal(agents[0].pid, "KILL");
            }
            daemon.restart();
            let left = living_agents(&daemon);
            assert!(left.is_empty(), "{point}: the agent outlived its daemon: {left:?}");
            daemon.sh("s", "unset COUNTER_HANG");
            went_on(&daemon, &point, "notes.txt");
        }
    }
}

/// The daemon dies while a command of the agent is under way, at each point of the command's life. What is lost is told as
/// lost, and the agent finds out for itself.
#[test]
fn daemon_killed_in_the_middle_of_a_command() {
    for point in ["accepted", "start_recorded", "begun", "done", "result_recorded"] {
        let mut daemon = Daemon::with(Settings::default().env("SHELLKEEP_CRASH_AT", point));
        with_example(&daemon, "s", "counter.py", json!({"COUNTER_FILE": "crash-here.txt"}));
        let request = crate::support::Request::new("POST", "/v1/sessions/s/resume");
        let answer = request.json(json!({"message": "first"}).to_string()).send(&daemon.door());
        assert!(answer.is_err(), "{point}: the daemon should have died: {answer:?}");
        daemon.restart_with(Settings::default());
        assert_eq!(state_or_first(&daemon)["node"], "append", "{point}");
        went_on(&daemon, point, "*.txt");
        let events = events(&daemon, "s");
        let lost = of_type(&events, "tool_call").iter().filter(|data| data["status"] == "lost").count();
        let expected = usize::from(["start_recorded", "begun", "done"].contains(&point));
        assert_eq!(lost, expected, "{point}");
    }
}

/// A caller with a key asks again after the crash: its own message is gone on with, and stands in the record once.
#[test]
fn the_same_call_after_a_crash_goes_on_with_it() {
    for point in ["append:called", "count:saved"] {
        let mut daemon = Daemon::start();
        with_example(&daemon, "s", "counter.py", json!({}));
        daemon.sh("s", &format!("export COUNTER_HANG={point}"));
        let body = json!({"message": "first", "request_id": "key"});
        let mut live = watch(&daemon, "s", &body);
        until_said(&mut live, "waiting");
        daemon.kill();
        daemon.restart();
        daemon.sh("s", "unset COUNTER_HANG");
        let result = resume_with(&daemon, "s", body.clone());
        assert_eq!((&result["status"], &result["output"]), (&json!("done"), &json!("1 notes, the last one: first\n")));
        assert_eq!(resume_with(&daemon, "s", body), result, "{point}");
        let events = events(&daemon, "s");
        let input = of_type(&events, "user_input");
        assert_eq!((input.len(), &input[0]["resume_id"]), (1, &result["resume_id"]), "{point}");
        assert_eq!(daemon.sh("s", "cat notes.txt").out(), "1 first\n");
        let visits = state(&daemon, "s")["visits"].clone();
        assert_eq!(visits, json!({"read": 1, "append": 1, "count": 1, "report": 1}), "{point}");
        verify(&daemon, "s");
    }
}

/// The daemon dies between two records of its own: the message is in the record and not in the conversation, or the state is
/// kept and the agent does not know. The same call goes on with it all the same.
#[test]
fn daemon_killed_between_its_own_records() {
    for point in ["input_recorded", "state_saved"] {
        let mut daemon = Daemon::with(Settings::default().env("SHELLKEEP_CRASH_AT", point));
        with_example(&daemon, "s", "counter.py", json!({}));
        let body = json!({"message": "crash-here", "request_id": "key"});
        let request = crate::support::Request::new("POST", "/v1/sessions/s/resume");
        let answer = request.json(body.to_string()).send(&daemon.door());
        assert!(answer.is_err(), "{point}: the daemon should have died: {answer:?}");
        daemon.restart_with(Settings::default());
        let node = if point == "state_saved" { "append" } else { "read" };
        assert_eq!(state_or_first(&daemon)["node"], node, "{point}");
        let result = resume_with(&daemon, "s", body);
        assert_eq!(result["output"], "1 notes, the last one: crash-here\n", "{point}: {result}");
        let said = conversation(&daemon, "s");
        assert_eq!((said.len(), said[0].as_str()), (2, "user: crash-here"), "{point}");
        assert_eq!(of_type(&events(&daemon, "s"), "user_input").len(), 1, "{point}");
        assert_eq!(daemon.sh("s", "cat notes.txt").out(), "1 crash-here\n", "{point}");
        verify(&daemon, "s");
    }
}

/// A command that was ended because the agent's time was over is not run again by itself, and not for ever in the way either.
#[test]
fn a_command_that_was_ended_with_its_agent_is_gone_on_from() {
    let daemon = Daemon::start();
    with_example(&daemon, "s", "counter.py", json!({"COUNTER_FILE": "notes"}));
    // Nobody reads it, so writing to it waits.
    daemon.sh("s", "mkfifo notes");
    let late = resume_with(&daemon, "s", json!({"message": "first", "timeout": 1.5}));
    assert_eq!(late["status"], "timed_out", "{late}");
    daemon.sh("s", "rm notes");
    went_on(&daemon, "timed out", "notes");
}

/// Whatever moment it is, again and again.
#[test]
fn killed_at_any_moment() {
    let mut daemon = Daemon::start();
    with_example(&daemon, "s", "counter.py", json!({}));
    const ROUNDS: u64 = 12;
    for round in 0..ROUNDS {
        let door = daemon.door();
        let sender = std::thread::spawn(move || {
            let request = crate::support::Request::new("POST", "/v1/sessions/s/resume");
            let _ = request.json(json!({"message": format!("m{round}")}).to_string()).send(&door);
        });
        until("the message is recorded", || {
            let messages = daemon.get("/v1/sessions/s/messages").json()["messages"].as_array().unwrap().clone();
            messages.iter().any(|message| message["content"] == format!("m{round}")).then_some(())
        });
        // A different moment in each round; no particular one is meant.
        shellkeep_poll::pass(std::time::Duration::from_millis(round * 17));
        daemon.restart();
        sender.join().unwrap();
        verify(&daemon, "s");
    }
    done(&daemon, "s", "last");
    let notes = daemon.sh("s", "cut -d' ' -f2 notes.txt").out();
    let mut expected: Vec<String> = (0..ROUNDS).map(|round| format!("m{round}")).collect();
    expected.push("last".to_owned());
    assert_eq!(notes.lines().collect::<Vec<_>>(), expected, "each was written once, in order");
    verify(&daemon, "s");
}
