//! The thread behind the journal. It schedules the journal's readers, in two priorities:
//!
//! - First come those who wait for an answer, and the backend that answers them. The thread sleeps until there is something
//!   to do, lets records gather for a moment, and gives them to the backend in batches. A query sees everything that
//!   was appended before: if any of it is about what they ask for, the backend gets that first.
//! - The recordings and the backend's upkeep get small turns, as long as nobody waits.

mod backend_reader;
mod background;
mod reconcile;
mod retry;
mod scrub;
mod shared;

use crate::backend::{Backend, Entry, Mark};
use crate::journal::End;
use crate::problems::Part;
use crate::reader::{Follower, Reader as _};
use crate::recording_reader::{RecordingReader, Turn};
use crate::recordings::Recordings;
use backend_reader::BackendReader;
use background::Background;
pub(crate) use reconcile::has_lost_its_end;
use retry::Retry;
pub(crate) use scrub::{Scrub, scrub_outputs};
use shared::Farewell;
pub(crate) use shared::{Read, Request, Shared};
use shellkeep_session::SessionId;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// The thread's nice value. Not more, or those who wait for an answer would wait longer on a busy machine.
const NICE: i32 = 5;

/// How long records gather while nobody waits for them: a busy node then commits ten times a second at
/// most, and the row of a busy session is written once for many commands.
const GATHER: Duration = Duration::from_millis(100);

/// How much of the journal is read to see whether it matters to a reader, and kept until it is time to apply it. More
/// than this is applied at once: it is a good batch already, and memory is not free.
const AHEAD_BYTES: u64 = 1024 * 1024;

/// What an earlier daemon left.
pub(crate) struct Found {
    /// The first segment of the journal that is still there.
    pub oldest: u64,
    /// Whether the backend may have records that the journal lost.
    pub is_ahead: bool,
}

/// The running scheduler.
pub(crate) struct Scheduler {
    shared: Arc<Shared>,
    backend: Follower<BackendReader>,
    background: Background,
    /// The first segment of the journal that is still there.
    oldest: u64,
    /// Whether the backend may have records that the journal lost.
    is_ahead: bool,
    /// When what has gathered must be applied.
    due: Option<Instant>,
    retry: Retry,
    /// How long the backend must get stretches in turn before some sessions are brought forward again: as long as that
    /// took the last time, so that a backlog shrinks however many ask.
    in_turn_for: Duration,
    /// Scrubs that wait until nobody needs the journal before a segment.
    scrubs: Vec<(u64, Scrub)>,
}

impl Scheduler {
    /// A scheduler whose readers continue at their marks.
    pub(crate) fn new(
        shared: Arc<Shared>,
        backend: Box<dyn Backend>,
        recorder: Option<RecordingReader>,
        Found { oldest, is_ahead }: Found,
    ) -> Self {
        let reader = BackendReader { backend, shared: Arc::clone(&shared) };
        let backend = Follower::new(reader, shared.journal.directory());
        let background = Background::new(Arc::clone(&shared), recorder);
        Self {
            shared,
            backend,
            background,
            oldest,
            is_ahead,
            due: None,
            retry: Retry::default(),
            in_turn_for: Duration::ZERO,
            scrubs: Vec::new(),
        }
    }

    /// Works until the store is closed.
    pub(crate) fn run(mut self) {
        // What is in the journal is safe; bringing it to the backend should not take a processor from a command.
        let _ = rustix::process::nice(NICE);
        let _farewell = Farewell(Arc::clone(&self.shared));
        self.reconcile();
        self.remove_segments();
        loop {
            self.wait();
            let closing = self.shared.is_closing();
            if closing {
                self.shared.journal.close();
            }
            let requests = self.shared.take_requests();
            let drained = self.shared.journal.drain();
            self.sync_again();
            if self.background.recover(closing) {
                self.remove_segments();
            }
            let is_asked = !requests.is_empty();
            let (mut reads, scrubs) = self.serve(requests, &drained);
            if is_asked && !closing && drained.is_ok() {
                reads = self.answer_reads(reads);
                let now = Instant::now();
                let due = *self.due.get_or_insert(now + GATHER);
                if reads.is_empty() && scrubs.is_empty() && self.retry.at().unwrap_or(due) > now {
                    // However many ask, recordings go on.
                    self.record_some();
                    continue;
                }
            }
            let everything = closing || !reads.is_empty() || !scrubs.is_empty() || drained.is_err();
            let mut applied = self.catch_up(everything);
            if drained.is_err() && applied.is_ok() {
                applied = self.apply_waiting();
            }
            match drained.is_ok() && applied.is_ok() && !self.shared.journal.is_suspect() {
                true => self.retry.reset(),
                false => self.retry.failed(),
            }
            for read in reads {
                (read.answer)(match &applied {
                    Ok(()) => Ok(&mut *self.backend.reader.backend),
                    Err(reason) => Err(reason.clone()),
                });
            }
            for scrub in scrubs {
                self.begin_scrub(scrub, drained.clone().and(applied.clone()));
            }
            if closing {
                return self.finish(drained.is_ok() && applied.is_ok());
            }
            self.record_some();
        }
    }

