//! A session as a value: everything that is known of it.

use crate::skip::is_zero;
use crate::{
    AgentState, ByteString, Claims, FilesAt, KvState, Notice, Origin, RunId, Sandbox, Service, ServiceId, SessionHold,
    SessionId, ShellState, Timestamp, Unkept,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The metadata of a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionMeta {
    pub session_id: SessionId,
    /// The agent that it belongs to, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The agent's configuration as given at creation; never changed afterwards.
    #[serde(default)]
    pub agent_config: serde_json::Value,
    /// When it was created.
    pub created_at: Timestamp,
    /// The user whose session it is, if it was named for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_id: Option<String>,
    /// Where its files are: its own workspace unless the host named another directory.
    pub workspace: ByteString,
    /// The id of the agent's token that created it; none for the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// The session that it was forked from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forked_from: Option<Origin>,
    /// How far its processes were confined when it was created.
    #[serde(default, skip_serializing_if = "Sandbox::is_none")]
    pub sandbox: Sandbox,
    /// The names of the secrets that the host gave it, besides those of its agent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<String>,
}

impl SessionMeta {
    /// That of a session of which nothing but the name is known.
    pub fn of_name(session_id: SessionId) -> Self {
        Self {
            session_id,
            agent: None,
            agent_config: serde_json::Value::Null,
            created_at: Timestamp::UNIX_EPOCH,
            user_id: None,
            workspace: ByteString::default(),
            by: None,
            forked_from: None,
            sandbox: Sandbox::None,
            secrets: Vec::new(),
        }
    }
}

/// A run that has started and not ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ActiveRun {
    /// The idempotency key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    pub command: ByteString,
    /// When it started.
    pub started_at: Timestamp,
    /// Whether it runs in the background.
    #[serde(default)]
    pub detached: bool,
}

/// A process that a finished command left running, as it is stored: a pid alone may be reused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftProcess {
    pub pid: u32,
    /// Start time in clock ticks since boot.
    pub started_ticks: u64,
    /// Which boot.
    pub boot_id: String,
    /// What it runs, in short.
    pub command: String,
}

/// Everything that is known of a session. Changed only by [`SessionState::apply`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionState {
    /// What it was made with.
    pub meta: SessionMeta,
    /// Number of the last record.
    pub seq: u64,
    /// When the last record was made.
    pub last_active_at: Timestamp,
    /// How many shells it has had.
    pub generation: u64,
    /// How far its processes are confined. May become tighter, never looser.
    #[serde(default, skip_serializing_if = "Sandbox::is_none")]
    pub sandbox: Sandbox,
    /// Runs that have started and not ended.
    #[serde(default)]
    pub active_runs: BTreeMap<RunId, ActiveRun>,
    /// What finished commands left running.
    #[serde(default)]
    pub processes: Vec<LeftProcess>,
    /// What else only its shell has.
    #[serde(default, skip_serializing_if = "Unkept::is_empty")]
    pub unkept: Unkept,
    /// Its services: running ones, and those that ended recently.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub services: BTreeMap<ServiceId, Service>,
    /// When it was ended, if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// Notices for the next result.
    #[serde(default)]
    pub pending_notices: Vec<Notice>,
    /// What the agent's framework saved last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_state: Option<Box<AgentState>>,
    /// The highest version that a state of its agent ever had. The next one is higher, even if the session was rewound
    /// to before the first: a client that holds an old version must not match a new state.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub agent_versions: u64,
    /// Number of the last message of the conversation.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub messages: u64,
    /// Number of the record with which the agent last completed a step: a saved state, or a final output. What its
    /// agent requests again before the next one belongs to the same step, repeated.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub agent_step: u64,
    /// The checkpoint that its files were last saved in or rewound to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<FilesAt>,
    /// What is known of its keyed store.
    #[serde(default, skip_serializing_if = "KvState::is_unused")]
    pub kv: KvState,
    /// Which nodes have owned it, where nodes share a store.
    #[serde(default, skip_serializing_if = "Claims::is_empty")]
    pub claims: Claims,
    /// Who holds it, if somebody does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<Box<SessionHold>>,
    /// The state of its shell.
    pub shell: ShellState,
}

impl SessionState {
    /// A session of which there is no record yet: it has had no shell, and nothing has run in it.
    pub fn blank(meta: SessionMeta, at: Timestamp, shell: ShellState) -> Self {
        Self {
            sandbox: meta.sandbox,
            meta,
            seq: 0,
            last_active_at: at,
            generation: 0,
            active_runs: BTreeMap::new(),
            processes: Vec::new(),
            unkept: Unkept::default(),
            services: BTreeMap::new(),
            ended_at: None,
            pending_notices: Vec::new(),
            agent_state: None,
            agent_versions: 0,
            messages: 0,
            agent_step: 0,
            files: None,
            kv: KvState::default(),
            claims: Claims::default(),
            hold: None,
            shell,
        }
    }

    /// Whether nothing of it runs, so that a crash of the daemon loses nothing.
    pub fn is_at_rest(&self) -> bool {
        self.holds_no_shell_work() && !self.services.values().any(|service| service.status.is_live())
    }

    /// Whether no command of it runs, and none has left something that would be lost with the shell.
    pub fn holds_no_shell_work(&self) -> bool {
        self.active_runs.is_empty() && self.processes.is_empty() && self.unkept.is_empty()
    }

    /// The highest version that a state of its agent ever had; 0 if there was none. Sessions of version 3 did not
    /// count, so the current state counts too.
    pub fn last_agent_version(&self) -> u64 {
        self.agent_state.as_ref().map_or(0, |state| state.version).max(self.agent_versions)
    }
}
