//! A disk that is full, a directory that cannot be written, a store that fails again and again: commands go on with true
//! answers, somebody says so, and afterwards the recording is whole or tells where it is not.
//!
//! The daemon gets a view of the file system of its own, in which the recordings are on a small disk in memory. Its
//! commands have the same view, so they fill the disk, empty it, and make it read-only.

use super::support::{Daemon, Reply, Settings, skip};
use super::tools::{Records, types};
use serde_json::json;
use shellkeep_poll::until;
use std::process::{Command, Stdio};

/// Mounts a small disk where the recordings are to be, and goes on as the program.
const MOUNT: &str =
    "umask 077; mkdir -p \"$1\" && mount -t tmpfs -o \"size=$2,mode=700\" tmpfs \"$1\" && shift 2 && exec \"$@\"";

/// How to get a view of the file system of one's own: as root, or as nobody in particular.
pub(super) fn wrapper(place: &str, size: &str) -> Option<Vec<String>> {
    let works = |args: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(args).args(["mount", "-t", "tmpfs", "tmpfs", "/mnt"]).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    let ways: [&[&str]; 2] = [&["--mount"], &["--user", "--map-root-user", "--mount"]];
    let way = ways.into_iter().find(|args| works(args))?;
    let mut words: Vec<String> = std::iter::once("unshare").chain(way.iter().copied()).map(str::to_owned).collect();
    words.extend(["sh", "-c", MOUNT, "sh", place, size].map(str::to_owned));
    Some(words)
}

/// A daemon with its recordings on a small disk.
fn on_small_disk(settings: Settings) -> Option<Daemon> {
    let Some(wrapper) = wrapper("{data}/sessions", "1m") else {
        skip("neither root nor a user namespace may mount here");
        return None;
    };
    Some(Daemon::with(Settings { wrapper, ..settings }))
}

fn is_degraded(daemon: &Daemon) -> bool {
    daemon.get("/readyz").json()["status"] == "degraded"
}

/// Runs commands until one says that the recording cannot be written; all of them must be answered as ever.
fn run_until_told(daemon: &Daemon, session: &str) -> Reply {
    let mut n = 0;
    until("a notice of the recording", || {
        n += 1;
        let reply = daemon.sh(session, &format!("n={n}; echo $n"));
        assert_eq!((reply.out(), reply.exit_code()), (format!("{n}\n"), Some(0)));
        assert!(!reply.notice_codes().contains(&"store_failed"), "{:?}", reply.json);
        reply.notice_codes().contains(&"record_failed").then_some(reply)
    })
}

/// Two sessions whose recordings cannot be written for a while, by what `breaking` does and `mending` takes back.
fn cannot_be_written(daemon: &Daemon, breaking: &str, mending: &str) {
    daemon.create("s");
    daemon.create("t");
    let fix = |command: &str| {
        let command = command.replace("{disk}", &daemon.data().join("sessions").to_string_lossy());
        daemon.run("t", json!({"command": command, "timeout": 60}))
    };
    daemon.note("s", "x_before", json!({}));
    daemon.assert_whole("s");
    fix(breaking);
    let told = run_until_told(daemon, "s");
    assert!(told.notice_text().contains("recording"), "{}", told.notice_text());
    // What a framework tells is kept as well: the journal is elsewhere.
    let during = daemon.note("s", "x_during", json!({"text": "y".repeat(1000)}));
    assert_eq!(daemon.say("s", "user", "during"), 1);
    assert!(daemon.metric("shellkeep_record_failures_total") >= 1.0);
    assert!(daemon.metric("shellkeep_record_stalled") >= 1.0);
    until("readyz tells", || is_degraded(daemon).then_some(()));
    let reading = daemon.get("/v1/sessions/s/events");
    assert!(reading.status == 200 || reading.status >= 500, "{}", reading.text());
    assert_eq!(fix(mending).exit_code(), Some(0));
    until("all is well again", || (!is_degraded(daemon)).then_some(()));
    assert_eq!(daemon.metric("shellkeep_record_stalled"), 0.0);
    let after = daemon.sh("s", "echo $n");
    assert!(!after.notice_codes().contains(&"record_failed"), "{:?}", after.json);
    for session in ["s", "t"] {
        daemon.assert_whole(session);
    }
    let events = daemon.events("s");
    assert_eq!(events[usize::try_from(during).unwrap() - 1]["event_type"], "x_during");
}

