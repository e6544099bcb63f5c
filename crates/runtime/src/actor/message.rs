//! What an actor can be asked, and who waits for the answer.

use super::rest_reason::RestReason;
use crate::cell::RunCell;
use crate::cluster::ClaimedName;
use crate::conclude::Ended;
use crate::given_secrets::GivenSecrets;
use crate::hang_up::HangUp;
use crate::network::Unreached;
use crate::ops::*;
use crate::pending::Removal;
use crate::running::{Running, Typed};
use crate::sandboxes::Confined;
use crate::services::Supervised;
use crate::shares::Share;
use crate::tasks;
use shellkeep_process::{Deadline, Fact};
use shellkeep_session::{
    AgentState, Author, KvTold, Notice, RunId, Sandbox, Service, ServiceEnd, ServiceId, ServiceStamps, ServiceStatus,
    SessionId, SessionState, ShellState, Timestamp,
};
use shellkeep_shared::ForkNote;
use shellkeep_workspace::repo::ObjectId;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::oneshot;

/// Commands that may wait for one session; more means a caller that does not read.
pub const MAX_WAITING: usize = 256;
/// Messages that may wait for one actor, above the commands.
pub const MAILBOX: usize = MAX_WAITING + 64;

pub(super) type Answer<T> = oneshot::Sender<Result<T, OpError>>;

/// What an actor can be asked.
pub enum Message {
    /// Run a command.
    Run {
        command: Box<RunCommand>,
        /// Counts a large command as its sender's memory.
        share: Option<Share>,
        /// Who waits, and for what.
        reply: RunReply,
    },
    /// Cancel the command with this key, if it has not started.
    Cancel {
        /// The caller's key.
        request_id: String,
        /// Answered with what is known of it.
        answer: Answer<Cancellation>,
    },
    /// The session as callers see it.
    View(Answer<SessionView>),
    /// The whole state.
    Snapshot(Answer<Box<SessionState>>),
    /// The shell's state.
    State(Answer<ShellState>),
    /// Drop the shell as soon as nothing runs.
    Hibernate(Answer<SessionView>),
    /// Kill everything and start over with the initial state.
    Restart(Answer<SessionView>),
    /// Delete the session.
    Destroy {
        /// What happens to its recording.
        removal: Removal,
        /// Answered when its files are gone.
        answer: Answer<()>,
    },
    /// Drop the shell if nothing runs.
    Evict {
        why: RestReason,
        /// Answered with whether nothing runs.
        answer: oneshot::Sender<bool>,
    },
    StartService {
        /// What to start.
        request: Box<StartService>,
        /// The agent's token that asks.
        by: Option<String>,
        /// Answered when it runs.
        answer: Answer<Arc<Supervised>>,
    },
    /// Another node owns the session.
    Moved,
    /// Other nodes wrote what is not part of the session.
    Forked {
        forks: Vec<ForkNote>,
        /// Answered with the same, when that is recorded.
        answer: Answer<Vec<ForkNote>>,
    },
    /// A process of the session did not reach a host.
    Unreached { unreached: Unreached, answer: Answer<()> },
    /// Its services, also those that ended recently.
    Services(Answer<BTreeMap<ServiceId, Service>>),
    /// What a service's shell is started with.
    ServiceFacts(Answer<ServiceFacts>),
    /// The secrets that the session is given, as they are now. From here on they are masked in its records.
    Give(Answer<GivenSecrets>),
    /// News about a service, from its supervisor.
    ServiceNews {
        /// About which service.
        service_id: ServiceId,
        news: ServiceNews,
        /// Answered with the service's facts after that.
        answer: oneshot::Sender<Service>,
    },
    /// A person takes over, or stays.
    Hold { request: TakeHold, answer: Answer<HoldView> },
    /// A person hands back.
    Release { request: ReleaseHold, answer: Answer<ReleasedHold> },
    /// The session's agent no longer needs it.
    End { reason: String, answer: Answer<SessionView> },
    /// Delete the session if it was ended at this time and not used since.
    Reclaim {
        /// When it was ended.
        ended_at: Timestamp,
        answer: Answer<()>,
    },
    /// Record events of the agent.
    Note {
        events: Vec<NewEvent>,
        author: Author,
        /// Answered when they are kept.
        answer: Answer<Posted>,
    },
    /// Add a message to the conversation.
    AddMessage {
        message: NewMessage,
        author: Author,
        /// Answered when it is kept.
        answer: Answer<MessageAdded>,
    },
    SaveAgentState {
        save: SaveAgentState,
        author: Author,
        /// Answered when it is kept.
        answer: Answer<AgentStateSaved>,
    },
    /// The agent's state that was saved last.
    AgentState(Answer<Option<Box<AgentState>>>),
    /// Mask a secret in everything that is stored. Waits until nothing runs.
    Scrub { secret: Secret, answer: Answer<Scrubbed> },
    /// Work with the session's files. Waits until nothing runs.
    Files(Box<FilesTask>),
    /// Answer when the files of the last command are saved.
    FilesKept(Answer<()>),
    /// Answer when a file may be changed while a command may run.
    BeforeChange(Answer<()>),
    /// Work with the keyed store.
    Kv(Box<KvTask>),
    /// A tool that runs no command has changed a file.
    FileChanged {
        /// What it did.
        change: FileChanged,
        /// Answered when it is recorded.
        answer: Answer<Posted>,
    },
    /// Whether a caller with this hold may act on what runs.
    MayAct { hold: Option<String>, answer: Answer<()> },
    /// Record what is typed into a command in the background, and return it.
    Typed {
        run_id: RunId,
        typed: Box<Typed>,
        /// Answered when it is recorded.
        answer: Answer<Box<Typed>>,
    },
    /// A command in the background ended.
    Detached {
        running: Box<Running>,
        /// How it ended.
        ended: Ended,
    },
}

