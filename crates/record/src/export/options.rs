//! Options and errors of an export.

use super::patch::Patches;
use crate::chain::SessionKey;
use crate::mask::Masker;
use crate::read::ReadError;
use crate::sign::PublicKey;
use std::io;
use std::time::Duration;

/// Events on a page; more of them make browsers slow.
pub const MOST_EVENTS: usize = 20_000;
/// Pauses in a cast are cut to this by its player.
const IDLE_LIMIT: Duration = Duration::from_secs(2);

/// Why a recording was not exported.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// It cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// It cannot be written.
    #[error("cannot write the export: {0}")]
    Write(#[from] io::Error),
}

/// How a recording is exported.
#[derive(Clone)]
pub struct Options<'a> {
    pub session_id: &'a str,
    /// The session's key, from which the salts follow. A copy of an export needs none.
    pub key: Option<&'a SessionKey>,
    /// The keys that may have signed it, for what a page says about itself; any, if there are none.
    pub public_keys: &'a [PublicKey],
    /// What masks secrets; nothing is masked without it.
    pub masker: Option<&'a Masker>,
    /// Where the contents of changed files are; a page shows no differences without it.
    pub patches: Option<&'a dyn Patches>,
    /// Width of the cast's terminal.
    pub columns: u16,
    /// Height of the cast's terminal.
    pub rows: u16,
    /// Longest pause when the cast is played.
    pub idle_limit: Duration,
    /// Most events on a page.
    pub most_events: usize,
}

impl<'a> Options<'a> {
    /// The defaults.
    pub fn new(session_id: &'a str) -> Self {
        Self {
            session_id,
            key: None,
            public_keys: &[],
            masker: None,
            patches: None,
            columns: 100,
            rows: 30,
            idle_limit: IDLE_LIMIT,
            most_events: MOST_EVENTS,
        }
    }
}
