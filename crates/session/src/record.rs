//! What happened, one numbered record at a time. `seq` counts from 1 in each session and has no gaps.

use crate::skip::is_false;
use crate::state::{LeftProcess, SessionState};
use crate::{
    AgentState, Author, ByteString, Call, Checkpoint, Claim, FileSum, FilesAt, KvChange, KvRewound, KvScrubbed,
    LeftOut, Message, Notice, RunId, RunResult, Sandbox, ServiceEnd, ServiceId, ServiceSpec, ServiceStamps,
    ServiceStatus, SessionId, SessionMeta, ShellDelta, ShellState, Timestamp, Unkept,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// Version of everything this crate writes. A reader rejects a newer one.
pub const FORMAT_VERSION: u32 = 6;

/// One fact.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    pub session_id: SessionId,
    /// Position in the session, from 1, no gaps.
    pub seq: u64,
    pub at: Timestamp,
    pub event: Event,
}

/// The kinds of facts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// The session was created.
    SessionCreated {
        /// Its metadata.
        meta: Box<SessionMeta>,
        /// The initial state of its shell.
        shell: Box<ShellState>,
    },
    /// A command is about to run. Written before its first byte reaches a shell, so that it can never run twice.
    RunStarted {
        run_id: RunId,
        /// The caller's key for exactly-once.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request_id: Option<String>,
        command: ByteString,
        /// What it is run with, besides its text.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        call: Option<Box<Call>>,
        /// The id of the agent's token that requested it; none for the host.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
        /// Whether it started before the files of earlier runs were saved.
        #[serde(default, skip_serializing_if = "is_false")]
        files_unkept: bool,
    },
    /// A command ended. Written before its answer is sent.
    RunFinished {
        run_id: RunId,
        result: Box<RunResult>,
        /// What it changed in the shell.
        #[serde(default, skip_serializing_if = "is_empty_delta")]
        delta: Box<ShellDelta>,
    },
    /// Something was typed into a command that runs. Written before the command can read it.
    RunInput {
        run_id: RunId,
        /// The input: its beginning if it is long, nothing if it is hidden.
        input: ByteString,
        /// How many bytes were typed; absent if it is hidden.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bytes: Option<u64>,
        /// Whether the terminal's echo was off, as at a password prompt.
        #[serde(default, skip_serializing_if = "is_false")]
        hidden: bool,
        /// Whether that was the end of the input.
        #[serde(default, skip_serializing_if = "is_false")]
        end: bool,
        /// The id of the agent's token that sent it; none for the host.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    },
    /// A command moved to the background at its timeout; the session no longer waits for it.
    RunDetached { run_id: RunId },
    /// The session took a new shell. `generation` counts them.
    ShellStarted {
        /// Number of this shell, from 1.
        generation: u64,
    },
    /// The processes that run after a command, and what else only the shell has, if that changed.
    ProcessesLeft {
        /// All of it; empty when nothing is running.
        processes: Vec<LeftProcess>,
        /// Open descriptors, and variables that are too large to keep.
        #[serde(default, skip_serializing_if = "Unkept::is_empty")]
        unkept: Unkept,
    },
    /// The shell was dropped or lost between commands. The next result carries the notices.
    ShellStopped {
        /// The reason: `hibernated`, `evicted`, `died`, `daemon_stopped`.
        reason: String,
        /// Notices for the next result.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        notices: Vec<Notice>,
    },
    /// The host requested a clean shell: the state is the session's initial one again.
    Restarted {
        /// The fresh state.
        shell: Box<ShellState>,
    },
    /// A service is about to be started. Written before it has any process.
    ServiceStarted {
        service_id: ServiceId,
        /// Its definition.
        spec: Box<ServiceSpec>,
    },
    /// A service was started or restarted.
    ServiceLive {
        service_id: ServiceId,
        /// How to find them after a crash.
        stamps: ServiceStamps,
        /// How often it was restarted.
        restarts: u32,
    },
    /// A service is ready.
    ServiceReady { service_id: ServiceId },
    /// A service's processes are gone. If `status` is live, it will be restarted.
    ServiceEnded {
        service_id: ServiceId,
        /// Its status from now on.
        status: ServiceStatus,
        /// How it ended.
        end: ServiceEnd,
        /// Notices for the next result.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        notices: Vec<Notice>,
    },
    /// The session was ended: its services are stopped, and its files may be reclaimed later. Using it again makes it
    /// active.
    SessionEnded {
        /// Why, in words.
        reason: String,
    },
    /// An event that the session only records: from the agent's framework, or from the runtime about a resumed agent.
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
        /// Who requested it.
        #[serde(default, skip_serializing_if = "Author::is_unknown")]
        author: Author,
    },
    /// A message was added to the conversation.
    MessageAdded {
        message: Box<Message>,
        /// Who said so.
        #[serde(default, skip_serializing_if = "Author::is_unknown")]
        author: Author,
    },
    /// A secret was masked in everything that is stored of the session.
    Scrubbed {
        /// The agent's token that requested it; none for the host.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
        /// Numbers of the records in which something was masked.
        seqs: Vec<u64>,
        /// Attached files in which something was masked.
        files: Vec<String>,
        /// The new hashes of those files, by name.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        sums: BTreeMap<String, FileSum>,
        /// What was masked in the keyed store.
        #[serde(default, skip_serializing_if = "KvScrubbed::is_empty")]
        kv: KvScrubbed,
        /// Names of the checkpoints that contained it and were deleted.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        checkpoints: Vec<String>,
        /// The shell's state after it.
        shell: Box<ShellState>,
        /// The agent's state after it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        agent_state: Option<Box<AgentState>>,
    },
    /// A checkpoint was taken.
    Checkpointed {
        /// What is known of it.
        checkpoint: Box<Checkpoint>,
    },
    /// The session is as it was at an earlier record: its files, its shell, its agent's state. Nothing was removed from
    /// the timeline.
    Rewound {
        /// Number of that record.
        to: u64,
        /// Whether it was a step of undo or redo; none if a moment was named.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        step: Option<RewindStep>,
        /// The agent's token that requested it; none for the host.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
        /// The checkpoint of the files; none if there was none yet.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        files: Option<FilesAt>,
        /// Paths that were not changed, and why.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        kept_back: Vec<LeftOut>,
        /// The shell's state now.
        shell: Box<ShellState>,
        /// The agent's state now.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        agent_state: Option<Box<AgentState>>,
        /// What the keyed store is now, if that changed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        kv: Option<KvRewound>,
        /// Notices for the next result.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        notices: Vec<Notice>,
    },
    /// Another session was forked from this one.
    Forked {
        session_id: SessionId,
        /// Number of the record that it was forked at.
        at: u64,
        /// The node whose records it has, if two nodes continued this session in different ways; none for a fork that a
        /// caller requested.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        diverged_on: Option<String>,
        /// Notices for the next result.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        notices: Vec<Notice>,
    },
    /// The session's processes are confined more tightly from this record on.
    SandboxChanged {
        /// How they are confined now.
        sandbox: Sandbox,
        /// The agent's token that requested it; none for the host.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    },
    /// A process of the session asked for a host that rooms may not connect to. Recorded once for each host and room.
    NetworkRefused { host: String },
    /// A node owns the session from this record on. Only where nodes share a store.
    Owned {
        /// Its right to write.
        claim: Claim,
        /// Why, in a word: `created`, `joined`, `owner_gone`, `diverged`.
        because: String,
        /// The session as it is on this node, if it came from another.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        state: Option<Box<SessionState>>,
    },
    /// The records before this one could not be written. They are lost; the resulting state is not.
    RecordsLost {
        /// Number of the first that is lost. All up to this record are.
        from: u64,
        reason: String,
        /// The session as it was then.
        state: Box<SessionState>,
    },
    /// The session was deleted; nothing of it is kept.
    SessionDestroyed,
    /// An agent deleted its session. Its processes and files are gone; its recording is kept until the host's retention
    /// ends, under another name, so that the session's name is free.
    SessionDeleted {
        /// The id of the agent's token.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
        /// The name under which its recording is kept.
        kept_as: SessionId,
    },
}

/// A rewind by one change: undo or redo.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RewindStep {
    /// The last change is undone.
    Undo,
    /// The last undone change is redone.
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
            | Self::SandboxChanged { by, .. }
            | Self::Rewound { by, .. } => Author::runtime(by.clone()),
            _ => Author::runtime(None),
        }
    }
}

fn is_empty_delta(delta: &ShellDelta) -> bool {
    delta.is_empty()
}
