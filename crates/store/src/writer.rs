//! The thread between journal and backend. It sleeps until there is something to do, lets records gather for a moment,
//! and applies them in batches: first to the sessions' recordings, then to the backend. A reader sees everything that was appended before it asked: if any of it is about what it
//! asks for, that is applied first.

mod behind;
mod scrub;

use crate::backend::{Backend, Entry, Mark};
use crate::fault::{Faults, Point};
use crate::journal::Journal;
use crate::lock::hold;
use crate::problems::{Part, Problems};
use crate::recordings::Recordings;
use crate::tail::{Batch, Tail};
pub(crate) use scrub::{Scrub, scrub_outputs};
use shellkeep_session::SessionId;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::Thread;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// How much the writer gives way to others. Not more, or those who read would wait for it on a busy machine.
const WRITER_NICE: i32 = 5;

/// How long records gather while nobody waits for them: a busy node then commits ten times a second at
/// most, and the row of a busy session is written once for many commands.
const GATHER: Duration = Duration::from_millis(100);

/// First and longest pause between attempts at something that failed.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));

/// How much of the journal is read to see whether it matters to a reader, and kept until it is time to apply it. More
/// than this is applied at once: it is a good batch already, and memory is not free.
const AHEAD_BYTES: u64 = 1024 * 1024;

/// What a reader does with the backend, or with the reason why it is not up to date.
pub(crate) type Answer = Box<dyn FnOnce(Result<&mut dyn Backend, String>) + Send>;

/// Somebody who wants to look into the backend.
pub(crate) struct Read {
    /// The only session it is about, if there is one.
    pub about: Option<SessionId>,
    /// What it does.
    pub answer: Answer,
}

/// What the writer can be asked.
pub(crate) enum Request {
    /// Look into the backend once it has everything that matters.
    Read(Read),
    /// Force the journal to disk.
    Sync(oneshot::Sender<Result<(), String>>),
    /// Write everything to the recordings that was appended before, whatever the backend has.
    Record(oneshot::Sender<()>),
    /// Mask a secret in everything that is kept of a session.
    Scrub(Scrub),
}

/// What the writer thread shares with those who use the store.
pub(crate) struct Shared {
    /// The journal.
    pub journal: Journal,
    /// Armed faults.
    pub faults: Arc<Faults>,
    /// What is wrong now.
    pub problems: Arc<Problems>,
    /// `None` once the writer has ended, so that nobody waits for an answer that cannot come.
    requests: Mutex<Option<Vec<Request>>>,
    closing: AtomicBool,
    /// Whether an append must wake the writer. The journal's mutex orders it: the writer sets it before it looks at
    /// the journal's end under that mutex, an append reads it after it has moved the end.
    sleeping: AtomicBool,
    thread: OnceLock<Thread>,
}

impl Shared {
    /// State for a writer that is about to start.
    pub(crate) fn new(journal: Journal, faults: Arc<Faults>, problems: Arc<Problems>) -> Self {
        Self {
            journal,
            faults,
            problems,
            requests: Mutex::new(Some(Vec::new())),
            closing: AtomicBool::new(false),
            sleeping: AtomicBool::new(false),
            thread: OnceLock::new(),
        }
    }

    /// Tells who must be woken.
    pub(crate) fn attach(&self, thread: Thread) {
        // There is one writer, so there is nothing to be set already.
        let _ = self.thread.set(thread);
    }

    /// Wakes the writer after an append, if it sleeps.
    pub(crate) fn poke(&self) {
        if self.sleeping.load(Ordering::Relaxed) && self.sleeping.swap(false, Ordering::Relaxed) {
            self.wake();
        }
    }

    /// Hands a request to the writer; it is dropped if the writer has ended.
    pub(crate) fn post(&self, request: Request) {
        if let Some(requests) = hold(&self.requests).as_mut() {
            requests.push(request);
        }
        self.wake();
    }

    /// Asks the writer to finish and end.
    pub(crate) fn close(&self) {
        self.closing.store(true, Ordering::Release);
        self.wake();
    }

