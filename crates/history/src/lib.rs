//! History: what agents did, in a relational database that people can query. A thread follows the journal and writes each
//! record once, together with the place up to which it has read. The tables are described in `docs/history.md`.
//!
//! - [`outbox`]: the thread.
//! - [`write`]: one part of the journal in one transaction; `rows` is what a record becomes in the tables.
//! - [`schema`]: the tables, their versions and migrations.
//! - `scrub`: masks a secret in rows.
//! - [`database`]: a connection; `postgres` and `mysql` are the kinds, `open` picks one by its [`url`].

pub mod database;
mod mysql;
mod open;
pub mod outbox;
mod postgres;
mod rows;
pub mod schema;
mod scrub;
pub mod url;
pub mod write;

pub use database::{Database, DatabaseError, Dialect, Found, Value};
pub use open::open;
pub use outbox::Outbox;
pub use write::JournalSource;
