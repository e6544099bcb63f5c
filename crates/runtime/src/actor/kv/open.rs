//! The open database of a session's keyed store.

use crate::ops::*;
use crate::tasks;
use shellkeep_session::KvState;
use shellkeep_store::keyed::Keyed;
use shellkeep_store::{Durability, KeyedError};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// The keyed store of a session, once it is open. The mutex is never contended: a database may move between threads, but
/// not be shared, and an actor's parts must.
#[derive(Default)]
pub(crate) struct Kv {
    open: Mutex<Option<Keyed>>,
}

impl Kv {
    /// Does something with the store on a blocking thread; opens it first if needed.
    pub(crate) async fn with<T: Send + 'static>(
        &mut self,
        place: KvLocation,
        work: impl FnOnce(&mut Keyed) -> Result<T, KeyedError> + Send + 'static,
    ) -> Result<T, OpError> {
        let open = self.open.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        let working = tasks::blocking(move || {
            // A backup closes the gate for a moment.
            let _open = place.gate.read().unwrap_or_else(PoisonError::into_inner);
            let mut keyed = match open {
                Some(keyed) => keyed,
                None => Keyed::open(&place.directory, place.recorded, place.durability)?,
            };
            let done = work(&mut keyed)?;
            Ok::<_, KeyedError>((keyed, done))
        });
        // A store that failed is opened again next time, which reverts what was not recorded.
        let (keyed, done) = working.await?.map_err(refused)?;
        self.open = Mutex::new(Some(keyed));
        Ok(done)
    }

    /// Closes it, so that its files can be removed or replaced.
    pub(crate) fn close(&mut self) {
        self.open = Mutex::default();
    }
}

/// Where a session's store is, and how far it is recorded.
pub(crate) struct KvLocation {
    pub(crate) directory: PathBuf,
    pub(crate) recorded: KvState,
    pub(crate) durability: Durability,
    pub(crate) gate: Arc<RwLock<()>>,
}

fn refused(error: KeyedError) -> OpError {
    let reason = error.to_string();
    OpError::Kv(match error {
        KeyedError::Damaged { .. } => KvError::Damaged { reason },
        KeyedError::Database(_) | KeyedError::Io(_) => KvError::Unavailable { reason },
    })
}
