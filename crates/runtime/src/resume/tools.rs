//! The commands that an agent requests: one at a time, in order, each as a run of the session.

use super::talk::ToolCall;
use crate::actor::Started;
use crate::cell::{End, RunCell, RunControl};
use crate::engine::{self, Access};
use crate::ops::{OpError, RunChunk, RunCommand, RunView};
use crate::stream::RunStream;
use crate::tasks;
use rustix::process::Signal;
use shellkeep_session::SessionId;
use std::collections::{HashSet, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// Commands that may wait for their turn; an agent that requests more does not read the results.
const MAX_CALLS: usize = 64;
/// Grace period of a command that is stopped with its agent.
const GRACE: Duration = Duration::from_secs(1);

type Outcome = Result<RunView, OpError>;
/// Where a run is put once it has begun.
type CellSender = watch::Sender<Option<Arc<RunCell>>>;

/// A command that runs, or waits for the session.
struct Running {
    call: ToolCall,
    /// There once it runs.
    cell: watch::Receiver<Option<Arc<RunCell>>>,
    outcome: Pin<Box<dyn Future<Output = Outcome> + Send>>,
}

/// The commands of one agent.
pub(super) struct Tools {
    access: Access,
    id: SessionId,
    deadline: Instant,
    waiting: VecDeque<(ToolCall, u64)>,
    running: Option<Running>,
    /// Names of the calls of this step.
    used: HashSet<String>,
}

impl Tools {
    /// For an agent whose time is over at `deadline`. Its commands are run with the rights of `access`.
    pub(super) fn new(access: Access, id: SessionId, deadline: Instant) -> Self {
        Self { access, id, deadline, waiting: VecDeque::new(), running: None, used: HashSet::new() }
    }

    /// Takes a call of this step. An error says why not.
    pub(super) fn ask(&mut self, call: ToolCall, step: u64) -> Result<(), String> {
        if !self.used.insert(call.id.clone()) {
            return Err(format!("the id '{}' was used before in this step; each call needs its own", call.id));
        }
        if self.waiting.len() >= MAX_CALLS {
            return Err(format!("{MAX_CALLS} calls are already waiting; read their results first"));
        }
        self.waiting.push_back((call, step));
        self.start_next();
        Ok(())
    }

    /// A step is complete: ids may be reused.
    pub(super) fn step(&mut self) {
        self.used.clear();
    }

    fn start_next(&mut self) {
        if self.running.is_some() {
            return;
        }
        let Some((call, step)) = self.waiting.pop_front() else { return };
        let left = self.deadline.saturating_duration_since(Instant::now());
        let (place, cell) = watch::channel(None);
        let outcome: Pin<Box<dyn Future<Output = Outcome> + Send>> = match call.command(left) {
            Err(error) => Box::pin(std::future::ready(Err(error))),
            Ok(mut command) => {
                command.request_id = Some(call.key(step));
                Box::pin(run(self.access.clone(), self.id.clone(), command, place))
            }
        };
        self.running = Some(Running { call, cell, outcome });
    }

    /// Waits for the end of a command; forever if none runs. Cancel-safe.
    pub(super) async fn ended(&mut self) -> (String, Outcome) {
        let outcome = match &mut self.running {
            Some(running) => running.outcome.as_mut().await,
            None => std::future::pending().await,
        };
        let id = self.running.take().map(|running| running.call.id).unwrap_or_default();
        self.start_next();
        (id, outcome)
    }

    /// Kills what runs, and waits for it. Waiting commands are not started.
    pub(super) async fn stop(&mut self) {
        self.waiting.clear();
        let Some(Running { mut cell, mut outcome, .. }) = self.running.take() else { return };
        let begun = cell.borrow_and_update().clone();
        if let Some(cell) = begun {
            let _ = cell.control.send(RunControl::Signal { number: Signal::INT.as_raw() }).await;
            if tokio::time::timeout(GRACE, &mut outcome).await.is_ok() {
                return;
            }
            let _ = cell.control.send(RunControl::Kill).await;
            let _ = tokio::time::timeout(GRACE, &mut outcome).await;
            return;
        }
        // It waits for the session. It is no longer needed, but its place in the queue cannot be released.
        tasks::spawn(async move {
            tokio::select! {
                _ = outcome.as_mut() => {}
                _ = cell.changed() => {
                    let begun = cell.borrow_and_update().clone();
                    if let Some(cell) = begun {
                        let _ = cell.control.send(RunControl::Kill).await;
                    }
                }
            }
        });
    }
}

async fn run(access: Access, id: SessionId, command: RunCommand, place: CellSender) -> Outcome {
    let (max_output, blocking) = (command.max_output, command.blocking);
    let cell = match engine::begin(&access, &id, Box::new(command)).await? {
        Started::Before(view) => return Ok(*view),
        Started::Live(cell) => cell,
    };
    place.send_replace(Some(Arc::clone(&cell)));
    if !blocking {
        return Ok(cell.view(max_output));
    }
    let mut stream = RunStream::live(cell, max_output, End::OfWaiting);
    loop {
        match stream.next().await {
            Some(Ok(RunChunk::Result(view))) => return Ok(*view),
            Some(Ok(_)) => {}
            Some(Err(error)) => return Err(error),
            None => return Err(OpError::Internal { detail: "a command ended without a result".to_owned() }),
        }
    }
}
