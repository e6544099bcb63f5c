//! Followers of new records, of one session or of all. Checked after every append, so it costs two loads while there are
//! none.

use crate::lock::hold;
use shellkeep_session::{Record, SessionId};
use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use tokio::sync::{broadcast, watch};

/// Names that a follower of all sessions may be behind. One that is further behind is told so, and looks at everything.
const MOST_BEHIND: usize = 1024;

/// Followers of new records.
#[derive(Debug)]
pub struct Followers {
    /// Number of followed sessions. The journal's mutex orders it: a follower reads the journal's end after it
    /// registered here, and an append checks this after it has moved that end.
    count: AtomicUsize,
    by_session: Mutex<HashMap<SessionId, watch::Sender<u64>>>,
    /// Whether all sessions may be followed.
    has_all: AtomicBool,
    all: broadcast::Sender<SessionId>,
}

impl Default for Followers {
    fn default() -> Self {
        let (count, by_session, has_all) = (AtomicUsize::default(), Mutex::default(), AtomicBool::default());
        Self { count, by_session, has_all, all: broadcast::Sender::new(MOST_BEHIND) }
    }
}

impl Followers {
    /// Reports the number of each new record of a session from now on. The first value is 0.
    pub fn follow(&self, session_id: &SessionId) -> watch::Receiver<u64> {
        let mut by_session = hold(&self.by_session);
        by_session.retain(|_, sender| sender.receiver_count() > 0);
        let sender = by_session.entry(session_id.clone()).or_insert_with(|| watch::Sender::new(0));
        let receiver = sender.subscribe();
        self.count.store(by_session.len(), Ordering::Relaxed);
        receiver
    }

    /// Reports the session of each new record from now on.
    pub fn follow_all(&self) -> broadcast::Receiver<SessionId> {
        let receiver = self.all.subscribe();
        self.has_all.store(true, Ordering::Relaxed);
        receiver
    }

    /// Reports that a session has changed, to the followers of all sessions.
    pub fn changed(&self, session_id: &SessionId) {
        // It fails when nobody follows any longer.
        if self.has_all.load(Ordering::Relaxed) && self.all.send(session_id.clone()).is_err() {
            self.has_all.store(false, Ordering::Relaxed);
            // One may have come in between.
            self.has_all.fetch_or(self.all.receiver_count() > 0, Ordering::Relaxed);
        }
    }

    /// Reports a record.
    pub(crate) fn appended(&self, record: &Record) {
        self.changed(&record.session_id);
        if self.count.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut by_session = hold(&self.by_session);
        let Some(sender) = by_session.get(&record.session_id) else { return };
        if sender.receiver_count() == 0 {
            by_session.remove(&record.session_id);
            self.count.store(by_session.len(), Ordering::Relaxed);
        } else {
            sender.send_replace(record.seq);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::broadcast::error::TryRecvError;

    #[test]
    fn a_follower_of_all_sessions_gets_names_or_learns_that_it_is_behind() {
        let followers = Followers::default();
        let id = |name: &str| SessionId::parse(name).unwrap();
        followers.changed(&id("before"));
        let mut all = followers.follow_all();
        followers.changed(&id("a"));
        assert_eq!(all.try_recv(), Ok(id("a")));
        (0..=MOST_BEHIND).for_each(|_| followers.changed(&id("b")));
        assert!(matches!(all.try_recv(), Err(TryRecvError::Lagged(_))));
        drop(all);
        followers.changed(&id("c"));
        assert!(!followers.has_all.load(Ordering::Relaxed));
        let mut again = followers.follow_all();
        followers.changed(&id("d"));
        assert_eq!(again.try_recv(), Ok(id("d")));
    }
}
