//! One file per command.

pub mod agents;
pub mod completions;
pub mod config;
pub mod doctor;
pub mod events;
pub mod export;
pub mod mcp;
pub mod quotas;
pub mod replay;
pub mod resume;
pub mod run;
pub mod scrub;
pub mod serve;
pub mod services;
pub mod sessions;
pub mod tokens;
pub mod top;
pub mod verify;
