//! `shellkeep resume`: what it prints, and its exit codes.

use crate::fixture::*;
use crate::support::{Daemon, bash};
use serde_json::{Value, json};
use shellkeep_poll::until;
use std::io::Write;
use std::process::{Command, Output, Stdio};

fn shellkeep(daemon: &Daemon, arguments: &[&str], input: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_shellkeep"));
    command.env_clear().envs(bash::environment()).args(arguments).arg("--no-start").arg("--socket");
    command.arg(daemon.directory().join("s.sock"));
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn it_prints_the_answer_and_ends_as_the_agent_did() {
    let daemon = Daemon::start();
    with_example(&daemon, "s", "counter.py", json!({}));
    let first = shellkeep(&daemon, &["resume", "s", "buy milk"], "");
    assert_eq!((text(&first.stdout).as_str(), first.status.code()), ("1 notes, the last one: buy milk\n", Some(0)));
    assert_eq!(text(&first.stderr), "");
    let second = shellkeep(&daemon, &["resume", "s", "-", "--events"], "from a pipe");
    assert_eq!(text(&second.stdout), "2 notes, the last one: from a pipe\n");
    let seen: Vec<Value> = text(&second.stderr).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(seen.first().unwrap()["event_type"], "user_input");
    assert_eq!(seen.last().unwrap()["event_type"], "final_output");
    let third = shellkeep(&daemon, &["resume", "s", "third", "--json"], "");
    let result: Value = serde_json::from_slice(&third.stdout).unwrap();
    assert_eq!((&result["status"], &result["steps"]), (&json!("done"), &json!(4)));
}

#[test]
fn its_exit_code_says_how_it_went() {
    let daemon = Daemon::start();
    with_script(&daemon, "fails", "read -r line; echo '{\"type\":\"output\",\"text\":\"half\"}'; echo why >&2; exit 5");
    let failed = shellkeep(&daemon, &["resume", "fails", "x"], "");
    assert_eq!((text(&failed.stdout).as_str(), failed.status.code()), ("half\n", Some(1)));
    assert!(text(&failed.stderr).contains("exit code 5") && text(&failed.stderr).contains("why"), "{failed:?}");
    with_script(&daemon, "hangs", "sleep 1000");
    let late = shellkeep(&daemon, &["resume", "hangs", "x", "--timeout", "0.3"], "");
    assert_eq!(late.status.code(), Some(124), "{late:?}");
    with_script(
        &daemon,
        "other",
        "read -r line; echo '{\"type\":\"output\",\"text\":\"thinking\"}'; echo '{\"type\":\"done\",\"output\":\"answer\"}'",
    );
    let other = shellkeep(&daemon, &["resume", "other", "x"], "");
    assert_eq!(text(&other.stdout), "thinking\nanswer\n", "an answer that is another than its pieces is printed too");
    daemon.create("none");
    let none = shellkeep(&daemon, &["resume", "none", "x"], "");
    assert_eq!(none.status.code(), Some(1));
    assert!(text(&none.stderr).contains("no agent to run"), "{none:?}");
}

/// Ctrl-C ends the program, and with that the agent.
#[test]
fn a_caller_that_is_killed_stops_the_agent() {
    let daemon = Daemon::start();
    with_script(&daemon, "s", "read -r line; echo '{\"type\":\"output\",\"text\":\"ready\"}'; sleep 1000");
    let mut command = Command::new(env!("CARGO_BIN_EXE_shellkeep"));
    command.env_clear().envs(bash::environment()).args(["resume", "s", "x", "--no-start", "--socket"]);
    let mut child = command.arg(daemon.directory().join("s.sock")).stdout(Stdio::piped()).spawn().unwrap();
    let mut said = [0; 5];
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut said).unwrap();
    assert_eq!(&said, b"ready");
    crate::support::daemon::signal(child.id(), "INT");
    assert!(!child.wait().unwrap().success());
    let ended = until("the end is recorded", || {
        of_type(&events(&daemon, "s"), "resume_ended").first().map(|data| (*data).clone())
    });
    assert_eq!(ended["status"], "interrupted");
    assert!(living_agents(&daemon).is_empty());
}

#[test]
fn a_session_with_an_agent_is_made_on_the_command_line() {
    let daemon = Daemon::start();
    let says = "read -r line; printf '{\"type\":\"done\",\"output\":\"%s %s\"}\\n' \"$WHO\" \"$1\"";
    let config = r#"{"agent": {"env": {"WHO": "ann"}, "command": ["false"]}, "other": 1}"#;
    let arguments = ["sessions", "new", "s", "--json", "--config", "-"];
    let mut command = Command::new(env!("CARGO_BIN_EXE_shellkeep"));
    command.env_clear().envs(bash::environment()).args(arguments).arg("--no-start").arg("--socket");
    command.arg(daemon.directory().join("s.sock")).args(["--", "bash", "-c", says, "bash", "hello"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(config.as_bytes()).unwrap();
    let made = child.wait_with_output().unwrap();
    let session: Value = serde_json::from_slice(&made.stdout).unwrap();
    assert_eq!((&session["session_id"], &session["agent_config"]["other"]), (&json!("s"), &json!(1)));
    assert_eq!(done(&daemon, "s", "x")["output"], "ann hello");
}
