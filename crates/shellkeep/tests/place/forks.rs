//! A fork of a session that works outside its workspace: never on the same files without a word.

use super::support::Daemon;
use super::tools::{Files, program, text};
use serde_json::json;
use std::fs;

/// The bug: in `~/proj`, a fork overwrote the other's file, and merge-back said that there was nothing to bring back.
#[test]
fn a_fork_that_would_share_files_is_refused_unless_it_may() {
    let daemon = Daemon::start();
    let project = daemon.directory().canonicalize().unwrap().join("proj");
    fs::create_dir(&project).unwrap();
    daemon.create_with(json!({"session_id": "x", "cwd": project}));
    let made = daemon.sh("x", "echo v1 > main.py");
    let answer = daemon.ask("x", "fork", json!({"session_id": "f"}));
    assert_eq!(answer.refused(), (409, "files_not_apart".into()), "{}", answer.text());
    for word in [project.to_str().unwrap(), "workspace", "share_files"] {
        assert!(answer.text().contains(word), "{word}: {}", answer.text());
    }
    assert_eq!(daemon.get("/v1/sessions/f").status, 404, "a fork that was refused is there");

    let answer = daemon.ask("x", "fork", json!({"session_id": "f", "share_files": true}));
    assert_eq!(answer.status, 201, "{}", answer.text());
    assert_eq!(answer.json()["session_id"], "f");
    let told = answer.json()["notices"].to_string();
    assert!(told.contains("files_shared") && told.contains(project.to_str().unwrap()), "{told}");
    let run = daemon.sh("f", "echo FORK > main.py");
    assert!(run.notice_codes().contains(&"files_shared"), "{:?}", run.json);
    let merged = daemon.ask("f", "merge_back", json!({})).json();
    assert_eq!(merged["files_total"], 0);
    assert!(merged["notices"].to_string().contains("not known"), "{merged}");
    let told = program(&daemon, &["fork", "merge-back", "f"]);
    assert!(!text(&told).contains("nothing to bring back"), "{}", text(&told));
    assert!(String::from_utf8_lossy(&told.stderr).contains("not known"), "{}", String::from_utf8_lossy(&told.stderr));
    let told = program(&daemon, &["fork", "x", "g"]);
    assert!(!told.status.success() && String::from_utf8_lossy(&told.stderr).contains("--share-files"));

    // From a moment at which it was in its workspace, and from a workspace that is the project, forks are apart.
    assert_eq!(made.exit_code(), Some(0));
    daemon.create("y");
    daemon.sh("y", "echo one > a");
    let early = daemon.checkpoints("y").pop().unwrap()["seq"].clone();
    daemon.sh("y", &format!("cd {}", project.display()));
    assert_eq!(daemon.ask("y", "fork", json!({})).refused().1, "files_not_apart");
    assert_eq!(daemon.ask("y", "fork", json!({"at": early})).status, 201);
    daemon.create_with(json!({"session_id": "z", "config": {"workspace": project}}));
    daemon.sh("z", "echo v2 > main.py");
    let answer = daemon.ask("z", "fork", json!({"session_id": "apart"}));
    assert!(!answer.json()["notices"].to_string().contains("files_shared"), "{}", answer.text());
    daemon.sh("apart", "echo FORK > main.py");
    assert_eq!(fs::read_to_string(project.join("main.py")).unwrap(), "v2\n");
}
