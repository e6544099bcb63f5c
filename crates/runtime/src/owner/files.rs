//! An owner and its session's files: they are looked at after every command, off the way of its answer, and kept if
//! something changed. Only the next command of the same session waits for that, and not for long.

use super::owed::{KeptTo, Owed};
use super::{Answer, Owner};
use crate::checkpoints::{Wanted, commit_of};
use crate::crash::{self, Point};
use crate::notices;
use crate::ops::{CheckpointView, OpError, RunCommand};
use shellkeep_session::{ByteString, Cause, Checkpoint, Event, FilesAt, LeftOut, Timestamp};
use shellkeep_workspace::keeper::{Keeper, Saved, Trouble};
use shellkeep_workspace::repo::ObjectId;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// How long a command waits until the files of the one before it are kept. With it, an answer still comes within its
/// timeout and a second.
const HOLD: Duration = Duration::from_millis(800);
/// How long the first command in a directory that the host named waits until what is there is kept. It counts as part of
/// the command's timeout.
const HOLD_BASE: Duration = Duration::from_secs(20);
/// A wait that is longer than this is taken off the command's timeout.
const FREE_WAIT: Duration = Duration::from_secs(1);
/// A command that would expire goes on a little before it does.
const BEFORE_EXPIRY: Duration = Duration::from_millis(20);

/// What an owner knows of its session's files.
#[derive(Default)]
pub(super) struct Files {
    place: Place,
    /// Closed while a backup is made.
    gate: Arc<RwLock<()>>,
    /// What is to be kept as soon as what is under way is done.
    wanted: Option<Wanted>,
    /// How long the next command waits for it, from when on.
    hold: Option<(Instant, Duration)>,
    /// How long the last such wait was.
    held: Duration,
    /// Whether a command began without waiting to the end.
    overtaken: bool,
    /// Who wants to know when the last command's files are kept.
    listeners: Vec<Answer<()>>,
    /// Whether no more is kept until there is room.
    is_full: bool,
    /// How much was left out when that was last told.
    told_left_out: u64,
    /// How many files with rules were not read when that was last told.
    told_unread_rules: u64,
    /// What was last told to be wrong.
    told_trouble: Option<String>,
    /// Number of the last record whose files are not kept yet, if there is one.
    pub(super) owed: Option<u64>,
    /// Where the next daemon sees that, if this one dies.
    pub(super) kept_to: Option<KeptTo>,
}

#[derive(Default)]
enum Place {
    /// Nobody looks at the files.
    #[default]
    Off,
    /// They are watched.
    Idle(Box<Keeper>),
    /// Somebody is at work with them.
    Busy(JoinHandle<Worked>),
}

/// What came of some work with the files.
pub(super) struct Worked {
    keeper: Box<Keeper>,
    outcome: Outcome,
}

enum Outcome {
    /// They are watched from now on, and what was there may have been kept.
    Begun(Option<Wanted>, Result<Option<Saved>, Trouble>),
    /// They were kept, if something had changed.
    Saved(Wanted, Result<Option<Saved>, Trouble>),
    /// Nobody looks at them any more.
    Rested,
}

impl Files {
    /// Of a session that is at rest.
    pub(super) fn new(gate: &Arc<RwLock<()>>) -> Self {
        Self { gate: Arc::clone(gate), ..Self::default() }
    }

    /// Until when the next command has to wait. `expires` is when it would be refused.
    pub(super) fn holds_until(&self, expires: Option<Instant>) -> Option<Instant> {
        let Place::Busy(_) = &self.place else { return None };
        let (since, most) = self.hold?;
        let until = since + most;
        Some(expires.map_or(until, |expires| until.min(expires - BEFORE_EXPIRY)))
    }

    /// Whether the next command has to wait now.
    pub(super) fn holds(&self, expires: Option<Instant>) -> bool {
        self.holds_until(expires).is_some_and(|until| Instant::now() < until)
    }

    /// Whether nothing is held for the files.
    pub(super) fn is_off(&self) -> bool {
        matches!(self.place, Place::Off)
    }

    /// Returns when the work that is under way is done; never if there is none.
    pub(super) async fn worked(&mut self) -> Option<Worked> {
        let Place::Busy(work) = &mut self.place else { return std::future::pending().await };
        let worked = work.await;
        self.place = Place::Off;
        worked.inspect_err(|error| tracing::error!(%error, "work with a session's files ended badly")).ok()
    }

    /// Tells somebody when nothing is under way any more.
    pub(super) fn tell_when_kept(&mut self, answer: Answer<()>) {
        self.listeners.push(answer);
        self.tell_kept();
    }

