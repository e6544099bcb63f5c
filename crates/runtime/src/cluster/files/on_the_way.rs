//! What is on its way to where other nodes can read it, and for how long that is waited for.

use crate::cluster::unput::ToPut;
use crate::sync::lock;
use shellkeep_session::SessionId;
use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, timeout, timeout_at};

/// How long a stop, or the removal of a session, waits for what is on its way; and a session on a node that is drained, if
/// copying fails: a directory that cannot be written must not hold the drain.
pub(super) const LAST_WAIT: Duration = Duration::from_secs(10);
/// How long a session waits on a node that is drained while copying does not fail: many may have to be copied, or a lot. A
/// directory that hangs does not fail, so there is a limit for that, too.
const DRAIN_WAIT: Duration = Duration::from_secs(60);

/// A session of which something is being put.
#[derive(Debug, Default)]
pub(super) struct Busy {
    /// What to put next.
    pub(super) next: ToPut,
    /// How many files that records name are not put yet.
    pub(super) attaching: usize,
    /// Size of the note that says what is to be put.
    pub(super) noted: usize,
    /// Whether a task puts it. It does not yet if an earlier process noted it.
    pub(super) has_task: bool,
    /// Whether it was removed meanwhile.
    pub(super) is_removed: bool,
    /// Whether the last try to put something failed.
    pub(super) fails: bool,
}

/// What is on its way, of all sessions.
#[derive(Clone, Copy)]
pub(crate) struct OnTheWay<'a> {
    pub(super) busy: &'a Mutex<HashMap<SessionId, Busy>>,
    pub(super) changed: &'a watch::Sender<bool>,
}

impl OnTheWay<'_> {
    /// The sessions of which something is on its way.
    pub(crate) fn sessions(self) -> Vec<SessionId> {
        lock(self.busy).keys().cloned().collect()
    }

    /// Waits until nothing of a session is on its way, for a while.
    pub(crate) async fn settled(self, id: &SessionId) {
        let mut changed = self.changed.subscribe();
        let _ = timeout(LAST_WAIT, changed.wait_for(|_| !lock(self.busy).contains_key(id))).await;
    }

    /// Until when a session stays on a node that is drained although nothing but this has kept it there `since` then. `None` if
    /// nothing of it is on its way, or if nothing is tried again.
    pub(crate) fn keeps_until(self, id: &SessionId, since: Instant) -> Option<Instant> {
        if *self.changed.borrow() {
            return None;
        }
        let wait = if lock(self.busy).get(id)?.fails { LAST_WAIT } else { DRAIN_WAIT };
        Some(since + wait)
    }

    /// Returns when it no longer keeps the session there.
    pub(crate) async fn keeps_no_longer(self, id: &SessionId, since: Instant) {
        let mut changed = self.changed.subscribe();
        while let Some(until) = self.keeps_until(id, since) {
            if timeout_at(until, changed.changed()).await.is_err() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::advance;

    #[tokio::test(start_paused = true)]
    async fn a_session_waits_for_its_copy_and_not_for_ever() {
        let id = SessionId::parse("s").unwrap();
        let (busy, changed) = (Mutex::new(HashMap::from([(id.clone(), Busy::default())])), watch::Sender::new(false));
        let (on_the_way, since) = (OnTheWay { busy: &busy, changed: &changed }, Instant::now());
        assert_eq!(on_the_way.sessions(), std::slice::from_ref(&id));
        assert_eq!(on_the_way.keeps_until(&id, since), Some(since + DRAIN_WAIT));

        // A failure is an event: what waited for longer waits for less.
        let failing = async {
            advance(Duration::from_secs(1)).await;
            lock(&busy).get_mut(&id).unwrap().fails = true;
            changed.send_modify(|_| {});
        };
        tokio::join!(on_the_way.keeps_no_longer(&id, since), failing);
        assert_eq!(since.elapsed().as_secs(), LAST_WAIT.as_secs());

        // It is there.
        let since = Instant::now();
        let copying = async {
            advance(Duration::from_secs(1)).await;
            lock(&busy).clear();
            changed.send_modify(|_| {});
        };
        tokio::join!(on_the_way.keeps_no_longer(&id, since), copying);
        assert_eq!((since.elapsed().as_secs(), on_the_way.keeps_until(&id, since)), (1, None));

        // Nothing is tried again: a daemon that stops waits for nothing more.
        lock(&busy).insert(id.clone(), Busy::default());
        changed.send_replace(true);
        assert_eq!(on_the_way.keeps_until(&id, since), None);
    }
}
