//! Bringing up recordings that could not be written, from the journal, which is kept for them as long as that is sensible.

use super::Writer;
use crate::backend::{Entry, Mark};
use crate::journal::End;
use crate::segment;
use crate::tail::Tail;
use shellkeep_session::SessionId;
use std::time::Instant;

impl Writer {
    /// After a start: an earlier daemon may have left recordings behind, or died before it had removed segments.
    pub(super) fn bring_up_at_start(&mut self) {
        let Some(recordings) = &self.recordings else { return };
        let applied = self.backend.applied();
        if recordings.was_left_behind() || self.oldest < applied.segment {
            self.bring_up(Mark { segment: self.oldest, offset: 0 }, |_| true);
        }
        self.remove_segments();
    }

    /// Looks again at recordings that could not be written, if it is time.
    pub(super) fn recover(&mut self, now: bool) {
        let Some(recordings) = &mut self.recordings else { return };
        if recordings.retry_at().is_none_or(|at| !now && at > Instant::now()) {
            return;
        }
        let recovering = recordings.recovering();
        if let Some(from) = recovering.values().min().copied() {
            self.bring_up(from, |session_id| recovering.contains_key(session_id));
            self.remove_segments();
        } else {
            recordings.publish();
        }
    }

    /// Gives the recorder again what it should have had, from a place in the journal to where the backend is.
    fn bring_up(&mut self, from: Mark, wanted: impl Fn(&SessionId) -> bool) {
        let Some(recordings) = &mut self.recordings else { return };
        let applied = self.backend.applied();
        let end = End { segment: applied.segment, length: applied.offset, queued: false };
        let mut tail = Tail::new(self.shared.journal.directory().to_owned(), from);
        loop {
            let batch = match tail.next(&end) {
                Ok(Some(batch)) => batch,
                Ok(None) => break,
                Err(error) => {
                    tracing::warn!(%error, "the journal cannot be read again; recordings may have a hole");
                    break;
                }
            };
            let entries = batch.entries.iter().filter(|entry| wanted(Entry::session_id(entry)));
            if let Err(reason) = recordings.take(entries, tail.position()) {
                tracing::warn!(reason, "recordings were brought up from the journal and may be lost with the power");
            }
            tail.advance(batch.mark);
        }
        // What was read ahead was passed over for those who were stalled.
        self.ahead.recorded = 0;
        recordings.publish();
    }

    /// Removes the segments that neither the backend nor a recording needs.
    pub(super) fn remove_segments(&mut self) {
        let applied = self.backend.applied().segment;
        let keep = match &mut self.recordings {
            Some(recordings) => {
                let directory = self.shared.journal.directory();
                let size =
                    |number: u64| std::fs::metadata(segment::path(directory, number)).map_or(0, |file| file.len());
                while let Some(needed) = recordings.needs_from().filter(|needed| *needed < applied) {
                    let kept: u64 = (needed..applied).map(size).sum();
                    if kept <= recordings.behind_bytes() {
                        break;
                    }
                    recordings.give_up_before(needed + 1);
                }
                recordings.needs_from().unwrap_or(applied).min(applied)
            }
            None => applied,
        };
        for number in self.oldest..keep {
            self.shared.journal.remove(number);
        }
        self.oldest = self.oldest.max(keep);
    }
}
