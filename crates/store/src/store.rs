//! The front end of the store: the only part that the runtime uses.

use crate::backend::{Backend, BackendError, Name, SessionSummary, may_begin_runs};
use crate::depth;
use crate::error::{Durability, ReadError, SyncError};
use crate::fault::{Faults, Point};
use crate::follow::Followers;
use crate::identity::Home;
use crate::journal::AppendError;
use crate::lock::hold;
use crate::memory::MemoryBackend;
use crate::problems::Problems;
use crate::recordings::{RecordingSet, Recordings};
use crate::scheduler::{Load, Read, Request, Scrub, Shared};
use shellkeep_record::{PublicKey, Scrubbed, SessionKey};
use shellkeep_redact::Redactor;
use shellkeep_session::{Message, OutOfReach, Record, RunId, SessionId, SessionState, ShellState, StoredRun};
use std::fmt;
use std::fs::File;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::oneshot;

/// Keeps the records of all sessions. Clones are the same store; it closes itself with the last of them.
#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

struct Inner {
    kind: Kind,
    followers: Followers,
    held: Held,
}

/// What a store has of its data directory, as long as it is open.
pub(crate) struct Held {
    pub set: Arc<RecordingSet>,
    pub home: Home,
    #[expect(dead_code, reason = "it is only held")]
    pub lock: File,
}

/// What a scrub of a session masked, and what it could not.
#[derive(Debug)]
pub struct StoreScrubbed {
    /// What was masked in the recording and in files.
    pub masked: Scrubbed,
    /// Copies outside of the store.
    pub out_of_reach: Vec<OutOfReach>,
}

/// While this exists, a store's backend and recordings do not change.
#[derive(Debug)]
pub struct StoreHold {
    _release: mpsc::Sender<()>,
}

/// A store without a journal: what is appended is written at once.
struct Memory {
    backend: MemoryBackend,
    recordings: Option<Recordings>,
}

enum Kind {
    Memory { memory: Box<Mutex<Memory>>, faults: Arc<Faults>, problems: Arc<Problems> },
    Journalled { shared: Arc<Shared>, thread: Mutex<Option<JoinHandle<()>>>, durability: Durability },
}

/// When a query runs on the backend.
pub(crate) enum When {
    /// At once.
    Now,
    /// When it has everything that was appended before, of some sessions or of all.
    After(Option<Vec<SessionId>>),
}

impl Store {
    /// A store without journal and thread: memory has nothing to survive.
    pub(crate) fn in_memory(
        backend: MemoryBackend,
        recordings: Option<Recordings>,
        faults: Arc<Faults>,
        problems: Arc<Problems>,
        held: Held,
    ) -> Self {
        let memory = Box::new(Mutex::new(Memory { backend, recordings }));
        Self { inner: Inner::new(Kind::Memory { memory, faults, problems }, held) }
    }

    /// A store with a running writer.
    pub(crate) fn journalled(shared: Arc<Shared>, thread: JoinHandle<()>, durability: Durability, held: Held) -> Self {
        Self { inner: Inner::new(Kind::Journalled { shared, thread: Mutex::new(Some(thread)), durability }, held) }
    }

    /// Which data directory it is of.
    pub fn home(&self) -> &Home {
        &self.inner.held.home
    }

    /// Appends one record. When this returns `Ok`, the record survives a crash of the daemon. It costs a few
    /// microseconds and never waits for the backend, so async tasks may call it.
    pub fn append(&self, record: &Record) -> Result<(), AppendError> {
        if depth::is_unreadable(record) {
            let reason = format!("it contains JSON that is nested deeper than {} levels", depth::MAX_DEPTH);
            return Err(AppendError::Invalid { reason });
        }
        let appended = match &self.inner.kind {
            Kind::Memory { memory, .. } => {
                let mut memory = hold(memory);
                memory.backend.take_record(record);
                if let Some(recordings) = &mut memory.recordings {
                    recordings.take_now(record);
                }
                Ok(())
            }
            Kind::Journalled { shared, .. } => {
                let appended = shared.journal.append(record);
                // A start that was refused never comes to the backend, so nothing would remove it there.
                let is_kept = matches!(appended, Ok(()) | Err(AppendError::Retrying { .. }));
                if is_kept || !may_begin_runs(&record.event) {
                    shared.requests_waiting.appended(record);
                }
                shared.poke();
                appended
            }
        };
        self.inner.followers.appended(record);
        appended
    }

