//! Creating another session from one: a copy of its files, its shell and its agent's state, and a note about where they
//! came from.

use super::checkpoint::{check_kept, save_now};
use super::files::{Files, files_failed, parent};
use super::journal::Journal;
use super::kv;
use super::message::ForkOrder;
use super::session::Session;
use super::unsure::{Uncertain, uncertain};
use crate::checkpoints::{self, commit_of};
use crate::context::SessionContext;
use crate::crash::{self, Point};
use crate::forks::{self, Begun};
use crate::ops::*;
use crate::pending::Pending;
use crate::tasks;
use crate::user_path::leads_out;
use crate::{notices, state_file};
use shellkeep_record::past::Past;
use shellkeep_session::relocate::{goes_up, relocate};
use shellkeep_session::{
    AgentState, Author, ByteString, Cause, Checkpoint, Content, Event, FilesAt, Notice, Origin, Sandbox, SessionId,
    SessionMeta, SessionState, ShellState, Timestamp,
};
use shellkeep_workspace::checkpointer::REPOSITORY;
use shellkeep_workspace::copy::{self, Copied, TopMode};
use shellkeep_workspace::repo::ObjectId;
use shellkeep_workspace::restore;
use std::path::PathBuf;

/// Where a fork's files come from and go to.
struct Move {
    from: PathBuf,
    to: PathBuf,
    home: PathBuf,
    /// The commit to restore in the copy; none to leave it as copied.
    target: Option<ObjectId>,
    /// What is there to be copied.
    now: Option<ObjectId>,
    /// Whether there was no file at that moment.
    empty: bool,
    /// Whether it is our own workspace, which may not exist yet.
    is_own: bool,
    id: SessionId,
}

/// What a fork starts with.
struct Began {
    /// The record that it is a copy of.
    at: u64,
    workspace: ByteString,
    /// Whether it works elsewhere, where its origin does.
    shares: bool,
    /// Paths that are missing in it or differ; only the first ones.
    left_out: Vec<(Vec<u8>, String)>,
    left_out_total: u64,
    /// Paths that may differ from that moment.
    uncertain: Uncertain,
    /// The records of its keyed store.
    values: Vec<Event>,
    /// What its keyed store and its agent's state lack.
    lost: Vec<Notice>,
    shell: ShellState,
    agent_state: Option<AgentState>,
    files: Option<FilesAt>,
}

/// Creates another session from this one.
pub(super) async fn fork(session: &mut Session, mut order: ForkOrder) -> Result<Forked, OpError> {
    session.files.settle(&mut session.journal).await;
    let mut past = match &order.at {
        Some(at) => Some(session.ctx.history.past(session.id(), at).await?),
        None => None,
    };
    // Its workspace was elsewhere if the session has moved since.
    past.iter_mut().for_each(|past| past.move_to(&session.journal.state().meta.workspace));
    let cwd = past.as_ref().map_or(&session.journal.state().shell.cwd, |past| &past.shell.cwd);
    if !order.share_files && is_outside(cwd, &session.journal.state().meta.workspace) {
        return Err(not_apart(&session.journal.state().meta, cwd));
    }
    let (files, journal) = (&mut session.files, &mut session.journal);
    if let Some(past) = &past {
        check_kept(files, journal, past).await?;
    }
    save_now(files, journal, Cause::Fork).await?;
    let now = parent(journal);
    let uncertain = match &past {
        Some(past) => uncertain(files, journal, past, now).await,
        None => Uncertain::default(),
    };
    let pending = Pending::fork(session.ctx.data_dir.root(), &order.id)
        .map_err(|error| files_failed(&session.journal, "could not be copied", &error))?;
    let forked = copy_to(session, &mut order, past, uncertain).await;
    // One that is a session by now is another node's, and what this one has of it is looked at.
    if forked.is_err() && !session.ctx.names.contains(&order.id) {
        session.ctx.remover.forget_fork(&order.id).await;
    }
    pending.done();
    let mut forked = forked?;
    let at = forked.session.meta.forked_from.as_ref().map_or(0, |origin| origin.seq);
    session.journal.record(Event::Forked { session_id: order.id, at, diverged_on: None, notices: Vec::new() });
    // The fork exists, whoever has its origin.
    let kept = session.journal.settle().await.ok().flatten();
    let kept = kept.filter(|notice| forked.notices.iter().all(|told| told.code != notice.code));
    forked.notices.extend(kept);
    Ok(forked)
}

