//! Files that records name, where all nodes of a cluster can read them: outputs of runs and states of agents that are too
//! large for their records.
//!
//! A file is `ROOT/SESSION/CREATED/attached/NAME.HASH`, and is written under another name first. So what is there is complete and
//! never changes, and two nodes that both believe to own a session replace nothing of each other's.

use super::error::{BlobError, at, remove};
use super::objects::Remote;
use super::{ATTACHED, Blobs, SessionBlobs};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

impl SessionBlobs {
    /// Puts a copy of a file there, whose bytes have this hash. Returns when it is on the disk.
    pub fn attach(&self, file: &Path, hash: &str, claim: &str) -> Result<(), BlobError> {
        self.check()?;
        let directory = self.home.join(ATTACHED);
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        if let Some(remote) = self.remote.as_ref().map(|remote| remote.below(ATTACHED)) {
            let name = format!("{name}.{hash}");
            return if remote.list()?.contains_key(&name) { Ok(()) } else { remote.put(&name, file) };
        }
        let (draft, to) = (directory.join(format!("{name}.{claim}.new")), directory.join(format!("{name}.{hash}")));
        if to.exists() {
            return Ok(());
        }
        fs::create_dir_all(&directory).map_err(at(&directory))?;
        fs::copy(file, &draft).and_then(|_| File::open(&draft)?.sync_all()).map_err(at(&draft))?;
        fs::rename(&draft, &to).map_err(at(&to))?;
        for directory in [&directory, &self.home] {
            File::open(directory).and_then(|directory| directory.sync_all()).map_err(at(directory))?;
        }
        Ok(())
    }

    /// Removes all attached files of the session.
    pub fn detach_all(&self) -> Result<(), BlobError> {
        self.check()?;
        self.remote.as_ref().map_or(Ok(()), |remote| remote.below(ATTACHED).remove_all())?;
        remove(&self.home.join(ATTACHED))
    }
}

impl Blobs {
    /// Brings the attached file with this hash to `to`, which does not exist. Returns whether there is one.
    pub fn bring_attached(&self, session_id: &str, hash: &str, to: &Path) -> Result<bool, BlobError> {
        let found = self.attached(session_id)?.into_iter().find(|(_, _, found)| found == hash);
        let Some((path, ..)) = found else { return Ok(false) };
        self.copy(session_id, &path, to)?;
        Ok(true)
    }

    /// Brings all attached files that `directory` lacks.
    pub fn bring_all_attached(&self, session_id: &str, directory: &Path) -> Result<(), BlobError> {
        for (path, name, _) in self.attached(session_id)? {
            let to = directory.join(name);
            if !to.exists() {
                self.copy(session_id, &path, &to)?;
            }
        }
        Ok(())
    }

    /// Removes the attached files with these names.
    pub fn detach(&self, session_id: &str, names: &[String]) -> Result<(), BlobError> {
        for (path, ..) in self.attached(session_id)?.into_iter().filter(|(_, name, _)| names.contains(name)) {
            match self.remote(session_id) {
                Some(remote) => remote.remove(&path.to_string_lossy())?,
                None => fs::remove_file(&path).map_err(at(&path))?,
            }
        }
        Ok(())
    }

    fn remote(&self, session_id: &str) -> Option<Remote> {
        self.objects.as_ref().map(|objects| Remote::new(objects, format!("{session_id}/")))
    }

    /// Brings what [`Self::attached`] found.
    fn copy(&self, session_id: &str, from: &Path, to: &Path) -> Result<(), BlobError> {
        match self.remote(session_id) {
            Some(remote) => remote.get(&from.to_string_lossy(), to),
            None => copy(from, to).map_err(at(to)),
        }
    }

    /// The attached files of a session, each with its name and its hash. Of objects the path is the name.
    fn attached(&self, session_id: &str) -> Result<Vec<(PathBuf, String, String)>, BlobError> {
        let mut paths = Vec::new();
        if let Some(remote) = self.remote(session_id) {
            let is_attached = |name: &String| name.split('/').nth(1) == Some(ATTACHED);
            paths.extend(remote.list()?.into_keys().filter(is_attached).map(PathBuf::from));
        } else {
            for created in entries(&self.root.join(session_id))? {
                paths.extend(entries(&created.join(ATTACHED))?);
            }
        }
        let named = |path: PathBuf| {
            let name = path.file_name()?.to_string_lossy().into_owned();
            let (name, hash) = name.rsplit_once('.').filter(|(_, hash)| *hash != "new")?;
            Some((path, name.to_owned(), hash.to_owned()))
        };
        Ok(paths.into_iter().filter_map(named).collect())
    }
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let draft = to.with_extension("new");
    if let Some(directory) = to.parent() {
        fs::create_dir_all(directory)?;
    }
    fs::copy(from, &draft)?;
    fs::rename(draft, to)
}

fn entries(directory: &Path) -> Result<Vec<PathBuf>, BlobError> {
    let paths = match fs::read_dir(directory) {
        Ok(entries) => entries.map(|entry| entry.map(|entry| entry.path())).collect(),
        Err(error) if [io::ErrorKind::NotFound, io::ErrorKind::NotADirectory].contains(&error.kind()) => Ok(Vec::new()),
        Err(error) => Err(error),
    };
    paths.map_err(at(directory))
}
