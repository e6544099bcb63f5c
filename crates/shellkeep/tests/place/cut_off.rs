//! A node that cannot reach Redis while others can, and one that does not serve without it.

use crate::proxy::{Fault, Proxy};
use crate::redis::{Redis, node};
use crate::support::{Daemon, Settings, procs};
use serde_json::json;
use shellkeep_poll::{until, until_within};
use std::time::Duration;

/// Within this time another node answers for a session whose node is cut off: a renewal whose answer was lost, the lease
/// and 2 s.
const TAKEN_OVER: Duration = Duration::from_secs(9);

/// A node that alone was cut off went on beside the new owner until Redis refused it.
fn a_node_that_is_cut_off_stops(fault: Fault) {
    let redis = Redis::start();
    let proxy = Proxy::to(redis.address);
    // The node hears of its neighbour when it starts.
    let second = redis.node("n2");
    until("the other node is listed", || (redis.cli(&["EXISTS", "sk:node:n2"]).trim() == "1").then_some(()));
    let first = node("n1", &format!("redis://{}", proxy.address));
    first.create("s");
    first.sh("s", "n=1");
    let shell = first.shell_pid("s").expect("it has a shell");
    proxy.set(fault);
    until_within(TAKEN_OVER, "the other node goes on", || {
        // Until then the node that was cut off answers, because its lease lasts.
        let answer = second.post("/v1/sessions/s/run", &json!({"command": "echo $n"}));
        let is_here = answer.status == 200 && answer.header("shellkeep-node").is_none();
        is_here.then(|| assert_eq!(answer.json()["stdout"], "1\n"))
    });
    assert!(!procs::alive(shell), "the node that was cut off had ended its shell before");
    let through = first.post("/v1/sessions/s/run", &json!({"command": "n=$((n+1)); echo $n"}));
    assert_eq!((through.json()["stdout"].as_str(), through.header("shellkeep-node")), (Some("2\n"), Some("n2")));

    proxy.set(Fault::None);
    until_within(Duration::from_secs(15), "it is ready again", || {
        (first.get("/readyz").json()["status"] == "ready").then_some(())
    });
    let back = first.post("/v1/sessions/s/run", &json!({"command": "n=$((n+1)); echo $n"}));
    assert_eq!((back.json()["stdout"].as_str(), back.header("shellkeep-node")), (Some("3\n"), Some("n2")));
}

#[test]
fn a_node_in_a_black_hole_stops_when_its_lease_ends() {
    a_node_that_is_cut_off_stops(Fault::BlackHole);
}

#[test]
fn a_node_that_gets_no_answers_stops_when_its_lease_ends() {
    a_node_that_is_cut_off_stops(Fault::AnswersLost);
}

#[test]
fn a_slow_network_is_no_reason_to_stop() {
    let redis = Redis::start();
    let proxy = Proxy::to(redis.address);
    let (first, second) = (node("n1", &format!("redis://{}", proxy.address)), redis.node("n2"));
    first.create("s");
    proxy.set(Fault::Delay);
    for number in 1..=3 {
        let ran = second.post("/v1/sessions/s/run", &json!({"command": "n=$((n+1)); echo $n"}));
        assert_eq!(
            (ran.json()["stdout"].as_str(), ran.header("shellkeep-node")),
            (Some(&*format!("{number}\n")), Some("n1"))
        );
        assert_eq!(ran.json()["notices"], json!([]));
    }
    assert_eq!(first.get("/readyz").json()["status"], "ready");
}

#[test]
fn a_node_may_refuse_to_serve_alone() {
    let mut redis = Redis::start();
    let settings = Settings::default().tcp().store(&format!("redis://{}", redis.address));
    let first = Daemon::with(settings.env("SHELLKEEP_NODE", "n1").env("SHELLKEEP_WHEN_ALONE", "refuse"));
    first.create("s");
    first.sh("s", "n=1");
    redis.stop();
    let refused = until("it knows that Redis is away", || {
        let answer = first.post("/v1/sessions/s/run", &json!({"command": "echo $n"}));
        (answer.status == 503).then_some(answer)
    });
    assert_eq!(refused.json()["code"], "node_alone", "{}", refused.text());
    assert!(refused.header("retry-after").is_some());
    assert_eq!(first.post("/v1/sessions", &json!({"session_id": "t"})).json()["code"], "node_alone");
    assert_eq!(first.get("/readyz").json()["status"], "degraded");
    redis.restart();
    until_within(Duration::from_secs(15), "it serves again", || {
        let answer = first.post("/v1/sessions/s/run", &json!({"command": "echo $n"}));
        (answer.status == 200).then(|| assert_eq!(answer.json()["stdout"], "1\n"))
    });
}
