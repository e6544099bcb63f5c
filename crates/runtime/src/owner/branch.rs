//! Going back in a session's time: files, shell and agent's state as they were, and nothing lost of what is there now.

use super::fork::ForkOrder;
use super::unsure::Uncertain;
use super::{Answer, Owner};
use crate::checkpoints::commit_of;
use crate::crash::{self, Point};
use crate::file_views::{kept_back, plan_views};
use crate::ops::*;
use crate::pending::{self, Pending};
use crate::{notices, state_file};
use shellkeep_record::past::Past;
use shellkeep_session::{AgentState, Cause, Content, Event, FilesAt, LeftOut, Notice, SessionId, ShellState, decide};
use shellkeep_store::FileChange;
use shellkeep_workspace::repo::{ObjectId, Repo, RepoError};
use shellkeep_workspace::restore::{self, Applied, KeptBack, Plan, RestoreError};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// Something to be done with a session's files when nothing runs.
pub enum FilesTask {
    /// Keep them as they are.
    Checkpoint(Answer<Option<CheckpointView>>),
    /// Which commit is what is there now? None if nothing is.
    Now(Answer<Option<ObjectId>>),
    /// Take the session back.
    Rewind {
        /// What was asked for.
        request: Rewind,
        /// The agent's token that asks.
        by: Option<String>,
        /// Who waits.
        answer: Answer<Rewound>,
    },
    /// Make another session of it.
    Fork {
        /// What was asked for.
        order: Box<ForkOrder>,
        /// Who waits.
        answer: Answer<Forked>,
    },
    /// Take over what a fork changed.
    Merge {
        /// The fork.
        fork: SessionId,
        /// What was asked for.
        request: MergeBack,
        /// What the fork began with.
        base: Option<ObjectId>,
        /// What it has now.
        theirs: Option<ObjectId>,
        /// Who waits.
        answer: Answer<Merged>,
    },
    /// Give up old checkpoints; gives the bytes that are free again.
    Thin(Answer<u64>),
    /// Keep what a daemon that died had not kept.
    PayOwed(Answer<()>),
}

impl FilesTask {
    /// It will not be done.
    pub(super) fn refuse(self, error: OpError) {
        match self {
            Self::Checkpoint(answer) => drop(answer.send(Err(error))),
            Self::Now(answer) => drop(answer.send(Err(error))),
            Self::Rewind { answer, .. } => drop(answer.send(Err(error))),
            Self::Fork { answer, .. } => drop(answer.send(Err(error))),
            Self::Merge { answer, .. } => drop(answer.send(Err(error))),
            Self::Thin(answer) => drop(answer.send(Err(error))),
            Self::PayOwed(answer) => drop(answer.send(Err(error))),
        }
    }
}

/// What a session is to become.
struct Target {
    past: Past,
    /// What of its shell can be brought back.
    shell: ShellState,
    agent_state: Option<AgentState>,
    /// Variables whose values the recording masks.
    secrets: usize,
    /// What of it cannot be brought back.
    notices: Vec<Notice>,
}

impl Owner {
    /// Does what was asked for while nothing runs.
    pub(super) async fn do_files(&mut self, task: FilesTask) {
        self.linger();
        self.pay_owed().await;
        match task {
            FilesTask::Checkpoint(answer) => self.checkpoint(answer).await,
            FilesTask::Now(answer) => drop(answer.send(self.commit_now().await)),
            FilesTask::Rewind { request, by, answer } => drop(answer.send(self.rewind(request, by).await)),
            FilesTask::Fork { order, answer } => drop(answer.send(self.fork(*order).await)),
            FilesTask::Merge { fork, request, base, theirs, answer } => {
                drop(answer.send(self.merge(&fork, request, base, theirs).await));
            }
            FilesTask::Thin(answer) => drop(answer.send(self.thin().await)),
            FilesTask::PayOwed(answer) => drop(answer.send(Ok(()))),
        }
    }

