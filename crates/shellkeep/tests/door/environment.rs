//! What a session begins with: a short list of the daemon's variables, and what the host or the creating call names.

use crate::support::{Daemon, Door, Settings, bash};
use serde_json::json;
use std::process::{Command, Output, Stdio};

fn settings() -> Settings {
    Settings::default()
        .env("API_KEY", "the-keys-value")
        .env("CLOUD_REGION", "north")
        .env("CLOUD_ZONE", "n1")
        .env("LC_TIME", "C")
        .env("TZ", "UTC")
}

/// The first caller's whole environment went to every session, and into its events, state and database.
#[test]
fn a_session_begins_with_a_short_list_of_variables() {
    let daemon = Daemon::with(settings());
    daemon.create("a");
    let names = daemon.sh("a", "env | cut -d= -f1 | sort | grep -vE '^(_|PWD|SHLVL|OLDPWD)$' | tr '\\n' ' '").out();
    assert_eq!(names, "HOME LC_ALL LC_TIME PATH TERM TZ ", "{names}");
    let service =
        daemon.start_service("a", json!({"command": "env; echo listed", "ready": {"log": "listed"}, "wait": 20}));
    let log = daemon.service_log("a", service["service_id"].as_str().unwrap());
    assert!(log.contains("PATH=") && !log.contains("API_KEY"), "{log}");
    let state = daemon.get("/v1/sessions/a/state").text();
    let events = daemon.get("/v1/sessions/a/events?redact=false").text();
    let snapshot = daemon.get("/v1/sessions/a/config_snapshot?redact=false").text();
    for (what, text) in [("state", state), ("events", events), ("snapshot", snapshot)] {
        assert!(!text.contains("the-keys-value"), "{what}: {text}");
    }
    let kept = Command::new("grep").args(["-rl", "the-keys-value"]).arg(daemon.data()).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&kept.stdout), "", "it is in a file");
}

/// A typo in a variable's name was ignored without a word.
#[test]
fn a_variable_that_is_no_setting_is_told_once() {
    let daemon = Daemon::with(settings().env("SHELLKEEP_MAX_SHELS", "3"));
    let log = daemon.log();
    assert_eq!(log.matches("SHELLKEEP_MAX_SHELS").count(), 1, "{log}");
    assert!(log.contains("did you mean SHELLKEEP_MAX_SHELLS?"), "{log}");
    assert!(!log.contains("SHELLKEEP_STOP_GRACE"), "{log}");
}

#[test]
fn the_host_names_more_in_its_settings() {
    let daemon = Daemon::with(settings().set("--env-pass", "API_KEY,CLOUD_*"));
    daemon.create("a");
    assert_eq!(daemon.sh("a", "echo $API_KEY $CLOUD_REGION $CLOUD_ZONE").out(), "the-keys-value north n1\n");
    let daemon = Daemon::with(settings().env("SHELLKEEP_ENV_PASS", "CLOUD_ZONE"));
    daemon.create("a");
    assert_eq!(daemon.sh("a", "echo $API_KEY $CLOUD_REGION $CLOUD_ZONE").out(), "n1\n");
}

fn client(daemon: &Daemon, args: &[&str]) -> Output {
    let Door::Socket(socket) = daemon.door() else { panic!("a socket") };
    let mut command = Command::new(env!("CARGO_BIN_EXE_shellkeep"));
    command.env_clear().envs(bash::environment()).env("MINE", "my own").stdin(Stdio::null());
    command.args(&args[..1]).arg("--socket").arg(socket).arg("--no-start").args(&args[1..]).output().unwrap()
}

#[test]
fn a_caller_passes_variables_by_name() {
    let daemon = Daemon::start();
    let text = |output: Output| String::from_utf8(output.stdout).unwrap();
    assert_eq!(text(client(&daemon, &["run", "-s", "a", "--env", "MINE", "--", "echo $MINE"])), "my own\n");
    assert_eq!(text(client(&daemon, &["run", "-s", "a", "--", "echo \"<$MINE>\""])), "<>\n");
    let made = client(&daemon, &["sessions", "new", "b", "--env", "MINE", "--env", "B=2"]);
    assert!(made.status.success(), "{made:?}");
    assert_eq!(daemon.sh("b", "echo $MINE $B").out(), "my own 2\n");
    assert!(client(&daemon, &["mcp", "-s", "c", "--env", "MINE"]).status.success());
    assert_eq!(daemon.sh("c", "echo $MINE").out(), "my own\n");
    let refused = client(&daemon, &["run", "-s", "a", "--env", "NOT_SET_HERE", "--", ":"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("NOT_SET_HERE is not set here"), "{refused:?}");
}
