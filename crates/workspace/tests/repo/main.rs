//! The repository of checkpoints against the real `git`: what we write it reads, what we cut it still takes for whole.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on should stop")]

mod blobs;
mod crash;
mod fixture;
mod format;
mod mirror;
mod patches;
mod space;
