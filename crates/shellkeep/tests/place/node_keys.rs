//! The keyed store of a session whose node was killed: another node has it from a directory that both can read.

use crate::nodes::run_when_taken_over;
use crate::redis::{Failover, Redis, settings};
use crate::support::daemon::signal;
use crate::support::{Daemon, Request};
use serde_json::{Value, json};
use shellkeep_poll::{LONG, until, until_within};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const SECRET: &str = "horse-battery-staple";

fn put(daemon: &Daemon, session: &str, key: &str, bytes: &[u8]) -> Value {
    let mut request = Request::new("PUT", &format!("/v1/sessions/{session}/kv/{key}"));
    request = request.header("content-type", "text/x-of-a-test");
    request.body = bytes.to_vec();
    let answer = daemon.send(&request);
    assert!(answer.status < 300, "{}", answer.text());
    answer.json()
}

/// All keys of a session with their versions, types and values.
fn all(daemon: &Daemon, session: &str) -> Vec<Value> {
    let (mut found, mut after) = (Vec::new(), Some(String::new()));
    while let Some(from) = after {
        let page = daemon.get(&format!("/v1/sessions/{session}/kv?values=true&limit=100&after={from}"));
        assert_eq!(page.status, 200, "{}", page.text());
        let page = page.json();
        found.extend(page["kv"].as_array().expect("a list").iter().cloned());
        after = page["next"].as_str().map(str::to_owned);
    }
    found
}

/// Where the logs of a session's keyed store are.
fn logs(blobs: &Path, session: &str) -> Vec<PathBuf> {
    let below = |path: &Path| -> Vec<PathBuf> {
        std::fs::read_dir(path).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path())).collect()
    };
    below(&blobs.join(session)).into_iter().flat_map(|created| below(&created.join("kv"))).collect()
}

fn find(bytes: &[u8], text: &[u8]) -> bool {
    bytes.windows(text.len()).any(|part| part == text)
}

fn verified(daemon: &Daemon, session: &str) {
    let verdict = daemon.post(&format!("/v1/sessions/{session}/verify"), &json!({})).json();
    assert_ne!(verdict["bad"]["file"], "kv.sqlite", "{verdict}");
}

/// The keyed store used to stay on the node that was killed.
#[test]
fn a_killed_node_s_keyed_store_is_on_the_next_owner() {
    let (redis, blobs) = (Redis::start(), TempDir::new().expect("a temporary directory"));
    let url = format!("file://{}", blobs.path().display());
    let node = |name: &str| Daemon::with(redis.settings(name).env("SHELLKEEP_BLOBS", &url));
    let (mut first, mut second) = (node("n1"), node("n2"));
    first.create("s");
    let large: Vec<u8> = (0..3_000_000_u32).map(|number| (number % 251) as u8).collect();
    put(&first, "s", "large", &large);
    let ops: Vec<Value> =
        (0..300).map(|n| json!({"op": "put", "key": format!("many/{n:03}"), "value_base64": "AP8="})).collect();
    let answer = first.post("/v1/sessions/s/kv", &json!({"ops": ops}));
    assert_eq!(answer.status, 200, "{}", answer.text());
    let early = put(&first, "s", "plan", b"one")["seq"].as_u64().expect("a number");
    put(&first, "s", "plan", b"two");
    assert_eq!(first.send(&Request::new("DELETE", "/v1/sessions/s/kv/many/007")).status, 204);
    let rewound = first.post("/v1/sessions/s/rewind", &json!({"to": early}));
    assert_eq!(rewound.status, 200, "{}", rewound.text());
    put(&first, "s", "after", "the rewind 🦀".as_bytes());
    let forked = first.post("/v1/sessions/s/fork", &json!({"session_id": "f"}));
    assert_eq!(forked.status, 201, "{}", forked.text());
    let late = put(&first, "s", "plan", SECRET.as_bytes())["seq"].as_u64().expect("a number");
    let kept = ["s", "f"].map(|session| all(&first, session));
    assert_eq!((kept[0].len(), kept[1].len()), (303, 303));

    first.kill();
    for (session, kept) in ["s", "f"].into_iter().zip(&kept) {
        let (answer, _) = run_when_taken_over(&second, session, &json!({"command": "true"}));
        let said = answer["notices"].to_string();
        assert!(said.contains("session_moved") && !said.contains("keyed store"), "{said}");
        assert_eq!(&all(&second, session), kept, "{session}");
        verified(&second, session);
    }
    assert_eq!(second.get("/v1/sessions/s/kv/large").body, large);
    assert_eq!(second.get("/v1/sessions/s/kv/none").json()["code"], "key_not_found");

    // What was there earlier came along too.
    put(&second, "s", "of-n2", b"new");
    put(&second, "f", "plan", b"of the fork");
    let rewound = second.post("/v1/sessions/s/rewind", &json!({"to": early}));
    assert_eq!(rewound.status, 200, "{}", rewound.text());
    assert_eq!(second.get("/v1/sessions/s/kv/plan").body, b"one");
    assert_eq!(second.get("/v1/sessions/s/kv/of-n2").status, 404);
    let rewound = second.post("/v1/sessions/s/rewind", &json!({"to": late}));
    assert_eq!(rewound.status, 200, "{}", rewound.text());
    let kept = ["s", "f"].map(|session| all(&second, session));
    for session in ["s", "f"] {
        let names: Vec<PathBuf> = logs(blobs.path(), session);
        let is_of_n2 = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().contains(".n2."));
        assert!(names.len() == 1 && is_of_n2(&names[0]), "{names:?}");
    }

    // Back on the first node, which has an older store of the session.
    first.restart();
    second.kill();
    for (session, kept) in ["s", "f"].into_iter().zip(&kept) {
        run_when_taken_over(&first, session, &json!({"command": "true"}));
        assert_eq!(&all(&first, session), kept, "{session}");
    }
    let scrubbed = first.post("/v1/sessions/s/scrub", &json!({"secret": SECRET}));
    assert_eq!(scrubbed.status, 200, "{}", scrubbed.text());
    let has_secret = |path: &PathBuf| find(&std::fs::read(path).expect("a log"), SECRET.as_bytes());
    assert!(!logs(blobs.path(), "s").iter().any(has_secret), "the log has what was masked");
    first.destroy("s");
    assert!(logs(blobs.path(), "s").is_empty());
}

