//! The thread behind the journal. It schedules the journal's readers, in two priorities:
//!
//! - First the callers that wait for an answer, and the backend that answers them. The thread sleeps until there is
//!   something to do, lets records accumulate briefly, and passes them to the backend in batches. A query sees
//!   everything that was appended before: if any of it concerns the query, the backend gets that first.
//! - The recordings and the backend's maintenance get small turns, as long as no caller waits.

mod ahead;
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
use ahead::AHEAD_BYTES;
use backend_reader::BackendReader;
use background::Background;
pub(crate) use reconcile::{Leftovers, has_lost_its_end};
use retry::Retry;
use scrub::WaitingScrubs;
pub(crate) use scrub::{Scrub, scrub_outputs};
use shared::Farewell;
pub(crate) use shared::{Load, Read, Request, Shared};
use shellkeep_session::{Json, Record, SessionId};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// The thread's nice value. Not higher, or callers would wait longer on a busy machine.
const NICE: i32 = 5;

/// How long records accumulate while no caller waits for them: a busy node then commits ten times a second at most, and
/// the row of a busy session is written once for many commands.
const GATHER: Duration = Duration::from_millis(100);

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
    /// How long the backend must read in order before some sessions are served early again: as long as that took the
    /// last time, so that a backlog shrinks however many queries arrive.
    in_turn_for: Duration,
    scrubs: WaitingScrubs,
}

impl Scheduler {
    /// A scheduler whose readers continue at their marks.
    pub(crate) fn new(
        shared: Arc<Shared>,
        backend: Box<dyn Backend>,
        recorder: Option<RecordingReader>,
        Leftovers { oldest, is_ahead }: Leftovers,
    ) -> Self {
        let reader = BackendReader { backend, shared: Arc::clone(&shared) };
        let backend = Follower::new(reader, shared.journal.directory());
        let background = Background::new(Arc::clone(&shared), recorder);
        background.mark().inspect(|mark| shared.feed.set_recorded(*mark));
        Self {
            shared,
            backend,
            background,
            oldest,
            is_ahead,
            due: None,
            retry: Retry::default(),
            in_turn_for: Duration::ZERO,
            scrubs: WaitingScrubs::default(),
        }
    }

