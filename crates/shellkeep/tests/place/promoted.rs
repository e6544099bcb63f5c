//! A replica is promoted that lacks writes which were acknowledged: Redis replicates behind the answer, so every failover can
//! lose some. The node that made them is alive and sends them again.

use crate::redis::{Failover, Redis, node};
use crate::support::{Daemon, soak};
use serde_json::{Value, json};
use shellkeep_poll::{until, until_within};
use std::ops::{Range, RangeInclusive};
use std::time::Duration;

/// Most commands of a session whose records the replica never gets: a node has the last 64 records at hand.
const MISSING: u64 = 20;

/// A session that counts: what the replica has of it, and what it lacks.
struct Story {
    session: String,
    shared: u64,
    missing: u64,
}

impl Story {
    fn new(seed: u64) -> Self {
        let dice = |salt: u64, sides: u64| ((8 * seed + salt).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 33) % sides;
        Self { session: format!("s{seed}"), shared: 1 + dice(1, 4), missing: 1 + dice(2, MISSING) }
    }

    /// How far it has counted.
    fn last(&self) -> u64 {
        self.shared + self.missing
    }

    fn count(&self, daemon: &Daemon, numbers: RangeInclusive<u64>) {
        for number in numbers {
            let body = json!({"command": "n=$((n+1)); echo $n", "request_id": format!("k{number}")});
            let counted = daemon.run(&self.session, body);
            assert_eq!((counted.out(), counted.notice_codes()), (format!("{number}\n"), vec![]), "acknowledged");
        }
    }

    /// Number of the last record there; 0 if there is none yet.
    fn seq(&self, redis: &Redis) -> u64 {
        redis.cli(&["HGET", &format!("sk:{{{}}}:head", self.session), "seq"]).trim().parse().unwrap_or(0)
    }

    /// Not one record is lost, and none is there twice.
    fn check(&self, first: &Daemon, redis: &Redis) {
        let path = format!("/v1/sessions/{}", self.session);
        let seq = first.get(&path).json()["seq"].as_u64().expect("a number");
        until("the new primary has everything", || (self.seq(redis) == seq).then_some(()));
        let log = format!("sk:{{{}}}:log", self.session);
        let lines = redis.cli(&["--no-raw", "LRANGE", &log, "0", "-1"]);
        assert!(!lines.contains("records_lost"), "{lines}");
        let in_log: u64 = redis.cli(&["LLEN", &log]).trim().parse().expect("a number");
        // It slept before its first command.
        let packed = redis.packed(&format!("sk:{{{}}}:packed", self.session));
        assert_eq!(packed + in_log, seq, "one line for each record");
        let events = first.get(&format!("{path}/events?limit=1000")).json();
        let numbers: Vec<u64> =
            events["events"].as_array().expect("a list").iter().filter_map(|event| event["seq"].as_u64()).collect();
        assert_eq!(numbers, (1..=seq).collect::<Vec<_>>());
    }
}

