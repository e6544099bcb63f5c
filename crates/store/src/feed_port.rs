//! What the store and the reader outside of it share: how far that reader is, what is wrong with it, and what it is asked
//! to do. See [`crate::feed`].

use crate::backend::Mark;
use crate::error::ReadError;
use crate::lock::hold;
use shellkeep_redact::Redactor;
use shellkeep_session::{OutOfReach, Record, SessionId, Timestamp};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// How much of the journal is kept for a reader outside that is behind, unless the host says otherwise. Beyond that its oldest records are dropped: a
/// database that stays away must not fill the disk.
pub const FEED_BEHIND_BYTES: u64 = 2 * 1024 * 1024 * 1024;

/// A reader outside the store.
#[derive(Debug, Clone, Copy)]
pub struct FeedOptions {
    /// Whether records wait until a gate lets them out: where nodes share a store.
    pub gated: bool,
    /// How much of the journal is kept while the reader is behind.
    pub most_bytes: u64,
}

/// After how long without an answer the reader outside is reported.
const MOST_SILENCE: Duration = Duration::from_secs(5);

/// Whether a record may leave the node, of a session that was created at this time, if that is known: where nodes share a store,
/// only what that store has acknowledged.
pub type Gate = Arc<dyn Fn(&Record, Option<Timestamp>) -> bool + Send + Sync>;

/// A secret to be masked in what the reader outside has written.
pub struct FeedScrub {
    /// The session it is about.
    pub session_id: SessionId,
    /// Finds it.
    pub redactor: Redactor,
    /// Takes what the reader cannot reach, or why it failed.
    pub answer: oneshot::Sender<Result<Vec<OutOfReach>, String>>,
}

/// What a wait ended with.
#[derive(Debug, PartialEq, Eq)]
pub enum Woken {
    /// There may be something to read, or to do.
    News,
    /// Nothing happened for as long as was asked.
    Nothing,
    /// The store is about to close.
    Closing,
}

/// What the store and its reader outside share.
#[derive(Default)]
pub(crate) struct FeedPort {
    /// How much of the journal is kept for it.
    most_bytes: u64,
    inner: Mutex<Inner>,
    changed: Condvar,
}

#[derive(Default)]
struct Inner {
    /// Everything before this place is where it belongs; none if there is no such reader.
    mark: Option<Mark>,
    /// Recordings have everything before this place; none if there are none.
    recorded: Option<Mark>,
    has_news: bool,
    is_closing: bool,
    problem: Option<String>,
    /// Since when the reader waits for an answer.
    waits_since: Option<Instant>,
    /// Bytes that were dropped because the reader was too far behind.
    dropped: u64,
    /// Whether nothing is read before there is a gate.
    needs_gate: bool,
    gate: Option<Gate>,
    scrubs: Vec<FeedScrub>,
}

impl FeedPort {
    /// A port for a reader that is about to start; it needs everything from a segment on.
    pub(crate) fn from_segment(segment: u64, options: FeedOptions) -> Self {
        let FeedOptions { gated, most_bytes } = options;
        let inner = Inner { mark: Some(Mark { segment, offset: 0 }), needs_gate: gated, ..Inner::default() };
        Self { most_bytes, inner: Mutex::new(inner), changed: Condvar::new() }
    }

    /// Everything before this place is where it belongs; none if there is no reader.
    pub(crate) fn mark(&self) -> Option<Mark> {
        hold(&self.inner).mark
    }

    pub(crate) fn set_mark(&self, mark: Mark) {
        hold(&self.inner).mark = Some(mark);
    }

    /// Recordings have everything before a place.
    pub(crate) fn set_recorded(&self, mark: Mark) {
        hold(&self.inner).recorded = Some(mark);
    }

    /// Whether recordings have everything that the reader has.
    pub(crate) fn is_recorded(&self) -> bool {
        let inner = hold(&self.inner);
        inner.recorded.is_none_or(|recorded| inner.mark.is_none_or(|mark| mark <= recorded))
    }

    /// There is more in the journal, or more of it may be read.
    pub(crate) fn wake(&self) {
        let mut inner = hold(&self.inner);
        if inner.mark.is_some() {
            inner.has_news = true;
            self.changed.notify_all();
        }
    }

    pub(crate) fn close(&self) {
        hold(&self.inner).is_closing = true;
        self.changed.notify_all();
    }

    pub(crate) fn is_closing(&self) -> bool {
        hold(&self.inner).is_closing
    }

    pub(crate) fn set_problem(&self, problem: Option<String>) {
        hold(&self.inner).problem = problem;
    }

    /// The reader waits for an answer from now on, or no longer.
    pub(crate) fn set_waiting(&self, is_waiting: bool) {
        hold(&self.inner).waits_since = is_waiting.then(Instant::now);
    }

    pub(crate) fn set_gate(&self, gate: Gate) {
        hold(&self.inner).gate = Some(gate);
        self.wake();
    }

    /// Whether a record may leave the node now.
    pub(crate) fn may_leave(&self, record: &Record, created_at: Option<Timestamp>) -> bool {
        let (gate, needs_gate) = {
            let inner = hold(&self.inner);
            (inner.gate.clone(), inner.needs_gate)
        };
        match gate {
            Some(gate) => gate(record, created_at),
            None => !needs_gate,
        }
    }

    pub(crate) fn has_gate(&self) -> bool {
        hold(&self.inner).needs_gate
    }

    /// Why nothing can be masked at the moment, if the reader cannot write.
    pub(crate) fn refusal(&self) -> Option<String> {
        let inner = hold(&self.inner);
        inner.problem.as_ref().map(|problem| {
            format!(
                "{problem} The journal must be kept until then, with the secret in it; scrub again when history is back"
            )
        })
    }

