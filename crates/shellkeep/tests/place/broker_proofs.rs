//! What proves a session goes through a real RabbitMQ too: a session of a node that is gone is verified on another one,
//! in whatever order and how often its parts come.

use crate::broker::Consumer;
use crate::databases::{Kind, Server};
use crate::history::{KINDS, Random, caught_up};
use crate::rabbit::Rabbit;
use crate::read_back::{SECRET, cli, is_from_history, is_verified, node, proven, readable};
use crate::support::{Daemon, Settings};
use serde_json::{Value, json};
use shellkeep_history::schema;
use shellkeep_poll::until;
use std::collections::BTreeSet;

/// Orders in which the same messages are delivered.
const ORDERS: usize = 6;

/// The tables with the columns by which their rows are ordered, and which of them tell of sessions.
const TABLES: [(&str, &str); 8] = [
    ("sk_records", "session_id, seq"),
    ("sk_superseded", "session_id, seq, epoch, at"),
    ("sk_messages", "session_id, seq_id"),
    ("sk_runs", "session_id, run_id"),
    ("sk_sessions", "session_id"),
    ("sk_lines", "session_id, source, seq"),
    ("sk_heads", "session_id, source"),
    ("sk_copies", "session_id, source"),
];

fn daemon(rabbit: &Rabbit, queue: &str) -> Daemon {
    Daemon::with(Settings::default().env("SHELLKEEP_HISTORY", &rabbit.url(queue)).env("SHELLKEEP_NODE", "n1"))
}

fn verdict(daemon: &Daemon, session: &str) -> Value {
    daemon.post(&format!("/v1/sessions/{session}/verify"), &json!({})).json()
}

/// The parts of recordings in some messages.
fn parts(messages: &[Vec<u8>]) -> Vec<Value> {
    let lines = |message: &Vec<u8>| {
        let lines = message.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let mut lines: Vec<Value> = lines.map(|line| serde_json::from_slice(line).expect("JSON")).collect();
        let first = lines.remove(0);
        if first["kind"] == "proofs" { lines } else { Vec::new() }
    };
    messages.iter().flat_map(lines).collect()
}

/// Waits until the proof of a session up to its last event is in a queue; all parts of it that are there.
fn sent(rabbit: &Rabbit, queue: &str, daemon: &Daemon, session: &str) -> Vec<Value> {
    until("the proof is sent", || {
        let seq = daemon.get(&format!("/v1/sessions/{session}")).json()["seq"].clone();
        let mut parts = parts(&rabbit.messages(queue));
        parts.retain(|part| part["session_id"] == session);
        parts.iter().any(|part| part["signed"]["seq"] == seq).then_some(parts)
    })
}

/// The numbers of the lines in some parts.
fn numbers(parts: &[Value]) -> Vec<u64> {
    let lines = parts.iter().flat_map(|part| part["lines"].as_array().expect("lines"));
    lines.map(|line| line["seq"].as_u64().expect("a number")).collect()
}