    fn wake(&self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }

    fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    fn has_requests(&self) -> bool {
        hold(&self.requests).as_ref().is_some_and(|requests| !requests.is_empty())
    }

    fn take_requests(&self) -> Vec<Request> {
        hold(&self.requests).as_mut().map(std::mem::take).unwrap_or_default()
    }
}

/// Ends the wait of everybody who asked when the writer ends, even by a panic.
struct Farewell(Arc<Shared>);

impl Drop for Farewell {
    fn drop(&mut self) {
        self.0.journal.close();
        *hold(&self.0.requests) = None;
    }
}

/// The running writer.
pub(crate) struct Writer {
    shared: Arc<Shared>,
    backend: Box<dyn Backend>,
    recordings: Option<Recordings>,
    /// The first segment of the journal that is still there.
    oldest: u64,
    tail: Tail,
    /// Read from the journal and not applied yet.
    ahead: Batch,
    /// When what has gathered must be applied.
    due: Option<Instant>,
    backoff: Duration,
    retry_at: Option<Instant>,
}

impl Writer {
    /// A writer that goes on where the backend stopped.
    pub(crate) fn new(
        shared: Arc<Shared>,
        backend: Box<dyn Backend>,
        recordings: Option<Recordings>,
        oldest: u64,
    ) -> Self {
        let tail = Tail::new(shared.journal.directory().to_owned(), backend.applied());
        let ahead = Batch { mark: backend.applied(), ..Batch::default() };
        Self { shared, backend, recordings, oldest, tail, ahead, due: None, backoff: BACKOFF.0, retry_at: None }
    }

    /// Works until the store is closed.
    pub(crate) fn run(mut self) {
        // What is in the journal is safe; bringing it to the backend should not take a processor from a command.
        let _ = rustix::process::nice(WRITER_NICE);
        let _farewell = Farewell(Arc::clone(&self.shared));
        self.bring_up_at_start();
        loop {
            self.wait();
            let closing = self.shared.is_closing();
            if closing {
                self.shared.journal.close();
            }
            let requests = self.shared.take_requests();
            let drained = self.shared.journal.drain();
            self.recover(closing);
            let is_asked = !requests.is_empty();
            let (mut reads, scrubs) = self.serve(requests, &drained);
            if is_asked && !closing && drained.is_ok() {
                reads = self.answer_at_once(reads);
                let now = Instant::now();
                let due = *self.due.get_or_insert(now + GATHER);
                if reads.is_empty() && scrubs.is_empty() && self.retry_at.unwrap_or(due) > now {
                    continue;
                }
            }
            let mut applied = self.catch_up();
            if drained.is_err() && applied.is_ok() {
                applied = self.apply_waiting();
            }
            self.plan_retry(drained.is_ok() && applied.is_ok());
            for read in reads {
                (read.answer)(match &applied {
                    Ok(()) => Ok(&mut *self.backend),
                    Err(reason) => Err(reason.clone()),
                });
            }
            for scrub in scrubs {
                self.scrub(scrub, drained.clone().and(applied.clone()));
            }
            if closing {
                return self.finish(drained.is_ok() && applied.is_ok());
            }
        }
    }