    /// After a loss of power, has sessions say what their recordings lack. Done before anything is answered.
    fn reconcile(&mut self) {
        if !std::mem::take(&mut self.is_ahead) {
            return;
        }
        tracing::warn!("the store has more than the journal: the machine lost power; recordings are compared with it");
        let end = self.shared.journal.end();
        match self.catch_up(true) {
            Ok(()) => {
                let backend = &mut *self.backend.reader.backend;
                reconcile::reconcile(backend, &mut self.background, &self.shared.journal, &end);
            }
            Err(error) => {
                tracing::warn!(error, "the journal could not be applied; recordings are compared at the next start");
            }
        }
    }

    /// Gives the recordings a turn; whether there was anything to do.
    fn record_some(&mut self) -> bool {
        // What the backend is about to be given is read once for both.
        let end = match self.retry.at() {
            Some(_) => self.shared.journal.end(),
            None => End::from(self.backend.reader.mark()),
        };
        let before = self.background.mark();
        let turn = self.background.turn(&end);
        let mark = self.background.mark();
        if before.map(|mark| mark.segment) < mark.map(|mark| mark.segment) {
            self.remove_segments();
            self.scrub_those_ready();
        }
        if before != mark {
            self.background.answer_flushes();
        }
        turn == Turn::Worked
    }

    /// Removes the segments that no reader needs.
    fn remove_segments(&mut self) {
        let keep = self.background.needs_from(self.backend.reader.mark().segment);
        for number in self.oldest..keep {
            self.shared.journal.remove(number);
        }
        self.oldest = self.oldest.max(keep);
    }

    /// The journal has the session's records as they were, so it begins anew, and what it had must be applied and recorded
    /// before it goes. `ready` is whether the backend has everything.
    fn begin_scrub(&mut self, scrub: Scrub, ready: Result<(), String>) {
        let begun = ready.and_then(|()| {
            self.shared.journal.begin_segment().map_err(|error| error.to_string())?;
            self.catch_up(true)
        });
        match begun {
            Ok(()) => {
                self.scrubs.push((self.backend.reader.mark().segment, scrub));
                self.scrub_those_ready();
            }
            Err(reason) => scrub.answer(Err(reason)),
        }
    }

    /// Does the scrubs for which the recordings have everything.
    fn scrub_those_ready(&mut self) {
        let recorded = self.background.mark().map_or(u64::MAX, |mark| mark.segment);
        let ready: Vec<(u64, Scrub)> = self.scrubs.extract_if(.., |(segment, _)| *segment <= recorded).collect();
        for (_, scrub) in ready {
            if self.background.recover(true) {
                self.remove_segments();
            }
            let scrubbed = scrub::scrub(&scrub, &mut *self.backend.reader.backend, self.background.recordings());
            if scrubbed.is_ok() {
                self.remove_segments();
            }
            scrub.answer(scrubbed);
        }
    }

    /// Returns when there is something to do and it is time to do it.
    fn wait(&mut self) {
        let shared = Arc::clone(&self.shared);
        let urgent = || shared.is_closing() || shared.has_requests();
        while !urgent() {
            let look_again = self.background.retry_at();
            let deadline = match self.retry.at().or(look_again) {
                Some(retry_at) => self.earlier(retry_at, look_again),
                None => {
                    shared.sleeping.store(true, Ordering::Relaxed);
                    let end = shared.journal.end();
                    if self.backend.has_all(&end) && !end.queued {
                        self.due = None;
                        if !self.record_some() && !self.tidy() {
                            self.park(None);
                        }
                        continue;
                    }
                    *self.due.get_or_insert_with(|| Instant::now() + GATHER)
                }
            };
            // Appends need not wake a writer that will look by itself.
            shared.sleeping.store(false, Ordering::Relaxed);
            loop {
                let left = deadline.saturating_duration_since(Instant::now());
                if left.is_zero() || urgent() {
                    return shared.sleeping.store(false, Ordering::Relaxed);
                }
                if !self.record_some() {
                    self.park(Some(left));
                }
            }
        }
        shared.sleeping.store(false, Ordering::Relaxed);
    }

