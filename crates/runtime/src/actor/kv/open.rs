//! The open database of a session's keyed store.

use crate::actor::journal::Journal;
use crate::context::SessionContext;
use crate::ops::*;
use crate::sync::{lock, read};
use crate::tasks;
use shellkeep_session::SessionId;
use shellkeep_store::KeyedError;
use shellkeep_store::keyed::{self, Keyed};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

/// The keyed store of a session. The mutex is never contended: a database may move between threads, but not be shared, and
/// an actor's parts must.
pub(crate) struct Kv {
    pub(super) ctx: Arc<SessionContext>,
    /// The database, once it is open.
    open: Mutex<Option<Keyed>>,
}

impl Kv {
    /// A store that is not open.
    pub(crate) fn new(ctx: Arc<SessionContext>) -> Self {
        Self { ctx, open: Mutex::default() }
    }

    /// Does something with the store on a blocking thread; opens it first if needed.
    pub(super) async fn with<T: Send + 'static>(
        &mut self,
        journal: &Journal,
        work: impl FnOnce(&mut Keyed) -> Result<T, KeyedError> + Send + 'static,
    ) -> Result<T, OpError> {
        let open = lock(&self.open).take();
        let (directory, durability) = (self.directory(journal.id()), self.ctx.durability());
        let (recorded, gate) = (journal.state().kv, Arc::clone(&self.ctx.checkpoints.gate));
        let working = tasks::blocking(move || {
            // A backup closes the gate for a moment.
            let _open = read(&gate);
            let mut keyed = match open {
                Some(keyed) => keyed,
                None => Keyed::open(&directory, recorded, durability)?,
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

    /// Where the store of a session is.
    pub(super) fn directory(&self, id: &SessionId) -> PathBuf {
        keyed::directory(self.ctx.data_dir.root(), id.as_str())
    }
}

fn refused(error: KeyedError) -> OpError {
    let reason = error.to_string();
    OpError::Kv(match error {
        KeyedError::Damaged { .. } => KvError::Damaged { reason },
        KeyedError::Database(_) | KeyedError::Io(_) => KvError::Unavailable { reason },
    })
}
