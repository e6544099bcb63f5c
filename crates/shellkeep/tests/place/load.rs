//! Clients of one session keep asking through several nodes while its owner is killed, again and again. The session counts,
//! and so it is the witness: each number is answered once, and none is missing.

use crate::redis::Redis;
use crate::support::{Daemon, Door, Request, soak};
use serde_json::{Value, json};
use shellkeep_poll::{pass, until_within};
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

/// How long a client repeats a request: the lease, 2 s, and the commands of the others before it.
const PATIENCE: Duration = Duration::from_secs(20);
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

#[test]
fn killed_owners_lose_no_answer_and_run_nothing_twice() {
    let kills = if soak() == 1 { 1 } else { 5 * soak() };
    let redis = Redis::start();
    let mut nodes: Vec<Daemon> = ["n1", "n2"].map(|name| redis.node(name)).into();
    let doors: Vec<Door> = nodes.iter().map(Daemon::door).collect();
    nodes[0].create("s");
    nodes[0].sh("s", "n=0");
    let witness = redis.directory().join("witness");
    let (mut numbers, mut lost) = (BTreeSet::new(), 0);
    for round in 0..kills {
        let owner = redis.cli(&["HGET", "sk:{s}:head", "home"]);
        let owner = usize::from(owner.trim() == "n2");
        let answers = std::thread::scope(|scope| {
            let (doors, witness) = (&doors, &witness);
            let clients: Vec<_> =
                (0..CLIENTS).map(|client| scope.spawn(move || ask(doors, witness, round, client))).collect();
            pass(Duration::from_millis(20 + 37 * (round as u64 % 11)));
            nodes[owner].kill();
            clients.into_iter().map(|client| client.join().unwrap()).collect::<Vec<_>>()
        });
        for (of_client, lost_of_client) in answers {
            assert!(of_client.is_sorted(), "round {round}: a client's answers are in order: {of_client:?}");
            lost += lost_of_client;
            for number in of_client {
                assert!(numbers.insert(number), "round {round}: {number} was answered twice");
            }
        }
        nodes[owner].restart();
    }
    let last = answered(&doors, 0, &json!({"command": "echo $n"}));
    let asked = (kills * CLIENTS * REQUESTS) as u64;
    println!("{kills} kills, {asked} commands, {} answered, {lost} lost with their node", numbers.len());
    assert_eq!(numbers.len() as u64 + lost as u64, asked);
    assert!(numbers.iter().copied().eq(1..=numbers.len() as u64), "a number is missing: {numbers:?}");
    assert_eq!(last["stdout"], format!("{}\n", numbers.len()), "what was answered is what the session knows");
    let ran = std::fs::read_to_string(&witness).unwrap();
    let unique: BTreeSet<&str> = ran.lines().collect();
    assert_eq!(unique.len(), ran.lines().count(), "a command ran twice");
}
