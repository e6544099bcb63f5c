//! Rewinds a session to an earlier moment: files, shell and agent's state as they were. Nothing of the present is lost.

use super::checkpoint::{change_files, changed_but, check_kept, commit_now, not_kept, save_now};
use super::files::{Files, files_failed};
use super::journal::Journal;
use super::kv;
use super::others;
use super::removed::Removed;
use super::rest_reason::RestReason;
use super::session::Session;
use super::unsure::{Uncertain, uncertain};
use crate::checkpoints::{commit_of, path};
use crate::context::SessionContext;
use crate::crash::{self, Point};
use crate::file_views::{kept_back, plan_views};
use crate::notices::RewoundTo;
use crate::ops::*;
use crate::pending;
use crate::tasks;
use crate::{notices, state_file};
use shellkeep_record::past::Past;
use shellkeep_record::steps::UnsavedRun;
use shellkeep_session::{
    AgentState, Cause, Content, Event, FilesAt, KvRewound, LeftOut, Notice, NoticeCode, RewindStep, RunId, SessionId,
    SessionState, ShellState, decide,
};
use shellkeep_store::FileChange;
use shellkeep_workspace::repo::{ObjectId, RepoError};
use shellkeep_workspace::restore::{self, KeptBack, Plan, RestoreError};
use std::io;
use std::sync::Arc;

/// Of a moment whose files no checkpoint holds.
const FILES_UNKNOWN: &str = "No file was changed: there is no checkpoint of the files as they were at that moment.";

/// Where a rewind goes.
struct Goal {
    to: Moment,
    /// What an undo reverts; none for a moment that was named.
    undone: Option<ChangedBy>,
    /// Whether it is a step of undo or redo.
    step: Option<RewindStep>,
}

impl Goal {
    /// A moment that was named.
    fn named(to: Moment) -> Self {
        Self { to, undone: None, step: None }
    }

    /// Where an undo goes if the workspace was removed: before the run that did that. If none did, the files come back, and
    /// that is no step of undo, because no change of the session was undone.
    fn before_removal(by: Option<&UnsavedRun>, state: &SessionState) -> Self {
        let Some(UnsavedRun { run_id, ended }) = by else { return Self::named(Moment::Seq(state.seq)) };
        let before = run_id.seq().unwrap_or(*ended).saturating_sub(1);
        Self { to: Moment::Seq(before), undone: Some(ChangedBy::Run(run_id.clone())), step: Some(RewindStep::Undo) }
    }
}

/// What would change in the files.
#[derive(Default)]
struct Changes {
    plan: Plan,
    kept_back: Vec<KeptBack>,
}

/// What a rewind did.
struct Done {
    /// What was not changed.
    kept_back: Vec<LeftOut>,
    /// What to say if only this node has the rewind.
    here_only: Option<Notice>,
}

/// The target state of a session.
struct Target {
    past: Past,
    /// The run after which that is, if it can be named so.
    after_run: Option<RunId>,
    /// What an undo reverts; none for a moment that was named.
    undone: Option<ChangedBy>,
    /// Whether it is a step of undo or redo.
    step: Option<RewindStep>,
    /// The part of its shell that can be restored.
    shell: ShellState,
    agent_state: Option<AgentState>,
    /// Whether that is the version that it is now, which is not saved again: its file is not here.
    keeps_agent_state: bool,
    /// What happens to the keyed store, if anything.
    kv: Option<KvRewound>,
    /// Variables whose values the recording masks.
    secrets: usize,
    /// What cannot be restored.
    notices: Vec<Notice>,
}

impl Target {
    /// The moment as people know it.
    fn moment(&self) -> String {
        match (&self.undone, &self.after_run) {
            (Some(ChangedBy::Run(run_id)), _) => format!("the state before {run_id}"),
            (_, Some(run_id)) => format!("the state after {run_id}"),
            (_, None) => format!("record {}", self.past.seq),
        }
    }
}

