//! Nothing runs, and nothing is kept or brought back, in another place than its session's.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test says what it expected by panicking")]

mod backup;
mod cut_off;
mod databases;
mod deploy;
mod forks;
mod gone;
mod history;
mod load;
mod moved;
mod node_files;
mod nodes;
mod promoted;
mod proxy;
mod redis;
#[path = "../support/mod.rs"]
mod support;
#[path = "../checkpoints/tools.rs"]
#[allow(dead_code, reason = "other tests ask more about files")]
mod tools;