/// The fork would work in the same files.
fn not_apart(meta: &SessionMeta, cwd: &ByteString) -> OpError {
    OpError::Checkpoint(CheckpointError::NotApart {
        session_id: meta.session_id.to_string(),
        path: cwd.to_text().into_owned(),
        workspace: meta.workspace.to_text().into_owned(),
    })
}

async fn copy_to(
    session: &mut Session,
    order: &mut ForkOrder,
    past: Option<Past>,
    uncertain: Uncertain,
) -> Result<Forked, OpError> {
    let at = past.as_ref().map_or(session.journal.state().seq, |past| past.seq);
    let workspace = session.ctx.workspaces.of(&order.id);
    let is_own = session.ctx.workspaces.owns(&session.journal.state().meta.workspace);
    let files = match &past {
        Some(past) => past.files.clone(),
        None => session.journal.state().files.clone(),
    };
    let copying = Move {
        from: checkpoints::path(&session.journal.state().meta.workspace).to_owned(),
        to: checkpoints::path(&workspace).to_owned(),
        home: session.ctx.checkpoints.home(&order.id),
        target: past.as_ref().and(files.as_ref()).and_then(commit_of),
        now: parent(&session.journal),
        empty: past.is_some() && files.is_none() && is_own,
        is_own,
        id: order.id.clone(),
    };
    let copied = copy_files(&mut session.files, &mut session.journal, copying).await?;
    let mut shell = past.as_ref().map_or_else(|| session.journal.state().shell.clone(), |past| past.shell.clone());
    let cwd = shell.cwd.clone();
    relocate(&mut shell, &session.journal.state().meta.workspace, &workspace);
    // Only in the copy itself one sees where its links lead.
    let shares = is_outside(&shell.cwd, &workspace)
        || leads_out(checkpoints::path(&shell.cwd).to_owned(), checkpoints::path(&workspace).to_owned()).await;
    if shares && !order.share_files {
        return Err(not_apart(&session.journal.state().meta, &cwd));
    }
    let kv_version = past.as_ref().and_then(|past| past.kv_version);
    let is_kv_unknown = past.is_some() && kv_version.is_none();
    let kv_as_now = if is_kv_unknown { kv::copied_as_now(&session.journal) } else { None };
    let values = session.kv.fork(&session.journal, &order.id, kv_version, order.by.as_deref());
    let (values, values_lost) = values.await?;
    let agent_state = match past {
        Some(past) => past.agent_state,
        None => session.journal.state().agent_state.as_deref().cloned(),
    };
    let version = agent_state.as_ref().map(|state| state.version);
    let agent_state = copy_agent_state(&session.ctx, &session.journal, &order.id, agent_state).await;
    let state_lost = version.filter(|_| agent_state.is_none()).map(notices::agent_state_not_copied);
    let lost = values_lost.into_iter().chain(kv_as_now).chain(state_lost).collect();
    let (left_out, left_out_total) = (copied.left_out, copied.left_out_total);
    let began =
        Began { at, workspace, shares, left_out, left_out_total, uncertain, values, lost, shell, agent_state, files };
    begin_fork(&session.ctx, session.journal.state(), order, began).await
}

