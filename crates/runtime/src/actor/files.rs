//! A session's files: checked after every command, after its answer was sent, and saved in a checkpoint if something
//! changed. Only the next command of the same session waits for that, and not for long.

use super::files_wait::{self, FilesWait};
use super::journal::Journal;
use super::keeping::{Keeping, Outcome, Worked};
use super::kept_to::{self, KeptTo};
use super::message::Answer;
use super::owed::{Owed, owed_by_last_daemon};
use super::reported::Reported;
use super::shell::make_workspace;
use crate::checkpoints::{Wanted, commit_of};
use crate::context::SessionContext;
use crate::crash::{self, Point};
use crate::ops::{CheckpointError, CheckpointView, OpError};
use crate::sync::read;
use crate::tasks;
use shellkeep_session::{Cause, Event, Timestamp};
use shellkeep_workspace::checkpointer::{Checkpointer, Label, Saved, Trouble};
use shellkeep_workspace::repo::ObjectId;
use std::error::Error;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use tokio::time::Instant;

/// What an actor knows about its session's files.
pub(super) struct Files {
    pub(super) ctx: Arc<SessionContext>,
    keeping: Keeping,
    /// What to save as soon as the work in progress is done.
    wanted: Option<Wanted>,
    /// How long the next command waits.
    pub(super) wait: FilesWait,
    /// Callers that wait until the last command's files are saved.
    listeners: Vec<Answer<()>>,
    /// Whether nothing more is saved until old checkpoints are pruned.
    pub(super) is_full: bool,
    reported: Reported,
    kept_to: KeptTo,
    /// Whether it was seen, since the last change of this session, what others have changed.
    looked_outside: bool,
}

/// What is kept before anything else, when the files begin to be watched.
enum First {
    /// What the last daemon owed.
    Owed(Owed),
    /// What others have changed since the last command.
    Outside,
    /// What was there before the first command, if nothing is known of that.
    Base,
}

/// What a run did to the files.
#[derive(Debug, Clone, Copy)]
pub(super) enum Changed {
    Nothing,
    Maybe,
}

impl Files {
    /// The files of a session at rest.
    pub(super) fn new(ctx: Arc<SessionContext>) -> Self {
        Self {
            ctx,
            keeping: Keeping::Off,
            wanted: None,
            wait: FilesWait::default(),
            listeners: Vec::new(),
            is_full: false,
            reported: Reported::default(),
            kept_to: KeptTo::default(),
            looked_outside: false,
        }
    }

    /// Until when the next command has to wait. `expires` is when it would be rejected.
    pub(super) fn wait_until(&self, expires: Option<Instant>) -> Option<Instant> {
        self.keeping.is_busy().then(|| self.wait.until(expires)).flatten()
    }

    /// Whether the next command has to wait now.
    pub(super) fn must_wait(&self, expires: Option<Instant>) -> bool {
        self.wait_until(expires).is_some_and(|until| Instant::now() < until)
    }

    /// Whether nothing is held for the files.
    pub(super) fn is_off(&self) -> bool {
        matches!(self.keeping, Keeping::Off)
    }

    /// Whether some command's files are not in a checkpoint yet.
    pub(super) fn is_behind(&self) -> bool {
        self.kept_to.is_behind()
    }

    /// Returns when the work in progress is done; never if there is none.
    pub(super) async fn worked(&mut self) -> Option<Worked> {
        let Keeping::Busy(work) = &mut self.keeping else { return std::future::pending().await };
        let worked = work.await;
        self.keeping = Keeping::Off;
        worked.inspect_err(|error| tracing::error!(%error, "work with a session's files ended badly")).ok()
    }

    /// Answers when no work is in progress.
    pub(super) fn answer_when_kept(&mut self, answer: Answer<()>) {
        self.listeners.push(answer);
        self.answer_listeners();
    }

    fn answer_listeners(&mut self) {
        if !self.keeping.is_busy() {
            self.listeners.drain(..).for_each(|answer| drop(answer.send(Ok(()))));
        }
    }

    /// A command starts, although the files of the previous one may not be saved yet.
    pub(super) fn overtake(&mut self) {
        self.wait.overtake(self.keeping.is_busy());
    }

    fn work(
        &mut self,
        mut keeper: Box<Checkpointer>,
        work: impl FnOnce(&mut Checkpointer) -> Outcome + Send + 'static,
    ) {
        let gate = Arc::clone(&self.ctx.checkpoints.gate);
        self.keeping = Keeping::Busy(tasks::blocking(move || {
            let _open = read(&gate);
            let outcome = work(&mut keeper);
            Worked { keeper, outcome }
        }));
    }

