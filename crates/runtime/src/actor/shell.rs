//! Acquiring a shell for a session, and the directories that it needs.

use super::rest_reason::RestReason;
use crate::checkpoints;
use crate::context::SessionContext;
use crate::given_secrets::{GivenSecrets, MOST_FILLED};
use crate::ops::{OpError, RunError, SessionError};
use crate::own_tmp::InTheWay;
use crate::pool::PooledShell;
use crate::sandboxes::{Confined, in_the_way};
use crate::user_path::{apart, is_directory, is_same_directory};
use crate::{notices, translate};
use shellkeep_process::shell::is_gone;
use shellkeep_process::{Namespaces, proc};
use shellkeep_session::{ByteString, Notice, Sandbox, SessionState};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;

/// The driver's name for the working directory in its list of what it could not restore.
const CWD: &str = "cwd";
/// Why a directory that exists cannot be entered in a room.
const NOT_IN_ROOM: &str = "it is not in the session's room, which has its workspace, its home and what the host shares";

/// A shell with the session's state in it.
pub(super) struct Acquired {
    pub(super) pooled: PooledShell,
    pub(super) found: Found,
}

/// What was found when a shell was acquired; the first result of that shell reports it.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// What could not be restored.
    pub(super) notices: Vec<Notice>,
    /// Why the shell is not in the session's directory, if it is not. It runs only commands with their own directory,
    /// and is dropped after the first.
    pub(super) cwd_missing: Option<String>,
}

/// Why a session did not get its shell.
enum NotAcquired {
    Refused(OpError),
    /// What the shell said, or that it ended.
    Failed(io::Error),
}

/// How many shells are tried if they end while they take over a session: whoever kills one that was prepared, such as the
/// kernel when memory is short, may kill several at once.
const TRIES: usize = 5;

impl From<OpError> for NotAcquired {
    fn from(refused: OpError) -> Self {
        Self::Refused(refused)
    }
}

/// Takes a shell and restores the session's state into it: the only way to become live, for new, restored and woken
/// sessions alike. `None` if no shell is available now.
pub(super) async fn acquire(
    ctx: &Arc<SessionContext>,
    state: &SessionState,
    given: &GivenSecrets,
) -> Result<Option<Acquired>, OpError> {
    let mut acquired = hand_over(ctx, state, given).await;
    for _ in 1..TRIES {
        // It ended before it ran anything, so another one can do the same.
        if !matches!(&acquired, Err(NotAcquired::Failed(error)) if is_gone(error)) {
            break;
        }
        acquired = hand_over(ctx, state, given).await;
    }
    acquired.map_err(|why| match why {
        NotAcquired::Refused(error) => error,
        NotAcquired::Failed(error) => OpError::Run(not_started(ctx, state, &error)),
    })
}

fn not_started(ctx: &SessionContext, state: &SessionState, error: &io::Error) -> RunError {
    let is_room = ctx.sandboxes.of(state) == Sandbox::Room;
    let in_the_way = is_room.then(|| in_the_way(&ctx.sandboxes, &state.meta)).flatten();
    let session_id = state.meta.session_id.to_string();
    match in_the_way {
        Some(InTheWay { path, outside, found }) => {
            tracing::debug!(session_id, %error, "a room could not be entered");
            let [path, outside] = [path, outside].map(|path| path.display().to_string());
            RunError::TmpBlocked { session_id, path, outside, found }
        }
        None => RunError::ShellUnavailable { reason: error.to_string() },
    }
}

