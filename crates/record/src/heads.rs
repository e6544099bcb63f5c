//! Signed heads: how far a recording had come, signed by the key of the daemon that wrote it, in `heads.jsonl` beside the
//! lines. A head names a line by its number and its hash, and the hash follows from everything before it, so one signature
//! covers the whole recording up to there.
//!
//! Each head names the one before it, so none can be taken out of the middle. The last one is written over while it is
//! near the one before: a session that runs one command at a time would have a signature to a line otherwise.

use crate::hash::Hash;
use crate::private::FILE_MODE;
use crate::sign::{PublicKey, Signature, Signer};
use crate::tail;
use serde::{Deserialize, Serialize};
use shellkeep_session::{SessionId, Timestamp};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// The file's name.
pub const NAME: &str = "heads.jsonl";

/// Heads that stay are this many lines apart: the file is then about a hundredth of what it covers.
const APART: u64 = 64;

/// What begins the message that is signed, so that the signature means nothing elsewhere.
const DOMAIN: &[u8] = b"shellkeep signed head v1\0";

/// A head and its signature.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignedHead {
    /// Whose recording.
    pub session_id: String,
    /// The number that the next line follows.
    pub seq: u64,
    /// Hash of the last line.
    pub hash: Hash,
    /// When it was signed.
    pub at: Timestamp,
    /// Hash of the signature of the head before it.
    pub before: Hash,
    /// What must be said of it, if anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<Note>,
    /// Whose signature it is.
    pub key: PublicKey,
    pub signature: Signature,
}

/// What must be said of a head.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Note {
    /// The recording was made by a version that did not sign. What is before this head was taken as it was.
    Unsigned,
    /// Lines from this number on were there without a signature, and the journal did not bring their records again.
    Found {
        /// The first of them.
        from: u64,
    },
    /// Lines from this number on were removed because the journal had lost their records, and others took their place.
    /// Earlier heads from there on are void.
    Cut {
        /// The first of them.
        from: u64,
    },
}

impl SignedHead {
    fn message(&self) -> Vec<u8> {
        let mut message = DOMAIN.to_vec();
        // Writing a note to memory does not fail.
        let note = self.note.as_ref().map(|note| serde_json::to_string(note).unwrap_or_default()).unwrap_or_default();
        for text in [self.session_id.as_str(), &self.at.to_string(), &note] {
            message.extend_from_slice(&(text.len() as u64).to_le_bytes());
            message.extend_from_slice(text.as_bytes());
        }
        message.extend_from_slice(&self.seq.to_le_bytes());
        message.extend_from_slice(&self.hash.0);
        message.extend_from_slice(&self.before.0);
        message
    }

    /// Whether the key that it names signed it.
    pub fn is_signed(&self) -> bool {
        self.key.verifies(&self.message(), &self.signature)
    }

    /// What the next head has as `before`.
    pub fn digest(&self) -> Hash {
        Hash(*blake3::hash(&self.signature.0).as_bytes())
    }
}

/// What a head is made of.
pub(crate) struct NewHead {
    pub seq: u64,
    pub hash: Hash,
    pub note: Option<Note>,
}

/// The heads of one recording, open at their end.
pub(crate) struct Heads {
    path: PathBuf,
    session_id: String,
    last: Option<SignedHead>,
    /// Where the last one begins.
    start: u64,
    /// Where it ends.
    end: u64,
    /// Number of the one before it.
    stays: u64,
}

impl Heads {
    /// Opens the heads at their end. An incomplete one after the last was interrupted by a crash.
    pub(crate) fn open(directory: &Path, session_id: &SessionId) -> io::Result<Self> {
        let (path, session_id) = (directory.join(NAME), session_id.to_string());
        let mut heads = Self { path, session_id, last: None, start: 0, end: 0, stays: 0 };
        let file = match File::open(&heads.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(heads),
            Err(error) => return Err(error),
        };
        let mut length = file.metadata()?.len();
        while let Some(line) = tail::last_line(&file, length)? {
            length = line.start;
            if let Ok(head) = serde_json::from_slice::<SignedHead>(&line.bytes) {
                (heads.last, heads.start, heads.end) = (Some(head), line.start, line.end);
                break;
            }
        }
        if let Some(line) = tail::last_line(&file, heads.start)?
            && let Ok(head) = serde_json::from_slice::<SignedHead>(&line.bytes)
        {
            heads.stays = head.seq;
        }
        Ok(heads)
    }

