//! What happened, one numbered record at a time. `seq` counts from 1 in each session and has no gaps.

use crate::state::{LeftProcess, SessionState};
use crate::{
    AgentState, Author, ByteString, Call, Checkpoint, FileSum, FilesAt, KvChange, KvRestored, KvScrubbed, LeftOut,
    Message, Notice, RunId, RunResult, ServiceEnd, ServiceId, ServiceSpec, ServiceStamps, ServiceStatus, SessionId,
    SessionMeta, ShellDelta, ShellState, Timestamp,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// Version of everything this crate writes. A reader refuses a newer one.
pub const FORMAT_VERSION: u32 = 5;

/// One fact.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Whose.
    pub session_id: SessionId,
    /// Position in the session, from 1, no gaps.
    pub seq: u64,
    /// When.
    pub at: Timestamp,
    /// What.
    pub event: Event,
}

/// The kinds of facts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// The session began.
    SessionCreated {
        /// Who it is.
        meta: Box<SessionMeta>,
        /// What its first shell knows.
        shell: Box<ShellState>,
    },
    /// A command is about to run. Written before its first byte reaches a shell, so that it can never run twice.
    RunStarted {
        /// Its id.
        run_id: RunId,
        /// The caller's key for exactly-once.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request_id: Option<String>,
        /// The text.
        command: ByteString,
        /// What it is run with, if anything was asked for.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        call: Option<Box<Call>>,
        /// The id of the agent's token that asked for it; none if the host did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
        /// Whether it began before the files were kept as the runs before it left them.
        #[serde(default, skip_serializing_if = "is_false")]
        files_unkept: bool,
    },
    /// A command ended, one way or another. Written before its answer goes out.
    RunFinished {
        /// Its id.
        run_id: RunId,
        /// The result.
        result: Box<RunResult>,
        /// What it changed in the shell.
        #[serde(default, skip_serializing_if = "is_empty_delta")]
        delta: Box<ShellDelta>,
    },
    /// Something was typed into a command that runs. Written before the command can read it.
    RunInput {
        /// Its id.
        run_id: RunId,
        /// What was typed: its beginning if it was long, nothing if it is hidden.
        input: ByteString,
        /// How many bytes were typed; not told if it is hidden.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bytes: Option<u64>,
        /// Whether the terminal did not echo, as where a password is asked for.
        #[serde(default, skip_serializing_if = "is_false")]
        hidden: bool,
        /// Whether that was the end of the input.
        #[serde(default, skip_serializing_if = "is_false")]
        end: bool,
        /// The id of the agent's token that typed it; none if the host did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    },
    /// A command outgrew its timeout and runs on beside the session; the session no longer waits for it.
    RunDetached {
        /// Its id.
        run_id: RunId,
    },
    /// The session took a new shell. `generation` counts them.
    ShellStarted {
        /// Number of this shell, from 1.
        generation: u64,
    },
    /// What is running after a command, if it is not what was running before it.
    ProcessesLeft {
        /// All of it; empty when nothing is running.
        processes: Vec<LeftProcess>,
    },
    /// The shell was dropped or lost between commands. The notices are for the next result.
    ShellStopped {
        /// Why, in a word: `hibernated`, `evicted`, `died`, `daemon_stopped`.
        reason: String,
        /// What the next caller should know.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        notices: Vec<Notice>,
    },
    /// The host asked for a clean shell: the state is the session's first one again.
    Restarted {
        /// The fresh state.
        shell: Box<ShellState>,
    },
    /// A service is about to be started. Written before any process of it exists.
    ServiceStarted {
        /// Its id.
        service_id: ServiceId,
        /// What it is made with.
        spec: Box<ServiceSpec>,
    },
    /// A service has processes: for the first time, or again.
    ServiceLive {
        /// Its id.
        service_id: ServiceId,
        /// How to find them after a crash.
        stamps: ServiceStamps,
        /// How often it was started again.
        restarts: u32,
    },
    /// A service is what its maker calls ready.
    ServiceReady {
        /// Its id.
        service_id: ServiceId,
    },
    /// A service's processes are gone. If `status` is live, it will be started again.
    ServiceEnded {
        /// Its id.
        service_id: ServiceId,
        /// Its status from now on.
        status: ServiceStatus,
        /// How it ended.
        end: ServiceEnd,
        /// What the next caller should know.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        notices: Vec<Notice>,
    },
    /// The session's agent is done with it: its services are stopped, and its files may be reclaimed after a while. Using
    /// it again takes this back.
    SessionEnded {
        /// Why, in words.
        reason: String,
    },
    /// Something about the agent's work that the session only takes down: what its framework tells, or what the runtime
    /// tells of a resumed agent.
    Noted {
        /// One of the types of the contract, or the host's own, which begins with `x_`.
        event_type: String,
        /// Its fields; an object.
        data: Value,
        /// Who said so.
        #[serde(default, skip_serializing_if = "Author::is_unknown")]
        author: Author,
    },
    /// The agent's framework saved its state.
    AgentStateSaved {
        /// The state.
        state: Box<AgentState>,
        /// Who said so.
        #[serde(default, skip_serializing_if = "Author::is_unknown")]
        author: Author,
    },
    /// Keys of the keyed store changed, all of them or none.
    KvChanged {
        /// The store's version from now on.
        version: u64,
        /// What changed.
        changes: Vec<KvChange>,
        /// Who asked for it.
        #[serde(default, skip_serializing_if = "Author::is_unknown")]
        author: Author,
    },
    /// The conversation has one message more.
    MessageAdded {
        /// The message.
        message: Box<Message>,
        /// Who said so.
        #[serde(default, skip_serializing_if = "Author::is_unknown")]
        author: Author,
    },
    /// A secret was masked in everything that is kept of the session.
    Scrubbed {
        /// Who asked for it: an agent's token, or nobody but the host.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
        /// Numbers of the records in which something was masked.
        seqs: Vec<u64>,
        /// Files beside the records in which something was masked.
        files: Vec<String>,
        /// What those of them are now whose hashes the recording keeps, by name.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        sums: BTreeMap<String, FileSum>,
        /// What was masked in the keyed store.
        #[serde(default, skip_serializing_if = "KvScrubbed::is_empty")]
        kv: KvScrubbed,
        /// Names of the checkpoints that held it and are gone.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        checkpoints: Vec<String>,
        /// The shell's state after it.
        shell: Box<ShellState>,
        /// The agent's state after it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        agent_state: Option<Box<AgentState>>,
    },
    /// The files of the workspace were kept as they are.
    Checkpointed {
        /// What is known of it.
        checkpoint: Box<Checkpoint>,
    },
    /// The session is as it was at an earlier record: its files, its shell, its agent's state. Nothing was taken out of
    /// the timeline.
    Rewound {
        /// Number of that record.
        to: u64,
        /// Whether it was a step of undo or redo; none if a moment was named.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        step: Option<RewindStep>,
        /// Who asked for it: an agent's token, or nobody but the host.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
        /// What the files are now; none if there were none yet.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        files: Option<FilesAt>,
        /// Paths that were left as they are, and why.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        kept_back: Vec<LeftOut>,
        /// What the shell knows now.
        shell: Box<ShellState>,
        /// What is now kept for the agent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        agent_state: Option<Box<AgentState>>,
        /// What the keyed store is now, if that changed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        kv: Option<KvRestored>,
        /// What the next caller should know.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        notices: Vec<Notice>,
    },
    /// Another session began as a copy of this one.
    Forked {
        /// Its name.
        session_id: SessionId,
        /// Number of the record that it was copied at.
        at: u64,
    },
    /// No disk took the records before this one. They are lost; what they led to is not.
    RecordsLost {
        /// Number of the first that is lost. All up to this record are.
        from: u64,
        /// Why.
        reason: String,
        /// The session as it was then.
        state: Box<SessionState>,
    },
    /// The session is over; nothing of it is kept.
    SessionDestroyed,
    /// An agent removed its session. Its processes and files are gone; its recording is kept until the host's retention
    /// ends, under a name of its own, so that another session may have this one's.
    SessionDeleted {
        /// The id of the agent's token that asked for it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
        /// The name under which its recording is kept.
        kept_as: SessionId,
    },
}

