//! Files attached to records, compared with the hash in the record before they are returned. A file that matched is not
//! read again until its metadata changes.

use crate::cluster::SharedFiles;
use crate::data_dir::DataDir;
use crate::ops::{AgentStateView, MAX_EVENT_PAGE, OpError, RecordError};
use crate::recordings::Recordings;
use crate::state_file;
use crate::sync::lock;
use crate::tasks;
use shellkeep_record::{Filter, Line, Page, beside};
use shellkeep_session::{AgentState, Content, FileSum, Output, SessionId, StoredRun};
use std::collections::HashMap;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// How many files are remembered. A node serves few at a time; others are read again.
const MOST_REMEMBERED: usize = 1024;

/// The files that records name.
pub(crate) struct KeptFiles {
    data_dir: Arc<DataDir>,
    recordings: Arc<Recordings>,
    /// Where other nodes put those of sessions that were theirs.
    shared: Option<Arc<SharedFiles>>,
    checked: Arc<Checked>,
}

/// Files that matched when they were last read.
#[derive(Debug, Default)]
struct Checked(Mutex<HashMap<PathBuf, Stamp>>);

/// A file's metadata. Writing to it changes the last field, which cannot be set.
#[derive(Debug, PartialEq, Eq)]
struct Stamp {
    sum: FileSum,
    place: (u64, u64),
    changed: (i64, i64),
}

impl Checked {
    /// Whether a file is as recorded. Reads it, unless it was read before and not changed since.
    fn is_as_recorded(&self, path: &Path, sum: &FileSum) -> io::Result<bool> {
        let stamp = stamp(&fs::metadata(path)?, sum);
        if self.files().get(path) == Some(&stamp) {
            return Ok(true);
        }
        if !beside::is_as_recorded(path, sum)? {
            return Ok(false);
        }
        let mut files = self.files();
        if files.len() >= MOST_REMEMBERED {
            files.clear();
        }
        files.insert(path.to_owned(), stamp);
        Ok(true)
    }

    fn files(&self) -> std::sync::MutexGuard<'_, HashMap<PathBuf, Stamp>> {
        lock(&self.0)
    }
}

fn stamp(metadata: &Metadata, sum: &FileSum) -> Stamp {
    let place = (metadata.dev(), metadata.ino());
    Stamp { sum: sum.clone(), place, changed: (metadata.ctime(), metadata.ctime_nsec()) }
}

impl KeptFiles {
    /// The files in `data_dir` that `recordings` name.
    pub(crate) fn new(data_dir: Arc<DataDir>, recordings: Arc<Recordings>, shared: Option<Arc<SharedFiles>>) -> Self {
        Self { data_dir, recordings, shared, checked: Arc::default() }
    }

    /// Brings a file that another node wrote, if this one does not have it. What cannot be brought is missing.
    async fn fetch(&self, id: &SessionId, path: &Path, hash: Option<&str>) {
        let (Some(shared), Some(hash)) = (&self.shared, hash) else { return };
        if !path.exists()
            && let Err(reason) = shared.fetch(id, hash, path).await
        {
            tracing::warn!(session = %id, reason, "a file of a session could not be brought from where nodes share them");
        }
    }

    /// The current hash of an attached file: as recorded, or as a scrub left it. None if neither matches.
    async fn sum_in_force(
        &self,
        id: &SessionId,
        name: &str,
        recorded: FileSum,
    ) -> Result<io::Result<Option<FileSum>>, OpError> {
        let path = self.data_dir.outputs(id).join(name);
        let found = self.compare(path.clone(), recorded).await;
        if !matches!(found, Ok(None)) {
            return Ok(found);
        }
        let wanted = name.to_owned();
        let told = self.recordings.read(id, move |recording| recording.told_of(&wanted)).await?;
        Ok(match told {
            Some(sum) => self.compare(path, sum).await,
            None => Ok(None),
        })
    }

    async fn compare(&self, path: PathBuf, sum: FileSum) -> io::Result<Option<FileSum>> {
        let checked = Arc::clone(&self.checked);
        let compared = tasks::blocking(move || {
            let is_same = checked.is_as_recorded(&path, &sum)?;
            Ok(is_same.then_some(sum))
        });
        compared.await.unwrap_or_else(|error| Err(io::Error::other(error)))
    }

