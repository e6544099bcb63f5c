//! Two nodes continue one session: a replica is promoted that lacks what was acknowledged, and another node takes the session
//! before its owner can send it again. Both histories are kept, and each tells of the other.

use crate::nodes::run_when_taken_over;
use crate::redis::{Failover, node};
use crate::support::daemon::signal;
use crate::support::{Daemon, Reply, Request, soak};
use serde_json::{Value, json};
use shellkeep_poll::{until, until_within};
use std::process::Command;
use std::time::Duration;

/// The Sentinel promotes the replica, the lease ends, and a node that lost Redis takes nothing for another lease.
const TAKEN_OVER: Duration = Duration::from_secs(30);

/// One session of a round, and how often it counts: what both nodes have, what only the first has, what only the second has.
struct Story {
    session: String,
    shared: u64,
    missing: u64,
    elsewhere: u64,
    /// Whether a message is among what is missing.
    talks: bool,
    /// Whether it sleeps when Redis fails over.
    sleeps: bool,
}

impl Story {
    fn new(seed: u64) -> Self {
        let dice = |salt: u64, sides: u64| ((8 * seed + salt).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 33) % sides;
        Self {
            session: format!("s{seed}"),
            shared: 1 + dice(1, 4),
            missing: 1 + dice(2, 16),
            elsewhere: 1 + dice(3, 3),
            talks: dice(4, 2) == 1,
            sleeps: dice(5, 3) == 0,
        }
    }

    fn fork(&self) -> String {
        format!("{}.fork-1.n1", self.session)
    }

    fn path(&self, rest: &str) -> String {
        format!("/v1/sessions/{}{rest}", self.session)
    }
}

fn count(number: u64) -> Value {
    json!({"command": "n=$((n+1)); echo $n >> counted; echo $n", "request_id": format!("k{number}")})
}

/// What the first node answers and the promoted replica lacks.
fn answer_what_gets_lost(first: &Daemon, story: &Story) -> Vec<Reply> {
    let answer = |number: u64| {
        let counted = first.run(&story.session, count(number));
        assert_eq!((counted.out(), counted.notice_codes()), (format!("{number}\n"), vec![]), "{}", story.session);
        counted
    };
    let answers = (story.shared + 1..=story.shared + story.missing).map(answer).collect();
    if story.talks {
        let added = first.post(&story.path("/messages"), &json!({"role": "user", "content": "kept"}));
        assert_eq!(added.status, 201, "{}", added.text());
    }
    if story.sleeps {
        first.hibernate(&story.session);
    }
    answers
}

/// The second node goes on from what the promoted replica has.
fn go_on_elsewhere(second: &Daemon, story: &Story) {
    for number in 1..=story.elsewhere {
        let body = json!({"command": "n=$((n+1)); echo $n", "request_id": format!("elsewhere{number}")});
        let answer = until_within(TAKEN_OVER, "the second node answers", || {
            let answer = second.send(&Request::new("POST", &story.path("/run")).json(body.to_string()));
            // While it cannot reach Redis, the node does not know the session.
            assert!(matches!(answer.status, 200 | 404 | 503), "{}", answer.text());
            (answer.status == 200).then(|| answer.json())
        });
        assert_eq!(answer["stdout"], format!("{}\n", story.shared + number), "{}", story.session);
    }
}

/// What the first node answered is in the fork, under the same numbers.
fn check_fork(first: &Daemon, story: &Story, answers: &[Reply]) {
    let fork = story.fork();
    let shown = first.get(&format!("/v1/sessions/{fork}")).json();
    assert_eq!(shown["forked_from"]["session_id"], story.session, "{shown}");
    for (answer, number) in answers.iter().zip(story.shared + 1..) {
        let run = first.get(&format!("/v1/sessions/{fork}/runs/{}", answer.run_id())).json();
        let told = |field: &str| (run[field].clone(), answer.json[field].clone());
        for (kept, told) in ["seq", "stdout", "exit_code"].map(told) {
            assert_eq!(kept, told, "{fork} {run}");
        }
        let again = first.run(&fork, count(number));
        assert_eq!((again.out(), again.run_id()), (answer.out(), answer.run_id()), "a retry gets what was stored");
    }
    let messages = first.get(&format!("/v1/sessions/{fork}/messages")).json();
    assert_eq!(messages.to_string().contains("kept"), story.talks, "{messages}");
    let last = story.shared + story.missing;
    let next = first.sh(&fork, "wc -l < counted; echo $n");
    assert_eq!(next.out(), format!("{last}\n{last}\n"), "{fork} has its files and variables");
    assert!(next.notice_codes().contains(&"history_diverged"), "{:?}", next.json);
    assert!(next.notice_text().contains(&story.session), "{}", next.notice_text());
    let events = first.get(&format!("/v1/sessions/{fork}/events?limit=1000")).json();
    let seqs: Vec<u64> =
        events["events"].as_array().unwrap().iter().map(|line| line["seq"].as_u64().unwrap()).collect();
    let from = answers[0].json["seq"].as_u64().unwrap();
    let (first_seq, last_seq) = (*seqs.iter().find(|seq| **seq >= from).unwrap(), *seqs.last().unwrap());
    let kept: Vec<u64> = seqs.iter().copied().filter(|seq| *seq >= from).collect();
    assert_eq!(kept, (first_seq..=last_seq).collect::<Vec<_>>(), "no gap");
}

