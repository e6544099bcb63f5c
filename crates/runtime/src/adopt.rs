//! After a daemon died: which of its services still run and are taken over, which have ended, and which of its commands
//! are lost. Nothing is run again unless its restart policy says so, and no other data directory's processes are
//! touched.

use crate::notices;
use crate::sandboxes::Sandboxes;
use crate::services::{cage_name, end_of};
use shellkeep_process::proc::{self, Stat};
use shellkeep_process::service::{ServiceExit, left_exit};
use shellkeep_session::service::{AfterEnd, after_end};
use shellkeep_session::{
    Event, LeftProcess, Record, Service, ServiceEnd, ServiceId, ServiceStatus, SessionId, SessionState, Stamp,
    Timestamp, plan,
};
use shellkeep_store::{Arrival, ReadError, Store};
use std::collections::{HashMap, HashSet};
use std::path::Path;

/// A service that was live when the daemon died.
#[derive(Debug)]
pub(crate) struct Left {
    pub(crate) session_id: SessionId,
    /// The agent that it belongs to.
    pub(crate) agent: Option<String>,
    pub(crate) service_id: ServiceId,
    /// What is known of it.
    pub(crate) service: Service,
    /// How it ended, if it has.
    pub(crate) end: Option<ServiceEnd>,
    /// Whether it belongs to another data directory.
    pub(crate) is_left_alone: bool,
}

/// Sessions with unfinished runs or services.
pub(crate) async fn unfinished(store: &Store) -> Result<Vec<SessionState>, String> {
    let mut states = Vec::new();
    for id in store.unfinished().await.map_err(|error| error.to_string())? {
        match store.load(&id).await {
            Ok(Some(state)) => states.push(state),
            Ok(None) => {}
            Err(ReadError::Damaged { reason }) => tracing::warn!(session = %id, reason, "set aside"),
            Err(error) => return Err(error.to_string()),
        }
    }
    Ok(states)
}

/// Has those that still run end with the rest of the dead daemon's processes. They start again if their policy says so.
fn end_all(left: &mut [Left], reason: &str) {
    for left in left.iter_mut().filter(|left| left.end.is_none()) {
        let (at, reason) = (Timestamp::now(), reason.to_owned());
        left.end = Some(ServiceEnd { exit_code: None, signal: None, at, reason });
    }
}

/// Has those end that run as another user than they would be started as now: all if agents have users only from now on, or no
/// longer, and otherwise those of which that is found.
pub(crate) fn end_of_other_users(left: &mut [Left], states: &[SessionState], sandboxes: &Sandboxes) {
    if sandboxes.has_changed_users() {
        return end_all(left, "agents have users of their own now, or no longer");
    }
    for left in left.iter_mut().filter(|left| left.end.is_none()) {
        let state = states.iter().find(|state| state.meta.session_id == left.session_id);
        let user = left.service.stamps.as_ref().and_then(|stamps| proc::user_of(stamps.main.pid));
        if state.is_some_and(|state| !sandboxes.is_user_of(state, user)) {
            end_all(std::slice::from_mut(left), "it did not run as its agent's user");
        }
    }
}

/// What happened to the services that were live. Reads `/proc` and what their keepers left behind.
pub(crate) fn services_left(states: &[SessionState], boot_id: &str, directory: &Path, arrival: Arrival) -> Vec<Left> {
    let live = states.iter().flat_map(|state| {
        let services = state.services.iter().filter(|(_, service)| service.status.is_live());
        services.map(move |(service_id, service)| (state, service_id, service))
    });
    let look = |(state, service_id, service): (&SessionState, &ServiceId, &Service)| {
        let directory = directory.join(state.meta.session_id.as_str()).join(service_id.as_str());
        Left {
            session_id: state.meta.session_id.clone(),
            agent: state.meta.agent.clone(),
            service_id: service_id.clone(),
            service: service.clone(),
            end: how_it_ended(service, boot_id, &directory, arrival),
            is_left_alone: is_left_alone(service, boot_id, arrival),
        }
    };
    live.map(look).collect()
}