    /// The commit of what is there now; nothing is taken down for it.
    pub(super) async fn commit_now(&mut self) -> Result<Option<ObjectId>, OpError> {
        let wanted = crate::checkpoints::Wanted::for_other(Cause::Manual, self.state.seq);
        let label = wanted.label(&self.id, self.state.meta.agent.as_deref());
        let parent = self.parent();
        let commit = self
            .with_keeper(move |keeper| {
                keeper.scan_everything();
                keeper.draft(&label, parent)
            })
            .await?;
        commit.map_err(|trouble| self.files_failed("could not be scanned", &trouble))
    }

    async fn rewind(&mut self, request: Rewind, by: Option<String>) -> Result<Rewound, OpError> {
        self.engine.data_dir.check_taken(&self.state, None)?;
        // A workspace of our own that was removed comes back with its files.
        let made = self.engine.workspaces.ensure(&self.state.meta.workspace);
        made.map_err(|error| self.files_failed("could not be scanned", &error))?;
        self.complete_what_was_begun().await?;
        let past = self.engine.history.past(&self.id, &request.to).await?;
        let target = self.target(past).await?;
        let now = self.commit_now().await?;
        let (plan, kept) = self.plan(now, target.past.files.clone()).await?;
        let uncertain = self.uncertain(&target.past, now).await;
        let mut rewound = self.rewound(&target, &plan, &kept);
        (rewound.uncertain, rewound.uncertain_total) = (uncertain.first.clone(), uncertain.total);
        if request.dry_run {
            return Ok(rewound);
        }
        self.save_now(Cause::Rewind).await?;
        self.rest("rewound", "the session was taken back to an earlier time");
        rewound.kept_back = self.bring_back(&target, plan, kept, uncertain, by).await?;
        rewound.undo = Some(self.state.seq - 1);
        rewound.seq = Some(self.state.seq);
        rewound.notices = self.state.pending_notices.clone();
        Ok(rewound)
    }

    /// What of the past can be brought back, and what has to be said of the rest.
    async fn target(&mut self, past: Past) -> Result<Target, OpError> {
        let mut shell = past.shell.clone();
        let secrets = match &self.mask {
            Some(_) => keep_secrets(&mut shell, &self.state.shell),
            None => 0,
        };
        let mut notices = Vec::new();
        let mut agent_state = past.agent_state.clone();
        if let Some(version) = self.missing_agent_state(&past).await {
            notices.push(notices::agent_state_gone(version));
            agent_state = self.state.agent_state.as_deref().cloned();
        }
        Ok(Target { past, shell, agent_state, secrets, notices })
    }

    /// The version of the agent's state of then, if its file is gone or is not what was saved.
    async fn missing_agent_state(&self, past: &Past) -> Option<u64> {
        let state = past.agent_state.as_ref()?;
        let Content::File { .. } = &state.content else { return None };
        self.engine.kept_files.agent_state(&self.id, state.clone()).await.err().map(|_| state.version)
    }

    /// Whether it is known what the files were. What a directory of the host had before its first checkpoint is not, so it
    /// is left alone.
    fn knows(&self, files: &Option<FilesAt>) -> bool {
        files.is_some() || self.engine.workspaces.owns(&self.state.meta.workspace)
    }

    /// What would change in the files.
    async fn plan(&mut self, now: Option<ObjectId>, files: Option<FilesAt>) -> Result<(Plan, Vec<KeptBack>), OpError> {
        let known = self.knows(&files);
        let target = files.as_ref().and_then(commit_of);
        let planned = self
            .with_keeper(move |keeper| match (keeper.repo(), known) {
                (Some(repo), true) => {
                    let plan = restore::plan(repo, now, target)?;
                    let kept = restore::preview(keeper.workspace(), &plan).map_err(RestoreError::Stage)?;
                    Ok((plan, kept))
                }
                _ => Ok((Plan::default(), Vec::new())),
            })
            .await?;
        planned.map_err(|error: RestoreError| match (error, files) {
            (RestoreError::Repo(RepoError::Missing { .. }), Some(files)) => {
                OpError::CheckpointNotFound { session_id: self.id.to_string(), checkpoint: files.name, was_kept: true }
            }
            (error, _) => self.files_failed("could not be compared", &error),
        })
    }