    /// The session becomes live: its files are watched from now on, and the next daemon must know how far they are
    /// saved.
    pub(super) fn watch(&mut self, journal: &Journal) {
        if !self.ctx.checkpoints.config.on {
            return;
        }
        let home = self.ctx.checkpoints.home(journal.id());
        self.kept_to.open(home, journal.state().seq, self.ctx.durability());
        self.begin(journal, First::Base);
    }

    /// Starts watching the files.
    fn begin(&mut self, journal: &Journal, first: First) {
        let checkpoints = &self.ctx.checkpoints;
        if !checkpoints.config.on || !self.is_off() {
            return;
        }
        let id = journal.id().clone();
        let keeper = Box::new(checkpoints.checkpointer(&id, &journal.state().meta.workspace));
        let parent = parent(journal);
        match first {
            First::Owed(Owed { wanted, due }) => {
                let label = label(&wanted, journal);
                self.kept_to.owe(wanted.covers);
                self.work(keeper, move |keeper| {
                    crash::point(Point::FilesOwed, id.as_str().as_bytes());
                    let saved = keeper.begin().and_then(|()| keeper.save_late(&label, parent, due));
                    Outcome::Begun(Some(wanted), saved)
                });
            }
            First::Outside => {
                let wanted = outside(journal);
                let label = label(&wanted, journal);
                self.work(keeper, move |keeper| {
                    let saved = keeper.begin().and_then(|()| keeper.save(&label, parent));
                    Outcome::Begun(Some(wanted), saved)
                });
            }
            First::Base => {
                // Files that exist before the first command exist from the beginning.
                let wanted = Wanted::for_other(Cause::Base, 1);
                let label = label(&wanted, journal);
                let is_base = needs_base(&self.ctx, journal);
                self.work(keeper, move |keeper| {
                    if let Err(trouble) = keeper.begin() {
                        return Outcome::Begun(None, Err(trouble));
                    }
                    match is_base && keeper.needs_base() {
                        true => Outcome::Begun(Some(wanted), keeper.save_base(&label)),
                        false => Outcome::Begun(None, Ok(None)),
                    }
                });
            }
        }
    }

    /// A command is about to start. What others have changed in a directory of the host since the last one is kept first:
    /// who takes the command back does not mean that.
    pub(super) fn keep_outside(&mut self, journal: &Journal) {
        if self.looked_outside || !is_hosts(&self.ctx, journal) {
            return;
        }
        match std::mem::take(&mut self.keeping) {
            Keeping::Idle(keeper) if keeper.may_have_news() => {
                self.looked_outside = true;
                self.wait.begin(files_wait::AFTER_RUN);
                self.work(keeper, saving(outside(journal), journal));
            }
            other => self.keeping = other,
        }
    }

    /// The first command in a directory that the host named waits until the existing files are saved, and the first
    /// after a crash until the owed checkpoint is taken. For a session without a shell.
    pub(super) async fn watch_before_first(&mut self, journal: &Journal) {
        if !self.is_off() {
            return;
        }
        if !self.kept_to.is_open()
            && let Some(owed) = owed_by_last_daemon(&self.ctx, journal).await
        {
            self.begin(journal, First::Owed(owed));
            self.wait.begin(files_wait::BEFORE_FIRST);
        } else if needs_base(&self.ctx, journal) {
            self.begin(journal, First::Base);
            self.wait.begin(files_wait::BEFORE_FIRST);
        } else if is_hosts(&self.ctx, journal) {
            self.looked_outside = true;
            self.begin(journal, First::Outside);
            self.wait.begin(files_wait::AFTER_RUN);
        }
    }

    /// Takes the checkpoint that the last daemon owed, before anything else is done with the files.
    pub(super) async fn pay_owed(&mut self, journal: &mut Journal) {
        if self.is_off()
            && !self.kept_to.is_open()
            && let Some(owed) = owed_by_last_daemon(&self.ctx, journal).await
        {
            self.begin(journal, First::Owed(owed));
        }
        self.settle(journal).await;
    }

    /// A file is about to be changed by a tool that runs no command. As before a command, the existing files are saved
    /// first.
    pub(super) async fn before_change(&mut self, journal: &Journal) {
        self.watch_before_first(journal).await;
        if !self.kept_to.is_open() {
            self.watch(journal);
        }
    }

