//! A session's name, and a session for the caller.

use super::check::shown;
use super::sandbox::sandbox_name;
use crate::refusal::Refusal;
use shellkeep_protocol as wire;
use shellkeep_runtime::{DEFAULT_HOLD, HeldBy, HoldView, MAX_HOLD, ReleasedHold, SessionView, TakeHold};
use shellkeep_session::{ByteString, RunId, SessionId, id};
use std::time::Duration;

/// The holder of a hold whose caller gave no name.
const ANYBODY: &str = "a person";

/// The name that a new session is given, in one part or in two.
pub fn named(user_id: Option<&str>, session_id: Option<String>) -> Result<Option<SessionId>, Refusal> {
    if let Some(user_id) = user_id {
        id::check(user_id).map_err(|error| Refusal::bad_id("user_id", &error))?;
    }
    let Some(session_id) = session_id else { return Ok(None) };
    let own = SessionId::parse(&session_id).map_err(|error| Refusal::bad_id("session_id", &error))?;
    let Some(user_id) = user_id else { return Ok(Some(own)) };
    // Each of them is an id, so only their length together can be wrong.
    let bound = SessionId::bound(user_id, &session_id);
    bound.map(Some).map_err(|error| Refusal::bad_id("user_id and session_id, as thread_USER_SESSION", &error))
}

/// A session that a parameter names.
pub fn session_id(name: &str, given: Option<&str>) -> Result<Option<SessionId>, Refusal> {
    given.map(SessionId::parse).transpose().map_err(|error| Refusal::bad_id(name, &error))
}

/// A session, for the caller.
pub fn session(view: SessionView) -> wire::Session {
    wire::Session {
        cwd: view.cwd.to_text().into_owned(),
        live: view.live,
        shell_pid: view.shell_pid,
        generation: view.generation,
        seq: view.seq,
        held: view.hold.map(held),
        sandbox: view.sandbox.map(sandbox_name),
        deleted: view.deleted.map(|deleted| wire::Deleted {
            session_id: deleted.session_id.into(),
            by: deleted.by,
            at: deleted.deleted_at.to_string(),
        }),
        ..wire::Session::new(view.meta, view.last_active_at)
    }
}

/// Who holds a session, for the caller.
pub fn held(by: HeldBy) -> wire::Held {
    wire::Held { holder: by.holder, reason: by.reason, until: by.until.to_string() }
}

/// A request for a hold.
pub fn take_hold(request: wire::HoldRequest) -> Result<TakeHold, Refusal> {
    let wire::HoldRequest { holder, reason, ttl, hold_id } = request;
    let ttl = match ttl {
        None => DEFAULT_HOLD,
        Some(seconds) => Duration::try_from_secs_f64(seconds).ok().filter(|ttl| *ttl <= MAX_HOLD).ok_or_else(|| {
            let most = MAX_HOLD.as_secs();
            Refusal::invalid(format!("ttl: {} is not a number of seconds from 0 to {most}", shown(seconds)))
        })?,
    };
    Ok(TakeHold { holder: holder.unwrap_or_else(|| ANYBODY.to_owned()), reason, ttl, hold_id })
}

/// A hold, for its holder.
pub fn hold(view: HoldView) -> wire::HoldResponse {
    let running = |(run_id, command): (RunId, ByteString)| wire::RunningNow {
        run_id: run_id.into(),
        command: command.to_text().into_owned(),
    };
    wire::HoldResponse {
        session_id: view.session_id.into(),
        hold_id: view.hold_id,
        held: held(view.by),
        waiting: view.waiting,
        running: view.running.map(running),
    }
}

/// The end of a hold, for the caller.
pub fn released(done: ReleasedHold) -> wire::ReleaseResponse {
    wire::ReleaseResponse { session_id: done.session_id.into(), released: done.released, notice: done.notice }
}
