//! The engine: the one object that a door holds. Its methods are the vocabulary of [`crate::ops`], grouped by family;
//! each sends a message to its session, or reads the store if no session needs to be woken.

mod access;
mod audit;
mod config;
mod create;
mod delete;
mod files;
mod handle;
mod hold;
mod identities;
mod inner;
mod kv;
mod node;
mod output;
mod records;
mod resume;
mod runs;
mod services;
mod sessions;
mod start;
mod visitors;

pub(crate) use access::Access;
pub use config::{EngineConfig, KEEP_DELETED, OnStop};
pub use files::FileOps;
pub use handle::Engine;
pub use hold::{HOLD_LIMIT, Hold};
pub use identities::{Guest, IdentityOps};
pub use kv::KvOps;
pub use node::NodeOps;
pub use records::{EventStream, ExportStream, RecordOps};
pub(crate) use runs::begin;
pub use runs::{MAX_WAIT, RunOps};
pub use services::{LogStream, ServiceOps};
pub use sessions::MAX_PAGE;
pub use start::StartError;
pub use visitors::{FromSession, Visitor};
