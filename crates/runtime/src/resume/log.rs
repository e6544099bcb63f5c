//! Records an agent's work, even while the daemon is stopping.

use crate::actor::Message;
use crate::ops::{AgentStateSaved, MessageAdded, NewEvent, NewMessage, OpError, Posted, SaveAgentState};
use crate::registry::Registry;
use shellkeep_session::{Author, SessionId};
use std::sync::Arc;

/// Records into one session.
#[derive(Clone)]
pub(crate) struct SessionLog {
    registry: Arc<Registry>,
    id: SessionId,
}

impl SessionLog {
    /// Records into session `id`.
    pub(crate) fn new(registry: &Arc<Registry>, id: &SessionId) -> Self {
        Self { registry: Arc::clone(registry), id: id.clone() }
    }

    /// Records an event.
    pub(crate) async fn event(&self, event: NewEvent, author: Author) -> Result<Posted, OpError> {
        let note = |answer| Message::Note { events: vec![event], author, answer };
        self.registry.ask_while_stopping(&self.id, note).await
    }

    /// Adds a message to the conversation.
    pub(crate) async fn message(&self, message: NewMessage, author: Author) -> Result<MessageAdded, OpError> {
        let add = |answer| Message::AddMessage { message, author, answer };
        self.registry.ask_while_stopping(&self.id, add).await
    }

    /// Saves the agent's state.
    pub(crate) async fn state(&self, save: SaveAgentState) -> Result<AgentStateSaved, OpError> {
        let save = |answer| Message::SaveAgentState { save, author: Author::program(), answer };
        self.registry.ask_while_stopping(&self.id, save).await
    }
}
