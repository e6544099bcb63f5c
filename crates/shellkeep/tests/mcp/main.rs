//! The MCP doors, driven from outside: the built program on stdio and over HTTP, by clients of our own that see the
//! bytes, and by those that others use (the official Python client, the conformance suite, the inspector).
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test says what it expected by panicking")]

mod client;
mod crowd;
mod http;
mod order;
mod others;
mod proxy;
mod reconnect;
mod services;
mod stdio;
#[path = "../support/mod.rs"]
mod support;
mod terminal;
mod wrong;
