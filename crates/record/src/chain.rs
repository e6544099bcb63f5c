//! The hashes that tie a line to the one before it and to each of its fields.
//!
//! A *field* is a value in `data` that has no values inside it, named by its path (`/parameters/command`). The line does
//! not hash the field itself but a *commitment* to it: a hash of path and value under a salt of its own. Who gets the salt
//! can check the value; who does not learns nothing from the commitment, not even by guessing. So a field can be masked
//! later, and its line still proves all the others.
//!
//! ```text
//! key of the data directory → key of the session → salt of the line (by seq) → salt of the field (by path)
//! commitment = H(salt of the field; path, value)
//! hash       = H(hash of the line before, seq, event_type, timestamp, all commitments sorted, source, by)
//! ```
//!
//! Lines of format 3 have neither source nor by. Lines that have them are hashed under a key of their own, so that one
//! kind can never be passed off as the other.
//! Where a line mentions files beside it, their names, lengths and hashes are hashed together with that.
//!
//! Commitments are sorted, not in the order of the fields: a masked name would change that order.

use crate::hash::Hash;
use crate::line::Line;
use serde_json::Value;
use shellkeep_session::{FileSum, SessionId};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Separates the hashes of lines with an author from those of format 3. It is no secret.
const WITH_AUTHOR: &[u8; 32] = b"shellkeep line with its author 4";
/// Keeps the hash of a line with files apart from every other hash.
const FILES: &str = "shellkeep 2026-11 hash of a line and the files beside it";

/// The key of a data directory. Its owner can say what a masked field was not; it stays with the host.
#[derive(Clone)]
pub struct Key(pub [u8; 32]);

impl Key {
    /// The key of one session.
    pub fn of(&self, session_id: &SessionId) -> SessionKey {
        SessionKey(*blake3::keyed_hash(&self.0, session_id.as_str().as_bytes()).as_bytes())
    }
}

/// The key of one session.
#[derive(Clone)]
pub struct SessionKey([u8; 32]);

impl SessionKey {
    /// The salt of a line.
    pub fn salt(&self, seq: u64) -> Hash {
        Hash(*blake3::keyed_hash(&self.0, &seq.to_le_bytes()).as_bytes())
    }

    /// What proves that some bytes beside the lines were written by who has the key. No salt of a line is made like it.
    pub(crate) fn seal(&self, bytes: &[u8]) -> Hash {
        let key = blake3::keyed_hash(&self.0, b"shellkeep mark of a recording");
        Hash(*blake3::keyed_hash(key.as_bytes(), bytes).as_bytes())
    }
}

/// The salt of a field, from that of its line.
pub fn field_salt(line: &Hash, path: &str) -> Hash {
    Hash(*blake3::keyed_hash(&line.0, path.as_bytes()).as_bytes())
}

/// The commitment to a field.
pub fn commit(field_salt: &Hash, path: &str, value: &Value) -> Hash {
    commit_with(&mut Vec::new(), field_salt, path, value)
}

fn commit_with(bytes: &mut Vec<u8>, field_salt: &Hash, path: &str, value: &Value) -> Hash {
    bytes.clear();
    bytes.extend_from_slice(&(path.len() as u64).to_le_bytes());
    bytes.extend_from_slice(path.as_bytes());
    match value {
        Value::String(text) => {
            bytes.push(b's');
            bytes.extend_from_slice(text.as_bytes());
        }
        other => {
            bytes.push(b'j');
            // What has no values inside it is short and has one way to be written. Writing to memory does not fail.
            let _ = serde_json::to_writer(&mut *bytes, other);
        }
    }
    Hash(*blake3::keyed_hash(&field_salt.0, bytes).as_bytes())
}

/// A line that cannot be checked: the copy brings neither the salt of a field nor a commitment in its place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the salt of {path} is missing")]
pub struct Unprovable {
    /// Which field.
    pub path: String,
}

