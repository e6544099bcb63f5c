//! What waits for its turn in one session, in order of arrival.

use super::files_wait::FilesWait;
use super::message::{Answer, FilesTask, MAX_WAITING, RunReply};
use crate::ops::{OpError, RunCommand, Scrubbed, Secret, SessionView};
use crate::shares::Share;
use std::collections::VecDeque;
use std::time::Duration;
use tokio::time::Instant;

/// How long a rewind, a diff or a fork waits for a running command: long enough for one that is about to end. The
/// caller wants to know soon that the session is busy, and would be surprised by a rewind that happens much later.
const FILES_PATIENCE: Duration = Duration::from_secs(2);

/// A command that was submitted and has not started.
pub(super) struct Submitted {
    pub(super) command: Box<RunCommand>,
    /// Counts a large command as its sender's memory.
    pub(super) share: Option<Share>,
    pub(super) reply: RunReply,
    /// When it is rejected if it has not started.
    pub(super) expires: Instant,
    /// Whether it came when the session was to leave this node: another node runs it.
    pub(super) is_late: bool,
}

impl Submitted {
    /// Submitted now.
    pub(super) fn new(command: Box<RunCommand>, share: Option<Share>, reply: RunReply) -> Self {
        let expires = Instant::now() + command.patience.unwrap_or(command.timeout);
        Self { command, share, reply, expires, is_late: false }
    }

    /// It starts. A long wait for the files is deducted from its timeout, unless its patience limits that wait already.
    pub(super) fn deduct(&mut self, wait: &FilesWait) {
        if self.command.patience.is_none() {
            self.command.timeout = wait.timeout_left(self.command.timeout, self.expires);
        }
    }
}

/// Something that is done when nothing runs.
pub(super) enum Waiting {
    Run(Submitted),
    Hibernate(Answer<SessionView>),
    Scrub {
        secret: Secret,
        answer: Answer<Scrubbed>,
    },
    Files {
        task: Box<FilesTask>,
        /// When it is rejected if it has not started.
        expires: Option<Instant>,
    },
}

impl Waiting {
    /// Work with the files.
    pub(super) fn files(task: Box<FilesTask>) -> Self {
        let expires = task.has_caller().then(|| Instant::now() + FILES_PATIENCE);
        Self::Files { task, expires }
    }

    fn expires(&self) -> Option<Instant> {
        match self {
            Self::Run(submitted) => Some(submitted.expires),
            Self::Files { expires, .. } => *expires,
            Self::Hibernate(_) | Self::Scrub { .. } => None,
        }
    }

    /// Rejects it.
    pub(super) fn refuse(self, error: OpError) {
        match self {
            Self::Run(submitted) => submitted.reply.refuse(error),
            Self::Hibernate(answer) => drop(answer.send(Err(error))),
            Self::Scrub { answer, .. } => drop(answer.send(Err(error))),
            Self::Files { task, .. } => task.refuse(error),
        }
    }
}

/// What was taken out of a queue.
pub(super) struct Taken<T> {
    pub(super) what: T,
    /// Whether what was first has left.
    pub(super) first_left: bool,
}

/// What waits, first come first served.
#[derive(Default)]
pub(super) struct Queue {
    waiting: VecDeque<Waiting>,
    /// Commands that wait for the end of a hold.
    held_back: VecDeque<Submitted>,
}

impl Queue {
    /// Whether nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// How much waits, also for the end of a hold.
    pub(super) fn len(&self) -> usize {
        self.waiting.len() + self.held_back.len()
    }

    /// Whether no more commands may wait.
    pub(super) fn is_full(&self) -> bool {
        self.len() >= MAX_WAITING
    }

    /// How many commands wait for the end of a hold.
    pub(super) fn held_back(&self) -> usize {
        self.held_back.len()
    }

    /// A command waits for the end of a hold.
    pub(super) fn hold_back(&mut self, submitted: Submitted) {
        self.held_back.push_back(submitted);
    }

