//! Nothing runs, and nothing is kept or brought back, in another place than its session's.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test says what it expected by panicking")]

mod agent_limits;
mod all_nodes;
mod backup;
mod broker;
mod broker_proofs;
#[cfg(feature = "s3")]
mod bucket;
mod cut_off;
mod databases;
mod deleted;
mod deploy;
mod diverged;
mod drained;
mod emptied;
mod fork_names;
mod forks;
mod gone;
mod history;
mod history_query;
mod history_tls;
mod left_behind;
mod links;
mod load;
mod moved;
mod node_files;
mod node_keys;
mod node_scrub;
mod nodes;
mod on_the_way;
mod promoted;
mod proxy;
mod rabbit;
mod read_back;
mod redis;
mod retention;
mod reused_names;
mod same_name;
mod several_nodes;
mod shared_stores;
#[path = "../support/mod.rs"]
mod support;
mod taken_back;
#[path = "../checkpoints/tools.rs"]
#[allow(dead_code, reason = "other tests ask more about files")]
mod tools;
