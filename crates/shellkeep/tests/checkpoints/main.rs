//! Files and time, driven from outside: checkpoints, differences, rewind, fork and merge, over HTTP and the command line.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test says what it expected by panicking")]

mod busy;
mod cli;
mod crash;
mod fork;
mod http;
mod model;
mod project;
mod recording;
mod rewind;
mod rules;
mod scrub;
mod single;
#[path = "../support/mod.rs"]
mod support;
#[path = "../top/terminal.rs"]
#[allow(dead_code, reason = "other tests do more with their terminals")]
mod terminal;
mod timeline;
mod tools;
