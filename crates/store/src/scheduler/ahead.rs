//! A session's state without waiting for the backend: what the backend has, and the records that it was not passed yet. A
//! session that was just created, or used a moment ago, wakes without a transaction for it.

use super::backend_reader::BackendReader;
use super::shared::{Load, Read};
use crate::backend::{Backend, Entry, Known, RecordAction, begin, step};
use crate::journal::End;
use crate::reader::Follower;
use shellkeep_session::{SessionId, SessionState};

/// How much of the journal is read to see whether it concerns a query, and kept until it is applied. More than this is
/// applied at once: it is a large batch already.
pub(super) const AHEAD_BYTES: u64 = 1024 * 1024;

/// Answers with the states, and returns the queries that only a backend that has everything can answer.
pub(super) fn answer(backend: &mut Follower<BackendReader>, end: &End, loads: Vec<Load>) -> Vec<Read> {
    loads.into_iter().filter_map(|load| answer_one(backend, end, load)).collect()
}

fn answer_one(backend: &mut Follower<BackendReader>, end: &End, load: Load) -> Option<Read> {
    // Applying meets the same error and reports it.
    if !backend.read_ahead(end, AHEAD_BYTES).unwrap_or(false) {
        return Some(load.into());
    }
    let (reader, waiting) = backend.waiting_of(&load.session_id);
    match state(&mut *reader.backend, &load.session_id, &waiting) {
        Ok(state) => {
            // The caller may be gone.
            let _ = load.answer.send(Ok(state));
            None
        }
        Err(Damaged) => Some(load.into()),
    }
}

/// The session is damaged, or would be by one of the records. What is wrong with it is written down by the backend, so that
/// is asked once it has them.
struct Damaged;

/// The state after these records.
fn state(
    backend: &mut dyn Backend,
    session_id: &SessionId,
    waiting: &[&Entry],
) -> Result<Option<SessionState>, Damaged> {
    let mut state = backend.load(session_id).map_err(|_| Damaged)?;
    for entry in waiting {
        let Entry::Record(record) = entry else { return Err(Damaged) };
        let known = state.as_ref().map(|state| Known { seq: state.seq, damaged: false });
        match step(known, record) {
            RecordAction::Skip => {}
            RecordAction::Create => state = Some(begin(record).map_err(|_| Damaged)?.0),
            RecordAction::Apply => state.as_mut().ok_or(Damaged)?.apply(record).map_err(|_| Damaged)?,
            RecordAction::Destroy => state = None,
            RecordAction::Damage { .. } => return Err(Damaged),
        }
    }
    Ok(state)
}
