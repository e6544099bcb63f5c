//! A data directory that was copied, renamed or moved: it works on its own files and on nobody else's.

use super::support::services::{id, pid};
use super::support::{Daemon, Settings, procs};
use super::tools::{Files, files};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

fn elsewhere() -> TempDir {
    tempfile::Builder::new().prefix("shellkeep-test-").tempdir().unwrap()
}

/// As people do it.
fn copy(from: &Path, to: &Path) {
    let done = Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap();
    assert!(done.success());
}

/// What a daemon has when its directory is copied or moved.
struct Before {
    project: PathBuf,
    /// When `f` was `one`.
    early: Value,
    service: Value,
}

/// A session with files and a service, one in a directory of the host's, and the daemon gone.
fn prepare(daemon: &mut Daemon) -> Before {
    let project = daemon.directory().canonicalize().unwrap().join("project");
    fs::create_dir(&project).unwrap();
    fs::write(project.join("f"), "one\n").unwrap();
    daemon.create_with(json!({"session_id": "p", "config": {"workspace": project}}));
    daemon.sh("p", "echo two > f");
    daemon.checkpoints("p");
    daemon.create("notes");
    daemon.sh("notes", "mkdir sub; cd sub; echo one > f; export VIRTUAL_ENV=$PWD/.venv; big() { seq 100000; }");
    let early = daemon.checkpoints("notes").pop().unwrap()["seq"].clone();
    daemon.sh("notes", "echo two > f; big");
    daemon.checkpoints("notes");
    let command = format!("sleep {}", procs::unique_sleep());
    let service = daemon.start_service("notes", json!({"command": command, "restart": "always"}));
    daemon.kill();
    Before { project, early, service }
}

/// What holds wherever the directory came from.
fn assert_at_home(daemon: &Daemon, before: &Before) {
    let data = daemon.data().canonicalize().unwrap();
    let workspace = data.join("workspaces/notes");
    assert_eq!(daemon.get("/v1/sessions/notes").json()["workspace"], json!(workspace));
    assert_eq!(daemon.cwd("notes"), workspace.join("sub"));
    let answer = daemon.sh("notes", "pwd; echo $PWD $VIRTUAL_ENV; cat f");
    let here = workspace.join("sub").display().to_string();
    assert_eq!(answer.out(), format!("{here}\n{here} {here}/.venv\ntwo\n"));
    let outputs = daemon.at("notes", "runs").status;
    assert_ne!(outputs, 500);
    // What was is as it was then, here.
    daemon.rewind_to("notes", before.early.clone());
    assert_eq!(daemon.tree("notes"), files(&[("sub/f", "one\n")]));
    assert_eq!(daemon.sh("notes", "pwd; cat f").out(), format!("{here}\none\n"));
    let fork = daemon.ask("notes", "fork", json!({"session_id": "fork", "at": before.early}));
    assert_eq!(fork.status, 201, "{}", fork.text());
    assert_eq!(daemon.sh("fork", "pwd").out(), format!("{}/workspaces/fork/sub\n", data.display()));
    let restarted = daemon.post("/v1/sessions/notes/restart", &json!({}));
    assert_eq!(restarted.json()["cwd"], json!(workspace), "{}", restarted.text());
    let listed = daemon.get("/v1/sessions").json();
    let named = |session: &&Value| session["session_id"] == "notes";
    let found = listed["sessions"].as_array().unwrap().iter().find(named).unwrap().clone();
    assert_eq!(found["workspace"], json!(workspace));
}

/// The bug: a rewind in the copy changed the original's live workspace, and its services were listed as the copy's.
#[test]
fn a_copy_leaves_the_original_alone() {
    let mut original = Daemon::start();
    let before = prepare(&mut original);
    let place = elsewhere();
    copy(&original.data(), place.path());
    original.restart();
    let mut copied = Daemon::on(place, Settings::default());
    assert_eq!(copied.all_services(), Vec::<Value>::new(), "the copy has the original's service");
    let service = copied.service("notes", id(&before.service));
    assert_eq!(service["status"], "stopped", "{service}");
    assert!(service["end"].to_string().contains("copy") || service.to_string().contains("copy"), "{service}");
    assert_at_home(&copied, &before);
    assert_eq!(original.sh("notes", "cat f").out(), "two\n", "the copy's rewind changed the original's file");

    // What is outside of both is the original's.
    for (what, body) in [("run", json!({"command": "echo copy > f"})), ("checkpoints", json!({}))] {
        let answer = copied.ask("p", what, body);
        assert_eq!(answer.refused(), (409, "workspace_not_taken".into()), "{what}: {}", answer.text());
        assert!(answer.text().contains("--take-workspaces"), "{}", answer.text());
    }
    let first = copied.at("p", "checkpoints").json()["checkpoints"][0]["seq"].clone();
    assert_eq!(copied.ask("p", "rewind", json!({"to": first})).refused().1, "workspace_not_taken");
    assert_eq!(copied.ask_service("p", &json!({"command": "sleep 1"})).refused().1, "workspace_not_taken");
    assert_eq!(fs::read_to_string(before.project.join("f")).unwrap(), "two\n");
    // A fork has files of its own, and what the host names in the copy itself is the copy's.
    assert_eq!(copied.ask("p", "fork", json!({"session_id": "apart"})).status, 201);
    assert_eq!(copied.sh("apart", "cat f; echo fork > f").out(), "two\n");
    copied.create_with(json!({"session_id": "new", "config": {"workspace": before.project}}));
    assert_eq!(copied.sh("new", "cat f").out(), "two\n");

    // Neither its crash nor its sweep ends anything of the original.
    copied.restart();
    copied.stop();
    let now = original.service("notes", id(&before.service));
    assert_eq!((now["status"].as_str(), pid(&now)), (Some("running"), pid(&before.service)));
    copied.restart_with(Settings { args: vec!["--take-workspaces".to_owned()], ..Settings::default() });
    assert_eq!(copied.sh("p", "cat f").out(), "two\n");
    copied.restart_with(Settings::default());
    assert_eq!(copied.sh("p", "cat f").out(), "two\n", "what was taken stays taken");
}

#[test]
fn a_renamed_directory_keeps_everything_and_its_services() {
    let mut daemon = Daemon::start();
    let before = prepare(&mut daemon);
    let place = elsewhere();
    fs::rename(daemon.data(), place.path().join("data")).unwrap();
    let renamed = Daemon::on(place, Settings::default());
    let service = renamed.service("notes", id(&before.service));
    assert_eq!((service["status"].as_str(), pid(&service)), (Some("running"), pid(&before.service)));
    assert_at_home(&renamed, &before);
    assert_eq!(renamed.sh("p", "cat f").out(), "two\n");
}

#[test]
fn what_was_copied_and_then_removed_was_moved() {
    let mut daemon = Daemon::start();
    let before = prepare(&mut daemon);
    let place = elsewhere();
    copy(&daemon.data(), place.path());
    fs::remove_dir_all(daemon.data()).unwrap();
    let moved = Daemon::on(place, Settings::default());
    assert_eq!(moved.service("notes", id(&before.service))["status"], "stopped");
    assert!(procs::alive(pid(&before.service)), "a service that is not this directory's was ended");
    assert_at_home(&moved, &before);
    assert_eq!(moved.sh("p", "cat f").out(), "two\n", "nobody else is left to work there");
    super::support::daemon::signal(pid(&before.service), "KILL");
}
