//! Bringing a workspace back: what is restored, what is kept back, and what a crash or a full disk leaves.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on should stop")]

mod closed;
mod crash;
mod disk;
mod fixture;
mod kept;
mod merging;
mod ways;
