//! History: what agents did, in a relational database that people can query. A thread follows the journal and writes each
//! record once, together with the place up to which it has read; or it sends them to a broker, from which others write them
//! to the database. The tables are described in `docs/history.md`.
//!
//! - [`outbox`]: the thread; [`sink`] is what it writes to.
//! - `queue_sink`: a broker; `place_file` and `sent` say how far it is.
//! - [`consume`]: from a broker into a database; `broker` is its queue, `message` what is in it, and `received` writes what
//!   came of recordings.
//! - [`write`]: one part of the journal in one transaction; `rows` is what a record becomes in the tables, `names` which
//!   names their sessions have there.
//! - [`schema`]: the tables, their versions and migrations.
//! - [`retention`]: how long history is kept.
//! - `proof`: recordings with their signatures.
//! - [`questions`]: what people ask most.
//! - [`read`]: reads sessions back, what is `proven` and what is `unproven`.
//! - `mask`: masks secrets in records before they leave the node; `scrub` masks one in rows.
//! - [`database`]: a connection; `postgres` and `mysql` are the kinds, `open` picks one by its [`url`].

mod broker;
pub mod consume;
pub mod database;
mod mask;
mod message;
mod mysql;
mod names;
mod open;
pub mod outbox;
mod place_file;
mod postgres;
mod proof;
mod proven;
pub mod questions;
mod queue_sink;
pub mod read;
mod received;
pub mod retention;
mod rows;
pub mod schema;
mod scrub;
mod sent;
pub mod sink;
mod unproven;
pub mod url;
pub mod write;

pub use broker::BrokerError;
pub use database::{Database, DatabaseError, Dialect, Found, Value};
pub use message::MessageError;
pub use open::open;
pub use outbox::{Keeper, Outbox, OutboxOptions};
pub use questions::{Question, QuestionFilter};
pub use read::Reader;
pub use retention::{Removed, Retention};
pub use write::JournalSource;