impl Message {
    /// Whether another one of its kind usually follows soon: a framework that posts one event posts the next.
    pub(super) fn is_one_of_many(&self) -> bool {
        matches!(
            self,
            Self::BeforeChange(_)
                | Self::Kv(_)
                | Self::FileChanged { .. }
                | Self::Note { .. }
                | Self::AddMessage { .. }
                | Self::SaveAgentState { .. }
        )
    }
}

/// Work with a session's keyed store, done even while a command runs.
pub enum KvTask {
    /// Read a value.
    Get { key: String, answer: Answer<(KvEntry, Vec<u8>)> },
    /// List keys.
    Scan { query: KvQuery, answer: Answer<KvPage> },
    /// Change keys.
    Change {
        ops: Vec<KvOp>,
        author: Author,
        /// Answered when it is kept.
        answer: Answer<KvChangedKeys>,
    },
    /// Copy all of it to where other nodes can read it, if there is such a place.
    Share {
        /// Answered when that is done.
        answer: Answer<()>,
    },
    /// Compare the store with the recording.
    Check {
        /// What it tells.
        told: KvTold,
        /// Answered with what is wrong.
        answer: Answer<Vec<String>>,
    },
}

/// What a tool that runs no command did to a file.
pub struct FileChanged {
    pub tool_name: &'static str,
    /// Its data in the record.
    pub event: NewEvent,
    /// Who asked for it.
    pub author: Author,
}

/// The end of a hold.
pub struct ReleaseHold {
    /// The id of the hold; none for whichever there is.
    pub hold_id: Option<String>,
    /// Whether its holder ends it.
    pub is_holder: bool,
    /// The paths that the holder changed.
    pub files: Vec<String>,
}

/// Who waits for the end of a run.
pub(super) struct Caller {
    pub(super) answer: Answer<Box<RunView>>,
    /// Most bytes of each stream in the answer.
    pub(super) max_output: usize,
}

/// What became of a command that is to be cancelled.
pub enum Cancellation {
    /// It waited, and was removed from the queue.
    Done,
    /// It runs.
    Started(RunId),
    /// No such command waits or runs.
    Unknown,
}

/// Who waits for a run.
pub enum RunReply {
    /// For its end.
    AtEnd(Answer<Box<RunView>>),
    /// For its start.
    AtStart(Answer<Started>),
}

/// A run that has started, or had already ended before.
pub enum Started {
    /// It runs.
    Live(Arc<RunCell>),
    /// The same request was answered before.
    Before(Box<RunView>),
}

impl RunReply {
    pub(super) fn refuse(self, error: OpError) {
        match self {
            Self::AtEnd(answer) => drop(answer.send(Err(error))),
            Self::AtStart(answer) => drop(answer.send(Err(error))),
        }
    }

    /// The run has started. Returns who waits for its end.
    pub(super) fn started(self, cell: &Arc<RunCell>, max_output: usize) -> Option<Caller> {
        match self {
            Self::AtEnd(answer) => Some(Caller { answer, max_output }),
            Self::AtStart(answer) => {
                let _ = answer.send(Ok(Started::Live(Arc::clone(cell))));
                None
            }
        }
    }

    /// Answers with a run that an earlier call with the same request id started.
    pub(super) fn answer(self, before: Started, command: &RunCommand) {
        let (max_output, timeout) = (command.max_output, command.timeout);
        match (before, self) {
            (before, Self::AtStart(answer)) => drop(answer.send(Ok(before))),
            (Started::Before(view), Self::AtEnd(answer)) => drop(answer.send(Ok(view))),
            (Started::Live(cell), Self::AtEnd(answer)) => {
                tasks::spawn(async move {
                    // This caller has its own timeout; the run continues as the first caller requested.
                    let _ = tokio::time::timeout(timeout, cell.finished()).await;
                    let _ = answer.send(Ok(Box::new(cell.view(max_output))));
                });
            }
        }
    }
}

