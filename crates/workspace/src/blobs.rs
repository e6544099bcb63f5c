//! Checkpoints where all nodes of a cluster can read them: a directory on a shared file system, or a store of objects with the
//! same names.
//!
//! `ROOT/SESSION/CREATED/CLAIM-N` is a bare git repository with packs and one file of tags. Everything in it has the sum of
//! its bytes for a name, is written under another name first, and is on the disk before the file of tags names it; so what
//! has a tag is complete, and writing it twice is harmless. CREATED keeps a session apart from an earlier one of its name.
//! Each CLAIM has folders of its own: a node that lost the session without knowing it changes nothing that its next owner
//! wrote. N counts on when checkpoints were pruned or purged: what is left is written anew, and the old folder removed.

mod attached;
mod error;
mod objects;

use crate::fault::Faults;
use crate::repo::{ObjectId, Repo};
pub use error::{BlobError, ObjectsError};
use error::{MARKER, at, remove};
use objects::Remote;
pub use objects::{Object, Objects};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The directory of the files that a session's records name.
const ATTACHED: &str = "attached";

/// The directory of the log of its keyed store.
const KEYED: &str = "kv";

/// What all nodes can read.
#[derive(Debug, Clone)]
pub struct Blobs {
    /// The directory. If there is a store of objects, a directory of this node with copies of some of them.
    root: PathBuf,
    objects: Option<Arc<dyn Objects>>,
}

impl Blobs {
    /// The directory `root`, made if need be.
    pub fn open(root: PathBuf) -> Result<Self, BlobError> {
        fs::create_dir_all(&root).map_err(at(&root))?;
        let marker = root.join(MARKER);
        if !marker.exists() {
            fs::write(&marker, "Checkpoints of shellkeep sessions, for all nodes of a cluster.\n")
                .map_err(at(&marker))?;
        }
        Ok(Self { root, objects: None })
    }

    /// A store of objects. `copies` is a directory of this node, whose content is removed.
    pub fn of_objects(objects: Arc<dyn Objects>, copies: PathBuf) -> Result<Self, BlobError> {
        match fs::remove_dir_all(&copies) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(at(&copies)(error)),
            _ => {}
        }
        fs::create_dir_all(&copies).map_err(at(&copies))?;
        Ok(Self { root: copies, objects: Some(objects) })
    }

    /// The part of one session; `created` tells it from others of its name.
    pub fn of(&self, session_id: &str, created: &str) -> SessionBlobs {
        let home = self.root.join(session_id).join(created);
        let remote = self.objects.as_ref().map(|objects| Remote::new(objects, format!("{session_id}/{created}/")));
        SessionBlobs { root: self.root.clone(), home, remote }
    }
}

/// What is there of one session.
#[derive(Debug, Clone)]
pub struct SessionBlobs {
    root: PathBuf,
    home: PathBuf,
    remote: Option<Remote>,
}

impl SessionBlobs {
    fn check(&self) -> Result<(), BlobError> {
        match self.remote.is_some() || self.root.join(MARKER).exists() {
            true => Ok(()),
            false => Err(BlobError::NotThere { root: self.root.clone() }),
        }
    }

    /// Where the log of its keyed store is.
    pub fn keyed(&self) -> Result<PathBuf, BlobError> {
        self.check().map(|()| self.home.join(KEYED))
    }

    /// Brings the logs of its keyed store to where [`Self::keyed`] says, if they are objects.
    pub fn fetch_keyed(&self) -> Result<(), BlobError> {
        self.remote.as_ref().map_or(Ok(()), |remote| remote.below(KEYED).fetch_logs(&self.home.join(KEYED)))
    }

    /// Its keyed store's logs as objects; none if they are files that all nodes can read.
    pub fn keyed_objects(&self) -> Option<KeyedObjects> {
        self.remote.as_ref().map(|remote| KeyedObjects(remote.below(KEYED)))
    }

    /// Gives a claim's folder everything that a node's repository has and it lacks. Returns the folder's name, when all of it
    /// is on the disk.
    pub fn put(&self, local: &Repo, claim: &str, faults: &Arc<Faults>) -> Result<String, BlobError> {
        self.check()?;
        let mut number = self.folders()?.iter().filter_map(|name| number_of(name, claim)).max().unwrap_or(1);
        let mut there = self.open_or_create(&folder(claim, number), faults)?;
        if local.lacks_tags_of(&there)? {
            number += 1;
            there = self.open_or_create(&folder(claim, number), faults)?;
        }
        local.mirror_into(&mut there)?;
        if there.needs_compaction() {
            there.gather()?;
        }
        if let Some(remote) = &self.remote {
            remote.below(&folder(claim, number)).push(there.directory())?;
            return Ok(folder(claim, number));
        }
        for directory in [there.directory(), &self.home, self.home.parent().unwrap_or(&self.root), &self.root] {
            File::open(directory).and_then(|directory| directory.sync_all()).map_err(at(directory))?;
        }
        Ok(folder(claim, number))
    }

