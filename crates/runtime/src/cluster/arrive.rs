//! A session that comes to this node: its records into this node's store, and what of it could not come along.

use super::told;
use crate::notices;
use crate::ops::{OpError, SessionError};
use shellkeep_session::relocate::Relocation;
use shellkeep_session::{
    ByteString, Claim, Event, Record, ServiceEnd, ServiceStatus, SessionId, SessionState, Timestamp, plan,
};
use shellkeep_store::{AppendError, DeletedSession, Deletion, Store};

/// The node that a session comes from.
pub(super) struct Former {
    pub(super) node: String,
    pub(super) data_dir: String,
}

/// This node.
pub(super) struct Here<'a> {
    pub(super) node: &'a str,
    pub(super) data_dir: &'a str,
}

/// Keeps this node's copy of a session as that of a removed one, with its recording, and frees its name.
pub(super) async fn set_aside(store: &Store, state: &SessionState) -> Result<(), OpError> {
    let seq = state.seq + 1;
    let deletion = Deletion::new(&state.meta, DeletedSession::new(&state.meta, seq, None));
    let (session_id, event) = (state.meta.session_id.clone(), deletion.event());
    kept(store.append(&Record { session_id, seq, at: Timestamp::now(), event }))?;
    // The name is used again at once; what follows must not be taken for the old session's.
    let _ = store.flush_about(&state.meta.session_id).await;
    Ok(())
}

/// What is recorded when this node begins to own a session. If the session comes from another node, its state as it is here
/// is part of that, and what did not come along follows.
pub(super) fn events(state: &SessionState, claim: Claim, from: Option<Former>, here: &Here<'_>) -> Vec<Event> {
    let Some(Former { node, data_dir }) = from else {
        return vec![Event::Owned { claim, because: "joined".to_owned(), state: None }];
    };
    let mut arrived = state.clone();
    let relocation = Relocation::new(&[ByteString::from(data_dir.as_str())], &ByteString::from(here.data_dir));
    relocation.state(&mut arrived);
    // Checkpoints are on the node that took them.
    arrived.files = None;
    arrived.pending_notices.push(told::arrived(&node, here.node));
    let after = after_move(&arrived, &node);
    let owned = Event::Owned { claim, because: "owner_gone".to_owned(), state: Some(Box::new(arrived)) };
    std::iter::once(owned).chain(after).collect()
}

/// What brings a session to rest whose node is gone: what ran is lost, services have ended.
fn after_move(state: &SessionState, node: &str) -> Vec<Event> {
    let mut events = plan::after_crash(state, plan::Crash::Daemon, Timestamp::now(), |_| true);
    for (service_id, service) in state.services.iter().filter(|(_, service)| service.status.is_live()) {
        let reason = format!("node {node} is gone");
        let end = ServiceEnd { exit_code: None, signal: None, at: Timestamp::now(), reason };
        let notices = vec![notices::service_ended(service_id, &service.spec, &end)];
        let status = ServiceStatus::Stopped;
        events.push(Event::ServiceEnded { service_id: service_id.clone(), status, end, notices });
    }
    events
}

/// Applies records to a state, and gives each new one to `keep` before.
pub(super) fn fold(
    id: &SessionId,
    mut state: Option<SessionState>,
    lines: &[Vec<u8>],
    keep: impl Fn(&Record) -> Result<(), OpError>,
) -> Result<Option<SessionState>, OpError> {
    let damaged = |reason: String| OpError::from(SessionError::Damaged { session_id: id.to_string(), reason });
    for line in lines {
        let record: Record = serde_json::from_slice(line).map_err(|error| damaged(error.to_string()))?;
        if state.as_ref().is_some_and(|state| record.seq <= state.seq) {
            continue;
        }
        keep(&record)?;
        let applied = match (&mut state, &record.event) {
            (Some(state), _) => state.apply(&record),
            (None, Event::RecordsLost { state: whole, .. }) => {
                state = Some(SessionState { seq: record.seq, last_active_at: record.at, ..(**whole).clone() });
                Ok(())
            }
            (None, _) => SessionState::create(&record).map(|created| state = Some(created)),
        };
        applied.map_err(|error| damaged(error.to_string()))?;
    }
    Ok(state)
}

/// What this node's store said of a record that it keeps now or soon.
pub(super) fn kept(appended: Result<(), AppendError>) -> Result<(), OpError> {
    match appended {
        Ok(()) | Err(AppendError::Retrying { .. }) => Ok(()),
        Err(error) => Err(OpError::StoreUnavailable { reason: error.to_string() }),
    }
}