/// Rewinds the session to an earlier moment.
pub(super) async fn rewind(session: &mut Session, request: Rewind, by: Option<String>) -> Result<Rewound, OpError> {
    session.ctx.data_dir.check_taken(session.journal.state(), None)?;
    let removed = Removed::restore(&session.ctx, &session.journal).await?;
    complete_interrupted(session).await?;
    let goal = match (&removed, request.to) {
        (Some(removed), Moment::Step(RewindStep::Undo)) => {
            Goal::before_removal(removed.by.as_ref(), session.journal.state())
        }
        (_, to @ Moment::Step(step)) => {
            let undone = session.ctx.history.undone(session.id(), &to).await;
            let undone = undone.map_err(|error| without_files(session.journal.state(), error))?;
            Goal { to, undone, step: Some(step) }
        }
        (_, to) => Goal::named(to),
    };
    let past = session.ctx.history.past(session.id(), &goal.to).await?;
    let mut target = target(session, past, goal).await?;
    let (files, journal) = (&mut session.files, &mut session.journal);
    check_kept(files, journal, &target.past).await?;
    let now = commit_now(files, journal).await?;
    let changes = plan(files, journal, now, &target.past).await?;
    let uncertain = uncertain(files, journal, &target.past, now).await;
    let mut rewound = rewound(journal.state(), &target, &changes);
    (rewound.uncertain, rewound.uncertain_total) = (uncertain.first.clone(), uncertain.total);
    // That the session was rewound is what the caller asked for; the next command's result says so.
    rewound.notices.extend(notices::files_uncertain(&uncertain.first, uncertain.total));
    rewound.of_others = others::changed_since(&session.ctx, journal, target.past.seq, &changes.plan).await?;
    if request.dry_run {
        return Ok(rewound);
    }
    if !request.force {
        others::refuse(&rewound.of_others)?;
    }
    match &removed {
        // Without a checkpoint of it, the removal is no change that could be counted as undone.
        Some(removed) if removed.save(files, journal).await?.is_none() => target.step = None,
        Some(_) => {}
        None => drop(save_now(files, journal, Cause::Rewind).await?),
    }
    session.rest(RestReason::Rewound);
    let done = apply(session, &target, changes, uncertain, by).await?;
    rewound.kept_back = done.kept_back;
    rewound.notices.extend(done.here_only);
    removed.into_iter().for_each(Removed::keep);
    if target.kv.is_some() {
        session.kv.rewind(&mut session.journal).await;
    }
    rewound.undo = Some(session.journal.state().seq - 1);
    rewound.seq = Some(session.journal.state().seq);
    Ok(rewound)
}

/// There is nothing to undo. If the session works where its files are not saved, that may be why.
fn without_files(state: &SessionState, mut error: OpError) -> OpError {
    let [cwd, workspace] = [&state.shell.cwd, &state.meta.workspace].map(path);
    if let OpError::Checkpoint(CheckpointError::NothingToUndo { detail }) = &mut error
        && !cwd.starts_with(workspace)
    {
        detail.push_str(&format!(
            ". Its working directory {} is outside its workspace, so files there are not saved",
            cwd.display()
        ));
    }
    error
}

/// What of that moment can be restored, and notices about the rest.
async fn target(session: &mut Session, mut past: Past, goal: Goal) -> Result<Target, OpError> {
    past.move_to(&session.journal.state().meta.workspace);
    let mut shell = past.shell.clone();
    let secrets = match session.journal.mask() {
        Some(_) => keep_secrets(&mut shell, &session.journal.state().shell),
        None => 0,
    };
    let mut notices = Vec::new();
    let (mut agent_state, mut keeps_agent_state) = (past.agent_state.clone(), false);
    if let Some(version) = missing_agent_state(&session.ctx, session.id(), agent_state.as_ref()).await {
        notices.push(notices::agent_state_gone(version));
        agent_state = session.journal.state().agent_state.as_deref().cloned();
        keeps_agent_state = missing_agent_state(&session.ctx, session.id(), agent_state.as_ref()).await.is_some();
    }
    if !knows(&session.ctx, session.journal.state(), past.files.as_ref()) && session.journal.state().files.is_some() {
        notices.push(Notice { code: NoticeCode::FilesUncertain, message: FILES_UNKNOWN.to_owned() });
    }
    let kv = match past.kv_version {
        Some(version) => session.kv.plan_rewind(&session.journal, version).await?,
        None => {
            notices.extend(kv::not_rewound(&session.journal));
            None
        }
    };
    let gone = kv.as_ref().map(|rewound| &rewound.missing).filter(|missing| !missing.is_empty());
    notices.extend(gone.map(|missing| kv::values_gone(missing)));
    let after_run = session.ctx.history.run_before(session.id(), past.seq).await?;
    let Goal { undone, step, .. } = goal;
    Ok(Target { past, after_run, undone, step, shell, agent_state, keeps_agent_state, kv, secrets, notices })
}

