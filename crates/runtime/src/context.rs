//! What a session's task works with: handles to everything outside of its own state. They know neither the engine nor
//! the tasks that use them.

use crate::admission::Admission;
use crate::checkpoints::Checkpoints;
use crate::cluster::{Cluster, SharedFiles};
use crate::counts::Counts;
use crate::data_dir::DataDir;
use crate::disk::Disk;
use crate::history::History;
use crate::kept::KeptFiles;
use crate::lifetime::Lifetime;
use crate::live_runs::LiveRuns;
use crate::masking::Masking;
use crate::names::Names;
use crate::notices;
use crate::ops::{ClusterError, OpError};
use crate::pool::Pool;
use crate::quotas::NodeQuotas;
use crate::registry::Registry;
use crate::remover::Remover;
use crate::sandboxes::Sandboxes;
use crate::secret_sources::SecretSources;
use crate::secrets::Secrets;
use crate::services::{Services, Supervision};
use crate::shells::Shells;
use crate::tasks;
use crate::thinning::Thinning;
use shellkeep_process::Deadline;
use shellkeep_session::{Content, Event, Notice, Output, Record, SessionId, SessionState};
use shellkeep_shared::UsedByAgent;
use shellkeep_store::{AppendError, Durability, Store};
use shellkeep_workspace::Workspaces;
use std::fs::File;
use std::sync::Arc;

/// What a session's task works with.
pub struct SessionContext {
    /// Where records are kept.
    pub(crate) store: Store,
    /// The other nodes, if there are some.
    pub(crate) cluster: Option<Arc<Cluster>>,
    /// Where files are kept.
    pub(crate) data_dir: Arc<DataDir>,
    /// The sessions' own directories.
    pub(crate) workspaces: Workspaces,
    /// How checkpoints of them are kept.
    pub(crate) checkpoints: Arc<Checkpoints>,
    /// Which sessions have new checkpoints.
    pub(crate) thinning: Arc<Thinning>,
    /// The shells of the node.
    pub(crate) pool: Arc<Pool>,
    /// Where a session gets its shell.
    pub(crate) shells: Shells,
    /// Which command may run now.
    pub(crate) admission: Arc<Admission>,
    /// How sessions are confined.
    pub(crate) sandboxes: Arc<Sandboxes>,
    /// Limits.
    pub(crate) quotas: Arc<NodeQuotas>,
    /// The disk usage of sessions.
    pub(crate) disk: Arc<Disk>,
    /// The services that run.
    pub(crate) services: Arc<Services>,
    /// Starts the tasks of services.
    pub(crate) supervision: Arc<Supervision>,
    /// Masks what is stored, if the host configured that.
    pub(crate) masking: Arc<Masking>,
    /// Secrets found in recordings.
    pub(crate) secrets: Arc<Secrets>,
    /// The secrets that sessions are given.
    pub(crate) secret_sources: Arc<SecretSources>,
    /// How many records of each kind were written.
    pub(crate) counts: Counts,
    /// The runs that have not ended.
    pub(crate) runs: Arc<LiveRuns>,
    /// Earlier states of sessions.
    pub(crate) history: Arc<History>,
    /// The files that records name.
    pub(crate) kept_files: KeptFiles,
    /// Removes sessions.
    pub(crate) remover: Remover,
    /// The names of all sessions.
    pub(crate) names: Arc<Names>,
    /// The mailboxes of sessions.
    pub(crate) registry: Arc<Registry>,
    /// Whether the daemon is stopping, and its clock.
    pub(crate) lifetime: Arc<Lifetime>,
    /// Which boot of the machine this is.
    pub(crate) boot_id: Arc<str>,
}

impl SessionContext {
    /// What must survive of what is answered.
    pub(crate) fn durability(&self) -> Durability {
        if self.store.survives_power() { Durability::Power } else { Durability::Process }
    }

    /// Keeps one record, here and where nodes share a store.
    pub(crate) fn append(&self, record: &Record) -> Result<(), AppendError> {
        let appended = self.store.append(record);
        if let (Some(cluster), Ok(()) | Err(AppendError::Retrying { .. })) = (&self.cluster, &appended) {
            cluster.offer(record);
        }
        appended
    }

