//! A followed recording: existing events, then new ones. Read from the files a page at a time, so that a slow reader
//! blocks nothing and fills no memory.

use super::leaving::{Leaving, moving};
use crate::engine::parts::Parts;
use crate::names::not_found;
use crate::ops::{BoxFuture, EventQuery, MAX_EVENT_PAGE, OpError};
use crate::secrets::Secrets;
use crate::validate::records::selected_types;
use shellkeep_record::{Filter, Line, Recording, Search};
use shellkeep_session::SessionId;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::watch;

/// Bytes of events that a follower reads at a time, and at least one event: what it has read and not yet sent is all
/// that a follower costs.
const PIECE: usize = 64 << 10;
/// How long events gather before a follower reads them: reading makes the store write, which is more efficient for
/// many.
const GATHER: Duration = Duration::from_millis(20);

/// A recording, followed. It ends only with its session or with the engine, or when the session leaves this node.
pub struct EventStream {
    parts: Weak<Parts>,
    id: SessionId,
    query: EventQuery,
    filter: Arc<Filter>,
    /// Tells the number of the last record.
    recorded: watch::Receiver<u64>,
    /// Tells that the session has left this node, if there are others.
    leaving: Option<Leaving>,
    /// Whether there may be something that was not read.
    behind: bool,
    /// Up to where everything was read.
    seen: u64,
}

impl EventStream {
    pub(super) async fn start(parts: &Arc<Parts>, id: &SessionId, query: EventQuery) -> Result<Self, OpError> {
        let recorded = parts.ctx.store.followers().follow(id);
        let leaving = Leaving::of(parts.ctx.cluster.as_deref(), id);
        let filter = Arc::new(filter(&parts.ctx.secrets, id, &query).await?);
        let (parts, id, seen) = (Arc::downgrade(parts), id.clone(), query.after);
        // The first look is at what is there.
        Ok(Self { parts, id, query, filter, recorded, leaving, behind: true, seen })
    }

    /// The next events; waits for them. Cancel-safe. After an error there is no more.
    pub async fn next(&mut self) -> Result<Vec<Line>, OpError> {
        loop {
            while self.behind {
                let lines = self.read().await?;
                if !lines.is_empty() {
                    return Ok(lines);
                }
            }
            tokio::select! {
                // What was recorded before it left is read first.
                biased;
                changed = self.recorded.changed() => changed.map_err(|_| OpError::ShuttingDown)?,
                () = until_left(self.leaving.as_ref(), &self.id) => return Err(moving(&self.id)),
            }
            self.behind = true;
            tokio::time::sleep(GATHER).await;
        }
    }

    /// Reads the next events. Returns only when all of them are read.
    fn read(&mut self) -> BoxFuture<'_, Result<Vec<Line>, OpError>> {
        Box::pin(async move {
            let parts = self.parts.upgrade().ok_or(OpError::ShuttingDown)?;
            if parts.ctx.lifetime.is_stopping() {
                return Err(OpError::ShuttingDown);
            }
            if self.query.redact {
                self.filter = Arc::new(filter(&parts.ctx.secrets, &self.id, &self.query).await?);
            }
            let (after, filter) = (self.seen, Arc::clone(&self.filter));
            let reading = move |recording: &Recording| {
                let last = recording.last()?.map_or(after, |line| line.seq);
                Ok((recording.page_of(after, MAX_EVENT_PAGE, PIECE, &filter)?, last))
            };
            let read = parts.recordings.search_in_stream(&self.id, reading).await;
            if !parts.ctx.names.contains(&self.id) && parts.recordings.deleted(&self.id).is_none() {
                // What only this node has of one that another took may be kept under another name.
                let is_taken = self.leaving.as_ref().is_some_and(|leaving| leaving.is_taken(&self.id));
                return Err(if is_taken { moving(&self.id) } else { not_found(&self.id) });
            }
            let (page, last) = read?;
            let last = page.lines.last().map_or(last, |line| line.seq.max(last));
            self.behind = page.next.is_some();
            self.seen = page.next.unwrap_or(last).max(after);
            Ok(page.lines)
        })
    }
}

/// Returns when the session has left this node; never if there are no others.
async fn until_left(leaving: Option<&Leaving>, id: &SessionId) {
    match leaving {
        Some(leaving) => leaving.until_left(id).await,
        None => std::future::pending().await,
    }
}

/// Which events a query wants.
pub(super) async fn filter(secrets: &Secrets, id: &SessionId, query: &EventQuery) -> Result<Filter, OpError> {
    selected_types(&query.types)?;
    let search = query.search.as_deref().map(Search::new).transpose();
    let wrong = |error| OpError::Invalid { detail: format!("search is {error}") };
    let masker = if query.redact { Some(secrets.masker(id).await?) } else { None };
    Ok(Filter { types: query.types.clone(), search: search.map_err(wrong)?, masker })
}