    fn open_or_create(&self, folder: &str, faults: &Arc<Faults>) -> Result<Repo, BlobError> {
        let path = self.home.join(folder);
        // What this node has put there it has here, unless it was started again.
        let found = if path.exists() { Repo::open(&path, faults)? } else { self.open_folder(folder, faults)? };
        if let Some(repo) = found {
            return Ok(repo);
        }
        fs::create_dir_all(&self.home).map_err(at(&self.home))?;
        Ok(Repo::create(&path, faults)?)
    }

    /// A folder as it is there.
    fn open_folder(&self, folder: &str, faults: &Arc<Faults>) -> Result<Option<Repo>, BlobError> {
        let path = self.home.join(folder);
        if let Some(remote) = self.remote.as_ref().map(|remote| remote.below(folder)) {
            match remote.list()?.is_empty() {
                true => return Ok(None),
                false => remote.fetch(&path)?,
            }
        }
        Ok(Repo::open(&path, faults)?)
    }

    /// Removes the folders that `current` replaces: earlier ones of its claim, and those of earlier claims whose checkpoints it
    /// all has. Not of later ones: a node that lost the session and does not know it yet has nothing to say about them.
    pub fn tidy(&self, current: &str, faults: &Arc<Faults>) -> Result<(), BlobError> {
        let Some(repo) = self.open_folder(current, faults)? else { return Ok(()) };
        let claim = current.rsplit_once('-').map_or(current, |(claim, _)| claim);
        for name in self.folders()?.into_iter().filter(|name| name != current) {
            let path = self.home.join(&name);
            let is_earlier = || epoch_of(&name).zip(epoch_of(claim)).is_some_and(|(other, own)| other < own);
            let has_all_of = |other: Repo| matches!(repo.lacks_tags_of(&other), Ok(false));
            let is_replaced = number_of(&name, claim).is_some()
                || (is_earlier() && self.open_folder(&name, faults)?.is_some_and(has_all_of));
            if is_replaced {
                self.remote.as_ref().map_or(Ok(()), |remote| remote.below(&name).remove_all())?;
                remove(&path)?;
            }
        }
        Ok(())
    }

    /// The folder with a commit: the one that was noted, or the newest other one.
    pub fn find(&self, commit: ObjectId, noted: Option<&str>, faults: &Arc<Faults>) -> Result<Option<Repo>, BlobError> {
        self.check()?;
        let mut others = self.folders()?;
        others.sort_by_key(|name| epoch_of(name));
        let names = noted.map(str::to_owned).into_iter().chain(others.into_iter().rev());
        for name in names {
            if let Some(repo) = self.open_folder(&name, faults)?.filter(|repo| repo.objects.contains(commit)) {
                return Ok(Some(repo));
            }
        }
        Ok(None)
    }

    /// Removes everything of the session.
    pub fn remove(&self) -> Result<(), BlobError> {
        self.check()?;
        self.remote.as_ref().map_or(Ok(()), Remote::remove_all)?;
        remove(&self.home)?;
        // Another session of its name may have a part there.
        let _ = self.home.parent().map(fs::remove_dir);
        Ok(())
    }

    fn folders(&self) -> Result<Vec<String>, BlobError> {
        let is_folder = |name: &str| name != ATTACHED && name != KEYED;
        if let Some(remote) = &self.remote {
            let there = remote.list()?;
            let names: BTreeSet<&str> = there.keys().filter_map(|name| Some(name.split_once('/')?.0)).collect();
            return Ok(names.into_iter().filter(|name| is_folder(name)).map(str::to_owned).collect());
        }
        let entries = match fs::read_dir(&self.home) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(at(&self.home)(error)),
        };
        let names = entries.map(|entry| entry.map(|entry| entry.file_name().to_string_lossy().into_owned()));
        let names = names.filter(|name| name.as_ref().map_or(true, |name| is_folder(name)));
        names.collect::<io::Result<_>>().map_err(at(&self.home))
    }
}

/// The logs of a keyed store as objects.
#[derive(Debug, Clone)]
pub struct KeyedObjects(Remote);

impl KeyedObjects {
    /// The names of the logs.
    pub fn names(&self) -> Result<Vec<String>, BlobError> {
        self.0.logs()
    }

    /// Puts what was appended to a log. Returns when all of it is there.
    pub fn keep(&self, name: &str, file: &Path) -> Result<(), BlobError> {
        self.0.append(name, file)
    }

    /// Removes a log.
    pub fn remove(&self, name: &str) -> Result<(), BlobError> {
        self.0.remove_log(name)
    }
}

fn folder(claim: &str, number: u32) -> String {
    format!("{claim}-{number}")
}

/// The epoch of a claim, or of that in the name of a folder: it comes first.
fn epoch_of(name: &str) -> Option<u64> {
    name.split_once('.')?.0.parse().ok()
}

/// The number of a claim's folder; none if it is another's, or not complete.
fn number_of(name: &str, claim: &str) -> Option<u32> {
    name.strip_prefix(claim)?.strip_prefix('-')?.parse().ok()
}
