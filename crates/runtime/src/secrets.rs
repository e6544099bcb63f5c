//! What must be masked when a recording is shown masked: the rules, the registered secrets, and the values that the
//! session's secret variables have or had. Those are found by reading the whole recording once; the result is cached,
//! because a recording is read page by page, and then only new lines are searched.

use crate::given_secrets::GivenSecrets;
use crate::masking::{Masking, secrets_of};
use crate::ops::{OpError, RecordError};
use crate::recordings::Recordings;
use crate::registry::Registry;
use crate::secret_sources::SecretSources;
use crate::sync::lock;
use shellkeep_record::Masker;
use shellkeep_record::mask::secret_values_from;
use shellkeep_redact::Redactor;
use shellkeep_session::{SessionId, ShellState, Timestamp};
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

/// How many sessions' secrets are cached.
const REMEMBERED: usize = 64;

/// The secrets of sessions.
pub(crate) struct Secrets {
    masking: Arc<Masking>,
    /// What sessions are given.
    sources: Arc<SecretSources>,
    recordings: Arc<Recordings>,
    registry: Arc<Registry>,
    known: Mutex<HashMap<SessionId, Known>>,
    /// Held by the one that reads a session's recording for its secrets. Others wait for what it finds.
    gathering: Mutex<HashMap<SessionId, Weak<Gathering>>>,
}

type Gathering = tokio::sync::Mutex<()>;

/// The secret values of a session in its recording up to a record.
#[derive(Clone, Default)]
struct Known {
    /// When the session was created; another one may have its name by now. None if it is deleted.
    created_at: Option<Timestamp>,
    through: u64,
    values: BTreeSet<Vec<u8>>,
}

/// What is known of a session now.
#[derive(Default)]
struct Facts {
    created_at: Option<Timestamp>,
    /// Number of its last record.
    seq: u64,
    shell: ShellState,
    /// The secrets that it is given.
    given: GivenSecrets,
}

impl Secrets {
    /// Secrets that `masking` and the sessions themselves name, and those that sessions are given.
    pub(crate) fn new(
        masking: &Arc<Masking>,
        sources: &Arc<SecretSources>,
        recordings: &Arc<Recordings>,
        registry: &Arc<Registry>,
    ) -> Self {
        Self {
            masking: Arc::clone(masking),
            sources: Arc::clone(sources),
            recordings: Arc::clone(recordings),
            registry: Arc::clone(registry),
            known: Mutex::default(),
            gathering: Mutex::default(),
        }
    }

    fn known(&self) -> MutexGuard<'_, HashMap<SessionId, Known>> {
        lock(&self.known)
    }

    fn remember(&self, id: &SessionId, secrets: Known) {
        let mut known = self.known();
        if known.len() >= REMEMBERED {
            known.clear();
        }
        known.insert(id.clone(), secrets);
    }

    /// Forgets what is known of a session: it is gone, or its recording was rewritten.
    pub(crate) fn forget(&self, id: &SessionId) {
        self.known().remove(id);
    }

    /// What masks a session's recording for others.
    pub(crate) async fn masker(&self, id: &SessionId) -> Result<Masker, OpError> {
        let Facts { created_at, seq, shell, given } = self.facts(id).await?;
        let gathering = self.gathering(id);
        let alone = gathering.lock().await;
        let known = self.known().get(id).filter(|known| known.created_at == created_at).cloned();
        let mut known = known.unwrap_or_else(|| Known { created_at, ..Known::default() });
        if known.through < seq {
            let from = known.through + 1;
            known
                .values
                .extend(self.recordings.read(id, move |recording| secret_values_from(recording, from, None)).await?);
            known.through = seq;
        }
        known.values.extend(secrets_of(&shell));
        self.remember(id, known.clone());
        drop(alone);
        known.values.extend(given.values().map(<[u8]>::to_vec));
        self.masker_of(id, known.values)
    }

    /// What is held to read a session's recording for its secrets.
    fn gathering(&self, id: &SessionId) -> Arc<Gathering> {
        let mut all = lock(&self.gathering);
        if let Some(found) = all.get(id).and_then(Weak::upgrade) {
            return found;
        }
        all.retain(|_, one| one.strong_count() > 0);
        let made = Arc::new(Gathering::default());
        all.insert(id.clone(), Arc::downgrade(&made));
        made
    }

    /// What masks these values, and what is masked in every session.
    pub(crate) fn masker_of(&self, id: &SessionId, values: BTreeSet<Vec<u8>>) -> Result<Masker, OpError> {
        let registered = self.masking.secrets().iter().map(|secret| secret.as_bytes());
        let all = registered.chain(values.iter().map(Vec::as_slice));
        let redactor = self.masking.redactor().with_secrets(all);
        // An error is better than a page with unmasked secrets.
        let redactor = redactor.map_err(|error| {
            OpError::Record(RecordError::Unreadable {
                session_id: id.to_string(),
                reason: format!("its secrets cannot be masked: {error}"),
            })
        })?;
        Ok(Masker::new(redactor))
    }

    /// What masks a session's output before it is returned, if something does.
    pub(crate) async fn mask_of(&self, id: &SessionId) -> Result<Option<Redactor>, OpError> {
        if !self.masking.is_on() && self.sources.is_empty() {
            return Ok(None);
        }
        let Facts { shell, given, .. } = self.facts(id).await?;
        Ok(self.masking.of(&shell, given).map(|mask| mask.redactor().clone()))
    }

    async fn facts(&self, id: &SessionId) -> Result<Facts, OpError> {
        if let Some(deleted) = self.recordings.deleted(id) {
            return Ok(Facts { seq: deleted.seq, ..Facts::default() });
        }
        let state = self.registry.snapshot(id).await?;
        let (created_at, given) = (Some(state.meta.created_at), self.sources.known(&state.meta));
        Ok(Facts { created_at, seq: state.seq, shell: state.shell, given })
    }
}
