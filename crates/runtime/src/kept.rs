//! Files beside the records, compared with the hash in the record before they are served. A file that passed is not read
//! again until the system says that it was changed.

use crate::engine::Inner;
use crate::ops::OpError;
use shellkeep_record::beside;
use shellkeep_session::{FileSum, Output, SessionId, StoredRun};
use std::collections::HashMap;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Files that are remembered. A node serves few at a time; one that is forgotten is read once more.
const MOST_REMEMBERED: usize = 1024;

/// Files that were as recorded when they were last read.
#[derive(Debug, Default)]
pub(crate) struct Checked(Mutex<HashMap<PathBuf, Stamp>>);

/// What the system says of a file. Whoever writes to it changes the last, and cannot set it.
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
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn stamp(metadata: &Metadata, sum: &FileSum) -> Stamp {
    let place = (metadata.dev(), metadata.ino());
    Stamp { sum: sum.clone(), place, changed: (metadata.ctime(), metadata.ctime_nsec()) }
}

impl Inner {
    /// What a file beside the records is now: as it was recorded, or as a scrub left it. None if it is neither.
    pub(crate) async fn sum_in_force(
        self: &Arc<Self>,
        id: &SessionId,
        name: &str,
        recorded: FileSum,
    ) -> Result<io::Result<Option<FileSum>>, OpError> {
        let path = self.output_directory(id).join(name);
        let found = self.compare(path.clone(), recorded).await;
        if !matches!(found, Ok(None)) {
            return Ok(found);
        }
        let wanted = name.to_owned();
        let told = self.read_recording(id, move |recording| recording.told_of(&wanted)).await?;
        Ok(match told {
            Some(sum) => self.compare(path, sum).await,
            None => Ok(None),
        })
    }

    async fn compare(self: &Arc<Self>, path: PathBuf, sum: FileSum) -> io::Result<Option<FileSum>> {
        let inner = Arc::clone(self);
        let compared = tokio::task::spawn_blocking(move || {
            let is_same = inner.checked.is_as_recorded(&path, &sum)?;
            Ok(is_same.then_some(sum))
        });
        compared.await.unwrap_or_else(|error| Err(io::Error::other(error)))
    }

    /// Refuses an output that is not the one that was recorded.
    pub(crate) async fn check_output(
        self: &Arc<Self>,
        id: &SessionId,
        file: &Path,
        output: &Output,
    ) -> Result<(), OpError> {
        let Some(hash) = &output.hash else { return Ok(()) };
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let recorded = FileSum { bytes: output.kept, hash: hash.clone() };
        match self.sum_in_force(id, &name, recorded).await? {
            Ok(None) => Err(OpError::FileChanged { session_id: id.to_string(), file: name }),
            // Whoever reads it next meets the same error and knows what to say.
            Ok(Some(_)) | Err(_) => Ok(()),
        }
    }

    /// The same for an output of which only the recording tells.
    pub(crate) async fn check_told(self: &Arc<Self>, id: &SessionId, file: &Path) -> Result<(), OpError> {
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let wanted = name.clone();
        let told = self.read_recording(id, move |recording| recording.told_of(&wanted)).await?;
        let Some(told) = told else { return Ok(()) };
        match self.compare(file.to_owned(), told).await {
            Ok(None) => Err(OpError::FileChanged { session_id: id.to_string(), file: name }),
            Ok(Some(_)) | Err(_) => Ok(()),
        }
    }

    /// Takes outputs that are not those that were recorded out of a run, and says so in their place.
    pub(crate) async fn check_run(self: &Arc<Self>, id: &SessionId, run: &mut StoredRun) -> Result<(), OpError> {
        let Some(result) = &mut run.result else { return Ok(()) };
        let directory = self.output_directory(id);
        for (name, output) in [("stdout", &mut result.stdout), ("stderr", &mut result.stderr)] {
            let file = directory.join(format!("{}.{name}", run.run_id));
            match self.check_output(id, &file, output).await {
                Err(error @ OpError::FileChanged { .. }) => {
                    let words = format!("[shellkeep: {error}]\n");
                    let kept = words.len() as u64;
                    *output = Output { total: output.total, kept, inline: Some(words.into()), ..Output::default() };
                }
                other => other?,
            }
        }
        Ok(())
    }
}
