//! After a loss of power the backend can hold records that neither the journal nor the recordings have: it was forced to
//! disk and they were not. What those records led to is in the backend's state, so the session says itself that they are
//! lost, with that state, and its recording goes on from there.

use super::Scheduler;
use crate::backend::Mark;
use crate::recording_reader::Turn;
use crate::segment;
use shellkeep_record::Recording;
use shellkeep_session::{Event, Record, SessionId, Timestamp};
use std::path::Path;

/// Why records are missing, in the line that tells of them.
const REASON: &str = "the machine lost power before the journal was on disk; what they led to was kept, and what is known of \
                      the session from here on is complete";

/// Whether the journal ends before the place up to which the backend has it.
pub(crate) fn has_lost_its_end(directory: &Path, applied: Mark) -> bool {
    // A stop that was orderly leaves a mark at the beginning of a segment that is not there yet.
    let length = || std::fs::metadata(segment::path(directory, applied.segment)).map_or(0, |file| file.len());
    applied.offset > 0 && length() < applied.offset
}

impl Scheduler {
    /// Has every session say what its recording lacks. Done before anything is answered.
    pub(super) fn reconcile(&mut self) {
        if !std::mem::take(&mut self.is_ahead) {
            return;
        }
        tracing::warn!("the store has more than the journal: the machine lost power; recordings are compared with it");
        let end = self.shared.journal.end();
        if let Err(error) = self.catch_up(true) {
            tracing::warn!(error, "the journal could not be applied; recordings are compared at the next start");
            return;
        }
        if self.recorder.is_none() {
            return;
        }
        while self.record_turn(&end) == Turn::Worked {}
        let sessions = match self.backend.reader.backend.list(None, None, usize::MAX) {
            Ok(sessions) => sessions,
            Err(error) => return tracing::warn!(%error, "recordings could not be compared with the store"),
        };
        for session in sessions.into_iter().filter(|session| session.damaged.is_none()) {
            let session_id = session.meta.session_id;
            let Some(last) = self.recorded(&session_id).filter(|last| *last < session.seq) else { continue };
            self.declare_lost(&session_id, last + 1);
        }
    }

    /// How far a session's recording has come; none if it cannot be told now and comes later.
    fn recorded(&mut self, session_id: &SessionId) -> Option<u64> {
        let recordings = self.recorder.as_mut()?.reader.recordings();
        if recordings.is_missed(session_id) {
            return None;
        }
        let last = Recording::open(&recordings.directory(session_id)).and_then(|recording| recording.last());
        match last {
            Ok(line) => Some(line.map_or(0, |line| line.through())),
            Err(shellkeep_record::ReadError::Missing { .. }) => Some(0),
            Err(_) => None,
        }
    }

    fn declare_lost(&mut self, session_id: &SessionId, from: u64) {
        let Ok(Some(state)) = self.backend.reader.backend.load(session_id) else { return };
        let (seq, reason) = (state.seq + 1, REASON.to_owned());
        let event = Event::RecordsLost { from, reason, state: Box::new(state) };
        let record = Record { session_id: session_id.clone(), seq, at: Timestamp::now(), event };
        tracing::warn!(%session_id, from, through = seq - 1, "records were lost with the power, and what they led to was not");
        if let Err(error) = self.shared.journal.append(&record) {
            tracing::warn!(%session_id, %error, "that could not be written down");
        }
    }
}
