//! Creates sessions or finds existing ones by name, and decides which agent owns them.

use super::access::{Access, only_its_own};
use super::copies;
use super::handle::Engine;
use super::parts::Parts;
use crate::cluster::{ClaimedName, Creation};
use crate::identities::{Scope, bound};
use crate::names::{Added, not_found};
use crate::ops::{BoxFuture, ClusterError, CreateSession, Created, OpError, SessionError, SessionView};
use crate::stored::asleep;
use crate::user_path::{apart, is_directory, real_directory};
use crate::{recover, validate};
use shellkeep_session::relocate::plain;
use shellkeep_session::{
    ByteString, Event, Record, Sandbox, SessionId, SessionMeta, SessionState, ShellState, Timestamp,
};
use shellkeep_store::{AppendError, deleted};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How long a creation waits for the deletion of the session that had its name, and how long between two looks.
const DELETION: Duration = Duration::from_secs(5);
const DELETION_PAUSE: Duration = Duration::from_millis(20);

/// Why an agent's session cannot start in a directory. The daemon sees more than the agent, so that is all it says.
const NOT_FOR_IT: &str = "this session cannot start there: the directory does not exist, cannot be entered, or belongs to the \
    daemon or to another agent";

impl Engine {
    /// Creates a session, or finds the one with that name. An agent's session belongs to it, whatever the request says.
    pub fn create(&self, mut request: CreateSession) -> BoxFuture<'_, Result<Created, OpError>> {
        Box::pin(async move {
            let parts = self.access.at_large();
            parts.ctx.lifetime.check_running()?;
            if let Scope::Agent { agent, .. } = self.access.scope() {
                request.agent = Some(agent.clone());
                if request.config.get("workspace").is_some_and(serde_json::Value::is_string) {
                    let detail = "permission denied: config.workspace needs the host token; without it the session gets its own \
                            workspace";
                    return Err(OpError::NotAllowed { detail: detail.to_owned() });
                }
                if !request.secrets.is_empty() {
                    let detail = "permission denied: only the host gives secrets to a session";
                    return Err(OpError::NotAllowed { detail: detail.to_owned() });
                }
            }
            let id = name_for(&self.access, request.session_id.as_ref())?;
            let deadline = Instant::now() + DELETION;
            loop {
                if let Some(created) = attempt(self, &id, request.clone()).await? {
                    return of_user(created, request.user_id.as_deref());
                }
                if Instant::now() >= deadline {
                    let reason = format!("session '{id}' is still being deleted");
                    return Err(OpError::StoreUnavailable { reason });
                }
                tokio::time::sleep(DELETION_PAUSE).await;
            }
        })
    }
}

/// Creates a session, or finds the one with that name. `None` if that is being deleted.
async fn attempt(engine: &Engine, id: &SessionId, request: CreateSession) -> Result<Option<Created>, OpError> {
    let (access, parts) = (&engine.access, engine.access.at_large());
    if parts.ctx.names.contains(id) && !copies::is_stale(parts, id).await {
        return existing(engine, id).await;
    }
    if parts.ctx.names.is_forking(id) {
        return Err(exists(id));
    }
    if parts.ctx.cluster.is_none() {
        access.check_sessions().await?;
    }
    let mut most = access.most_sessions();
    let owner: Option<Arc<str>> = request.agent.as_deref().map(Arc::from);
    let (meta, shell) = first_state(parts, id, request, access.scope()).await?;
    let claimed = match &parts.ctx.cluster {
        None => None,
        Some(cluster) => match cluster.create(id, meta.agent.as_deref(), most).await? {
            Creation::Mine { name, is_counted } => {
                // This node may have copies of sessions that others removed.
                most = if is_counted { u64::MAX } else { most };
                Some(name)
            }
            Creation::Full { used } => return Err(access.too_many_sessions(used)),
            Creation::Exists(state) => return found(access, *state).map(Some),
            Creation::Busy { node } => {
                return Err(ClusterError::BeingMade { session_id: id.to_string(), node }.into());
            }
        },
    };
    let view = new_view(&meta, &shell);
    let event = Event::SessionCreated { meta: Box::new(meta), shell: Box::new(shell) };
    let record = Record { session_id: id.clone(), seq: 1, at: view.meta.created_at, event };
    let add = || parts.ctx.names.add_new(id, owner.clone(), most, || keep(parts, &record));
    match copies::replace(parts, id, add).await? {
        Added::New => parts.ctx.counts.event(&record.event),
        Added::Forking => return Err(exists(id)),
        Added::Known => {
            // The session that there is may have to be claimed.
            drop(claimed);
            return existing(engine, id).await;
        }
        Added::Full(used) => return Err(access.too_many_sessions(used)),
    }
    access.audit("create", id.as_str());
    if let Err(error) = parts.ctx.workspaces.ensure(&view.meta.workspace) {
        // The session is recorded, and its first command tries again and reports the failure.
        tracing::warn!(session = %id, %error, "a new session's workspace could not be created");
    }
    Ok(Some(Created::New(settled(parts, view, claimed).await?)))
}

