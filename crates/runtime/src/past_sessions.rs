//! Sessions that only history has: this node never had them, or no longer has them. What is read of their recording is
//! copied to a file first, so that it is read like any other.

use crate::ops::OpError;
use crate::sync::lock;
use crate::work::Work;
use shellkeep_record::{Bad, PublicKey};
use shellkeep_session::{Message, RunId, SessionId, StoredRun};
use std::collections::HashMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// The directory of copies, in the data directory.
const COPIES: &str = "history";

/// Copies that are kept, because a recording is read page by page.
const MOST_COPIES: usize = 16;

/// A session that only history has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PastSession {
    pub session_id: SessionId,
    pub agent: Option<String>,
    /// Number of its last record.
    pub seq: u64,
    /// How far it is proven: changes when there is more of it.
    pub signed: u64,
}

/// Which events are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PastPart {
    /// Those that are signed.
    Proven,
    /// All of them.
    All,
}

/// What a copy has.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PastEvents {
    /// The last event that is signed; 0 if none is.
    pub proven: u64,
    /// The last event.
    pub last: u64,
    /// Who signed them: one key for each node that recorded a part of them.
    pub keys: Vec<PublicKey>,
    /// Events before the last signed one that are not signed, the first and the last.
    pub unproven: Option<(u64, u64)>,
    /// Something that cannot be read.
    pub bad: Option<Bad>,
}

/// Reads sessions from history. The methods block, and say in a sentence why they failed.
pub trait PastSessions: fmt::Debug + Send + Sync {
    /// The first of these sessions that there is; for an agent only one of its own that was not deleted.
    fn find(&self, ids: &[SessionId], agent: Option<&str>) -> Result<Option<PastSession>, String>;

    /// Messages after a number.
    fn messages(&self, id: &SessionId, after: u64, limit: usize) -> Result<Vec<Message>, String>;

    /// Runs that started before a record, newest first.
    fn runs(&self, id: &SessionId, before: u64, limit: usize) -> Result<Vec<StoredRun>, String>;

    fn run(&self, id: &SessionId, run_id: &RunId) -> Result<Option<StoredRun>, String>;

    /// Writes a copy of the recording, as an export, to a new file.
    fn copy(&self, id: &SessionId, of: PastPart, to: &Path) -> Result<PastEvents, String>;
}

/// A copy of a recording. The file is removed with it.
#[derive(Debug)]
pub(crate) struct PastCopy {
    pub path: PathBuf,
    pub events: PastEvents,
}

impl Drop for PastCopy {
    fn drop(&mut self) {
        // What a crash leaves is removed at the next start.
        let _ = fs::remove_file(&self.path);
    }
}

/// A copy, and the session as it was when it was made.
struct KeptCopy {
    session: PastSession,
    copy: Arc<PastCopy>,
}

/// Sessions of history, with copies of their recordings.
pub(crate) struct ReadBack {
    past: Arc<dyn PastSessions>,
    work: Arc<Work>,
    directory: PathBuf,
    copies: Mutex<HashMap<SessionId, KeptCopy>>,
    count: AtomicU64,
}

impl ReadBack {
    /// Reads from `past`. Copies of an earlier daemon in the data directory are removed.
    pub(crate) fn new(past: Arc<dyn PastSessions>, work: Arc<Work>, data_dir: &Path) -> Self {
        let directory = data_dir.join(COPIES);
        // There is mostly none.
        let _ = fs::remove_dir_all(&directory);
        Self { past, work, directory, copies: Mutex::default(), count: AtomicU64::new(0) }
    }

    /// Asks history, when it is the agent's turn.
    pub(crate) async fn ask<T: Send + 'static>(
        &self,
        agent: Option<&str>,
        question: impl FnOnce(&dyn PastSessions) -> Result<T, String> + Send + 'static,
    ) -> Result<T, OpError> {
        let past = Arc::clone(&self.past);
        let asked = self.work.short(agent, None, move |_| question(&*past)).await?;
        asked.map_err(|reason| OpError::StoreUnavailable { reason: format!("history cannot be read: {reason}") })
    }

    /// A copy of a session's recording, made anew if there is more of it.
    pub(crate) async fn copy(&self, session: &PastSession) -> Result<Arc<PastCopy>, OpError> {
        let id = session.session_id.clone();
        if let Some(kept) = lock(&self.copies).get(&id).filter(|kept| kept.session == *session) {
            return Ok(Arc::clone(&kept.copy));
        }
        let copy = Arc::new(self.new_copy(session, PastPart::All).await?);
        let mut copies = lock(&self.copies);
        if copies.len() >= MOST_COPIES {
            copies.clear();
        }
        copies.insert(id, KeptCopy { session: session.clone(), copy: Arc::clone(&copy) });
        Ok(copy)
    }

    /// A copy of what is there now.
    pub(crate) async fn new_copy(&self, session: &PastSession, of: PastPart) -> Result<PastCopy, OpError> {
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        let (directory, path) = (self.directory.clone(), self.directory.join(format!("{number}.jsonl")));
        let id = session.session_id.clone();
        let copying = move |past: &dyn PastSessions| {
            fs::create_dir_all(&directory).map_err(|error| format!("{}: {error}", directory.display()))?;
            let mut copy = PastCopy { path, events: PastEvents::default() };
            copy.events = past.copy(&id, of, &copy.path)?;
            Ok(copy)
        };
        self.ask(session.agent.as_deref(), copying).await
    }
}
