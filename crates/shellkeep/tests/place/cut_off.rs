//! A node that cannot reach Redis: alone, with all others, or from its start.

use crate::nodes::run_when_taken_over;
use crate::proxy::{Fault, Proxy};
use crate::redis::{Redis, node};
use crate::support::daemon::signal;
use crate::support::{Daemon, procs};
use serde_json::{Value, json};
use shellkeep_poll::{pass, until, until_within};
use std::time::{Duration, Instant};

/// Within this time another node answers for a session whose node is cut off: a renewal whose answer was lost, the lease
/// and 2 s.
const TAKEN_OVER: Duration = Duration::from_secs(9);
/// A time in which a lease ends that nobody renews.
const PAST_LEASE: Duration = Duration::from_secs(7);
/// A time after which a node refuses what another signed: 30 s, and what a test needs to send it.
const PAST_SIGNATURE: Duration = Duration::from_secs(33);

/// A node that alone was cut off went on beside the new owner until Redis refused it.
fn a_node_that_is_cut_off_stops(fault: Fault, is_cut_from_peers: bool) {
    let redis = Redis::start();
    let (to_redis, to_second) = (Proxy::to(redis.address), Proxy::open());
    let second = redis.node_behind(&to_second, "n2");
    until("the other node is listed", || (redis.cli(&["EXISTS", "sk:node:n2"]).trim() == "1").then_some(()));
    let first = node("n1", &format!("redis://{}", to_redis.address));
    first.create("s");
    first.sh("s", "n=1");
    let mark = procs::unique_sleep();
    first.start_service("s", json!({"command": format!("sleep {mark}")}));
    let shell = first.shell_pid("s").expect("it has a shell");
    let witness = second.directory().join("witness");
    let count = json!({"command": format!("n=$((n+1)); echo $$ >> {}; echo $n", witness.display())});

    to_redis.set(fault);
    if is_cut_from_peers {
        to_second.set(Fault::BlackHole);
    }
    let mut last = 1;
    until_within(TAKEN_OVER, "the other node goes on", || {
        // Until then the node that was cut off answers, because its lease lasts.
        first.post("/v1/sessions/s/run", &count);
        let answer = second.post("/v1/sessions/s/run", &count);
        let is_here = answer.status == 200 && answer.header("shellkeep-node").is_none();
        is_here.then(|| last = number(&answer.json()))
    });
    assert!(!procs::alive(shell), "the node that was cut off had ended its shell before");
    assert!(procs::marked(&mark).is_empty(), "and its service");
    // What it ran, it ran before the new owner ran anything.
    let ran = std::fs::read_to_string(&witness).expect("the witness");
    let by_first: Vec<bool> = ran.lines().map(|pid| pid == shell.to_string()).collect();
    assert!(by_first.is_sorted_by(|before, after| before >= after) && by_first.contains(&true), "{ran}");

    let through = first.post("/v1/sessions/s/run", &count);
    if is_cut_from_peers {
        assert_eq!((through.status, through.json()["code"].as_str()), (503, Some("node_alone")), "{}", through.text());
    } else {
        assert_eq!((number(&through.json()), through.header("shellkeep-node")), (last + 1, Some("n2")));
    }
    to_redis.set(Fault::None);
    to_second.set(Fault::None);
    until_within(Duration::from_secs(15), "it is ready again", || {
        (first.get("/readyz").json()["status"] == "ready").then_some(())
    });
    let back = first.post("/v1/sessions/s/run", &count);
    assert_eq!((back.status, back.header("shellkeep-node")), (200, Some("n2")), "{}", back.text());
}

fn number(answer: &Value) -> u64 {
    answer["stdout"].as_str().and_then(|text| text.trim().parse().ok()).unwrap_or_else(|| panic!("{answer}"))
}

#[test]
fn a_node_in_a_black_hole_stops_when_its_lease_ends() {
    a_node_that_is_cut_off_stops(Fault::BlackHole, false);
}

