//! The agents' tokens, in one small file next to the store: even if sessions are stored elsewhere, the tokens of this
//! daemon are here. An entry has a token's hash and never the token.

use crate::error::OpenError;
use crate::sealed::{self, Survives};
use serde::{Deserialize, Serialize};
use shellkeep_session::Timestamp;
use std::io;
use std::path::{Path, PathBuf};

/// Version of the file. A newer one is rejected.
pub const FORMAT: u32 = 1;
/// Largest file that is read: more than the runtime ever keeps, so a larger one is not ours.
const MAX_BYTES: u64 = 16 << 20;

/// One token, without its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenRecord {
    /// Its public name, as in the audit trail.
    pub id: String,
    /// Whom it is for.
    #[serde(flatten)]
    pub bearer: TokenBearer,
    /// Its label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// When it was created.
    pub created_at: Timestamp,
    /// The secret's BLAKE3 hash, in hexadecimal digits.
    pub hash: String,
    /// When it was revoked, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<Timestamp>,
    /// When it stops being valid, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
}

/// Whom a token is for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum TokenBearer {
    /// An agent, which uses its own sessions.
    Agent {
        agent: String,
        /// Whether it may restart its sessions.
        #[serde(default)]
        may_restart: bool,
    },
    /// A read-only role.
    Reader { role: ReaderRole },
    /// A person at the console.
    Console { console: ConsoleRight },
}

/// What a person at the console may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConsoleRight {
    /// Read everything, and change nothing.
    Watch,
    /// Read everything, and use all sessions.
    Act,
}

/// A read-only role.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReaderRole {
    /// Everything of all sessions.
    Auditor,
    /// The daemon's health and figures.
    Metrics,
}

impl TokenBearer {
    /// As text, for the audit trail.
    pub fn describe(&self) -> &str {
        match self {
            Self::Agent { agent, .. } => agent,
            Self::Reader { role: ReaderRole::Auditor } => "an auditor",
            Self::Reader { role: ReaderRole::Metrics } => "metrics",
            Self::Console { .. } => "the console",
        }
    }
}

#[derive(Serialize, Deserialize)]
struct Contents {
    format: u32,
    tokens: Vec<TokenRecord>,
}

/// Where the records are. The daemon that holds the data directory is the only writer.
#[derive(Debug, Clone)]
pub struct TokenFile {
    path: PathBuf,
}

impl TokenFile {
    /// The file of a data directory.
    pub fn of(data_dir: &Path) -> Self {
        Self { path: data_dir.join("tokens.json") }
    }

    /// All records; none if there is no file. A file that cannot be read is an error and not an empty list: a daemon
    /// that forgot revocations would be worse than one that does not start.
    pub fn load(&self) -> Result<Vec<TokenRecord>, OpenError> {
        let contents: Option<Contents> = sealed::read_format(&self.path, FORMAT, MAX_BYTES)?;
        Ok(contents.map(|contents| contents.tokens).unwrap_or_default())
    }

    /// Replaces the file as a whole and waits for the disk: a power failure must not undo a revocation.
    pub fn save(&self, records: &[TokenRecord]) -> io::Result<()> {
        let contents = Contents { format: FORMAT, tokens: records.to_vec() };
        sealed::write(&self.path, &contents, Survives::Power)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    fn record(id: &str) -> TokenRecord {
        TokenRecord {
            id: id.to_owned(),
            bearer: TokenBearer::Agent { agent: "ann".to_owned(), may_restart: false },
            name: None,
            created_at: Timestamp::UNIX_EPOCH,
            hash: "00".repeat(32),
            revoked_at: None,
            expires_at: None,
        }
    }

    #[test]
    fn records_come_back_and_the_file_is_private() {
        let data = tempfile::tempdir().unwrap();
        let file = TokenFile::of(data.path());
        assert_eq!(file.load().unwrap(), []);
        let records = [record("tok_1"), TokenRecord { revoked_at: Some(Timestamp::UNIX_EPOCH), ..record("tok_2") }];
        file.save(&records[..1]).unwrap();
        file.save(&records).unwrap();
        assert_eq!(file.load().unwrap(), records);
        assert_eq!(fs::metadata(&file.path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(data.path()).unwrap().count(), 1);
        let text = fs::read_to_string(&file.path).unwrap();
        fs::write(&file.path, text.replace("\"ann\"", "\"bob\"")).unwrap();
        assert!(matches!(file.load(), Err(OpenError::Corrupt { .. })));
    }

    #[test]
    fn the_form_of_version_1() {
        let text = "{\"format\":1,\"tokens\":[{\"id\":\"tok_1\",\"agent\":\"ann\",\"may_restart\":false,\
                    \"created_at\":\"1970-01-01T00:00:00Z\",\"hash\":\"HASH\"}]}";
        let text = text.replace("HASH", &"00".repeat(32));
        let contents: Contents = serde_json::from_str(&text).unwrap();
        assert_eq!(contents.tokens, [record("tok_1")]);
        assert_eq!(serde_json::to_string(&contents).unwrap(), text);
    }

    #[test]
    fn what_cannot_be_understood_is_not_taken_for_empty() {
        let data = tempfile::tempdir().unwrap();
        let file = TokenFile::of(data.path());
        for bad in ["", "{", "[]", "{\"format\":1}", "{\"format\":1,\"tokens\":[{}]}"] {
            fs::write(&file.path, bad).unwrap();
            assert!(matches!(file.load(), Err(OpenError::Corrupt { .. })), "{bad:?}");
        }
        fs::write(&file.path, "{\"format\":2,\"keys\":[]}").unwrap();
        assert!(matches!(file.load(), Err(OpenError::NewerFormat { found: 2, .. })));
    }
}
