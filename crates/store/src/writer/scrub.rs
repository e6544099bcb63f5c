//! Masking a secret in everything that is kept of a session: its recording, its outputs, the backend, the journal.

use super::Writer;
use crate::store::ReadError;
use shellkeep_record::Scrubbed;
use shellkeep_record::scrub::scrub_file;
use shellkeep_redact::Redactor;
use shellkeep_session::SessionId;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use tokio::sync::oneshot;

/// What is to be masked, and where.
pub(crate) struct Scrub {
    /// Whose.
    pub session_id: SessionId,
    /// Finds it.
    pub redactor: Redactor,
    /// The session's directory with long outputs.
    pub outputs: Option<PathBuf>,
    /// Who waits.
    pub answer: oneshot::Sender<Result<Scrubbed, ReadError>>,
}

impl Writer {
    /// Masks, and tells what was masked. `ready` is whether recordings and backend have everything.
    pub(super) fn scrub(&mut self, scrub: Scrub, ready: Result<(), String>) {
        let scrubbed = ready.and_then(|()| self.scrub_all(&scrub));
        // Who no longer waits needs no answer.
        let _ = scrub.answer.send(scrubbed.map_err(|reason| ReadError::Unavailable { reason }));
    }

    fn scrub_all(&mut self, scrub: &Scrub) -> Result<Scrubbed, String> {
        let Scrub { session_id, redactor, outputs, .. } = scrub;
        self.recover(true);
        let mut scrubbed = Scrubbed::default();
        if let Some(recordings) = &mut self.recordings {
            if recordings.needs_from().is_some() {
                let reason =
                    "a recording cannot be written at the moment, so the journal must be kept with what is in it";
                return Err(reason.to_owned());
            }
            scrubbed = recordings.scrub(session_id, redactor).map_err(|error| error.to_string())?;
        }
        if let Some(outputs) = outputs {
            scrubbed.files.extend(scrub_outputs(outputs, redactor).map_err(|error| error.to_string())?);
        }
        self.backend.scrub(session_id, redactor).map_err(|error| error.to_string())?;
        // The journal has the session's records as they were. What it has is applied, so it can begin anew.
        self.shared.journal.begin_segment().map_err(|error| error.to_string())?;
        self.catch_up()?;
        Ok(scrubbed)
    }
}

/// Masks each file of a directory; gives back the names of those in which something was masked.
pub(crate) fn scrub_outputs(directory: &Path, redactor: &Redactor) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_file() && scrub_file(&entry.path(), redactor)? {
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    names.sort_unstable();
    Ok(names)
}
