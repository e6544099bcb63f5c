//! Sessions that were on several nodes, each of which signed its own recording, read back from history.

use crate::databases::Server;
use crate::history::{KINDS, caught_up, texts};
use crate::nodes::run_when_taken_over;
use crate::read_back::{cli, node, proven};
use crate::redis::Redis;
use crate::support::Daemon;
use crate::support::daemon::free_port;
use serde_json::{Value, json};
use shellkeep_history::Value as Field;
use shellkeep_poll::until;

/// The shared store gets a state in place of all events when a command ends with a multiple of this number, and keeps what
/// is after the state before the last.
const REST_EVERY: u64 = 256;

fn shared(redis: &Redis, server: &Server, name: &str) -> Daemon {
    Daemon::with(redis.settings(name).env("SHELLKEEP_HISTORY", &server.url()))
}

/// Works with the session until the shared store no longer has its first events.
fn work(redis: &Redis, daemon: &Daemon) {
    let event = json!({"event_type": "x_step", "data": {"text": "one of many"}});
    for number in (1..8).map(|count| count * REST_EVERY) {
        let seq = daemon.get("/v1/sessions/s").json()["seq"].as_u64().expect("a number");
        // The command takes two.
        let events = vec![event.clone(); number.saturating_sub(seq + 2) as usize];
        for events in events.chunks(60) {
            let answer = daemon.post("/v1/sessions/s/events", &json!({"events": events}));
            assert_eq!(answer.status, 201, "{}", answer.text());
        }
        daemon.sh("s", "v=kept");
        if redis.cli(&["EXISTS", "sk:{s}:base"]).trim() == "1" {
            return;
        }
    }
    panic!("the shared store keeps everything");
}

/// A node takes no more sessions, and this one goes on elsewhere.
fn leave(from: &Daemon, name: &str) {
    let drained = from.post(&format!("/v1/nodes/{name}/drain?wait=30"), &json!({}));
    assert_eq!(drained.status, 200, "{}", drained.text());
}

/// The next command, on the node that takes the session over.
fn go_on(daemon: &Daemon) {
    let (answer, _) = run_when_taken_over(daemon, "s", &json!({"command": "echo $v"}));
    assert_eq!(answer["stdout"], "kept\n", "{answer}");
}

fn key(daemon: &Daemon) -> String {
    std::fs::read_to_string(daemon.data().join("sign.pub")).expect("a public key").trim().to_owned()
}

/// The number of the last record in the tables.
fn last(server: &Server) -> u64 {
    server.text("SELECT seq FROM sk_sessions WHERE session_id = 's'").parse().expect("a number")
}

