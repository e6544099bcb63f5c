//! Runs: started, watched, looked at, and sent input and signals.

use super::access::{Access, Permitted};
use super::handle::Engine;
use crate::actor::{Message, RunReply, Started};
use crate::cell::{self, RunCell, RunControl, Typist};
use crate::ops::*;
use crate::stream::RunStream;
use crate::{translate, validate};
use shellkeep_session::{ByteString, RunId, SessionId};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

/// Longest wait in one call of `run_view`.
pub const MAX_WAIT: Duration = Duration::from_secs(300);

impl Engine {
    /// Runs a command; returns at its end, or at once if it is not blocking.
    pub fn run<'a>(&'a self, id: &'a SessionId, command: RunCommand) -> BoxFuture<'a, Result<RunView, OpError>> {
        Box::pin(async move {
            let max_output = command.max_output;
            if !command.blocking {
                return match begin(&self.access, id, command).await? {
                    Started::Live(cell) => Ok(cell.view(max_output)),
                    Started::Before(view) => Ok(*view),
                };
            }
            hand_over(&self.access, id, command, RunReply::AtEnd).await
        })
    }

    /// Runs a command and watches it.
    pub fn run_stream<'a>(
        &'a self,
        id: &'a SessionId,
        command: RunCommand,
    ) -> BoxFuture<'a, Result<RunStream, OpError>> {
        Box::pin(async move {
            let max_output = command.max_output;
            Ok(match begin(&self.access, id, command).await? {
                Started::Live(cell) => RunStream::live(cell, max_output),
                Started::Before(view) => RunStream::ended(*view),
            })
        })
    }

    /// The status of a run; waits up to `wait` for its end.
    pub fn run_view<'a>(
        &'a self,
        id: &'a SessionId,
        run_id: &'a RunId,
        wait: Duration,
        max_output: usize,
    ) -> BoxFuture<'a, Result<RunView, OpError>> {
        Box::pin(async move {
            let Permitted { inner, id } = self.access.over(id)?;
            if let Some(cell) = inner.ctx.runs.get(&id, run_id) {
                let _ = tokio::time::timeout(wait.min(MAX_WAIT), cell.finished()).await;
                return Ok(cell.view(max_output));
            }
            let mut run = inner.stored.run(&id, run_id).await?;
            inner.ctx.kept_files.check_run(&id, &mut run).await?;
            Ok(cell::stored_view(&run, &inner.ctx.data_dir.outputs(&id), max_output, &ByteString::default()))
        })
    }

    /// Sends input to a run; `end` closes it. Returns when it is recorded.
    pub fn input<'a>(
        &'a self,
        id: &'a SessionId,
        run_id: &'a RunId,
        bytes: Vec<u8>,
        end: bool,
    ) -> BoxFuture<'a, Result<(), OpError>> {
        Box::pin(async move {
            let cell = live_cell(&self.access, "input", id, run_id).await?;
            if !cell.accepts_input(end) {
                return Err(OpError::NoInput { run_id: run_id.to_string() });
            }
            let by = self.access.scope().token().map(str::to_owned);
            let (answer, recorded) = oneshot::channel();
            control(&cell, RunControl::Input { bytes, end, typist: Some(Typist { by, answer }) }).await?;
            recorded.await.map_err(|_| OpError::RunEnded { run_id: run_id.to_string() })
        })
    }

    /// Sends a signal (`INT`, `TERM`, `KILL`, `USR1`, …; `SIG` may stand before it) to a run's processes.
    pub fn signal<'a>(
        &'a self,
        id: &'a SessionId,
        run_id: &'a RunId,
        signal: &'a str,
    ) -> BoxFuture<'a, Result<(), OpError>> {
        Box::pin(async move {
            let name = signal.strip_prefix("SIG").unwrap_or(signal);
            let number = translate::signal_number(name).and_then(|number| i32::try_from(number).ok());
            let Some(number) = number else {
                let detail = format!("'{signal}' is no signal; use a name such as INT, TERM, KILL, HUP, USR1");
                return Err(OpError::Invalid { detail });
            };
            let cell = live_cell(&self.access, "signal", id, run_id).await?;
            control(&cell, RunControl::Signal { number }).await
        })
    }
}

/// Starts a command. Returns when it runs.
pub(crate) async fn begin(access: &Access, id: &SessionId, command: RunCommand) -> Result<Started, OpError> {
    hand_over(access, id, command, RunReply::AtStart).await
}

/// Sends a command to its session.
async fn hand_over<T>(
    access: &Access,
    id: &SessionId,
    mut command: RunCommand,
    reply: impl FnOnce(oneshot::Sender<Result<T, OpError>>) -> RunReply,
) -> Result<T, OpError> {
    validate::command(&command)?;
    let Permitted { inner, id } = access.over(id)?;
    access.audit("run", id.as_str());
    command.by = access.scope().token().map(str::to_owned);
    let command = Box::new(command);
    inner.ctx.registry.ask(&id, |answer| Message::Run { command, reply: reply(answer) }).await
}

/// A run that has not ended, to do `operation` to it.
async fn live_cell(
    access: &Access,
    operation: &'static str,
    id: &SessionId,
    run_id: &RunId,
) -> Result<Arc<RunCell>, OpError> {
    let Permitted { inner, id } = access.over(id)?;
    if let Some(cell) = inner.ctx.runs.get(&id, run_id) {
        access.audit(operation, id.as_str());
        return Ok(cell);
    }
    inner.stored.run(&id, run_id).await?;
    Err(OpError::RunEnded { run_id: run_id.to_string() })
}

async fn control(cell: &RunCell, control: RunControl) -> Result<(), OpError> {
    cell.control.send(control).await.map_err(|_| OpError::RunEnded { run_id: cell.run_id.to_string() })
}
