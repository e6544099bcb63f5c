//! Agents that are run on: what they are told, what is recorded of them, and what is left of them and of their work when they
//! or the daemon die. The agents are those of `examples/agents`, and some that behave badly.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test says what it expected by panicking")]

mod agents;
mod busy;
mod cli;
mod crash;
mod fixture;
mod model;
#[path = "../support/mod.rs"]
mod support;
mod talk;
mod wrong;
