//! What is masked and what is not, and the laws that hold for every text.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test says what it expected by panicking")]

mod busy;
mod corpus;
mod disguise;
mod grammar;
mod laws;
mod settings;
mod template;
mod values;
mod work;
