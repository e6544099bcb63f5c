//! Detects that a caller disconnected, for commands that end with their caller.

use tokio::sync::watch;

/// Held by a caller for as long as it waits. Dropping it means that the caller disconnected.
#[derive(Debug)]
pub struct Attached {
    _open: watch::Sender<()>,
}

/// Tells a command when its caller disconnects.
#[derive(Debug, Clone)]
pub struct HangUp {
    open: watch::Receiver<()>,
}

/// A caller that waits from now on.
pub fn attached() -> (Attached, HangUp) {
    let (sender, receiver) = watch::channel(());
    (Attached { _open: sender }, HangUp { open: receiver })
}

impl HangUp {
    /// Whether the caller has disconnected.
    pub fn is_over(&self) -> bool {
        self.open.has_changed().is_err()
    }
}

/// Returns when the caller disconnects; never if the command does not end with its caller.
pub async fn hung_up(hang_up: &mut Option<HangUp>) {
    match hang_up {
        // Nothing is ever sent, so this ends only when the sender is dropped.
        Some(hang_up) => while hang_up.open.changed().await.is_ok() {},
        None => std::future::pending().await,
    }
}