    /// The hold is over: what waited for that waits for its turn.
    pub(super) fn bring_back(&mut self) {
        self.waiting.extend(self.held_back.drain(..).map(Waiting::Run));
    }

    /// Takes the commands that waited too long for the end of a hold.
    pub(super) fn take_held_back(&mut self, now: Instant) -> Vec<Submitted> {
        let (expired, rest): (Vec<_>, Vec<_>) = self.held_back.drain(..).partition(|held| held.expires <= now);
        self.held_back = rest.into();
        expired
    }

    /// Adds at the end.
    pub(super) fn push(&mut self, waiting: Waiting) {
        self.waiting.push_back(waiting);
    }

    /// Puts a command back to the front: it cannot start yet.
    pub(super) fn put_back(&mut self, submitted: Submitted) {
        self.waiting.push_front(Waiting::Run(submitted));
    }

    /// Takes the first.
    pub(super) fn pop(&mut self) -> Option<Waiting> {
        self.waiting.pop_front()
    }

    /// Takes the first if it is a command.
    pub(super) fn pop_command(&mut self) -> Option<Submitted> {
        match self.waiting.pop_front() {
            Some(Waiting::Run(submitted)) => Some(submitted),
            Some(other) => {
                self.waiting.push_front(other);
                None
            }
            None => None,
        }
    }

    /// Whether the first is a command.
    pub(super) fn starts_with_command(&self) -> bool {
        matches!(self.waiting.front(), Some(Waiting::Run(_)))
    }

    /// When the first expires, if it does.
    pub(super) fn first_expires(&self) -> Option<Instant> {
        self.waiting.front().and_then(Waiting::expires)
    }

    /// When the next of them expires, without the first `skip`.
    pub(super) fn next_expiry(&self, skip: usize) -> Option<Instant> {
        let held_back = self.held_back.iter().map(|held| held.expires);
        self.waiting.iter().skip(skip).filter_map(Waiting::expires).chain(held_back).min()
    }

    /// Takes all that have expired.
    pub(super) fn take_expired(&mut self, now: Instant) -> Taken<Vec<Waiting>> {
        let is_expired = |waiting: &Waiting| waiting.expires().is_some_and(|at| at <= now);
        let first_left = self.waiting.front().is_some_and(is_expired);
        let (expired, rest): (Vec<_>, Vec<_>) = self.waiting.drain(..).partition(is_expired);
        self.waiting = rest.into();
        Taken { what: expired, first_left }
    }

    /// Refuses the commands with this key. Gives whether there were any.
    pub(super) fn refuse_request(&mut self, request_id: &str, error: &OpError) -> Taken<bool> {
        let has_key = |submitted: &Submitted| submitted.command.request_id.as_deref() == Some(request_id);
        let is_meant = |waiting: &Waiting| matches!(waiting, Waiting::Run(submitted) if has_key(submitted));
        let first_left = self.waiting.front().is_some_and(is_meant);
        let (meant, rest): (Vec<_>, Vec<_>) = self.waiting.drain(..).partition(is_meant);
        self.waiting = rest.into();
        let (held, rest): (Vec<_>, Vec<_>) = self.held_back.drain(..).partition(has_key);
        self.held_back = rest.into();
        let what = !meant.is_empty() || !held.is_empty();
        meant.into_iter().chain(held.into_iter().map(Waiting::Run)).for_each(|waiting| waiting.refuse(error.clone()));
        Taken { what, first_left }
    }

    pub(super) fn take_all(&mut self) -> impl Iterator<Item = Waiting> + use<> {
        self.bring_back();
        std::mem::take(&mut self.waiting).into_iter()
    }
}

