//! Namespaces for rooms, made in advance: a program has to be started for each, which takes about a millisecond. None are made
//! before the first room, and none is used twice.

use crate::sync::lock;
use crate::tasks;
use shellkeep_process::{Namespaces, RoomNetwork};
use std::io;
use std::sync::{Arc, Mutex, TryLockError};
use std::time::Duration;
use tokio::runtime::Handle;

/// How long nothing is made in advance after something was taken: a session is waking, and its command comes first.
pub(crate) const GIVE_WAY: Duration = Duration::from_millis(2);

/// As many as sessions that wake at once find. Each takes some 200 KiB of the kernel's memory.
const WANTED: usize = 2;

/// Namespaces that nobody uses yet.
#[derive(Debug)]
pub(crate) struct SpareNamespaces {
    network: RoomNetwork,
    ready: Mutex<Vec<Namespaces>>,
    /// Held by whoever makes more.
    filling: Mutex<()>,
}

impl SpareNamespaces {
    /// None yet, for rooms with this network.
    pub(crate) fn new(network: RoomNetwork) -> Self {
        Self { network, ready: Mutex::default(), filling: Mutex::default() }
    }

    /// Namespaces for a new room. If none are ready, starts a small program and waits for it.
    pub(crate) fn take(self: &Arc<Self>) -> io::Result<Namespaces> {
        let ready = lock(&self.ready).pop();
        if let Ok(runtime) = Handle::try_current() {
            let again = Arc::clone(self);
            runtime.spawn(async move {
                tokio::time::sleep(GIVE_WAY).await;
                tasks::blocking(move || again.fill()).await
            });
        }
        ready.map_or_else(|| Namespaces::new(self.network), Ok)
    }

    /// Makes those that are missing, unless somebody else does.
    fn fill(&self) {
        let _filling = match self.filling.try_lock() {
            Err(TryLockError::WouldBlock) => return,
            other => other,
        };
        while lock(&self.ready).len() < WANTED {
            match Namespaces::new(self.network) {
                Ok(namespaces) => lock(&self.ready).push(namespaces),
                // The next room tries again, and says why it could not be made.
                Err(_) => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without a runtime nothing is made behind its back.
    #[test]
    fn what_is_taken_is_replaced_and_never_given_again() {
        let spares = Arc::new(SpareNamespaces::new(RoomNetwork::Own));
        let first = match spares.take() {
            Ok(first) => first,
            // A machine without them has no rooms.
            Err(error) => return assert!(std::env::var_os("CI").is_none(), "this test needs namespaces: {error}"),
        };
        spares.fill();
        let (second, third) = (spares.take().unwrap(), spares.take().unwrap());
        spares.fill();
        assert_eq!(lock(&spares.ready).len(), WANTED);
        let fourth = spares.take().unwrap();
        let distinct: std::collections::HashSet<u64> =
            [&first, &second, &third, &fourth].map(|namespaces| namespaces.number().unwrap()).into();
        assert_eq!(distinct.len(), 4);
    }
}
