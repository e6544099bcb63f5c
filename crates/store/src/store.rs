//! The front of the store: the only thing that the runtime uses.

use crate::backend::{Backend, BackendError, Name, SessionSummary};
use crate::fault::Point;
use crate::journal::AppendError;
use crate::lock::hold;
use crate::memory::MemoryBackend;
use crate::open::Durability;
use crate::writer::{Read, Request, Shared};
use shellkeep_session::{Record, RunId, SessionId, SessionState, ShellState, StoredRun};
use std::fmt;
use std::fs::File;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use tokio::sync::oneshot;

/// Why a read gave nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The session's own history cannot be read. Other sessions are not touched by it.
    #[error("this session is damaged: {reason}; it can only be destroyed")]
    Damaged {
        /// What is wrong with it.
        reason: String,
    },
    /// The store does not work at the moment.
    #[error("the store does not work at the moment: {reason}; try again")]
    Unavailable {
        /// What is wrong.
        reason: String,
    },
}

/// The journal could not be forced to disk: what was appended may not survive a loss of power.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the journal could not be forced to disk: {reason}")]
pub struct SyncError {
    /// What the disk said.
    pub reason: String,
}

impl From<BackendError> for ReadError {
    fn from(error: BackendError) -> Self {
        match error {
            BackendError::Damaged { reason } => Self::Damaged { reason },
            BackendError::Failed { reason } => Self::Unavailable { reason },
        }
    }
}

/// Keeps the records of all sessions. Clones are the same store; it closes itself with the last of them.
#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

struct Inner {
    kind: Kind,
    /// Held as long as the store is open.
    _lock: File,
}

enum Kind {
    Memory(Mutex<MemoryBackend>),
    Journalled { shared: Arc<Shared>, thread: Mutex<Option<JoinHandle<()>>>, durability: Durability },
}

impl Store {
    /// A store without journal and thread: memory has nothing to survive.
    pub(crate) fn in_memory(backend: MemoryBackend, lock: File) -> Self {
        Self { inner: Arc::new(Inner { kind: Kind::Memory(Mutex::new(backend)), _lock: lock }) }
    }

    /// A store with a running writer.
    pub(crate) fn journalled(shared: Arc<Shared>, thread: JoinHandle<()>, durability: Durability, lock: File) -> Self {
        let kind = Kind::Journalled { shared, thread: Mutex::new(Some(thread)), durability };
        Self { inner: Arc::new(Inner { kind, _lock: lock }) }
    }

    /// Keeps one record. When this returns `Ok`, the record survives the death of the daemon. It costs a few
    /// microseconds and never waits for the backend, so async tasks may call it.
    pub fn append(&self, record: &Record) -> Result<(), AppendError> {
        match &self.inner.kind {
            Kind::Memory(backend) => {
                hold(backend).take_record(record);
                Ok(())
            }
            Kind::Journalled { shared, .. } => {
                let appended = shared.journal.append(record);
                shared.poke();
                appended
            }
        }
    }

    /// Waits until everything appended before is on disk. One sync serves all who wait. With [`Durability::Process`]
    /// nobody asked for that, and it returns at once.
    pub async fn sync(&self) -> Result<(), SyncError> {
        let Kind::Journalled { shared, durability: Durability::Power, .. } = &self.inner.kind else { return Ok(()) };
        let (answer, waiting) = oneshot::channel();
        shared.post(Request::Sync(answer));
        match waiting.await {
            Ok(synced) => synced.map_err(|reason| SyncError { reason }),
            Err(_) => Err(SyncError { reason: "the store is closed".to_owned() }),
        }
    }

    /// What is wrong now, in sentences; empty when all is well.
    pub fn problems(&self) -> Vec<String> {
        match &self.inner.kind {
            Kind::Memory(_) => Vec::new(),
            Kind::Journalled { shared, .. } => shared.problems.sentences(),
        }
    }

    /// A session's state, or nothing if there is no such session.
    pub async fn load(&self, session_id: &SessionId) -> Result<Option<SessionState>, ReadError> {
        let about = session_id.clone();
        self.ask_about(session_id, move |backend| backend.load(&about)).await
    }

