//! Masks a secret in everything that is stored of a session: its recording, its outputs, the backend, the journal.

use crate::backend::Backend;
use crate::error::ReadError;
use crate::recordings::Recordings;
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
    pub session_id: SessionId,
    /// Finds it.
    pub redactor: Redactor,
    /// The session's directory with long outputs.
    pub outputs: Option<PathBuf>,
    pub answer: oneshot::Sender<Result<Scrubbed, ReadError>>,
}

impl Scrub {
    pub(super) fn answer(self, scrubbed: Result<Scrubbed, String>) {
        // The caller may be gone.
        let _ = self.answer.send(scrubbed.map_err(|reason| ReadError::Unavailable { reason }));
    }
}

/// Scrubs that wait until no reader needs the journal before a segment.
#[derive(Default)]
pub(super) struct WaitingScrubs(Vec<(u64, Scrub)>);

impl WaitingScrubs {
    pub(super) fn push(&mut self, segment: u64, scrub: Scrub) {
        self.0.push((segment, scrub));
    }

    /// Those for which all readers have passed the segment. If there is a reason why none can be done, all get it.
    pub(super) fn take_ready(&mut self, passed: u64, refusal: Option<String>) -> Vec<Scrub> {
        if let Some(reason) = refusal {
            self.0.drain(..).for_each(|(_, scrub)| scrub.answer(Err(reason.clone())));
        }
        self.0.extract_if(.., |(segment, _)| *segment <= passed).map(|(_, scrub)| scrub).collect()
    }
}

/// Masks it everywhere. The backend and the recordings have everything that was appended before.
pub(super) fn scrub(
    scrub: &Scrub,
    backend: &mut dyn Backend,
    recordings: Option<&mut Recordings>,
) -> Result<Scrubbed, String> {
    let Scrub { session_id, redactor, outputs, .. } = scrub;
    let mut scrubbed = match recordings {
        Some(recordings) if recordings.needs_from().is_some() => {
            let reason = "a recording cannot be written at the moment, so the journal must be kept with what is in it";
            return Err(reason.to_owned());
        }
        Some(recordings) => recordings.scrub(session_id, redactor).map_err(|error| error.to_string())?,
        None => Scrubbed::default(),
    };
    if let Some(outputs) = outputs {
        scrub_outputs(outputs, redactor, &mut scrubbed).map_err(|error| error.to_string())?;
    }
    backend.scrub(session_id, redactor).map_err(|error| error.to_string())?;
    Ok(scrubbed)
}

/// Masks each file of a directory, in the order of their names, and notes their new hashes.
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
