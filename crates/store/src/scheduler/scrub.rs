//! Masking a secret in everything that is kept of a session: its recording, its outputs, the backend, the journal.

use super::Scheduler;
use crate::reader::Reader as _;
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

impl Scheduler {
    /// The journal has the session's records as they were, so it begins anew, and what it had must be applied and recorded
    /// before it goes. `ready` is whether the backend has everything.
    pub(super) fn begin_scrub(&mut self, scrub: Scrub, ready: Result<(), String>) {
        let begun = ready.and_then(|()| {
            self.shared.journal.begin_segment().map_err(|error| error.to_string())?;
            self.catch_up(true)
        });
        match begun {
            Ok(()) => {
                self.scrubs.push((self.backend.reader.mark().segment, scrub));
                self.scrub_those_ready();
            }
            Err(reason) => scrub.fail(reason),
        }
    }

    /// Does the scrubs for which the recordings have everything.
    pub(super) fn scrub_those_ready(&mut self) {
        let recorded = self.recorder.as_ref().map_or(u64::MAX, |recorder| recorder.reader.mark().segment);
        let ready: Vec<(u64, Scrub)> = self.scrubs.extract_if(.., |(segment, _)| *segment <= recorded).collect();
        for (_, scrub) in ready {
            match self.scrub_all(&scrub) {
                // Who no longer waits needs no answer.
                Ok(scrubbed) => drop(scrub.answer.send(Ok(scrubbed))),
                Err(reason) => scrub.fail(reason),
            }
        }
    }

    fn scrub_all(&mut self, scrub: &Scrub) -> Result<Scrubbed, String> {
        let Scrub { session_id, redactor, outputs, .. } = scrub;
        self.recover(true);
        if self.stalled_at().is_some() {
            let reason = "a recording cannot be written at the moment, so the journal must be kept with what is in it";
            return Err(reason.to_owned());
        }
        let mut scrubbed = match &mut self.recorder {
            Some(recorder) => {
                recorder.reader.recordings().scrub(session_id, redactor).map_err(|error| error.to_string())?
            }
            None => Scrubbed::default(),
        };
        if let Some(outputs) = outputs {
            scrub_outputs(outputs, redactor, &mut scrubbed).map_err(|error| error.to_string())?;
        }
        self.backend.reader.backend.scrub(session_id, redactor).map_err(|error| error.to_string())?;
        self.remove_segments();
        Ok(scrubbed)
    }
}

impl Scrub {
    fn fail(self, reason: String) {
        // Who no longer waits needs no answer.
        let _ = self.answer.send(Err(ReadError::Unavailable { reason }));
    }
}

/// Masks each file of a directory, in the order of their names, and takes down what became of them.
pub(crate) fn scrub_outputs(directory: &Path, redactor: &Redactor, scrubbed: &mut Scrubbed) -> io::Result<()> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    let mut files = Vec::new();
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            files.push((entry.file_name().to_string_lossy().into_owned(), entry.path()));
        }
    }
    files.sort_unstable();
    for (name, path) in files {
        let is_masked = scrub_file(&path, redactor)?;
        scrubbed.look_at(&name, &path, is_masked)?;
    }
    Ok(())
}
