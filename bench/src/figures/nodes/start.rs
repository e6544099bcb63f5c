//! Redis and nodes that share a store in it.

use crate::daemon::{Daemon, LISTEN};
use crate::fallible::Fallible;
use crate::http::{Client, HttpLane};
use crate::setup::Setup;
use shellkeep_servers::{RedisServer, free_port};

/// The host's token, the same on all nodes.
const TOKEN: &str = "of-the-benchmark";

pub fn start_redis() -> Fallible<RedisServer> {
    RedisServer::start()?.ok_or_else(|| "redis-server is not installed".into())
}

/// A node with the store in Redis.
pub fn start_node(setup: &Setup, redis: &RedisServer, name: &str, max_shells: usize) -> Fallible<Daemon> {
    let listen = free_port()?.to_string();
    let settings =
        [("SHELLKEEP_STORE", &*redis.url()), ("SHELLKEEP_NODE", name), ("SHELLKEEP_TOKEN", TOKEN), (LISTEN, &listen)];
    Daemon::start_with(&setup.program, &setup.bash, max_shells, &settings)
}

/// Makes live sessions in a daemon, each with a connection that runs `true`.
pub fn live(daemon: &Daemon, count: usize) -> Fallible<Vec<HttpLane>> {
    let mut client = Client::connect(&daemon.socket())?;
    let mut lanes = Vec::with_capacity(count);
    for _ in 0..count {
        let id = client.create()?;
        client.times(&id, "true", 1)?;
        lanes.push(HttpLane::connect(&daemon.socket(), &id)?);
    }
    Ok(lanes)
}