/// The version of a state of the agent, if its file is gone or is not what was saved.
async fn missing_agent_state(ctx: &SessionContext, id: &SessionId, state: Option<&AgentState>) -> Option<u64> {
    let state = state?;
    let Content::File { .. } = &state.content else { return None };
    ctx.kept_files.agent_state(id, state.clone()).await.err().map(|_| state.version)
}

/// Whether the files of that moment are known. What a directory of the host contained before its first checkpoint is not,
/// so it is not changed.
fn knows(ctx: &SessionContext, state: &SessionState, files: Option<&FilesAt>) -> bool {
    files.is_some() || ctx.workspaces.owns(&state.meta.workspace)
}

/// Compares the files with those of a moment.
async fn plan(
    files: &mut Files,
    journal: &mut Journal,
    now: Option<ObjectId>,
    past: &Past,
) -> Result<Changes, OpError> {
    let known = knows(&files.ctx, journal.state(), past.files.as_ref());
    let target = past.files.as_ref().and_then(commit_of);
    let planned = files
        .with_keeper(journal, move |keeper| match (keeper.repo(), known) {
            (Some(repo), true) => {
                let plan = restore::plan(repo, now, target)?;
                let kept_back = restore::preview(keeper.workspace(), &plan).map_err(RestoreError::Stage)?;
                Ok(Changes { plan, kept_back })
            }
            _ => Ok(Changes::default()),
        })
        .await?;
    planned.map_err(|error: RestoreError| match (error, &past.files) {
        (RestoreError::Repo(RepoError::Missing { .. }), Some(at)) => not_kept(journal.state(), at, past.seq),
        (error, _) => files_failed(journal, "could not be compared", &error),
    })
}

/// What the caller of a rewind gets.
fn rewound(state: &SessionState, target: &Target, changes: &Changes) -> Rewound {
    let (files, files_total) = plan_views(&changes.plan);
    let delta = state.shell.difference(&target.shell);
    Rewound {
        to: target.past.seq,
        after_run: target.after_run.clone(),
        seq: None,
        undo: None,
        undone: target.undone.clone(),
        files,
        files_total,
        kept_back: kept_back(&changes.kept_back),
        uncertain: Vec::new(),
        uncertain_total: 0,
        of_others: Vec::new(),
        shell: decide::changes(&state.shell, &delta, &[]),
        cwd: target.shell.cwd.clone(),
        agent_state: target.agent_state.as_ref().map(|state| state.version),
        kv_version: target.kv.as_ref().map(|kv| kv.restored.version),
        services_stopped: Vec::new(),
        notices: target.notices.clone(),
    }
}