    /// Works until the store is closed.
    pub(crate) fn run(mut self) {
        // What is in the journal is safe; applying it should not take a processor from a command.
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
                    // Recordings make progress however many queries arrive.
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

    /// After a power failure, makes sessions report what their recordings lack. Done before anything is answered.
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
        // What the backend is about to get is read once for both.
        let end = match self.retry.at() {
            Some(_) => self.shared.journal.end(),
            None => End::from(self.backend.reader.mark()),
        };
        let before = self.background.mark();
        let turn = self.background.turn(&end);
        let mark = self.background.mark();
        if before.map(|mark| mark.segment) < mark.map(|mark| mark.segment) {
            self.remove_segments();
        }
        self.scrub_those_ready();
        if let Some(mark) = mark.filter(|mark| before != Some(*mark)) {
            self.background.answer_flushes();
            self.shared.feed.set_recorded(mark);
            // History copies what was signed.
            self.shared.feed.wake();
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

    /// The journal has the session's unmasked records, so a new segment is started, and the old ones must be applied
    /// and recorded before they are deleted. `ready` is whether the backend has everything.
    fn begin_scrub(&mut self, scrub: Scrub, ready: Result<(), String>) {
        let begun = ready.and_then(|()| {
            self.shared.journal.begin_segment().map_err(|error| error.to_string())?;
            self.catch_up(true)
        });
        match begun {
            Ok(()) => {
                self.scrubs.push(self.backend.reader.mark().segment, scrub);
                self.scrub_those_ready();
            }
            Err(reason) => scrub.answer(Err(reason)),
        }
    }

    /// Does the scrubs for which all readers have everything.
    fn scrub_those_ready(&mut self) {
        for scrub in self.scrubs.take_ready(self.background.passed_segment(), self.shared.feed.refusal()) {
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
            // Appends need not wake a writer that will check anyway.
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

    /// Sleeps until it is woken, or a timer fires, or the recorder's pause is over.
    fn park(&self, left: Option<Duration>) {
        let rest = self.background.rests_until().map(|until| until.saturating_duration_since(Instant::now()));
        match left.into_iter().chain(rest).min() {
            Some(left) => std::thread::park_timeout(left),
            None => std::thread::park(),
        }
    }

    /// Does a little maintenance of the backend, or of one recording; returns whether there may be more to do.
    fn tidy(&mut self) -> bool {
        let tidied = self.backend.reader.backend.tidy().unwrap_or_else(|error| {
            tracing::warn!(%error, "the store's maintenance failed; it is retried after the next deletion");
            false
        });
        tidied || self.background.recordings().is_some_and(Recordings::mark_one)
    }

    /// When there is something to do, if one thing is to be tried again and perhaps another. What was appended in the
    /// meantime does not wait longer than otherwise.
    fn earlier(&mut self, retry_at: Instant, look_again: Option<Instant>) -> Instant {
        let at = look_again.map_or(retry_at, |look_again| look_again.min(retry_at));
        match self.retry.at() {
            Some(_) => at,
            None => at.min(*self.due.get_or_insert_with(|| Instant::now() + GATHER)),
        }
    }

    /// Answers callers that wait for the disk, all with one sync, those that wait for recordings, and those for whose answer
    /// the backend need not have everything; returns the others.
    fn serve(&mut self, requests: Vec<Request>, drained: &Result<(), String>) -> (Vec<Read>, Vec<Scrub>) {
        let (mut reads, mut loads, mut scrubs) = (Vec::new(), Vec::new(), Vec::new());
        let (mut syncs, mut records) = (Vec::new(), Vec::new());
        for request in requests {
            match request {
                Request::Read(read) => reads.push(read),
                // What the journal rejects is not in what is read ahead.
                Request::Load(load) if drained.is_err() => reads.push(load.into()),
                Request::Load(load) => loads.push(load),
                Request::Peek(answer) => answer(Ok(&mut *self.backend.reader.backend)),
                Request::Sync(answer) => syncs.push(answer),
                Request::Record { about, seal, answer } => records.push((about, seal, answer)),
                Request::Scrub(scrub) => scrubs.push(scrub),
                Request::Remove => self.remove_segments(),
            }
        }
        for (about, seal, answer) in records {
            self.background.flush(about, seal, answer);
        }
        if !syncs.is_empty() {
            let synced = drained.clone().and_then(|()| self.sync());
            for answer in syncs {
                // The caller may be gone.
                let _ = answer.send(synced.clone());
            }
        }
        // After those that wait for the disk: there may be many.
        reads.extend(ahead::answer(&mut self.backend, &self.shared.journal.end(), loads));
        (reads, scrubs)
    }

    /// Syncs the journal to disk. A failure is retried, whether or not a caller waits.
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

    /// Rewrites the data of a failed sync, if there is one and it is time.
    fn sync_again(&mut self) {
        if self.shared.journal.is_suspect() && self.retry.is_time() {
            // It is listed in the store's problems.
            let _ = self.sync();
        }
    }

    /// Answers queries about sessions of which the backend has everything, and returns the others: they need the whole
    /// journal applied. Waking a session then costs no transaction, and other sessions' records are written once for
    /// many such queries. A long backlog is not waited for: its entries of these sessions are applied early.
    fn answer_reads(&mut self, reads: Vec<Read>) -> Vec<Read> {
        if reads.iter().all(|read| read.about.is_none()) {
            return reads;
        }
        let end = self.shared.journal.end();
        // Applying meets the same error and reports it.
        if !self.backend.read_ahead(&end, AHEAD_BYTES).unwrap_or(false) {
            let is_long = self.shared.journal.bytes_since(self.backend.reader.mark()) > AHEAD_BYTES;
            return if is_long { self.answer_early(reads) } else { reads };
        }
        let waits = |ids: &Vec<SessionId>| self.backend.lacks_some_of(ids);
        let (later, now): (Vec<Read>, Vec<Read>) =
            reads.into_iter().partition(|read| read.about.as_ref().is_none_or(waits));
        self.answer(now);
        later
    }

    /// Answers queries about some sessions after these were served early; returns the others.
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

    /// Applies the journal up to its current end; or, if that is not required, until a query arrives.
    fn catch_up(&mut self, everything: bool) -> Result<(), String> {
        // Before the end is known: what is refused there from now on may be behind it.
        let beginning = self.shared.requests_waiting.before_catching_up();
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
        self.shared.requests_waiting.caught_up(beginning);
        Ok(())
    }

    /// A long backlog must not delay callers that wait only for the disk, or that do not need the backlog.
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

    /// Nor queries about one session, while the backlog is applied for a caller that needs all of it.
    fn serve_those_about_one(&mut self) {
        let is_about_one = |request: &Request| match request {
            Request::Read(read) => read.about.is_some(),
            Request::Load(_) => true,
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

    /// Passes to the backend what the journal rejects, so that queries see it and it is stored somewhere. When the
    /// journal accepts it later, the backend already has it.
    fn apply_waiting(&mut self) -> Result<(), String> {
        let (lines, count) = self.shared.journal.waiting();
        let records = lines.iter().filter_map(|line| Record::from_json(line).ok());
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

    /// The last step. A journal that has been applied completely is no longer needed.
    fn finish(&mut self, healthy: bool) {
        if self.shared.journal.is_suspect() {
            // The callers got the error; this is the last chance to retry.
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
                self.background.close_at(mark, &end);
                self.remove_segments();
            }
        }
    }
}
