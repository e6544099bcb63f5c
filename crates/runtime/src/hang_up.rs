//! Detects that a caller disconnected, for commands that end with their caller.

use tokio::sync::watch;

/// Held by a caller for as long as it waits. Dropping it means that the caller disconnected.
#[derive(Debug)]
pub struct Attached {
    open: watch::Sender<Caller>,
}

/// What became of a caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Caller {
    /// It waits, or it has disconnected if there is no sender.
    Waits,
    /// It does not wait, and the command goes on without it.
    Left,
}

/// Tells a command when its caller disconnects.
#[derive(Debug, Clone)]
pub struct HangUp {
    open: watch::Receiver<Caller>,
}

/// A caller that waits from now on.
pub fn attached() -> (Attached, HangUp) {
    let (sender, receiver) = watch::channel(Caller::Waits);
    (Attached { open: sender }, HangUp { open: receiver })
}

impl Attached {
    /// The command goes on without its caller from now on.
    pub fn leave(self) {
        self.open.send_replace(Caller::Left);
    }
}

impl HangUp {
    /// Whether the caller has disconnected.
    pub fn is_over(&self) -> bool {
        self.open.has_changed().is_err() && *self.open.borrow() == Caller::Waits
    }
}

/// Returns when the caller disconnects; never if the command does not end with its caller.
pub async fn hung_up(hang_up: &mut Option<HangUp>) {
    match hang_up {
        // Ends only when the sender is dropped.
        Some(hang_up) => {
            while hang_up.open.changed().await.is_ok() {}
            if !hang_up.is_over() {
                std::future::pending().await
            }
        }
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test]
    async fn a_caller_that_leaves_does_not_hang_up() {
        let (gone, over) = attached();
        let (left, going_on) = attached();
        assert!(!over.is_over() && !going_on.is_over());
        drop(gone);
        left.leave();
        assert!(over.is_over() && !going_on.is_over());
        hung_up(&mut Some(over)).await;
        let mut going_on = Some(going_on);
        assert!(tokio::time::timeout(Duration::from_millis(1), hung_up(&mut going_on)).await.is_err());
    }
}
