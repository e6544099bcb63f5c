//! One session's repository of checkpoints: a bare git repository that plain `git` can read, written without the `git`
//! program. Objects gather in memory until a checkpoint is published, and are in place before its tag is.
//!
//! Nothing waits for the disk when a checkpoint is made, as with git itself: a crash of the daemon loses nothing, a power
//! cut may lose the last checkpoints. Where older copies are removed, the newer ones are on the disk before.

mod compact;
mod database;
mod deflate;
mod delta;
mod error;
mod gathered;
mod mirror;
mod names;
mod objects;
mod pack;
mod purge;
mod refs;
mod share;
mod space;
mod types;
mod walk;

pub use database::{Database, hash_blob};
pub use error::{RepoError, Result};
pub use gix_hash::ObjectId;
pub use mirror::Mirrored;
pub use types::{Author, Commit, Entry, Kind, Reclaimed};

use crate::fault::{Faults, Point};
use error::{at, damaged};
use objects::Objects;
use refs::Refs;
use space::{Space, Use};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Fewer digits of an id would fit too many.
const PREFIX_LEAST: usize = 4;

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
    /// What it holds.
    pub objects: Database,
    refs: Refs,
    space: Space,
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
            objects: Database::new(Objects::open(directory.join("objects"))?, faults),
            refs: Refs::new(directory),
            space: Space::default(),
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

    /// Puts what gathered on the disk without a tag, so that work cut short by a limit is not done again. It lasts until
    /// space is reclaimed; see [`Database::contains`].
    pub fn flush(&mut self) -> Result<()> {
        self.objects.write()?;
        self.objects.gathered.loose_ends = false;
        Ok(())
    }

    /// Puts what gathered on the disk, then the tag, which is made unique and given back, then moves `HEAD` to it.
    /// May be called again after an error.
    pub fn publish(&mut self, tag: &str, commit: ObjectId) -> Result<String> {
        self.objects.write()?;
        self.faults.check(Point::BeforeTag).map_err(at(&self.directory))?;
        let (kind, _) = self.objects.stored.header(commit)?;
        if kind != gix_object::Kind::Commit {
            return Err(damaged(format_args!("{commit} is a {kind}, not a commit")));
        }
        let name = self.refs.add_tag(tag, commit)?;
        self.objects.gathered.loose_ends = false;
        self.space.add_tag();
        // The tag is what counts; `HEAD` only shows people where they are.
        let _ = self.refs.set_head(Some(commit));
        Ok(name)
    }

    /// Forgets what gathered.
    pub fn abandon(&mut self) {
        self.objects.abandon();
    }

    /// Bytes put on the disk by this since it was opened (compaction not counted).
    pub fn written(&self) -> u64 {
        self.objects.written().bytes
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

    /// Bytes on the disk. Looks once, then counts along. What a fork shares is counted in both.
    pub fn size(&self) -> u64 {
        self.used().map_or(0, |used| used.bytes)
    }

    /// Whether enough files have gathered for [`Repo::gather`] to help.
    pub fn needs_compaction(&self) -> bool {
        self.used().is_ok_and(|used| used.has_many_files())
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
