//! Finds and masks secrets. Bytes go in and bytes come out, with `***` in the place of each secret; what
//! tells of which kind it was stays (`Authorization: Bearer ***`, `postgres://user:***@host/db`).
//!
//! - [`Redactor`]: the rules in force and the values given at run time; masks a whole text, or lists what it finds.
//! - [`Stream`]: the same for a text that comes in pieces, with the same result however it is cut.
//! - [`Config`]: which rules, national ids and patterns of one's own.
//! - [`looks_secret`]: whether a name says that its value is a secret.
//!
//! Three laws hold for every input: masking twice is masking once, masking in pieces is masking the whole, and the time is
//! linear in the length. `docs/design/redaction.md` says why they hold. There is no I/O and no clock here.

mod checksum;
mod class;
mod config;
mod core;
mod extra;
mod found;
mod hints;
mod names;
mod redactor;
mod rules;
mod scanner;
mod secrets;
mod stream;
mod unveil;
mod variants;
mod view;

pub use config::{Config, ConfigError, Pattern};
pub use names::looks_secret;
pub use redactor::{Finding, Redactor};
pub use rules::{Rules, UnknownRule};
pub use secrets::{ALL_FORMS, MOST_FOUND, Unmaskable, forms_of, is_maskable, why_not_maskable};
pub use stream::{Stream, Work};

/// What is in the place of a secret.
pub const MASK: &[u8] = b"***";
