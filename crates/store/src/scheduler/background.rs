//! The scheduler's background work: the recordings' turns, who waits for them, and how long the journal is kept.

use super::Scheduler;
use crate::backend::Mark;
use crate::fault::Point;
use crate::journal::End;
use crate::reader::Reader as _;
use crate::recording_reader::Turn;
use shellkeep_session::SessionId;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// How long a stop waits for recordings. What is left then is done by the next daemon.
const LAST_TURNS: Duration = Duration::from_secs(5);

impl Scheduler {
    /// Gives the recordings a turn; whether there was anything to do.
    pub(super) fn record_some(&mut self) -> bool {
        let Some(recorder) = &mut self.recorder else { return false };
        if recorder.reader.rests_until().is_some() {
            return false;
        }
        if self.shared.faults.check(Point::RecordTurn).is_err() {
            recorder.reader.rest();
            return false;
        }
        // What the backend is about to be given is read once for both.
        let end = match self.retry_at {
            Some(_) => self.shared.journal.end(),
            None => End::from(self.backend.reader.mark()),
        };
        let before = recorder.reader.mark();
        let turn = self.record_turn(&end);
        let mark = self.recorder.as_ref().map_or(before, |recorder| recorder.reader.mark());
        if before != mark {
            self.moved(before, mark);
        }
        turn == Turn::Worked
    }

    /// One turn: what one session has, or the next stretch of the journal.
    pub(super) fn record_turn(&mut self, end: &End) -> Turn {
        let Some(recorder) = &mut self.recorder else { return Turn::Idle };
        match recorder.reader.work() {
            Turn::Idle => match recorder.step(end) {
                Ok(Some(_)) => Turn::Worked,
                Ok(None) => Turn::Idle,
                Err(error) => {
                    tracing::warn!(error, "recordings have to wait; they are tried again");
                    recorder.reader.rest()
                }
            },
            turn => turn,
        }
    }

    /// The recordings' mark is another.
    fn moved(&mut self, before: Mark, mark: Mark) {
        metrics::gauge!("shellkeep_record_behind_bytes").set(self.shared.journal.bytes_since(mark) as f64);
        if before.segment < mark.segment {
            self.remove_segments();
            self.scrub_those_ready();
        }
        for (_, answer) in self.flushes.extract_if(.., |(until, _)| *until <= mark) {
            // Who no longer waits needs no answer.
            let _ = answer.send(());
        }
    }

    /// Answers once a session's recording has what was appended before, at once; or all recordings, in turn.
    pub(super) fn flush_recordings(&mut self, about: Option<SessionId>, seal: bool, answer: oneshot::Sender<()>) {
        let end = self.shared.journal.end();
        match (&mut self.recorder, about) {
            (Some(recorder), Some(session_id)) => {
                // What cannot be read or written is met again in turn, and reported then.
                let _ = recorder.bring_forward(&[&session_id], &end);
                if end.queued {
                    recorder.reader.take_queued(&self.shared.journal.waiting_of(&session_id));
                }
                if seal {
                    recorder.reader.sign(Some(&session_id));
                }
            }
            (Some(recorder), None) if !recorder.reader.is_at(&end) => {
                return self.flushes.push((end.mark(), answer));
            }
            _ => {}
        }
        // Who no longer waits needs no answer.
        let _ = answer.send(());
    }

    /// Gives the recordings what the journal refuses, if they have everything before.
    pub(super) fn record_queued(&mut self) {
        let end = self.shared.journal.end();
        if let Some(recorder) = self.recorder.as_mut().filter(|recorder| recorder.reader.is_at(&end)) {
            recorder.reader.take_queued(&self.shared.journal.waiting_to_be_recorded());
        }
    }

    /// Tries again to write recordings that could not be written, if it is time.
    pub(super) fn recover(&mut self, now: bool) {
        if self.recorder.as_mut().is_some_and(|recorder| recorder.recover(now)) {
            self.shared.journal.record_again();
            self.remove_segments();
        }
    }

    /// The recordings' turns before the end.
    pub(super) fn record_last(&mut self, end: &End) {
        let until = Instant::now() + LAST_TURNS;
        while self.shared.faults.check(Point::RecordTurn).is_ok()
            && Instant::now() < until
            && self.record_turn(end) == Turn::Worked
        {}
        self.recover(true);
        self.record_queued();
        self.scrub_those_ready();
        // What is recorded beyond the mark is signed too: a stop leaves nothing that looks forged.
        if let Some(recorder) = &mut self.recorder {
            recorder.reader.sign(None);
        }
    }

    /// Removes the segments that neither the backend nor a recording needs.
    pub(super) fn remove_segments(&mut self) {
        let applied = self.backend.reader.mark().segment;
        let keep = self.recorder.as_ref().map_or(applied, |recorder| recorder.reader.mark().segment.min(applied));
        while let Some(needed) = self.stalled_at().filter(|needed| *needed < keep) {
            let kept: u64 = (needed..keep).map(|number| self.shared.journal.size(number)).sum();
            let Some(recorder) = &mut self.recorder else { break };
            let recordings = recorder.reader.recordings();
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
        self.recorder.as_mut().and_then(|recorder| recorder.reader.recordings().needs_from())
    }
}