/// The session with a name that this node knows. `None` if it is being deleted: its name is known for longer than the session.
async fn existing(engine: &Engine, id: &SessionId) -> Result<Option<Created>, OpError> {
    match engine.get(id).await {
        Ok(view) => Ok(Some(Created::Existing(view))),
        Err(_) if !engine.access.at_large().ctx.names.contains(id) => Ok(None),
        Err(OpError::Session(SessionError::NotFound { .. })) if engine.access.over(id).is_ok() => Ok(None),
        Err(error) => Err(not_yours(error, id)),
    }
}

/// Stores a new session.
fn keep(parts: &Parts, record: &Record) -> Result<(), OpError> {
    match parts.ctx.append(record) {
        Ok(()) => {}
        Err(error @ AppendError::Retrying { .. }) => {
            tracing::warn!(%error, "a new session could not be stored yet");
        }
        // A session that is not stored could not be found again.
        Err(error) => return Err(OpError::not_stored(&error)),
    }
    parts.stored.created(record);
    Ok(())
}

/// A new session as callers see it.
fn new_view(meta: &SessionMeta, shell: &ShellState) -> SessionView {
    SessionView {
        meta: meta.clone(),
        last_active_at: meta.created_at,
        cwd: shell.cwd.clone(),
        live: false,
        shell_pid: None,
        generation: 0,
        seq: 1,
        deleted: None,
        hold: None,
        sandbox: Some(meta.sandbox),
    }
}

/// A new session once it is kept, and shared where nodes share a store.
async fn settled(parts: &Parts, view: SessionView, claimed: Option<ClaimedName>) -> Result<SessionView, OpError> {
    let id = &view.meta.session_id;
    let Some(claimed) = claimed else {
        parts.ctx.settle(id, view.seq).await?;
        return Ok(view);
    };
    let (seq, claim) = (view.seq + 1, claimed.claim().clone());
    let record = Record { session_id: id.clone(), seq, at: Timestamp::now(), event: claimed.keep() };
    let kept = match parts.ctx.append(&record) {
        // It is written as soon as the disk takes it, after the first record, which may be waiting too.
        Ok(()) | Err(AppendError::Retrying { .. }) => parts.ctx.settle(id, seq).await.map(drop),
        Err(error) => Err(OpError::not_stored(&error)),
    };
    // Whatever came of it, there is a session that sleeps.
    parts.ctx.registry.left_asleep(id, Some(&claim)).await;
    kept.map(|()| SessionView { seq, ..view })
}

/// The name is a fork's.
pub(super) fn exists(id: &SessionId) -> OpError {
    SessionError::Exists { session_id: id.to_string() }.into()
}

/// A session that another node has.
fn found(access: &Access, state: SessionState) -> Result<Created, OpError> {
    let id = state.meta.session_id.clone();
    match access.scope().agent() {
        Some(agent) if state.meta.agent.as_deref() != Some(agent) => Err(not_yours(not_found(&id), &id)),
        _ => Ok(Created::Existing(asleep(state, &access.at_large().ctx.sandboxes))),
    }
}

/// What was found, unless it was named for another user: the names of a user and of a session are joined to one, in
/// which one cannot see where the first ends. Sessions of before that was kept have any user.
fn of_user(created: Created, user_id: Option<&str>) -> Result<Created, OpError> {
    let (Created::New(SessionView { meta, .. }) | Created::Existing(SessionView { meta, .. })) = &created;
    match (&meta.user_id, user_id) {
        (Some(own), Some(user_id)) if own != user_id => {
            Err(SessionError::OfOtherUser { session_id: meta.session_id.to_string(), user_id: user_id.to_owned() }
                .into())
        }
        _ => Ok(created),
    }
}

/// The name of a session that is to be created or found.
pub(super) fn name_for(access: &Access, given: Option<&SessionId>) -> Result<SessionId, OpError> {
    if let Some(own) = access.scope().only_session().filter(|own| Some(*own) != given) {
        return Err(only_its_own(own));
    }
    let Some(given) = given else { return Ok(validate::new_id()) };
    if let Ok(own) = access.over(given) {
        return Ok(own.id.into_owned());
    }
    if deleted::is_name(given) {
        let detail = "session_id: names that end in .deleted.NUMBER are reserved for deleted sessions; choose another";
        return Err(OpError::Invalid { detail: detail.to_owned() });
    }
    let Scope::Agent { agent, .. } = access.scope() else { return Ok(given.clone()) };
    bound(agent, given).ok_or_else(|| OpError::Invalid {
        detail: format!("session_id: 'thread_{agent}_{given}' is longer than an id may be; choose a shorter one"),
    })
}

