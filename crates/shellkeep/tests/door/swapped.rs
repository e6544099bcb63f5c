//! The daemon works on files that a session's processes change meanwhile. A directory that becomes a symbolic link to
//! another session's, back and forth, must lead nowhere: neither when files are read nor when they are written.

use crate::support::{Daemon, Request};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde_json::json;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// What each operation is tried while the directory changes.
const ROUNDS: usize = 12;

/// Whether a file below a directory has this text. Symbolic links are not followed.
fn has(directory: &Path, text: &str) -> bool {
    std::fs::read_dir(directory).unwrap().any(|entry| {
        let entry = entry.unwrap();
        match entry.file_type().unwrap() {
            kind if kind.is_dir() => has(&entry.path(), text),
            kind if kind.is_file() => std::fs::read_to_string(entry.path()).is_ok_and(|found| found.contains(text)),
            _ => false,
        }
    })
}

/// Says that the rounds are over when it is dropped.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_directory_that_becomes_a_link_leads_nowhere() {
    let daemon = Daemon::start();
    daemon.create("a");
    daemon.create("b");
    daemon.sh("b", "echo canary > x; echo canary > y");
    daemon.sh("a", "mkdir d; echo one > d/x");
    daemon.sh("a", "echo two > d/x; echo two > d/y");
    let (own, other) = (daemon.cwd("a"), daemon.cwd("b"));
    let [place, swapped] = [own.join("d"), daemon.directory().join("swapped")];
    std::os::unix::fs::symlink(&other, &swapped).unwrap();
    let (is_over, swaps) = (AtomicBool::new(false), AtomicUsize::new(0));
    let post = |target: &str, body| daemon.post(&format!("/v1/sessions/{target}"), &body);
    let tried = |target: &str, body| {
        let answer = post(target, body);
        assert_ne!(answer.status, 500, "{target}: {}", answer.text());
    };
    std::thread::scope(|scope| {
        // The swaps end with the rounds, also if one of them fails.
        let _over = Over(&is_over);
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                // A rewind may have removed it for a moment.
                if renameat_with(CWD, &place, CWD, &swapped, RenameFlags::EXCHANGE).is_ok() {
                    swaps.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        for round in 0..ROUNDS {
            let fork = format!("f{round}");
            let content = "/v1/sessions/a/files/content?path=d/x";
            let read = daemon.get(content);
            assert!(!read.text().contains("canary"), "{}", read.text());
            let written = daemon.send(&Request { body: b"written".to_vec(), ..Request::new("PUT", content) });
            assert_ne!(written.status, 500, "{}", written.text());
            tried("a/checkpoints", json!({}));
            tried("a/rewind", json!({"to": "-1"}));
            tried("a/rewind", json!({"to": "-1"}));
            tried("a/fork", json!({"session_id": fork}));
            tried(&format!("{fork}/run"), json!({"command": "rm -rf d; mkdir d; echo merged > d/x"}));
            tried(&format!("{fork}/merge_back"), json!({"prefer": "fork"}));
            for file in ["x", "y"] {
                assert_eq!(std::fs::read_to_string(other.join(file)).unwrap(), "canary\n", "round {round}");
            }
            let copy = daemon.data().join("workspaces").join(&fork);
            assert!(!copy.exists() || !has(&copy, "canary"), "round {round}: a fork has another session's file");
        }
    });
    assert!(swaps.load(Ordering::Relaxed) > ROUNDS, "nothing was swapped");
    // What was saved meanwhile, brought back where nothing changes it.
    let _ = std::fs::remove_file(&place);
    let saved = daemon.get("/v1/sessions/a/checkpoints").json();
    for checkpoint in saved["checkpoints"].as_array().unwrap() {
        let id = &checkpoint["checkpoint_id"];
        assert_eq!(post("a/rewind", json!({"to": id})).status, 200, "{checkpoint}");
        assert!(!has(&own, "canary"), "{checkpoint}");
    }
}

/// A session that may write to the directory above another's workspace put a link to the data directory in its place. The next
/// shell of the other session opened its workspace by that path, followed the link, and its sandbox granted what the link named:
/// the host's tokens and the key that signs records.
#[test]
fn a_workspace_that_becomes_a_link_gives_no_sandbox_another_directory() {
    let (daemon, place) = (Daemon::start(), tempfile::tempdir().unwrap());
    let above = place.path().canonicalize().unwrap();
    std::fs::write(daemon.data().join("canary"), "canary").unwrap();
    daemon.create_with(json!({"session_id": "above", "sandbox": "fence", "config": {"workspace": above}}));
    for sandbox in ["fence", "room"] {
        let workspace = above.join(sandbox);
        std::fs::create_dir(&workspace).unwrap();
        daemon.create_with(json!({"session_id": sandbox, "sandbox": sandbox, "config": {"workspace": workspace}}));
        daemon.sh(sandbox, "echo mine > mine");
        daemon.hibernate(sandbox);
        let swap = format!("mv {sandbox} aside && ln -s {} {sandbox}", daemon.data().display());
        assert_eq!(daemon.sh("above", &swap).exit_code(), Some(0));
        let steal = "cat canary; echo planted > planted";
        for (target, body) in [
            ("run", json!({"command": steal})),
            ("run", json!({"command": steal, "tty": true})),
            ("run", json!({"command": format!("cd {}; {steal}", daemon.data().display()), "cwd": "/usr"})),
            ("services", json!({"command": steal})),
        ] {
            let refused = daemon.post(&format!("/v1/sessions/{sandbox}/{target}"), &body);
            let said = refused.json();
            assert_eq!((refused.status, &said["code"]), (409, &json!("bad_cwd")), "{sandbox}: {said}");
            assert!(said["detail"].as_str().unwrap().contains("replaced by a symbolic link"), "{sandbox}: {said}");
        }
        assert!(!daemon.data().join("planted").exists());
        assert_eq!(daemon.sh("above", &format!("rm {sandbox}; mv aside {sandbox}")).exit_code(), Some(0));
        assert_eq!(daemon.sh(sandbox, "cat mine").out(), "mine\n", "{sandbox}");
    }
}

/// Who names a workspace through a link means what the link names, also when the link changes later.
#[test]
fn a_workspace_that_was_named_through_a_link_is_what_the_link_named() {
    let (daemon, place) = (Daemon::start(), tempfile::tempdir().unwrap());
    let at = |name: &str| place.path().join(name);
    std::fs::create_dir_all(at("real/workspace")).unwrap();
    std::os::unix::fs::symlink(at("real"), at("link")).unwrap();
    for sandbox in ["fence", "room"] {
        let workspace = at("link/workspace");
        daemon.create_with(json!({"session_id": sandbox, "sandbox": sandbox, "config": {"workspace": workspace}}));
        assert_eq!(daemon.sh(sandbox, "echo made > made; cat made").out(), "made\n", "{sandbox}");
        assert!(at("real/workspace/made").exists(), "{sandbox}");
    }
}
