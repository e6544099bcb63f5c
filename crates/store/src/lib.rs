//! Where a session's facts are stored. The runtime sees only [`Store`]: it appends records and reads sessions.
//!
//! An append is one `write(2)` to a journal, so an answered command costs microseconds and survives a killed daemon.
//! Behind the journal a single writer thread passes the records, in batches, to a [`Backend`] chosen by URL. A backend
//! that fails or is slow delays no caller and loses nothing: the journal keeps what the backend lacks. The same thread
//! writes each session's recording, a line for each record, when it has nothing else to do.
//!
//! - [`store`]: the front end.
//! - [`open`]: opens a store from a URL and a directory.
//! - `error`: why the store cannot be opened or read.
//! - [`journal`]: the hot path, with its queue for when the disk rejects writes.
//! - `segment`, `line`, `tail`: the journal's files, their lines, and reading them back.
//! - `check`: checks the journal at the start.
//! - `marker`: the note that a store exists here.
//! - [`sum`]: checksums of everything that is stored.
//! - `reader`: readers of the journal, each with a mark; `recording_reader` writes the recordings.
//! - `scheduler`: the thread that gives the readers their turns.
//! - [`recordings`]: the sessions' recordings, and what happens when one cannot be written.
//! - [`feed`]: the journal for a reader outside the store; `feed_port` is what both sides share.
//! - `all_runs`: the runs of all sessions, newest first.
//! - `request_index`: what a caller's keys started; `requests` are those that the backend may lack.
//! - [`depth`]: JSON that is nested too deeply.
//! - [`find`]: finds sessions by words, in an order; `walk` is what it looks at.
//! - `follow`: followers of a session's new records.
//! - [`mask`]: a session's state without a secret.
//! - [`tokens`]: the agents' tokens, in a separate file.
//! - [`users`]: which user of the machine is whose.
//! - [`pending`], [`ended`], [`deleted`], [`quotas`]: other facts, in separate files.
//! - `sealed`: how such files are written and read.
//! - [`keyed`]: a session's keyed store, in a separate database.
//! - [`anchor`]: signed heads of recordings, stored elsewhere.
//! - [`audit`]: who changed permissions or deleted something, and rejected requests.
//! - [`backend`]: the backend trait; `memory`, `filesystem` and `sqlite` are the backends.

mod all_runs;
pub mod anchor;
pub mod audit;
pub mod backend;
mod check;
#[cfg(test)]
mod contract;
pub mod deleted;
pub mod depth;
pub mod ended;
mod error;
#[doc(hidden)]
pub mod fault;
pub mod feed;
pub mod feed_port;
mod filesystem;
pub mod find;
mod follow;
pub mod identity;
pub mod journal;
mod key;
pub mod keyed;
mod last_seq;
mod line;
mod lock;
mod marker;
pub mod mask;
mod memory;
pub mod open;
pub mod pending;
mod problems;
pub mod quotas;
mod reader;
mod recording_reader;
pub mod recordings;
mod request_index;
mod requests;
mod scheduler;
mod sealed;
mod segment;
mod sqlite;
pub mod store;
pub mod sum;
mod tail;
pub mod tokens;
pub mod users;
mod walk;

pub use all_runs::AllRuns;
pub use anchor::{AnchorOptions, AnchorPlace};
pub use audit::{AuditEntry, AuditTrail};
pub use backend::{Backend, BackendError, Entry, Found, Mark, Name, SessionSummary};
pub use deleted::DeletedSession;
pub use ended::EndedSessions;
pub use error::{Durability, OpenError, ReadError, SyncError};
pub use feed::{Feed, FeedBatch, FeedControl, FeedEntry};
pub use feed_port::{FEED_BEHIND_BYTES, FeedOptions, FeedScrub, Gate, Woken};
pub use find::{Find, SessionFilter, last_runs};
pub use follow::Followers;
pub use identity::{Arrival, CopyOf, Home};
pub use journal::AppendError;
pub use key::PUBLIC_KEY;
pub use keyed::{Keyed, KeyedEntry, KeyedError, KeyedUse};
pub use last_seq::last_seq;
pub use mask::{masked_record, masked_state};
pub use pending::{Deletion, FileChange, Pending};
pub use quotas::QuotaFile;
pub use recordings::RecordOptions;
pub use request_index::RequestIndex;
pub use sealed::Survives;
pub use store::{Store, StoreHold, StoreScrubbed};
pub use tokens::{ConsoleRight, ReaderRole, TokenBearer, TokenFile, TokenRecord};
pub use users::{UserFile, UserHolder, UserRecord};
pub use walk::{Candidate, SessionOrder, Walk};
