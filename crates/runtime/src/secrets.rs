//! What must be masked when a recording is shown masked: the rules, the registered secrets, and the values that the
//! session's secret variables have or had. Those are found by reading the whole recording once; the result and what masks
//! them are cached, because a recording is read page by page, and then only new lines are searched.

use crate::found_values::FoundValues;
use crate::given_secrets::GivenSecrets;
use crate::masking::{LONG_VALUES, Masking, secrets_of};
use crate::ops::{OpError, RecordError};
use crate::recordings::Recordings;
use crate::registry::Registry;
use crate::secret_sources::SecretSources;
use crate::sync::lock;
use shellkeep_record::Masker;
use shellkeep_record::mask::secret_values_from;
use shellkeep_redact::{ConfigError, Redactor};
use shellkeep_session::{SessionId, ShellState, Timestamp};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, Weak};

/// How many sessions' secrets are cached.
const REMEMBERED: usize = 64;
/// How much memory what is cached may take, by estimate.
const REMEMBERED_BYTES: usize = 128 << 20;

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
    values: FoundValues,
    /// What masks them and the secrets that the session was given then. None until somebody asks, and when a value is new.
    masker: Option<(GivenSecrets, Masker)>,
}

impl Known {
    fn add(&mut self, values: Vec<Vec<u8>>) {
        if self.values.add(values) {
            self.masker = None;
        }
    }
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
        let bytes: usize = known.values().map(|known| known.values.memory()).sum();
        if known.len() >= REMEMBERED || bytes + secrets.values.memory() > REMEMBERED_BYTES {
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
            known.add(self.recordings.read(id, move |recording| secret_values_from(recording, from, None)).await?);
            known.through = seq;
        }
        known.add(secrets_of(&shell));
        let masker = match known.masker.take().filter(|(with, _)| *with == given) {
            Some((_, masker)) => Ok(masker),
            // The others wait, and then share it.
            None => {
                let (masking, values, given) = (Arc::clone(&self.masking), known.values.clone(), given.clone());
                let build = move || masker_for(&masking, &values, &given);
                self.recordings.in_turn(id, build).await?
            }
        };
        known.masker = masker.as_ref().ok().map(|masker| (given, masker.clone()));
        self.remember(id, known);
        drop(alone);
        masker.map_err(|error| not_masked(id, error))
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

    /// What masks these values of a session, and what is masked in every session. Keeps a processor busy.
    pub(crate) fn masker_of(&self, id: &SessionId, values: Vec<Vec<u8>>) -> Result<Masker, OpError> {
        let mut found = FoundValues::default();
        found.add(values);
        masker_for(&self.masking, &found, &GivenSecrets::default()).map_err(|error| not_masked(id, error))
    }

    /// What masks a session's output before it is returned, if something does.
    pub(crate) async fn mask_of(&self, id: &SessionId) -> Result<Option<Redactor>, OpError> {
        if !self.masking.is_on() && self.sources.is_empty() {
            return Ok(None);
        }
        let Facts { shell, given, .. } = self.facts(id).await?;
        let masking = Arc::clone(&self.masking);
        let bytes = given.bytes() + secrets_of(&shell).iter().map(Vec::len).sum::<usize>();
        let build = move || masking.of(&shell, given).map(|mask| mask.redactor().clone());
        if bytes <= LONG_VALUES { Ok(build()) } else { self.recordings.in_turn(id, build).await }
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

/// What masks these values, those of the secrets that the session is given, and what is masked in every session.
fn masker_for(masking: &Masking, values: &FoundValues, given: &GivenSecrets) -> Result<Masker, ConfigError> {
    let registered = masking.secrets().iter().map(|secret| secret.as_bytes()).chain(given.values());
    values.redactor(masking.redactor(), registered).map(Masker::new)
}

/// An error is better than a page with unmasked secrets.
fn not_masked(id: &SessionId, error: ConfigError) -> OpError {
    let session_id = id.to_string();
    OpError::Record(match error {
        ConfigError::TooManyValues { bytes, most } => RecordError::TooManySecrets { session_id, bytes, most },
        error => RecordError::Unreadable { session_id, reason: format!("its secrets cannot be masked: {error}") },
    })
}
