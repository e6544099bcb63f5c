//! What is in a backup: one JSON line for each file, directory and link, between a header line and a last line that
//! proves that none is missing. A backup without a complete manifest is not restored.

use crate::failure::Failure;
use serde::{Deserialize, Serialize};
use shellkeep_session::{ByteString, Timestamp};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, BufWriter, Write as _};
use std::ops::{Deref, DerefMut};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// The file in a backup.
const NAME: &str = "manifest.jsonl";
/// The files that a backup has for it, at one time or another.
pub const FILES: [&str; 2] = [NAME, "manifest.jsonl.tmp"];
/// Where the files are, beside it.
pub const DATA: &str = "data";
/// Version of the backup. A newer one is rejected.
const FORMAT: u32 = 1;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Head {
    format: u32,
    /// The program's.
    version: String,
    /// When it was made.
    pub created_at: Timestamp,
    /// The data directory that was backed up.
    pub data: ByteString,
    /// Files of sessions that are missing. Backups of earlier versions do not say it.
    #[serde(default, skip_serializing_if = "LeftOut::is_empty")]
    pub left_out: LeftOut,
}

/// Files of sessions that could not be copied.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct LeftOut {
    /// The first ones.
    pub named: Vec<NotCopied>,
    /// How many there are in all.
    pub count: u64,
}

/// A file that could not be copied; of a directory, nothing that is in it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct NotCopied {
    pub path: ByteString,
    pub reason: String,
}

impl LeftOut {
    /// As many are named; a session may have any number that cannot be read.
    const MOST_NAMED: usize = 100;

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub fn add(&mut self, path: ByteString, reason: String) {
        self.count += 1;
        if self.named.len() < Self::MOST_NAMED {
            self.named.push(NotCopied { path, reason });
        }
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct Tail {
    entries: usize,
    /// BLAKE3 of all lines before.
    hash: String,
}

/// One entry in a data directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Its permissions.
    pub mode: u32,
    /// When it was last modified, in nanoseconds since 1970; good until the year 2262.
    pub modified: i64,
    #[serde(flatten)]
    pub kind: Kind,
}

/// What a thing is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Kind {
    Directory,
    File {
        bytes: u64,
        /// BLAKE3 of its bytes.
        hash: String,
    },
    Link {
        target: ByteString,
    },
}

#[derive(Serialize, Deserialize)]
struct Line {
    path: ByteString,
    #[serde(flatten)]
    entry: Entry,
}

/// Everything, by its path below the data directory.
#[derive(Debug, Default)]
pub struct Entries {
    all: BTreeMap<ByteString, Entry>,
    pub left_out: LeftOut,
}

impl Deref for Entries {
    type Target = BTreeMap<ByteString, Entry>;

    fn deref(&self) -> &Self::Target {
        &self.all
    }
}

impl DerefMut for Entries {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.all
    }
}

/// Writes it, which completes the backup.
pub fn write(backup: &Path, data: ByteString, entries: &Entries) -> io::Result<()> {
    let unfinished = backup.join(FILES[1]);
    let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&unfinished)?;
    let (mut out, mut hasher) = (BufWriter::new(file), blake3::Hasher::new());
    let mut put = |line: Vec<u8>| {
        hasher.update(&line);
        hasher.update(b"\n");
        out.write_all(&line).and_then(|()| out.write_all(b"\n"))
    };
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let left_out = entries.left_out.clone();
    put(serde_json::to_vec(&Head { format: FORMAT, version, created_at: Timestamp::now(), data, left_out })?)?;
    for (path, entry) in entries.iter() {
        put(serde_json::to_vec(&Line { path: path.clone(), entry: entry.clone() })?)?;
    }
    let tail = Tail { entries: entries.len(), hash: hasher.finalize().to_hex().to_string() };
    serde_json::to_writer(&mut out, &tail)?;
    out.write_all(b"\n")?;
    out.into_inner().map_err(io::Error::other)?.sync_all()?;
    fs::rename(&unfinished, backup.join(NAME))
}

/// Reads it, and rejects an incomplete one.
pub fn read(backup: &Path) -> Result<(Head, Entries), Failure> {
    let path = backup.join(NAME);
    let wrong = |reason: &str| Failure::start(format!("{} is not a complete backup: {reason}", backup.display()));
    let file = match File::open(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(wrong(&format!("it has no {NAME}, which `shellkeep backup` writes last")));
        }
        other => other.map_err(|error| wrong(&error.to_string()))?,
    };
    let mut lines: Vec<String> = Vec::new();
    for line in BufReader::new(file).lines() {
        lines.push(line.map_err(|error| wrong(&error.to_string()))?);
    }
    let damaged = || wrong(&format!("{NAME} is damaged"));
    let tail: Tail = serde_json::from_str(&lines.pop().ok_or_else(damaged)?).map_err(|_| damaged())?;
    let mut hasher = blake3::Hasher::new();
    for line in &lines {
        hasher.update(line.as_bytes()).update(b"\n");
    }
    if hasher.finalize().to_hex().as_str() != tail.hash || tail.entries + 1 != lines.len() {
        return Err(damaged());
    }
    let head: Head = serde_json::from_str(&lines[0]).map_err(|_| damaged())?;
    if head.format > FORMAT {
        return Err(wrong(&format!("it has format {}, this program knows up to {FORMAT}", head.format)));
    }
    let parse = |line: &String| serde_json::from_str::<Line>(line).map(|line| (line.path, line.entry));
    let all: Result<BTreeMap<ByteString, Entry>, _> = lines[1..].iter().map(parse).collect();
    let entries = Entries { all: all.map_err(|_| damaged())?, left_out: head.left_out.clone() };
    Ok((head, entries))
}
