//! The objects of one repository: those that are stored, and those that wait for the checkpoint they belong to.

use super::error::{RepoError, Result, at, damaged};
use super::gathered::{Gathered, Written};
use super::names;
use super::objects::{Objects, open_loose};
use super::types::{Author, Commit, Entry, Kind, META_HEADER};
use crate::fault::Faults;
use gix_hash::ObjectId;
use gix_object::{CommitRef, TreeRefIter};
use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Read as _, Write};
use std::path::PathBuf;
use std::sync::Arc;

/// Files above this are streamed to the disk, not read into memory.
const STREAM_BYTES: u64 = 1 << 20;

/// The id that a file with these bytes has, without keeping it. For threads that hash beside each other; see
/// [`Database::add_blob`].
pub fn hash_blob(bytes: &[u8]) -> Result<ObjectId> {
    hash(gix_object::Kind::Blob, bytes)
}

fn hash(kind: gix_object::Kind, bytes: &[u8]) -> Result<ObjectId> {
    gix_object::compute_hash(gix_hash::Kind::Sha1, kind, bytes).map_err(damaged)
}

/// The objects of one repository.
pub struct Database {
    pub(super) stored: Objects,
    pub(super) gathered: Gathered,
    /// What was put on the disk since it was opened.
    written: Written,
    faults: Arc<Faults>,
}

impl Database {
    pub(super) fn new(stored: Objects, faults: &Arc<Faults>) -> Self {
        Self { stored, gathered: Gathered::default(), written: Written::default(), faults: Arc::clone(faults) }
    }

    /// Whether an object is there, published or not.
    pub fn contains(&self, id: ObjectId) -> bool {
        self.gathered.contains(id) || self.stored.contains(id)
    }

    /// A directory's entries in git's order, with their true names. The empty tree needs not be there.
    pub fn read_tree(&self, id: ObjectId) -> Result<Vec<Entry>> {
        if id.is_empty_tree() {
            return Ok(Vec::new());
        }
        let bytes = self.bytes(id, gix_object::Kind::Tree)?;
        let mut entries = Vec::with_capacity(bytes.len() / 40);
        for entry in TreeRefIter::from_bytes(&bytes, gix_hash::Kind::Sha1) {
            let entry = entry.map_err(damaged)?;
            let kind = match entry.mode.kind() {
                gix_object::tree::EntryKind::Blob => Kind::File { executable: false },
                gix_object::tree::EntryKind::BlobExecutable => Kind::File { executable: true },
                gix_object::tree::EntryKind::Link => Kind::Link,
                gix_object::tree::EntryKind::Tree => Kind::Directory,
                gix_object::tree::EntryKind::Commit => {
                    return Err(damaged(format_args!("tree {id} names another repository's commit")));
                }
            };
            entries.push(Entry { name: names::true_name(entry.filename), kind, id: entry.oid.to_owned() });
        }
        Ok(entries)
    }

    /// A file's bytes, if they are at most `max`.
    pub fn read_blob(&self, id: ObjectId, max: Option<u64>) -> Result<Vec<u8>> {
        if let Some(max) = max {
            let size = self.blob_size(id)?;
            if size > max {
                return Err(RepoError::TooBig { id, size, max });
            }
        }
        self.bytes(id, gix_object::Kind::Blob).map(Cow::into_owned)
    }

    /// Writes a file's bytes to `to`, a piece at a time. An error of `to` is [`RepoError::Io`].
    pub fn copy_blob(&self, id: ObjectId, to: &mut dyn Write) -> Result<u64> {
        let failed = |source| RepoError::Io { path: PathBuf::from(id.to_string()), source };
        if let Some((kind, bytes)) = self.gathered.read(id) {
            expect_kind(id, kind, gix_object::Kind::Blob)?;
            return to.write_all(bytes).map(|()| bytes.len() as u64).map_err(failed);
        }
        if let Some(path) = self.gathered.file_of(id) {
            return io::copy(&mut open_loose(path)?.bytes, to).map_err(failed);
        }
        self.stored.copy(id, to).and_then(|(kind, size)| {
            expect_kind(id, kind, gix_object::Kind::Blob)?;
            Ok(size)
        })
    }