    /// Returns when there is something to do and it is time to do it.
    fn wait(&mut self) {
        let shared = Arc::clone(&self.shared);
        let urgent = || shared.is_closing() || shared.has_requests();
        while !urgent() {
            let look_again = self.recordings.as_ref().and_then(Recordings::retry_at);
            let deadline = match self.retry_at.or(look_again) {
                Some(retry_at) => self.earlier(retry_at, look_again),
                None => {
                    shared.sleeping.store(true, Ordering::Relaxed);
                    let end = shared.journal.end();
                    if self.tail.is_at(&end) && self.ahead.is_empty() && !end.queued {
                        self.due = None;
                        if !self.tidy() {
                            std::thread::park();
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
                std::thread::park_timeout(left);
            }
        }
        shared.sleeping.store(false, Ordering::Relaxed);
    }

    /// Lets the backend put its house in order, a little at a time; whether there is more to do.
    fn tidy(&mut self) -> bool {
        self.backend.tidy().unwrap_or_else(|error| {
            tracing::warn!(%error, "the store's upkeep failed; it is tried again after the next deletion");
            false
        })
    }

    /// When there is something to do, if one thing is to be tried again and perhaps another. What was appended meanwhile
    /// does not wait longer than it would otherwise.
    fn earlier(&mut self, retry_at: Instant, look_again: Option<Instant>) -> Instant {
        let at = look_again.map_or(retry_at, |look_again| look_again.min(retry_at));
        match self.retry_at {
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
                Request::Sync(answer) => syncs.push(answer),
                Request::Record(answer) => records.push(answer),
                Request::Scrub(scrub) => scrubs.push(scrub),
            }
        }
        if !records.is_empty() {
            self.record_ahead(drained.is_ok());
            for answer in records {
                // Who no longer waits needs no answer.
                let _ = answer.send(());
            }
        }
        if !syncs.is_empty() {
            let synced = drained.clone().and_then(|()| {
                let synced = self.shared.journal.sync().map_err(|error| error.to_string());
                match &synced {
                    Ok(()) => self.shared.problems.recovered(Part::Sync),
                    Err(reason) => self.shared.problems.failed(Part::Sync, reason),
                }
                synced
            });
            for answer in syncs {
                // Who no longer waits needs no answer.
                let _ = answer.send(synced.clone());
            }
        }
        (reads, scrubs)
    }

    /// Brings the recordings up to the journal's present end, without a transaction of the backend if that is near.
    /// What fails here fails again when it is applied, and is told then.
    fn record_ahead(&mut self, drained: bool) {
        let end = self.shared.journal.end();
        // A backend that takes nothing must not make this grow.
        while self.ahead.bytes <= AHEAD_BYTES || self.catch_up().is_ok() {
            let Ok(Some(batch)) = self.tail.next(&end) else { break };
            self.take_ahead(batch);
            self.record_what_was_read();
        }
        self.record_what_was_read();
        if !drained && self.catch_up().is_ok() {
            let _ = self.apply_waiting();
        }
    }

    fn record_what_was_read(&mut self) {
        let from = self.backend.applied();
        if let Some(recordings) = &mut self.recordings {
            let taken = recordings.take(self.ahead.entries.iter().skip(self.ahead.recorded), from);
            if taken.is_ok() {
                self.ahead.recorded = self.ahead.entries.len();
            }
        }
    }

    /// Answers those who ask about a session of which nothing waits to be applied, and gives back the others. Waking a
    /// session then costs no transaction, and what others did is written once for many such readers.
    fn answer_at_once(&mut self, reads: Vec<Read>) -> Vec<Read> {
        if reads.iter().all(|read| read.about.is_none()) || !self.look_ahead() {
            return reads;
        }
        let waits = |id: &SessionId| self.ahead.entries.iter().any(|entry| entry.session_id() == id);
        let (later, at_once): (Vec<Read>, Vec<Read>) =
            reads.into_iter().partition(|read| read.about.as_ref().is_none_or(waits));
        for read in at_once {
            (read.answer)(Ok(&mut *self.backend));
        }
        later
    }

    /// Reads the journal to its present end without applying it; whether it came so far.
    fn look_ahead(&mut self) -> bool {
        let end = self.shared.journal.end();
        let (applied, mark) = (self.backend.applied(), &self.ahead.mark);
        let from = if applied.segment == mark.segment { applied.offset } else { 0 };
        if mark.segment != end.segment || end.length.saturating_sub(from) > AHEAD_BYTES {
            return false;
        }
        loop {
            match self.tail.next(&end) {
                Ok(Some(batch)) => self.take_ahead(batch),
                Ok(None) => return true,
                // Applying will meet the same error and tell of it.
                Err(_) => return false,
            }
        }
    }

    fn take_ahead(&mut self, batch: Batch) {
        self.tail.advance(batch.mark);
        self.ahead.entries.extend(batch.entries);
        self.ahead.unreadable.extend(batch.unreadable);
        self.ahead.mark = batch.mark;
        self.ahead.bytes += batch.bytes;
    }

    /// Applies the journal up to its present end.
    fn catch_up(&mut self) -> Result<(), String> {
        let end = self.shared.journal.end();
        loop {
            if self.ahead.is_empty() {
                match self.tail.next(&end) {
                    Ok(Some(batch)) => self.take_ahead(batch),
                    Ok(None) => break,
                    Err(error) => return self.failed(format!("the journal cannot be read: {error}")),
                }
            }
            let before = self.backend.applied();
            let mut batch = std::mem::take(&mut self.ahead);
            let recorded = self.record(&batch.entries[batch.recorded..], before);
            if recorded.is_ok() {
                batch.recorded = batch.entries.len();
            }
            if let Err(reason) = recorded.and_then(|()| self.apply(&batch.entries, batch.mark)) {
                self.ahead = batch;
                return Err(reason);
            }
            self.ahead.mark = batch.mark;
            for reason in batch.unreadable {
                self.shared.problems.unreadable(reason);
            }
            if before.segment < batch.mark.segment {
                self.remove_segments();
            }
            if self.shared.has_requests() {
                self.serve_urgent_syncs();
            }
        }
        self.due = None;
        Ok(())
    }

    /// A long backlog must not hold up those who wait only for the disk.
    fn serve_urgent_syncs(&mut self) {
        let (syncs, others): (Vec<Request>, Vec<Request>) =
            self.shared.take_requests().into_iter().partition(|request| matches!(request, Request::Sync(_)));
        if let Some(requests) = hold(&self.shared.requests).as_mut() {
            requests.splice(0..0, others);
        }
        if !syncs.is_empty() {
            let drained = self.shared.journal.drain();
            self.serve(syncs, &drained);
        }
    }

    fn record(&mut self, entries: &[Entry], from: Mark) -> Result<(), String> {
        match &mut self.recordings {
            Some(recordings) => match recordings.take(entries.iter(), from) {
                Ok(()) => Ok(()),
                Err(reason) => self.failed(reason),
            },
            None => Ok(()),
        }
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
        let position = self.tail.position();
        self.record(&entries, position)?;
        self.apply(&entries, position)?;
        self.shared.journal.handed(count);
        Ok(())
    }

    fn apply(&mut self, entries: &[Entry], mark: Mark) -> Result<(), String> {
        let fault = self.shared.faults.check(Point::BackendApply).map_err(|error| error.to_string());
        match fault.and_then(|()| self.backend.apply(entries, mark).map_err(|error| error.to_string())) {
            Ok(()) => {
                metrics::counter!("shellkeep_store_applied_total").increment(entries.len() as u64);
                self.shared.problems.recovered(Part::Backend);
                Ok(())
            }
            Err(reason) => self.failed(reason),
        }
    }

    fn failed(&self, reason: String) -> Result<(), String> {
        self.shared.problems.failed(Part::Backend, &reason);
        Err(reason)
    }

    fn plan_retry(&mut self, healthy: bool) {
        if healthy {
            self.backoff = BACKOFF.0;
            self.retry_at = None;
        } else {
            self.retry_at = Some(Instant::now() + self.backoff);
            self.backoff = (self.backoff * 2).min(BACKOFF.1);
        }
    }

    /// The last act. A journal that has been applied to its end is of no more use to anybody.
    fn finish(&mut self, healthy: bool) {
        let end = self.shared.journal.end();
        if healthy && self.tail.is_at(&end) {
            let mark = Mark { segment: end.segment + 1, offset: 0 };
            if self.backend.apply(&[], mark).is_ok() {
                self.remove_segments();
            }
        } else if end.queued {
            tracing::error!("the store is closed with records that no disk took; they are lost");
        }
    }
}
