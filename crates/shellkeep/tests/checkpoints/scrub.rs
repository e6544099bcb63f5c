//! A secret that was in files: checkpoints that hold it are given up, and the session goes on.

use super::support::{Daemon, Settings};
use super::tools::{Files, files, program, seq, text};
use serde_json::{Value, json};
use std::process::Command;

const SECRET: &str = "leaked-horse-battery";

fn scrub(daemon: &Daemon, session: &str) -> Value {
    let answer = daemon.ask(session, "scrub", json!({"secret": SECRET}));
    assert_eq!(answer.status, 200, "{}\n{}", answer.text(), daemon.log());
    answer.json()
}

/// Whether plain git finds the secret in anything that is kept of a session's files.
fn is_kept(daemon: &Daemon, session: &str) -> bool {
    let repository = daemon.data().join("checkpoints").join(session).join("repo.git");
    let mut git = Command::new("git");
    let read = git.arg("-C").arg(repository).args(["cat-file", "--batch-all-objects", "--batch"]).output().unwrap();
    assert!(read.status.success(), "{}", String::from_utf8_lossy(&read.stderr));
    read.stdout.windows(SECRET.len()).any(|window| window == SECRET.as_bytes())
}

#[test]
fn checkpoints_with_a_secret_are_given_up() {
    let mut daemon = Daemon::with(Settings::default());
    daemon.create("s");
    daemon.sh("s", "echo one > a");
    let clean = seq(&daemon, "s");
    daemon.checkpoints("s");
    daemon.sh("s", &format!("mkdir -p conf; echo key={SECRET} > conf/env"));
    let leaked = seq(&daemon, "s");
    daemon.checkpoints("s");
    daemon.sh("s", "echo key= > conf/env; echo two > a");
    let names: Vec<String> =
        daemon.checkpoints("s").iter().map(|view| view["checkpoint_id"].as_str().unwrap().to_owned()).collect();
    assert!(names.len() == 3 && is_kept(&daemon, "s"));
    let report = scrub(&daemon, "s");
    assert_eq!(report["checkpoints"], json!([names[1]]), "{report}");
    assert!(!is_kept(&daemon, "s"));
    let told = daemon.at("s", "events?type=scrubbed").json()["events"][0]["data"].clone();
    assert_eq!(told["checkpoints"], report["checkpoints"], "{told}");
    let shown = text(&program(&daemon, &["events", "s", "--type", "scrubbed"]));
    assert!(shown.contains("checkpoints deleted: 1"), "{shown}");
    let kept: Vec<Value> = daemon.checkpoints("s").iter().map(|view| view["kept"].clone()).collect();
    assert_eq!(kept, [json!(true), json!(false), json!(true)]);
    // To where it was there is no way back; before and after there is.
    let answer = daemon.ask("s", "rewind", json!({"to": leaked}));
    assert_eq!(answer.refused(), (404, "checkpoint_not_found".to_owned()), "{}", answer.text());
    daemon.rewind_to("s", json!(clean));
    assert_eq!(daemon.tree("s"), files(&[("a", "one\n")]));
    daemon.restart();
    daemon.rewind_to("s", json!(names[2]));
    assert_eq!(daemon.tree("s"), files(&[("a", "two\n"), ("conf/env", "key=\n")]));
    assert!(text(&program(&daemon, &["verify", "s"])).starts_with("intact"));
}

#[test]
fn files_are_kept_on_when_the_last_checkpoint_is_given_up() {
    let mut daemon = Daemon::with(Settings::default());
    daemon.create("s");
    daemon.sh("s", &format!("echo one > a; echo {SECRET} > key"));
    assert_eq!(daemon.checkpoints("s").len(), 1);
    assert_eq!(scrub(&daemon, "s")["checkpoints"].as_array().unwrap().len(), 1);
    assert!(!is_kept(&daemon, "s"));
    // The file is the agent's, and is as it was.
    assert_eq!(daemon.sh("s", "cat key; rm key; echo two > b").out(), format!("{SECRET}\n"));
    let after = seq(&daemon, "s");
    let last = daemon.checkpoints("s").last().unwrap().clone();
    assert_eq!((&last["kept"], &last["added"]), (&json!(true), &json!(2)), "{last}");
    daemon.sh("s", "rm a b");
    daemon.checkpoints("s");
    daemon.restart();
    daemon.rewind_to("s", json!(after));
    assert_eq!(daemon.tree("s"), files(&[("a", "one\n"), ("b", "two\n")]));
    let fork = daemon.ask("s", "fork", json!({"session_id": "other"}));
    assert_eq!(fork.status, 201, "{}", fork.text());
    assert_eq!(daemon.sh("other", "cat a b").out(), "one\ntwo\n");
    // Asking for room with all that is gone among what should be kept is no trouble.
    let thinned = daemon.ask("s", "checkpoints/thin", json!({}));
    assert_eq!(thinned.status, 200, "{}", thinned.text());
    assert!(!is_kept(&daemon, "s") && !is_kept(&daemon, "other"));
}
