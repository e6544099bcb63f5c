//! Draining: this node takes no more sessions and lets go of those it has, each when its commands have ended, so that other
//! nodes go on with them.

use super::parts::Parts;
use crate::actor::Message;
use crate::ops::STOP_GRACE;
use crate::services::ServiceStop;
use shellkeep_session::SessionId;
use shellkeep_shared::Drain;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

/// After how long a session that was used again, or that its files still keep here, is put to sleep once more.
const AGAIN: Duration = Duration::from_millis(100);

/// Why an agent is stopped.
pub(super) const DRAINED: &str = "the node is drained";

/// Lets go of all sessions. Their services end first: other nodes start them again, and must not find them running here.
pub(super) async fn release(parts: Arc<Parts>, drain: Drain) {
    parts.agents.stop(DRAINED, |_| true).await;
    let services = stop_services(&parts).await;
    tracing::info!(services, "draining: services are stopped; sessions follow when their commands have ended");
    // A command in the background keeps its session here, though its shell may sleep. So do files that are being copied.
    let mut stay: Vec<SessionId> = parts.ctx.runs.detached(|_| true).into_iter().map(|(id, _)| id).collect();
    stay.extend(parts.ctx.shared_files().into_iter().flat_map(|files| files.on_the_way().sessions()));
    for id in stay {
        let _ = parts.ctx.registry.ask(&id, Message::View).await;
    }
    drain.free();
    loop {
        // One may have been about to start when the others were stopped.
        parts.agents.stop(DRAINED, |_| true).await;
        stop_services(&parts).await;
        let awake = parts.ctx.registry.ids();
        if awake.is_empty() {
            break;
        }
        let mut falling_asleep = JoinSet::new();
        for id in awake {
            falling_asleep.spawn(put_to_sleep(Arc::clone(&parts), id));
        }
        while falling_asleep.join_next().await.is_some() {}
    }
    // Without the shared store it is never over, and the engine must be able to end.
    drop(parts);
    drain.until_over().await;
    tracing::info!("drained: this node has no session");
}

async fn stop_services(parts: &Parts) -> usize {
    parts.ctx.services.stop(STOP_GRACE, ServiceStop::NodeDrained, |_| true).await
}

/// Ends a session's shell with its state kept, after the commands that it has begun or queued.
async fn put_to_sleep(parts: Arc<Parts>, id: SessionId) {
    while parts.ctx.registry.is_awake(&id) {
        parts.files.settled(&id).await;
        if let Some(Err(error)) = parts.ctx.registry.ask_awake(&id, Message::Hibernate).await {
            tracing::debug!(session = %id, %error, "not hibernated yet");
        }
        // Its last command has ended only now. It stays by itself until the files of that are copied.
        if let Some(files) = parts.ctx.shared_files() {
            files.on_the_way().settled(&id).await;
        }
        tokio::time::sleep(AGAIN).await;
    }
}
