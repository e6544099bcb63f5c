//! One timeline: everything that changes a session is a row of the log and a step for undo, and what others did stays theirs.

use super::support::{Daemon, Request, without_inotify};
use super::tools::{Files, files, program, text, told};
use serde_json::{Value, json};
use std::fs;
use std::path::PathBuf;

fn put(daemon: &Daemon, target: &str, bytes: &[u8]) {
    let mut request = Request::new("PUT", &format!("/v1/sessions/s/{target}"));
    request.body = bytes.to_vec();
    let answer = daemon.send(&request);
    assert!([200, 201].contains(&answer.status), "{target}: {}", answer.text());
}

/// A project, and two sessions that work in it.
fn shared(daemon: &Daemon) -> PathBuf {
    let app = daemon.directory().canonicalize().unwrap().join("app");
    fs::create_dir_all(&app).unwrap();
    fs::write(app.join("README"), "first\n").unwrap();
    for session in ["ann", "bob"] {
        daemon.create_with(json!({"session_id": session, "cwd": app, "config": {"workspace": app}}));
    }
    app
}

/// `undo` in one session took the later work of another in the same directory without a word.
#[test]
fn another_sessions_work_is_not_undone_silently() {
    work_of_others_stays(&Daemon::start());
}

/// The kernel lets a user have few inotify instances. Without one, what others had changed was taken for the next
/// command's work.
#[test]
fn another_sessions_work_is_not_undone_silently_without_inotify() {
    if let Some(settings) = without_inotify() {
        work_of_others_stays(&Daemon::with(settings));
    }
}

fn work_of_others_stays(daemon: &Daemon) {
    let app = shared(daemon);
    let of = |name: &str| fs::read_to_string(app.join(name)).ok();
    let first = daemon.sh("ann", "echo a > a");
    daemon.checkpoints("ann");
    let theirs = daemon.sh("bob", "echo b > b");
    daemon.checkpoints("bob");
    daemon.sh("ann", "echo c > c");
    let causes: Vec<Value> = daemon.checkpoints("ann").iter().map(|kept| kept["cause"].clone()).collect();
    assert_eq!(causes, ["base", "tool", "outside", "tool"]);
    // What was there before the command stays.
    let undone = daemon.rewind_to("ann", json!("undo"));
    assert_eq!((&undone["files_total"], undone.get("of_others")), (&json!(1), None), "{undone}");
    assert_eq!((of("a"), of("b"), of("c")), (Some("a\n".into()), Some("b\n".into()), None));
    // Before the command before it, the other's file was not there.
    let refusal = daemon.ask("ann", "rewind", json!({"to": "undo"}));
    assert_eq!(refusal.refused(), (409, "files_of_others".to_owned()), "{}", refusal.text());
    let said = format!("session 'bob' changed it in {}", theirs.run_id());
    assert_eq!(refusal.json()["of_others"], json!([{"path": "b", "reason": said}]));
    let preview = text(&program(daemon, &["undo", "ann", "--dry-run"]));
    assert!(preview.contains("changed by other sessions since (1):") && preview.contains(&said), "{preview}");
    let stopped = program(daemon, &["undo", "ann"]);
    let words = String::from_utf8_lossy(&stopped.stderr).into_owned();
    assert!(stopped.status.code() == Some(1) && words.contains("--force"), "{words}");
    assert_eq!((of("a"), of("b")), (Some("a\n".into()), Some("b\n".into())));
    let forced = text(&program(daemon, &["undo", "ann", "--force"]));
    assert!(forced.starts_with(&format!("undid {}: echo a > a\n", first.run_id())), "{forced}");
    assert_eq!((of("a"), of("b"), of("README")), (None, None, Some("first\n".into())));
    text(&program(daemon, &["redo", "ann"]));
    assert_eq!((of("a"), of("b")), (Some("a\n".into()), Some("b\n".into())));
}

/// An edit by hand between two commands was taken back with the second.
#[test]
fn an_edit_by_hand_is_not_the_next_commands() {
    let daemon = Daemon::start();
    let app = shared(&daemon);
    daemon.sh("ann", "echo a > a");
    daemon.checkpoints("ann");
    for awake in [true, false] {
        if !awake {
            daemon.hibernate("ann");
        }
        fs::write(app.join("README"), format!("edited {awake}\n")).unwrap();
        daemon.sh("ann", "echo more >> a");
        daemon.checkpoints("ann");
        let undone = text(&program(&daemon, &["undo", "ann"]));
        assert!(undone.contains("files: 1 changed\n  ~ a"), "{undone}");
        assert_eq!(fs::read_to_string(app.join("README")).unwrap(), format!("edited {awake}\n"));
    }
    let log = text(&program(&daemon, &["log", "ann"]));
    assert!(log.contains("(changed outside this session)"), "{log}");
}