    /// Waits until everything appended before is on disk. One sync serves all waiting callers. With
    /// [`Durability::Process`] it returns at once.
    pub async fn sync(&self) -> Result<(), SyncError> {
        let Kind::Journalled { shared, durability: Durability::Power, .. } = &self.inner.kind else { return Ok(()) };
        let (answer, waiting) = oneshot::channel();
        shared.post(Request::Sync(answer));
        match waiting.await {
            Ok(synced) => synced.map_err(|reason| SyncError { reason }),
            Err(_) => Err(SyncError { reason: "the store is closed".to_owned() }),
        }
    }

    /// Whether answered commands must survive a power failure: attached files are synced before the record that names
    /// them.
    pub fn survives_power(&self) -> bool {
        matches!(self.inner.kind, Kind::Journalled { durability: Durability::Power, .. })
    }

    /// Current problems, as sentences; empty if everything works.
    pub fn problems(&self) -> Vec<String> {
        match &self.inner.kind {
            Kind::Memory { problems, .. } => problems.sentences(),
            Kind::Journalled { shared, .. } => {
                shared.problems.sentences().into_iter().chain(shared.feed.problems()).collect()
            }
        }
    }

    /// A session's state, or nothing if there is no such session.
    pub async fn load(&self, session_id: &SessionId) -> Result<Option<SessionState>, ReadError> {
        let failed = |error: std::io::Error| ReadError::Unavailable { reason: error.to_string() };
        self.faults().check(Point::Load).map_err(failed)?;
        let mut loaded = match &self.inner.kind {
            Kind::Memory { memory, .. } => hold(memory).backend.load(session_id)?,
            Kind::Journalled { shared, .. } => {
                let (answer, waiting) = oneshot::channel();
                shared.post(Request::Load(Load { session_id: session_id.clone(), answer }));
                waiting.await.unwrap_or_else(|_| Err(closed()))?
            }
        };
        loaded.iter_mut().for_each(|state| self.home().relocation().state(state));
        Ok(loaded)
    }

    /// Sessions ordered by id, those of one agent or all; a page begins after the last id of the page before.
    pub async fn list(
        &self,
        agent: Option<&str>,
        after: Option<&SessionId>,
        limit: usize,
    ) -> Result<Vec<SessionSummary>, ReadError> {
        let (agent, after) = (agent.map(str::to_owned), after.cloned());
        let mut listed = self.ask(move |backend| backend.list(agent.as_deref(), after.as_ref(), limit)).await?;
        let relocation = self.home().relocation();
        listed.iter_mut().for_each(|summary| summary.relocate(relocation));
        Ok(listed)
    }

    /// The same for one agent whose sessions are known: other sessions' records need not have been applied for that. A
    /// deleted session may still be listed.
    pub async fn list_of(
        &self,
        agent: &str,
        sessions: Vec<SessionId>,
        after: Option<&SessionId>,
        limit: usize,
    ) -> Result<Vec<SessionSummary>, ReadError> {
        let (agent, after) = (agent.to_owned(), after.cloned());
        self.put(When::After(Some(sessions)), move |backend| backend.list(Some(&agent), after.as_ref(), limit)).await
    }

    /// The names of all sessions and of the agents they belong to, in no order.
    pub async fn names(&self) -> Result<Vec<Name>, ReadError> {
        self.ask(|backend| backend.names()).await
    }

    /// One run of a session.
    pub async fn run(&self, session_id: &SessionId, run_id: &RunId) -> Result<Option<StoredRun>, ReadError> {
        let (about, run_id) = (session_id.clone(), run_id.clone());
        self.ask_about(session_id, move |backend| backend.run(&about, &run_id)).await
    }

    /// Runs of a session, newest first: at most `limit` that started before the record `before`, without the bytes of
    /// their outputs.
    pub async fn runs(&self, session_id: &SessionId, before: u64, limit: usize) -> Result<Vec<StoredRun>, ReadError> {
        let about = session_id.clone();
        self.ask_about(session_id, move |backend| backend.runs(&about, before, limit)).await
    }

    /// The initial state of the session's shell, for a restart.
    pub async fn first_shell(&self, session_id: &SessionId) -> Result<Option<ShellState>, ReadError> {
        let about = session_id.clone();
        let mut first = self.ask_about(session_id, move |backend| backend.first_shell(&about)).await?;
        first.iter_mut().for_each(|shell| self.home().relocation().shell(shell));
        Ok(first)
    }

    /// Sessions with a run that has started and not ended: those that a crash interrupted.
    pub async fn unfinished(&self) -> Result<Vec<SessionId>, ReadError> {
        self.ask(|backend| backend.unfinished()).await
    }

