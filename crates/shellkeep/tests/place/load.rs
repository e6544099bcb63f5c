//! Clients of one session keep asking through several nodes while its owner, or Redis, is killed, again and again. The session
//! counts, and so it is the witness: each number is answered once, and none is missing.

use crate::redis::Redis;
use crate::support::{Daemon, Door, Request, soak};
use serde_json::{Value, json};
use shellkeep_poll::{pass, until_within};
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

/// How long a client repeats a request: the lease, 2 s, and the commands of the others before it.
const PATIENCE: Duration = Duration::from_secs(20);
/// Within this time another node answers for a session whose node is gone: the lease and 2 s.
const TAKEN_OVER: Duration = Duration::from_secs(7);
/// Clients, and what each asks in a round.
const CLIENTS: usize = 3;
const REQUESTS: usize = 8;

/// Sends one command until a node answers, each time to another node. Returns the run.
fn answered(doors: &[Door], first: usize, body: &Value) -> Value {
    let mut at = first;
    until_within(PATIENCE, "a node answers", || {
        at += 1;
        let request = Request::new("POST", "/v1/sessions/s/run").json(body.to_string());
        let answer = request.send(&doors[at % doors.len()]).ok()?;
        match answer.status {
            // A node that was killed may have sent only a part of its answer.
            200 => serde_json::from_slice(&answer.body).ok(),
            503 => None,
            _ => panic!("{}", answer.text()),
        }
    })
}

/// What a client was answered in a round: numbers, and how many of its commands were lost.
fn ask(doors: &[Door], witness: &Path, round: usize, client: usize) -> (Vec<u64>, usize) {
    let (mut numbers, mut lost) = (Vec::new(), 0);
    for request in 0..REQUESTS {
        let id = format!("{round}-{client}-{request}");
        let command = format!("n=$((n+1)); echo {id} >> {}; echo $n", witness.display());
        let run = answered(doors, client + request, &json!({"command": command, "request_id": id}));
        match run["status"].as_str() {
            Some("exited") => numbers.push(run["stdout"].as_str().unwrap().trim().parse().unwrap()),
            Some("lost") => lost += 1,
            _ => panic!("{run}"),
        }
    }
    (numbers, lost)
}

/// What the clients were answered so far.
#[derive(Default)]
struct Answered {
    rounds: usize,
    numbers: BTreeSet<u64>,
    lost: usize,
}

impl Answered {
    /// A round of all clients, with a fault at some moment.
    fn round(&mut self, doors: &[Door], witness: &Path, fault: impl FnOnce()) {
        let round = self.rounds;
        self.rounds += 1;
        let answers = std::thread::scope(|scope| {
            let clients: Vec<_> =
                (0..CLIENTS).map(|client| scope.spawn(move || ask(doors, witness, round, client))).collect();
            pass(Duration::from_millis(20 + 37 * (round as u64 % 11)));
            fault();
            clients.into_iter().map(|client| client.join().unwrap()).collect::<Vec<_>>()
        });
        for (of_client, lost_of_client) in answers {
            assert!(of_client.is_sorted(), "round {round}: a client's answers are in order: {of_client:?}");
            self.lost += lost_of_client;
            for number in of_client {
                assert!(self.numbers.insert(number), "round {round}: {number} was answered twice");
            }
        }
    }

    /// Each number was answered once, and each command ran at most once.
    fn check(self, doors: &[Door], witness: &Path) {
        let Self { rounds, numbers, lost } = self;
        let last = answered(doors, 0, &json!({"command": "echo $n"}));
        let asked = (rounds * CLIENTS * REQUESTS) as u64;
        println!("{rounds} kills, {asked} commands, {} answered, {lost} lost with their node", numbers.len());
        assert_eq!(numbers.len() as u64 + lost as u64, asked);
        assert!(numbers.iter().copied().eq(1..=numbers.len() as u64), "a number is missing: {numbers:?}");
        assert_eq!(last["stdout"], format!("{}\n", numbers.len()), "what was answered is what the session knows");
        let ran = std::fs::read_to_string(witness).unwrap();
        let unique: BTreeSet<&str> = ran.lines().collect();
        assert_eq!(unique.len(), ran.lines().count(), "a command ran twice");
    }
}

#[test]
fn killed_owners_lose_no_answer_and_run_nothing_twice() {
    let kills = if soak() == 1 { 1 } else { 5 * soak() };
    let redis = Redis::start();
    let mut nodes: Vec<Daemon> = ["n1", "n2"].map(|name| redis.node(name)).into();
    let doors: Vec<Door> = nodes.iter().map(Daemon::door).collect();
    nodes[0].create("s");
    nodes[0].sh("s", "n=0");
    let witness = redis.directory().join("witness");
    let mut all = Answered::default();
    for _ in 0..kills {
        let owner = redis.cli(&["HGET", "sk:{s}:head", "home"]);
        let owner = usize::from(owner.trim() == "n2");
        let (node, other) = (&mut nodes[owner], &doors[1 - owner]);
        all.round(&doors, &witness, || {
            node.kill();
            let probe = Request::new("POST", "/v1/sessions/s/run").json(json!({"command": "true"}).to_string());
            until_within(TAKEN_OVER, "the session answers elsewhere", || {
                probe.send(other).ok().filter(|answer| answer.status == 200)
            });
        });
        nodes[owner].restart();
    }
    all.check(&doors, &witness);
}

/// Redis comes back empty each time. The owner serves the session alone meanwhile, and gives it again.
#[test]
fn a_killed_redis_loses_no_answer_and_runs_nothing_twice() {
    let mut redis = Redis::start();
    let nodes = ["n1", "n2"].map(|name| redis.node(name));
    let doors: Vec<Door> = nodes.iter().map(Daemon::door).collect();
    nodes[0].create("s");
    nodes[0].sh("s", "n=0");
    let witness = nodes[0].directory().join("witness");
    let mut all = Answered::default();
    for round in 0..soak() as u64 {
        all.round(&doors, &witness, || {
            redis.stop();
            // Some of them are longer than a lease.
            pass(Duration::from_millis(if round % 5 == 4 { 6000 } else { 150 + 97 * (round % 7) }));
            redis.restart();
        });
        for node in &nodes {
            until_within(PATIENCE, "it is ready again", || {
                (node.get("/readyz").json()["status"] == "ready").then_some(())
            });
        }
    }
    all.check(&doors, &witness);
    let sessions = nodes[1].get("/v1/sessions").json();
    assert_eq!(sessions["sessions"].as_array().map(Vec::len), Some(1), "nothing was forked: {sessions}");
}
