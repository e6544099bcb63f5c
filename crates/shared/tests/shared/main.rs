//! The shared tiers, and the thread that brings records to them.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test says what it expected by panicking")]

mod contract;
mod emptied;
mod given_back;
mod pipe;
mod ship;
mod tls;
