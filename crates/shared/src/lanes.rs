//! All lanes of a node, and what waits for the thread that serves them.

use crate::lane::{Lane, Line, Rewind, Settled};
use crate::tenure::Tenure;
use crate::tier::{Append, Appended, Down, Tier};
use shellkeep_session::SessionId;
use shellkeep_session::ownership::Refusal;
use std::collections::{HashMap, HashSet};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use tokio::sync::{mpsc, watch};

/// What the node must do for a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Moved {
    /// Another node owns it: end everything of it here.
    Away(SessionId),
    /// The tier lacks records that are no longer at hand: claim it again and give its state.
    Reclaim(SessionId),
}

/// A question to the tier. Returns that the tier is down if it found out.
pub(crate) type Ask = Box<dyn FnOnce(Result<&mut dyn Tier, Down>) -> Result<(), Down> + Send>;

/// All lanes, and what the thread is asked to do.
pub(crate) struct Lanes {
    pub(crate) all: HashMap<SessionId, Lane>,
    /// Sessions whose lanes have something to do.
    pub(crate) dirty: HashSet<SessionId>,
    /// Records of sessions that are not claimed yet.
    pub(crate) unclaimed: HashMap<SessionId, Vec<Line>>,
    pub(crate) queued_bytes: usize,
    pub(crate) asks: Vec<Ask>,
    pub(crate) down: Option<Down>,
    /// How long the node serves while the tier is down.
    pub(crate) tenure: Tenure,
    /// The node takes no more sessions, and tells others so.
    pub(crate) is_draining: bool,
    /// What the node tells of itself has changed.
    pub(crate) has_news: bool,
    pub(crate) is_closing: bool,
}

/// What the thread and its users share.
pub(crate) struct Shared {
    lanes: Mutex<Lanes>,
    pub(crate) work: Condvar,
    /// How many lanes there are, for those who wait until there are none.
    pub(crate) count: watch::Sender<usize>,
    /// Whether the tier is unreachable.
    pub(crate) away: watch::Sender<bool>,
    /// What the node must do.
    pub(crate) news: mpsc::UnboundedSender<Moved>,
    /// What to call when records were sent.
    pub(crate) settled: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl Shared {
    pub(crate) fn new(tenure: Tenure, news: mpsc::UnboundedSender<Moved>) -> Self {
        let lanes = Mutex::new(Lanes::new(tenure));
        let (count, away) = (watch::Sender::new(0), watch::Sender::new(false));
        Self { lanes, work: Condvar::new(), count, away, news, settled: OnceLock::new() }
    }

    pub(crate) fn lanes(&self) -> MutexGuard<'_, Lanes> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lanes {
    fn new(tenure: Tenure) -> Self {
        Self {
            all: HashMap::new(),
            dirty: HashSet::new(),
            unclaimed: HashMap::new(),
            queued_bytes: 0,
            asks: Vec::new(),
            down: None,
            tenure,
            is_draining: false,
            has_news: false,
            is_closing: false,
        }
    }

    /// Whether other nodes may take this node's sessions: it cannot reach the tier, and its time is over.
    pub(crate) fn is_over(&self) -> bool {
        self.down.is_some() && self.tenure.is_over()
    }

    /// Lets go of all sessions, because other nodes may take them.
    pub(crate) fn lose_all(&mut self) -> Vec<Moved> {
        let all: Vec<SessionId> = self.all.keys().cloned().collect();
        if !all.is_empty() {
            tracing::warn!(sessions = all.len(), "this node is cut off from the shared store and ends its sessions");
        }
        all.iter().filter_map(|id| self.lose(id)).collect()
    }

    /// What follows from the answer to an append.
    pub(crate) fn appended(&mut self, append: &Append, answer: Appended) -> Option<Moved> {
        let session_id = &append.session_id;
        // The lane may have been replaced while the append was on its way.
        let lane = self.all.get_mut(session_id).filter(|lane| lane.claim == append.claim)?;
        match answer {
            Ok(()) => {
                self.queued_bytes -= lane.appended(append);
                None
            }
            Err(Refusal::Apart(head)) => {
                let (rewind, change) = lane.meet(&head);
                self.queued_bytes = self.queued_bytes.saturating_add_signed(change);
                self.dirty.insert(session_id.clone());
                match rewind {
                    Rewind::Done => None,
                    Rewind::NeedsState => {
                        self.queued_bytes -= lane.drop_queue();
                        Some(Moved::Reclaim(session_id.clone()))
                    }
                    Rewind::Apart => self.lose(session_id),
                }
            }
            // The tier has lost the session: it came back empty.
            Err(Refusal::Fenced(None)) => {
                self.queued_bytes -= lane.drop_queue();
                Some(Moved::Reclaim(session_id.clone()))
            }
            Err(Refusal::Fenced(Some(_))) => self.lose(session_id),
        }
    }

    /// Another node owns the session, or may soon.
    pub(crate) fn lose(&mut self, session_id: &SessionId) -> Option<Moved> {
        let mut lane = self.all.remove(session_id)?;
        self.queued_bytes -= lane.drop_queue();
        lane.answer_all(&Settled::Moved);
        Some(Moved::Away(session_id.clone()))
    }

    /// The session was deleted here.
    pub(crate) fn forget(&mut self, session_id: &SessionId) {
        let unsent = self.unclaimed.remove(session_id).unwrap_or_default();
        self.queued_bytes -= unsent.iter().map(|line| line.json.len()).sum::<usize>();
        if let Some(mut lane) = self.all.remove(session_id) {
            self.queued_bytes -= lane.drop_queue();
            lane.answer_all(&Settled::Kept);
        }
    }

    /// Ends a lane whose lease was given up, unless its session was used again meanwhile.
    pub(crate) fn end_lane(&mut self, session_id: &SessionId) {
        if self.all.get(session_id).is_some_and(|lane| lane.is_closing && lane.is_empty()) {
            self.all.remove(session_id);
        }
    }
}