#[test]
fn a_node_that_gets_no_answers_stops_when_its_lease_ends() {
    a_node_that_is_cut_off_stops(Fault::AnswersLost, false);
}

#[test]
fn a_node_that_reaches_nobody_stops_when_its_lease_ends() {
    a_node_that_is_cut_off_stops(Fault::BlackHole, true);
}

#[test]
fn nodes_go_on_past_their_leases_if_redis_is_away_for_all() {
    let mut redis = Redis::start();
    let nodes = [redis.node("n1"), redis.node("n2")];
    for (daemon, session) in nodes.iter().zip(["a", "b"]) {
        daemon.create(session);
        daemon.sh(session, "n=0");
    }
    redis.stop();
    let stopped = Instant::now();
    let mut asked = 0;
    until_within(2 * PAST_LEASE, "the leases are over", || {
        asked += 1;
        for (daemon, session) in nodes.iter().zip(["a", "b"]) {
            let counted = daemon.run(session, json!({"command": "n=$((n+1)); echo $n"}));
            assert_eq!(counted.out(), format!("{asked}\n"));
            assert!(counted.notice_codes().contains(&"kept_here_only"), "{:?}", counted.notice_codes());
        }
        (stopped.elapsed() > PAST_LEASE).then_some(())
    });
    redis.restart();
    for (daemon, session) in nodes.iter().zip(["a", "b"]) {
        until_within(Duration::from_secs(15), "it is ready again", || {
            (daemon.get("/readyz").json()["status"] == "ready").then_some(())
        });
        assert_eq!(daemon.sh(session, "echo $n").out(), format!("{asked}\n"));
    }
    // Neither took the other's session while it could not see it.
    let through = nodes[0].post("/v1/sessions/b/run", &json!({"command": "echo $n"}));
    assert_eq!((number(&through.json()), through.header("shellkeep-node")), (asked, Some("n2")));
}

#[test]
fn a_node_that_starts_while_redis_is_away_serves_if_it_was_the_only_one() {
    for is_only_one in [true, false] {
        let mut redis = Redis::start();
        let mut first = redis.node("n1");
        let second = (!is_only_one).then(|| redis.node("n2"));
        first.create("s");
        first.sh("s", "n=1");
        if second.is_some() {
            let file = first.directory().join("data/nodes");
            until("it knows the other node", || std::fs::read_to_string(&file).ok().filter(|text| text == "n2"));
        }
        redis.stop();
        first.restart();
        let answer = first.post("/v1/sessions/s/run", &json!({"command": "echo $n"}));
        if is_only_one {
            assert_eq!(number(&answer.json()), 1);
            continue;
        }
        assert_eq!((answer.status, answer.json()["code"].as_str()), (503, Some("node_alone")), "{}", answer.text());
        redis.restart();
        until_within(Duration::from_secs(15), "it serves again", || {
            let answer = first.post("/v1/sessions/s/run", &json!({"command": "echo $n"}));
            (answer.status == 200).then(|| assert_eq!(number(&answer.json()), 1))
        });
    }
}

#[test]
fn a_slow_network_is_no_reason_to_stop() {
    let redis = Redis::start();
    let proxy = Proxy::to(redis.address);
    let (first, second) = (node("n1", &format!("redis://{}", proxy.address)), redis.node("n2"));
    first.create("s");
    proxy.set(Fault::Delay);
    for count in 1..=3 {
        let ran = second.post("/v1/sessions/s/run", &json!({"command": "n=$((n+1)); echo $n"}));
        assert_eq!((number(&ran.json()), ran.header("shellkeep-node")), (count, Some("n1")));
        assert_eq!(ran.json()["notices"], json!([]));
    }
    assert_eq!(first.get("/readyz").json()["status"], "ready");
}