/// The must-show through a broker: a node is destroyed with its data directory, and another one reads its session back
/// whole, and verifies it. A row that somebody changed is found.
#[test]
fn a_session_of_a_destroyed_node_that_had_a_broker_is_read_back_whole() {
    let Some(rabbit) = Rabbit::start() else { return };
    for (kind, queue) in KINDS.into_iter().zip(["postgres", "mariadb"]) {
        let Some(server) = Server::start(kind) else { return };
        let mut first = daemon(&rabbit, queue);
        let _consumers = [(); 2].map(|()| Consumer::start(&rabbit.url(queue), &server.url()));
        first.create_with(json!({"session_id": "s", "agent": "ann"}));
        first.run("s", json!({"command": "printf 'a\\377\\0b'; echo ünï 🦀 >&2", "request_id": "k1"}));
        let content = json!([{"type": "text", "text": "x".repeat(1_048_000)}]);
        let answer = first.post("/v1/sessions/s/messages", &json!({"role": "user", "content": content}));
        assert_eq!(answer.status, 201, "{}", answer.text());
        proven(&server, &first, "s");
        // A daemon that was killed goes on where it was.
        first.restart();
        first.sh("s", "cd /tmp; false");
        proven(&server, &first, "s");
        let (before, was) = (readable(&first, "s"), verdict(&first, "s"));
        let key = std::fs::read_to_string(first.data().join("sign.pub")).expect("a public key").trim().to_owned();
        first.kill();
        drop(first);

        let second = node(&server, "n2");
        is_verified(&second, "s");
        for ((target, was), (_, is)) in before.iter().zip(readable(&second, "s")) {
            assert!(is_from_history(&is) && was.text() == is.text(), "{target}: {}, was {}", is.text(), was.text());
        }
        let found = verdict(&second, "s");
        assert_eq!((&found["events"], &found["signed"]), (&was["events"], &was["signed"]), "{found}");
        assert_eq!(cli(&second, &["verify", "s", "--key", &key]).status.code(), Some(0));
        assert!(cli(&second, &["export", "s", "-o", "s.jsonl"]).status.success());
        assert_eq!(cli(&second, &["verify", "s.jsonl", "--key", &key]).status.code(), Some(0));
        let forged =
            "UPDATE sk_lines SET line = (SELECT l.line FROM (SELECT line FROM sk_lines WHERE seq = 3) l) WHERE seq = 4";
        server.connect().run(forged).expect("a forger");
        let found = verdict(&second, "s");
        assert_eq!((&found["intact"], &found["bad"]["file"]), (&json!(false), &json!("sk_lines")), "{found}");
    }
}

/// Sessions whose messages are difficult to put in order: one with a secret that is masked later, on a node that is killed
/// meanwhile, and two with the same name. Everything that the node sent.
fn difficult(rabbit: &Rabbit) -> Vec<Vec<u8>> {
    let mut daemon = daemon(rabbit, "q");
    daemon.create_with(json!({"session_id": "s", "agent": "ann"}));
    daemon.sh("s", &format!("echo {SECRET}"));
    sent(rabbit, "q", &daemon, "s");
    daemon.restart();
    daemon.sh("s", "echo after a restart");
    let before = sent(rabbit, "q", &daemon, "s");
    let begun = |parts: &[Value]| parts.iter().map(|part| part["begun"].to_string()).collect::<BTreeSet<_>>();
    assert_eq!(begun(&before).len(), 1, "it went on where it was: {before:?}");
    let (lines, once) = (numbers(&before), numbers(&before).into_iter().collect::<BTreeSet<_>>());
    assert_eq!(lines.len(), once.len(), "nothing is sent twice: {lines:?}");

    let scrubbed = daemon.post("/v1/sessions/s/scrub", &json!({"secret": SECRET}));
    assert_eq!(scrubbed.json()["not_reached"], json!(["broker_messages", "consumer_database"]), "{}", scrubbed.text());
    let after = sent(rabbit, "q", &daemon, "s");
    assert_eq!(begun(&after).len(), 2, "all of it was sent again");
    let masked: Vec<&Value> = after.iter().filter(|part| part["begun"] != before[0]["begun"]).collect();
    assert!(!masked.is_empty() && masked.iter().all(|part| !part.to_string().contains(SECRET)));

    for agent in ["ann", "bob"] {
        daemon.create_with(json!({"session_id": "again", "agent": agent}));
        daemon.sh("again", &format!("echo {agent}"));
        until("the proof of this one is sent", || {
            let parts = sent(rabbit, "q", &daemon, "again");
            parts.iter().any(|part| part.to_string().contains(&format!("echo {agent}"))).then_some(())
        });
        if agent == "ann" {
            daemon.destroy("again");
        }
    }
    // It signs and sends what is left.
    assert_eq!(daemon.stop(), Some(0));
    rabbit.take("q")
}

/// Delivers messages to a consumer, and waits until it has written all of them: it ends at one of a newer version.
fn deliver(rabbit: &Rabbit, server: &Server, messages: &[Vec<u8>]) {
    let newer = json!({"version": 99}).to_string().into_bytes();
    rabbit.publish_all("q", &[messages, std::slice::from_ref(&newer)].concat());
    assert_eq!(Consumer::start(&rabbit.url("q"), &server.url()).end(), Some(1));
    // It comes back when the broker notices that the consumer is gone, and with it what was written and not acknowledged
    // in time.
    until("the newer message comes back", || rabbit.messages("q").contains(&newer).then_some(()));
    rabbit.take("q");
}

