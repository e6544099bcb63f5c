//! A session that comes to this node: its records into this node's store, and what of it could not come along.

use super::told::{self, Cwd, EndedService};
use crate::checkpoints::path;
use crate::ops::{OpError, SessionError};
use shellkeep_session::fold::ApplyError;
use shellkeep_session::relocate::Relocation;
use shellkeep_session::service::{AfterEnd, after_end};
use shellkeep_session::{
    ByteString, Claim, Event, FilesAt, Json, Record, RunId, ServiceEnd, ServiceStatus, SessionId, SessionState,
    Timestamp, plan,
};
use shellkeep_shared::{Found, KeptFiles};
use shellkeep_store::{AppendError, DeletedSession, Deletion, Store, deleted};
use std::path::Path;

/// Why records are only on the node that made them.
pub(super) const NOT_SHARED: &str = "they were not synced and exist only on the node that wrote them";

/// The node that a session comes from. It may be this one, which lost its data directory.
pub(super) struct Former {
    pub(super) node: String,
    pub(super) data_dir: String,
    /// The newest checkpoint that it copied.
    pub(super) files: Option<KeptFiles>,
}

impl Former {
    /// Who had a session before `node` took it; `None` if nobody had, or `node` itself and it has its copy.
    pub(super) fn of(state: &SessionState, node: &str, has_copy: bool, found: Option<Found>) -> Option<Self> {
        let before = state.claims.last().map(|claim| claim.node.clone());
        let (before, found) = before.filter(|before| before != node || !has_copy).zip(found)?;
        Some(Self { node: before, data_dir: found.data_dir, files: found.files })
    }
}

/// Keeps this node's copy of a session as that of a removed one, with its recording, and frees its name.
pub(super) async fn set_aside(store: &Store, data_dir: &Path, state: &SessionState) -> Result<(), OpError> {
    let seq = state.seq + 1;
    let deletion = Deletion::new(&state.meta, DeletedSession::new(&state.meta, seq, None));
    let (session_id, event) = (state.meta.session_id.clone(), deletion.event());
    kept(store.append(&Record { session_id, seq, at: Timestamp::now(), event }))?;
    // The name is used again at once; what follows must not be taken for the old session's.
    let _ = store.flush_about(&state.meta.session_id).await;
    let outputs = data_dir.join("outputs").join(state.meta.session_id.as_str());
    if let Some(Err(error)) = deletion.kept.map(|kept| deleted::keep(data_dir, &kept, &outputs)) {
        tracing::warn!(session = %state.meta.session_id, %error, "a recording that was set aside is not listed");
    }
    Ok(())
}

/// What is recorded when this node begins to own a session that no other node had.
pub(super) fn joined(claim: Claim) -> Vec<Event> {
    vec![Event::Owned { claim, because: "joined".to_owned(), state: None }]
}

/// A session's state with the paths that it has on this node.
pub(super) fn relocated(state: &SessionState, from: &Former, data_dir: &str) -> SessionState {
    let mut arrived = state.clone();
    let former = ByteString::from(from.data_dir.as_str());
    Relocation::new(&[former], &ByteString::from(data_dir)).state(&mut arrived);
    arrived
}

/// What is recorded when this node takes a session over: its state as it is here, and what did not come along.
pub(super) fn events(mut arrived: SessionState, claim: Claim, from: &str) -> Vec<Event> {
    // A node takes a session from itself after it lost its data directory.
    let after = after_move(&mut arrived, from, claim.node == from);
    let owned = Event::Owned { claim, because: "owner_gone".to_owned(), state: Some(Box::new(arrived)) };
    std::iter::once(owned).chain(after).collect()
}

/// Makes the working directory of a session again if it is in a workspace of our own and did not come along. A command that
/// expects files there finds none, which is better than no command at all.
pub(super) fn make_cwd(state: &SessionState, is_own: bool) -> Cwd {
    let (cwd, workspace) = (path(&state.shell.cwd), path(&state.meta.workspace));
    if cwd.is_dir() {
        return Cwd::There;
    }
    match is_own && cwd.starts_with(workspace) && std::fs::create_dir_all(cwd).is_ok() {
        true => Cwd::MadeEmpty,
        false => Cwd::Missing,
    }
}

