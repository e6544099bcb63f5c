//! What an owner can be asked, and by whom.

use super::checkpoint::FilesTask;
use super::services::ServiceNews;
use crate::cell::RunCell;
use crate::conclude::Ended;
use crate::ops::*;
use crate::pending::Removal;
use crate::running::{Running, Typed};
use crate::services::Supervised;
use shellkeep_process::Fact;
use shellkeep_session::{AgentState, Author, RunId, Service, ServiceId, SessionState, ShellState, Timestamp};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::oneshot;

pub(super) type Answer<T> = oneshot::Sender<Result<T, OpError>>;

/// What an owner can be asked.
pub enum Message {
    /// Run a command.
    Run {
        /// The command.
        command: Box<RunCommand>,
        /// Who waits, and for what.
        reply: RunReply,
    },
    /// How does the session stand?
    View(Answer<SessionView>),
    /// What is known of it, all in all?
    Snapshot(Answer<Box<SessionState>>),
    /// What does its shell know?
    State(Answer<ShellState>),
    /// Drop the shell when nothing runs any more.
    Hibernate(Answer<SessionView>),
    /// Drop everything and begin again.
    Restart(Answer<SessionView>),
    /// End the session.
    Destroy {
        /// What becomes of its trail.
        removal: Removal,
        /// Answered when its files are gone.
        answer: Answer<()>,
    },
    /// Drop the shell if nothing runs; says whether it did.
    Evict(oneshot::Sender<bool>),
    /// Start a service.
    StartService {
        /// What to start.
        request: Box<StartService>,
        /// The agent's token that asks.
        by: Option<String>,
        /// Answered when it runs.
        answer: Answer<Arc<Supervised>>,
    },
    /// Which services does it have, or had lately?
    Services(Answer<BTreeMap<ServiceId, Service>>),
    /// What does a service's shell have to be told?
    ServiceFacts(Answer<Vec<Fact>>),
    /// A supervisor has learned something.
    ServiceNews {
        /// About which service.
        service_id: ServiceId,
        /// What.
        news: ServiceNews,
        /// Who wants to know what is known of it then.
        answer: oneshot::Sender<Service>,
    },
    /// The session's agent is done with it.
    End {
        /// Why.
        reason: String,
        /// Who asks.
        answer: Answer<SessionView>,
    },
    /// Remove the session if it was ended at this time and not used since.
    Reclaim {
        /// When it was ended.
        ended_at: Timestamp,
        /// Who asks.
        answer: Answer<()>,
    },
    /// Take down events of the agent.
    Note {
        /// What.
        events: Vec<NewEvent>,
        /// Who says so.
        author: Author,
        /// Answered when they are kept.
        answer: Answer<Posted>,
    },
    /// Add a message to the conversation.
    AddMessage {
        /// What.
        message: NewMessage,
        /// Who says so.
        author: Author,
        /// Answered when it is kept.
        answer: Answer<MessageAdded>,
    },
    /// Save the agent's state.
    SaveAgentState {
        /// What.
        save: SaveAgentState,
        /// Who saves it.
        author: Author,
        /// Answered when it is kept.
        answer: Answer<AgentStateSaved>,
    },
    /// Which state of the agent is kept?
    AgentState(Answer<Option<Box<AgentState>>>),
    /// Mask a secret in everything that is kept. Waits its turn behind running commands.
    Scrub {
        /// The secret.
        secret: Secret,
        /// Who asks.
        answer: Answer<Scrubbed>,
    },
    /// Do something with the session's files. Waits its turn behind running commands.
    Files(Box<FilesTask>),
    /// Tell when the files of the last command are kept.
    FilesKept(Answer<()>),
    /// Record what is typed into a command that runs on beside the session, and give it back.
    Typed {
        /// Which.
        run_id: RunId,
        /// What.
        typed: Box<Typed>,
        /// Answered when it is recorded.
        answer: Answer<Box<Typed>>,
    },
    /// A command that ran on beside the session has ended.
    Detached {
        /// The command.
        running: Box<Running>,
        /// How it ended.
        ended: Ended,
    },
}

/// Who waits for the end of a run.
pub(super) struct Caller {
    pub(super) answer: Answer<RunView>,
    /// Most bytes of each stream in the answer.
    pub(super) max_output: usize,
}

/// Who waits for a run.
pub enum RunReply {
    /// For its end.
    AtEnd(Answer<RunView>),
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
    /// Answers with a run that an earlier call with the same request id started.
    pub(super) fn answer(self, before: Started, command: &RunCommand) {
        let (max_output, timeout) = (command.max_output, command.timeout);
        match (before, self) {
            (before, Self::AtStart(answer)) => drop(answer.send(Ok(before))),
            (Started::Before(view), Self::AtEnd(answer)) => drop(answer.send(Ok(*view))),
            (Started::Live(cell), Self::AtEnd(answer)) => {
                tokio::spawn(async move {
                    // This caller's timeout is its own; the run goes on as the first caller wanted.
                    let _ = tokio::time::timeout(timeout, cell.finished()).await;
                    let _ = answer.send(Ok(cell.view(max_output)));
                });
            }
        }
    }
}
