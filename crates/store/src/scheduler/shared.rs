//! What the writer shares with callers of the store: the journal, and requests.

use super::scrub::Scrub;
use crate::backend::Backend;
use crate::error::ReadError;
use crate::fault::Faults;
use crate::feed_port::FeedPort;
use crate::journal::Journal;
use crate::lock::hold;
use crate::problems::Problems;
use crate::recordings::RecordingSet;
use crate::requests::Requests;
use shellkeep_session::{SessionId, SessionState};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::Thread;
use tokio::sync::oneshot;

/// A query on the backend, or on the reason why it is not up to date.
pub(crate) type Answer = Box<dyn FnOnce(Result<&mut dyn Backend, String>) + Send>;

/// A session's state, for the caller that asked for it.
pub(crate) type Loaded = Result<Option<SessionState>, ReadError>;

/// A caller that waits to query the backend.
pub(crate) struct Read {
    /// The only sessions it is about, if it is about some only.
    pub about: Option<Vec<SessionId>>,
    /// What it does.
    pub answer: Answer,
}

/// A caller that waits for a session's state.
pub(crate) struct Load {
    pub session_id: SessionId,
    pub answer: oneshot::Sender<Loaded>,
}

impl From<Load> for Read {
    fn from(Load { session_id, answer }: Load) -> Self {
        let about = Some(vec![session_id.clone()]);
        let answer = Box::new(move |backend: Result<&mut dyn Backend, String>| {
            let loaded = backend.map_err(|reason| ReadError::Unavailable { reason });
            // The caller may be gone.
            let _ = answer.send(loaded.and_then(|backend| Ok(backend.load(&session_id)?)));
        });
        Self { about, answer }
    }
}

/// A request to the writer.
pub(crate) enum Request {
    /// Query the backend once it has everything relevant.
    Read(Read),
    /// A session's state, whether or not the backend has everything of it.
    Load(Load),
    /// Query the backend as it is.
    Peek(Answer),
    /// Sync the journal to disk.
    Sync(oneshot::Sender<Result<(), String>>),
    /// Write to the recordings what was appended before, whatever the backend has.
    Record {
        /// The only session it is about, if there is one.
        about: Option<SessionId>,
        /// Whether it is signed then.
        seal: bool,
        answer: oneshot::Sender<()>,
    },
    /// Remove segments of the journal that no reader needs any longer.
    Remove,
    /// Mask a secret in everything that is stored of a session.
    Scrub(Scrub),
}

/// What the writer thread shares with callers of the store.
pub(crate) struct Shared {
    pub journal: Journal,
    /// Armed faults.
    pub faults: Arc<Faults>,
    /// What is wrong now.
    pub problems: Arc<Problems>,
    /// Runs with keys that the backend may not have yet.
    pub requests_waiting: Requests,
    /// The reader outside the store, if there is one.
    pub feed: FeedPort,
    /// Where recordings are, for that reader.
    pub recordings: Arc<RecordingSet>,
    /// `None` once the writer has ended, so that no caller waits for an answer that will never come.
    requests: Mutex<Option<Vec<Request>>>,
    closing: AtomicBool,
    /// Whether an append must wake the writer. The journal's mutex orders it: the writer sets it before it reads the
    /// journal's end under that mutex, an append reads it after it has moved the end.
    pub(super) sleeping: AtomicBool,
    thread: OnceLock<Thread>,
}

impl Shared {
    /// State for a writer that is about to start.
    pub(crate) fn new(
        journal: Journal,
        faults: Arc<Faults>,
        problems: Arc<Problems>,
        feed: FeedPort,
        recordings: Arc<RecordingSet>,
    ) -> Self {
        Self {
            journal,
            faults,
            problems,
            requests_waiting: Requests::default(),
            feed,
            recordings,
            requests: Mutex::new(Some(Vec::new())),
            closing: AtomicBool::new(false),
            sleeping: AtomicBool::new(false),
            thread: OnceLock::new(),
        }
    }

    /// Sets the thread to wake.
    pub(crate) fn attach(&self, thread: Thread) {
        // There is one writer, so there is nothing to be set already.
        let _ = self.thread.set(thread);
    }

    /// Wakes the writer after an append, if it sleeps.
    pub(crate) fn poke(&self) {
        if self.sleeping.load(Ordering::Relaxed) && self.sleeping.swap(false, Ordering::Relaxed) {
            self.wake();
        }
    }

    /// Hands a request to the writer; it is dropped if the writer has ended.
    pub(crate) fn post(&self, request: Request) {
        if let Some(requests) = hold(&self.requests).as_mut() {
            requests.push(request);
        }
        self.wake();
    }

    /// Asks the writer to finish and end.
    pub(crate) fn close(&self) {
        self.closing.store(true, Ordering::Release);
        self.wake();
    }

    fn wake(&self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }

    pub(super) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    pub(super) fn has_requests(&self) -> bool {
        hold(&self.requests).as_ref().is_some_and(|requests| !requests.is_empty())
    }

    pub(super) fn take_requests(&self) -> Vec<Request> {
        hold(&self.requests).as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Puts requests back in front of newer ones.
    pub(super) fn put_back(&self, earlier: Vec<Request>) {
        if let Some(requests) = hold(&self.requests).as_mut() {
            requests.splice(0..0, earlier);
        }
    }
}

/// Wakes all waiting callers when the writer ends, even by a panic.
pub(super) struct Farewell(pub(super) Arc<Shared>);

impl Drop for Farewell {
    fn drop(&mut self) {
        self.0.journal.close();
        *hold(&self.0.requests) = None;
    }
}
