//! What the files of the filesystem store hold.

use crate::backend::Mark;
use serde::{Deserialize, Serialize};
use shellkeep_session::skip::{is_false, is_zero};
use shellkeep_session::{
    ActiveRun, AgentState, ByteString, Claims, FORMAT_VERSION, FilesAt, KvState, LeftProcess, Notice, Origin, RunId,
    Sandbox, Service, ServiceId, SessionHold, SessionId, SessionMeta, SessionState, ShellState, Timestamp, Unkept,
    stored_as_json,
};
use std::collections::BTreeMap;

/// How far the journal has been applied: `applied.json`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct AppliedFile {
    /// Version of all files in the directory.
    pub format: u32,
    /// The backend's id.
    pub id: String,
    pub mark: Mark,
    /// Whether every file has a checksum; those of a store that an older program began may have none.
    #[serde(default, skip_serializing_if = "is_false")]
    pub sealed: bool,
}

/// `meta.json`: what a list shows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct MetaFile {
    /// Version of the session's files.
    pub format: u32,
    pub session_id: SessionId,
    #[serde(default)]
    pub agent: Option<String>,
    /// The configuration given at creation.
    #[serde(default)]
    pub agent_config: serde_json::Value,
    /// When it began.
    pub create_time: Timestamp,
    /// When the last record was made.
    pub last_active_time: Timestamp,
    /// Where its files are.
    pub workspace: ByteString,
    /// The user that it was named for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_id: Option<String>,
    /// The token that made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// The session that it was forked from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forked_from: Option<Origin>,
    /// How far its processes were confined when it was created.
    #[serde(default, skip_serializing_if = "Sandbox::is_none")]
    pub sandbox: Sandbox,
    /// The names of the secrets that it is given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<String>,
    /// Its working directory.
    pub cwd: ByteString,
    /// How many shells it has had.
    pub generation: u64,
    /// Number of the last record.
    pub seq: u64,
    /// Whether something of it runs.
    pub unrest: bool,
    /// How far its processes are confined now.
    #[serde(default, skip_serializing_if = "Sandbox::is_none")]
    pub confined: Sandbox,
    /// Who holds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<Box<SessionHold>>,
    /// Why it was set aside, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub damaged: Option<String>,
}

stored_as_json!(AppliedFile, MetaFile, StateFile);

/// `state.json`: the state without what `meta.json` has.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct StateFile {
    /// Version of the session's files.
    pub format: u32,
    /// Number of the last record.
    pub seq: u64,
    /// When the last record was made.
    pub last_active_at: Timestamp,
    /// How many shells it has had.
    pub generation: u64,
    /// How far its processes are confined.
    #[serde(default, skip_serializing_if = "Sandbox::is_none")]
    pub sandbox: Sandbox,
    /// Runs that have started and not ended.
    pub active_runs: BTreeMap<RunId, ActiveRun>,
    /// What finished commands left running.
    #[serde(default)]
    pub processes: Vec<LeftProcess>,
    /// What else only its shell has.
    #[serde(default, skip_serializing_if = "Unkept::is_empty")]
    pub unkept: Unkept,
    /// Its services.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub services: BTreeMap<ServiceId, Service>,
    /// When it was ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// Notices for the next result.
    pub pending_notices: Vec<Notice>,
    /// What the agent's framework saved last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_state: Option<Box<AgentState>>,
    /// The highest version that a state of its agent ever had.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub agent_versions: u64,
    /// Number of the last message of the conversation.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub messages: u64,
    /// Number of the record with which the agent last completed a step.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub agent_step: u64,
    /// The checkpoint of the files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<FilesAt>,
    /// What is known of the keyed store.
    #[serde(default, skip_serializing_if = "KvState::is_unused")]
    pub kv: KvState,
    /// Which nodes have owned it.
    #[serde(default, skip_serializing_if = "Claims::is_empty")]
    pub claims: Claims,
    /// Who holds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<Box<SessionHold>>,
    /// The minimum number of files of its runs and messages, to detect missing ones.
    #[serde(default, skip_serializing_if = "Counts::is_zero")]
    pub files_written: Counts,
    /// The state of its shell.
    pub shell: ShellState,
}

/// Files of runs and messages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Counts {
    pub runs: u64,
    pub messages: u64,
}

impl Counts {
    fn is_zero(&self) -> bool {
        *self == Self::default()
    }
}

impl MetaFile {
    /// The `meta.json` of a state.
    pub(super) fn new(state: &SessionState, damaged: Option<&str>) -> Self {
        Self {
            format: FORMAT_VERSION,
            session_id: state.meta.session_id.clone(),
            agent: state.meta.agent.clone(),
            agent_config: state.meta.agent_config.clone(),
            create_time: state.meta.created_at,
            last_active_time: state.last_active_at,
            workspace: state.meta.workspace.clone(),
            user_id: state.meta.user_id.clone(),
            by: state.meta.by.clone(),
            forked_from: state.meta.forked_from.clone(),
            sandbox: state.meta.sandbox,
            secrets: state.meta.secrets.clone(),
            cwd: state.shell.cwd.clone(),
            generation: state.generation,
            seq: state.seq,
            unrest: !state.is_at_rest(),
            confined: state.sandbox,
            hold: state.hold.clone(),
            damaged: damaged.map(str::to_owned),
        }
    }

    pub(super) fn into_meta(self) -> SessionMeta {
        SessionMeta {
            session_id: self.session_id,
            agent: self.agent,
            agent_config: self.agent_config,
            created_at: self.create_time,
            workspace: self.workspace,
            user_id: self.user_id,
            by: self.by,
            forked_from: self.forked_from,
            sandbox: self.sandbox,
            secrets: self.secrets,
        }
    }
}

impl StateFile {
    /// The `state.json` of a state.
    pub(super) fn new(state: &SessionState, files_written: Counts) -> Self {
        Self {
            files_written,
            format: FORMAT_VERSION,
            seq: state.seq,
            last_active_at: state.last_active_at,
            generation: state.generation,
            sandbox: state.sandbox,
            active_runs: state.active_runs.clone(),
            processes: state.processes.clone(),
            unkept: state.unkept.clone(),
            services: state.services.clone(),
            ended_at: state.ended_at,
            pending_notices: state.pending_notices.clone(),
            agent_state: state.agent_state.clone(),
            agent_versions: state.agent_versions,
            messages: state.messages,
            agent_step: state.agent_step,
            files: state.files.clone(),
            kv: state.kv,
            claims: state.claims.clone(),
            hold: state.hold.clone(),
            shell: state.shell.clone(),
        }
    }

    pub(super) fn into_state(self, meta: SessionMeta) -> SessionState {
        SessionState {
            meta,
            seq: self.seq,
            last_active_at: self.last_active_at,
            generation: self.generation,
            sandbox: self.sandbox,
            active_runs: self.active_runs,
            processes: self.processes,
            unkept: self.unkept,
            services: self.services,
            ended_at: self.ended_at,
            pending_notices: self.pending_notices,
            // Versions before 4 did not count; the current state counts.
            agent_versions: self.agent_versions.max(self.agent_state.as_ref().map_or(0, |state| state.version)),
            agent_state: self.agent_state,
            messages: self.messages,
            agent_step: self.agent_step,
            files: self.files,
            kv: self.kv,
            claims: self.claims,
            hold: self.hold,
            shell: self.shell,
        }
    }
}