    /// How many bytes a file has.
    pub fn blob_size(&self, id: ObjectId) -> Result<u64> {
        let (kind, size) = match (self.gathered.read(id), self.gathered.file_of(id)) {
            (Some((kind, bytes)), _) => (kind, bytes.len() as u64),
            (None, Some(path)) => open_loose(path).map(|object| (object.kind, object.size))?,
            (None, None) => self.stored.header(id)?,
        };
        expect_kind(id, kind, gix_object::Kind::Blob)?;
        Ok(size)
    }

    pub fn read_commit(&self, id: ObjectId) -> Result<Commit> {
        let bytes = self.bytes(id, gix_object::Kind::Commit)?;
        let commit = CommitRef::from_bytes(&bytes, gix_hash::Kind::Sha1).map_err(damaged)?;
        let meta = match commit.extra_headers().find(META_HEADER) {
            Some(hex) => Some(ObjectId::from_hex(hex).map_err(damaged)?),
            None => None,
        };
        let author = commit.author().map_err(damaged)?;
        let time = commit.committer().and_then(|committer| committer.time()).map_err(damaged)?;
        Ok(Commit {
            tree: commit.tree(),
            meta,
            parents: commit.parents().collect(),
            author: Author {
                name: String::from_utf8_lossy(author.name).into_owned(),
                email: String::from_utf8_lossy(author.email).into_owned(),
            },
            seconds: time.seconds,
            message: String::from_utf8_lossy(commit.message).into_owned(),
        })
    }

    /// What a commit's tree is; a tree is its own.
    pub fn tree_of(&self, commit_or_tree: ObjectId) -> Result<ObjectId> {
        if commit_or_tree.is_empty_tree() {
            return Ok(commit_or_tree);
        }
        let (kind, bytes) = self.any(commit_or_tree)?;
        match kind {
            gix_object::Kind::Tree => Ok(commit_or_tree),
            gix_object::Kind::Commit => {
                CommitRef::from_bytes(&bytes, gix_hash::Kind::Sha1).map(|commit| commit.tree()).map_err(damaged)
            }
            other => Err(damaged(format_args!("{commit_or_tree} is a {other}, not a commit"))),
        }
    }

    /// Keeps a file's bytes.
    pub fn blob(&mut self, bytes: &[u8]) -> Result<ObjectId> {
        let id = hash_blob(bytes)?;
        if !self.contains(id) {
            self.add(id, gix_object::Kind::Blob, bytes.to_vec())?;
        }
        Ok(id)
    }

    /// Keeps bytes whose id [`hash_blob`] told.
    pub fn add_blob(&mut self, id: ObjectId, bytes: Vec<u8>) -> Result<()> {
        if self.contains(id) { Ok(()) } else { self.add(id, gix_object::Kind::Blob, bytes) }
    }

    /// Keeps `size` bytes of a file from its current offset; over 1 MiB they are streamed. A file that has fewer is
    /// [`RepoError::Short`]; one that cannot be read [`RepoError::Source`].
    pub fn blob_of(&mut self, file: &mut File, size: u64) -> Result<ObjectId> {
        if size > STREAM_BYTES {
            return self.gathered.stream(file, size, &self.stored, &self.faults);
        }
        let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
        file.take(size).read_to_end(&mut bytes).map_err(|source| RepoError::Source { source })?;
        if (bytes.len() as u64) < size {
            return Err(RepoError::Short);
        }
        let id = hash_blob(&bytes)?;
        self.add_blob(id, bytes)?;
        Ok(id)
    }

