//! Draining: this node takes no more sessions and lets go of those it has, each when its commands have ended, so that other
//! nodes go on with them.

use super::inner::Inner;
use crate::actor::Message;
use crate::ops::STOP_GRACE;
use crate::services::StopReason;
use shellkeep_session::SessionId;
use shellkeep_shared::Drain;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

/// After how long a session that was used again, or still saves files, is put to sleep once more.
const AGAIN: Duration = Duration::from_millis(100);

/// Why an agent is stopped.
pub(super) const DRAINED: &str = "the node is drained";

/// Lets go of all sessions. Their services end first: other nodes start them again, and must not find them running here.
pub(super) async fn release(inner: Arc<Inner>, drain: Drain) {
    inner.agents.stop(DRAINED, |_| true).await;
    let services = stop_services(&inner).await;
    tracing::info!(services, "draining: services are stopped; sessions follow when their commands have ended");
    // A command in the background keeps its session here, though its shell may sleep.
    for (id, _) in inner.ctx.runs.detached(|_| true) {
        let _ = inner.ctx.registry.ask(&id, Message::View).await;
    }
    drain.free();
    loop {
        // One may have been about to start when the others were stopped.
        inner.agents.stop(DRAINED, |_| true).await;
        stop_services(&inner).await;
        let awake = inner.ctx.registry.ids();
        if awake.is_empty() {
            break;
        }
        let mut falling_asleep = JoinSet::new();
        for id in awake {
            falling_asleep.spawn(put_to_sleep(Arc::clone(&inner), id));
        }
        while falling_asleep.join_next().await.is_some() {}
    }
    // Without the shared store it is never over, and the engine must be able to end.
    drop(inner);
    drain.until_over().await;
    tracing::info!("drained: this node has no session");
}

async fn stop_services(inner: &Inner) -> usize {
    inner.ctx.services.stop(STOP_GRACE, StopReason::NodeDrained, |_| true).await
}

/// Ends a session's shell with its state kept, after the commands that it has begun or queued.
async fn put_to_sleep(inner: Arc<Inner>, id: SessionId) {
    while inner.ctx.registry.is_awake(&id) {
        // The next owner can have the session as soon as it sleeps, so its files must be where that one finds them.
        inner.files.settled(&id).await;
        if let Some(files) = inner.ctx.cluster.as_ref().and_then(|cluster| cluster.files()) {
            files.settled(&id).await;
        }
        if let Some(Err(error)) = inner.ctx.registry.ask_awake(&id, Message::Hibernate).await {
            tracing::debug!(session = %id, %error, "not hibernated yet");
        }
        tokio::time::sleep(AGAIN).await;
    }
}