#[test]
fn a_node_may_refuse_to_serve_alone() {
    let mut redis = Redis::start();
    let first = Daemon::with(redis.settings("n1").env("SHELLKEEP_WHEN_ALONE", "refuse"));
    first.create("s");
    first.sh("s", "n=1");
    redis.stop();
    let refused = until("it knows that Redis is away", || {
        let answer = first.get("/v1/sessions/s");
        (answer.status == 503).then_some(answer)
    });
    assert_eq!(refused.json()["code"], "node_alone", "{}", refused.text());
    assert!(refused.header("retry-after").is_some());
    assert_eq!(first.post("/v1/sessions", &json!({"session_id": "t"})).json()["code"], "node_alone");
    assert_eq!(first.get("/readyz").json()["status"], "degraded");
    redis.restart();
    until_within(Duration::from_secs(15), "it serves again", || {
        let answer = first.post("/v1/sessions/s/run", &json!({"command": "echo $n"}));
        (answer.status == 200).then(|| assert_eq!(number(&answer.json()), 1))
    });
}

/// The shared store brought a session back that was deleted while it could not be reached.
#[test]
fn what_is_deleted_while_redis_is_away_is_removed_when_it_is_back() {
    let redis = Redis::start();
    let proxy = Proxy::to(redis.address);
    let first = node("n1", &format!("redis://{}", proxy.address));
    first.create("s");
    proxy.set(Fault::BlackHole);
    until("it knows that Redis is away", || (first.get("/readyz").json()["status"] == "degraded").then_some(()));
    first.destroy("s");
    let again = first.post("/v1/sessions", &json!({"session_id": "s"}));
    assert_eq!((again.status, again.json()["code"].as_str()), (503, Some("store_unavailable")), "{}", again.text());
    proxy.set(Fault::None);
    until_within(Duration::from_secs(15), "it is removed in Redis", || {
        (redis.cli(&["HGET", "sk:{s}:head", "removed"]).trim() == "1").then_some(())
    });
    until("the name is free", || {
        assert_eq!(first.get("/v1/sessions/s").status, 404);
        (first.post("/v1/sessions", &json!({"session_id": "s"})).status == 201).then_some(())
    });
}

/// A request at a stopped node waited until the node went on, because without the shared store nothing tells that it is stopped,
/// and was then answered with 502 `node_not_trusted`. The node does not begin it, however late it goes on.
#[test]
fn a_request_that_waited_at_a_stopped_node_says_that_the_node_was_unreachable() {
    let mut redis = Redis::start();
    let (first, mut second) = (redis.node("n1"), redis.node("n2"));
    second.create("s");
    assert_eq!(second.stop(), Some(0));
    let (taken, _) = run_when_taken_over(&first, "s", &json!({"command": "n=1; echo $n"}));
    assert_eq!(number(&taken), 1);
    second.restart();
    // Through the node that had it: it notes where the session is, so it needs no Redis to find it.
    let through = second.post("/v1/sessions/s/run", &json!({"command": "echo $n"}));
    assert_eq!((number(&through.json()), through.header("shellkeep-node")), (1, Some("n1")));
    redis.stop();
    until("it knows that Redis is away", || (second.get("/readyz").json()["status"] == "degraded").then_some(()));
    signal(first.pid(), "STOP");
    until("it is stopped", || procs::is_stopped(first.pid()).then_some(()));
    let asked = Instant::now();
    let answer = second.post("/v1/sessions/s/run", &json!({"command": "n=2"}));
    pass(PAST_SIGNATURE.saturating_sub(asked.elapsed()));
    signal(first.pid(), "CONT");
    let by = answer.header("shellkeep-node");
    assert_eq!(
        (answer.status, answer.json()["code"].as_str()),
        (503, Some("owner_unreachable")),
        "{by:?} {}",
        answer.text()
    );
    assert!(answer.header("retry-after").is_some());
    let detail = answer.json()["detail"].as_str().map(str::to_owned).unwrap_or_default();
    assert!(detail.contains("may have run") && detail.contains("Repeat the request"), "{detail}");
    redis.restart();
    until_within(Duration::from_secs(15), "it is ready again", || {
        (first.get("/readyz").json()["status"] == "ready").then_some(())
    });
    assert_eq!(first.sh("s", "echo $n").out(), "1\n", "nothing was run");
}