/// The hash that a line must have after the line before it.
pub fn hash(before: &Hash, line: &Line, key: Option<&SessionKey>) -> Result<Hash, Unprovable> {
    ChainHasher::default().hash(before, line, key)
}

/// Makes the hashes of many lines with the same memory.
#[derive(Default)]
pub struct ChainHasher {
    path: String,
    bytes: Vec<u8>,
    commitments: Vec<Hash>,
}

impl ChainHasher {
    /// The hash that a line must have after the line before it.
    pub fn hash(&mut self, before: &Hash, line: &Line, key: Option<&SessionKey>) -> Result<Hash, Unprovable> {
        let Self { path, bytes, commitments } = self;
        let of_line = key.map(|key| key.salt(line.seq)).or(line.proof.salt);
        commitments.clear();
        let mut missing = None;
        walk(path, &line.data, &mut |path, value| {
            if let Some(commitment) = line.proof.masked.get(path) {
                commitments.push(*commitment);
                return;
            }
            let salt = of_line.map(|salt| field_salt(&salt, path)).or_else(|| line.proof.salts.get(path).copied());
            match salt {
                Some(salt) => commitments.push(commit_with(bytes, &salt, path, value)),
                None => missing = missing.take().or_else(|| Some(path.to_owned())),
            }
        });
        if let Some(path) = missing {
            return Err(Unprovable { path });
        }
        commitments.sort_unstable();
        bytes.clear();
        bytes.extend_from_slice(&before.0);
        bytes.extend_from_slice(&line.seq.to_le_bytes());
        for text in [line.event_type.as_str(), &line.timestamp.to_string()] {
            bytes.extend_from_slice(&(text.len() as u64).to_le_bytes());
            bytes.extend_from_slice(text.as_bytes());
        }
        for commitment in &*commitments {
            bytes.extend_from_slice(&commitment.0);
        }
        let hash = if line.author.is_unknown() {
            Hash(*blake3::hash(bytes).as_bytes())
        } else {
            for text in [&line.author.source.to_string(), line.author.by.as_deref().unwrap_or_default()] {
                bytes.extend_from_slice(text.as_bytes());
                bytes.extend_from_slice(&(text.len() as u64).to_le_bytes());
            }
            Hash(*blake3::keyed_hash(WITH_AUTHOR, bytes).as_bytes())
        };
        Ok(if line.proof.files.is_empty() { hash } else { with_files(&hash, &line.proof.files) })
    }
}

/// The hash of a line that records files beside it.
fn with_files(hash: &Hash, files: &BTreeMap<String, FileSum>) -> Hash {
    let mut hasher = blake3::Hasher::new_derive_key(FILES);
    hasher.update(&hash.0);
    for (name, FileSum { bytes, hash }) in files {
        for text in [name, hash] {
            hasher.update(&(text.len() as u64).to_le_bytes());
            hasher.update(text.as_bytes());
        }
        hasher.update(&bytes.to_le_bytes());
    }
    Hash(*hasher.finalize().as_bytes())
}

/// Calls `each` with the path and value of every field in `data`.
pub fn fields(data: &Value, each: &mut impl FnMut(&str, &Value)) {
    walk(&mut String::new(), data, each);
}

fn walk(path: &mut String, value: &Value, each: &mut impl FnMut(&str, &Value)) {
    let length = path.len();
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (name, value) in map {
                push(path, name);
                walk(path, value, each);
                path.truncate(length);
            }
        }
        Value::Array(list) if !list.is_empty() => {
            for (index, value) in list.iter().enumerate() {
                // Writing to memory does not fail.
                let _ = write!(path, "/{index}");
                walk(path, value, each);
                path.truncate(length);
            }
        }
        field => each(path, field),
    }
}

/// A step down, written as in RFC 6901.
pub(crate) fn push(path: &mut String, name: &str) {
    path.push('/');
    if !name.contains(['~', '/']) {
        return path.push_str(name);
    }
    for character in name.chars() {
        match character {
            '~' => path.push_str("~0"),
            '/' => path.push_str("~1"),
            other => path.push(other),
        }
    }
}