async fn hand_over(
    ctx: &Arc<SessionContext>,
    state: &SessionState,
    given: &GivenSecrets,
) -> Result<Option<Acquired>, NotAcquired> {
    let sandbox = ctx.sandboxes.of(state);
    ctx.sandboxes.check(sandbox)?;
    // A service of the session may be in a room already, which has to be that of its shell too.
    let is_room = sandbox == Sandbox::Room;
    let joined = is_room.then(|| ctx.sandboxes.rooms().shared(&state.meta.session_id)).flatten();
    let prepared = joined.is_none().then_some(sandbox);
    let Some(mut pooled) = ctx.shells.take(&state.meta, prepared).await? else { return Ok(None) };
    let room = pooled.take_room();
    let confined = confine(ctx, state, joined.or_else(|| room.clone())).await?;
    let shared = confined.as_ref().and_then(|confined| confined.confinement.namespaces());
    if room.as_ref().is_some_and(|room| !shared.is_some_and(|shared| Arc::ptr_eq(room, shared))) {
        // The service has just started.
        drop(pooled);
        let Some(other) = ctx.shells.take(&state.meta, None).await? else { return Ok(None) };
        pooled = other;
    }
    pooled.shell.assign(state.meta.session_id.as_str());
    let mut facts = translate::facts(&ctx.sandboxes.placed(state));
    let unfilled = given.fill_in(&mut facts);
    let problems = pooled.restore(confined, &facts).await.map_err(NotAcquired::Failed)?;
    let mut found = Found {
        cwd_missing: problems.iter().find(|problem| problem.what == CWD).map(|problem| problem.why.clone()),
        notices: notices::not_restored(problems.iter().filter(|problem| problem.what != CWD)),
    };
    found.notices.extend(notices::secrets_not_filled(&unfilled, MOST_FILLED));
    Ok(Some(Acquired { pooled, found }))
}

/// What confines a process of a session that is about to start; none if nothing does. If no process of the session is in a
/// room yet, they will share `offered`.
pub(crate) async fn confine(
    ctx: &Arc<SessionContext>,
    state: &SessionState,
    offered: Option<Arc<Namespaces>>,
) -> Result<Option<Confined>, OpError> {
    let sandbox = ctx.sandboxes.of(state);
    let has_user = ctx.sandboxes.has_user(sandbox) || ctx.sandboxes.had_user(&state.meta);
    if sandbox.is_none() && !has_user {
        return Ok(None);
    }
    make_workspace(ctx, state)?;
    let is_own = ctx.workspaces.owns(&state.meta.workspace);
    let starts_program = sandbox == Sandbox::Room && !(offered.is_some() && ctx.sandboxes.rooms().joins_at_once());
    // To give a workspace to another user takes as long as it has files.
    if is_own && !starts_program && !has_user {
        return ctx.sandboxes.confine(&state.meta, sandbox, is_own, offered);
    }
    let (sandboxes, meta) = (Arc::clone(&ctx.sandboxes), state.meta.clone());
    let confined = apart(move || Ok(sandboxes.confine(&meta, sandbox, is_own, offered))).await;
    confined.map_err(|reason| OpError::Session(SessionError::SandboxUnavailable { sandbox, reason }))?
}

/// Why an idle shell is not used again, if it is not.
pub(super) fn outdated(ctx: &SessionContext, shell: Option<&PooledShell>, state: &SessionState) -> Option<RestReason> {
    let shell = shell?;
    if shell.sandbox() < ctx.sandboxes.of(state) {
        return Some(RestReason::Loose);
    }
    // Processes that it has left go on with what they could read.
    let is_older = || ctx.sandboxes.fence.as_ref().is_ok_and(|held| held.has_settings_after(shell.settings()));
    (state.holds_no_shell_work() && is_older()).then_some(RestReason::Settings)
}

/// Whether the commands of a session are another user's. Which directories there are is then not for us to say, who can see
/// more than that user: its shell enters them, or says why not.
fn is_users(ctx: &SessionContext, state: &SessionState) -> bool {
    ctx.sandboxes.has_user(ctx.sandboxes.of(state))
}

/// The directory for one call. A relative one starts at the session's.
pub(super) async fn resolve_cwd(
    ctx: &Arc<SessionContext>,
    state: &SessionState,
    given: &GivenSecrets,
    cwd: &ByteString,
) -> Result<Vec<u8>, OpError> {
    let path = given.directory(&state.shell.cwd).join(checkpoints::path(cwd));
    let shown = checkpoints::path(&state.shell.cwd).join(checkpoints::path(cwd)).display().to_string();
    let refused = |reason: String| OpError::Run(RunError::BadCwd { path: shown.clone(), reason });
    if !is_users(ctx, state) {
        is_directory(path.clone()).await.map_err(refused)?;
    }
    if room_lacks(ctx, state, &path).await {
        return Err(refused(NOT_IN_ROOM.to_owned()));
    }
    Ok(path.as_os_str().as_bytes().to_vec())
}

