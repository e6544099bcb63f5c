//! A session whose directory is gone refuses to run anything elsewhere, and goes on when the directory is back.

use super::support::{Daemon, Response};
use super::tools::{Files, files};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

/// A session that works in a directory of the host's, with one file in it.
fn in_a_project(daemon: &Daemon) -> PathBuf {
    let project = daemon.directory().canonicalize().unwrap().join("project");
    fs::create_dir(&project).unwrap();
    fs::write(project.join("a"), "one\n").unwrap();
    daemon.create_with(json!({"session_id": "p", "config": {"workspace": project}}));
    daemon.sh("p", "echo two > b");
    assert_eq!(daemon.checkpoints("p").len(), 2, "what was there, and what the command made");
    project
}

fn run(daemon: &Daemon, body: Value) -> Response {
    daemon.post("/v1/sessions/p/run", &body)
}

fn last_seq(daemon: &Daemon) -> Value {
    daemon.get("/v1/sessions/p").json()["seq"].clone()
}

/// The bug: `mv D D2` with a cold shell, and the next command ran in `/`.
#[test]
fn a_directory_that_is_gone_refuses_the_command() {
    let daemon = Daemon::start();
    let project = in_a_project(&daemon);
    let aside = project.with_file_name("aside");
    daemon.sh("p", "exit 0");
    fs::rename(&project, &aside).unwrap();
    let (before, kept) = (last_seq(&daemon), daemon.at("p", "checkpoints").json());
    for _ in 0..2 {
        let answer = run(&daemon, json!({"command": "pwd; touch was-here"}));
        assert_eq!(answer.refused(), (409, "bad_cwd".to_owned()), "{}", answer.text());
        let detail = answer.json()["detail"].as_str().unwrap().to_owned();
        for word in [project.to_str().unwrap(), "nothing was run", "cwd", "rewind"] {
            assert!(detail.contains(word), "{word}: {detail}");
        }
    }
    assert_eq!(last_seq(&daemon), before, "a command that was refused left a record");
    assert_eq!(daemon.cwd("p"), project);
    assert_eq!(daemon.post("/v1/sessions/p/services", &json!({"command": "pwd"})).refused(), (409, "bad_cwd".into()));
    // Nothing is kept of files that are only out of sight, whoever asks.
    assert_eq!(daemon.ask("p", "checkpoints", json!({})).refused().1, "files_failed");
    assert_eq!(daemon.ask("p", "fork", json!({})).refused().1, "files_failed");

    // A directory for one call is a way on, and the session stays where it is.
    let elsewhere = daemon.directory().canonicalize().unwrap();
    let answer = daemon.run("p", json!({"command": "pwd; X=1", "cwd": elsewhere}));
    assert_eq!(answer.out().trim(), elsewhere.to_str().unwrap());
    assert!(answer.notice_codes().contains(&"cwd_missing"), "{:?}", answer.json);
    assert_eq!(daemon.cwd("p"), project);
    assert_eq!(run(&daemon, json!({"command": "pwd"})).refused().1, "bad_cwd");

    fs::rename(&aside, &project).unwrap();
    let answer = daemon.sh("p", "pwd; echo $PWD $X; cat a b");
    let path = project.to_str().unwrap();
    assert_eq!(answer.out(), format!("{path}\n{path} 1\none\ntwo\n"));
    assert_eq!(daemon.checkpoints("p").len(), kept["checkpoints"].as_array().unwrap().len(), "nothing had changed");
}

#[test]
fn cd_with_a_directory_for_the_call_moves_the_session() {
    let daemon = Daemon::start();
    let project = in_a_project(&daemon);
    let elsewhere = daemon.directory().canonicalize().unwrap();
    for command in ["cd .", &format!("cd {}", elsewhere.display())] {
        daemon.run("p", json!({"command": format!("cd {}; exit", project.display()), "cwd": "/"}));
        daemon.sh("p", &format!("cd {}; exit", project.display()));
        fs::rename(&project, project.with_file_name("aside")).unwrap();
        let moved = daemon.run("p", json!({"command": command, "cwd": elsewhere}));
        assert_eq!(moved.json["cwd"], json!(elsewhere), "{:?}", moved.json);
        let answer = daemon.sh("p", "pwd; echo $PWD; echo $OLDPWD");
        let (here, there) = (elsewhere.display(), project.display());
        assert_eq!(answer.out(), format!("{here}\n{here}\n{there}\n"));
        daemon.hibernate("p");
        assert_eq!(daemon.sh("p", "pwd").out(), format!("{here}\n"));
        fs::rename(project.with_file_name("aside"), &project).unwrap();
    }
}