/// A command whose record was on its way when its node was stopped was begun when the node went on, beside the one that had taken
/// the session over: the answer that it found had been right when it was sent.
#[test]
fn a_command_that_waits_when_its_node_is_stopped_is_not_begun_afterwards() {
    let redis = Redis::start();
    let to_redis = Proxy::to(redis.address);
    let second = redis.node("n2");
    until("the other node is listed", || (redis.cli(&["EXISTS", "sk:node:n2"]).trim() == "1").then_some(()));
    let first = node("n1", &format!("redis://{}", to_redis.address));
    first.create("s");
    first.sh("s", "n=1");
    let shell = first.shell_pid("s").expect("it has a shell").to_string();
    let witness = redis.directory().join("witness");
    let by_first = || {
        let ran = std::fs::read_to_string(&witness).unwrap_or_default();
        ran.lines().filter(|pid| *pid == shell).count()
    };
    let seq = || redis.cli(&["HGET", "sk:{s}:head", "seq"]);
    let (before, count) = (seq(), json!({"command": format!("echo $$ >> {}", witness.display())}));
    to_redis.set(Fault::Delay);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| first.post("/v1/sessions/s/run", &count));
        until("its record is shared, and its node not told yet", || (seq() != before).then_some(()));
        signal(first.pid(), "STOP");
        let (answer, _) = run_when_taken_over(&second, "s", &json!({"command": "n=$((n+1)); echo $n"}));
        assert_eq!(answer["stdout"], "2\n");
        // On a slow machine it was told before it was stopped, and began the command in time.
        let begun = by_first();
        to_redis.set(Fault::None);
        signal(first.pid(), "CONT");
        waiting.join().expect("it is answered");
        assert_eq!(by_first(), begun, "the former owner began a command");
    });
    assert_eq!(second.sh("s", "echo $n").out(), "2\n");
}

/// The bug: a fork had the end of a command that ran at the last common record, and not its start. The command was not found
/// there, and a retry with its key ran it again.
#[test]
fn a_command_that_ran_across_the_cut_is_found_in_the_fork() {
    let redis = Redis::start();
    let to_redis = Proxy::to(redis.address);
    let second = redis.node("n2");
    let first = node("n1", &format!("redis://{}", to_redis.address));
    first.create("s");
    first.sh("s", "true");
    let [gate, witness] = ["go", "witness"].map(|name| redis.directory().join(name));
    let (waits, writes) = (format!("until [ -e {} ]; do sleep 0.02; done", gate.display()), witness.display());
    let body = json!({"command": format!("echo begun; {waits}; echo ran >> {writes}"), "request_id": "r1"});
    let mut events = first.stream("s", &body);
    while !events.next_event().expect("it runs").data.contains("begun") {}
    to_redis.set(Fault::BlackHole);
    std::fs::write(&gate, "").expect("a file");
    let result = loop {
        let event = events.next_event().expect("it ends");
        if event.event == "result" {
            break event.data;
        }
    };
    assert!(result.contains("kept_here_only"), "{result}");
    let result: Value = serde_json::from_str(&result).expect("JSON");
    until_within(TAKEN_OVER, "the other node goes on", || {
        let answer = second.post("/v1/sessions/s/run", &json!({"command": "true"}));
        (answer.status == 200 && answer.header("shellkeep-node").is_none()).then_some(())
    });
    to_redis.set(Fault::None);

    let fork = "/v1/sessions/s.fork-1.n1";
    until_within(Duration::from_secs(15), "the fork is there", || (second.get(fork).status == 200).then_some(()));
    let run_id = result["run_id"].as_str().expect("an id");
    let found = second.get(&format!("{fork}/runs/{run_id}"));
    assert_eq!((found.status, &found.json()["exit_code"]), (200, &json!(0)), "{}", found.text());
    let again = second.post(&format!("{fork}/run"), &body);
    assert_eq!((again.status, &again.json()["run_id"]), (200, &result["run_id"]), "{}", again.text());
    assert_eq!(std::fs::read_to_string(&witness).expect("a file"), "ran\n");
}