fn round(seeds: Range<u64>) {
    let mut servers = Failover::start();
    let (mut first, second) = (node("n1", &servers.url()), node("n2", &servers.url()));
    let stories: Vec<Story> = seeds.map(Story::new).collect();
    for story in &stories {
        first.create(&story.session);
        first.sh(&story.session, "n=0");
        story.count(&first, 1..=story.shared);
    }
    for story in &stories {
        until("the replica has the session", || {
            (story.seq(&servers.replica) == story.seq(&servers.primary)).then_some(())
        });
    }

    // The node may have sent it again before the promoted replica is asked.
    let left: Vec<u64> = stories.iter().map(|story| story.seq(&servers.replica)).collect();
    servers.cut_replica();
    stories.iter().for_each(|story| story.count(&first, story.shared + 1..=story.last()));
    let acknowledged: Vec<u64> = stories.iter().map(|story| story.seq(&servers.primary)).collect();
    servers.promote();
    let lacked: u64 = acknowledged.iter().zip(&left).map(|(had, has)| had - has).sum();
    println!("the promoted replica lacked {lacked} records of {} sessions", stories.len());
    assert!(lacked > 0, "nothing was missing");
    for (story, acknowledged) in stories.iter().zip(acknowledged) {
        until_within(Duration::from_secs(20), "the node sends what is missing", || {
            (story.seq(&servers.replica) == acknowledged).then_some(())
        });
        story.count(&first, story.last() + 1..=story.last() + 1);
        story.check(&first, &servers.replica);
    }
    let sessions = first.get("/v1/sessions").json();
    assert_eq!(sessions["sessions"].as_array().map(Vec::len), Some(stories.len()), "nobody forked: {sessions}");

    // Another node goes on from there, and knows the answers.
    first.kill();
    for story in &stories {
        let answer: Value = until_within(Duration::from_secs(7), "another node answers", || {
            let body = json!({"command": "n=$((n+1)); echo $n", "request_id": format!("k{}", story.last())});
            let answer = second.post(&format!("/v1/sessions/{}/run", story.session), &body);
            (answer.status == 200).then(|| answer.json())
        });
        assert_eq!(answer["stdout"], format!("{}\n", story.last()), "a retry gets what was stored");
        assert_eq!(second.sh(&story.session, "echo $n").out(), format!("{}\n", story.last() + 1));
    }
}

#[test]
fn what_a_promoted_replica_lacks_is_sent_again() {
    let (rounds, seeds) = if soak() == 1 { (1, 2) } else { (soak() as u64 / 2, 20) };
    for number in 0..rounds {
        round(number * seeds..(number + 1) * seeds);
    }
    println!("{} seeds", rounds * seeds);
}

/// What Redis has of a session, in Lua.
const KEPT: &str = "{'head', 'log', 'base', 'next', 'packed'}";

/// Redis falls back to what it had of a session, and its nodes are connected anew.
fn fall_back(redis: &Redis) {
    let script = format!(
        "for _, key in ipairs({KEPT}) do redis.call('DEL', 'sk:{{s}}:' .. key) \
         redis.call('COPY', 'saved:{{s}}:' .. key, 'sk:{{s}}:' .. key) end return 1"
    );
    assert_eq!(redis.cli(&["EVAL", &script, "0"]).trim(), "1");
    redis.cli(&["CLIENT", "KILL", "TYPE", "normal"]);
}

/// The bug: a node that looked at its sessions after a failover stopped where Redis named it as the owner. Of a session that slept,
/// the last records stayed lost until somebody used it on that node; when the node died first, another one went on without them.
#[test]
fn what_a_failover_lost_of_a_session_that_sleeps_is_sent_again() {
    let redis = Redis::start();
    let first = redis.node("n1");
    let seq = || redis.cli(&["HGET", "sk:{s}:head", "seq"]).trim().to_owned();
    let sleeps = || {
        first.hibernate("s");
        until("it sleeps", || redis.cli(&["EXISTS", "sk:{s}:lease"]).trim().eq("0").then_some(()));
    };
    first.create("s");
    first.sh("s", "n=1");
    sleeps();
    let script = format!(
        "for _, key in ipairs({KEPT}) do redis.call('COPY', 'sk:{{s}}:' .. key, 'saved:{{s}}:' .. key) end return 1"
    );
    assert_eq!(redis.cli(&["EVAL", &script, "0"]).trim(), "1");
    let saved = seq();
    let posted = json!({"events": [{"event_type": "x_step", "data": {"text": "acknowledged and lost"}}]});
    assert_eq!(first.post("/v1/sessions/s/events", &posted).status, 201);
    sleeps();
    let whole = seq();
    assert_ne!(saved, whole);
    fall_back(&redis);
    // Nobody asks for the session.
    until("its node sends what is missing", || (seq() == whole).then_some(()));
    assert!(redis.records("s").contains("acknowledged and lost"), "{}", redis.records("s"));
}
