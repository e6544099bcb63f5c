//! A store of objects in place of a directory that all nodes mount. A session's part of it is copied to a directory of this node
//! before it is read, and from there after it was changed. The names of objects are those of the files below the directory.

use super::error::{BlobError, ObjectsError, at, remove};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::fs::{self, File};
use std::io::{self, Write};
use std::ops::Range;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// How often to copy again what its owner replaced meanwhile.
const ATTEMPTS: u32 = 3;

/// What a file's name ends with until it is complete.
const DRAFT: &str = ".new";

/// The file that names what is complete. It is put last, and read first.
const TAGS: &str = "packed-refs";

/// The directory of packs, whose names are sums of their bytes.
const PACKS: &str = "objects/pack/";

/// What the name of an object with bytes that were appended has before their place in the whole.
const APPENDED: char = '+';

/// An object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    /// Its name, with slashes.
    pub name: String,
    /// How many bytes it has.
    pub bytes: u64,
}

/// A store of objects. What it has put, everybody sees at once. Its methods wait, so they are not called in a task.
pub trait Objects: Debug + Send + Sync {
    /// All objects whose names begin with `prefix`.
    fn list(&self, prefix: &str) -> Result<Vec<Object>, ObjectsError>;
    /// Puts a part of a file there: whole, or not at all. It replaces an object of this name.
    fn put(&self, name: &str, file: &Path, range: Range<u64>) -> Result<(), ObjectsError>;
    /// Writes the bytes of an object.
    fn get(&self, name: &str, to: &mut dyn Write) -> Result<(), ObjectsError>;
    /// Removes an object, if there is one.
    fn remove(&self, name: &str) -> Result<(), ObjectsError>;
}

/// The objects whose names begin with those of a directory.
#[derive(Debug, Clone)]
pub(super) struct Remote {
    objects: Arc<dyn Objects>,
    /// With a slash at its end.
    prefix: String,
}

impl Remote {
    pub(super) fn new(objects: &Arc<dyn Objects>, prefix: String) -> Self {
        Self { objects: Arc::clone(objects), prefix }
    }

    /// The part below a directory of it.
    pub(super) fn below(&self, name: &str) -> Self {
        Self::new(&self.objects, format!("{}{name}/", self.prefix))
    }

    /// What is there, by names without the prefix. One that would lead out of a directory is left out.
    pub(super) fn list(&self) -> Result<BTreeMap<String, u64>, BlobError> {
        let is_inside = |name: &str| {
            !name.is_empty() && Path::new(name).components().all(|part| matches!(part, Component::Normal(_)))
        };
        let found = self.objects.list(&self.prefix)?.into_iter();
        let found = found.filter_map(|it| Some((it.name.strip_prefix(&self.prefix)?.to_owned(), it.bytes)));
        Ok(found.filter(|(name, _)| is_inside(name)).collect())
    }

    /// Puts a whole file there.
    pub(super) fn put(&self, name: &str, file: &Path) -> Result<(), BlobError> {
        let length = fs::metadata(file).map_err(at(file))?.len();
        Ok(self.objects.put(&self.name(name), file, 0..length)?)
    }

    /// Brings an object to a file, which appears when it is complete.
    pub(super) fn get(&self, name: &str, to: &Path) -> Result<(), BlobError> {
        let draft = draft_of(to);
        if let Some(directory) = to.parent() {
            fs::create_dir_all(directory).map_err(at(directory))?;
        }
        let mut file = File::create(&draft).map_err(at(&draft))?;
        self.objects.get(&self.name(name), &mut file)?;
        fs::rename(&draft, to).map_err(at(to))
    }

    pub(super) fn remove(&self, name: &str) -> Result<(), BlobError> {
        Ok(self.objects.remove(&self.name(name))?)
    }

    /// Removes everything.
    pub(super) fn remove_all(&self) -> Result<(), BlobError> {
        self.list()?.keys().try_for_each(|name| self.remove(name))
    }

