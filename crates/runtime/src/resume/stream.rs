//! An agent's work on a message as a stream: the session's new events and pieces of the answer as they arrive, then the
//! result.

use super::answer::{Seen, Watch, Work};
use crate::engine::{Access, EventStream, RecordOps};
use crate::ops::{EventQuery, MAX_EVENT_PAGE, ResumeChunk, ResumeView};
use shellkeep_record::Line;
use shellkeep_session::SessionId;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// How long the last events may take to be written once the work has ended.
const DRAIN: Duration = Duration::from_secs(10);

/// An agent's work on a message as a stream. `next` returns events and output as they arrive and the result at the end,
/// then `None`. Dropping it stops the agent if no one else watches and the request has no key.
pub struct ResumeStream {
    source: Source,
}

enum Source {
    Live(Box<Live>),
    Ended(Option<Box<ResumeView>>),
}

struct Live {
    access: Access,
    id: SessionId,
    watch: Watch,
    events: Events,
    /// Events that were read and not given.
    ready: VecDeque<Line>,
    /// Number of the last event that was read.
    seq: u64,
    result: Option<Arc<ResumeView>>,
}

enum Events {
    Unasked,
    Followed(EventStream),
    /// They cannot be read; the rest can.
    Missing,
}

impl ResumeStream {
    /// Work in progress.
    pub(crate) fn live(access: &Access, id: &SessionId, work: &Work, watch: Watch) -> Self {
        let live = Live {
            access: access.clone(),
            id: id.clone(),
            watch,
            events: Events::Unasked,
            ready: VecDeque::new(),
            seq: work.seq_from.saturating_sub(1),
            result: None,
        };
        Self { source: Source::Live(Box::new(live)) }
    }

    /// Work that ended before.
    pub(crate) fn ended(view: ResumeView) -> Self {
        Self { source: Source::Ended(Some(Box::new(view))) }
    }

    /// Waits for the result.
    pub async fn result(self) -> ResumeView {
        match self.source {
            Source::Live(mut live) => live.watch.result().await,
            Source::Ended(Some(view)) => *view,
            // It was returned already, and its caller does not ask again.
            Source::Ended(None) => std::future::pending().await,
        }
    }

    /// The next piece. Cancel-safe.
    pub async fn next(&mut self) -> Option<ResumeChunk> {
        let chunk = match &mut self.source {
            Source::Live(live) => live.next().await,
            Source::Ended(view) => return view.take().map(ResumeChunk::Result),
        };
        if matches!(chunk, ResumeChunk::Result(_)) {
            self.source = Source::Ended(None);
        }
        Some(chunk)
    }
}

impl Live {
    async fn next(&mut self) -> ResumeChunk {
        loop {
            if let Some(line) = self.ready.pop_front() {
                return ResumeChunk::Event(Box::new(line));
            }
            if let Some(result) = &self.result
                && (self.seq >= result.seq_to || matches!(self.events, Events::Missing))
            {
                return ResumeChunk::Result(Box::new((**result).clone()));
            }
            self.follow().await;
            if self.result.is_some() {
                let Events::Followed(events) = &mut self.events else { continue };
                match tokio::time::timeout(DRAIN, events.next()).await {
                    Ok(Ok(lines)) => self.take(lines),
                    Ok(Err(_)) | Err(_) => self.events = Events::Missing,
                }
                continue;
            }
            let (watch, events) = (&mut self.watch, &mut self.events);
            let lines = async {
                match events {
                    Events::Followed(events) => events.next().await,
                    Events::Unasked | Events::Missing => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                seen = watch.next() => match seen {
                    Seen::Output(text) => return ResumeChunk::Output(text),
                    Seen::Result(result) => self.result = Some(result),
                },
                lines = lines => match lines {
                    Ok(lines) => self.take(lines),
                    Err(_) => self.events = Events::Missing,
                },
            }
        }
    }

    async fn follow(&mut self) {
        if !matches!(self.events, Events::Unasked) {
            return;
        }
        let query = EventQuery { after: self.seq, limit: MAX_EVENT_PAGE, ..EventQuery::default() };
        self.events = match RecordOps::new(&self.access).follow_events(&self.id, query).await {
            Ok(events) => Events::Followed(events),
            Err(error) => {
                tracing::warn!(session = %self.id, %error, "the events of a resumed agent cannot be followed");
                Events::Missing
            }
        };
    }

    /// Events of this work; later ones belong to others.
    fn take(&mut self, lines: Vec<Line>) {
        if let Some(last) = lines.last() {
            self.seq = last.seq;
        }
        let end = self.result.as_ref().map_or(u64::MAX, |result| result.seq_to);
        self.ready.extend(lines.into_iter().filter(|line| line.seq <= end));
    }
}
