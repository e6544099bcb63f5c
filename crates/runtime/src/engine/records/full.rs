//! A page of a recording with everything in its events.

use crate::ops::{EventPage, MAX_EVENT_PAGE, Origin};
use shellkeep_record::{Filter, ReadError, Recording};

/// A page as callers see it.
pub(in crate::engine) fn page(
    recording: &Recording,
    after: u64,
    limit: usize,
    filter: &Filter,
) -> Result<EventPage, ReadError> {
    let page = recording.page(after, limit.clamp(1, MAX_EVENT_PAGE), filter)?;
    Ok(EventPage { events: page.lines, next: page.next, origin: Origin::Node })
}
