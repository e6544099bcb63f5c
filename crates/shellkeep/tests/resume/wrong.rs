//! Agents that behave badly: each is ended with everything it has started, in time, and the daemon and the session go on.

use crate::fixture::*;
use crate::support::procs::{self, unique_sleep};
use crate::support::{Daemon, Settings};
use serde_json::{Value, json};

/// What came of a message for an agent that is this script.
fn outcome(script: &str, timeout: f64) -> (Daemon, Value) {
    let daemon = Daemon::start();
    with_script(&daemon, "s", script);
    let result = resume_with(&daemon, "s", json!({"message": "hi", "timeout": timeout}));
    assert_eq!(daemon.sh("s", "echo still here").out(), "still here\n");
    let events = events(&daemon, "s");
    let last =
        events.iter().rfind(|event| ["resume_ended", "final_output"].contains(&event["event_type"].as_str().unwrap()));
    assert_eq!(last.unwrap()["data"]["status"], result["status"], "{result}");
    verify(&daemon, "s");
    (daemon, result)
}

fn error(result: &Value) -> &str {
    result["error"].as_str().unwrap_or_default()
}

#[test]
fn one_that_ends_without_a_word_has_failed_and_its_last_words_are_told() {
    let (_daemon, result) = outcome("read -r line; echo 'half a' >&2; echo 'reason' >&2; exit 3", 60.0);
    assert_eq!(result["status"], "failed");
    assert!(error(&result).contains("exit code 3") && error(&result).contains("half a\nreason"), "{result}");
    let (_daemon, result) = outcome("read -r line; kill -9 $$", 60.0);
    assert!(error(&result).contains("by signal 9"), "{result}");
    let (_daemon, result) = outcome("exec >&-; sleep 1000", 60.0);
    assert_eq!(result["status"], "failed", "one that closes its output says no more: {result}");
}

#[test]
fn one_that_writes_garbage_is_told_so_and_stopped_when_it_is_too_much() {
    let (daemon, result) = outcome("read -r line; echo nonsense; read -r answer; echo '{\"type\":\"done\"}'", 60.0);
    assert_eq!(result["status"], "done", "{result}");
    let metrics = daemon.get("/metrics").text();
    assert!(metrics.lines().any(|line| line == "shellkeep_agent_bad_lines_total 1"), "{metrics}");
    let (_daemon, result) = outcome("read -r line; yes nonsense", 60.0);
    assert_eq!(result["status"], "failed");
    assert!(error(&result).contains("100 invalid lines"), "{result}");
    let (_daemon, result) = outcome(
        "read -r line; head -c 3000000 /dev/zero | tr '\\0' x; echo; cat > heard & sleep 0.2; echo '{\"type\":\"done\"}'",
        60.0,
    );
    assert_eq!(result["status"], "done", "a line that is too long is passed over: {result}");
}

#[test]
fn one_that_floods_is_stopped_and_takes_no_memory() {
    let daemon = Daemon::start();
    let flood = |line: &str| format!("read -r line; yes '{line}'");
    let scripts = [
        (
            "text",
            flood(
                r#"{"type":"output","text":"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"}"#,
            ),
        ),
        ("endless", "read -r line; cat /dev/zero".to_owned()),
        ("errors", "read -r line; cat /dev/zero >&2".to_owned()),
        ("calls", flood(r#"{"type":"tool_call","id":"a","tool_name":"run_command","parameters":{"command":"true"}}"#)),
    ];
    daemon.create("before");
    daemon.sh("before", "true");
    let before = procs::resident_kib(daemon.pid());
    for (name, script) in scripts {
        with_script(&daemon, name, &script);
        let result = resume_with(&daemon, name, json!({"message": "hi", "timeout": 2}));
        let status = result["status"].as_str().unwrap();
        assert!(["timed_out", "failed"].contains(&status), "{name}: {result}");
        assert!(result["output"].as_str().unwrap().len() <= (1 << 20) + 100, "{name}");
        assert!(living_agents(&daemon).is_empty(), "{name}");
    }
    let after = procs::resident_kib(daemon.pid());
    assert!(after < before + 64 * 1024, "{before} KiB before, {after} KiB after");
}

#[test]
fn one_that_never_answers_is_ended_when_its_time_is_over() {
    let (daemon, result) = outcome("sleep 1000", 0.3);
    assert_eq!(result["status"], "timed_out", "{result}");
    assert!(living_agents(&daemon).is_empty());
    let (_daemon, result) = outcome("trap 'echo told >&2; exit' TERM; while :; do sleep 0.05; done", 0.3);
    assert!(error(&result).contains("told"), "it is asked first: {result}");
}

#[test]
fn one_that_ignores_everything_is_killed() {
    let (daemon, result) = outcome("trap '' TERM INT HUP; while :; do sleep 0.1; done", 0.3);
    assert_eq!(result["status"], "timed_out", "{result}");
    assert!(living_agents(&daemon).is_empty());
}

/// Whatever it starts and however that tries to get away, nothing of it is left, however the agent itself ended.
#[test]
fn nothing_of_what_it_started_is_left() {
    for mode in ["auto", "marks"] {
        let daemon = Daemon::with(Settings::default().set("--cages", mode));
        for (session, end) in [("done", "echo '{\"type\":\"done\"}'"), ("dies", "kill -9 $$"), ("hangs", "sleep 1000")]
        {
            let mark = unique_sleep();
            let script = format!(
                "read -r line; sleep {mark} & setsid sleep {mark} & (setsid sh -c 'trap \"\" TERM HUP; sleep {mark}; true' &)
                 (nohup sleep {mark} >/dev/null 2>&1 &); sleep 0.2; {end}"
            );
            with_script(&daemon, session, &script);
            let result = resume_with(&daemon, session, json!({"message": "hi", "timeout": 3}));
            let expected = match session {
                "done" => "done",
                "dies" => "failed",
                _ => "timed_out",
            };
            assert_eq!(result["status"], expected, "{mode}: {result}");
            let left = procs::marked(&mark);
            assert!(left.is_empty(), "{mode} {session}: {left:?}");
        }
    }
}

/// Its commands are the session's, and end with the time of the agent that wanted them.
#[test]
fn a_command_does_not_outlast_the_agent_that_wanted_it() {
    let mark = unique_sleep();
    let call = |id: &str| {
        format!(
            r#"{{"type":"tool_call","id":"{id}","tool_name":"run_command","parameters":{{"command":"sleep {mark}","timeout":1000}}}}"#
        )
    };
    let script = format!("read -r line; echo '{}'; echo '{}'; sleep 1000", call("1"), call("2"));
    let (daemon, result) = outcome(&script, 0.5);
    assert_eq!(result["status"], "timed_out", "{result}");
    assert!(procs::marked(&mark).is_empty());
    let events = events(&daemon, "s");
    assert_eq!(of_type(&events, "tool_call").len(), 2, "one was ended, the other was not begun, and then ours");
}

/// An agent that asks without ever listening holds up itself and nobody else.
#[test]
fn one_that_does_not_listen_holds_up_itself() {
    let call = r#"{"type":"tool_call","id":"'$n'","tool_name":"run_command","parameters":{"command":"seq 200000"}}"#;
    let script = format!("read -r line; n=0; while :; do n=$((n+1)); echo '{call}'; done");
    let (_daemon, result) = outcome(&script, 3.0);
    assert!(["timed_out", "failed"].contains(&result["status"].as_str().unwrap()), "{result}");
}
