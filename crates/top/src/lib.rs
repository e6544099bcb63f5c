//! The screen of `shellkeep top`: a value that keys and news change, and its drawing. It asks nobody anything; what it wants
//! to know it says in [`wants`], and the command line asks the daemon.

pub mod app;
mod columns;
pub mod draw;
mod keys;
pub mod layout;
mod log;
mod panes;
mod quotas;
mod rates;
pub mod snapshot;
mod views;
pub mod wants;

#[cfg(test)]
mod samples;