/// Ends at this time, or never.
pub(super) async fn until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::oneshot;

    fn command(expires: Instant) -> Submitted {
        let (answer, _) = oneshot::channel();
        Submitted {
            command: Box::new(RunCommand::new("true")),
            share: None,
            reply: RunReply::AtEnd(answer),
            expires,
            is_late: false,
        }
    }

    #[test]
    fn only_commands_and_work_for_a_caller_expire() {
        let now = Instant::now();
        let later = now + Duration::from_secs(1);
        let (answer, _) = oneshot::channel();
        let mut queue = Queue::default();
        queue.push(Waiting::Run(command(later)));
        queue.push(Waiting::Hibernate(answer));
        queue.push(Waiting::Run(command(now)));
        assert_eq!(
            (queue.first_expires(), queue.next_expiry(0), queue.next_expiry(1)),
            (Some(later), Some(now), Some(now))
        );
        let expired = queue.take_expired(now);
        assert_eq!((expired.what.len(), expired.first_left, queue.len()), (1, false, 2));
        assert_eq!(queue.next_expiry(1), None);
        let (answer, _) = oneshot::channel();
        queue.push(Waiting::files(Box::new(FilesTask::Thin(answer))));
        assert_eq!(queue.next_expiry(1), None, "housekeeping is in no hurry");
        let (answer, caller) = oneshot::channel();
        let task = Box::new(FilesTask::Now(answer));
        assert!(!task.is_abandoned());
        drop(caller);
        assert!(task.is_abandoned());
        queue.push(Waiting::files(task));
        assert!(queue.next_expiry(1).is_some());
    }

    /// A command in the background may run for a day; its caller, whose session was busy, waited a day for its id.
    #[tokio::test(start_paused = true)]
    async fn a_command_may_wait_shorter_for_its_turn_than_it_may_take() {
        let (day, short) = (Duration::from_secs(86_400), Duration::from_secs(30));
        for (patience, waits, left) in [(None, day, day - 2 * short), (Some(short), short, day)] {
            let (answer, _) = oneshot::channel();
            let command = RunCommand { timeout: day, patience, ..RunCommand::new("true") };
            let mut submitted = Submitted::new(Box::new(command), None, RunReply::AtEnd(answer));
            assert_eq!(submitted.expires, Instant::now() + waits);
            let mut wait = FilesWait::default();
            wait.begin(day);
            tokio::time::advance(2 * short).await;
            wait.release();
            submitted.deduct(&wait);
            assert_eq!(submitted.command.timeout, left);
        }
    }

    #[test]
    fn a_command_is_taken_out_by_its_key() {
        // They expire together: who was first does not show in that.
        let now = Instant::now();
        let named = |key: Option<&str>| {
            let mut submitted = command(now);
            submitted.command.request_id = key.map(str::to_owned);
            submitted
        };
        let mut queue = Queue::default();
        for key in [Some("a"), None, Some("b"), Some("a")] {
            queue.push(Waiting::Run(named(key)));
        }
        for key in ["a", "c"] {
            queue.hold_back(named(Some(key)));
        }
        let mut refuse = |key: &str| {
            let Taken { what, first_left } = queue.refuse_request(key, &OpError::ShuttingDown);
            (what, first_left, queue.len(), queue.held_back())
        };
        assert_eq!(refuse("a"), (true, true, 3, 1));
        assert_eq!(refuse("a"), (false, false, 3, 1));
        assert_eq!(refuse("b"), (true, false, 2, 1), "what waits for the end of a hold goes on waiting for it");
    }

    #[test]
    fn a_command_that_cannot_start_stays_first() {
        let now = Instant::now();
        let (answer, _) = oneshot::channel();
        let mut queue = Queue::default();
        queue.push(Waiting::Hibernate(answer));
        assert!(queue.pop_command().is_none() && queue.len() == 1, "what is no command stays");
        queue.put_back(command(now));
        assert!(queue.starts_with_command() && queue.pop_command().is_some());
        assert!(matches!(queue.pop(), Some(Waiting::Hibernate(_))) && queue.is_empty());
    }
}
