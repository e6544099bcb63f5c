//! One file per command.

pub mod completions;
pub mod config;
pub mod doctor;
pub mod mcp;
pub mod run;
pub mod serve;
pub mod sessions;
pub mod tokens;
