//! Making another session of one: a copy of its files, its shell and its agent's state, and a word about where they came
//! from. And the way back: taking over what a fork changed in the files.

use super::Owner;
use super::unsure::Uncertain;
use crate::checkpoints::{self, commit_of};
use crate::crash::{self, Point};
use crate::file_views::plan_views;
use crate::forks;
use crate::ops::*;
use crate::pending::Pending;
use crate::{notices, state_file};
use shellkeep_record::past::Past;
use shellkeep_session::relocate::relocate;
use shellkeep_session::{
    AgentState, Author, ByteString, Cause, Checkpoint, Content, Event, FilesAt, LeftOut, Origin, SessionId,
    SessionMeta, ShellState, Timestamp,
};
use shellkeep_workspace::copy::{self, Copied};
use shellkeep_workspace::keeper::REPOSITORY;
use shellkeep_workspace::merge::{self, Merge};
use shellkeep_workspace::repo::{ObjectId, Repo, RepoError};
use shellkeep_workspace::restore;
use std::path::PathBuf;
use std::sync::Arc;

/// So many of the newest checkpoints stay, however much they take.
const LEAST_KEPT: usize = 5;

/// A fork that was asked for.
pub struct ForkOrder {
    /// The new session's name, which nobody else uses.
    pub id: SessionId,
    /// From when; from now if none is given.
    pub at: Option<Moment>,
    /// The agent's token that asks.
    pub by: Option<String>,
    /// Whether both may work on the same files.
    pub share_files: bool,
}

/// Where a fork's files come from and go to.
struct Move {
    from: PathBuf,
    to: PathBuf,
    home: PathBuf,
    /// The commit that the copy is to be like; what is copied if none is given.
    target: Option<ObjectId>,
    /// What is there to be copied.
    now: Option<ObjectId>,
    /// Whether there was no file at all then.
    empty: bool,
    /// Whether it is a workspace of our own, which may not have been made yet.
    is_own: bool,
    id: SessionId,
}

/// With what a fork begins.
struct Began {
    /// The record that it is a copy of.
    at: u64,
    workspace: ByteString,
    /// What is not in it, or not as one might think; the first ones of so many.
    left_out: Vec<(Vec<u8>, String)>,
    left_out_total: u64,
    /// What may not be as it was then.
    uncertain: Uncertain,
}

impl Owner {
    /// Makes another session of this one.
    pub(super) async fn fork(&mut self, order: ForkOrder) -> Result<Forked, OpError> {
        self.settle_files().await;
        let past = match &order.at {
            Some(at) => Some(self.engine.history.past(&self.id, at).await?),
            None => None,
        };
        let cwd = past.as_ref().map_or(&self.state.shell.cwd, |past| &past.shell.cwd);
        if !order.share_files && is_outside(cwd, &self.state.meta.workspace) {
            return Err(OpError::FilesNotApart {
                session_id: self.id.to_string(),
                path: cwd.to_text().into_owned(),
                workspace: self.state.meta.workspace.to_text().into_owned(),
            });
        }
        self.save_now(Cause::Fork).await?;
        let uncertain = match &past {
            Some(past) => self.uncertain(past, self.parent()).await,
            None => Uncertain::default(),
        };
        let pending = Pending::fork(self.engine.data_dir.root(), &order.id)
            .map_err(|error| self.files_failed("could not be copied", &error))?;
        let forked = self.copy_to(&order, past, uncertain).await;
        if forked.is_err() {
            self.engine.remover.forget_fork(&order.id).await;
        }
        pending.done();
        let forked = forked?;
        let at = forked.session.meta.forked_from.as_ref().map_or(0, |origin| origin.seq);
        self.record(Event::Forked { session_id: order.id, at });
        self.sync().await;
        Ok(forked)
    }

    async fn copy_to(
        &mut self,
        order: &ForkOrder,
        past: Option<Past>,
        uncertain: Uncertain,
    ) -> Result<Forked, OpError> {
        let at = past.as_ref().map_or(self.state.seq, |past| past.seq);
        let workspace = self.engine.workspaces.of(&order.id);
        let is_own = self.engine.workspaces.owns(&self.state.meta.workspace);
        let files = match &past {
            Some(past) => past.files.clone(),
            None => self.state.files.clone(),
        };
        let copying = Move {
            from: checkpoints::path(&self.state.meta.workspace).to_owned(),
            to: checkpoints::path(&workspace).to_owned(),
            home: self.engine.checkpoints.home(&order.id),
            target: past.as_ref().and(files.as_ref()).and_then(commit_of),
            now: self.parent(),
            empty: past.is_some() && files.is_none() && is_own,
            is_own,
            id: order.id.clone(),
        };
        let copied = self.copy_files(copying).await?;
        let mut shell = past.as_ref().map_or_else(|| self.state.shell.clone(), |past| past.shell.clone());
        relocate(&mut shell, &self.state.meta.workspace, &workspace);
        let agent_state = match past {
            Some(past) => past.agent_state,
            None => self.state.agent_state.as_deref().cloned(),
        };
        let agent_state = self.copy_agent_state(&order.id, agent_state).await;
        let (left_out, left_out_total) = (copied.left_out, copied.left_out_total);
        let began = Began { at, workspace, left_out, left_out_total, uncertain };
        self.begin_fork(order, began, shell, agent_state, files).await
    }

