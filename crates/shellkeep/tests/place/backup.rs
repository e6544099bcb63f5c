//! Backups: made while the daemon works, checked, restored, and refused if a byte is wrong.

use super::support::{Daemon, Settings, bash};
use super::tools::{Files, text, told};
use serde_json::json;
use shellkeep_poll::until;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tempfile::TempDir;

fn shellkeep(daemon: &Daemon, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_shellkeep"));
    command.args(args).env_clear().envs(bash::environment()).current_dir(daemon.directory());
    command.stdin(Stdio::null()).output().expect("the program starts")
}

fn back_up(daemon: &Daemon, dest: &Path) -> Output {
    let (data, socket) = (daemon.data(), daemon.directory().join("s.sock"));
    let [data, socket, dest] =
        [&data, &socket, &dest.to_owned()].map(|path: &PathBuf| path.to_str().unwrap().to_owned());
    shellkeep(daemon, &["backup", "--data", &data, "--socket", &socket, "--json", &dest])
}

fn restore(daemon: &Daemon, backup: &Path, data: &Path) -> Output {
    shellkeep(daemon, &["restore", "--json", "--data", data.to_str().unwrap(), backup.to_str().unwrap()])
}

fn elsewhere() -> TempDir {
    tempfile::Builder::new().prefix("shellkeep-test-").tempdir().unwrap()
}

fn walk(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
        found.push(entry.path());
        if entry.file_type().unwrap().is_dir() {
            walk(&entry.path(), found);
        }
    }
}

#[test]
fn a_running_daemon_is_backed_up_and_restored() {
    let daemon = Daemon::start();
    daemon.create("s");
    daemon.sh("s", "echo one > a; chmod 751 a; ln -s a link; mkdir d; export WHERE=$PWD");
    let early = daemon.checkpoints("s").pop().unwrap()["seq"].clone();
    let big = daemon.sh("s", "seq 200000; echo two > a");
    let run = big.run_id().to_owned();
    daemon.checkpoints("s");
    daemon.ask("s", "fork", json!({"session_id": "f"}));
    daemon.create("busy");
    // Commands are answered all the time; what was answered before the backup began must be in it.
    let (stop, answered) = (AtomicBool::new(false), AtomicU64::new(0));
    let place = elsewhere();
    // Directories above it that are missing are made.
    let backup = daemon.directory().join("backups/2026/today");
    let (report, before) = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let reply = daemon.sh("busy", "n=$((n+1)); echo $n >> log; echo $n");
                answered.store(reply.out().trim().parse().unwrap(), Ordering::Relaxed);
            }
        });
        let before = until("some commands are answered", || {
            let count = answered.load(Ordering::Relaxed);
            (count > 5).then_some(count)
        });
        let output = back_up(&daemon, &backup);
        stop.store(true, Ordering::Relaxed);
        (told(&output), before)
    });
    assert_eq!((&report["verified"], &report["live"]), (&json!(true), &json!(true)), "{report}");
    let mut all = Vec::new();
    walk(&backup, &mut all);
    for path in all {
        let about = path.symlink_metadata().unwrap();
        let expected = if about.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(about.permissions().mode() & 0o7777, expected, "{}", path.display());
    }
    told(&restore(&daemon, &backup, &place.path().join("data")));
    let restored = Daemon::on(place, Settings::default());
    let n: u64 = restored.sh("busy", "echo $n").out().trim().parse().unwrap();
    assert!(n >= before, "an answered command is missing: {n} of {before}");
    let workspace = restored.data().canonicalize().unwrap().join("workspaces/s");
    assert_eq!(restored.sh("s", "pwd; echo $WHERE").out(), format!("{0}\n{0}\n", workspace.display()));
    assert_eq!(fs::read_link(workspace.join("link")).unwrap(), Path::new("a"));
    assert_eq!(fs::metadata(workspace.join("a")).unwrap().permissions().mode() & 0o7777, 0o751);
    assert!(workspace.join("d").is_dir());
    let output = restored.get(&format!("/v1/sessions/s/runs/{run}/output?offset=1000000&limit=100"));
    assert_eq!(output.status, 200, "{}", output.text());
    restored.rewind_to("s", early);
    assert_eq!(fs::read_to_string(workspace.join("a")).unwrap(), "one\n");
    assert_eq!(restored.sh("f", "cat a").out(), "two\n");
    for session in ["s", "busy", "f"] {
        let verdict = restored.post(&format!("/v1/sessions/{session}/verify"), &json!({})).json();
        assert_eq!(verdict["intact"], json!(true), "{session}: {verdict}");
    }
    assert_eq!(daemon.sh("s", "cat a").out(), "two\n", "the original is as it was");
}

