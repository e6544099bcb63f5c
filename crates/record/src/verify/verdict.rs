//! What a recording is checked against, and what was found.

use crate::chain::SessionKey;
use crate::heads::SignedHead;
use crate::line::{Head, Hole};
use crate::sign::PublicKey;
use serde::{Deserialize, Serialize};
use shellkeep_session::SessionId;
use std::path::Path;

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Verdict {
    /// Lines that are right, up to the first that is not.
    pub lines: u64,
    /// Number and hash of the last of them. Who wrote it down elsewhere can tell later that nothing before it changed.
    pub head: Option<Head>,
    /// Fields that are masked, of which only the rest of their line is proven.
    pub masked_fields: u64,
    /// Numbers without a line, as lines report them.
    pub holes: Vec<Hole>,
    /// The signature that covers its end.
    #[serde(default)]
    pub signed: Option<SignedHead>,
    /// Signatures of other daemons, for earlier parts of a copy.
    #[serde(default)]
    pub also_signed: Vec<SignedHead>,
    /// Whether all these signatures were made by keys that the caller named.
    #[serde(default)]
    pub key_is_known: bool,
    /// What signatures tell of: lines that were there before there were signatures, or that a loss of power took. And how many
    /// files stayed on another node.
    #[serde(default)]
    pub remarks: Vec<String>,
    /// Files beside the lines that are as they were recorded.
    #[serde(default)]
    pub files: u64,
    /// Files that were removed to make room, of which the hash is known.
    #[serde(default)]
    pub files_reclaimed: u64,
    /// The first thing that is wrong.
    pub bad: Option<Bad>,
}

/// Something that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bad {
    /// The file, by its name.
    pub file: String,
    /// Which line of it, from 1.
    pub line_number: u64,
    /// The number that the line has, or should have.
    pub seq: Option<u64>,
    /// What is wrong with it.
    pub reason: String,
}

impl Verdict {
    /// Whether nothing is wrong and nothing is missing but what the session itself said is lost.
    pub fn is_intact(&self) -> bool {
        self.bad.is_none() && self.holes.iter().all(|hole| hole.declared)
    }
}

/// What a recording is checked against.
#[derive(Clone, Copy, Default)]
pub struct Checks<'a> {
    /// The session's key, which its own files need. An export brings what it needs.
    pub key: Option<&'a SessionKey>,
    /// The number that the last line must have reached, as the store knows it: without it, files that were cut together
    /// with their signatures look whole.
    pub expected: Option<u64>,
    /// Whether signatures are checked, and for what.
    pub signatures: Option<SignatureChecks<'a>>,
    /// The session's directory with files beside the lines, if they are to be checked.
    pub outputs: Option<&'a Path>,
}

/// What signatures are checked against.
#[derive(Debug, Clone, Copy, Default)]
pub struct SignatureChecks<'a> {
    /// The session that it must belong to; any, if none is given.
    pub session_id: Option<&'a SessionId>,
    /// The keys that may have signed it. If there are none, any may, and the verdict says that it is not known.
    pub keys: &'a [PublicKey],
    /// Lines after this number may be unsigned because they are being written. None if all must be signed.
    pub through: Option<u64>,
}

pub(super) fn name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}
