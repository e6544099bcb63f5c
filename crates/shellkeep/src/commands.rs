//! One file per command.

pub mod agents;
pub mod audit;
pub mod backup;
pub mod checkpoints;
pub mod completions;
pub mod config;
pub mod diff;
pub mod doctor;
pub mod events;
pub mod export;
pub mod files;
pub mod fork;
pub mod mcp;
pub mod quotas;
pub mod replay;
pub mod restore;
pub mod resume;
pub mod rewind;
pub mod run;
pub mod scrub;
pub mod serve;
pub mod services;
pub mod sessions;
pub mod tokens;
pub mod top;
pub mod verify;