/// Bash itself goes on in a directory without a name, and in one that was moved: `pwd` printed the old path, and files
/// were lost or ended up in the moved one.
#[test]
fn a_directory_that_goes_under_a_warm_shell() {
    let daemon = Daemon::start();
    let project = in_a_project(&daemon);
    let sub = project.join("sub");
    daemon.sh("p", "mkdir sub; cd sub; echo x > file");
    let elsewhere = daemon.directory().canonicalize().unwrap();
    let shell = daemon.sh("p", "echo $$").out();
    let aside = project.join("aside");
    fs::rename(&sub, &aside).unwrap();
    let answer = run(&daemon, json!({"command": "pwd"}));
    assert_eq!(answer.refused(), (409, "bad_cwd".into()), "{}", answer.text());
    assert!(answer.text().contains("/rewind") && answer.text().contains("pass a cwd"), "{}", answer.text());
    let answer = daemon.run("p", json!({"command": "echo $$", "cwd": elsewhere}));
    assert_eq!(answer.out(), shell);
    assert!(answer.notice_codes().contains(&"cwd_missing"), "{:?}", answer.json);
    fs::rename(&aside, &sub).unwrap();
    assert_eq!(daemon.sh("p", "echo $$").out(), shell, "the directory is back, and so is the shell in it");
    // A name through a link is as good as the real one.
    symlink(&sub, elsewhere.join("link")).unwrap();
    assert_eq!(daemon.sh("p", &format!("cd {}/link; echo $$", elsewhere.display())).out(), shell);
    assert_eq!(daemon.sh("p", &format!("echo $$; cd {}", sub.display())).out(), shell);
    // Another directory of the same name: a new shell begins in it.
    fs::remove_dir_all(&sub).unwrap();
    fs::create_dir(&sub).unwrap();
    assert_eq!(daemon.sh("p", "touch here; ls").out(), "here\n");
    assert!(sub.join("here").exists());
    fs::remove_dir_all(&sub).unwrap();
    assert_eq!(run(&daemon, json!({"command": "pwd"})).refused(), (409, "bad_cwd".into()));
    let away = daemon.run("p", json!({"command": "pwd", "cwd": elsewhere}));
    assert_eq!(away.out().trim(), elsewhere.to_str().unwrap());
    assert_eq!(daemon.cwd("p"), sub, "a call with a directory of its own moved the session");
    let moved = daemon.run("p", json!({"command": "cd /", "cwd": elsewhere}));
    assert!(!moved.notice_codes().contains(&"cwd_missing"), "it is in another: {:?}", moved.json);
    assert_eq!(daemon.sh("p", &format!("pwd; mkdir {0}; cd {0}; rmdir {0}", sub.display())).out(), "/\n");
    daemon.hibernate("p");
    assert_eq!(run(&daemon, json!({"command": "pwd"})).refused(), (409, "bad_cwd".into()));
    // By its own command, while it ends.
    daemon.run("p", json!({"command": format!("cd {}; mkdir own; cd own", project.display()), "cwd": "/"}));
    fs::create_dir(&sub).unwrap();
    assert_eq!(daemon.sh("p", "cd ..; mkdir own; cd own; rmdir ../own; exit 3").exit_code(), Some(3));
    assert_eq!(run(&daemon, json!({"command": "pwd"})).refused(), (409, "bad_cwd".into()));
    assert_eq!(daemon.cwd("p"), project.join("own"));
}