    fn tell_kept(&mut self) {
        if !matches!(self.place, Place::Busy(_)) {
            self.listeners.drain(..).for_each(|answer| drop(answer.send(Ok(()))));
        }
    }

    /// A command begins though the files of the one before may not be kept yet.
    pub(super) fn overtake(&mut self) {
        self.overtaken |= matches!(self.place, Place::Busy(_)) && self.hold.is_some();
        self.release();
        self.held = Duration::ZERO;
    }

    /// Nobody waits any longer.
    fn release(&mut self) {
        if let Some((since, _)) = self.hold.take() {
            self.held = since.elapsed();
        }
    }

    fn work(&mut self, mut keeper: Box<Keeper>, work: impl FnOnce(&mut Keeper) -> Outcome + Send + 'static) {
        let gate = Arc::clone(&self.gate);
        self.place = Place::Busy(tokio::task::spawn_blocking(move || {
            let _open = gate.read().unwrap_or_else(PoisonError::into_inner);
            let outcome = work(&mut keeper);
            Worked { keeper, outcome }
        }));
    }
}

impl Owner {
    /// The session goes live: its files are watched from now on.
    pub(super) fn watch_files(&mut self) {
        self.begin_files(None);
    }

    /// The same; what the last daemon owed is kept first.
    pub(super) fn begin_files(&mut self, owed: Option<Owed>) {
        let checkpoints = &self.engine.checkpoints;
        if !checkpoints.config.on || !self.files.is_off() {
            return;
        }
        let keeper = Box::new(checkpoints.keeper(&self.id, &self.state.meta.workspace));
        if let Some(Owed { wanted, due }) = owed {
            let (label, parent) = (wanted.label(&self.id, self.state.meta.agent.as_deref()), self.parent());
            self.files.owed = Some(wanted.covers);
            let id = self.id.clone();
            return self.files.work(keeper, move |keeper| {
                crash::point(Point::FilesOwed, id.as_str().as_bytes());
                let saved = keeper.begin().and_then(|()| keeper.save_late(&label, parent, due));
                Outcome::Begun(Some(wanted), saved)
            });
        }
        // Whatever was there before the first command was there from the beginning.
        let wanted = Wanted::for_other(Cause::Base, 1);
        let label = wanted.label(&self.id, self.state.meta.agent.as_deref());
        // A directory of our own begins empty: what is found there by now is the first command's.
        let is_base = self.state.files.is_none() && !self.engine.workspaces.owns(&self.state.meta.workspace);
        self.files.work(keeper, move |keeper| {
            if let Err(trouble) = keeper.begin() {
                return Outcome::Begun(None, Err(trouble));
            }
            match is_base && keeper.needs_base() {
                true => Outcome::Begun(Some(wanted), keeper.save(&label, None)),
                false => Outcome::Begun(None, Ok(None)),
            }
        });
    }

    /// The first command in a directory that the host named waits until what is there is kept, and the first after a
    /// daemon died until that is kept which was not.
    pub(super) async fn watch_before_first(&mut self) {
        if self.idle.is_some() || !self.files.is_off() {
            return;
        }
        if let Some(owed) = self.owed().await {
            self.begin_files(Some(owed));
            self.files.hold = Some((Instant::now(), HOLD_BASE));
            return;
        }
        if self.state.files.is_none() && !self.engine.workspaces.owns(&self.state.meta.workspace) {
            self.watch_files();
            self.files.hold = Some((Instant::now(), HOLD_BASE));
        }
    }

    /// Something may have changed files: they are kept if so, when nobody else works with them.
    pub(super) fn keep_files(&mut self, wanted: impl FnOnce(u64) -> Wanted) {
        let covers = self.state.seq;
        match &self.files.place {
            Place::Idle(keeper) if keeper.is_clean() => self.files_kept_to(covers),
            Place::Off if !self.engine.checkpoints.config.on => {}
            _ => self.keep_files_for(wanted(covers)),
        }
    }

    fn keep_files_for(&mut self, wanted: Wanted) {
        self.files.owed = Some(wanted.covers);
        match std::mem::take(&mut self.files.place) {
            // Nobody looks any more because some work with them went wrong: somebody does from now on.
            Place::Off => {
                self.watch_files();
                self.files.wanted = (!self.files.is_off()).then_some(wanted);
            }
            Place::Idle(keeper) if keeper.is_clean() => {
                self.files.place = Place::Idle(keeper);
                self.files_kept_to(wanted.covers);
            }
            Place::Idle(keeper) => {
                self.files.hold = Some((Instant::now(), HOLD));
                self.save(keeper, wanted);
            }
            busy @ Place::Busy(_) => {
                self.files.place = busy;
                self.files.wanted = Some(wanted);
                self.files.hold.get_or_insert((Instant::now(), HOLD));
            }
        }
    }

