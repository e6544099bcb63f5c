//! Rewind, fork and merge: what is done outside the session's actor.

use super::FileOps;
use crate::actor::{FilesTask, ForkOrder, MergeOrder, is_outside, refuse_others};
use crate::checkpoints::commit_of;
use crate::cluster::Creation;
use crate::engine::access::{Access, Permitted};
use crate::engine::copies;
use crate::engine::create::{exists, name_for};
use crate::engine::node::NodeOps;
use crate::engine::parts::Parts;
use crate::engine::services;
use crate::notices;
use crate::ops::*;
use shellkeep_session::{Cause, Origin, ServiceId, SessionId};
use std::time::Duration;

/// The time between SIGTERM and SIGKILL when a rewind stops a service.
const STOP_GRACE: Duration = Duration::from_secs(5);

impl FileOps<'_> {
    /// Rewinds a session to an earlier moment: files, shell and agent's state.
    pub fn rewind<'a>(&'a self, id: &'a SessionId, request: Rewind) -> BoxFuture<'a, Result<Rewound, OpError>> {
        Box::pin(async move {
            let Permitted { parts, id } = self.access.over(id)?;
            self.access.audit("rewind", id.as_str());
            let by = self.access.scope().token().map(str::to_owned);
            let services: Vec<ServiceId> = match request.services {
                ServicesAfter::Leave => Vec::new(),
                ServicesAfter::Stop => parts
                    .ctx
                    .services
                    .list(|seen| seen.session_id == *id)
                    .iter()
                    .map(|seen| seen.service_id.clone())
                    .collect(),
            };
            if !request.dry_run && !services.is_empty() {
                // Services are not stopped for a rewind that cannot be done.
                let trial = Rewind { dry_run: true, ..request.clone() };
                let token = by.clone();
                let tried =
                    parts.files.ask(&id, |answer| FilesTask::Rewind { request: trial, by: token, answer }).await?;
                if !request.force {
                    refuse_others(&tried.of_others)?;
                }
                for service_id in &services {
                    services::stop(self.access, &id, service_id.as_str(), STOP_GRACE).await?;
                }
            }
            let mut rewound = parts.files.ask(&id, |answer| FilesTask::Rewind { request, by, answer }).await?;
            rewound.services_stopped = services;
            Ok(rewound)
        })
    }

    /// Creates a session from an earlier moment of another.
    pub fn fork<'a>(&'a self, id: &'a SessionId, request: Fork) -> BoxFuture<'a, Result<Forked, OpError>> {
        Box::pin(async move {
            let new = name_for(self.access, request.session_id.as_ref())?;
            let Permitted { parts, id } = self.access.over(id)?;
            self.access.check_sessions().await?;
            let agent = parts.ctx.names.agent_of(&id);
            let copied = parts.ctx.disk.check_copy(&id, agent.as_deref())?;
            self.access.audit("fork", id.as_str());
            if parts.ctx.names.contains(&new) {
                // It may be that of a session that another node removed. One that is awake is not waited for.
                copies::is_stale(parts, &new).await;
            }
            if parts.ctx.names.contains(&new) || parts.ctx.names.is_forking(&new) {
                return Err(exists(&new));
            }
            let (claimed, is_alone) = match &parts.ctx.cluster {
                None => (None, false),
                Some(cluster) => match cluster.create(&new, agent.as_deref(), self.access.most_sessions()).await? {
                    Creation::Mine { name, is_counted } => (Some(name), !is_counted),
                    Creation::Full { used } => return Err(self.access.too_many_sessions(used)),
                    Creation::Exists(_) | Creation::Busy { .. } => return Err(exists(&new)),
                },
            };
            let reserved = copies::replace(parts, &new, || Ok(parts.ctx.names.reserve(&new))).await?;
            let _reserved = reserved.ok_or_else(|| exists(&new))?;
            let by = self.access.scope().token().map(str::to_owned);
            let Fork { at, user_id, share_files, .. } = request;
            let order = Box::new(ForkOrder { id: new.clone(), user_id, at, by, share_files, claimed });
            let forked = parts.files.ask(&id, |answer| FilesTask::Fork { order, answer }).await;
            if forked.is_err() && is_alone {
                not_made(parts, &new).await;
            }
            let forked = forked?;
            parts.ctx.disk.wrote(&new, agent, copied);
            Ok(forked)
        })
    }

    /// Merges a fork's file changes back into the session it was forked from.
    pub fn merge_back<'a>(&'a self, fork: &'a SessionId, request: MergeBack) -> BoxFuture<'a, Result<Merged, OpError>> {
        Box::pin(async move {
            let Permitted { parts, id: fork } = self.access.over(fork)?;
            self.access.audit("merge_back", fork.as_str());
            let state = parts.ctx.registry.snapshot(&fork).await?;
            let no_origin = |detail: String| OpError::Checkpoint(CheckpointError::NoOrigin { detail });
            let Some(Origin { session_id, .. }) = state.meta.forked_from else {
                return Err(no_origin(format!("session '{fork}' is not a fork, so there is nothing to merge into")));
            };
            come_here(self.access, &session_id, &fork).await?;
            let gone = no_origin(format!("session '{session_id}', which '{fork}' was forked from, is gone"));
            let Ok(Permitted { id: origin, .. }) = self.access.over_stored(&session_id) else { return Err(gone) };
            let first = parts.ctx.history.checkpoints_after(&fork, 0, 1).await?.pop();
            let base = first.filter(|first| first.checkpoint.cause == Cause::Fork);
            let base = base.and_then(|base| commit_of(&base.checkpoint.at));
            let theirs = parts.files.ask(&fork, FilesTask::Now).await?;
            let fork = fork.into_owned();
            let outside = is_outside(&state.shell.cwd, &state.meta.workspace)
                .then(|| notices::not_compared(&fork, &state.shell.cwd.to_text(), &state.meta.workspace.to_text()));
            let order = MergeOrder { fork, request, base, theirs };
            match parts.files.ask(&origin, |answer| FilesTask::Merge { order, answer }).await {
                Ok(mut merged) => {
                    merged.notices.splice(0..0, outside);
                    Ok(merged)
                }
                // This node had known it, and another removed it.
                Err(OpError::Session(SessionError::NotFound { .. })) => Err(gone),
                refused => refused,
            }
        })
    }
}

/// A fork whose name was used while the shared store was away was not made.
async fn not_made(parts: &Parts, id: &SessionId) {
    if let Some(cluster) = parts.ctx.cluster.as_ref().filter(|_| !parts.ctx.names.contains(id)) {
        cluster.diverged().made_alone().forget(id).await;
    }
}

/// Takes the origin of a fork if no node has it. An error if another node has it: a merge needs the files of both.
async fn come_here(access: &Access, origin: &SessionId, fork: &SessionId) -> Result<(), OpError> {
    let Some(cluster) = (NodeOps { access }).cluster() else { return Ok(()) };
    match cluster.locate(origin).await? {
        Whereabouts::Here => Ok(()),
        Whereabouts::There(node) => Err(ClusterError::OriginElsewhere {
            fork: fork.to_string(),
            origin: origin.to_string(),
            node: node.name,
            here: cluster.own().name,
        }
        .into()),
    }
}
