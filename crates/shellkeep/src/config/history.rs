//! How much of the journal is kept for history, and how long history is kept.

use super::layers::Layers;
use super::setting::{Setting, ShownSetting, show};
use super::values::{ByAgent, Span};
use crate::failure::Failure;
use shellkeep_history::Retention;
use shellkeep_store::FEED_BEHIND_BYTES;

/// The settings in effect.
#[derive(Debug, Clone)]
pub struct HistoryLimits {
    /// How much of the journal is kept while the database or broker is away.
    pub behind_bytes: Setting<u64>,
    /// How long records are kept.
    pub keep: Setting<Span>,
    /// The same for sessions of some agents.
    pub keep_agents: Setting<ByAgent>,
    /// How long a deleted session is kept.
    pub keep_deleted: Setting<Span>,
}

impl HistoryLimits {
    /// Joins the layers.
    pub(super) fn load(layers: &Layers) -> Result<Self, Failure> {
        Ok(Self {
            behind_bytes: layers.or(
                "SHELLKEEP_HISTORY_BEHIND_BYTES",
                |layer| layer.history_behind_bytes,
                FEED_BEHIND_BYTES,
            )?,
            keep: layers.or("SHELLKEEP_HISTORY_KEEP", |layer| layer.history_keep, Span(None))?,
            keep_agents: layers.or(
                "SHELLKEEP_HISTORY_KEEP_AGENTS",
                |layer| layer.history_keep_agents.clone(),
                ByAgent::default(),
            )?,
            keep_deleted: layers.or(
                "SHELLKEEP_HISTORY_KEEP_DELETED",
                |layer| layer.history_keep_deleted,
                Span(None),
            )?,
        })
    }

    /// Every setting, for showing.
    pub(super) fn shown(&self) -> [ShownSetting; 4] {
        [
            show("history_behind_bytes", &self.behind_bytes, ToString::to_string),
            show("history_keep", &self.keep, ToString::to_string),
            show("history_keep_agents", &self.keep_agents, ToString::to_string),
            show("history_keep_deleted", &self.keep_deleted, ToString::to_string),
        ]
    }

    /// How long history is kept.
    pub fn retention(&self) -> Retention {
        retention(self.keep.value, &self.keep_agents.value, self.keep_deleted.value)
    }
}

/// How long history is kept, from what was written.
pub fn retention(keep: Span, agents: &ByAgent, keep_deleted: Span) -> Retention {
    let agents = agents.0.iter().map(|(agent, span)| (agent.clone(), span.0)).collect();
    Retention { keep: keep.0, agents, keep_deleted: keep_deleted.0 }
}
