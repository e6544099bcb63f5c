//! The screen of `shellkeep top`: a value that keys and updates change, and its drawing. It does no I/O; it lists what
//! it needs in [`wants`], and the command line asks the daemon.

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