/// A workspace of our own is not made anew, empty, in the place of one that was lost; a rewind brings it back.
#[test]
fn a_workspace_that_was_removed_comes_back_by_a_rewind() {
    let daemon = Daemon::start();
    daemon.create("p");
    let made = daemon.sh("p", "mkdir sub; cd sub; echo one > a");
    daemon.checkpoints("p");
    let workspace = PathBuf::from(daemon.get("/v1/sessions/p").json()["workspace"].as_str().unwrap());
    daemon.hibernate("p");
    fs::remove_dir_all(&workspace).unwrap();
    assert_eq!(run(&daemon, json!({"command": "pwd"})).refused(), (409, "bad_cwd".into()));
    assert!(!workspace.exists());
    let seq = daemon.at("p", "checkpoints").json()["checkpoints"][0]["seq"].clone();
    assert!(made.exit_code() == Some(0) && seq.is_u64());
    daemon.rewind_to("p", seq);
    assert_eq!(daemon.tree("p"), files(&[("sub/a", "one\n")]));
    assert_eq!(daemon.sh("p", "cat a").out(), "one\n");
}

/// The bug: `rm -rf` of the project could not be undone. Undo and rewind said that the directory is gone, and advised
/// to rewind.
#[test]
fn a_project_that_was_removed_comes_back_by_an_undo() {
    let daemon = Daemon::start();
    let project = in_a_project(&daemon);
    let both = files(&[("a", "one\n"), ("b", "two\n")]);
    for (awake, away) in [(true, ""), (false, ""), (true, "cd /; ")] {
        let removal = daemon.sh("p", &format!("{away}rm -rf {}", project.display()));
        assert!(!project.exists());
        if away.is_empty() {
            let later = daemon.run("p", json!({"command": "true", "cwd": "/"}));
            assert!(later.notice_text().contains("undo or rewind the session"), "{}", later.notice_text());
        }
        if !awake {
            daemon.hibernate("p");
        }
        let shown = daemon.post("/v1/sessions/p/rewind", &json!({"to": "undo", "dry_run": true})).json();
        assert_eq!((&shown["undone"], &shown["files_total"]), (&json!(removal.run_id()), &json!(2)), "{shown}");
        assert!(!project.exists(), "a preview left a directory");
        let undone = daemon.rewind_to("p", json!("undo"));
        assert_eq!(undone["undone"], json!(removal.run_id()), "{undone}");
        assert_eq!(daemon.tree("p"), both);
        assert_eq!(daemon.sh("p", "pwd; cat b").out(), format!("{}\ntwo\n", project.display()));
    }
    // Its steps are counted like others: the next undo takes the change before it.
    daemon.rewind_to("p", json!("undo"));
    assert_eq!(daemon.tree("p"), files(&[("a", "one\n")]));
    daemon.rewind_to("p", json!("redo"));
    // Removed by somebody else: an undo brings it back, and takes nothing else back.
    fs::remove_dir_all(&project).unwrap();
    let undone = daemon.rewind_to("p", json!("undo"));
    assert_eq!(undone.get("undone"), None, "{undone}");
    assert_eq!(daemon.tree("p"), both);
    fs::remove_dir_all(&project).unwrap();
    let seq = daemon.at("p", "checkpoints").json()["checkpoints"][0]["seq"].clone();
    daemon.rewind_to("p", seq);
    assert_eq!(daemon.tree("p"), files(&[("a", "one\n")]));
}

/// Security: swapped for a link, checkpoints and rewinds worked on what it pointed to.
#[test]
fn a_workspace_that_became_a_link_is_left_alone() {
    let daemon = Daemon::start();
    let project = in_a_project(&daemon);
    let seq = daemon.at("p", "checkpoints").json()["checkpoints"][0]["seq"].clone();
    let victim = daemon.directory().join("victim");
    fs::create_dir(&victim).unwrap();
    fs::write(victim.join("secret"), "s").unwrap();
    fs::write(victim.join("b"), "theirs").unwrap();
    daemon.hibernate("p");
    fs::rename(&project, project.with_file_name("aside")).unwrap();
    symlink(&victim, &project).unwrap();
    let answer = daemon.ask("p", "checkpoints", json!({}));
    assert_eq!(answer.refused().1, "files_failed");
    assert!(answer.text().contains("symbolic link"), "{}", answer.text());
    for (what, body) in [("rewind", json!({"to": seq})), ("fork", json!({}))] {
        let answer = daemon.ask("p", what, body);
        assert_eq!(answer.refused().1, "files_failed", "{what}: {}", answer.text());
    }
    assert_eq!(fs::read_to_string(victim.join("b")).unwrap(), "theirs");
    assert!(!victim.join("a").exists() && victim.join("secret").exists());
}
