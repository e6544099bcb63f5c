//! Services against a real keeper and a real bash: one story per promise, told for each way in which the machine can
//! hold processes.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on should stop")]

mod elsewhere;
mod fixture;
mod life;
mod limits;
mod log;
mod sweep;
mod tree;