    /// The end of a run is about to be recorded. If it may have changed files, that is noted for the next daemon, in
    /// case this one dies before they are saved.
    pub(super) fn before_end(&mut self, journal: &mut Journal) -> Changed {
        if matches!(&self.keeping, Keeping::Busy(work) if work.is_finished()) {
            let worked = pin!(self.worked()).poll(&mut Context::from_waker(Waker::noop()));
            if let Poll::Ready(worked) = worked {
                self.on_worked(journal, worked);
            }
        }
        if matches!(&self.keeping, Keeping::Idle(keeper) if keeper.heard_nothing()) {
            return Changed::Nothing;
        }
        self.kept_to.fall_behind(journal.state().seq);
        Changed::Maybe
    }

    /// The end of a run is recorded: what it changed is saved.
    pub(super) fn after_end(&mut self, journal: &mut Journal, changed: Changed, wanted: impl FnOnce(u64) -> Wanted) {
        self.looked_outside = false;
        let covers = journal.state().seq;
        match changed {
            // Checked only now, after the answer was sent: the file system may hang.
            Changed::Nothing if matches!(&self.keeping, Keeping::Idle(keeper) if keeper.is_in_place()) => {
                self.kept_to.kept(covers);
            }
            _ if self.is_off() && !self.ctx.checkpoints.config.on => {}
            _ => self.keep_for(journal, wanted(covers)),
        }
    }

    fn keep_for(&mut self, journal: &Journal, wanted: Wanted) {
        self.kept_to.owe(wanted.covers);
        match std::mem::take(&mut self.keeping) {
            // The files are not watched because earlier work failed: start again.
            Keeping::Off => {
                self.begin(journal, First::Base);
                self.wanted = (!self.is_off()).then_some(wanted);
            }
            Keeping::Idle(keeper) if keeper.is_clean() => {
                self.keeping = Keeping::Idle(keeper);
                self.kept_to.kept(wanted.covers);
            }
            Keeping::Idle(keeper) => {
                self.wait.begin(files_wait::AFTER_RUN);
                self.work(keeper, saving(wanted, journal));
            }
            busy @ Keeping::Busy(_) => {
                self.keeping = busy;
                self.wanted = Some(wanted);
                self.wait.begin_if_none(files_wait::AFTER_RUN);
            }
        }
    }

    /// Work with the files is done.
    pub(super) fn on_worked(&mut self, journal: &mut Journal, worked: Option<Worked>) {
        self.wait.release();
        let Some(Worked { keeper, outcome }) = worked else { return self.answer_listeners() };
        self.keeping = Keeping::Idle(keeper);
        match outcome {
            Outcome::Begun(Some(wanted), result) | Outcome::Saved(wanted, result) => {
                self.on_saved(journal, wanted, result);
            }
            Outcome::Begun(None, Err(trouble)) => self.is_full |= self.reported.trouble(journal, &trouble),
            Outcome::Begun(None, Ok(_)) => {}
            Outcome::Rested { open } => {
                self.keeping = Keeping::Off;
                // If a command arrived in the meantime, the session is live again and the file stays.
                match open {
                    _ if self.kept_to.is_open() => self.begin(journal, First::Base),
                    Some(open) => kept_to::remove(&open),
                    None => {}
                }
            }
        }
        if let Some(wanted) = self.wanted.take() {
            self.keep_for(journal, wanted);
        }
        self.answer_listeners();
    }

    /// Records the checkpoint and returns it, if one was taken.
    pub(super) fn on_saved(
        &mut self,
        journal: &mut Journal,
        wanted: Wanted,
        saved: Result<Option<Saved>, Trouble>,
    ) -> Option<CheckpointView> {
        let overtaken = self.wait.take_overtaken();
        let covers = wanted.covers;
        let saved = match saved {
            Ok(Some(saved)) => saved,
            Ok(None) => {
                self.kept_to.kept(covers);
                return None;
            }
            Err(trouble) => {
                self.is_full |= self.reported.trouble(journal, &trouble);
                return None;
            }
        };
        crash::point(Point::FilesKept, journal.id().as_str().as_bytes());
        let took = saved.took;
        let checkpoint = self.reported.checkpoint(journal, wanted, saved, overtaken);
        self.ctx.thinning.grew(journal.id());
        metrics::counter!("shellkeep_checkpoints_total").increment(1);
        metrics::histogram!("shellkeep_checkpoint_seconds").record(took);
        journal.record(Event::Checkpointed { checkpoint: Box::new(checkpoint.clone()) });
        self.ctx.share_files(journal.state());
        self.kept_to.kept(covers);
        Some(CheckpointView { checkpoint, seq: journal.state().seq, at: Timestamp::now(), kept: true, command: None })
    }

