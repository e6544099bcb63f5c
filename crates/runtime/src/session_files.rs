//! The files of sessions and their checkpoints, as seen from outside of the session: asking the session's task to work
//! with them, and reading the repository that keeps them.

use crate::actor::{FilesTask, Message, all_open, is_open};
use crate::checkpoints::Checkpoints;
use crate::history::History;
use crate::lifetime::Lifetime;
use crate::names::Names;
use crate::ops::{CheckpointError, Gone, OpError};
use crate::registry::Registry;
use crate::tasks;
use crate::thinning::Thinning;
use crate::work::Work;
use shellkeep_record::Budget;
use shellkeep_session::SessionId;
use shellkeep_workspace::repo::{Repo, RepoError};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

/// How long a reader waits for the last command's checkpoint.
const PATIENCE: Duration = Duration::from_secs(10);
/// How many sessions are pruned in one round; the others follow in the next.
const AT_ONCE: usize = 8;
/// A session that was used more recently is skipped: its next command would wait.
const IDLE: Duration = Duration::from_secs(30);
/// Rounds after which a session is pruned even if it is never idle.
const MOST_ROUNDS: u32 = 10;

/// The files of all sessions.
pub(crate) struct SessionFiles {
    pub(crate) registry: Arc<Registry>,
    pub(crate) checkpoints: Arc<Checkpoints>,
    pub(crate) history: Arc<History>,
    pub(crate) thinning: Arc<Thinning>,
    pub(crate) work: Arc<Work>,
    pub(crate) names: Arc<Names>,
    pub(crate) lifetime: Arc<Lifetime>,
}

impl SessionFiles {
    /// Has a session's task do something with its files.
    pub(crate) async fn ask<T>(
        &self,
        id: &SessionId,
        task: impl FnOnce(oneshot::Sender<Result<T, OpError>>) -> FilesTask,
    ) -> Result<T, OpError> {
        self.registry.ask(id, |answer| Message::Files(Box::new(task(answer)))).await
    }

    /// Waits briefly until the files of the last command are saved, so that a caller finds them after its answer. Not
    /// for the session's own task.
    pub(crate) async fn settled(&self, id: &SessionId) {
        if self.checkpoints.config.on && !self.registry.is_awake(id) && is_open(&self.checkpoints.home(id)) {
            let _ = tokio::time::timeout(PATIENCE, self.ask(id, FilesTask::PayOwed)).await;
        }
        let _ = tokio::time::timeout(PATIENCE, self.registry.ask_awake(id, Message::FilesKept)).await;
    }

    /// Takes the checkpoints that a dead daemon owed, one session after the other.
    pub(crate) async fn keep_owed(&self) {
        if !self.checkpoints.config.on {
            return;
        }
        let home = self.checkpoints.all().to_owned();
        let open = tasks::blocking(move || all_open(&home)).await.unwrap_or_default();
        for id in open {
            if self.lifetime.is_stopping() {
                return;
            }
            if let Err(error) = self.ask(&id, FilesTask::PayOwed).await {
                tracing::warn!(session = %id, %error, "files could not be looked at after the last daemon died");
            }
        }
    }

    /// Reads a session's repository on a blocking thread. It may be compacted at the same time, so a reader that finds
    /// something missing retries once.
    pub(crate) async fn with_repo<T: Send + 'static>(
        &self,
        id: &SessionId,
        look: impl FnOnce(Option<&Repo>) -> Result<T, RepoError> + Send + 'static,
    ) -> Result<T, OpError> {
        let (directory, faults) = (self.checkpoints.repository(id), Arc::clone(self.checkpoints.faults()));
        let looking = move |_: &Budget| look(Repo::open(&directory, &faults)?.as_ref());
        let looking = self.work.long(self.names.agent_of(id).as_deref(), looking).await?;
        let failed = |error: &RepoError| {
            OpError::Checkpoint(CheckpointError::Failed {
                session_id: id.to_string(),
                what: "cannot be read from the checkpoint",
                reason: crate::FilesReason::from(error as &dyn std::error::Error),
                state: "nothing was changed",
            })
        };
        match looking {
            Err(RepoError::Missing { id: commit }) => Err(self.missing(id, &commit.to_string()).await),
            other => other.map_err(|error| failed(&error)),
        }
    }

    /// A checkpoint is not there, by its name if it is known.
    async fn missing(&self, id: &SessionId, commit: &str) -> OpError {
        let all = self.history.checkpoints_after(id, 0, usize::MAX).await.unwrap_or_default();
        let found = all.into_iter().find(|view| view.checkpoint.at.commit == commit);
        let state = self.registry.snapshot(id).await.ok();
        let gone = state.zip(found.as_ref()).map_or(Gone::Pruned, |(state, view)| Gone::of(&state, view.seq));
        let checkpoint = found.map_or_else(|| commit.to_owned(), |view| view.checkpoint.at.name);
        CheckpointError::NotFound { session_id: id.to_string(), checkpoint, gone: Some(gone) }.into()
    }

    /// Prunes old checkpoints of idle sessions with new ones.
    pub(crate) async fn thin_some(&self) {
        if !self.checkpoints.config.on {
            return;
        }
        let (all, mut thinned) = (self.checkpoints.config.keep_all, 0);
        for (id, growth) in self.thinning.grown() {
            if thinned >= AT_ONCE || self.lifetime.is_stopping() {
                return;
            }
            if self.registry.idle_for(&id).is_some_and(|idle| idle < IDLE) && growth.waited < MOST_ROUNDS {
                self.thinning.waits(&id);
                continue;
            }
            let Ok(count) = self.count(&id).await else { continue };
            // A quarter more than what may stay is worth the work.
            if count <= all.max(growth.left) + (all / 4).max(1) {
                self.thinning.looked_at(&id, growth.left);
                continue;
            }
            thinned += 1;
            match self.ask(&id, FilesTask::Thin).await {
                Ok(bytes) => {
                    let left = self.count(&id).await.unwrap_or(count);
                    self.thinning.looked_at(&id, left);
                    tracing::info!(session = %id, checkpoints = count - left.min(count), bytes, "old checkpoints were removed");
                }
                Err(error) => {
                    self.thinning.looked_at(&id, count);
                    tracing::warn!(session = %id, %error, "old checkpoints could not be removed");
                }
            }
        }
    }

    /// How many checkpoints a session has.
    async fn count(&self, id: &SessionId) -> Result<usize, OpError> {
        self.with_repo(id, |repo| Ok(repo.map(Repo::tags).transpose()?.map_or(0, |tags| tags.len()))).await
    }
}