    /// The last one.
    pub(crate) fn last(&self) -> Option<&SignedHead> {
        self.last.as_ref()
    }

    /// Signs a head and writes it, over the last one if that is near the one before.
    pub(crate) fn add(&mut self, new: NewHead, signer: &Signer, at: Timestamp) -> io::Result<SignedHead> {
        let NewHead { seq, hash, note } = new;
        let is_near = |last: &SignedHead| {
            last.note.is_none() && note.is_none() && last.seq < seq && seq - self.stays.min(seq) < APART
        };
        let (start, before, stays) = match &self.last {
            None => (0, Hash::NONE, 0),
            Some(last) if is_near(last) => (self.start, last.before, self.stays),
            Some(last) => (self.end, last.digest(), last.seq),
        };
        let (session_id, key) = (self.session_id.clone(), signer.public_key());
        let signature = Signature([0; 64]);
        let mut head = SignedHead { session_id, seq, hash, at, before, note, key, signature };
        head.signature = signer.sign(&head.message());
        let mut line = serde_json::to_vec(&head)?;
        line.push(b'\n');
        let file = OpenOptions::new().write(true).create(true).truncate(false).mode(FILE_MODE).open(&self.path)?;
        file.write_all_at(&line, start)?;
        let end = start + line.len() as u64;
        file.set_len(end)?;
        (self.last, self.start, self.end, self.stays) = (Some(head.clone()), start, end, stays);
        Ok(head)
    }
}

/// The last head of a recording, as far as it can be read.
pub fn last(directory: &Path, session_id: &SessionId) -> io::Result<Option<SignedHead>> {
    Ok(Heads::open(directory, session_id)?.last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(seq: u64) -> NewHead {
        NewHead { seq, hash: Hash([u8::try_from(seq % 251).unwrap(); 32]), note: None }
    }

    #[test]
    fn heads_are_few_and_each_names_the_one_before() {
        let directory = tempfile::TempDir::new().unwrap();
        let id = SessionId::parse("a").unwrap();
        let signer = Signer::from_seed(&[1; 32]);
        for seq in 1..=300 {
            // Opened anew each time: what is kept in memory must not matter.
            let mut heads = Heads::open(directory.path(), &id).unwrap();
            let signed = heads.add(head(seq), &signer, Timestamp::UNIX_EPOCH).unwrap();
            assert!(signed.is_signed());
            assert_eq!(last(directory.path(), &id).unwrap(), Some(signed));
        }
        let text = std::fs::read_to_string(directory.path().join(NAME)).unwrap();
        let all: Vec<SignedHead> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert!((5..=8).contains(&all.len()), "{}", all.len());
        assert_eq!(all[0].before, Hash::NONE);
        assert!(all.windows(2).all(|pair| pair[1].before == pair[0].digest() && pair[0].seq < pair[1].seq));
        assert!(all.iter().all(SignedHead::is_signed));
    }

    #[test]
    fn what_was_half_written_is_written_again() {
        let directory = tempfile::TempDir::new().unwrap();
        let id = SessionId::parse("a").unwrap();
        let signer = Signer::from_seed(&[1; 32]);
        let mut heads = Heads::open(directory.path(), &id).unwrap();
        for seq in [1, 100, 200] {
            heads.add(head(seq), &signer, Timestamp::UNIX_EPOCH).unwrap();
        }
        let path = directory.path().join(NAME);
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, &text[..text.len() - 40]).unwrap();
        let mut heads = Heads::open(directory.path(), &id).unwrap();
        assert_eq!(heads.last().unwrap().seq, 100);
        heads.add(head(200), &signer, Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    }
}
