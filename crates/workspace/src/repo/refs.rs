//! Tags, `HEAD` and the list of commits whose parents are gone. Every file is replaced as a whole: a reader sees the old
//! one or the new one.

use super::error::at;
use super::{RepoError, Result, names};
use gix_hash::ObjectId;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// What git wants at the head of `packed-refs`; ours hold no annotated tags, and git looks for itself where it must.
const PACKED_HEAD: &str = "# pack-refs with: sorted \n";

/// What names of refs that are tags begin with.
const TAGS: &str = "refs/tags/";

/// Where git passes over files; what is half written has this ending.
const LOCK: &str = ".lock";

/// The refs of one repository.
#[derive(Debug)]
pub(super) struct Refs {
    directory: PathBuf,
}

impl Refs {
    pub(super) fn new(directory: &Path) -> Self {
        Self { directory: directory.to_owned() }
    }

    /// All refs by their whole name, `HEAD` not among them.
    pub(super) fn all(&self) -> Result<BTreeMap<String, ObjectId>> {
        let mut refs = self.packed()?;
        for (name, path) in self.loose()? {
            match fs::read_to_string(&path) {
                Ok(text) => refs.extend(ObjectId::from_hex(text.trim_end().as_bytes()).ok().map(|id| (name, id))),
                // Packed or dropped since the directory was read.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(at(&path)(error)),
            }
        }
        Ok(refs)
    }

    /// All tags by name.
    pub(super) fn tags(&self) -> Result<Vec<(String, ObjectId)>> {
        let tag = |(name, id): (String, ObjectId)| name.strip_prefix(TAGS).map(|name| (name.to_owned(), id));
        Ok(self.all()?.into_iter().filter_map(tag).collect())
    }

    /// Writes a tag under a name that no other has, and gives that name.
    pub(super) fn add_tag(&self, wanted: &str, commit: ObjectId) -> Result<String> {
        let wanted = names::tag(wanted);
        let packed_path = self.directory.join("packed-refs");
        let packed = read(&packed_path)?.unwrap_or_default();
        for number in 1u32.. {
            let name = if number == 1 { wanted.clone() } else { format!("{wanted}-{number}") };
            let path = self.directory.join(TAGS).join(&name);
            let is_packed = packed.lines().any(|line| line.get(41..).and_then(|r| r.strip_prefix(TAGS)) == Some(&name));
            if is_packed || path.symlink_metadata().is_ok() {
                continue;
            }
            replace(&path, format!("{commit}\n").as_bytes(), false)?;
            return Ok(name);
        }
        Err(super::error::damaged("there is no free name for a tag"))
    }

    /// Adds tags, all at once and on the disk when it returns. One of the same name is replaced.
    pub(super) fn add_all(&self, tags: &BTreeMap<String, ObjectId>) -> Result<()> {
        let mut refs = self.packed()?;
        refs.extend(tags.iter().map(|(name, id)| (format!("{TAGS}{name}"), *id)));
        replace(&self.directory.join("packed-refs"), packed_text(&refs).as_bytes(), true)?;
        fs::File::open(&self.directory).and_then(|directory| directory.sync_all()).map_err(at(&self.directory))
    }

    /// Puts the refs that `keep` wants into one file and removes the loose ones; the others are gone.
    pub(super) fn pack(&self, keep: impl Fn(&str, ObjectId) -> bool) -> Result<u64> {
        let all = self.all()?;
        let kept: BTreeMap<_, _> =
            all.iter().filter(|(name, id)| keep(name, **id)).map(|(name, id)| (name.clone(), *id)).collect();
        replace(&self.directory.join("packed-refs"), packed_text(&kept).as_bytes(), true)?;
        for (name, path) in self.loose()? {
            // Only what was seen: another may have come meanwhile.
            if all.contains_key(&name) {
                fs::remove_file(&path).map_err(at(&path))?;
            }
        }
        Ok((all.len() - kept.len()) as u64)
    }

    /// How many refs are files of their own.
    pub(super) fn loose_count(&self) -> Result<u64> {
        Ok(self.loose()?.len() as u64)
    }

    /// The commit that `HEAD` names; `None` before the first.
    pub(super) fn head(&self) -> Result<Option<ObjectId>> {
        let path = self.directory.join("HEAD");
        Ok(read(&path)?.and_then(|text| ObjectId::from_hex(text.trim_end().as_bytes()).ok()))
    }

    pub(super) fn set_head(&self, commit: Option<ObjectId>) -> Result<()> {
        let text = commit.map_or_else(|| UNBORN.to_owned(), |commit| format!("{commit}\n"));
        replace(&self.directory.join("HEAD"), text.as_bytes(), false)
    }

    /// Commits whose parents are gone.
    pub(super) fn shallow(&self) -> Result<BTreeSet<ObjectId>> {
        let text = read(&self.directory.join("shallow"))?.unwrap_or_default();
        Ok(text.lines().filter_map(|line| ObjectId::from_hex(line.as_bytes()).ok()).collect())
    }

    pub(super) fn set_shallow(&self, commits: &BTreeSet<ObjectId>) -> Result<()> {
        let path = self.directory.join("shallow");
        if commits.is_empty() {
            return match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(at(&path)(error)),
                _ => Ok(()),
            };
        }
        let text: String = commits.iter().map(|commit| format!("{commit}\n")).collect();
        replace(&path, text.as_bytes(), true)
    }

    fn packed(&self) -> Result<BTreeMap<String, ObjectId>> {
        let text = read(&self.directory.join("packed-refs"))?.unwrap_or_default();
        let line = |line: &str| {
            let (id, name) = line.split_once(' ')?;
            Some((name.to_owned(), ObjectId::from_hex(id.as_bytes()).ok()?))
        };
        Ok(text.lines().filter_map(line).collect())
    }

    fn loose(&self) -> Result<Vec<(String, PathBuf)>> {
        let mut found = Vec::new();
        let mut open = vec![(self.directory.join("refs"), "refs".to_owned())];
        while let Some((directory, prefix)) = open.pop() {
            for entry in fs::read_dir(&directory).map_err(at(&directory))? {
                let entry = entry.map_err(at(&directory))?;
                let Ok(name) = entry.file_name().into_string() else { continue };
                let whole = format!("{prefix}/{name}");
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    open.push((entry.path(), whole));
                } else if !name.ends_with(LOCK) {
                    found.push((whole, entry.path()));
                }
            }
        }
        Ok(found)
    }
}

/// `HEAD` before the first commit.
pub(super) const UNBORN: &str = "ref: refs/heads/main\n";

/// The text of `packed-refs`.
pub(super) fn packed_text(refs: &BTreeMap<String, ObjectId>) -> String {
    let lines = refs.iter().map(|(name, id)| format!("{id} {name}\n"));
    std::iter::once(PACKED_HEAD.to_owned()).chain(lines).collect()
}

fn read(path: &Path) -> Result<Option<String>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(at(path)(error)),
    }
}

/// Replaces a file as a whole. `durable` waits for the disk: where something is removed afterwards.
pub(super) fn replace(path: &Path, bytes: &[u8], durable: bool) -> Result<()> {
    let mut lock = path.as_os_str().to_owned();
    lock.push(LOCK);
    let lock = PathBuf::from(lock);
    let write = || {
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).open(&lock)?;
        file.write_all(bytes)?;
        if durable {
            file.sync_all()?;
        }
        fs::rename(&lock, path)
    };
    write().map_err(|source| {
        let _ = fs::remove_file(&lock);
        RepoError::Io { path: path.to_owned(), source }
    })
}