#[test]
fn a_full_disk_stops_no_command_and_leaves_no_hole() {
    let Some(daemon) = on_small_disk(Settings::default()) else { return };
    cannot_be_written(&daemon, "head -c 4000000 /dev/zero > {disk}/filler; true", "rm {disk}/filler");
}

#[test]
fn a_directory_that_becomes_read_only_stops_no_command_and_leaves_no_hole() {
    // What is open can still be written, so the files are small: the next one cannot be made.
    let settings = Settings::default().env("SHELLKEEP_RECORD_SEGMENT_BYTES", "3000");
    let Some(daemon) = on_small_disk(settings) else { return };
    let breaking = "mount --bind {disk} {disk} && mount -o remount,bind,ro {disk}";
    cannot_be_written(&daemon, breaking, "umount -l {disk}");
}

#[test]
fn a_full_disk_at_the_start_is_made_up_for_after_a_crash() {
    let Some(mut daemon) = on_small_disk(Settings::default()) else { return };
    daemon.create("s");
    let disk = daemon.data().join("sessions");
    daemon.sh("s", &format!("head -c 4000000 /dev/zero > {}/filler; true", disk.display()));
    run_until_told(&daemon, "s");
    let seq = daemon.note("s", "x_during", json!({}));
    // The small disk goes with the daemon, and with it what was recorded; the records themselves do not.
    daemon.restart();
    daemon.note("s", "x_after", json!({}));
    let events = daemon.events("s");
    let verdict = daemon.verdict("s");
    let during = events.iter().find(|event| event["seq"] == json!(seq));
    assert_eq!(during.map(|event| event["event_type"].clone()), Some(json!("x_during")), "{:?}", types(&events));
    // What is gone is said to be gone, and what is there is proven.
    let numbers: Vec<u64> = events.iter().map(|event| event["seq"].as_u64().unwrap()).collect();
    let missing = (1..=*numbers.last().unwrap()).any(|seq| !numbers.contains(&seq));
    assert_eq!(missing, verdict.get("holes").is_some(), "{verdict}");
    assert_eq!(verdict.get("bad"), None, "{verdict}");
}

#[test]
fn a_store_that_fails_every_other_time_loses_nothing() {
    let mut daemon =
        Daemon::with(Settings::default().env("SHELLKEEP_FAULT", "store_backend_apply:every2,record_write:20"));
    daemon.create("s");
    for n in 0..30 {
        let reply = daemon.sh("s", &format!("echo {n}"));
        assert_eq!((reply.out(), reply.exit_code()), (format!("{n}\n"), Some(0)));
        daemon.note("s", "x_n", json!({"n": n}));
        assert_eq!(daemon.say("s", "user", &n.to_string()), n + 1);
    }
    assert!(daemon.metric("shellkeep_store_failures_total") >= 1.0);
    assert!(daemon.metric("shellkeep_record_failures_total") >= 1.0);
    let read = |daemon: &Daemon| {
        until("the store answers", || {
            let answer = daemon.get("/v1/sessions/s/messages");
            (answer.status == 200).then(|| answer.json()["messages"].as_array().unwrap().len())
        })
    };
    assert_eq!(read(&daemon), 30);
    daemon.restart_with(Settings::default());
    assert_eq!(read(&daemon), 30);
    let events = daemon.assert_whole("s");
    assert_eq!(types(&events).iter().filter(|name| **name == "x_n").count(), 30);
}