/// The bug: a node that takes over a session of many records has one line in place of the first of them. It told neither which
/// version the keyed store had nor where the workspace was. So a rewind to a moment of the old node emptied the store, and the
/// shell went on in that node's directory.
#[test]
fn a_rewind_after_the_takeover_of_many_records_keeps_the_keyed_store() {
    let (redis, blobs) = (Redis::start(), TempDir::new().expect("a temporary directory"));
    let url = format!("file://{}", blobs.path().display());
    let node = |name: &str| Daemon::with(redis.settings(name).env("SHELLKEEP_BLOBS", &url));
    let (mut first, second) = (node("n1"), node("n2"));
    first.create("s");
    put(&first, "s", "plan", b"one");
    // Two records each, and the shared store keeps at most 511.
    for _ in 0..400 {
        first.sh("s", "true");
    }
    let early = first.get("/v1/sessions/s").json()["seq"].as_u64().expect("a number");
    put(&first, "s", "plan", b"two");
    first.kill();
    run_when_taken_over(&second, "s", &json!({"command": "true"}));
    let events = second.get("/v1/sessions/s/events?limit=1").json();
    assert_eq!(events["events"][0]["event_type"], "records_lost", "{events}");

    let rewound = second.post("/v1/sessions/s/rewind", &json!({"to": early}));
    assert_eq!(rewound.status, 200, "{}", rewound.text());
    assert_eq!(second.get("/v1/sessions/s/kv/plan").body, b"one");
    let workspace = second.data().canonicalize().expect("a data directory").join("workspaces/s");
    assert_eq!(second.cwd("s"), workspace);
    let forked = second.post("/v1/sessions/s/fork", &json!({"session_id": "f", "at": early}));
    assert_eq!(forked.status, 201, "{}", forked.text());
    assert_eq!(second.get("/v1/sessions/f/kv/plan").body, b"one");
}

/// What could not be copied is said when it is put, and copied with the next change, or by itself. It used to stay on its node
/// if there was no next change.
#[test]
fn a_change_that_is_not_copied_says_so() {
    let (redis, blobs) = (Redis::start(), TempDir::new().expect("a temporary directory"));
    let url = format!("file://{}", blobs.path().display());
    let node = |name: &str| Daemon::with(redis.settings(name).env("SHELLKEEP_BLOBS", &url));
    let (mut first, second) = (node("n1"), node("n2"));
    first.create("s");
    put(&first, "s", "a", b"1");
    // As if the file system were not mounted.
    let (marker, away) = (blobs.path().join("shellkeep-blobs"), blobs.path().join("away"));
    std::fs::rename(&marker, &away).expect("a marker");
    let told = put(&first, "s", "b", b"2");
    assert_eq!(told["notices"][0]["code"], "kept_here_only", "{told}");
    std::fs::rename(&away, &marker).expect("a marker");
    let told = put(&first, "s", "c", b"3");
    assert!(told["notices"].as_array().is_none_or(Vec::is_empty), "{told}");
    let kept = all(&first, "s");
    first.create("still");
    std::fs::rename(&marker, &away).expect("a marker");
    let told = put(&first, "still", "b", b"the only change");
    assert_eq!(told["notices"][0]["code"], "kept_here_only", "{told}");
    std::fs::rename(&away, &marker).expect("a marker");
    until("it is copied", || {
        let has_it = |path: &PathBuf| std::fs::read(path).is_ok_and(|log| find(&log, b"the only change"));
        logs(blobs.path(), "still").iter().any(has_it).then_some(())
    });
    let kept = [("s", kept), ("still", all(&first, "still"))];
    first.kill();
    for (session, kept) in kept {
        run_when_taken_over(&second, session, &json!({"command": "true"}));
        assert_eq!(all(&second, session), kept, "{session}");
    }
}

