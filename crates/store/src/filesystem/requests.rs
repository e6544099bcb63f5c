//! Which run a caller's key started: `requests/{request_id}` contains the run's id, so that a lookup costs the same
//! however many runs there are.

use super::json::{failed, read};
use crate::backend::BackendError;
use shellkeep_session::{RunId, StoredRun, id};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

type Result<T> = std::result::Result<T, BackendError>;

/// The directory of the index. A session without it is from before the index existed.
pub(super) const REQUESTS: &str = "requests";
/// The temporary name of an index.
const UNFINISHED: &str = "requests.tmp";

/// Which run each key started.
pub(super) struct RunIndex<'a> {
    /// The session's directory.
    pub(super) directory: &'a Path,
    /// Whether every file has a checksum.
    pub(super) sealed: bool,
}

impl RunIndex<'_> {
    /// The run with a caller's key.
    pub(super) fn find(&self, request_id: &str) -> Result<Option<StoredRun>> {
        // Doors reject other keys; they would not be valid file names.
        if id::check(request_id).is_err() {
            return self.search(request_id);
        }
        self.ensure_index()?;
        let Some(run_id) = self.indexed(&self.directory.join(REQUESTS), request_id)? else { return Ok(None) };
        let run: Option<StoredRun> = read(&self.directory.join("runs").join(format!("{run_id}.json")), self.sealed)?;
        match run {
            Some(run) if run.request_id.as_deref() == Some(request_id) => Ok(Some(run)),
            // The files were edited. They are read as they are.
            _ => self.search(request_id),
        }
    }

    /// The keys of at most `limit` runs.
    pub(super) fn keys(&self, limit: usize) -> Result<Vec<String>> {
        self.ensure_index()?;
        let directory = self.directory.join(REQUESTS);
        let entries = fs::read_dir(&directory).map_err(|error| failed(&directory, &error))?;
        let names =
            entries.take(limit).map(|entry| entry.map(|entry| entry.file_name().to_string_lossy().into_owned()));
        names.collect::<io::Result<_>>().map_err(|error| failed(&directory, &error))
    }

    /// Notes which run a key started.
    pub(super) fn add(&self, run: &StoredRun) -> Result<()> {
        let directory = self.directory.join(REQUESTS);
        match &run.request_id {
            Some(_) if directory.is_dir() => self.note(&directory, run),
            _ => Ok(()),
        }
    }

    fn note(&self, directory: &Path, run: &StoredRun) -> Result<()> {
        let Some(request_id) = run.request_id.as_deref().filter(|text| id::check(text).is_ok()) else { return Ok(()) };
        // An unreadable one is rewritten.
        let newer = self
            .indexed(directory, request_id)
            .unwrap_or_default()
            .is_some_and(|noted| noted == run.run_id || noted.seq() > run.run_id.seq());
        if newer {
            return Ok(());
        }
        let path = directory.join(request_id);
        fs::write(&path, format!("{}\n", run.run_id)).map_err(|error| failed(&path, &error))
    }

    fn indexed(&self, directory: &Path, request_id: &str) -> Result<Option<RunId>> {
        let path = directory.join(request_id);
        let unreadable = || BackendError::Damaged { reason: format!("{REQUESTS}/{request_id} cannot be read") };
        match fs::read_to_string(&path) {
            Ok(text) => RunId::parse(text.trim_end()).map(Some).map_err(|_| unreadable()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => Err(unreadable()),
            Err(error) => Err(failed(&path, &error)),
        }
    }

    /// Creates the index of a session that has none.
    fn ensure_index(&self) -> Result<()> {
        let (whole, unfinished) = (self.directory.join(REQUESTS), self.directory.join(UNFINISHED));
        if whole.is_dir() {
            return Ok(());
        }
        fs::create_dir_all(&unfinished).map_err(|error| failed(&unfinished, &error))?;
        for path in self.run_files()? {
            if let Some(run) = read::<StoredRun>(&path, self.sealed)? {
                self.note(&unfinished, &run)?;
            }
        }
        fs::rename(&unfinished, &whole).map_err(|error| failed(&whole, &error))
    }

    /// The run with a key, found by reading all runs.
    fn search(&self, request_id: &str) -> Result<Option<StoredRun>> {
        let mut found: Option<StoredRun> = None;
        for path in self.run_files()? {
            let run: Option<StoredRun> = read(&path, self.sealed)?;
            let run = run.filter(|run| run.request_id.as_deref() == Some(request_id));
            found = found.into_iter().chain(run).max_by_key(|run| run.seq);
        }
        Ok(found)
    }

    fn run_files(&self) -> Result<Vec<PathBuf>> {
        let directory = self.directory.join("runs");
        let entries = match fs::read_dir(&directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(failed(&directory, &error)),
        };
        let mut paths = Vec::new();
        for entry in entries {
            let path = entry.map_err(|error| failed(&directory, &error))?.path();
            if path.extension().is_some_and(|extension| extension == "json") {
                paths.push(path);
            }
        }
        Ok(paths)
    }
}