    /// Sessions ordered by id, those of one agent or all; a page begins after the last id of the page before.
    pub async fn list(
        &self,
        agent: Option<&str>,
        after: Option<&SessionId>,
        limit: usize,
    ) -> Result<Vec<SessionSummary>, ReadError> {
        let (agent, after) = (agent.map(str::to_owned), after.cloned());
        self.ask(move |backend| backend.list(agent.as_deref(), after.as_ref(), limit)).await
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

    /// The run that a caller's key started, so that a retry never runs twice.
    pub async fn run_by_request(
        &self,
        session_id: &SessionId,
        request_id: &str,
    ) -> Result<Option<StoredRun>, ReadError> {
        let (about, request_id) = (session_id.clone(), request_id.to_owned());
        self.ask_about(session_id, move |backend| backend.run_by_request(&about, &request_id)).await
    }

    /// What the session's shell knew at its creation, for a restart.
    pub async fn first_shell(&self, session_id: &SessionId) -> Result<Option<ShellState>, ReadError> {
        let about = session_id.clone();
        self.ask_about(session_id, move |backend| backend.first_shell(&about)).await
    }

    /// Sessions with a run that has started and not ended: those that a crash interrupted.
    pub async fn unfinished(&self) -> Result<Vec<SessionId>, ReadError> {
        self.ask(|backend| backend.unfinished()).await
    }

    /// Waits until the backend has every record appended before.
    pub async fn flush(&self) -> Result<(), ReadError> {
        self.ask(|_| Ok(())).await
    }

    /// Brings everything to the backend and ends the writer. Blocks meanwhile. What could not be applied stays in the
    /// journal for the next start; an error tells that.
    pub fn close(&self) -> Result<(), ReadError> {
        self.inner.close();
        match self.problems() {
            problems if problems.is_empty() => Ok(()),
            problems => Err(ReadError::Unavailable { reason: problems.join(" ") }),
        }
    }

    /// Makes a point of this store fail the next `count` times, for tests.
    #[doc(hidden)]
    pub fn arm_fault(&self, point: Point, count: u64) {
        if let Kind::Journalled { shared, .. } = &self.inner.kind {
            shared.faults.arm(point, count);
        }
    }

    /// Runs a question where the backend is, after everything appended before has been applied.
    async fn ask<T, F>(&self, question: F) -> Result<T, ReadError>
    where
        T: Send + 'static,
        F: FnOnce(&mut dyn Backend) -> Result<T, BackendError> + Send + 'static,
    {
        self.put(None, question).await
    }

    /// The same for a question about one session, for which only that session's records must have been applied.
    async fn ask_about<T, F>(&self, session_id: &SessionId, question: F) -> Result<T, ReadError>
    where
        T: Send + 'static,
        F: FnOnce(&mut dyn Backend) -> Result<T, BackendError> + Send + 'static,
    {
        self.put(Some(session_id), question).await
    }

    async fn put<T, F>(&self, about: Option<&SessionId>, question: F) -> Result<T, ReadError>
    where
        T: Send + 'static,
        F: FnOnce(&mut dyn Backend) -> Result<T, BackendError> + Send + 'static,
    {
        let shared = match &self.inner.kind {
            Kind::Memory(backend) => return Ok(question(&mut *hold(backend))?),
            Kind::Journalled { shared, .. } => shared,
        };
        let (answer, waiting) = oneshot::channel();
        let answer = Box::new(move |backend: Result<&mut dyn Backend, String>| {
            let result = match backend {
                Ok(backend) => question(backend).map_err(ReadError::from),
                Err(reason) => Err(ReadError::Unavailable { reason }),
            };
            // Who no longer waits needs no answer.
            let _ = answer.send(result);
        });
        shared.post(Request::Read(Read { about: about.cloned(), answer }));
        waiting.await.unwrap_or_else(|_| Err(ReadError::Unavailable { reason: "the store is closed".to_owned() }))
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("problems", &self.problems()).finish_non_exhaustive()
    }
}

impl Inner {
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
