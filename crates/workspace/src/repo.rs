//! One session's repository of checkpoints: a bare git repository that plain `git` can read, written without the `git`
//! program. Objects gather in memory until a checkpoint is published, and are in place before its tag is.
//!
//! Nothing waits for the disk when a checkpoint is made, as with git itself: a crash of the daemon loses nothing, a power
//! cut may lose the last checkpoints. Where older copies are removed, the newer ones are on the disk before.

mod compact;
mod deflate;
mod delta;
mod error;
mod gathered;
mod names;
mod objects;
mod pack;
mod purge;
mod read;
mod refs;
mod share;
mod space;
mod types;
mod walk;

pub use error::{RepoError, Result};
pub use gix_hash::ObjectId;
pub use types::{Author, Commit, Entry, Kind, Reclaimed};

use crate::fault::{Faults, Point};
use error::{at, damaged};
use gathered::{Gathered, Written};
use objects::Objects;
use refs::Refs;
use space::{Space, Use};
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The header of a commit that names the side tree.
const META_HEADER: &str = "shellkeep-meta";

/// Files above this are streamed to the disk, not read into memory.
const STREAM_BYTES: u64 = 1 << 20;

/// The repository's own `config`. Files of the workspace are kept whatever is in them, so `git fsck` is not to complain
/// of what a `.gitmodules` says; the side trees hang on a header that git does not follow, so `git gc` is not to drop them.
const CONFIG: &str = "\
[core]
\trepositoryformatversion = 0
\tfilemode = true
\tbare = true
[gc]
\tauto = 0
\tpruneExpire = never
[fsck]
\tgitmodulesMissing = ignore
\tgitmodulesBlob = ignore
\tgitmodulesLarge = ignore
\tgitmodulesName = ignore
\tgitmodulesParse = ignore
\tgitmodulesSymlink = ignore
\tgitmodulesUrl = ignore
\tgitmodulesPath = ignore
\tgitmodulesUpdate = ignore
\tgitattributesMissing = ignore
\tgitattributesLarge = ignore
\tgitattributesLineLength = ignore
\tgitattributesBlob = ignore
";

/// Stronger than the workspace's own `.gitattributes`: `git checkout` gives the bytes as they were.
const ATTRIBUTES: &str = "* -text !eol -ident -filter !working-tree-encoding !export-subst !export-ignore\n";

/// One session's repository. One thread writes at a time (`&mut`); any number may read beside each other (`&`).
pub struct Repo {
    directory: PathBuf,
    objects: Objects,
    refs: Refs,
    gathered: Gathered,
    space: Space,
    written: u64,
    faults: Arc<Faults>,
}

impl std::fmt::Debug for Repo {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Repo").field("directory", &self.directory).finish_non_exhaustive()
    }
}

/// The directory with nothing in it.
pub const EMPTY_TREE: ObjectId = ObjectId::Sha1([
    0x4b, 0x82, 0x5d, 0xc6, 0x42, 0xcb, 0x6e, 0xb9, 0xa0, 0x60, 0xe5, 0x4b, 0xf8, 0xd6, 0x92, 0x88, 0xfb, 0xee, 0x49,
    0x04,
]);

/// The id that a file with these bytes has, without keeping it. For threads that hash beside each other; see
/// [`Repo::add_blob`].
pub fn hash_blob(bytes: &[u8]) -> Result<ObjectId> {
    hash(gix_object::Kind::Blob, bytes)
}

fn hash(kind: gix_object::Kind, bytes: &[u8]) -> Result<ObjectId> {
    gix_object::compute_hash(gix_hash::Kind::Sha1, kind, bytes).map_err(damaged)
}

