//! A keyed store as a log of its changes, in a directory that other nodes can read. A file begins with everything that the store
//! had, and each change is appended before it is recorded. So the next owner of the session makes the store again from one file.
//!
//! A file is `CLAIM-N.log`. Each claim to the session has files of its own: a node that lost the session without knowing it
//! changes nothing that its next owner wrote, and removes nothing of a later claim. A part is the length of its head and the
//! head's CRC-32, both four bytes, little-endian; the head as JSON; and the bytes of the values that the head lists by their hashes.

use super::entry::hash;
use serde::{Deserialize, Serialize};
use shellkeep_session::{Claim, KvChange, KvRestored};
use std::fs::{self, File};
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Values with their hashes.
type Values = Vec<(String, Vec<u8>)>;

/// What the name of a file ends with, and that of one that is not complete.
pub(super) const ENDING: &str = ".log";
pub(super) const DRAFT: &str = ".new";
/// A file is written anew when it has this many bytes and several times those of the values that are kept.
pub(super) const LARGE: u64 = 64 << 20;
pub(super) const TIMES: u64 = 4;
/// Most bytes of a head: a thousand changes of keys of 512 bytes, with room.
const LONGEST_HEAD: u32 = 64 << 20;

/// Brings logs to where other nodes read them, if that is not the directory that they are written to.
pub trait LogKeeper: std::fmt::Debug + Send + Sync {
    /// The names of the logs that are there.
    fn names(&self) -> io::Result<Vec<String>>;
    /// Brings what was appended to a log, or all of it. Returns when it is there.
    fn keep(&self, name: &str, file: &Path) -> io::Result<()>;
    /// Removes a log.
    fn remove(&self, name: &str) -> io::Result<()>;
}

/// Where a session's log is, and who writes it.
#[derive(Debug, Clone)]
pub struct LogPlace {
    /// The directory. Other nodes read it, too.
    pub directory: PathBuf,
    /// The node's claim to the session.
    pub claim: Claim,
    /// Number of the record that tells of the change, or of the last one.
    pub seq: u64,
    /// What the log has before this change if it is complete.
    pub after: u64,
    /// Who brings it to the other nodes, if they do not read the directory.
    pub keeper: Option<Arc<dyn LogKeeper>>,
}

impl LogPlace {
    /// All logs, in no order.
    pub(super) fn files(&self) -> io::Result<Vec<LogFile>> {
        let mut files = all_files(&self.directory)?;
        let Some(keeper) = &self.keeper else { return Ok(files) };
        let is_new = |path: &PathBuf| !files.iter().any(|file| file.path == *path);
        let there: Vec<PathBuf> = keeper.names()?.iter().map(|name| self.directory.join(name)).filter(is_new).collect();
        files.extend(there.into_iter().filter_map(LogFile::of));
        Ok(files)
    }

    /// A log was written to: brings it to the other nodes.
    pub(super) fn keep(&self, path: &Path) -> io::Result<()> {
        self.keeper.as_ref().map_or(Ok(()), |keeper| keeper.keep(&name_of(path), path))
    }

    /// Removes a log.
    pub(super) fn remove(&self, path: &Path) -> io::Result<()> {
        self.keeper.as_ref().map_or(Ok(()), |keeper| keeper.remove(&name_of(path)))?;
        match fs::remove_file(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && self.keeper.is_some() => Ok(()),
            removed => removed,
        }
    }
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// One change, or what was there at the beginning of a file.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct LogPart {
    /// Number of the record that tells of it.
    pub seq: u64,
    /// The store's version with it.
    pub version: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<KvChange>,
    /// A rewind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restored: Option<KvRestored>,
    /// The version of the last rewind that the changes contain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) restored_to: Option<u64>,
    /// Hash and length of the values that follow.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) values: Vec<(String, u64)>,
}

/// A log that is being written.
#[derive(Debug)]
pub(super) struct Log {
    pub(super) file: File,
    pub(super) path: PathBuf,
    pub(super) claim: Claim,
    /// The version that it leads to.
    pub(super) version: u64,
    pub(super) bytes: u64,
}

/// What a store was made from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Replayed {
    /// Whether it has everything that was recorded.
    pub is_complete: bool,
}

impl LogPart {
    /// Changes that are to be recorded.
    pub fn changed(seq: u64, version: u64, changes: Vec<KvChange>) -> Self {
        Self { seq, version, changes, ..Self::default() }
    }

    /// A rewind that was recorded.
    pub fn restored(seq: u64, restored: KvRestored) -> Self {
        Self { seq, version: restored.version, restored: Some(restored), ..Self::default() }
    }