    /// A session's conversation, ordered: at most `limit` messages after the one with the number `after`.
    pub async fn messages(&self, session_id: &SessionId, after: u64, limit: usize) -> Result<Vec<Message>, ReadError> {
        let about = session_id.clone();
        self.ask_about(session_id, move |backend| backend.messages(&about, after, limit)).await
    }

    /// Where a session's recording is: a directory for [`shellkeep_record::Recording::open`]. It has everything once
    /// [`Store::flush_about`] has returned.
    pub fn recording(&self, session_id: &SessionId) -> PathBuf {
        self.inner.held.set.directory(session_id)
    }

    /// The key that proves a session's recording.
    pub fn session_key(&self, session_id: &SessionId) -> SessionKey {
        self.inner.held.set.key(session_id)
    }

    /// The key that checks the signatures of recordings.
    pub fn public_key(&self) -> PublicKey {
        self.inner.held.set.public_key()
    }

    /// Why a session's recording cannot be written at the moment, if it cannot.
    pub fn record_problem(&self, session_id: &SessionId) -> Option<String> {
        self.inner.held.set.problem(session_id)
    }

    /// Followers of new records.
    pub fn followers(&self) -> &Followers {
        &self.inner.followers
    }

    /// Waits until a session's recording has every record of it that was appended before, or cannot be written.
    pub async fn flush_about(&self, session_id: &SessionId) -> Result<(), ReadError> {
        self.flush_recordings(Some(session_id.clone()), false).await
    }

    /// The same, and signs the recording: for verifying or exporting it.
    pub async fn seal(&self, session_id: &SessionId) -> Result<(), ReadError> {
        if let Kind::Memory { memory, .. } = &self.inner.kind {
            if let Some(recordings) = &mut hold(memory).recordings {
                recordings.sign(Some(session_id), Default::default());
            }
            return Ok(());
        }
        self.flush_recordings(Some(session_id.clone()), true).await
    }

    async fn flush_recordings(&self, about: Option<SessionId>, seal: bool) -> Result<(), ReadError> {
        let Kind::Journalled { shared, .. } = &self.inner.kind else { return Ok(()) };
        let (answer, waiting) = oneshot::channel();
        shared.post(Request::Record { about, seal, answer });
        waiting.await.map_err(|_| closed())
    }

    /// Masks what the redactor finds in everything that is stored of a session: recording, outputs, state, journal. The
    /// caller appends [`shellkeep_session::Event::Scrubbed`] afterwards, with what this returns and with the state that
    /// [`crate::masked_state`] makes; and nothing else of that session in between.
    pub async fn scrub(
        &self,
        session_id: &SessionId,
        redactor: &Redactor,
        outputs: Option<PathBuf>,
    ) -> Result<StoreScrubbed, ReadError> {
        let shared = match &self.inner.kind {
            Kind::Memory { memory, .. } => {
                let masked = hold(memory).scrub(session_id, redactor, outputs)?;
                return Ok(StoreScrubbed { masked, out_of_reach: Vec::new() });
            }
            Kind::Journalled { shared, .. } => shared,
        };
        let (answer, waiting) = oneshot::channel();
        let (about, finds) = (session_id.clone(), redactor.clone());
        shared.post(Request::Scrub(Scrub { session_id: about, redactor: finds, outputs, answer }));
        let masked = waiting.await.unwrap_or_else(|_| Err(closed()))?;
        let out_of_reach = shared.feed.scrub(session_id, redactor).await?;
        Ok(StoreScrubbed { masked, out_of_reach })
    }

    /// Waits until the backend has every record appended before. Recordings may still be behind.
    pub async fn flush_backend(&self) -> Result<(), ReadError> {
        self.ask(|_| Ok(())).await
    }

    /// Waits until the backend has every record appended before, and so have all recordings that can be written.
    pub async fn flush(&self) -> Result<(), ReadError> {
        self.flush_backend().await?;
        self.flush_recordings(None, false).await
    }

    /// Freezes the backend and the recordings until the returned guard is dropped, at most for the limit. What is
    /// appended in the meantime stays in the journal.
    pub async fn hold(&self, limit: Duration) -> Result<StoreHold, ReadError> {
        let Kind::Journalled { shared, .. } = &self.inner.kind else {
            return Err(ReadError::Unavailable { reason: "it is only in memory".to_owned() });
        };
        let ((release, released), (tell, held)) = (mpsc::channel::<()>(), oneshot::channel());
        let answer = Box::new(move |_: Result<&mut dyn Backend, String>| {
            if tell.send(()).is_ok() {
                // This is the writer's thread. It ends with the sender.
                let _ = released.recv_timeout(limit);
            }
        });
        shared.post(Request::Read(Read { about: None, answer }));
        held.await.map_err(|_| closed())?;
        Ok(StoreHold { _release: release })
    }

