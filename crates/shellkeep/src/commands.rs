//! One file per command.

pub mod agents;
pub mod completions;
pub mod config;
pub mod doctor;
pub mod mcp;
pub mod quotas;
pub mod run;
pub mod serve;
pub mod services;
pub mod sessions;
pub mod tokens;
pub mod top;
