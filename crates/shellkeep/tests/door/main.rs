//! The host's door: who is the host on the Unix socket, and what of the daemon those can see who are not.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on should say where")]

#[path = "../support/mod.rs"]
mod support;

mod audit;
mod breakout;
mod browser;
mod commands;
mod console;
mod environment;
mod forged;
mod install;
mod lifecycle;
mod live;
mod packages;
mod peers;
mod preloaded;
mod private;
mod rooms;
mod rungs;
mod secrets;
mod ssh;
mod swapped;
mod users;
mod users_kept;
mod work;