/// Work with a session's files, done when nothing runs.
pub enum FilesTask {
    /// Make a checkpoint.
    Checkpoint(Answer<Option<CheckpointView>>),
    /// The commit of what is there now; none if there is nothing.
    Now(Answer<Option<ObjectId>>),
    /// Rewind the session.
    Rewind {
        /// What was asked for.
        request: Rewind,
        /// The agent's token that asks.
        by: Option<String>,
        answer: Answer<Rewound>,
    },
    /// Fork the session.
    Fork {
        /// What was asked for.
        order: Box<ForkOrder>,
        answer: Answer<Forked>,
    },
    /// Merge what a fork changed.
    Merge {
        /// What was asked for.
        order: MergeOrder,
        answer: Answer<Merged>,
    },
    /// Confine the session more tightly.
    Tighten {
        sandbox: Sandbox,
        /// The agent's token that asks.
        by: Option<String>,
        answer: Answer<SandboxView>,
    },
    /// Prune old checkpoints; returns the bytes freed.
    Thin(Answer<u64>),
    /// Take the checkpoint that a dead daemon owed.
    PayOwed(Answer<()>),
}

impl FilesTask {
    /// Whether a caller waits for it that wants an early error if it cannot be done.
    pub(super) fn has_caller(&self) -> bool {
        !matches!(self, Self::Thin(_) | Self::PayOwed(_))
    }

    /// Whether who asked for it has left.
    pub(super) fn is_abandoned(&self) -> bool {
        match self {
            Self::Checkpoint(answer) => answer.is_closed(),
            Self::Now(answer) => answer.is_closed(),
            Self::Rewind { request, answer, .. } => {
                answer.is_closed() || request.hang_up.as_ref().is_some_and(HangUp::is_over)
            }
            Self::Fork { answer, .. } => answer.is_closed(),
            Self::Merge { answer, .. } => answer.is_closed(),
            Self::Tighten { answer, .. } => answer.is_closed(),
            Self::Thin(_) | Self::PayOwed(_) => false,
        }
    }

    /// Refuses it.
    pub(super) fn refuse(self, error: OpError) {
        match self {
            Self::Checkpoint(answer) => drop(answer.send(Err(error))),
            Self::Now(answer) => drop(answer.send(Err(error))),
            Self::Rewind { answer, .. } => drop(answer.send(Err(error))),
            Self::Fork { answer, .. } => drop(answer.send(Err(error))),
            Self::Merge { answer, .. } => drop(answer.send(Err(error))),
            Self::Tighten { answer, .. } => drop(answer.send(Err(error))),
            Self::Thin(answer) => drop(answer.send(Err(error))),
            Self::PayOwed(answer) => drop(answer.send(Err(error))),
        }
    }
}

/// A fork to merge back.
pub struct MergeOrder {
    pub fork: SessionId,
    /// What was asked for.
    pub request: MergeBack,
    /// What the fork began with.
    pub base: Option<ObjectId>,
    /// What it has now.
    pub theirs: Option<ObjectId>,
}

/// A fork to create.
pub struct ForkOrder {
    /// The new session's name, which is unused.
    pub id: SessionId,
    /// The user that it was named for.
    pub user_id: Option<String>,
    /// The moment to fork from; none for now.
    pub at: Option<Moment>,
    /// The agent's token that asks.
    pub by: Option<String>,
    /// Whether both may work on the same files.
    pub share_files: bool,
    /// The name as it is claimed for all nodes, if there are others.
    pub(crate) claimed: Option<ClaimedName>,
}

/// What a service's shell is started with.
pub struct ServiceFacts {
    pub(crate) facts: Vec<Fact>,
    pub(crate) confined: Option<Confined>,
    /// The secrets that it gets, and that its log must not contain.
    pub(crate) given: GivenSecrets,
    /// It does not start after that.
    pub(crate) until: Option<Deadline>,
}

/// What a supervisor has learned.
#[derive(Clone)]
pub enum ServiceNews {
    /// It has processes.
    Live {
        stamps: ServiceStamps,
        /// How often it was started again.
        restarts: u32,
    },
    /// It is ready.
    Ready,
    /// Its processes ended.
    Ended {
        /// Its status from now on.
        status: ServiceStatus,
        /// How it ended.
        end: ServiceEnd,
        /// What the next caller should know.
        notices: Vec<Notice>,
    },
}
