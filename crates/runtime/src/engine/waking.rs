//! Waking a session, one caller at a time: what was loaded may otherwise be older than what an owner left who came and
//! went meanwhile.

use super::Inner;
use super::inner::STORE_WAIT;
use crate::admission::agent_of;
use crate::ops::OpError;
use crate::owner::{MAILBOX, Message, Owner, Slot};
use shellkeep_session::SessionId;
use std::sync::Arc;
use tokio::sync::{Mutex, mpsc};
use tokio::time::timeout;

/// A place in the line of those who want to wake a session.
struct Turn<'a> {
    inner: &'a Inner,
    id: &'a SessionId,
    line: Arc<Mutex<()>>,
}

impl<'a> Turn<'a> {
    fn take(inner: &'a Inner, id: &'a SessionId) -> Self {
        let line = Arc::clone(inner.sessions().waking.entry(id.clone()).or_default());
        Self { inner, id, line }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut sessions = self.inner.sessions();
        // One is ours, one the map's; nobody takes another without it.
        if Arc::strong_count(&self.line) == 2 {
            sessions.waking.remove(self.id);
        }
    }
}

impl Inner {
    /// The way to a session's owner, who is called if there is none.
    pub(super) async fn wake(self: &Arc<Self>, id: &SessionId) -> Result<mpsc::Sender<Message>, OpError> {
        let turn = Turn::take(self, id);
        let too_long = |_| OpError::StoreUnavailable { reason: "others wait for the same session".to_owned() };
        let _mine = timeout(STORE_WAIT, turn.line.lock()).await.map_err(too_long)?;
        if let Some((mailbox, _)) = self.sessions().owners.get(id) {
            return Ok(mailbox.clone());
        }
        let state = self.load_patiently(id).await?;
        let (mailbox, messages) = mpsc::channel(MAILBOX);
        let slot = Arc::new(Slot { agent: agent_of(&state.meta), ..Slot::default() });
        self.sessions().owners.insert(id.clone(), (mailbox.clone(), Arc::clone(&slot)));
        tokio::spawn(Owner::new(Arc::clone(self), state, messages, slot).serve());
        Ok(mailbox)
    }
}