    /// Copies the files and what is kept of them. From now: everything that is there. From an earlier time: what was kept
    /// then, and of the rest what no checkpoint of then would have kept.
    async fn copy_files(&mut self, copying: Move) -> Result<Copied, OpError> {
        let faults = self.engine.checkpoints.faults().clone();
        let copied = self
            .with_keeper(move |keeper| -> Result<Copied, Box<dyn std::error::Error + Send + Sync>> {
                let Move { from, to, home, target, now, empty, is_own, id } = copying;
                let mut copied = Copied::default();
                if from.exists() || !is_own {
                    copied = copy::workspace(&from, &to, &faults)?;
                }
                crash::point(Point::ForkCopied, id.as_str().as_bytes());
                let Some(repo) = keeper.repo() else { return Ok(copied) };
                let repository = home.join(REPOSITORY);
                std::fs::create_dir_all(&home)?;
                let own = repo.share_into(&repository)?;
                if target.is_some() || empty {
                    let plan = restore::plan(&own, now, target)?;
                    let staged = restore::stage(&own, &to, &home, &plan, &faults)?;
                    let applied = restore::apply(staged, &[], &faults)?;
                    applied.finish()?;
                    if to.exists() {
                        restore::strip(&own, target, &to)?;
                    }
                }
                // Without it, everything is read again once.
                let _ = keeper.hand_down(&to, &home);
                Ok(copied)
            })
            .await?;
        copied.map_err(|reason| self.files_failed("could not be copied", &*reason))
    }

    /// The agent's state in the place of another session. If it is not there any more, the fork has none.
    async fn copy_agent_state(&self, id: &SessionId, state: Option<AgentState>) -> Option<AgentState> {
        let mut state = state?;
        let Content::File { .. } = &state.content else { return Some(state) };
        let failed = |error: &dyn std::fmt::Display| {
            tracing::warn!(session = %id, %error, "the agent's state could not be copied");
        };
        let saved = self
            .engine
            .kept_files
            .agent_state(&self.id, state.clone())
            .await
            .inspect_err(|error| failed(error))
            .ok()?;
        let (directory, power) = (self.engine.data_dir.outputs(id), self.engine.store.survives_power());
        let written = state_file::write(&directory, state.version, &saved.bytes, power);
        state.content = written.inspect_err(|error| failed(error)).ok()?;
        Some(state)
    }

    /// Takes down the first records of the new session.
    async fn begin_fork(
        &self,
        order: &ForkOrder,
        began: Began,
        shell: ShellState,
        agent_state: Option<AgentState>,
        files: Option<FilesAt>,
    ) -> Result<Forked, OpError> {
        let Began { at, workspace, left_out, left_out_total, uncertain } = began;
        let origin = Origin { session_id: self.id.clone(), seq: at };
        let live: Vec<String> = self
            .state
            .services
            .values()
            .filter(|service| service.status.is_live())
            .map(|service| service.spec.name.clone())
            .collect();
        let shared = is_outside(&shell.cwd, &workspace).then(|| shell.cwd.to_text().into_owned());
        let mut told = vec![notices::forked(&self.id, at, &live)];
        told.extend(shared.map(|cwd| notices::files_shared(&self.id, &cwd)));
        if left_out_total > 0 {
            told.push(notices::not_copied(&left_out, left_out_total));
        }
        told.extend(notices::files_uncertain(&uncertain.first, uncertain.total));
        let meta = SessionMeta {
            session_id: order.id.clone(),
            agent: self.state.meta.agent.clone(),
            agent_config: self.state.meta.agent_config.clone(),
            created_at: Timestamp::now(),
            workspace,
            by: order.by.clone(),
            forked_from: Some(origin),
        };
        let mut events = vec![Event::SessionCreated { meta: Box::new(meta), shell: Box::new(shell) }];
        events.extend(
            agent_state.map(|state| Event::AgentStateSaved {
                state: Box::new(state),
                author: Author::runtime(order.by.clone()),
            }),
        );
        events.extend(files.map(|at| Event::Checkpointed { checkpoint: Box::new(Checkpoint::of(at, 1, Cause::Fork)) }));
        events.push(Event::ShellStopped { reason: "forked".to_owned(), notices: told.clone() });
        let session = forks::begin(&self.engine, &order.id, self.state.meta.agent.as_deref(), events).await?;
        Ok(Forked { session, notices: told })
    }