/// Everything in the tables.
fn everything(server: &Server) -> Vec<String> {
    let rows = |(table, order): (&'static str, &'static str)| {
        // The one time that the database sets is not in them: nothing is superseded.
        let rows = server.ask(&format!("SELECT * FROM {table} ORDER BY {order}"));
        rows.into_iter().map(move |row| format!("{table}: {row:?}"))
    };
    TABLES.into_iter().flat_map(rows).collect()
}

/// The same messages in different orders, some of them twice: the tables become the same each time.
#[test]
fn parts_that_come_twice_or_in_another_order_change_nothing() {
    let Some(rabbit) = Rabbit::start() else { return };
    let (mut random, messages) = (Random::new(), difficult(&rabbit));
    assert!(parts(&messages).len() >= 5, "{} messages", messages.len());
    for kind in KINDS {
        let Some(server) = Server::start(kind) else { return };
        schema::migrate(&mut *server.connect()).expect("tables");
        let reader = node(&server, "n2");
        let mut first = None;
        for order in 0..ORDERS {
            let mut delivered = messages.clone();
            if order > 0 {
                delivered.extend(
                    (0..messages.len()).map(|_| messages[random.below(messages.len() as u64) as usize].clone()),
                );
                random.shuffle(&mut delivered);
            }
            for (table, _) in TABLES {
                server.connect().run(&format!("TRUNCATE TABLE {table}")).expect("a table");
            }
            deliver(&rabbit, &server, &delivered);
            let all = everything(&server);
            let expected = first.get_or_insert_with(|| all.clone());
            assert_eq!(&all, expected, "order {order}");
            for session in ["s", "again"] {
                let found = verdict(&reader, session);
                assert_eq!(found["intact"], true, "order {order}: {found}");
            }
            assert!(verdict(&reader, "s")["masked_fields"].as_u64().is_some_and(|count| count > 0));
            let lines = server.ask("SELECT line FROM sk_lines").concat();
            let shown = |line: &shellkeep_history::Value| line.as_str().is_some_and(|line| line.contains(SECRET));
            assert!(!lines.is_empty() && !lines.iter().any(shown), "a line that was masked stays so");
            // The first session of the name keeps what proves it, under the name that it has now.
            let of_first = "SELECT COUNT(*) FROM sk_heads h JOIN sk_lines l ON l.session_id = h.session_id AND \
                            l.source = h.source AND l.seq = h.seq WHERE h.session_id LIKE 'again~%'";
            assert_eq!(server.text(of_first), "1", "order {order}");
        }
    }
}

/// An event that the database cannot hold ends what is proven there, and nothing is said to be forged.
#[test]
fn an_event_that_is_too_large_for_the_database_ends_what_is_proven() {
    let (Some(rabbit), Some(server)) = (Rabbit::start(), Server::start(Kind::Mariadb)) else { return };
    let first = daemon(&rabbit, "q");
    let _consumer = Consumer::start(&rabbit.url("q"), &server.url());
    first.create("s");
    first.sh("s", "echo small");
    proven(&server, &first, "s");
    let small = first.get("/v1/sessions/s").json()["seq"].as_u64().expect("a number");
    first.sh("s", "w=$(head -c 3000000 /dev/zero | tr '\\0' x)");
    first.sh("s", "echo after it");
    caught_up(&server, &first, "s");
    let ends = "SELECT ends_before FROM sk_copies WHERE session_id = 's'";
    let ends = until("its line has come", || server.try_ask(ends)?.first()?.first()?.as_int()).cast_unsigned();
    drop(first);
    let second = node(&server, "n2");
    let found = verdict(&second, "s");
    let bad = found["bad"]["seq"].as_u64().expect("a number");
    assert!(found["intact"] == false && bad > small && bad <= ends, "{ends}: {found}");
    assert!(found["bad"]["reason"].as_str().is_some_and(|reason| reason.contains("without a proof")), "{found}");
}
