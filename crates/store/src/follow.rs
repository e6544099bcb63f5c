//! Followers of a session's new records. Checked after every append, so it costs one load while there are none.

use crate::lock::hold;
use shellkeep_session::{Record, SessionId};
use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::watch;

/// Followers, by session.
#[derive(Debug, Default)]
pub(crate) struct Followers {
    /// Number of followed sessions. The journal's mutex orders it: a follower reads the journal's end after it
    /// registered here, and an append checks this after it has moved that end.
    count: AtomicUsize,
    by_session: Mutex<HashMap<SessionId, watch::Sender<u64>>>,
}

impl Followers {
    /// Reports the number of each new record from now on. The first value is 0.
    pub(crate) fn follow(&self, session_id: &SessionId) -> watch::Receiver<u64> {
        let mut by_session = hold(&self.by_session);
        by_session.retain(|_, sender| sender.receiver_count() > 0);
        let sender = by_session.entry(session_id.clone()).or_insert_with(|| watch::Sender::new(0));
        let receiver = sender.subscribe();
        self.count.store(by_session.len(), Ordering::Relaxed);
        receiver
    }

    /// Reports a record.
    pub(crate) fn appended(&self, record: &Record) {
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