/// A rewind that takes back one change, or takes back an undo.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RewindStep {
    /// The last change is taken back.
    Undo,
    /// The last undo is taken back.
    Redo,
}

impl RewindStep {
    /// Its name, as it is recorded.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Undo => "undo",
            Self::Redo => "redo",
        }
    }
}

impl Event {
    /// Whether the session is over with it.
    pub fn destroys(&self) -> bool {
        matches!(self, Self::SessionDestroyed | Self::SessionDeleted { .. })
    }

    /// Who it comes from.
    pub fn author(&self) -> Author {
        match self {
            Self::Noted { author, .. }
            | Self::AgentStateSaved { author, .. }
            | Self::KvChanged { author, .. }
            | Self::MessageAdded { author, .. } => author.clone(),
            Self::SessionCreated { meta, .. } => Author::runtime(meta.by.clone()),
            Self::SessionDeleted { by, .. }
            | Self::RunInput { by, .. }
            | Self::RunStarted { by, .. }
            | Self::Scrubbed { by, .. }
            | Self::Rewound { by, .. } => Author::runtime(by.clone()),
            _ => Author::runtime(None),
        }
    }
}

fn is_false(truth: &bool) -> bool {
    !*truth
}

fn is_empty_delta(delta: &ShellDelta) -> bool {
    delta.is_empty()
}
