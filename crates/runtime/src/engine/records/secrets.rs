//! What must be masked when a recording is shown masked: the rules, the registered secrets, and the values that the
//! session's secret variables have or had. Those are found by reading the whole recording once; what was found is kept
//! for a while, because a recording is read page after page, and then only what is new is looked through.

use crate::engine::{Inner, lock};
use crate::masking::secrets_of;
use crate::ops::OpError;
use crate::owner::Message;
use shellkeep_record::Masker;
use shellkeep_record::mask::secret_values_from;
use shellkeep_redact::Redactor;
use shellkeep_session::{SessionId, ShellState};
use std::collections::{BTreeSet, HashMap};
use std::sync::Mutex;

/// Sessions of which the secrets are remembered; more are read masked at the same time by nobody.
const REMEMBERED: usize = 64;

/// What is known of the secrets of some sessions.
#[derive(Default)]
pub(crate) struct SecretsBook {
    known: Mutex<HashMap<SessionId, Known>>,
}

#[derive(Clone, Default)]
struct Known {
    through: u64,
    values: BTreeSet<Vec<u8>>,
}

impl SecretsBook {
    fn get(&self, id: &SessionId) -> Known {
        lock(&self.known).get(id).cloned().unwrap_or_default()
    }

    fn put(&self, id: &SessionId, known: Known) {
        let mut book = lock(&self.known);
        if book.len() >= REMEMBERED {
            book.clear();
        }
        book.insert(id.clone(), known);
    }

    /// A session is gone, or its recording is another one by now.
    fn forget(&self, id: &SessionId) {
        lock(&self.known).remove(id);
    }
}

impl Inner {
    /// What is known of a session's secrets is of no more use.
    pub(crate) fn forget_secrets(&self, id: &SessionId) {
        self.secrets.forget(id);
    }

    /// What masks a session's recording for others.
    pub(super) async fn masker(&self, id: &SessionId) -> Result<Masker, OpError> {
        let (seq, shell) = self.seq_and_shell(id).await?;
        let mut known = self.secrets.get(id);
        if known.through < seq {
            let from = known.through + 1;
            known
                .values
                .extend(self.read_recording(id, move |recording| secret_values_from(recording, from, None)).await?);
            known.through = seq;
        }
        known.values.extend(secrets_of(&shell));
        self.secrets.put(id, known.clone());
        let registered = self.masking.secrets().iter().map(|secret| secret.as_bytes());
        let all = registered.chain(known.values.iter().map(Vec::as_slice));
        let redactor = self.masking.redactor().with_secrets(all);
        // Shown with less masked than was asked for would be worse than not shown.
        let redactor = redactor.map_err(|error| OpError::RecordingUnreadable {
            session_id: id.to_string(),
            reason: format!("its secrets cannot be masked: {error}"),
        })?;
        Ok(Masker::new(redactor))
    }

    /// What masks a session's output before it is returned, if the host has set so.
    pub(in crate::engine) async fn mask_of(&self, id: &SessionId) -> Result<Option<Redactor>, OpError> {
        if !self.masking.is_on() {
            return Ok(None);
        }
        let (_, shell) = self.seq_and_shell(id).await?;
        Ok(self.masking.of(&shell).map(|mask| mask.redactor().clone()))
    }

    async fn seq_and_shell(&self, id: &SessionId) -> Result<(u64, ShellState), OpError> {
        if let Some(deleted) = self.deleted_session(id) {
            return Ok((deleted.seq, ShellState::default()));
        }
        let state = match self.ask_owner(id, Message::Snapshot).await {
            Some(state) => *state?,
            None => self.load(id).await?,
        };
        Ok((state.seq, state.shell))
    }
}