/// What the keyed store and the file tools changed was neither in the log nor a step for undo.
#[test]
fn keys_and_files_are_steps_too() {
    let daemon = Daemon::start();
    daemon.create("s");
    let run = daemon.sh("s", "echo one > a");
    daemon.checkpoints("s");
    put(&daemon, "files/content?path=b", b"two");
    daemon.checkpoints("s");
    put(&daemon, "kv/plan", b"1");
    put(&daemon, "kv/plan", b"2");
    let log = told(&program(&daemon, &["log", "s", "--json"]))["log"].as_array().unwrap().clone();
    let kinds: Vec<&str> = log.iter().map(|row| row["kind"].as_str().unwrap()).collect();
    assert_eq!((kinds, &log[0]["keys"]), (vec!["kv", "file", "run"], &json!(2)));
    let shown = text(&program(&daemon, &["log", "s"]));
    assert!(shown.contains("(keyed store: 2 keys)") && shown.contains("(file tool)"), "{shown}");
    let both = files(&[("a", "one\n"), ("b", "two")]);
    let undone = daemon.rewind_to("s", json!("undo"));
    assert_eq!((&undone["undone_kind"], undone["kv_version"].is_u64()), (&json!("kv"), true), "{undone}");
    assert_eq!((daemon.at("s", "kv/plan").status, daemon.tree("s")), (404, both.clone()));
    let said = text(&program(&daemon, &["undo", "s"]));
    assert!(said.starts_with("undid a file that was written or removed\n"), "{said}");
    assert_eq!(daemon.tree("s"), files(&[("a", "one\n")]));
    let undone = daemon.rewind_to("s", json!("undo"));
    assert_eq!((&undone["undone_kind"], &undone["undone"]), (&json!("run"), &json!(run.run_id())));
    for _ in 0..3 {
        text(&program(&daemon, &["redo", "s"]));
    }
    assert_eq!((daemon.at("s", "kv/plan").text(), daemon.tree("s")), ("2".to_owned(), both));
}

/// Each rewind left a notice of its own, and named records where people know runs.
#[test]
fn a_rewind_is_told_once_and_by_the_runs_name() {
    let daemon = Daemon::start();
    daemon.create("s");
    let runs = ["echo 1 > a", "echo 2 > a", "echo 3 > a"].map(|command| {
        let run = daemon.sh("s", command);
        daemon.checkpoints("s");
        run.run_id().to_owned()
    });
    let said = text(&program(&daemon, &["rewind", "s", &runs[0], "--yes"]));
    assert!(said.starts_with(&format!("s is as it was after {}\n", runs[0])), "{said}");
    let undone = daemon.rewind_to("s", json!("undo"));
    assert_eq!((&undone["undone_kind"], &undone["after_run"]), (&json!("rewind"), &json!(runs[2])), "{undone}");
    let rewound = daemon.rewind_to("s", json!(runs[1]));
    assert!(rewound["notices"].as_array().is_none_or(Vec::is_empty), "who rewinds knows it: {rewound}");
    let next = daemon.sh("s", "cat a");
    assert_eq!((next.out().as_str(), next.notice_codes()), ("2\n", vec!["rewound"]));
    assert!(next.notice_text().contains(&format!("to the state after {}:", runs[1])), "{}", next.notice_text());
    let log = text(&program(&daemon, &["log", "s"]));
    assert!(log.contains(&format!("(rewind to after {})", runs[1])), "{log}");
}

#[test]
fn a_time_is_taken_as_people_type_it() {
    let daemon = Daemon::start();
    daemon.create("s");
    daemon.sh("s", "echo 1 > a");
    daemon.checkpoints("s");
    for early in ["yesterday", "2h ago", "10m", "2026-01-02", "2026-01-02 16:36"] {
        let refusal = daemon.ask("s", "rewind", json!({"to": early}));
        assert_eq!(refusal.refused(), (404, "no_such_moment".to_owned()), "{early}: {}", refusal.text());
        assert_eq!(program(&daemon, &["rewind", "s", early]).status.code(), Some(1));
    }
    let now = daemon.rewind_to("s", json!("0s ago"));
    assert_eq!(now["files_total"], json!(0));
    for wrong in ["16:61", "last week", "2026-13-01 10:00"] {
        let refusal = daemon.ask("s", "rewind", json!({"to": wrong}));
        assert_eq!(refusal.refused(), (400, "invalid_request".to_owned()), "{wrong}");
        assert!(refusal.text().contains("2h ago, 16:36, yesterday"), "{}", refusal.text());
    }
}
