//! A session's name, and a session for the caller.

use crate::refusal::Refusal;
use shellkeep_protocol as wire;
use shellkeep_runtime::SessionView;
use shellkeep_session::{SessionId, id};

/// The name that a new session is given, in one part or in two.
pub fn named(user_id: Option<String>, session_id: Option<String>) -> Result<Option<SessionId>, Refusal> {
    if let Some(user_id) = &user_id {
        id::check(user_id).map_err(|error| Refusal::bad_id("user_id", &error))?;
    }
    let session_id = match (user_id, session_id) {
        (Some(user), Some(session)) => Some(SessionId::bound(&user, &session)),
        (None, Some(session)) => Some(SessionId::parse(&session)),
        (_, None) => None,
    };
    session_id.transpose().map_err(|error| Refusal::bad_id("session_id", &error))
}

/// A session, for the caller.
pub fn session(view: SessionView) -> wire::Session {
    wire::Session {
        cwd: view.cwd.to_text().into_owned(),
        live: view.live,
        shell_pid: view.shell_pid,
        generation: view.generation,
        seq: view.seq,
        deleted: view.deleted.map(|deleted| wire::Deleted {
            session_id: deleted.session_id.into(),
            by: deleted.by,
            at: deleted.deleted_at.to_string(),
        }),
        ..wire::Session::new(view.meta, view.last_active_at)
    }
}
