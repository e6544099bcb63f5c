//! Where a session's facts are kept. The runtime sees one thing, [`Store`]: it appends records and reads sessions back.
//!
//! An append is one `write(2)` to a journal, so an answered command costs microseconds and survives a killed daemon.
//! Behind the journal a single writer thread brings the records, in batches, to a [`Backend`] chosen by URL. A backend
//! that fails or is slow delays nobody and loses nothing: the journal keeps what the backend lacks.
//!
//! - [`store`]: the front, and what a caller may ask.
//! - [`open`]: from a URL and a directory to a store, and every reason why not.
//! - [`journal`]: the hot path, with its queue for the time in which the disk refuses.
//! - `segment`, `tail`: the journal's files, and reading them back.
//! - `writer`: the thread between journal and backend.
//! - [`tokens`]: the agents' tokens, in a file of their own.
//! - [`backend`]: what a backend does; `memory`, `filesystem` and `sqlite` are the backends.

pub mod backend;
#[cfg(test)]
mod contract;
#[doc(hidden)]
pub mod fault;
mod filesystem;
pub mod journal;
mod lock;
mod memory;
pub mod open;
mod problems;
mod segment;
mod sqlite;
pub mod store;
mod tail;
pub mod tokens;
mod writer;

pub use backend::{Backend, BackendError, Entry, Mark, Name, SessionSummary};
pub use journal::AppendError;
pub use open::{Durability, OpenError};
pub use store::{ReadError, Store, SyncError};
pub use tokens::{TokenFile, TokenRecord};