#[test]
fn a_message_that_the_backend_refused_is_in_when_it_is_back() {
    let daemon = Daemon::with(Settings::default().env("SHELLKEEP_FAULT", "store_backend_apply:8"));
    daemon.create("s");
    // Answered, though the backend has taken nothing yet: the journal has it.
    for n in 1..=5 {
        assert_eq!(daemon.say("s", "user", "hello"), n);
    }
    let messages = until("the backend is back", || {
        let answer = daemon.get("/v1/sessions/s/messages");
        (answer.status == 200).then(|| answer.json()["messages"].as_array().unwrap().clone())
    });
    let numbers: Vec<u64> = messages.iter().map(|message| message["seq_id"].as_u64().unwrap()).collect();
    assert_eq!(numbers, [1, 2, 3, 4, 5]);
    daemon.assert_whole("s");
}

/// A stop or restart lost what was only in memory, and said nothing.
#[test]
fn a_daemon_whose_disk_is_full_is_not_stopped_before_space_is_free() {
    let Some(wrapper) = wrapper("{data}", "24m") else {
        skip("neither root nor a user namespace may mount here");
        return;
    };
    let daemon = Daemon::with(Settings { wrapper, ..Settings::default() });
    daemon.create("s");
    daemon.sh("s", "cat /dev/zero > fill 2> /dev/null; true");
    let note = json!({"event_type": "x_large", "data": {"text": "y".repeat(500_000)}});
    // Few enough that they fit later, in the journal, the database and the recording.
    let mut notes = 0..6;
    until("neither the journal nor the store takes more", || {
        if notes.next().is_some() {
            daemon.post("/v1/sessions/s/events", &note);
        }
        let ready = daemon.get("/readyz").text();
        (ready.contains("The journal cannot be written") && ready.contains("does not accept records")).then_some(())
    });
    let shellkeep = |command: &str| {
        let mut shellkeep = Command::new(env!("CARGO_BIN_EXE_shellkeep"));
        shellkeep.arg(command).arg("--socket").arg(daemon.directory().join("s.sock")).stdin(Stdio::null());
        shellkeep.output().expect("it runs")
    };
    for command in ["stop", "restart"] {
        let refused = shellkeep(command);
        let told = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(1), "{command}: {refused:?}");
        for part in ["only in memory", "was not stopped", "Free space", "--now"] {
            assert!(told.contains(part), "{command}: {part}: {told}");
        }
    }
    assert_eq!(daemon.sh("s", "rm fill; echo lives").out(), "lives\n");
    until("the store to write again", || (!is_degraded(&daemon)).then_some(()));
    let stopped = shellkeep("stop");
    assert_eq!(stopped.status.code(), Some(0), "{stopped:?}");
    assert!(daemon.log().contains("every session is saved"), "{}", daemon.log());
}

#[test]
fn a_run_with_a_request_id_goes_on_as_one_without_when_the_disk_is_full() {
    // All of the daemon's data is on a small disk.
    let Some(wrapper) = wrapper("{data}", "8m") else {
        skip("neither root nor a user namespace may mount here");
        return;
    };
    let daemon = Daemon::with(Settings { wrapper, ..Settings::default() });
    daemon.create("s");
    daemon.sh("s", "n=0");
    daemon.sh("s", "cat /dev/zero > fill 2> /dev/null; true");
    let run = |body: serde_json::Value| {
        let answer = daemon.post("/v1/sessions/s/run", &body);
        assert_eq!(answer.status, 200, "{body}: {}", answer.text());
        answer.json()
    };
    assert_eq!(run(json!({"command": "echo plain"}))["stdout"], "plain\n");
    let keyed = json!({"command": "n=$((n+1)); echo $n", "request_id": "k1"});
    let first = run(keyed.clone());
    assert_eq!(first["stdout"], "1\n");
    let again = run(keyed.clone());
    assert_eq!((&again["stdout"], &again["run_id"]), (&first["stdout"], &first["run_id"]));
    assert_eq!(run(json!({"command": "rm fill; echo $n", "request_id": "k2"}))["stdout"], "1\n");
    until("the store to write again", || (!is_degraded(&daemon)).then_some(()));
    assert_eq!(run(keyed)["run_id"], first["run_id"]);
}
