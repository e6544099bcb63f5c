//! What is stored is checked, a disk that fails is told of, and a state has a limit.

use super::disk::wrapper;
use super::support::{Daemon, Settings, skip};
use serde_json::json;
use shellkeep_poll::until;
use std::fs;

/// Tries to start a daemon on a directory; gives its exit code and what it said.
fn refused(daemon: &Daemon, settings: &Settings) -> (Option<i32>, String) {
    let output = settings.command(daemon.directory(), None).output().expect("the program starts");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn a_store_that_vanished_is_not_taken_for_a_new_one() {
    for (url, file) in [("sqlite://{data}/shellkeep.db", "shellkeep.db"), ("file://{data}/facts", "facts/applied.json")]
    {
        let settings = Settings::default().store(url);
        let mut daemon = Daemon::with(settings.clone());
        daemon.create("s");
        assert_eq!(daemon.sh("s", "x=1").exit_code(), Some(0));
        daemon.stop();
        let path = daemon.data().join(file);
        let whole = fs::read(&path).unwrap();
        for damage in ["removed", "emptied"] {
            match damage {
                "removed" => fs::remove_file(&path).unwrap(),
                _ => fs::write(&path, "").unwrap(),
            }
            let (code, said) = refused(&daemon, &settings);
            assert_eq!(code, Some(2), "{url} {damage}: {said}");
            assert!(said.contains("is missing or empty") && said.contains("--accept-loss"), "{url} {damage}: {said}");
        }
        fs::write(&path, whole).unwrap();
        daemon.restart();
        assert_eq!(daemon.sh("s", "echo $x").out(), "1\n");
    }
}

#[test]
fn a_changed_value_sets_its_session_aside_and_no_other() {
    let settings = Settings::default().store("file://{data}/facts");
    let mut daemon = Daemon::with(settings);
    for session in ["s", "t"] {
        daemon.create(session);
        assert_eq!(daemon.sh(session, "balance=100").exit_code(), Some(0));
    }
    daemon.stop();
    let path = daemon.data().join("facts/sessions/s/state.json");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("\"100\"", "\"900\"")).unwrap();
    daemon.restart();
    let answer = daemon.post("/v1/sessions/s/run", &json!({"command": "echo $balance"}));
    assert!(answer.text().contains("session_damaged") && answer.text().contains("checksum"), "{}", answer.text());
    assert_eq!(daemon.sh("t", "echo $balance").out(), "100\n");
}

#[test]
fn a_failed_sync_is_told_in_the_answer_and_written_again() {
    let settings = Settings::default().env("SHELLKEEP_FAULT", "store_journal_sync:6").set("--durability", "power");
    let mut daemon = Daemon::with(settings);
    daemon.create("s");
    let reply = daemon.sh("s", "x=1; echo done");
    assert_eq!(reply.out(), "done\n");
    assert!(reply.notice_codes().contains(&"store_failed"), "{:?}", reply.json);
    assert!(reply.notice_text().contains("not on disk"), "{}", reply.notice_text());
    let is_ready = || daemon.get("/readyz").json()["status"] == "ready";
    until("what failed is written again", || is_ready().then_some(()));
    let after = daemon.sh("s", "echo $x");
    assert_eq!((after.out(), after.notice_codes().is_empty()), ("1\n".to_owned(), true), "{:?}", after.json);
    daemon.restart();
    assert_eq!(daemon.sh("s", "echo $x").out(), "1\n");
}

#[test]
fn a_stop_on_a_full_disk_says_what_is_lost() {
    let Some(wrapper) = wrapper("{data}", "4m") else { return skip("nothing may be mounted here") };
    let mut daemon = Daemon::with(Settings { wrapper, ..Settings::default() });
    daemon.create("s");
    let filler = daemon.data().join("filler");
    daemon.sh("s", &format!("head -c 8000000 /dev/zero > {}; true", filler.display()));
    until("a record waits in memory", || {
        let reply = daemon.sh("s", "x=1");
        reply.notice_codes().contains(&"store_failed").then_some(())
    });
    // More than what becomes free when the session's own files go.
    for _ in 0..20 {
        daemon.sh("s", "head -c 60000 /dev/zero | tr '\\0' x");
    }
    let (code, log) = (daemon.stop(), daemon.log());
    assert_eq!(code, Some(1), "{log}");
    assert!(log.contains("are lost") && !log.contains("every session is saved"), "{log}");
    // A disk that works has it all saved, and says so.
    daemon.restart_with(Settings::default());
    daemon.create("t");
    let (code, log) = (daemon.stop(), daemon.log());
    assert_eq!(code, Some(0), "{log}");
    assert!(log.contains("every session is saved"), "{log}");
}

#[test]
fn what_a_session_keeps_has_a_limit_in_total() {
    let daemon = Daemon::start();
    daemon.create("s");
    let command = "small=1; for i in 1 2 3; do printf -v big$i '%*s' $((12000000 + i)) x; done; echo ${#big1}";
    let reply = daemon.run("s", json!({"command": command, "timeout": 60}));
    assert_eq!(reply.out(), "12000001\n");
    assert!(reply.notice_codes().contains(&"not_kept"), "{:?}", reply.notice_text());
    // The largest goes first.
    assert!(reply.notice_text().contains("as this shell: big3."), "{}", reply.notice_text());
    daemon.hibernate("s");
    assert_eq!(daemon.sh("s", "echo $small ${#big1} ${#big2} ${big3-gone}").out(), "1 12000001 12000002 gone\n");
}
