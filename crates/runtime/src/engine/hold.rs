//! The pause for a backup: nothing reaches the store, the recordings or the checkpoints until it is over. Commands keep
//! running; their records wait in the journal, which a backup copies too.

use crate::context::SessionContext;
use crate::lifetime::Lifetime;
use crate::ops::{BoxFuture, OpError};
use crate::sync::write;
use shellkeep_store::StoreHold;
use std::sync::mpsc;
use std::sync::{Arc, RwLock};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// The longest pause: sleeping sessions cannot be woken during it.
pub const HOLD_LIMIT: Duration = Duration::from_secs(30);
/// How often to check whether the daemon stops, which does not wait for a backup.
const LOOK: Duration = Duration::from_millis(100);

/// Writes are paused while this exists, at most for [`HOLD_LIMIT`].
pub struct Hold {
    lifetime: Arc<Lifetime>,
    until: Instant,
    _files: mpsc::Sender<()>,
    _store: StoreHold,
}

impl Hold {
    /// Returns when the pause ends.
    pub fn over(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            while Instant::now() < self.until && !self.lifetime.is_stopping() {
                tokio::time::sleep(LOOK).await;
            }
        })
    }
}

/// Pauses writes.
pub(super) async fn begin(ctx: &SessionContext) -> Result<Hold, OpError> {
    let unavailable = |reason: String| OpError::StoreUnavailable { reason };
    // Pending writes are flushed first, so that there is little to wait for.
    ctx.store.flush().await.map_err(|error| unavailable(error.to_string()))?;
    let files = hold_files(&ctx.checkpoints.gate).await.map_err(unavailable)?;
    let store = ctx.store.hold(HOLD_LIMIT).await.map_err(|error| unavailable(error.to_string()))?;
    let lifetime = Arc::clone(&ctx.lifetime);
    Ok(Hold { lifetime, until: Instant::now() + HOLD_LIMIT, _files: files, _store: store })
}

/// Waits for running work with files, and blocks new work until the result is dropped.
async fn hold_files(gate: &Arc<RwLock<()>>) -> Result<mpsc::Sender<()>, String> {
    let gate = Arc::clone(gate);
    let ((release, released), (tell, held)) = (mpsc::channel::<()>(), oneshot::channel());
    let waiting = std::thread::Builder::new().name("hold-files".to_owned()).spawn(move || {
        let _held = write(&gate);
        if tell.send(()).is_ok() {
            // Ends with its sender.
            let _ = released.recv_timeout(HOLD_LIMIT * 2);
        }
    });
    waiting.map_err(|error| error.to_string())?;
    held.await.map_err(|error| error.to_string())?;
    Ok(release)
}