    /// Asks the reader to mask a secret in what it has written; nothing to do if there is no reader. Returns what it cannot
    /// reach.
    pub(crate) async fn scrub(
        &self,
        session_id: &SessionId,
        redactor: &Redactor,
    ) -> Result<Vec<OutOfReach>, ReadError> {
        if self.mark().is_none() {
            return Ok(Vec::new());
        }
        let (answer, waiting) = oneshot::channel();
        let scrub = FeedScrub { session_id: session_id.clone(), redactor: redactor.clone(), answer };
        hold(&self.inner).scrubs.push(scrub);
        self.changed.notify_all();
        let closed = || Err("the store is closed".to_owned());
        waiting.await.unwrap_or_else(|_| closed()).map_err(|reason| ReadError::Unavailable { reason })
    }

    pub(crate) fn take_scrub(&self) -> Option<FeedScrub> {
        hold(&self.inner).scrubs.pop()
    }

    /// What is wrong, as sentences.
    pub(crate) fn problems(&self) -> Vec<String> {
        let inner = hold(&self.inner);
        let dropped = (inner.dropped > 0).then(|| {
            format!(
                "History lacks {} bytes of the journal: the history database or broker was away for so long that the journal \
                 reached its limit of {} bytes (history_behind_bytes).",
                inner.dropped, self.most_bytes
            )
        });
        let silent = inner.waits_since.map(|since| since.elapsed()).filter(|waited| *waited > MOST_SILENCE);
        let silent = silent.map(|waited| {
            format!(
                "The history database or broker has not answered for {} s; the journal keeps what it lacks.",
                waited.as_secs()
            )
        });
        inner.problem.iter().cloned().chain(silent).chain(dropped).collect()
    }

    /// Sleeps until there is something to read or to do.
    pub(crate) fn wait(&self, most: Duration) -> Woken {
        let until = Instant::now() + most;
        let mut inner = hold(&self.inner);
        loop {
            if std::mem::take(&mut inner.has_news) || !inner.scrubs.is_empty() {
                return Woken::News;
            }
            if inner.is_closing {
                return Woken::Closing;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Woken::Nothing;
            }
            (inner, _) = self.changed.wait_timeout(inner, left).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Sleeps for a while, or until the store is about to close; whether it is.
    pub(crate) fn rest(&self, pause: Duration) -> bool {
        let inner = hold(&self.inner);
        let rested = self.changed.wait_timeout_while(inner, pause, |inner| !inner.is_closing);
        rested.unwrap_or_else(PoisonError::into_inner).0.is_closing
    }

    /// Sleeps for a while, or until the store is about to close or a secret is to be masked.
    pub(crate) fn give_way(&self, pause: Duration) {
        let may_rest = |inner: &mut Inner| !inner.is_closing && inner.scrubs.is_empty();
        // How it ended does not matter.
        let _ = self.changed.wait_timeout_while(hold(&self.inner), pause, may_rest);
    }

    /// The first segment that the reader needs, if others need those from `others` on. What is too far behind is dropped.
    pub(crate) fn needs_from(&self, others: u64, size: impl Fn(u64) -> u64) -> u64 {
        let mut inner = hold(&self.inner);
        let Some(mark) = inner.mark.filter(|mark| mark.segment < others) else { return others };
        let mut kept: u64 = (mark.segment..others).map(&size).sum();
        let mut from = mark.segment;
        while kept > self.most_bytes && from < others {
            let bytes = size(from);
            (kept, inner.dropped) = (kept - bytes, inner.dropped + bytes);
            metrics::counter!("shellkeep_history_dropped_bytes_total").increment(bytes);
            tracing::error!(
                segment = from,
                bytes,
                "history is too far behind; a part of the journal is dropped for it"
            );
            from += 1;
        }
        if from > mark.segment {
            inner.mark = Some(Mark { segment: from, offset: 0 });
        }
        from
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shellkeep_session::Event;

    #[test]
    fn segments_stay_until_the_reader_is_past_them_but_not_without_limit() {
        assert_eq!(FeedPort::default().needs_from(7, |_| 10), 7, "nobody reads");
        let port = FeedPort::from_segment(3, FeedOptions { gated: false, most_bytes: 40 });
        assert_eq!(port.needs_from(7, |_| 10), 3);
        port.set_mark(Mark { segment: 5, offset: 9 });
        assert_eq!(port.needs_from(7, |_| 10), 5);
        assert!(port.problems().is_empty());
        assert_eq!(port.needs_from(9, |_| 15), 7, "two of four segments are dropped");
        assert_eq!(port.mark(), Some(Mark { segment: 7, offset: 0 }));
        assert!(port.problems()[0].contains("lacks 30 bytes"), "{:?}", port.problems());
    }

    #[test]
    fn what_needs_a_gate_waits_for_it() {
        let (port, id) =
            (FeedPort::from_segment(1, FeedOptions { gated: true, most_bytes: 1 }), SessionId::parse("s").unwrap());
        let may_leave = |seq: u64| {
            let (session_id, event) = (id.clone(), Event::ShellStarted { generation: 1 });
            port.may_leave(&Record { session_id, seq, at: Timestamp::UNIX_EPOCH, event }, None)
        };
        assert!(!may_leave(1));
        port.set_gate(Arc::new(|record, _| record.seq < 2));
        assert_eq!(port.wait(Duration::ZERO), Woken::News);
        assert!(may_leave(1) && !may_leave(2));
        assert_eq!(port.wait(Duration::ZERO), Woken::Nothing);
        port.close();
        assert_eq!(port.wait(Duration::from_secs(60)), Woken::Closing);
    }
}
