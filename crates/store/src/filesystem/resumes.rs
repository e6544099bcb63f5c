//! Messages to a session's agent that were sent with a key: `resumes/{request_id}.json` holds the numbers of their records.

use super::files::{RESUMES, SessionFiles};
use super::json::{failed, read, write};
use crate::backend::BackendError;
use shellkeep_session::{Record, ResumeMark, StoredResume, id};
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

type Result<T> = std::result::Result<T, BackendError>;

/// The messages of one batch, by their keys.
#[derive(Default)]
pub(super) struct Resumes(BTreeMap<String, StoredResume>);

impl Resumes {
    /// Applies a record about such a message. `stored` has those of earlier batches.
    pub(super) fn apply(&mut self, record: &Record, stored: &StoredResumes) {
        match ResumeMark::of(&record.event) {
            Some(ResumeMark::Begun { request_id }) => {
                let resume = StoredResume { request_id: request_id.to_owned(), seq: record.seq, ended_seq: None };
                self.0.insert(request_id.to_owned(), resume);
            }
            Some(ResumeMark::Ended { request_id }) => {
                let begun = self.0.remove(request_id).or_else(|| stored.find(request_id).ok().flatten());
                if let Some(begun) = begun {
                    self.0.insert(request_id.to_owned(), StoredResume { ended_seq: Some(record.seq), ..begun });
                }
            }
            None => {}
        }
    }

    /// Writes them.
    pub(super) fn write(&mut self, stored: &StoredResumes) -> Result<()> {
        std::mem::take(&mut self.0).values().try_for_each(|resume| stored.write(resume))
    }
}

/// The messages that are in files.
pub(super) struct StoredResumes {
    directory: PathBuf,
    /// Whether every file has a checksum.
    sealed: bool,
}

impl StoredResumes {
    /// Those of the session with these files.
    pub(super) fn of(files: &SessionFiles) -> Self {
        Self { directory: files.directory.join(RESUMES), sealed: files.sealed }
    }

    /// The message with a key.
    pub(super) fn find(&self, request_id: &str) -> Result<Option<StoredResume>> {
        if id::check(request_id).is_err() {
            return Ok(None);
        }
        read(&self.path(request_id), self.sealed)
    }

    fn write(&self, resume: &StoredResume) -> Result<()> {
        fs::create_dir_all(&self.directory).map_err(|error| failed(&self.directory, &error))?;
        write(&self.path(&resume.request_id), resume)
    }

    fn path(&self, request_id: &str) -> PathBuf {
        self.directory.join(format!("{request_id}.json"))
    }
}
