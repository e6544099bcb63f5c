//! A session's state without a secret. Values are masked in place; a variable or function whose name contains the
//! secret is removed, because no shell would accept the masked name.

use crate::backend::BackendError;
use shellkeep_record::Masker;
use shellkeep_redact::Redactor;
use shellkeep_session::{ByteString, Event, Json, Record, SessionMeta, SessionState, ShellState, StoredRun};
use std::collections::BTreeMap;

/// A session's state with everything masked that the redactor finds. Its name and agent are not masked.
pub fn masked_state(state: &SessionState, redactor: &Redactor) -> Result<SessionState, BackendError> {
    let masker = Masker::of_values(redactor.clone());
    let bare = SessionState { shell: ShellState::default(), ..state.clone() };
    let mut masked = masked(&bare, &masker, "the state")?;
    masked.shell = shell(&state.shell, &masker)?;
    masked.meta.session_id = state.meta.session_id.clone();
    masked.meta.agent = state.meta.agent.clone();
    masked.meta.by = state.meta.by.clone();
    if let (Some(shown), Some(saved)) = (&mut masked.agent_state, &state.agent_state)
        && let shellkeep_session::Content::Inline(bytes) = &saved.content
    {
        // The bytes are the agent's own; they are masked as bytes, whatever they say.
        shown.content = shellkeep_session::Content::Inline(redactor.redact(bytes.as_bytes()).into());
    }
    Ok(masked)
}

/// A record with everything masked that the redactor finds. Its session, number and time are not.
pub fn masked_record(record: &Record, redactor: &Redactor) -> Result<Record, BackendError> {
    let masker = Masker::of_values(redactor.clone());
    let event = match &record.event {
        Event::SessionCreated { meta, shell: first } => {
            let mut shown: Box<SessionMeta> = masked(meta, &masker, "a record")?;
            (shown.session_id, shown.agent, shown.by) = (meta.session_id.clone(), meta.agent.clone(), meta.by.clone());
            Event::SessionCreated { meta: shown, shell: Box::new(shell(first, &masker)?) }
        }
        Event::Owned { claim, because, state: Some(state) } => Event::Owned {
            claim: claim.clone(),
            because: because.clone(),
            state: Some(Box::new(masked_state(state, redactor)?)),
        },
        Event::RecordsLost { from, reason, state } => Event::RecordsLost {
            from: *from,
            reason: String::from_utf8_lossy(&redactor.redact(reason.as_bytes())).into_owned(),
            state: Box::new(masked_state(state, redactor)?),
        },
        event => masked(event, &masker, "a record")?,
    };
    Ok(Record { session_id: record.session_id.clone(), event, ..*record })
}

/// A shell's state with everything masked.
pub(crate) fn shell(shell: &ShellState, masker: &Masker) -> Result<ShellState, BackendError> {
    let mut shell = shell.clone();
    retain(&mut shell.variables, masker);
    retain(&mut shell.functions, masker);
    retain(&mut shell.aliases, masker);
    masked(&shell, masker, "the shell's state")
}

/// A run with everything masked.
pub(crate) fn run(run: &StoredRun, masker: &Masker) -> Result<StoredRun, BackendError> {
    let mut shown: StoredRun = masked(run, masker, "a run")?;
    shown.run_id = run.run_id.clone();
    shown.by = run.by.clone();
    Ok(shown)
}

/// Whether a name contains the secret.
pub(crate) fn is_in_name(name: &[u8], masker: &Masker) -> bool {
    masker.redactor().redact(name) != name
}

fn retain<V>(entries: &mut BTreeMap<ByteString, V>, masker: &Masker) {
    entries.retain(|name, _| !is_in_name(name.as_bytes(), masker));
}

/// Any value with everything masked.
pub(crate) fn masked<T: Json>(value: &T, masker: &Masker, what: &str) -> Result<T, BackendError> {
    let failed = |error: serde_json::Error| BackendError::Failed {
        reason: format!("cannot mask {what} ({error}); the secret may be part of a name"),
    };
    let mut json = value.to_tree().map_err(failed)?;
    masker.mask_value(&mut json);
    T::from_tree(&json).map_err(failed)
}