/// Whether the session's directory can be entered. A command never runs in another directory instead.
pub(super) async fn check_cwd(
    ctx: &Arc<SessionContext>,
    state: &SessionState,
    given: &GivenSecrets,
) -> Result<(), OpError> {
    make_workspace(ctx, state)?;
    if is_users(ctx, state) {
        return Ok(());
    }
    let cwd = given.directory(&state.shell.cwd);
    // Most sessions are at the top of a workspace in the data directory, whose disk answers.
    let is_own = ctx.workspaces.owns(&state.meta.workspace) && cwd == state.meta.workspace.as_path();
    if is_own && fs::symlink_metadata(&cwd).is_ok_and(|found| found.is_dir()) {
        return Ok(());
    }
    let entered = is_directory(cwd).await;
    entered.map_err(|reason| cwd_gone(state, &reason))
}

/// Whether an idle shell is in the session's directory; `false` if another directory has taken that one's place. Bash
/// goes on in a directory that was removed or moved, where its files would be lost or end up elsewhere.
pub(super) async fn is_in_place(
    ctx: &SessionContext,
    shell: Option<&PooledShell>,
    state: &SessionState,
    given: &GivenSecrets,
) -> Result<bool, OpError> {
    let Some(pooled) = shell else { return Ok(true) };
    let path = given.directory(&state.shell.cwd);
    let link = proc::directory(pooled.shell.pid());
    match fs::read_link(&link) {
        Ok(directory) if directory != path => {}
        // The same name is the same directory. Of a shell that has exited, the command itself will tell.
        _ => return Ok(true),
    }
    match is_same_directory(path, link).await {
        Err(_) if is_users(ctx, state) => Ok(false),
        compared => compared.map_err(|reason| cwd_gone(state, &reason)),
    }
}

/// Whether a session is in a room that does not have this directory.
async fn room_lacks(ctx: &Arc<SessionContext>, state: &SessionState, directory: &Path) -> bool {
    let sandbox = ctx.sandboxes.of(state);
    if sandbox != Sandbox::Room {
        return false;
    }
    let (id, workspace) = (state.meta.session_id.clone(), state.meta.workspace.as_path().to_owned());
    let (sandboxes, directory) = (Arc::clone(&ctx.sandboxes), directory.to_owned());
    let has = apart(move || Ok(sandboxes.has_directory(&id, sandbox, &workspace, &directory))).await;
    has == Ok(false)
}

/// A shell that was just started is not in the session's directory, for this reason.
pub(super) async fn not_entered(
    ctx: &Arc<SessionContext>,
    state: &SessionState,
    given: &GivenSecrets,
    reason: &str,
) -> OpError {
    let is_outside = room_lacks(ctx, state, &given.directory(&state.shell.cwd)).await;
    cwd_gone(state, if is_outside { NOT_IN_ROOM } else { reason })
}

/// The session's directory cannot be entered.
fn cwd_gone(state: &SessionState, reason: &str) -> OpError {
    OpError::Run(RunError::CwdGone {
        session_id: state.meta.session_id.to_string(),
        path: state.shell.cwd.to_text().into_owned(),
        reason: reason.to_owned(),
    })
}

/// Creates our own workspace before its session's first shell. One that is missing later was removed or lost: an empty
/// one in its place would look as if all files had been deleted.
pub(super) fn make_workspace(ctx: &SessionContext, state: &SessionState) -> Result<(), OpError> {
    if state.generation > 0 {
        return Ok(());
    }
    let workspace = &state.meta.workspace;
    ctx.workspaces.ensure(workspace).map_err(|error| {
        OpError::Run(RunError::ShellUnavailable { reason: format!("{}: {error}", workspace.to_text()) })
    })
}
