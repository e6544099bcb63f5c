//! The engine: the one object that a door holds. Its methods are the vocabulary of [`crate::ops`], grouped by family;
//! each sends a message to its session, or reads the store if no session needs to be woken.

mod access;
mod audit;
mod cluster;
mod config;
mod copies;
mod create;
mod delete;
mod drain;
mod files;
mod first_token;
mod fleet;
mod handle;
mod hold;
mod identities;
mod kv;
mod list;
mod node;
mod output;
mod parts;
mod past;
mod records;
mod resume;
mod run_lists;
mod run_summary;
mod runs;
mod sandbox;
mod services;
mod sessions;
mod start;
mod take_over;
mod visitors;

pub(crate) use access::Access;
pub use cluster::ClusterOps;
pub use config::{EngineConfig, KEEP_DELETED, OnStop};
pub use files::FileOps;
pub use fleet::{FleetChange, FleetStream};
pub use handle::Engine;
pub use hold::{HOLD_LIMIT, Hold};
pub use identities::{Guest, IdentityOps};
pub use kv::KvOps;
pub use list::MAX_PAGE;
pub use node::NodeOps;
pub use records::{EventStream, ExportStream, RecordOps};
pub use run_lists::RunListOps;
pub(crate) use runs::begin;
pub use runs::{MAX_WAIT, RunOps};
pub use sandbox::SandboxOps;
pub use services::{LogStream, ServiceOps};
pub use start::StartError;
pub use take_over::HoldOps;
pub use visitors::{FromSession, Visitor};

#[cfg(test)]
mod nodes_tests;
