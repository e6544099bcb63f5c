//! Recordings, messages and the state of agents, driven from outside: what is acknowledged is there, in order and proven,
//! whatever happens to the daemon, the disk or the store.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test says what it expected by panicking")]

mod crash;
mod disk;
mod kv;
mod masked;
mod order;
mod proof;
mod reading;
mod saved;
mod scrub;
mod stored;
#[path = "../support/mod.rs"]
mod support;
mod tools;
mod trail;
