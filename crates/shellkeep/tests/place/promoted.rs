//! A replica is promoted that lacks writes which were acknowledged: Redis replicates behind the answer, so every failover can
//! lose some. The node that made them is alive and sends them again.

use crate::redis::{Failover, node};
use serde_json::{Value, json};
use shellkeep_poll::{until, until_within};
use std::time::Duration;

/// Commands whose records the replica never gets.
const MISSING: u64 = 10;

#[test]
fn what_a_promoted_replica_lacks_is_sent_again() {
    let mut servers = Failover::start();
    let (mut first, second) = (node("n1", &servers.url()), node("n2", &servers.url()));
    first.create("s");
    first.sh("s", "n=0");
    until("the replica has the session", || {
        (servers.replica.cli(&["LLEN", "sk:{s}:log"]) == servers.primary.cli(&["LLEN", "sk:{s}:log"])).then_some(())
    });

    servers.cut_replica();
    for number in 1..=MISSING {
        let counted = first.run("s", json!({"command": "n=$((n+1)); echo $n", "request_id": format!("k{number}")}));
        assert_eq!((counted.out(), counted.notice_codes()), (format!("{number}\n"), vec![]), "acknowledged");
    }
    let acknowledged: u64 = servers.primary.cli(&["HGET", "sk:{s}:head", "seq"]).trim().parse().expect("a number");
    servers.promote();
    let left: u64 = servers.replica.cli(&["HGET", "sk:{s}:head", "seq"]).trim().parse().expect("a number");
    println!("the promoted replica lacked {} records", acknowledged.saturating_sub(left));

    assert!(left < acknowledged, "nothing was missing");
    until_within(Duration::from_secs(20), "the node sends what is missing", || {
        (servers.replica.cli(&["HGET", "sk:{s}:head", "seq"]).trim() == acknowledged.to_string()).then_some(())
    });
    let next = first.run("s", json!({"command": "n=$((n+1)); echo $n"}));
    assert_eq!((next.out(), next.notice_codes()), (format!("{}\n", MISSING + 1), vec![]));
    let seq = first.get("/v1/sessions/s").json()["seq"].as_u64().expect("a number");
    until("the new primary has everything", || {
        (servers.replica.cli(&["HGET", "sk:{s}:head", "seq"]).trim() == seq.to_string()).then_some(())
    });

    // Not one record is lost, none is there twice, and nobody forked.
    let lines = servers.replica.cli(&["--no-raw", "LRANGE", "sk:{s}:log", "0", "-1"]);
    assert!(!lines.contains("records_lost"), "{lines}");
    let kept: u64 = servers.replica.cli(&["LLEN", "sk:{s}:log"]).trim().parse().expect("a number");
    assert_eq!(kept, seq, "one line for each record");
    let events = first.get("/v1/sessions/s/events?limit=1000").json();
    let numbers: Vec<u64> =
        events["events"].as_array().expect("a list").iter().filter_map(|event| event["seq"].as_u64()).collect();
    assert_eq!(numbers, (1..=seq).collect::<Vec<_>>());
    let sessions = first.get("/v1/sessions").json();
    assert_eq!(sessions["sessions"].as_array().map(Vec::len), Some(1), "{sessions}");

    // Another node goes on from there, and knows the answers.
    first.kill();
    let answer: Value = until_within(Duration::from_secs(7), "another node answers", || {
        let body = json!({"command": "n=$((n+1)); echo $n", "request_id": format!("k{MISSING}")});
        let answer = second.post("/v1/sessions/s/run", &body);
        (answer.status == 200).then(|| answer.json())
    });
    assert_eq!(answer["stdout"], format!("{MISSING}\n"), "a retry gets what was stored");
    assert_eq!(second.sh("s", "echo $n").out(), format!("{}\n", MISSING + 1));
}