    /// Takes over what a fork changed in the files.
    pub(super) async fn merge(
        &mut self,
        fork: &SessionId,
        request: MergeBack,
        base: Option<ObjectId>,
        theirs: Option<ObjectId>,
    ) -> Result<Merged, OpError> {
        self.engine.data_dir.check_taken(&self.state, None)?;
        let ours = self.commit_now().await?;
        let choice = match request.prefer {
            None => merge::Choice::Neither,
            Some(Side::Origin) => merge::Choice::Ours,
            Some(Side::Fork) => merge::Choice::Theirs,
        };
        let (from, faults) = (self.engine.checkpoints.repository(fork), Arc::clone(self.engine.checkpoints.faults()));
        let repository = from.clone();
        let theirs_now = checkpoints::path(&self.engine.workspaces.of(fork)).to_owned();
        let planned = self
            .with_keeper(move |keeper| -> Result<Merge, RepoError> {
                let Some(fork) = Repo::open(&from, &faults)? else { return Ok(Merge::default()) };
                // Where nothing was ever kept, nothing is there.
                let own = keeper.repo().unwrap_or(&fork);
                let mut merge = merge::plan(base, (own, ours), (&fork, theirs), choice)?;
                merge::spare(&mut merge, keeper.workspace(), &theirs_now, choice);
                Ok(merge)
            })
            .await?;
        let Merge { plan, conflicts, .. } = planned.map_err(|error| match error {
            RepoError::Missing { id } => {
                OpError::CheckpointNotFound { session_id: fork.to_string(), checkpoint: id.to_string(), was_kept: true }
            }
            error => self.files_failed("could not be merged", &error),
        })?;
        let (files, files_total) = plan_views(&plan);
        let told = |conflict: &merge::Conflict| LeftOut {
            path: ByteString(conflict.path.clone()),
            reason: conflict.reason.to_owned(),
        };
        let conflicts: Vec<LeftOut> = conflicts.iter().map(told).collect();
        let (into, notices) = (self.id.clone(), Vec::new());
        let mut merged = Merged { into, seq: None, undo: None, files, files_total, conflicts, notices };
        if request.dry_run || (plan.steps.is_empty() && merged.conflicts.is_empty()) {
            return Ok(merged);
        }
        if !merged.conflicts.is_empty() {
            return Err(conflict(&merged.conflicts));
        }
        self.save_now(Cause::Manual).await?;
        merged.undo = Some(self.state.seq);
        let (applied, pending) = self.change_files(plan, Some(repository), Vec::new()).await?;
        let saved = self.save_now(Cause::Merge).await?;
        applied.finish().map_err(|error| self.changed_but(&error))?;
        pending.done();
        self.sync().await;
        merged.seq = saved.map(|saved| saved.seq);
        Ok(merged)
    }

    /// Gives up old checkpoints by the policy, and more of them if the rest takes too much; gives the bytes that are free
    /// again.
    pub(super) async fn thin(&mut self) -> Result<u64, OpError> {
        let config = self.engine.checkpoints.config.clone();
        let (mut most, mut freed) = (config.keep_all, 0);
        loop {
            freed += self.thin_to(most).await?;
            let size = self.with_keeper(|keeper| keeper.repo().map_or(0, Repo::size)).await?;
            // Room for some more, or the next one would come to the same.
            if size <= config.bytes_per_session / 4 * 3 || most <= LEAST_KEPT {
                return Ok(freed);
            }
            most /= 2;
        }
    }

    async fn thin_to(&mut self, most: usize) -> Result<u64, OpError> {
        let keep = self.engine.history.commits_to_keep(&self.id, self.state.files.as_ref(), most).await?;
        let thinned = self
            .with_keeper(move |keeper| match keeper.repo_mut() {
                Some(repo) => {
                    // What a checkpoint that failed had gathered is not needed.
                    repo.abandon();
                    repo.thin(&keep).map(|reclaimed| reclaimed.bytes())
                }
                None => Ok(0),
            })
            .await?;
        thinned.map_err(|error| self.files_failed("in old checkpoints could not be pruned", &error))
    }
}

/// Whether a directory is not in a workspace, so that nothing is known of its files.
pub(crate) fn is_outside(cwd: &ByteString, workspace: &ByteString) -> bool {
    !checkpoints::path(cwd).starts_with(checkpoints::path(workspace))
}

/// Why a merge is refused.
fn conflict(conflicts: &[LeftOut]) -> OpError {
    const NAMED: usize = 3;
    let told = |conflict: &LeftOut| (conflict.path.to_text().into_owned(), conflict.reason.clone());
    let conflicts: Vec<(String, String)> = conflicts.iter().map(told).collect();
    let first = conflicts.iter().take(NAMED).map(|(path, _)| path.as_str()).collect::<Vec<_>>().join(", ");
    OpError::MergeConflict { first, conflicts }
}