#[test]
fn a_damaged_backup_is_refused() {
    let mut daemon = Daemon::start();
    daemon.create("s");
    daemon.sh("s", "echo one > a");
    daemon.checkpoints("s");
    daemon.stop();
    let home = elsewhere();
    let (backup, data) = (home.path().join("backup"), home.path().join("data"));
    let report = told(&back_up(&daemon, &backup));
    assert_eq!(report["live"], json!(false));
    let again = back_up(&daemon, &backup);
    assert!(String::from_utf8_lossy(&again.stderr).contains("it is not empty"), "{again:?}");
    let refused = |what: &str, word: &str| {
        let output = restore(&daemon, &backup, &data);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(word), "{what}: {said}");
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 1, "{what}: something was left");
    };
    let file = backup.join("data/workspaces/s/a");
    fs::write(&file, "two\n").unwrap();
    refused("a byte", "damaged");
    fs::remove_file(&file).unwrap();
    refused("a file", "cannot be restored");
    fs::write(&file, "one\n").unwrap();
    let manifest = backup.join("manifest.jsonl");
    let whole = fs::read_to_string(&manifest).unwrap();
    let without: Vec<&str> = whole.lines().filter(|line| !line.contains("workspaces/s/a")).collect();
    fs::write(&manifest, without.join("\n")).unwrap();
    refused("a line", "damaged");
    fs::remove_file(&manifest).unwrap();
    refused("the manifest", "not a complete backup");
    fs::write(&manifest, whole).unwrap();
    assert!(text(&restore(&daemon, &backup, &data)).contains("backup_of"));
    let over = restore(&daemon, &backup, &data);
    assert!(String::from_utf8_lossy(&over.stderr).contains("is not empty"), "{over:?}");
}

#[test]
fn a_data_directory_that_is_removed_is_told() {
    let daemon = Daemon::start();
    daemon.create("s");
    daemon.sh("s", "true");
    assert_eq!(daemon.get("/readyz").json()["status"], "ready");
    let aside = daemon.directory().join("aside");
    fs::rename(daemon.data(), &aside).unwrap();
    let ready = daemon.get("/readyz").json();
    assert_eq!(ready["status"], "degraded", "{ready}");
    assert!(ready["problems"].to_string().contains("is gone"), "{ready}");
    // Its workspace is gone with it, so a command runs only where its caller says.
    let refused = daemon.post("/v1/sessions/s/run", &json!({"command": "echo lost"}));
    assert_eq!((refused.status, refused.json()["code"].as_str()), (409, Some("bad_cwd")), "{}", refused.text());
    let reply = daemon.run("s", json!({"command": "echo still here", "cwd": "/"}));
    assert_eq!(reply.out(), "still here\n");
    assert!(reply.notice_text().contains("is gone"), "{:?}", reply.json);
    fs::rename(&aside, daemon.data()).unwrap();
    let healed = until("it is ready again", || Some(daemon.get("/readyz").json()).filter(|is| is["status"] == "ready"));
    assert!(healed["problems"].as_array().is_some_and(Vec::is_empty), "{healed}");
}