    pub(super) fn write(mut self, values: &[(String, Vec<u8>)], to: &mut impl Write) -> io::Result<u64> {
        self.values = values.iter().map(|(sha256, bytes)| (sha256.clone(), bytes.len() as u64)).collect();
        let head = serde_json::to_vec(&self)?;
        let length = u32::try_from(head.len()).map_err(io::Error::other)?;
        to.write_all(&length.to_le_bytes())?;
        to.write_all(&crc32fast::hash(&head).to_le_bytes())?;
        to.write_all(&head)?;
        values.iter().try_for_each(|(_, bytes)| to.write_all(bytes))?;
        Ok(8 + head.len() as u64 + self.body())
    }

    fn body(&self) -> u64 {
        self.values.iter().map(|(_, bytes)| bytes).sum()
    }

    /// The next part; none at the end, and where one was cut off.
    pub(super) fn read(from: &mut impl Read) -> io::Result<Option<Self>> {
        let mut numbers = [0; 8];
        if !read_whole(from, &mut numbers)? {
            return Ok(None);
        }
        let [a, b, c, d, sum @ ..] = numbers;
        let length = u32::from_le_bytes([a, b, c, d]);
        let mut head = vec![0; length.min(LONGEST_HEAD) as usize];
        if length > LONGEST_HEAD || !read_whole(from, &mut head)? || crc32fast::hash(&head) != u32::from_le_bytes(sum) {
            return Ok(None);
        }
        Ok(serde_json::from_slice(&head).ok())
    }

    /// The values of this part; none if they were cut off or damaged.
    pub(super) fn read_values(&self, from: &mut impl Read) -> io::Result<Option<Values>> {
        let mut values = Vec::new();
        for (sha256, length) in &self.values {
            let mut bytes = Vec::new();
            from.take(*length).read_to_end(&mut bytes)?;
            if hash(&bytes) != *sha256 {
                return Ok(None);
            }
            values.push((sha256.clone(), bytes));
        }
        Ok(Some(values))
    }
}

/// Fills a buffer; whether there was enough.
fn read_whole(from: &mut impl Read, buffer: &mut [u8]) -> io::Result<bool> {
    match from.read_exact(buffer) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

impl Log {
    /// The latest log of a claim, to go on with it; none if it was cut off.
    pub(super) fn open(place: &LogPlace) -> io::Result<Option<Self>> {
        let found = logs(&place.directory)?.into_iter().find(|file| file.claim == place.claim);
        let Some(found) = found else { return Ok(None) };
        let mut file = File::options().read(true).append(true).open(&found.path)?;
        let length = file.metadata()?.len();
        let (mut version, mut at) = (0, 0);
        let mut parts = BufReader::new(&mut file);
        while at < length {
            let Some(part) = LogPart::read(&mut parts)? else { return Ok(None) };
            let body = i64::try_from(part.body()).map_err(io::Error::other)?;
            parts.seek_relative(body)?;
            (version, at) = (part.version, parts.stream_position()?);
        }
        drop(parts);
        file.seek(SeekFrom::End(0))?;
        let is_whole = at == length;
        Ok(is_whole.then(|| Self { file, path: found.path, claim: place.claim.clone(), version, bytes: length }))
    }

    /// Whether it still has a name. What is appended to one that somebody removed is there for nobody.
    pub(super) fn is_there(&self) -> bool {
        self.file.metadata().is_ok_and(|metadata| metadata.nlink() > 0)
    }
}

/// A file of a log.
pub(super) struct LogFile {
    pub(super) claim: Claim,
    pub(super) number: u64,
    pub(super) path: PathBuf,
    /// It is not complete.
    is_draft: bool,
}

impl LogFile {
    /// The file at a path; none if it is no log.
    fn of(path: PathBuf) -> Option<Self> {
        let name = path.file_name()?.to_str()?;
        let (name, is_draft) = name.strip_suffix(DRAFT).map_or((name, false), |name| (name, true));
        let (claim, number) = name.strip_suffix(ENDING)?.rsplit_once('-')?;
        let (claim, number) = (claim.parse().ok()?, number.parse().ok()?);
        Some(Self { claim, number, path, is_draft })
    }
}

/// The complete files in a directory, those of the latest claim first.
pub(super) fn logs(directory: &Path) -> io::Result<Vec<LogFile>> {
    let mut files = all_files(directory)?;
    files.retain(|file| !file.is_draft);
    files.sort_by_key(|file| std::cmp::Reverse((file.claim.epoch, file.number)));
    Ok(files)
}

/// All files in a directory, in no order.
pub(super) fn all_files(directory: &Path) -> io::Result<Vec<LogFile>> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut files = Vec::new();
    for entry in entries {
        files.extend(LogFile::of(entry?.path()));
    }
    Ok(files)
}
