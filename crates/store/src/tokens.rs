//! The agents' tokens, in one small file beside the store: whoever keeps sessions elsewhere keeps the keys to this
//! daemon here. A record has a token's hash and never the token.

use crate::open::OpenError;
use crate::sum::{self, Unsealed};
use rustix::fs::{Mode, OFlags};
use serde::{Deserialize, Serialize};
use shellkeep_session::Timestamp;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// Version of the file. A newer one is refused.
pub const FORMAT: u32 = 1;
/// Largest file that is read: more than the runtime ever keeps, so a larger one is not ours.
const MAX_BYTES: u64 = 16 << 20;

/// One token, without its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenRecord {
    /// Its public name, as in the audit trail.
    pub id: String,
    /// Whose it is.
    pub agent: String,
    /// What the host calls it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Whether it may restart its sessions.
    #[serde(default)]
    pub may_restart: bool,
    /// When it was made.
    pub created_at: Timestamp,
    /// The secret's BLAKE3 hash, in hexadecimal digits.
    pub hash: String,
    /// When it was revoked, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<Timestamp>,
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
    /// that forgot its revocations would be worse than one that does not start.
    pub fn load(&self) -> Result<Vec<TokenRecord>, OpenError> {
        let corrupt = |reason: String| OpenError::Corrupt { path: self.path.clone(), reason };
        let file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(OpenError::not_writable(&self.path, &error)),
        };
        let mut bytes = Vec::new();
        let read = file.take(MAX_BYTES + 1).read_to_end(&mut bytes);
        read.map_err(|error| OpenError::not_writable(&self.path, &error))?;
        if bytes.len() as u64 > MAX_BYTES {
            return Err(corrupt(format!("it is larger than {MAX_BYTES} bytes")));
        }
        let bytes = match sum::unseal(bytes) {
            Unsealed::Checked(bytes) | Unsealed::Without(bytes) => bytes,
            Unsealed::Broken => return Err(corrupt(sum::MISMATCH.to_owned())),
        };
        // The version first: a newer file may have anything else in it.
        let whole: serde_json::Value = serde_json::from_slice(&bytes).map_err(|error| corrupt(error.to_string()))?;
        let found = whole.get("format").and_then(serde_json::Value::as_u64).unwrap_or(0);
        if found > u64::from(FORMAT) {
            let found = u32::try_from(found).unwrap_or(u32::MAX);
            return Err(OpenError::NewerFormat { place: self.path.clone(), found, ours: FORMAT });
        }
        let contents: Contents = serde_json::from_value(whole).map_err(|error| corrupt(error.to_string()))?;
        Ok(contents.tokens)
    }

    /// Replaces the file as a whole and waits for the disk: a revocation must not come back with the power.
    pub fn save(&self, records: &[TokenRecord]) -> io::Result<()> {
        let contents = Contents { format: FORMAT, tokens: records.to_vec() };
        let bytes = sum::seal(serde_json::to_vec_pretty(&contents)?);
        let fresh = self.path.with_extension("json.new");
        // One that a crash left may have any mode; ours is made anew.
        let _ = fs::remove_file(&fresh);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&fresh)?;
        file.write_all(&bytes)?;
        file.sync_all()?;
        fs::rename(&fresh, &self.path)?;
        let directory = self.path.parent().unwrap_or(Path::new("."));
        let directory =
            rustix::fs::open(directory, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        rustix::fs::fsync(directory)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn record(id: &str) -> TokenRecord {
        TokenRecord {
            id: id.to_owned(),
            agent: "ann".to_owned(),
            name: None,
            may_restart: false,
            created_at: Timestamp::UNIX_EPOCH,
            hash: "00".repeat(32),
            revoked_at: None,
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