/// A change that could not be copied was tried again only by the process that made it. It stayed on its node if that was killed
/// and started again, until the next change of the session.
#[test]
fn a_change_that_is_not_copied_is_copied_after_a_restart() {
    let (redis, blobs) = (Redis::start(), TempDir::new().expect("a temporary directory"));
    let url = format!("file://{}", blobs.path().display());
    let node = |name: &str| Daemon::with(redis.settings(name).env("SHELLKEEP_BLOBS", &url));
    let (mut first, second) = (node("n1"), node("n2"));
    first.create("s");
    put(&first, "s", "a", b"1");
    let (marker, away) = (blobs.path().join("shellkeep-blobs"), blobs.path().join("away"));
    std::fs::rename(&marker, &away).expect("a marker");
    let told = put(&first, "s", "b", b"the only change");
    assert_eq!(told["notices"][0]["code"], "kept_here_only", "{told}");
    let kept = all(&first, "s");
    first.kill();
    std::fs::rename(&away, &marker).expect("a marker");
    first.restart();
    // Nobody asks for the session.
    until("it is copied", || {
        let has_it = |path: &PathBuf| std::fs::read(path).is_ok_and(|log| find(&log, b"the only change"));
        logs(blobs.path(), "s").iter().any(has_it).then_some(())
    });
    let notes = first.data().join("uncopied");
    until("it is not to be copied again", || {
        std::fs::read_dir(&notes).expect("a folder").next().is_none().then_some(())
    });
    first.kill();
    run_when_taken_over(&second, "s", &json!({"command": "true"}));
    assert_eq!(all(&second, "s"), kept);
}

/// The keyed store of a session that keeps what only one node had was copied once. If that failed, it stayed on that node, and
/// only the log said so.
#[test]
fn the_keyed_store_of_what_only_one_node_had_is_copied_when_that_works_again() {
    let (mut servers, blobs) = (Failover::start(), TempDir::new().expect("a temporary directory"));
    let url = format!("file://{}", blobs.path().display());
    let [mut first, second] =
        ["n1", "n2"].map(|name| Daemon::with(settings(name, &servers.url()).env("SHELLKEEP_BLOBS", &url)));
    first.create("s");
    let shared = put(&first, "s", "a", b"1")["seq"].to_string();
    until("the replica has the session", || {
        (servers.replica.cli(&["HGET", "sk:{s}:head", "seq"]).trim() == shared).then_some(())
    });
    servers.cut_replica();
    put(&first, "s", "b", b"only here");
    let kept = all(&first, "s");
    signal(first.pid(), "STOP");
    servers.promote();
    until_within(LONG, "another node goes on without it", || {
        let answer = second.post("/v1/sessions/s/run", &json!({"command": "true"}));
        (answer.status == 200).then_some(())
    });

    // As if the file system were not mounted.
    let (marker, away) = (blobs.path().join("shellkeep-blobs"), blobs.path().join("away"));
    std::fs::rename(&marker, &away).expect("a marker");
    signal(first.pid(), "CONT");
    let fork = "s.fork-1.n1";
    until("what only the first node has is kept", || {
        (first.get(&format!("/v1/sessions/{fork}")).status == 200).then_some(())
    });
    let note = first.data().join("uncopied").join(fork);
    until("it is noted that it is not copied", || note.exists().then_some(()));
    assert!(logs(blobs.path(), fork).is_empty());
    std::fs::rename(&away, &marker).expect("a marker");
    until("it is copied", || {
        let has_it = |path: &PathBuf| std::fs::read(path).is_ok_and(|log| find(&log, b"only here"));
        (logs(blobs.path(), fork).iter().any(has_it) && !note.exists()).then_some(())
    });
    first.kill();
    run_when_taken_over(&second, fork, &json!({"command": "true"}));
    assert_eq!(all(&second, fork), kept);
}