    /// Keeps a directory. Sorts, escapes names that git refuses, and checks that all it names is there
    /// ([`RepoError::Missing`]: make it again, an id from a cache may have been thinned away).
    pub fn tree(&mut self, entries: &[Entry]) -> Result<ObjectId> {
        let mut named = Vec::with_capacity(entries.len());
        for entry in entries {
            if !self.contains(entry.id) {
                return Err(RepoError::Missing { id: entry.id });
            }
            named.push((names::stored(&entry.name, entry.kind)?, entry));
        }
        let is_tree = |entry: &Entry| entry.kind == Kind::Directory;
        named.sort_unstable_by(|(a, one), (b, other)| gix_object::tree::name_order(a, is_tree(one), b, is_tree(other)));
        let mut bytes = Vec::with_capacity(entries.len() * 48);
        for (name, entry) in &named {
            bytes.extend_from_slice(format!("{:o} ", entry.kind.mode()).as_bytes());
            bytes.extend_from_slice(name);
            bytes.push(0);
            bytes.extend_from_slice(entry.id.as_slice());
        }
        check_twice(entries)?;
        let id = hash(gix_object::Kind::Tree, &bytes)?;
        if !self.contains(id) {
            self.add(id, gix_object::Kind::Tree, bytes)?;
        }
        Ok(id)
    }

    /// Keeps a commit.
    pub fn commit(&mut self, commit: &Commit) -> Result<ObjectId> {
        for id in [Some(commit.tree), commit.meta].into_iter().flatten() {
            if !self.contains(id) {
                return Err(RepoError::Missing { id });
            }
        }
        let bytes = commit.to_bytes();
        let id = hash(gix_object::Kind::Commit, &bytes)?;
        if !self.contains(id) {
            self.add(id, gix_object::Kind::Commit, bytes)?;
        }
        Ok(id)
    }

    pub(super) fn any(&self, id: ObjectId) -> Result<(gix_object::Kind, Cow<'_, [u8]>)> {
        if let Some((kind, bytes)) = self.gathered.read(id) {
            return Ok((kind, Cow::Borrowed(bytes)));
        }
        if let Some(path) = self.gathered.file_of(id) {
            let mut object = open_loose(path)?;
            let mut bytes = Vec::new();
            io::copy(&mut object.bytes, &mut bytes).map_err(at(path))?;
            return Ok((object.kind, Cow::Owned(bytes)));
        }
        self.stored.read(id).map(|(kind, bytes)| (kind, Cow::Owned(bytes)))
    }

    fn bytes(&self, id: ObjectId, wanted: gix_object::Kind) -> Result<Cow<'_, [u8]>> {
        let (kind, bytes) = self.any(id)?;
        expect_kind(id, kind, wanted)?;
        Ok(bytes)
    }

    /// Puts what gathered on the disk.
    pub(super) fn write(&mut self) -> Result<()> {
        let written = self.gathered.write(&self.stored, &self.faults)?;
        self.written.add(written);
        Ok(())
    }

    /// Forgets what gathered.
    pub(super) fn abandon(&mut self) {
        self.gathered = Gathered::default();
    }

    /// What was put on the disk since it was opened.
    pub(super) fn written(&self) -> Written {
        self.written
    }

    fn add(&mut self, id: ObjectId, kind: gix_object::Kind, bytes: Vec<u8>) -> Result<()> {
        let written = self.gathered.add((id, kind, bytes), &self.stored, &self.faults)?;
        self.written.add(written);
        Ok(())
    }
}

fn expect_kind(id: ObjectId, kind: gix_object::Kind, wanted: gix_object::Kind) -> Result<()> {
    if kind == wanted { Ok(()) } else { Err(damaged(format_args!("{id} is a {kind}, not a {wanted}"))) }
}

/// A directory cannot hold two entries of one name.
fn check_twice(entries: &[Entry]) -> Result<()> {
    let mut names: Vec<&[u8]> = entries.iter().map(|entry| entry.name.as_slice()).collect();
    names.sort_unstable();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(RepoError::Name {
            name: String::from_utf8_lossy(pair[0]).into_owned(),
            reason: "the directory has it twice",
        }),
        None => Ok(()),
    }
}
