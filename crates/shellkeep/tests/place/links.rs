//! The connections between nodes.

use crate::proxy::Proxy;
use crate::redis::Redis;
use crate::support::{Daemon, Door};
use serde_json::json;
use shellkeep_poll::until;

/// A node that others reach through a proxy.
fn behind(redis: &Redis, proxy: &Proxy, name: &str) -> Daemon {
    let advertised = format!("http://{}", proxy.address);
    let daemon = Daemon::with(redis.settings(name).env("SHELLKEEP_ADVERTISE", &advertised));
    if let Door::Tcp(address) = daemon.tcp_door() {
        proxy.lead_to(address);
    }
    daemon
}

/// Each request that was sent on had a connection of its own, which cost more than the command.
#[test]
fn a_connection_to_another_node_is_used_again() {
    let (redis, proxy) = (Redis::start(), Proxy::open());
    let (first, second) = (behind(&redis, &proxy, "n1"), redis.node("n2"));
    first.create("s");
    for count in 1..=30 {
        let ran = second.post("/v1/sessions/s/run", &json!({"command": "n=$((n+1)); echo $n"}));
        assert_eq!(
            (ran.json()["stdout"].clone(), ran.header("shellkeep-node")),
            (json!(format!("{count}\n")), Some("n1"))
        );
    }
    assert!((1..10).contains(&proxy.accepted()), "{} connections", proxy.accepted());
}

/// What was kept may have ended meanwhile: nothing is sent into it.
#[test]
fn a_connection_that_was_closed_is_replaced() {
    let (redis, proxy) = (Redis::start(), Proxy::open());
    let (mut first, second) = (behind(&redis, &proxy, "n1"), redis.node("n2"));
    first.create("s");
    let asked = || second.get("/v1/sessions/s");
    assert_eq!(asked().header("shellkeep-node"), Some("n1"));
    let before = proxy.accepted();
    proxy.cut();
    // The node learns of it when it next looks at the connection.
    let again = until("the node has learned of it", || Some(asked()).filter(|answer| answer.status == 200));
    assert_eq!(again.header("shellkeep-node"), Some("n1"));
    assert!(proxy.accepted() > before);

    assert_eq!(first.stop(), Some(0), "connections that others keep do not hold up the end of a node");
}