impl Repo {
    /// Opens the repository in `directory`; `None` if there is none.
    pub fn open(directory: &Path, faults: &Arc<Faults>) -> Result<Option<Repo>> {
        match fs::metadata(directory.join("HEAD")) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(at(directory)(error)),
            Ok(_) => {}
        }
        Ok(Some(Repo {
            directory: directory.to_owned(),
            objects: Objects::open(directory.join("objects"))?,
            refs: Refs::new(directory),
            gathered: Gathered::default(),
            space: Space::default(),
            written: 0,
            faults: faults.clone(),
        }))
    }

    /// Makes an empty one; after a crash it is there or it is not.
    pub fn create(directory: &Path, faults: &Arc<Faults>) -> Result<Repo> {
        build(directory, |new| {
            fs::write(new.join("config"), CONFIG)?;
            fs::write(new.join("info/attributes"), ATTRIBUTES)?;
            fs::write(new.join("HEAD"), refs::UNBORN)
        })?;
        Self::open(directory, faults)?.ok_or_else(|| damaged("it is gone right after it was made"))
    }

    /// Where it is.
    pub fn directory(&self) -> &Path {
        &self.directory
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
            return self.gathered.stream(file, size, &self.objects, &self.faults);
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

    /// Puts what gathered on the disk without a tag, so that work cut short by a limit is not done again. It lasts until
    /// space is reclaimed: [`Repo::contains`] tells.
    pub fn flush(&mut self) -> Result<()> {
        let written = self.gathered.write(&self.objects, &self.faults)?;
        self.gathered.loose_ends = false;
        self.note(written);
        Ok(())
    }

    /// Puts what gathered on the disk, then the tag, which is made unique and given back, then moves `HEAD` to it.
    /// May be called again after an error.
    pub fn publish(&mut self, tag: &str, commit: ObjectId) -> Result<String> {
        let written = self.gathered.write(&self.objects, &self.faults)?;
        self.note(written);
        self.faults.check(Point::BeforeTag).map_err(at(&self.directory))?;
        let (kind, _) = self.objects.header(commit)?;
        if kind != gix_object::Kind::Commit {
            return Err(damaged(format_args!("{commit} is a {kind}, not a commit")));
        }
        let name = self.refs.add_tag(tag, commit)?;
        self.gathered.loose_ends = false;
        self.space.add_tag();
        // The tag is what counts; `HEAD` only tells people where they are.
        let _ = self.refs.set_head(Some(commit));
        Ok(name)
    }

    /// Forgets what gathered.
    pub fn abandon(&mut self) {
        self.gathered = Gathered::default();
    }

    /// Bytes put on the disk by this since it was opened (compaction not counted).
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Bytes on the disk. Looks once, then counts along. What a fork shares is counted in both.
    pub fn size(&self) -> u64 {
        self.used().map_or(0, |used| used.bytes)
    }

    /// Whether so many files have gathered that [`Repo::gather`] would help.
    pub fn needs_compaction(&self) -> bool {
        self.used().is_ok_and(|used| used.has_many_files())
    }

    fn add(&mut self, id: ObjectId, kind: gix_object::Kind, bytes: Vec<u8>) -> Result<()> {
        let written = self.gathered.add((id, kind, bytes), &self.objects, &self.faults)?;
        self.note(written);
        Ok(())
    }

    fn note(&mut self, written: Written) {
        self.written += written.bytes;
        self.space.add(written);
    }

    fn used(&self) -> Result<Use> {
        self.space.used(&self.directory, &self.objects, &self.refs)
    }
}

/// Makes a repository's directories under another name, lets `fill` do the rest, and puts it in place.
fn build(directory: &Path, fill: impl FnOnce(&Path) -> io::Result<()>) -> Result<()> {
    let mut new = directory.as_os_str().to_owned();
    new.push(format!(".{}{}", pack::UNFINISHED, pack::unique()));
    let new = PathBuf::from(new);
    let make = || {
        for part in ["objects/pack", "objects/info", "refs/tags", "refs/heads", "info"] {
            fs::create_dir_all(new.join(part))?;
        }
        fill(&new)?;
        fs::rename(&new, directory)
    };
    make().map_err(|source| {
        let _ = fs::remove_dir_all(&new);
        RepoError::Io { path: directory.to_owned(), source }
    })
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
