//! Services, quotas, admission and cleaning up, driven from outside: the built program over HTTP, as its users see it,
//! and `/proc` and the control groups, as the machine sees it.
//!
//! The long ones are ignored; `cargo nextest run -p shellkeep --test services --run-ignored only --no-capture` runs them.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test says what it expected by panicking")]

mod admission;
mod bomb;
mod clean;
mod flood;
mod ledger;
mod life;
mod logs;
mod quota;
#[path = "../support/mod.rs"]
mod support;
