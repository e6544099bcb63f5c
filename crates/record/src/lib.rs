//! A session's recording: what happened, one numbered line at a time, in files that a person can read with any tool.
//!
//! - [`line`]: one line, and what of it proves that it is whole.
//! - [`chain`]: the hashes that tie a line to the one before it and to each of its fields.
//! - [`from_record`]: from a session's record to the type and the fields of its line.
//! - [`beside`]: files that are too large for a line, and their hashes.
//! - [`sign`], [`heads`], [`unsigned`]: how far a recording had come, signed.
//! - [`append`]: writing the lines of many sessions.
//! - [`read`]: reading them back, a page or a line at a time, from a session's files or from an export.
//! - [`budget`], [`pattern`]: how long a reader may continue, and what a caller may search for.
//! - [`verify`]: whether all of it is as it was written.
//! - [`mask`]: copies of lines in which secrets are masked and which still prove the rest.
//! - [`scrub`]: masking a secret in the files themselves.
//! - [`past`]: what a session was at an earlier record.
//! - [`steps`]: what an undo or a redo takes back.
//! - `kv`: what it says about the session's keyed store.
//! - [`runs`]: which lines are about a command.
//! - [`player`]: going through it as a person does.
//! - [`export`]: copies for others: lines, a cast, a page.
//!
//! `docs/design/recording.md` says why it is as it is.

pub mod append;
pub mod beside;
pub mod budget;
pub mod chain;
mod checkpoints;
pub mod export;
pub mod from_record;
mod hash;
pub mod heads;
mod kinds;
mod kv;
pub mod line;
pub mod line_types;
pub mod marks;
pub mod mask;
pub mod moment;
pub mod past;
pub mod pattern;
pub mod player;
mod private;
pub mod read;
pub mod runs;
pub mod scrub;
pub mod sign;
pub mod steps;
mod tail;
pub mod unsigned;
pub mod verify;

pub use append::snapshot::NAME as CONFIG_SNAPSHOT;
pub use append::{RECORDING as DELETED_RECORDING, Recorder, RecorderOptions, SignedNow, Stall};
pub use budget::{Budget, Spent};
pub use chain::{Key, SessionKey};
pub use checkpoints::Checkpoints;
pub use hash::Hash;
pub use heads::SignedHead;
pub use kv::kv_told;
pub use line::{After, Head, Hole, Line, Peek, Proof};
pub use mask::{ExportLine, Masker};
pub use pattern::{Pattern, PatternError};
pub use read::{Filter, Page, ReadError, Recording, Search};
pub use scrub::Scrubbed;
pub use sign::{PublicKey, Signature, Signer};
pub use verify::{Bad, Checks, SignatureChecks, Verdict, check, verify};