fn verdict(daemon: &Daemon) -> Value {
    let answer = daemon.post("/v1/sessions/s/verify", &json!({}));
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

/// Whether a node shows all events up to a number, in order.
fn shows_all(daemon: &Daemon, last: u64) -> bool {
    let (mut numbers, mut after) = (Vec::new(), Some(0));
    while let Some(from) = after {
        let page = daemon.get(&format!("/v1/sessions/s/events?limit=1000&after={from}")).json();
        let events = page["events"].as_array().unwrap_or_else(|| panic!("{page}"));
        numbers.extend(events.iter().filter_map(|event| event["seq"].as_u64()));
        after = page["next"].as_u64();
    }
    numbers.into_iter().eq(1..=last)
}

#[test]
fn a_session_of_two_nodes_is_proven_by_both() {
    for kind in KINDS {
        let Some(server) = Server::start(kind) else { return };
        let redis = Redis::start();
        let (first, second) = (shared(&redis, &server, "n1"), shared(&redis, &server, "n2"));
        first.create("s");
        work(&redis, &first);
        proven(&server, &first, "s");
        leave(&first, "n1");
        go_on(&second);
        proven(&server, &second, "s");
        let begins = texts(&server, "SELECT MIN(seq) FROM sk_lines GROUP BY source ORDER BY MIN(seq)");
        assert!(begins.len() == 2 && begins[0] == "1" && begins[1] != "1", "the second node has all: {begins:?}");
        let keys = [key(&first), key(&second)];
        drop((first, second, redis));

        // A node that never had it, with none of the others.
        let (third, last) = (node(&server, "n3"), last(&server));
        assert!(shows_all(&third, last));
        let found = verdict(&third);
        assert_eq!((&found["intact"], &found["events"]), (&json!(true), &json!(last)), "{found}");
        assert_eq!((&found["also_signed"][0]["key"], &found["signed"]["key"]), (&json!(keys[0]), &json!(keys[1])));
        assert_eq!((&found["key_is_known"], &found["signed"]["seq"]), (&json!(false), &json!(last)), "{found}");
        assert!(cli(&third, &["export", "s", "-o", "s.jsonl"]).status.success());
        for target in ["s", "s.jsonl"] {
            let code = |arguments: &[&str]| cli(&third, &[&["verify", target][..], arguments].concat()).status.code();
            assert_eq!(code(&["--key", &keys[0], "--key", &keys[1]]), Some(0), "{target}");
            assert_eq!(code(&["--key", &keys[0]]), Some(1), "{target}");
            assert_eq!(code(&["--key", &keys[1]]), Some(1), "{target}");
        }
        assert_eq!(cli(&third, &["verify", "s"]).status.code(), Some(3));

        // A row of either node that was changed or removed is found, and one that is not an event is named.
        let mut database = server.connect();
        for seq in [last, 5] {
            let forged = [Field::Bytes(b"not JSON".to_vec()), Field::count(seq)];
            let changed = database.execute("UPDATE sk_lines SET line = ? WHERE seq = ?", &forged).expect("a forger");
            assert_eq!(changed, 1, "only one node has event {seq}");
            let found = verdict(&third);
            assert_eq!((&found["intact"], &found["bad"]["file"]), (&json!(false), &json!("sk_lines")), "{found}");
            assert_eq!((&found["bad"]["seq"], &found["events"]), (&json!(seq), &json!(seq - 1)), "{found}");
            assert!(found["bad"]["reason"].as_str().is_some_and(|reason| reason.contains("not an event")), "{found}");
        }
        assert_eq!(database.execute("DELETE FROM sk_lines WHERE seq = ?", &[Field::Int(3)]).expect("a forger"), 1);
        assert_eq!(verdict(&third)["bad"]["seq"], 3);
    }
}

/// A session came back to its first node, which has a state in place of what the second node did. That is shown from the
/// records, and no proof is claimed for it.
#[test]
fn what_happened_on_another_node_meanwhile_is_not_claimed_to_be_proven() {
    let Some(server) = Server::start(KINDS[0]) else { return };
    let redis = Redis::start();
    let (mut first, second) = (shared(&redis, &server, "n1"), shared(&redis, &server, "n2"));
    first.create("s");
    first.sh("s", "v=kept");
    proven(&server, &first, "s");
    let known = last(&server);
    leave(&first, "n1");
    go_on(&second);
    work(&redis, &second);
    caught_up(&server, &second, "s");
    leave(&second, "n2");
    first.restart();
    go_on(&first);
    proven(&server, &first, "s");
    drop((first, second, redis));

    let (third, last) = (node(&server, "n3"), last(&server));
    assert!(shows_all(&third, last));
    let found = verdict(&third);
    let reason = found["bad"]["reason"].as_str().unwrap_or_default();
    assert!(found["intact"] == false && reason.contains("another node had the session"), "{found}");
    assert!(found["bad"]["seq"].as_u64().is_some_and(|seq| seq > known && seq < REST_EVERY), "{known}: {found}");
}

/// The bug: a node that took a session over wrote the state that stands for its first events, with the number and the time of
/// the last of them. When the node that had the event itself reached the database later, it was taken for the same.
#[test]
fn a_state_that_stands_for_events_does_not_replace_one_of_them() {
    let Some(server) = Server::start(KINDS[0]) else { return };
    let redis = Redis::start();
    let nowhere = format!("postgres://{}/history", free_port());
    let mut first = Daemon::with(redis.settings("n1").env("SHELLKEEP_HISTORY", &nowhere));
    let second = shared(&redis, &server, "n2");
    first.create("s");
    work(&redis, &first);
    leave(&first, "n1");
    go_on(&second);
    let stands_in = "SELECT COUNT(*) FROM sk_records WHERE type = 'records_lost'";
    until("the state is written", || (server.try_ask(stands_in)?[0][0].as_int()? == 1).then_some(()));
    first.restart_with(redis.settings("n1").env("SHELLKEEP_HISTORY", &server.url()));
    until("the event is written", || (server.try_ask(stands_in)?[0][0].as_int()? == 0).then_some(()));
    caught_up(&server, &second, "s");
}
