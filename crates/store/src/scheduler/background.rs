//! What the scheduler does while no caller waits: the recordings' turns, and answers to callers that wait for
//! recordings.

use super::shared::Shared;
use crate::backend::Mark;
use crate::fault::Point;
use crate::journal::End;
use crate::reader::{Follower, Reader as _};
use crate::recording_reader::{RecordingReader, Turn};
use crate::recordings::Recordings;
use shellkeep_session::SessionId;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// How long a stop waits for recordings. The next daemon does the rest.
const LAST_TURNS: Duration = Duration::from_secs(5);

/// The recordings, if sessions are recorded, and who waits for them.
pub(super) struct Background {
    shared: Arc<Shared>,
    recorder: Option<Follower<RecordingReader>>,
    /// Callers that wait until the recordings have everything before a position.
    flushes: Vec<(Mark, oneshot::Sender<()>)>,
}

impl Background {
    pub(super) fn new(shared: Arc<Shared>, recorder: Option<RecordingReader>) -> Self {
        let recorder = recorder.map(|recorder| Follower::new(recorder, shared.journal.directory()));
        Self { shared, recorder, flushes: Vec::new() }
    }

    /// Everything before this place is recorded; none if nothing is recorded at all.
    pub(super) fn mark(&self) -> Option<Mark> {
        self.recorder.as_ref().map(|recorder| recorder.reader.mark())
    }

    pub(super) fn recorder(&mut self) -> Option<&mut Follower<RecordingReader>> {
        self.recorder.as_mut()
    }

    pub(super) fn recordings(&mut self) -> Option<&mut Recordings> {
        self.recorder.as_mut().map(|recorder| recorder.reader.recordings())
    }

    /// When to try again to write recordings that could not be written.
    pub(super) fn retry_at(&self) -> Option<Instant> {
        self.recorder.as_ref().and_then(|recorder| recorder.reader.retry_at())
    }

    /// Until when a disk that failed is left alone, if it is.
    pub(super) fn rests_until(&self) -> Option<Instant> {
        self.recorder.as_ref().and_then(|recorder| recorder.reader.rests_until())
    }

    /// Gives the recordings a turn with the journal up to an end.
    pub(super) fn turn(&mut self, end: &End) -> Turn {
        let Some(recorder) = self.recorder.as_mut().filter(|recorder| recorder.reader.rests_until().is_none()) else {
            return Turn::Idle;
        };
        if self.shared.faults.check(Point::RecordTurn).is_err() {
            return recorder.reader.rest();
        }
        let before = recorder.reader.mark();
        let turn = recorder.turn(end);
        let mark = recorder.reader.mark();
        // Also during a long part, whose mark is set at its end.
        if before != mark || turn == Turn::Worked {
            metrics::gauge!("shellkeep_record_behind_bytes").set(self.shared.journal.bytes_since(mark) as f64);
        }
        turn
    }

    /// Answers those whose wait for the recordings is over.
    pub(super) fn answer_flushes(&mut self) {
        let Some(mark) = self.mark() else { return };
        for (_, answer) in self.flushes.extract_if(.., |(until, _)| *until <= mark) {
            // The caller may be gone.
            let _ = answer.send(());
        }
    }

    /// The turns before the end.
    pub(super) fn last_turns(&mut self, end: &End) {
        let Some(recorder) = &mut self.recorder else { return };
        let until = Instant::now() + LAST_TURNS;
        let may = || self.shared.faults.check(Point::RecordTurn).is_ok() && Instant::now() < until;
        while may() && recorder.turn(end) == Turn::Worked {}
    }

    /// Answers once a session's recording has what was appended before, at once; or all recordings, in turn.
    pub(super) fn flush(&mut self, about: Option<SessionId>, seal: bool, answer: oneshot::Sender<()>) {
        let end = self.shared.journal.end();
        match (&mut self.recorder, about) {
            (Some(recorder), Some(session_id)) => {
                // Errors occur again in their turn, and are reported then.
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
        // The caller may be gone.
        let _ = answer.send(());
    }

    /// Passes to the recordings what the journal rejects, if they have everything before it.
    pub(super) fn take_queued(&mut self) {
        let end = self.shared.journal.end();
        if let Some(recorder) = self.recorder.as_mut().filter(|recorder| recorder.reader.is_at(&end)) {
            recorder.reader.take_queued(&self.shared.journal.waiting_to_be_recorded());
        }
    }

    /// Tries again to write recordings that could not be written, if it is time; whether some can be written now.
    pub(super) fn recover(&mut self, now: bool) -> bool {
        let recovered = self.recorder.as_mut().is_some_and(|recorder| recorder.recover(now));
        if recovered {
            self.shared.journal.record_again();
        }
        recovered
    }

    /// The segment up to which all that is not the backend has read.
    pub(super) fn passed_segment(&self) -> u64 {
        let marks = [self.mark(), self.shared.feed.mark()];
        marks.into_iter().flatten().map(|mark| mark.segment).min().unwrap_or(u64::MAX)
    }

    /// Lets those that have read everything continue in the next daemon's first segment.
    pub(super) fn close_at(&mut self, mark: Mark, end: &End) {
        if let Some(recorder) = self.recorder.as_mut().filter(|recorder| recorder.reader.is_at(end)) {
            recorder.close_at(mark);
        }
        if self.shared.feed.mark().is_some_and(|read| read >= end.mark()) {
            self.shared.feed.set_mark(mark);
        }
    }

    /// The first segment of the journal that recordings, or a reader outside the store, need, if the backend needs those
    /// from `applied` on.
    pub(super) fn needs_from(&mut self, applied: u64) -> u64 {
        let keep = self.recordings_need_from(applied);
        let journal = &self.shared.journal;
        self.shared.feed.needs_from(keep, |number| journal.size(number))
    }

    /// The first segment of the journal that recordings need, if the backend needs those from `applied` on. Recordings
    /// that are too far behind are dropped: they get a hole.
    fn recordings_need_from(&mut self, applied: u64) -> u64 {
        let Some(recorder) = &mut self.recorder else { return applied };
        let keep = recorder.reader.mark().segment.min(applied);
        let recordings = recorder.reader.recordings();
        while let Some(needed) = recordings.needs_from().filter(|needed| *needed < keep) {
            let kept: u64 = (needed..keep).map(|number| self.shared.journal.size(number)).sum();
            if kept <= recordings.behind_bytes() {
                return needed;
            }
            recordings.give_up_before(needed + 1);
        }
        keep
    }
}