    /// What is told of a rewind.
    fn rewound(&self, target: &Target, plan: &Plan, kept: &[KeptBack]) -> Rewound {
        let (files, files_total) = plan_views(plan);
        let delta = self.state.shell.difference(&target.shell);
        Rewound {
            to: target.past.seq,
            seq: None,
            undo: None,
            files,
            files_total,
            kept_back: kept_back(kept),
            uncertain: Vec::new(),
            uncertain_total: 0,
            shell: decide::changes(&self.state.shell, &delta),
            cwd: target.shell.cwd.clone(),
            agent_state: target.agent_state.as_ref().map(|state| state.version),
            services_stopped: Vec::new(),
            notices: target.notices.clone(),
        }
    }

    /// Changes the files, then the session. From the moment at which the files begin to change, the next start would end it
    /// if this one cannot.
    async fn bring_back(
        &mut self,
        target: &Target,
        plan: Plan,
        kept: Vec<KeptBack>,
        uncertain: Uncertain,
        by: Option<String>,
    ) -> Result<Vec<LeftOut>, OpError> {
        let agent_state = self.saved_again(target.agent_state.clone()).map_err(|error| {
            self.files_failed("were not changed, because the agent's state could not be written", &error)
        })?;
        let files = match self.knows(&target.past.files) {
            true => target.past.files.clone(),
            false => self.state.files.clone(),
        };
        let commit = files.as_ref().and_then(commit_of);
        let has_files = files.is_some() || self.state.files.is_some();
        let mut told = vec![notices::rewound(target.past.seq, has_files, kept.len(), uncertain.total, target.secrets)];
        told.extend(notices::files_uncertain(&uncertain.first, uncertain.total));
        told.extend(target.notices.iter().cloned());
        let mut event = Event::Rewound {
            to: target.past.seq,
            by,
            files,
            kept_back: kept_back(&kept),
            shell: Box::new(target.shell.clone()),
            agent_state: agent_state.map(Box::new),
            notices: told,
        };
        if plan.steps.is_empty() {
            self.record(event);
            self.sync().await;
            return Ok(Vec::new());
        }
        let note = FileChange { seq: self.state.seq, event: event.clone() }.encode();
        let note = note.map_err(|error| self.files_failed("could not be changed", &error))?;
        let (applied, pending) = self.change_files(plan, None, note).await?;
        let taken = self.with_keeper(move |keeper| {
            if let (Some(repo), Some(commit)) = (keeper.repo_mut(), commit) {
                repo.set_head(commit)?;
            }
            keeper.took(commit)
        });
        taken.await?.map_err(|error| self.changed_but(&error))?;
        let all = kept_back(&applied.kept_back);
        if let Event::Rewound { kept_back, .. } = &mut event {
            kept_back.clone_from(&all);
        }
        self.record(event);
        self.sync().await;
        crash::point(Point::RewindRecorded, self.id.as_str().as_bytes());
        applied.finish().map_err(|error| self.changed_but(&error))?;
        pending.done();
        Ok(all)
    }

