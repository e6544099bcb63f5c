//! Reading a repository: what is published, and what still gathers.

use super::error::damaged;
use super::objects::open_loose;
use super::{Author, Commit, Entry, Kind, META_HEADER, ObjectId, Repo, RepoError, Result, names};
use gix_object::{CommitRef, TreeRefIter};
use std::borrow::Cow;
use std::io::{self, Write};
use std::path::PathBuf;

/// Fewer digits of an id would fit too many.
const PREFIX_LEAST: usize = 4;

/// Author of a commit that names none.
const NOBODY: &str = "shellkeep";

impl Repo {
    /// Whether an object is there, published or not.
    pub fn contains(&self, id: ObjectId) -> bool {
        self.gathered.contains(id) || self.objects.contains(id)
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
        self.objects.copy(id, to).and_then(|(kind, size)| {
            expect_kind(id, kind, gix_object::Kind::Blob)?;
            Ok(size)
        })
    }

    /// How many bytes a file has.
    pub fn blob_size(&self, id: ObjectId) -> Result<u64> {
        let (kind, size) = match (self.gathered.read(id), self.gathered.file_of(id)) {
            (Some((kind, bytes)), _) => (kind, bytes.len() as u64),
            (None, Some(path)) => open_loose(path).map(|object| (object.kind, object.size))?,
            (None, None) => self.objects.header(id)?,
        };
        expect_kind(id, kind, gix_object::Kind::Blob)?;
        Ok(size)
    }

    /// A commit.
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

    /// All tags, by name.
    pub fn tags(&self) -> Result<Vec<(String, ObjectId)>> {
        self.refs.tags()
    }

    /// The commit with this tag, or the tagged one whose id begins so (at least four digits).
    pub fn find(&self, name_or_prefix: &str) -> Result<Option<ObjectId>> {
        let tags = self.tags()?;
        if let Some((_, id)) = tags.iter().find(|(name, _)| name == name_or_prefix) {
            return Ok(Some(*id));
        }
        let prefix = name_or_prefix.to_ascii_lowercase();
        if prefix.len() < PREFIX_LEAST || !prefix.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Ok(None);
        }
        let mut found: Vec<ObjectId> =
            tags.into_iter().map(|(_, id)| id).filter(|id| id.to_string().starts_with(&prefix)).collect();
        found.sort_unstable();
        found.dedup();
        match found.as_slice() {
            [] => Ok(None),
            [one] => Ok(Some(*one)),
            _ => Err(RepoError::Ambiguous { prefix }),
        }
    }

    /// The commit that was published last, or that [`Repo::set_head`] named.
    pub fn head(&self) -> Result<Option<ObjectId>> {
        self.refs.head()
    }

    /// Says which commit the files are at now, for people who look with `git log`.
    pub fn set_head(&mut self, commit: ObjectId) -> Result<()> {
        self.refs.set_head(Some(commit))
    }

    pub(super) fn any(&self, id: ObjectId) -> Result<(gix_object::Kind, Cow<'_, [u8]>)> {
        if let Some((kind, bytes)) = self.gathered.read(id) {
            return Ok((kind, Cow::Borrowed(bytes)));
        }
        if let Some(path) = self.gathered.file_of(id) {
            let mut object = open_loose(path)?;
            let mut bytes = Vec::new();
            io::copy(&mut object.bytes, &mut bytes).map_err(super::error::at(path))?;
            return Ok((object.kind, Cow::Owned(bytes)));
        }
        self.objects.read(id).map(|(kind, bytes)| (kind, Cow::Owned(bytes)))
    }

    fn bytes(&self, id: ObjectId, wanted: gix_object::Kind) -> Result<Cow<'_, [u8]>> {
        let (kind, bytes) = self.any(id)?;
        expect_kind(id, kind, wanted)?;
        Ok(bytes)
    }
}

fn expect_kind(id: ObjectId, kind: gix_object::Kind, wanted: gix_object::Kind) -> Result<()> {
    if kind == wanted { Ok(()) } else { Err(damaged(format_args!("{id} is a {kind}, not a {wanted}"))) }
}

impl Commit {
    /// As git writes it down. What has no place in a header is left out, so that nobody's name can forge one.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let clean = |text: &str| {
            let text: String =
                text.chars().filter(|letter| !matches!(letter, '<' | '>') && !letter.is_control()).collect();
            let text = text.trim().to_owned();
            if text.is_empty() { NOBODY.to_owned() } else { text }
        };
        let who = format!("{} <{}> {} +0000", clean(&self.author.name), clean(&self.author.email), self.seconds.max(0));
        let mut text = format!("tree {}\n", self.tree);
        for parent in &self.parents {
            text.push_str(&format!("parent {parent}\n"));
        }
        text.push_str(&format!("author {who}\ncommitter {who}\n"));
        if let Some(meta) = self.meta {
            text.push_str(&format!("{META_HEADER} {meta}\n"));
        }
        text.push('\n');
        text.push_str(&self.message.replace('\0', "\u{fffd}"));
        if !text.ends_with('\n') {
            text.push('\n');
        }
        text.into_bytes()
    }
}
