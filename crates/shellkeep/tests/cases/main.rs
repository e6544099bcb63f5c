//! What a session answers: the cases that other tools fail, and every trap a shell can set for its driver. Each table
//! runs against the built program, on a fresh session and again on one that was hibernated between the steps.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test says what it expected by panicking")]

mod case;
mod channel;
mod death;
mod hold;
mod owner;
mod peers;
mod remnants;
mod screen;
mod streams;
#[path = "../support/mod.rs"]
mod support;
mod text;
mod traces;