/// The runs that ended, or were running, after a checkpoint was taken, oldest first. All that are known if there is none.
pub(super) fn runs_since(lines: &[Vec<u8>], files: Option<&FilesAt>) -> Vec<RunId> {
    let mut runs: Vec<(u64, RunId)> = Vec::new();
    for record in lines.iter().filter_map(|line| Record::from_json(line).ok()) {
        match record.event {
            Event::RunStarted { run_id, .. } => runs.push((record.seq, run_id)),
            Event::Checkpointed { checkpoint } if Some(&checkpoint.at) == files => {
                runs.retain(|(seq, _)| *seq > checkpoint.covers);
            }
            Event::Rewound { files: Some(at), .. } if Some(&at) == files => runs.clear(),
            _ => {}
        }
    }
    runs.into_iter().map(|(_, run_id)| run_id).collect()
}

/// What brings a session to rest whose node is gone: what ran is lost, and so are services, except for those that start again
/// by their policy. Its task starts them.
fn after_move(state: &mut SessionState, node: &str, is_lost: bool) -> Vec<Event> {
    let mut events = plan::after_crash(state, plan::Crash::Node, Timestamp::now(), |_| true);
    let mut restarting = Vec::new();
    for (service_id, service) in state.services.iter_mut().filter(|(_, service)| service.status.is_live()) {
        let gone = || {
            let reason = format!("node {node} is gone");
            ServiceEnd { exit_code: None, signal: None, at: Timestamp::now(), reason }
        };
        // One that has no processes waits to be started again since it ended, by itself or because its node was drained.
        let end = service.end.clone().filter(|_| service.stamps.is_none()).unwrap_or_else(gone);
        let was_ready = service.status == ServiceStatus::Running;
        let is_restarted = matches!(after_end(service.spec.restart, &end, was_ready, 0), AfterEnd::Restart(_));
        let ended = EndedService { id: service_id, name: &service.spec.name, node, is_restarted, is_lost };
        let notice = told::service(&ended);
        if is_restarted {
            restarting.push(notice);
            (service.status, service.stamps, service.end) = (ServiceStatus::Starting, None, Some(end));
        } else {
            let (service_id, status) = (service_id.clone(), ServiceStatus::Stopped);
            events.push(Event::ServiceEnded { service_id, status, end, notices: vec![notice] });
        }
    }
    state.pending_notices.extend(restarting);
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
        let record = Record::from_json(line).map_err(|error| damaged(error.to_string()))?;
        if state.as_ref().is_some_and(|state| record.seq <= state.seq) {
            continue;
        }
        keep(&record)?;
        follow(&mut state, &record).map_err(|error| damaged(error.to_string()))?;
    }
    Ok(state)
}

/// Applies a record to a state, or begins one with it.
pub(super) fn follow(state: &mut Option<SessionState>, record: &Record) -> Result<(), ApplyError> {
    match (state.as_mut(), &record.event) {
        (Some(state), _) => state.apply(record),
        (None, Event::RecordsLost { state: whole, .. }) => {
            *state = Some(SessionState { seq: record.seq, last_active_at: record.at, ..(**whole).clone() });
            Ok(())
        }
        (None, _) => SessionState::create(record).map(|created| *state = Some(created)),
    }
}

/// A record that stands for everything of a session up to its number.
pub(super) fn stands_for(state: &SessionState, from: u64, reason: &str) -> Record {
    let event = Event::RecordsLost { from, reason: reason.to_owned(), state: Box::new(state.clone()) };
    Record { session_id: state.meta.session_id.clone(), seq: state.seq, at: state.last_active_at, event }
}

/// What this node's store said of a record that it keeps now or soon.
pub(super) fn kept(appended: Result<(), AppendError>) -> Result<(), OpError> {
    match appended {
        Ok(()) | Err(AppendError::Retrying { .. }) => Ok(()),
        Err(error) => Err(OpError::not_stored(&error)),
    }
}