    /// Applies everything to the backend and ends the writer. Blocks. What could not be applied stays in the journal
    /// for the next start, and an error says so. So does what could not be recorded within some seconds.
    pub fn close(&self) -> Result<(), ReadError> {
        self.inner.close();
        match self.problems() {
            problems if problems.is_empty() => Ok(()),
            problems => Err(ReadError::Unavailable { reason: problems.join(" ") }),
        }
    }

    /// How many records are only in memory, because neither the journal nor the backend takes them. Once the store is
    /// closed, they are lost.
    pub fn unwritten(&self) -> usize {
        match &self.inner.kind {
            Kind::Memory { .. } => 0,
            Kind::Journalled { shared, .. } => shared.journal.unwritten(),
        }
    }

    /// The points of this store that fail, for tests.
    #[doc(hidden)]
    pub fn faults(&self) -> &Faults {
        match &self.inner.kind {
            Kind::Memory { faults, .. } => faults,
            Kind::Journalled { shared, .. } => &shared.faults,
        }
    }

    /// Runs a query on the writer's thread, after everything appended before has been applied.
    async fn ask<T, F>(&self, question: F) -> Result<T, ReadError>
    where
        T: Send + 'static,
        F: FnOnce(&mut dyn Backend) -> Result<T, BackendError> + Send + 'static,
    {
        self.put(When::After(None), question).await
    }

    /// What it shares with the thread behind the journal; memory has none.
    pub(crate) fn shared(&self) -> Option<&Arc<Shared>> {
        match &self.inner.kind {
            Kind::Memory { .. } => None,
            Kind::Journalled { shared, .. } => Some(shared),
        }
    }

    /// The same for a query about one session, for which only that session's records must have been applied.
    pub(crate) async fn ask_about<T, F>(&self, session_id: &SessionId, question: F) -> Result<T, ReadError>
    where
        T: Send + 'static,
        F: FnOnce(&mut dyn Backend) -> Result<T, BackendError> + Send + 'static,
    {
        self.put(When::After(Some(vec![session_id.clone()])), question).await
    }

    pub(crate) async fn put<T, F>(&self, when: When, question: F) -> Result<T, ReadError>
    where
        T: Send + 'static,
        F: FnOnce(&mut dyn Backend) -> Result<T, BackendError> + Send + 'static,
    {
        let shared = match &self.inner.kind {
            Kind::Memory { memory, .. } => return Ok(question(&mut hold(memory).backend)?),
            Kind::Journalled { shared, .. } => shared,
        };
        let (answer, waiting) = oneshot::channel();
        let answer = Box::new(move |backend: Result<&mut dyn Backend, String>| {
            let result = match backend {
                Ok(backend) => question(backend).map_err(ReadError::from),
                Err(reason) => Err(ReadError::Unavailable { reason }),
            };
            // The caller may be gone.
            let _ = answer.send(result);
        });
        shared.post(match when {
            When::Now => Request::Peek(answer),
            When::After(about) => Request::Read(Read { about, answer }),
        });
        waiting.await.unwrap_or_else(|_| Err(closed()))
    }
}

fn closed() -> ReadError {
    ReadError::Unavailable { reason: "the store is closed".to_owned() }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("problems", &self.problems()).finish_non_exhaustive()
    }
}

impl Memory {
    fn scrub(
        &mut self,
        session_id: &SessionId,
        redactor: &Redactor,
        outputs: Option<PathBuf>,
    ) -> Result<Scrubbed, ReadError> {
        let failed = |error: std::io::Error| ReadError::Unavailable { reason: error.to_string() };
        let mut scrubbed = match &mut self.recordings {
            Some(recordings) => recordings.scrub(session_id, redactor).map_err(failed)?,
            None => Scrubbed::default(),
        };
        if let Some(outputs) = outputs {
            crate::scheduler::scrub_outputs(&outputs, redactor, &mut scrubbed).map_err(failed)?;
        }
        self.backend.scrub(session_id, redactor)?;
        Ok(scrubbed)
    }
}

impl Inner {
    fn new(kind: Kind, held: Held) -> Arc<Self> {
        Arc::new(Self { kind, followers: Followers::default(), held })
    }

    fn close(&self) {
        if let Kind::Journalled { shared, thread, .. } = &self.kind {
            shared.close();
            let thread = hold(thread).take();
            if thread.is_some_and(|thread| thread.join().is_err()) {
                tracing::error!("the store's writer thread panicked; the journal keeps what it did not apply");
            }
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.close();
    }
}
