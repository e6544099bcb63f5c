//! What a daemon needs to write history.

use crate::config::Settings;
use crate::failure::Failure;
use shellkeep_history::{JournalSource, Outbox};
use shellkeep_store::{FeedControl, FeedOptions, Store};

/// Whether the journal is read for history. Where nodes share a store, only what that store has becomes history.
pub(super) fn feed(settings: &Settings) -> Option<FeedOptions> {
    let gated = shellkeep_shared::is_shared(&settings.store.value);
    (!settings.history.value.is_empty()).then_some(FeedOptions { gated })
}

/// Starts to write history, if there is a database for it.
pub(super) fn start(settings: &Settings, store: &Store) -> Result<Option<Outbox>, Failure> {
    let Some(control) = FeedControl::of(store) else { return Ok(None) };
    let source = JournalSource { id: store.home().id().to_owned(), node: settings.node.value.clone() };
    Outbox::start(control, &settings.history.value, source).map(Some).map_err(Failure::start)
}

/// Writes what is left.
pub(super) async fn close(outbox: Option<Outbox>) {
    if let Some(outbox) = outbox {
        // A panic of the thread is in the log.
        let _ = tokio::task::spawn_blocking(move || outbox.close()).await;
    }
}