    fn name(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// Makes a directory like what is there. What its owner replaces meanwhile is looked for again.
    pub(super) fn fetch(&self, directory: &Path) -> Result<(), BlobError> {
        for _ in 1..ATTEMPTS {
            if self.fetch_once(directory).is_ok() {
                return Ok(());
            }
        }
        self.fetch_once(directory)
    }

    fn fetch_once(&self, directory: &Path) -> Result<(), BlobError> {
        // The tags first: the packs that they need were there before them, so a list from now on has those.
        for name in self.list()?.keys().filter(|name| !name.starts_with(PACKS)) {
            self.get(name, &directory.join(name))?;
        }
        let there = self.list()?;
        for (name, bytes) in there.iter().filter(|(name, _)| name.starts_with(PACKS)) {
            let path = directory.join(name);
            if fs::metadata(&path).map_or(true, |file| file.len() != *bytes) {
                self.get(name, &path)?;
            }
        }
        for name in files(directory)?.keys().filter(|name| !there.contains_key(*name)) {
            let path = directory.join(name);
            fs::remove_file(&path).map_err(at(&path))?;
        }
        // Objects have no empty directories, and a repository has some.
        for empty in [PACKS, "objects/info", "refs/tags", "refs/heads"].map(|name| directory.join(name)) {
            fs::create_dir_all(&empty).map_err(at(&empty))?;
        }
        Ok(())
    }

    /// Makes what is there like a directory: first the packs, last the file of tags, and then what is no longer needed.
    pub(super) fn push(&self, directory: &Path) -> Result<(), BlobError> {
        let (there, here) = (self.list()?, files(directory)?);
        let mut order: Vec<&String> = here.keys().filter(|name| !name.ends_with(DRAFT)).collect();
        order.sort_by_key(|name| (!name.starts_with(PACKS), *name == TAGS));
        for name in order {
            let is_there = name.starts_with(PACKS) && there.get(name) == here.get(name);
            if !is_there {
                self.put(name, &directory.join(name))?;
            }
        }
        there.keys().filter(|name| !here.contains_key(*name)).try_for_each(|name| self.remove(name))
    }

    /// The names of files to which bytes are appended.
    pub(super) fn logs(&self) -> Result<Vec<String>, BlobError> {
        Ok(self.list()?.into_keys().filter(|name| !name.contains(APPENDED)).collect())
    }

    /// Puts what a file has and the objects of its name lack: each part that was appended is an object, with its place in the
    /// whole in its name.
    pub(super) fn append(&self, name: &str, file: &Path) -> Result<(), BlobError> {
        let length = fs::metadata(file).map_err(at(file))?.len();
        let there = whole(name, &self.list()?).into_iter().map(|(_, bytes)| bytes).sum::<u64>();
        let object = if there == 0 { name.to_owned() } else { format!("{name}{APPENDED}{there:020}") };
        match there < length {
            true => Ok(self.objects.put(&self.name(&object), file, there..length)?),
            false => Ok(()),
        }
    }

    /// Removes a file to which bytes were appended. Its beginning goes first: without it there is no file.
    pub(super) fn remove_log(&self, name: &str) -> Result<(), BlobError> {
        let is_part = |other: &&String| other.strip_prefix(name).is_some_and(|rest| rest.starts_with(APPENDED));
        let there = self.list()?;
        self.remove(name)?;
        there.keys().filter(is_part).try_for_each(|part| self.remove(part))
    }

    /// Brings all files to which bytes are appended.
    pub(super) fn fetch_logs(&self, directory: &Path) -> Result<(), BlobError> {
        let there = self.list()?;
        remove(directory)?;
        fs::create_dir_all(directory).map_err(at(directory))?;
        for name in there.keys().filter(|name| !name.contains(APPENDED)) {
            let (to, draft) = (directory.join(name), draft_of(&directory.join(name)));
            let mut file = File::create(&draft).map_err(at(&draft))?;
            for (part, _) in whole(name, &there) {
                self.objects.get(&self.name(&part), &mut file)?;
            }
            fs::rename(&draft, &to).map_err(at(&to))?;
        }
        Ok(())
    }
}

/// The objects that make up a file, in order, as far as none is missing.
fn whole(name: &str, there: &BTreeMap<String, u64>) -> Vec<(String, u64)> {
    let mut parts: Vec<(String, u64)> = Vec::new();
    let (mut next, mut length) = (name.to_owned(), 0);
    while let Some(bytes) = there.get(&next).filter(|bytes| **bytes > 0) {
        parts.push((next, *bytes));
        length += bytes;
        next = format!("{name}{APPENDED}{length:020}");
    }
    parts
}

fn draft_of(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!("{name}{DRAFT}"))
}

/// All files below a directory, with their sizes; none if it is not there.
fn files(directory: &Path) -> Result<BTreeMap<String, u64>, BlobError> {
    let (mut found, mut waiting) = (BTreeMap::new(), vec![String::new()]);
    while let Some(below) = waiting.pop() {
        let path = directory.join(&below);
        let entries = match fs::read_dir(&path) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(at(&path)(error)),
        };
        for entry in entries {
            let entry = entry.map_err(at(&path))?;
            let name = format!("{below}{}", entry.file_name().to_string_lossy());
            let facts = entry.metadata().map_err(at(&path))?;
            if facts.is_dir() {
                waiting.push(format!("{name}/"));
            } else {
                found.insert(name, facts.len());
            }
        }
    }
    Ok(found)
}