    fn save(&mut self, keeper: Box<Keeper>, wanted: Wanted) {
        let label = wanted.label(&self.id, self.state.meta.agent.as_deref());
        let parent = self.parent();
        self.files.work(keeper, move |keeper| {
            let saved = keeper.save(&label, parent);
            Outcome::Saved(wanted, saved)
        });
    }

    /// The commit that the next one follows.
    pub(super) fn parent(&self) -> Option<ObjectId> {
        self.state.files.as_ref().and_then(commit_of)
    }

    /// Some work with the files is done.
    pub(super) fn on_files(&mut self, worked: Option<Worked>) {
        self.files.release();
        let Some(Worked { keeper, outcome }) = worked else { return self.files.tell_kept() };
        self.files.place = Place::Idle(keeper);
        match outcome {
            Outcome::Begun(Some(wanted), result) | Outcome::Saved(wanted, result) => {
                self.on_saved(wanted, result);
            }
            Outcome::Begun(None, Err(trouble)) => self.tell_trouble(&trouble),
            Outcome::Begun(None, Ok(_)) => {}
            Outcome::Rested => self.files.place = Place::Off,
        }
        if let Some(wanted) = self.files.wanted.take() {
            self.keep_files_for(wanted);
        }
        self.files.tell_kept();
    }

    /// Takes down that files were kept; gives the checkpoint if they were.
    pub(super) fn on_saved(&mut self, wanted: Wanted, saved: Result<Option<Saved>, Trouble>) -> Option<CheckpointView> {
        let overtaken = std::mem::take(&mut self.files.overtaken);
        let saved = match saved {
            Ok(Some(saved)) => saved,
            Ok(None) => {
                self.files_kept_to(wanted.covers);
                return None;
            }
            Err(trouble) => {
                self.tell_trouble(&trouble);
                return None;
            }
        };
        crash::point(Point::FilesKept, self.id.as_str().as_bytes());
        self.files.told_trouble = None;
        let left_out: Vec<LeftOut> = saved
            .left_out
            .first
            .into_iter()
            .map(|(path, reason)| LeftOut { path: ByteString(path), reason: reason.to_string() })
            .collect();
        let total = saved.left_out.total;
        if total > self.files.told_left_out {
            self.fresh_notices.push(notices::files_left_out(&left_out, total));
        }
        self.files.told_left_out = total;
        let unread = saved.unread_rules;
        if unread.total > self.files.told_unread_rules {
            self.fresh_notices.push(notices::rules_not_read(&unread.first, unread.total));
        }
        self.files.told_unread_rules = unread.total;
        let checkpoint = Checkpoint {
            at: FilesAt { name: saved.tag, commit: saved.commit.to_string() },
            covers: wanted.covers,
            cause: wanted.cause,
            added: saved.counts.added,
            changed: saved.counts.changed,
            deleted: saved.counts.deleted,
            bytes: saved.bytes_written,
            overtaken,
            left_out,
            left_out_total: total,
            uncertain: saved.later.first.into_iter().map(notices::changed_later).collect(),
            uncertain_total: saved.later.total,
        };
        self.engine.thinning.grew(&self.id);
        metrics::counter!("shellkeep_checkpoints_total").increment(1);
        metrics::histogram!("shellkeep_checkpoint_seconds").record(saved.took);
        self.record(Event::Checkpointed { checkpoint: Box::new(checkpoint.clone()) });
        self.files_kept_to(wanted.covers);
        Some(CheckpointView { checkpoint, seq: self.state.seq, at: Timestamp::now(), kept: true })
    }

    /// Says once what keeps the files from being kept.
    fn tell_trouble(&mut self, trouble: &Trouble) {
        self.files.is_full |= matches!(trouble, Trouble::Full { .. });
        let reason = trouble.to_string();
        metrics::counter!("shellkeep_checkpoint_failures_total").increment(1);
        if self.files.told_trouble.as_ref() != Some(&reason) {
            tracing::warn!(session = %self.id, reason, "files could not be kept");
            self.fresh_notices.push(notices::files_not_kept(&reason));
            self.files.told_trouble = Some(reason);
        }
    }

    /// A command that waited long for the files has that much less time.
    pub(super) fn take_off_wait(&self, command: &mut RunCommand, expires: Instant) {
        if self.files.held > FREE_WAIT {
            let left = expires.saturating_duration_since(Instant::now());
            command.timeout = command.timeout.min(left.max(FREE_WAIT));
        }
    }

