//! What a recording promises: it is whole after every crash, it proves itself, it is read without being loaded, and secrets
//! can be masked in it without losing the proof.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on should stop")]

mod crash;
mod fixture;
mod masks;
mod past;
mod reads;
mod scrubs;
mod signed;
mod stalls;
mod tamper;