    /// Rejects an output that does not match its record.
    pub(crate) async fn check_output(&self, id: &SessionId, file: &Path, output: &Output) -> Result<(), OpError> {
        let Some(hash) = &output.hash else { return Ok(()) };
        self.fetch(id, file, Some(hash)).await;
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let recorded = FileSum { bytes: output.kept, hash: hash.clone() };
        match self.sum_in_force(id, &name, recorded).await? {
            Ok(None) => Err(OpError::Record(RecordError::FileChanged { session_id: id.to_string(), file: name })),
            // The next reader gets the same error and reports it.
            Ok(Some(_)) | Err(_) => Ok(()),
        }
    }

    /// The same for an output that only the recording names.
    pub(crate) async fn check_told(&self, id: &SessionId, file: &Path) -> Result<(), OpError> {
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let wanted = name.clone();
        let told = self.recordings.read(id, move |recording| recording.told_of(&wanted)).await?;
        let Some(told) = told else { return Ok(()) };
        match self.compare(file.to_owned(), told).await {
            Ok(None) => Err(OpError::Record(RecordError::FileChanged { session_id: id.to_string(), file: name })),
            Ok(Some(_)) | Err(_) => Ok(()),
        }
    }

    /// Removes outputs that do not match their record from a run, and says so instead.
    pub(crate) async fn check_run(&self, id: &SessionId, run: &mut StoredRun) -> Result<(), OpError> {
        let Some(result) = &mut run.result else { return Ok(()) };
        let directory = self.data_dir.outputs(id);
        for (name, output) in [("stdout", &mut result.stdout), ("stderr", &mut result.stderr)] {
            let file = directory.join(format!("{}.{name}", run.run_id));
            match self.check_output(id, &file, output).await {
                Err(error @ OpError::Record(RecordError::FileChanged { .. })) => {
                    let words = format!("[shellkeep: {error}]\n");
                    let kept = words.len() as u64;
                    *output = Output { total: output.total, kept, inline: Some(words.into()), ..Output::default() };
                }
                other => other?,
            }
        }
        Ok(())
    }

    /// The bytes of an agent's state.
    pub(crate) async fn agent_state(&self, id: &SessionId, state: AgentState) -> Result<AgentStateView, OpError> {
        let AgentState { version, media_type, content } = state;
        let (name, length, hash) = match content {
            Content::Inline(bytes) => return Ok(AgentStateView { version, media_type, bytes: bytes.0 }),
            Content::File { name, bytes, hash } => (name, bytes, hash),
        };
        let path = self.data_dir.outputs(id).join(&name);
        self.fetch(id, &path, hash.as_deref()).await;
        let read = tasks::blocking(move || {
            let read = state_file::read(&path, length, hash.as_deref());
            (read, path)
        });
        let failed =
            |reason: String| OpError::StoreUnavailable { reason: format!("cannot read the agent's state: {reason}") };
        let bytes = match read.await? {
            (Ok(bytes), _) => bytes,
            (Err(state_file::ReadError::Gone), _) => {
                return Err(OpError::Record(RecordError::AgentStateReclaimed { version, node: None }));
            }
            (Err(state_file::ReadError::Failed(error)), _) => return Err(failed(error.to_string())),
            // A scrub masks old versions in their files; the result is the state now.
            (Err(state_file::ReadError::Damaged(_)), path) if self.was_scrubbed(id, &name).await => {
                tasks::blocking(move || std::fs::read(path)).await?.map_err(|error| failed(error.to_string()))?
            }
            (Err(state_file::ReadError::Damaged(reason)), _) => {
                tracing::error!(session = %id, version, reason, "a state of the agent is damaged");
                return Err(OpError::Record(RecordError::AgentStateDamaged { version, reason }));
            }
        };
        Ok(AgentStateView { version, media_type, bytes })
    }

    /// Whether a scrub masked something in this file of a session.
    async fn was_scrubbed(&self, id: &SessionId, file: &str) -> bool {
        let filter = Filter { types: vec!["scrubbed".to_owned()], ..Filter::default() };
        let file = file.to_owned();
        let names =
            |line: &Line| line.data["files"].as_array().is_some_and(|files| files.contains(&file.clone().into()));
        let mut after = 0;
        loop {
            let (wanted, from) = (filter.clone(), after);
            let page = self.recordings.read(id, move |recording| recording.page(from, MAX_EVENT_PAGE, &wanted)).await;
            match page {
                Ok(page) if page.lines.iter().any(names) => return true,
                Ok(Page { next: Some(next), .. }) => after = next,
                _ => return false,
            }
        }
    }
}