/// Copies the files and their checkpoints. From now: everything. From an earlier moment: the files of that moment, and
/// of the rest what its checkpoint would not have contained.
async fn copy_files(files: &mut Files, journal: &mut Journal, copying: Move) -> Result<Copied, OpError> {
    let faults = files.ctx.checkpoints.faults().clone();
    // Users of agents can pass to where the copy is.
    let is_passed = files.ctx.sandboxes.has_user(Sandbox::User);
    let top_mode = if is_passed { TopMode::Private } else { TopMode::Same };
    let copied = files
        .with_keeper(journal, move |keeper| -> Result<Copied, Box<dyn std::error::Error + Send + Sync>> {
            let Move { from, to, home, target, now, empty, is_own, id } = copying;
            let mut copied = Copied::default();
            if from.exists() || !is_own {
                copied = copy::workspace(&from, &to, top_mode, &faults)?;
            }
            crash::point(Point::ForkCopied, id.as_str().as_bytes());
            let Some(repo) = keeper.repo() else { return Ok(copied) };
            let repository = home.join(REPOSITORY);
            std::fs::create_dir_all(&home)?;
            let own = repo.share_into(&repository)?;
            if target.is_some() || empty {
                let mut plan = restore::plan(&own, now, target)?;
                plan.steps.retain(|step| top_mode == TopMode::Same || !step.path.is_empty());
                if to.exists() {
                    restore::make_way(&to, &plan)?;
                }
                let staged = restore::stage(&own, &to, &home, &plan, &faults)?;
                let applied = restore::apply(staged, &[], &faults)?;
                copied.left_out_total += applied.kept_back.len() as u64;
                let room = MAX_NAMED_FILES.saturating_sub(copied.left_out.len());
                let kept = applied.kept_back.iter().take(room);
                copied.left_out.extend(kept.map(|kept| (kept.path.clone(), kept.reason.to_owned())));
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
    copied.map_err(|reason| files_failed(journal, "could not be copied", &*reason))
}

/// Copies the agent's state to another session. If it is gone, the fork has none.
async fn copy_agent_state(
    ctx: &SessionContext,
    journal: &Journal,
    id: &SessionId,
    state: Option<AgentState>,
) -> Option<AgentState> {
    let mut state = state?;
    let Content::File { .. } = &state.content else { return Some(state) };
    let failed = |error: &dyn std::fmt::Display| {
        tracing::warn!(session = %id, %error, "the agent's state could not be copied");
    };
    let saved = ctx.kept_files.agent_state(journal.id(), state.clone()).await;
    let saved = saved.inspect_err(|error| failed(error)).ok()?;
    let (outputs, durability) = (ctx.data_dir.outputs(id), ctx.durability());
    let written = tasks::in_place(|| state_file::write(&outputs, state.version, &saved.bytes, durability));
    state.content = written.inspect_err(|error| failed(error)).ok()?;
    Some(state)
}

/// A moment of the past as people know it.
async fn moment(ctx: &SessionContext, id: &SessionId, at: u64) -> Result<String, OpError> {
    let after_run = ctx.history.run_before(id, at).await?;
    Ok(after_run.map_or_else(|| format!("after record {at}"), |run_id| format!("after {run_id}")))
}

/// Writes the first records of the new session.
async fn begin_fork(
    ctx: &SessionContext,
    origin: &SessionState,
    order: &mut ForkOrder,
    began: Began,
) -> Result<Forked, OpError> {
    let id = &origin.meta.session_id;
    let live = origin.services.values().filter(|service| service.status.is_live());
    let live: Vec<String> = live.map(|service| service.spec.name.clone()).collect();
    let shared = began.shares.then(|| began.shell.cwd.to_text().into_owned());
    let moment = match &order.at {
        Some(_) => Some(moment(ctx, id, began.at).await?),
        None => None,
    };
    let mut told = vec![notices::forked(id, moment.as_deref(), &live)];
    told.extend(shared.map(|cwd| notices::files_shared(id, &cwd)));
    if began.left_out_total > 0 {
        told.push(notices::not_copied(&began.left_out, began.left_out_total));
    }
    told.extend(notices::files_uncertain(&began.uncertain.first, began.uncertain.total));
    told.extend(began.lost);
    let meta = SessionMeta {
        session_id: order.id.clone(),
        agent: origin.meta.agent.clone(),
        agent_config: origin.meta.agent_config.clone(),
        created_at: Timestamp::now(),
        user_id: order.user_id.clone(),
        workspace: began.workspace,
        by: order.by.clone(),
        forked_from: Some(Origin { session_id: id.clone(), seq: began.at }),
        sandbox: origin.sandbox,
        secrets: origin.meta.secrets.clone(),
    };
    let mut events = vec![Event::SessionCreated { meta: Box::new(meta), shell: Box::new(began.shell) }];
    let saved = |state| Event::AgentStateSaved { state: Box::new(state), author: Author::runtime(order.by.clone()) };
    events.extend(began.agent_state.map(saved));
    events.extend(began.values);
    let kept = |at| Event::Checkpointed { checkpoint: Box::new(Checkpoint::of(at, 1, Cause::Fork)) };
    events.extend(began.files.map(kept));
    events.push(Event::ShellStopped { reason: "forked".to_owned(), notices: told.clone() });
    let (agent, claimed) = (origin.meta.agent.as_deref(), order.claimed.take());
    let Begun { session, notice } = forks::begin(ctx, &order.id, agent, events, claimed).await?;
    told.extend(notice);
    Ok(Forked { session, notices: told })
}

/// Whether a directory is outside a workspace, so that nothing is known about its files. Of one that goes up nobody can say.
pub(crate) fn is_outside(cwd: &ByteString, workspace: &ByteString) -> bool {
    let cwd = checkpoints::path(cwd);
    goes_up(cwd) || !cwd.starts_with(checkpoints::path(workspace))
}