/// What a new session starts with.
async fn first_state(
    parts: &Parts,
    id: &SessionId,
    request: CreateSession,
    scope: &Scope,
) -> Result<(SessionMeta, ShellState), OpError> {
    validate::create(&request)?;
    let sandbox = parts.ctx.sandboxes.least_of(request.agent.as_deref()).max(request.sandbox);
    parts.ctx.sandboxes.check(sandbox)?;
    let is_missing = |name: &&String| !parts.ctx.secret_sources.can_give(name, request.agent.as_deref());
    if let Some(name) = request.secrets.iter().find(is_missing) {
        let detail = format!("secrets: '{name}' is not in the daemon's settings; add it to `secrets` there");
        return Err(OpError::Invalid { detail });
    }
    let workspace = validate::workspace(&request.config, parts.ctx.data_dir.root()).await?;
    let workspace = workspace.unwrap_or_else(|| parts.ctx.workspaces.of(id));
    let cwd = match request.cwd {
        // As the shell would name it: what is below another directory begins with its name.
        Some(cwd) => in_sandbox(parts, (id, sandbox, &workspace), plain(&cwd), scope).await?,
        None => workspace.clone(),
    };
    let shell = recover::first_shell(&parts.environment, request.env, &cwd);
    let meta = SessionMeta {
        session_id: id.clone(),
        agent: request.agent,
        agent_config: request.config,
        created_at: Timestamp::now(),
        user_id: request.user_id,
        workspace,
        by: scope.token().map(str::to_owned),
        forked_from: None,
        sandbox,
        secrets: request.secrets,
    };
    Ok((meta, shell))
}

/// The directory that a caller wants a new session to start in, if it exists and its sandbox has it. Of a session of another
/// user its shell says so: we can see more than that user.
async fn in_sandbox(
    parts: &Parts,
    (id, sandbox, workspace): (&SessionId, Sandbox, &ByteString),
    cwd: ByteString,
    scope: &Scope,
) -> Result<ByteString, OpError> {
    let (sandboxes, own) = (Arc::clone(&parts.ctx.sandboxes), id.clone());
    if sandboxes.has_user(sandbox) {
        return Ok(cwd);
    }
    let (workspace, directory) = (workspace.as_path().to_owned(), cwd.as_path().to_owned());
    let path = || cwd.to_text().into_owned();
    let refused = |reason: String| OpError::Session(SessionError::BadCwd { path: path(), reason });
    let entered = match scope.agent() {
        Some(agent) => is_for(parts, agent, id, directory.clone()).await,
        None => is_directory(directory.clone()).await,
    };
    entered.map_err(refused)?;
    let has = apart(move || Ok(sandboxes.has_directory(&own, sandbox, &workspace, &directory))).await;
    if has.map_err(refused)? { Ok(cwd) } else { Err(OpError::Session(SessionError::CwdNotInRoom { path: path() })) }
}

/// Whether there is a directory in which an agent's session may start. Of the data directory it is told nothing: whether
/// somebody has a session of some name could be asked that way.
async fn is_for(parts: &Parts, agent: &str, id: &SessionId, directory: PathBuf) -> Result<(), String> {
    let refused = || NOT_FOR_IT.to_owned();
    let data_dir = parts.ctx.data_dir.root();
    let real = real_directory(directory).await.map_err(|_| refused())?;
    let data_dir = real_directory(data_dir.to_owned()).await.unwrap_or_else(|_| data_dir.to_owned());
    let Ok(inside) = real.strip_prefix(&data_dir) else { return Ok(()) };
    let below = inside.strip_prefix("workspaces").map_err(|_| refused())?;
    let name = below.iter().next().and_then(|name| name.to_str());
    let of = name.and_then(|name| SessionId::parse(name).ok());
    let is_own = of.is_some_and(|of| of == *id || parts.ctx.names.are_of(agent, [Some(&of), None])[0]);
    if is_own { Ok(()) } else { Err(refused()) }
}

/// An agent's name for a session is taken by one that does not belong to the agent.
fn not_yours(error: OpError, id: &SessionId) -> OpError {
    match error {
        OpError::Session(SessionError::NotFound { .. }) => OpError::NotAllowed {
            detail: format!("the name '{id}' cannot be used by this agent; choose another session_id, or ask the host"),
        },
        other => other,
    }
}