    /// Sleeps until somebody wakes it, or it is time, or the recorder has rested.
    fn park(&self, left: Option<Duration>) {
        let rest = self.background.rests_until().map(|until| until.saturating_duration_since(Instant::now()));
        match left.into_iter().chain(rest).min() {
            Some(left) => std::thread::park_timeout(left),
            None => std::thread::park(),
        }
    }

    /// Does a little of the upkeep of the backend, or of one recording; whether there may be more to do.
    fn tidy(&mut self) -> bool {
        let tidied = self.backend.reader.backend.tidy().unwrap_or_else(|error| {
            tracing::warn!(%error, "the store's upkeep failed; it is tried again after the next deletion");
            false
        });
        tidied || self.background.recordings().is_some_and(Recordings::mark_one)
    }

    /// When there is something to do, if one thing is to be tried again and perhaps another. What was appended meanwhile
    /// does not wait longer than it would otherwise.
    fn earlier(&mut self, retry_at: Instant, look_again: Option<Instant>) -> Instant {
        let at = look_again.map_or(retry_at, |look_again| look_again.min(retry_at));
        match self.retry.at() {
            Some(_) => at,
            None => at.min(*self.due.get_or_insert_with(|| Instant::now() + GATHER)),
        }
    }

    /// Answers those who wait for the disk, all with one sync, and those who wait for recordings; gives back the others.
    fn serve(&mut self, requests: Vec<Request>, drained: &Result<(), String>) -> (Vec<Read>, Vec<Scrub>) {
        let (mut reads, mut scrubs) = (Vec::new(), Vec::new());
        let (mut syncs, mut records) = (Vec::new(), Vec::new());
        for request in requests {
            match request {
                Request::Read(read) => reads.push(read),
                Request::Peek(answer) => answer(Ok(&mut *self.backend.reader.backend)),
                Request::Sync(answer) => syncs.push(answer),
                Request::Record { about, seal, answer } => records.push((about, seal, answer)),
                Request::Scrub(scrub) => scrubs.push(scrub),
            }
        }
        for (about, seal, answer) in records {
            self.background.flush(about, seal, answer);
        }
        if !syncs.is_empty() {
            let synced = drained.clone().and_then(|()| self.sync());
            for answer in syncs {
                // Who no longer waits needs no answer.
                let _ = answer.send(synced.clone());
            }
        }
        (reads, scrubs)
    }

    /// Forces the journal to disk. What fails is tried again, whether or not anybody asks.
    fn sync(&mut self) -> Result<(), String> {
        let synced = self.shared.journal.sync().map_err(|error| error.to_string());
        match &synced {
            Ok(()) => self.shared.problems.recovered(Part::Sync),
            Err(reason) => {
                self.shared.problems.failed(Part::Sync, reason);
                self.retry.try_soon();
            }
        }
        synced
    }

    /// Writes again what a failed sync was about, if there is such a thing and it is time.
    fn sync_again(&mut self) {
        if self.shared.journal.is_suspect() && self.retry.is_time() {
            // It is listed in the store's problems.
            let _ = self.sync();
        }
    }

    /// Answers those who ask about sessions of which the backend has everything, and gives back the others: they need
    /// the whole journal applied. Waking a session then costs no transaction, and what others did is written once for
    /// many such readers. A long backlog is not waited for: what it has of these sessions is brought forward.
    fn answer_reads(&mut self, reads: Vec<Read>) -> Vec<Read> {
        if reads.iter().all(|read| read.about.is_none()) {
            return reads;
        }
        let end = self.shared.journal.end();
        // Applying will meet the same error and report it.
        if !self.backend.read_ahead(&end, AHEAD_BYTES).unwrap_or(false) {
            let is_long = self.shared.journal.bytes_since(self.backend.reader.mark()) > AHEAD_BYTES;
            return if is_long { self.answer_early(reads) } else { reads };
        }
        let waiting = self.backend.waiting();
        let waits = |ids: &Vec<SessionId>| ids.iter().any(|id| waiting.contains(id));
        let (later, now): (Vec<Read>, Vec<Read>) =
            reads.into_iter().partition(|read| read.about.as_ref().is_none_or(waits));
        self.answer(now);
        later
    }

    /// Answers those who ask about some sessions after these were brought forward; gives back the others.
    fn answer_early(&mut self, reads: Vec<Read>) -> Vec<Read> {
        let (about_some, later): (Vec<Read>, Vec<Read>) = reads.into_iter().partition(|read| read.about.is_some());
        if about_some.is_empty() {
            return later;
        }
        let (start, end) = (Instant::now(), self.shared.journal.end());
        let ids: Vec<&SessionId> = about_some.iter().filter_map(|read| read.about.as_ref()).flatten().collect();
        if let Err(reason) = self.backend.bring_forward(&ids, &end) {
            self.shared.problems.failed(Part::Backend, &reason);
            return about_some.into_iter().chain(later).collect();
        }
        self.in_turn_for = start.elapsed();
        self.answer(about_some);
        later
    }