/// Whether it belongs to another data directory now: never taken over, ended or restarted here.
fn is_left_alone(service: &Service, boot_id: &str, arrival: Arrival) -> bool {
    match arrival {
        Arrival::Same => false,
        Arrival::Moved => service.stamps.as_ref().is_some_and(|stamps| stamps.boot_id == boot_id),
        Arrival::Copied => true,
    }
}

fn how_it_ended(service: &Service, boot_id: &str, directory: &Path, arrival: Arrival) -> Option<ServiceEnd> {
    let unknown =
        |reason: &str| ServiceEnd { exit_code: None, signal: None, at: Timestamp::now(), reason: reason.to_owned() };
    if is_left_alone(service, boot_id, arrival) {
        return Some(unknown(match arrival {
            Arrival::Copied => "this data directory is a copy; the service belongs to the original and was left alone",
            _ => {
                "the data directory was moved to another file system or restored; what the service ran there was left alone"
            }
        }));
    }
    let Some(stamps) = &service.stamps else {
        // It waited to be restarted, or was being started for the first time.
        let died = || unknown("the daemon died while it was being started");
        return Some(service.end.clone().unwrap_or_else(died));
    };
    if stamps.boot_id != boot_id {
        return Some(unknown("the machine restarted"));
    }
    if is_alive(stamps.keeper) {
        return None;
    }
    let exit = left_exit(directory).map(end_of);
    Some(exit.unwrap_or_else(|| unknown("it was killed while no daemon ran; its exit code is unknown")))
}

fn is_alive(stamp: Stamp) -> bool {
    Stat::read(stamp.pid).is_some_and(|stat| stat.started_ticks == stamp.started_ticks)
}

/// The cages of those that still run: everything else of the dead daemon is killed.
pub(crate) fn cages_to_keep(left: &[Left]) -> HashSet<String> {
    let alive = left.iter().filter(|left| left.end.is_none());
    alive.map(|left| cage_name(&left.session_id, &left.service_id)).collect()
}

/// Records every run that had not ended as lost, and every service that has ended as ended; returns the services that
/// need a supervisor: those that run, and those to restart. `ended` are the processes that the sweep has just killed.
pub(crate) fn settle(
    store: &Store,
    states: Vec<SessionState>,
    left: Vec<Left>,
    boot_id: &str,
    ended: &HashSet<u32>,
) -> Result<Vec<Left>, String> {
    let was_ended = |process: &LeftProcess| process.boot_id != boot_id || ended.contains(&process.pid);
    let mut states: HashMap<SessionId, SessionState> =
        states.into_iter().map(|state| (state.meta.session_id.clone(), state)).collect();
    for state in states.values_mut() {
        for event in plan::after_crash(state, plan::Crash::Daemon, Timestamp::now(), was_ended) {
            follow(store, state, event)?;
        }
    }
    let mut needed = Vec::new();
    for left in left {
        match (stays_ended(&left), states.get_mut(&left.session_id)) {
            (Some(event), Some(state)) => follow(store, state, event)?,
            _ => needed.push(left),
        }
    }
    Ok(needed)
}

fn stays_ended(left: &Left) -> Option<Event> {
    let end = left.end.clone()?;
    let Service { spec, status, .. } = &left.service;
    if left.is_left_alone {
        let notices = vec![notices::service_left_alone(&left.service_id, spec, &end)];
        let status = ServiceStatus::Stopped;
        return Some(Event::ServiceEnded { service_id: left.service_id.clone(), status, end, notices });
    }
    let AfterEnd::Stay(status) = after_end(spec.restart, &end, *status == ServiceStatus::Running, 0) else {
        return None;
    };
    let notices = vec![notices::service_ended(&left.service_id, spec, &end)];
    Some(Event::ServiceEnded { service_id: left.service_id.clone(), status, end, notices })
}

/// How a service ended that was just alive.
pub(crate) fn ended_just_now(directory: &Path) -> ServiceEnd {
    end_of(left_exit(directory).unwrap_or(ServiceExit::Unknown))
}

fn follow(store: &Store, state: &mut SessionState, event: Event) -> Result<(), String> {
    let session_id = state.meta.session_id.clone();
    let record = Record { session_id, seq: state.seq + 1, at: Timestamp::now(), event };
    store.append(&record).map_err(|error| error.to_string())?;
    state.apply(&record).map_err(|error| error.to_string())
}
