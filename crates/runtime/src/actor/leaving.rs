//! When a session's task exits. On a node that is drained it begins no new commands, so that it comes to that: another node
//! runs them. It stays there until its files are where the next node looks for them.

use crate::context::SessionContext;
use shellkeep_session::SessionId;
use std::time::Duration;
use tokio::time::Instant;

/// An actor that is about to exit checks again after this long whether a sender still exists.
pub(super) const LAST_LOOK: Duration = Duration::from_millis(1);
/// How long an actor stays after it has recorded something: a framework that posts one event posts the next one soon,
/// and waking a session costs a read from the store.
const LINGER: Duration = Duration::from_secs(2);

/// Whether a session on a node that is drained waits for the copy of its files: who takes it before that lacks what its last
/// commands wrote, for good.
#[derive(Debug, Default)]
pub(super) struct LastCopy {
    /// Since when nothing else keeps it. None if something does, or nothing is being copied.
    since: Option<Instant>,
}

impl LastCopy {
    /// Whether it stays for that. `is_done` is whether nothing else keeps it, so that its last checkpoint has been offered.
    pub(super) fn keeps(&mut self, ctx: &SessionContext, id: &SessionId, is_done: bool) -> bool {
        let files = ctx.shared_files().filter(|_| is_done && ctx.is_draining());
        let now = Instant::now();
        let since = self.since.unwrap_or(now);
        let until = files.and_then(|files| files.on_the_way().keeps_until(id, since));
        self.since = until.map(|_| since);
        until.is_some_and(|until| now < until)
    }

    /// Returns when it stays for that no longer; never if it does not.
    pub(super) async fn keeps_no_longer(&self, ctx: &SessionContext, id: &SessionId) {
        match ctx.shared_files().zip(self.since) {
            Some((files, since)) => files.on_the_way().keeps_no_longer(id, since).await,
            None => std::future::pending().await,
        }
    }
}

/// Until when an actor stays that has just recorded something; not at all if another node is to have the session.
pub(super) fn lingers_until(ctx: &SessionContext) -> Option<Instant> {
    (!ctx.is_draining()).then(|| Instant::now() + LINGER)
}

/// Whether this node is drained, and others may take what it does not work with.
pub(super) fn is_free(ctx: &SessionContext) -> bool {
    ctx.cluster.as_ref().is_some_and(|cluster| cluster.members().drain().is_free())
}

/// Whether a command in the background keeps the session on a node that is drained: it is lost if another takes the session.
pub(super) fn is_kept_here(ctx: &SessionContext, id: &SessionId) -> bool {
    ctx.is_draining() && !ctx.runs.detached(|running| running == id).is_empty()
}
