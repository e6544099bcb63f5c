//! One timeline of files, shell and agent's state, in a real engine with a real bash.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test says what it expected by panicking")]

mod fixture;
mod forks;
mod repositories;
mod rewinds;