    /// Nothing of the session runs: its files need not be watched.
    pub(super) fn leave_files(&mut self) {
        match std::mem::take(&mut self.files.place) {
            Place::Idle(keeper) => {
                let open = self.close_files();
                self.files.work(keeper, move |keeper| {
                    if let Some(repo) = keeper.repo_mut().filter(|repo| repo.needs_compaction())
                        && let Err(error) = repo.gather()
                    {
                        tracing::warn!(%error, "what is kept of a session's files could not be tidied");
                    }
                    keeper.rest();
                    if let Some(open) = open {
                        // If it stays, the next owner finds that nothing is owed.
                        let _ = std::fs::remove_file(&open);
                        // Where nothing was ever kept, the folder has nothing else.
                        let _ = open.parent().map(std::fs::remove_dir);
                    }
                    Outcome::Rested
                });
            }
            other => self.files.place = other,
        }
    }

    /// Gives up old checkpoints if no new ones fit.
    pub(super) async fn make_room(&mut self) {
        if !std::mem::take(&mut self.files.is_full) {
            return;
        }
        match self.thin().await {
            Ok(bytes) => tracing::info!(session = %self.id, bytes, "old checkpoints were given up"),
            Err(error) => tracing::warn!(session = %self.id, %error, "old checkpoints could not be given up"),
        }
    }

    /// Waits until nobody works with the files.
    pub(super) async fn settle_files(&mut self) {
        while matches!(self.files.place, Place::Busy(_)) {
            let worked = self.files.worked().await;
            self.on_files(worked);
        }
    }

    /// The session is over or sleeps for good: everything that is held for its files is let go.
    pub(super) async fn let_go_of_files(&mut self) {
        self.files.wanted = None;
        self.settle_files().await;
        self.leave_files();
        self.settle_files().await;
        self.files.place = Place::Off;
    }

    /// Does something with the files that nobody else may do meanwhile.
    pub(super) async fn with_keeper<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&mut Keeper) -> T + Send + 'static,
    ) -> Result<T, OpError> {
        self.settle_files().await;
        self.files.release();
        if !self.engine.checkpoints.config.on {
            let detail = "the host has turned off the keeping of files (checkpoints.on)".to_owned();
            return Err(OpError::NotAllowed { detail });
        }
        self.make_workspace()?;
        let (is_new, mut keeper) = match std::mem::take(&mut self.files.place) {
            Place::Idle(keeper) => (false, keeper),
            _ => (true, Box::new(self.engine.checkpoints.keeper(&self.id, &self.state.meta.workspace))),
        };
        let gate = Arc::clone(&self.files.gate);
        let working = tokio::task::spawn_blocking(move || {
            let _open = gate.read().unwrap_or_else(PoisonError::into_inner);
            if is_new {
                keeper.begin()?;
            }
            let done = work(&mut keeper);
            Ok::<_, Trouble>((keeper, done))
        });
        let worked = working.await?;
        let (keeper, done) = worked.map_err(|trouble| self.files_failed("could not be scanned", &trouble))?;
        self.files.place = Place::Idle(keeper);
        Ok(done)
    }

    /// Keeps the files as they are now, with everything on the disk looked at; for a fork only what is known to have changed,
    /// because the copy has the rest in any case. Gives the checkpoint if one was made.
    pub(super) async fn save_now(&mut self, cause: Cause) -> Result<Option<CheckpointView>, OpError> {
        self.settle_files().await;
        // A merge changes files itself; all others keep what was there before.
        let covers = self.state.seq + u64::from(cause == Cause::Merge);
        let wanted = Wanted::for_other(cause, covers);
        let label = wanted.label(&self.id, self.state.meta.agent.as_deref());
        let (parent, is_fork) = (self.parent(), wanted.cause == Cause::Fork);
        let saved = self
            .with_keeper(move |keeper| {
                if !is_fork {
                    keeper.scan_everything();
                }
                keeper.save(&label, parent)
            })
            .await?;
        match saved {
            Err(trouble) => Err(self.files_failed("could not be saved", &trouble)),
            saved => Ok(self.on_saved(wanted, saved)),
        }
    }

    /// Keeps the files because somebody asks for it.
    pub(super) async fn checkpoint(&mut self, answer: Answer<Option<CheckpointView>>) {
        self.linger();
        let saved = match self.engine.data_dir.check_taken(&self.state, None) {
            Ok(()) => self.save_now(Cause::Manual).await,
            Err(error) => Err(error),
        };
        self.sync().await;
        let _ = answer.send(saved);
    }
}