    fn answer(&mut self, reads: Vec<Read>) {
        for read in reads {
            (read.answer)(Ok(&mut *self.backend.reader.backend));
        }
    }

    /// Applies the journal up to its present end; or, if that is not asked for, until somebody asks for something.
    fn catch_up(&mut self, everything: bool) -> Result<(), String> {
        let end = self.shared.journal.end();
        let mut since = Instant::now();
        loop {
            let before = self.backend.reader.mark();
            let batch = match self.backend.step(&end) {
                Ok(Some(batch)) => batch,
                Ok(None) => break,
                Err(reason) => {
                    self.shared.problems.failed(Part::Backend, &reason);
                    return Err(reason);
                }
            };
            if let Some(recorder) = self.background.recorder() {
                recorder.offer(&batch, before);
            }
            if before.segment < batch.mark.segment {
                self.remove_segments();
            }
            if self.shared.has_requests() {
                self.serve_urgent_syncs();
            }
            if since.elapsed() >= self.in_turn_for && self.shared.has_requests() {
                if !everything {
                    return Ok(());
                }
                self.serve_those_about_one();
                since = Instant::now();
            }
        }
        self.due = None;
        self.shared.requests_waiting.caught_up();
        Ok(())
    }

    /// A long backlog must not hold up those who wait only for the disk, nor those who do not wait for the backlog.
    fn serve_urgent_syncs(&mut self) {
        let is_urgent = |request: &Request| matches!(request, Request::Sync(_) | Request::Peek(_));
        let (syncs, others): (Vec<Request>, Vec<Request>) =
            self.shared.take_requests().into_iter().partition(is_urgent);
        self.shared.put_back(others);
        if !syncs.is_empty() {
            let drained = self.shared.journal.drain();
            self.serve(syncs, &drained);
        }
    }

    /// Nor those who ask about one session, if it is gone through for somebody who needs all of it.
    fn serve_those_about_one(&mut self) {
        let is_about_one = |request: &Request| match request {
            Request::Read(read) => read.about.is_some(),
            Request::Record { about, .. } => about.is_some(),
            _ => false,
        };
        let (about_one, others): (Vec<Request>, Vec<Request>) =
            self.shared.take_requests().into_iter().partition(is_about_one);
        self.shared.put_back(others);
        let drained = self.shared.journal.drain();
        let (reads, _) = self.serve(about_one, &drained);
        let later = if drained.is_ok() { self.answer_early(reads) } else { reads };
        self.shared.put_back(later.into_iter().map(Request::Read).collect());
    }

    /// Gives the backend what the journal refuses, so that readers see it and it is kept somewhere. When the journal
    /// takes it later, the backend will know it already.
    fn apply_waiting(&mut self) -> Result<(), String> {
        let (lines, count) = self.shared.journal.waiting();
        let records = lines.iter().filter_map(|line| serde_json::from_slice(line).ok());
        let entries: Vec<Entry> = records.map(Entry::Record).collect();
        if entries.is_empty() {
            return Ok(());
        }
        let mark = self.backend.given();
        if let Err(reason) = self.backend.reader.apply_entries(&entries, mark) {
            self.shared.problems.failed(Part::Backend, &reason);
            return Err(reason);
        }
        self.shared.journal.handed(count);
        self.background.take_queued();
        Ok(())
    }

    /// The last act. A journal that has been applied to its end is of no more use to anybody.
    fn finish(&mut self, healthy: bool) {
        if self.shared.journal.is_suspect() {
            // Who asked for it has been told; this is the last chance to make it good.
            let _ = self.sync();
        }
        let end = self.shared.journal.end();
        self.background.last_turns(&end);
        if self.background.recover(true) {
            self.remove_segments();
        }
        self.background.take_queued();
        self.scrub_those_ready();
        // What is recorded beyond the mark is signed too: a stop leaves nothing that looks forged.
        if let Some(recorder) = self.background.recorder() {
            recorder.reader.sign(None);
        }
        if healthy && self.backend.has_all(&end) {
            let mark = Mark { segment: end.segment + 1, offset: 0 };
            if self.backend.reader.backend.apply(&[], mark).is_ok() {
                if let Some(recorder) = self.background.recorder().filter(|recorder| recorder.reader.is_at(&end)) {
                    recorder.close_at(mark);
                }
                self.remove_segments();
            }
        } else if end.queued {
            // What the backend was given is kept, though the journal refused it.
            let lost = self.shared.journal.waiting().0.len();
            self.shared.lost.store(lost, Ordering::Relaxed);
        }
    }
}