/// The session went on without it, and says so.
fn check_session(second: &Daemon, story: &Story) {
    let told = until("the session's history tells of the fork", || {
        let events = second.get(&story.path("/events?type=session_forked")).json();
        events["events"].as_array().unwrap().first().map(|line| line["data"].clone())
    });
    assert_eq!((told["session_id"].as_str(), told["diverged_on"].as_str()), (Some(story.fork().as_str()), Some("n1")));
    let next = second.sh(&story.session, "echo $n");
    assert_eq!(next.out(), format!("{}\n", story.shared + story.elsewhere), "{}", story.session);
    assert!(next.notice_codes().contains(&"history_diverged"), "{:?}", next.json);
    assert!(next.notice_text().contains(&story.fork()), "{}", next.notice_text());
    assert!(!second.sh(&story.session, "true").notice_codes().contains(&"history_diverged"), "it is said once");
    let events = second.get(&story.path("/events?type=session_forked")).json();
    assert_eq!(events["events"].as_array().map(Vec::len), Some(1), "{events}");
}

/// The session is back on the first node, which gave the large output to the fork. The bug: that was called missing.
fn check_return(first: &Daemon, story: &Story) {
    run_when_taken_over(first, &story.session, &json!({"command": "true"}));
    let verdict = first.post(&story.path("/verify"), &json!({})).json();
    assert_eq!(verdict["intact"], true, "{} {verdict}", story.session);
    assert!(verdict["remarks"].to_string().contains("a fork has them"), "{verdict}");
    let fork = first.post(&format!("/v1/sessions/{}/verify", story.fork()), &json!({})).json();
    assert_eq!(fork["intact"], true, "{} {fork}", story.fork());
}

fn round(seeds: std::ops::Range<u64>) {
    let mut servers = Failover::start();
    let (first, mut second) = (node("n1", &servers.url()), node("n2", &servers.url()));
    let stories: Vec<Story> = seeds.map(Story::new).collect();
    for story in &stories {
        first.create(&story.session);
        first.sh(&story.session, "n=0");
        first.sh(&story.session, "head -c 200000 /dev/zero | tr '\\0' x");
        (1..=story.shared).for_each(|number| drop(first.run(&story.session, count(number))));
    }
    for story in &stories {
        let key = format!("sk:{{{}}}:head", story.session);
        let seq = first.get(&story.path("")).json()["seq"].to_string();
        until("the replica has the session", || {
            (servers.replica.cli(&["HGET", &key, "seq"]).trim() == seq).then_some(())
        });
    }

    servers.cut_replica();
    let answers: Vec<Vec<Reply>> = stories.iter().map(|story| answer_what_gets_lost(&first, story)).collect();
    signal(first.pid(), "STOP");
    servers.promote();
    stories.iter().for_each(|story| go_on_elsewhere(&second, story));
    signal(first.pid(), "CONT");

    for (story, answers) in stories.iter().zip(&answers) {
        until_within(TAKEN_OVER, "what only the first node has is kept", || {
            (first.get(&format!("/v1/sessions/{}", story.fork())).status == 200).then_some(())
        });
        check_fork(&first, story, answers);
        check_session(&second, story);
    }
    let listed = Command::new(env!("CARGO_BIN_EXE_shellkeep"))
        .args(["sessions", "ls", "--socket"])
        .arg(first.directory().join("s.sock"))
        .output()
        .expect("it runs");
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert!(stories.iter().all(|story| listed.contains(&story.fork())), "{listed}");
    second.kill();
    stories.iter().for_each(|story| check_return(&first, story));
}

#[test]
fn what_two_nodes_answered_is_kept_and_declared_on_both_sides() {
    let (rounds, seeds) = if soak() == 1 { (1, 4) } else { (soak() as u64 / 2, 20) };
    for number in 0..rounds {
        round(number * seeds..(number + 1) * seeds);
    }
    println!("{} seeds", rounds * seeds);
}