/// Changes the files, then the session. Once the files begin to change, the next start completes the rewind if this daemon
/// cannot.
async fn apply(
    session: &mut Session,
    target: &Target,
    changes: Changes,
    uncertain: Uncertain,
    by: Option<String>,
) -> Result<Done, OpError> {
    let Changes { plan, kept_back: kept } = changes;
    let saved = tasks::in_place(|| saved_again(&session.ctx, session.journal.state(), target));
    let agent_state = saved.map_err(|error| {
        files_failed(&session.journal, "were not changed, because the agent's state could not be written", &error)
    })?;
    let is_known = knows(&session.ctx, session.journal.state(), target.past.files.as_ref());
    let files = match is_known {
        true => target.past.files.clone(),
        false => session.journal.state().files.clone(),
    };
    let commit = files.as_ref().and_then(commit_of);
    let has_files = is_known && (files.is_some() || session.journal.state().files.is_some());
    let to = RewoundTo {
        moment: &target.moment(),
        has_files,
        kept_back: kept.len(),
        uncertain: uncertain.total,
        secrets: target.secrets,
    };
    let mut told = vec![notices::rewound(to)];
    told.extend(notices::files_uncertain(&uncertain.first, uncertain.total));
    told.extend(target.notices.iter().cloned());
    let mut event = Event::Rewound {
        to: target.past.seq,
        step: target.step,
        by,
        files,
        kept_back: kept_back(&kept),
        shell: Box::new(target.shell.clone()),
        agent_state: agent_state.map(Box::new),
        kv: target.kv.clone(),
        notices: told,
    };
    if plan.steps.is_empty() {
        session.journal.record(event);
        return Ok(Done { kept_back: kept_back(&kept), here_only: session.journal.settle().await? });
    }
    let note = FileChange { seq: session.journal.state().seq, event: event.clone() }.encode();
    let note = note.map_err(|error| files_failed(&session.journal, "could not be changed", &error))?;
    let (applied, pending) = change_files(&mut session.files, &mut session.journal, plan, None, note).await?;
    let kept: Vec<Vec<u8>> = applied.kept_back.iter().map(|kept| kept.path.clone()).collect();
    let taken = session.files.with_keeper(&mut session.journal, move |keeper| {
        if let (Some(repo), Some(commit)) = (keeper.repo_mut(), commit) {
            repo.set_head(commit)?;
        }
        keeper.took(commit, kept.iter().map(Vec::as_slice))
    });
    taken.await?.map_err(|error| changed_but(&session.journal, &error))?;
    let all = kept_back(&applied.kept_back);
    if let Event::Rewound { kept_back, .. } = &mut event {
        kept_back.clone_from(&all);
    }
    session.journal.record(event);
    let here_only = session.journal.settle().await;
    crash::point(Point::RewindRecorded, session.id().as_str().as_bytes());
    applied.finish().map_err(|error| changed_but(&session.journal, &error))?;
    pending.done();
    Ok(Done { kept_back: all, here_only: here_only? })
}

/// Completes an earlier change of files that was interrupted.
async fn complete_interrupted(session: &mut Session) -> Result<(), OpError> {
    let faults = Arc::clone(session.ctx.checkpoints.faults());
    let seq = session.journal.state().seq;
    let completed = session
        .files
        .with_keeper(&mut session.journal, move |keeper| {
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
        Ok(Some(event)) => {
            session.journal.record(event);
            // Opening it again rewinds it too.
            session.kv.close();
        }
        Ok(None) => {}
        Err(reason) => {
            return Err(files_failed(&session.journal, "are only partly changed by an earlier rewind", &*reason));
        }
    }
    Ok(())
}

/// An old state of the agent as its newest version: a caller that saves must have seen it.
fn saved_again(ctx: &SessionContext, state: &SessionState, target: &Target) -> io::Result<Option<AgentState>> {
    if target.keeps_agent_state {
        return Ok(target.agent_state.clone());
    }
    let Some(AgentState { media_type, content, .. }) = target.agent_state.clone() else { return Ok(None) };
    let mut version = state.last_agent_version() + 1;
    let content = match content {
        Content::File { name, .. } => {
            let outputs = ctx.data_dir.outputs(&state.meta.session_id);
            version = state_file::free_version(&outputs, version);
            let name = state_file::link(&outputs, &name, version, ctx.durability())?;
            // It was compared with its record before; a scrub may have changed it since it was saved.
            state_file::measured(&outputs, name)?
        }
        inline => inline,
    };
    Ok(Some(AgentState { version, media_type, content }))
}

/// Keeps the current values of variables that the recording masks; returns how many.
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