    /// What an agent has on all nodes together; `None` if there is one node, or the shared store is unreachable.
    pub(crate) async fn used_by(&self, agent: &str) -> Option<UsedByAgent> {
        self.cluster.as_ref()?.agents().used_by(agent).await
    }

    /// Whether this node is drained: it takes no more sessions.
    pub(crate) fn is_draining(&self) -> bool {
        self.cluster.as_ref().is_some_and(|cluster| cluster.members().is_draining())
    }

    /// An error if this node is drained: the session's next node is to do what was asked for.
    pub(crate) fn check_staying(&self, id: &SessionId) -> Result<(), OpError> {
        if self.is_draining() { Err(self.leaving(id)) } else { Ok(()) }
    }

    /// Another node is to do what was asked for.
    pub(crate) fn leaving(&self, id: &SessionId) -> OpError {
        let node = self.cluster.as_ref().map_or_else(String::new, |cluster| cluster.members().own().name);
        ClusterError::Leaving { session_id: id.to_string(), node }.into()
    }

    /// A session's checkpoints changed: they are copied to where other nodes can read them, if there is such a place.
    pub(crate) fn share_files(&self, state: &SessionState) {
        if let Some(files) = self.shared_files() {
            files.offer(state);
        }
    }

    /// What nodes share of sessions' files, if there is a place for it.
    pub(crate) fn shared_files(&self) -> Option<&Arc<SharedFiles>> {
        self.cluster.as_ref()?.files()
    }

    /// A record was kept: the files that it names are copied to where other nodes can read them.
    pub(crate) fn attach(&self, state: &SessionState, record: &Record) {
        let Some(files) = self.shared_files() else { return };
        let outputs = self.data_dir.outputs(&state.meta.session_id);
        let named = attached(&record.event).into_iter().map(|(name, hash)| (outputs.join(name), hash));
        files.attach(state, named.collect());
    }

    /// The node on which a record was made, if the session moved here since.
    pub(crate) async fn made_on(&self, id: &SessionId, seq: Option<u64>) -> Option<String> {
        self.cluster.as_ref()?;
        let state = self.registry.snapshot(id).await.ok()?;
        state.claims.elsewhere(seq?).map(str::to_owned)
    }

    /// Waits until everything of a session up to a record is as safe as the host asked for. Returns what to say if it is
    /// not; an error if the session is another node's, and the record is not part of it.
    pub(crate) async fn settle(&self, id: &SessionId, seq: u64) -> Result<Option<Notice>, OpError> {
        let on_disk = self.sync().await;
        match &self.cluster {
            Some(cluster) => Ok(cluster.settle(id, seq).await?.or(on_disk)),
            None => Ok(on_disk),
        }
    }

    /// Until when something may begin in a session of this node; forever if no other node can take it.
    pub(crate) fn serves_until(&self, id: &SessionId) -> Option<Deadline> {
        self.cluster.as_ref()?.members().serves_until(id)
    }

    /// Waits for the disk, if the host configured that. Returns a notice if the disk failed.
    pub(crate) async fn sync(&self) -> Option<Notice> {
        let error = self.store.sync().await.err()?;
        tracing::warn!(%error, "the journal is not on disk yet");
        Some(notices::not_on_disk(&error.reason))
    }

    /// Waits until files are on disk, if the host configured that: the record that names them follows.
    pub(crate) async fn sync_files(&self, files: Vec<File>) {
        if files.is_empty() || !self.store.survives_power() {
            return;
        }
        let synced = tasks::blocking(move || files.iter().try_for_each(File::sync_data)).await;
        if let Ok(Err(error)) = synced {
            tracing::warn!(%error, "an output is not on disk yet");
        }
    }
}

/// The files that a record names and that are written by then, each with its hash.
fn attached(event: &Event) -> Vec<(String, String)> {
    match event {
        Event::RunFinished { run_id, result, .. } => {
            let streams = [("stdout", &result.stdout), ("stderr", &result.stderr)];
            let named = |(name, output): (&str, &Output)| Some((format!("{run_id}.{name}"), output.hash.clone()?));
            streams.into_iter().filter_map(named).collect()
        }
        Event::AgentStateSaved { state, .. } => match &state.content {
            Content::File { name, hash: Some(hash), .. } => vec![(name.clone(), hash.clone())],
            Content::File { hash: None, .. } | Content::Inline(_) => Vec::new(),
        },
        _ => Vec::new(),
    }
}
