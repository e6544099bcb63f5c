//! The recorder's turns, who waits for them, and how long the journal is kept for both recorder and backend.

use super::Writer;
use crate::backend::Mark;
use crate::fault::Point;
use crate::journal::End;
use crate::segment;
use shellkeep_session::SessionId;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// How long a stop waits for recordings. What is left then is done by the next daemon.
const LAST_TURNS: Duration = Duration::from_secs(5);

impl Writer {
    /// Lets the recorder do a little; whether it had anything to do.
    pub(super) fn record_some(&mut self) -> bool {
        let Some(scribe) = &mut self.scribe else { return false };
        if scribe.rests_until().is_some() {
            return false;
        }
        if self.shared.faults.check(Point::RecordTurn).is_err() {
            return scribe.rest();
        }
        // What the backend is about to be given is read once for both.
        let end = match self.retry_at {
            Some(_) => self.shared.journal.end(),
            None => End::from(self.backend.applied()),
        };
        let before = scribe.mark();
        let worked = scribe.step(&end);
        let mark = scribe.mark();
        if before != mark {
            self.moved(before, mark);
        }
        worked
    }

    /// The recorder's mark is another.
    fn moved(&mut self, before: Mark, mark: Mark) {
        metrics::gauge!("shellkeep_record_behind_bytes").set(self.bytes_since(mark) as f64);
        if before.segment < mark.segment {
            self.remove_segments();
            self.scrub_those_ready();
        }
        for (_, answer) in self.flushes.extract_if(.., |(until, _)| *until <= mark) {
            // Who no longer waits needs no answer.
            let _ = answer.send(());
        }
    }

    /// How much of the journal is after a place.
    pub(super) fn bytes_since(&self, mark: Mark) -> u64 {
        let end = self.shared.journal.end();
        (mark.segment..=end.segment).map(|number| self.size(number)).sum::<u64>().saturating_sub(mark.offset)
    }

    fn size(&self, segment: u64) -> u64 {
        let path = segment::path(self.shared.journal.directory(), segment);
        std::fs::metadata(path).map_or(0, |file| file.len())
    }

    /// Answers once a session's recording has what was appended before, at once; or all recordings, in turn.
    pub(super) fn flush_recordings(&mut self, about: Option<SessionId>, seal: bool, answer: oneshot::Sender<()>) {
        let end = self.shared.journal.end();
        match (&mut self.scribe, about) {
            (Some(scribe), Some(session_id)) => {
                scribe.bring(&session_id, &end);
                if end.queued {
                    scribe.take_queued(&self.shared.journal.waiting_of(&session_id));
                }
                if seal {
                    scribe.seal(&session_id);
                }
            }
            (Some(scribe), None) if !scribe.is_at(&end) => {
                return self.flushes.push((end.mark(), answer));
            }
            _ => {}
        }
        // Who no longer waits needs no answer.
        let _ = answer.send(());
    }

    /// Gives the recorder what the journal refuses, if it has had everything before.
    pub(super) fn record_queued(&mut self) {
        let end = self.shared.journal.end();
        if let Some(scribe) = self.scribe.as_mut().filter(|scribe| scribe.is_at(&end)) {
            scribe.take_queued(&self.shared.journal.waiting_to_be_recorded());
        }
    }

    /// Looks again at recordings that could not be written, if it is time.
    pub(super) fn recover(&mut self, now: bool) {
        if self.scribe.as_mut().is_some_and(|scribe| scribe.recover(now)) {
            self.shared.journal.record_again();
            self.remove_segments();
        }
    }

    /// The recorder's turns before the end.
    pub(super) fn record_last(&mut self, end: &End) {
        let until = Instant::now() + LAST_TURNS;
        let Some(scribe) = &mut self.scribe else { return };
        let comes = || self.shared.faults.check(Point::RecordTurn).is_ok() && Instant::now() < until;
        while comes() && scribe.step(end) {}
        self.recover(true);
        self.record_queued();
        self.scrub_those_ready();
        // What is recorded beyond the mark is signed all the same: a stop leaves nothing that looks forged.
        if let Some(scribe) = &mut self.scribe {
            scribe.sign();
        }
    }

    /// Removes the segments that neither the backend nor a recording needs.
    pub(super) fn remove_segments(&mut self) {
        let applied = self.backend.applied().segment;
        let keep = self.scribe.as_ref().map_or(applied, |scribe| scribe.mark().segment.min(applied));
        while let Some(needed) = self.stalled_at().filter(|needed| *needed < keep) {
            let kept: u64 = (needed..keep).map(|number| self.size(number)).sum();
            let Some(recordings) = self.scribe.as_mut().map(|scribe| scribe.recordings()) else { break };
            if kept <= recordings.behind_bytes() {
                break;
            }
            recordings.give_up_before(needed + 1);
        }
        let keep = self.stalled_at().unwrap_or(keep).min(keep);
        for number in self.oldest..keep {
            self.shared.journal.remove(number);
        }
        self.oldest = self.oldest.max(keep);
    }

    /// The first segment that a recording needs which cannot be written.
    pub(super) fn stalled_at(&mut self) -> Option<u64> {
        self.scribe.as_mut().and_then(|scribe| scribe.recordings().needs_from())
    }
}