    /// Changes the files as planned, with what is in the session's repository or in another. From the first change on, the
    /// next start would complete it and take down what the note says if this one cannot.
    pub(super) async fn change_files(
        &mut self,
        plan: Plan,
        from: Option<PathBuf>,
        note: Vec<u8>,
    ) -> Result<(Applied, Pending), OpError> {
        let (data_dir, id) = (self.engine.data_dir.root().to_owned(), self.id.clone());
        let faults = Arc::clone(self.engine.checkpoints.faults());
        let changed = self
            .with_keeper(move |keeper| {
                let at = |point| crash::point(point, id.as_str().as_bytes());
                let (workspace, home) = (keeper.workspace().to_owned(), keeper.home().to_owned());
                let other = from.map(|from| Repo::open(&from, &faults)).transpose()?.flatten();
                let staged = match other.as_ref().or(keeper.repo()) {
                    Some(repo) => restore::stage(repo, &workspace, &home, &plan, &faults)?,
                    // Without a repository there was never a file, and the plan is empty.
                    None => return Err(RestoreError::Stage(io::ErrorKind::NotFound.into())),
                };
                at(Point::RewindStaged);
                let pending = Pending::change(&data_dir, &id).map_err(RestoreError::Stage)?;
                at(Point::RewindNoted);
                let applied = restore::apply(staged, &note, &faults);
                at(Point::RewindApplied);
                match applied {
                    Ok(applied) => Ok((applied, pending)),
                    Err(error) => {
                        if !matches!(error, RestoreError::Apply(_)) {
                            pending.done();
                        }
                        Err(error)
                    }
                }
            })
            .await?;
        changed.map_err(|error| match error {
            RestoreError::Apply(reason) => OpError::FilesFailed {
                session_id: self.id.to_string(),
                what: "are only partly changed",
                reason: crate::FilesReason::from(&reason as &dyn std::error::Error),
                state: "nothing is lost; fix the cause, then rewind again or restart the daemon to complete it",
            },
            error => self.files_failed("could not be changed", &error),
        })
    }

    /// An earlier change of files that could not be completed is completed before there is another.
    async fn complete_what_was_begun(&mut self) -> Result<(), OpError> {
        let faults = Arc::clone(self.engine.checkpoints.faults());
        let seq = self.state.seq;
        let completed = self
            .with_keeper(move |keeper| {
                let mut found = None;
                let take_down = |event| {
                    found = Some(event);
                    Ok(())
                };
                let completed = pending::complete(keeper.workspace(), keeper.home(), seq, &faults, take_down);
                keeper.scan_everything();
                completed.map(|_| found)
            })
            .await?;
        match completed {
            Ok(Some(event)) => drop(self.record(event)),
            Ok(None) => {}
            Err(reason) => return Err(self.files_failed("are only partly changed by an earlier rewind", &*reason)),
        }
        Ok(())
    }

    pub(super) fn changed_but(&self, error: &(dyn std::error::Error + 'static)) -> OpError {
        OpError::FilesFailed {
            session_id: self.id.to_string(),
            what: "were changed, but recording that failed",
            reason: error.into(),
            state: "nothing is lost; rewind again or restart the daemon to complete it",
        }
    }

    /// An old state of the agent as its newest: whoever saves must have seen it.
    fn saved_again(&self, state: Option<AgentState>) -> io::Result<Option<AgentState>> {
        let Some(AgentState { media_type, content, .. }) = state else { return Ok(None) };
        let mut version = self.state.last_agent_version() + 1;
        let content = match content {
            Content::File { name, .. } => {
                version = state_file::free_version(&self.outputs, version);
                let name = state_file::link(&self.outputs, &name, version, self.engine.store.survives_power())?;
                // It was compared with its record before; a scrub may have changed it since it was saved.
                state_file::measured(&self.outputs, name)?
            }
            inline => inline,
        };
        Ok(Some(AgentState { version, media_type, content }))
    }

    pub(super) fn files_failed(&self, what: &'static str, error: &(dyn std::error::Error + 'static)) -> OpError {
        OpError::FilesFailed {
            session_id: self.id.to_string(),
            what,
            reason: error.into(),
            state: "nothing was changed",
        }
    }
}

/// Takes present values for those that the recording masks; gives how many.
fn keep_secrets(shell: &mut ShellState, now: &ShellState) -> usize {
    let is_masked = |variable: &shellkeep_session::shell::Variable| {
        let text = serde_json::to_string(variable).unwrap_or_default();
        text.contains(&*String::from_utf8_lossy(shellkeep_redact::MASK))
    };
    let masked: Vec<_> =
        shell.variables.iter().filter(|(_, variable)| is_masked(variable)).map(|(name, _)| name.clone()).collect();
    for name in &masked {
        match now.variables.get(name) {
            Some(variable) => drop(shell.variables.insert(name.clone(), variable.clone())),
            None => drop(shell.variables.remove(name)),
        }
    }
    masked.len()
}