    /// Nothing of the session runs: its files need not be watched.
    pub(super) fn leave(&mut self) {
        match std::mem::take(&mut self.keeping) {
            Keeping::Idle(keeper) => {
                let open = self.kept_to.close();
                self.work(keeper, move |keeper| {
                    if let Some(repo) = keeper.repo_mut().filter(|repo| repo.needs_compaction())
                        && let Err(error) = repo.gather()
                    {
                        tracing::warn!(%error, "the checkpoints of a session could not be compacted");
                    }
                    keeper.rest();
                    Outcome::Rested { open }
                });
            }
            other => self.keeping = other,
        }
    }

    /// Waits until no work is in progress.
    pub(super) async fn settle(&mut self, journal: &mut Journal) {
        while self.keeping.is_busy() {
            let worked = self.worked().await;
            self.on_worked(journal, worked);
        }
    }

    /// The session was deleted or sleeps: everything that is held for its files is released.
    pub(super) async fn let_go(&mut self, journal: &mut Journal) {
        self.wanted = None;
        self.settle(journal).await;
        self.leave();
        self.settle(journal).await;
        self.keeping = Keeping::Off;
    }

    /// Does something with the files; no other work is in progress meanwhile.
    pub(super) async fn with_keeper<T: Send + 'static>(
        &mut self,
        journal: &mut Journal,
        work: impl FnOnce(&mut Checkpointer) -> T + Send + 'static,
    ) -> Result<T, OpError> {
        self.settle(journal).await;
        self.wait.release();
        if !self.ctx.checkpoints.config.on {
            let detail = "the host has turned off checkpoints (checkpoints.on)".to_owned();
            return Err(OpError::NotAllowed { detail });
        }
        make_workspace(&self.ctx, journal.state())?;
        let (is_new, mut keeper) = match std::mem::take(&mut self.keeping) {
            Keeping::Idle(keeper) => (false, keeper),
            _ => (true, Box::new(self.ctx.checkpoints.checkpointer(journal.id(), &journal.state().meta.workspace))),
        };
        let gate = Arc::clone(&self.ctx.checkpoints.gate);
        let working = tasks::blocking(move || {
            let _open = read(&gate);
            if is_new {
                keeper.begin()?;
            }
            let done = work(&mut keeper);
            Ok::<_, Trouble>((keeper, done))
        });
        let worked = working.await?;
        let (keeper, done) = worked.map_err(|trouble| files_failed(journal, "could not be scanned", &trouble))?;
        self.keeping = Keeping::Idle(keeper);
        Ok(done)
    }
}

/// Whether existing files are saved before the first command. Our own directories start empty: what is there belongs to
/// the first command.
fn needs_base(ctx: &SessionContext, journal: &Journal) -> bool {
    journal.state().files.is_none() && is_hosts(ctx, journal)
}

/// Whether the files are in a directory that the host named, where others work, too.
fn is_hosts(ctx: &SessionContext, journal: &Journal) -> bool {
    !ctx.workspaces.owns(&journal.state().meta.workspace)
}

/// A checkpoint of what others have changed. It is of its own record: what a moment before it names was before it.
fn outside(journal: &Journal) -> Wanted {
    Wanted::for_other(Cause::Outside, journal.state().seq + 1)
}

/// Work that saves the files.
fn saving(wanted: Wanted, journal: &Journal) -> impl FnOnce(&mut Checkpointer) -> Outcome + Send + 'static + use<> {
    let (label, parent) = (label(&wanted, journal), parent(journal));
    move |keeper| {
        let saved = keeper.save(&label, parent);
        Outcome::Saved(wanted, saved)
    }
}

/// The parent of the next commit.
pub(super) fn parent(journal: &Journal) -> Option<ObjectId> {
    journal.state().files.as_ref().and_then(commit_of)
}

/// How a checkpoint is labelled.
pub(super) fn label(wanted: &Wanted, journal: &Journal) -> Label {
    wanted.label(journal.id(), journal.state().meta.agent.as_deref())
}

/// Work with the files failed before it changed anything.
pub(super) fn files_failed(journal: &Journal, what: &'static str, error: &(dyn Error + 'static)) -> OpError {
    OpError::Checkpoint(CheckpointError::Failed {
        session_id: journal.id().to_string(),
        what,
        reason: error.into(),
        state: "nothing was changed",
    })
}
