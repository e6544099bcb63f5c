//! After a power failure the backend can have records that neither the journal nor the recordings have: it was synced
//! and they were not. The resulting state is in the backend, so the session itself records that they are lost, with
//! that state, and its recording continues from there.

use super::background::Background;
use crate::backend::{Backend, Mark};
use crate::journal::{End, Journal};
use crate::recording_reader::Turn;
use crate::recordings::Recordings;
use crate::segment;
use shellkeep_record::Recording;
use shellkeep_session::{Event, Record, SessionId, SessionState, Timestamp};
use std::path::Path;

/// What an earlier daemon left.
pub(crate) struct Leftovers {
    /// The first segment of the journal that is still there.
    pub oldest: u64,
    /// Whether the backend may have records that the journal lost.
    pub is_ahead: bool,
}

/// Why records are missing, for their line.
const REASON: &str = "the machine lost power before the journal was on disk; what they led to was kept, and what is known of \
                      the session from here on is complete";

/// Whether the journal ends before the place up to which the backend has it.
pub(crate) fn has_lost_its_end(directory: &Path, applied: Mark) -> bool {
    // A clean stop leaves a mark at the beginning of a segment that does not exist yet.
    let length = || std::fs::metadata(segment::path(directory, applied.segment)).map_or(0, |file| file.len());
    applied.offset > 0 && length() < applied.offset
}

/// Makes every session report what its recording lacks. The journal is applied, and nothing is answered before.
pub(super) fn reconcile(backend: &mut dyn Backend, background: &mut Background, journal: &Journal, end: &End) {
    let Some(recorder) = background.recorder() else { return };
    while recorder.turn(end) == Turn::Worked {}
    let sessions = match backend.list(None, None, usize::MAX) {
        Ok(sessions) => sessions,
        Err(error) => return tracing::warn!(%error, "recordings could not be compared with the store"),
    };
    for session in sessions.into_iter().filter(|session| session.damaged.is_none()) {
        let session_id = session.meta.session_id;
        let last = recorded(recorder.reader.recordings(), &session_id);
        let Some(last) = last.filter(|last| *last < session.seq) else { continue };
        if let Ok(Some(state)) = backend.load(&session_id) {
            declare_lost(journal, &session_id, last + 1, state);
        }
    }
}

/// The last line of a session's recording; none if it is unknown now and will follow.
fn recorded(recordings: &Recordings, session_id: &SessionId) -> Option<u64> {
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

fn declare_lost(journal: &Journal, session_id: &SessionId, from: u64, state: SessionState) {
    let (seq, reason) = (state.seq + 1, REASON.to_owned());
    let event = Event::RecordsLost { from, reason, state: Box::new(state) };
    let record = Record { session_id: session_id.clone(), seq, at: Timestamp::now(), event };
    tracing::warn!(%session_id, from, through = seq - 1, "records were lost in a power failure; the resulting state \
        was not");
    if let Err(error) = journal.append(&record) {
        tracing::warn!(%session_id, %error, "cannot record the loss");
    }
}
