//! Runs: started, watched, looked at, and sent input and signals.

use super::access::{Access, Permitted};
use super::handle::Engine;
use super::output;
use super::parts::Parts;
use super::past::Past;
use super::run_lists::RunListOps;
use super::take_over::HoldOps;
use crate::actor::{Cancellation, Message, RunReply, Started};
use crate::cell::{self, End, RunCell, RunControl, Taken, Typist};
use crate::ops::*;
use crate::screen::Picture;
use crate::screen::watched::WatchedScreen;
use crate::stored::read_error;
use crate::stream::RunStream;
use crate::{translate, validate};
use shellkeep_record::Budget;
use shellkeep_session::{ByteString, Notice, RunId, SessionId};
use shellkeep_store::RequestIndex;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

/// Longest wait in one call.
pub const MAX_WAIT: Duration = Duration::from_secs(300);

/// Who asked for a command that a person entered.
const PERSON: &str = "person";

/// Signals that end a command unless it handles them: one that has not started is cancelled by them.
const ENDING: [&str; 5] = ["INT", "TERM", "KILL", "HUP", "QUIT"];

/// Operations on runs that were started before.
pub struct RunOps<'a> {
    access: &'a Access,
}

impl Engine {
    /// Runs a command; returns at its end, or at once if it is not blocking.
    pub fn run<'a>(
        &'a self,
        id: &'a SessionId,
        command: impl Into<Box<RunCommand>>,
    ) -> BoxFuture<'a, Result<Box<RunView>, OpError>> {
        let command = command.into();
        Box::pin(async move {
            let max_output = command.max_output;
            if !command.blocking {
                return match begin(&self.access, id, command).await? {
                    Started::Live(cell) => {
                        let mut view = Box::new(cell.view(max_output));
                        let here_only = here_only(&self.access, id, &cell).await;
                        let here_only =
                            here_only.filter(|notice| view.notices.iter().all(|told| told.code != notice.code));
                        view.notices.extend(here_only);
                        Ok(view)
                    }
                    Started::Before(view) => Ok(view),
                };
            }
            hand_over(&self.access, id, command, RunReply::AtEnd).await
        })
    }

    /// Runs a command and watches it.
    pub fn run_stream<'a>(
        &'a self,
        id: &'a SessionId,
        command: impl Into<Box<RunCommand>>,
    ) -> BoxFuture<'a, Result<RunStream, OpError>> {
        let command = command.into();
        Box::pin(async move {
            let max_output = command.max_output;
            Ok(match begin(&self.access, id, command).await? {
                Started::Live(cell) => RunStream::live(cell, max_output, End::OfWaiting),
                Started::Before(view) => RunStream::ended(*view),
            })
        })
    }

    /// Operations on runs that were started before.
    pub fn runs(&self) -> RunOps<'_> {
        RunOps { access: &self.access }
    }
}

impl<'o> RunOps<'o> {
    /// Operations of a person who takes over.
    pub fn holds(&self) -> HoldOps<'o> {
        HoldOps { access: self.access }
    }

    /// Lists of runs.
    pub fn lists(&self) -> RunListOps<'o> {
        RunListOps { access: self.access }
    }

    /// The status of a run; waits up to `wait` for its end.
    pub fn view<'a>(
        &'a self,
        id: &'a SessionId,
        run_id: &'a RunId,
        wait: Duration,
        max_output: usize,
    ) -> BoxFuture<'a, Result<RunDetail, OpError>> {
        Box::pin(async move {
            let Ok(Permitted { parts, id }) = self.access.over(id) else {
                return Past::of(self.access, id).await?.run(run_id, max_output).await;
            };
            if let Some(cell) = parts.ctx.runs.get(&id, run_id) {
                let _ = tokio::time::timeout(wait.min(MAX_WAIT), cell.finished()).await;
                let run = cell.view(max_output);
                let (command, started_at) = (cell.start.command.clone(), cell.start.started_at);
                return Ok(RunDetail { run, command, started_at, origin: Origin::Node });
            }
            stored_detail(parts, &id, run_id, max_output).await
        })
    }

    /// Watches a run that was started before: its output from the beginning, then its result.
    pub fn watch<'a>(
        &'a self,
        id: &'a SessionId,
        run_id: &'a RunId,
        max_output: usize,
    ) -> BoxFuture<'a, Result<RunStream, OpError>> {
        Box::pin(async move {
            let Permitted { parts, id } = self.access.over(id)?;
            Ok(match parts.ctx.runs.get(&id, run_id) {
                Some(cell) => RunStream::live(cell, max_output, End::OfRun),
                None => RunStream::ended(stored_detail(parts, &id, run_id, max_output).await?.run),
            })
        })
    }

    /// Waits until a run has written more than `[stdout, stderr]` bytes or has ended, or until `wait` is over.
    pub fn more_output<'a>(
        &'a self,
        id: &'a SessionId,
        run_id: &'a RunId,
        seen: [u64; 2],
        wait: Duration,
    ) -> BoxFuture<'a, Result<(), OpError>> {
        Box::pin(async move {
            let Permitted { parts, id } = self.access.over(id)?;
            if let Some(cell) = parts.ctx.runs.get(&id, run_id) {
                let _ = tokio::time::timeout(wait.min(MAX_WAIT), cell.more_than(seen, None, End::OfRun)).await;
            }
            Ok(())
        })
    }

    /// Sends input to a run. Returns when it is recorded, with the number of bytes.
    pub fn input<'a>(
        &'a self,
        id: &'a SessionId,
        run_id: &'a RunId,
        input: RunInput,
        hold: Option<&'a str>,
    ) -> BoxFuture<'a, Result<usize, OpError>> {
        Box::pin(async move {
            let cell = live_cell(self.access, "input", id, run_id, hold).await?;
            let (bytes, end) = match input {
                RunInput::Bytes(bytes) => (bytes, false),
                RunInput::LastBytes(bytes) => (bytes, true),
                RunInput::Keys(keys) => (screen_of(&cell)?.sent_by(&keys), false),
            };
            if !cell.accepts_input(end) {
                let run_id = run_id.to_string();
                return Err(OpError::Run(match cell.start.takes_input {
                    true => RunError::InputClosed { run_id },
                    false => RunError::NoInput { run_id },
                }));
            }
            let by = self.access.scope().token().map(str::to_owned);
            let (sent, (answer, recorded)) = (bytes.len(), oneshot::channel());
            let share = self.access.at_large().shares.take_body(self.access.scope().agent(), sent)?;
            control(&cell, RunControl::Input { bytes, end, typist: Some(Typist { by, share, answer }) }).await?;
            let run_id = run_id.to_string();
            match recorded.await {
                Ok(Taken::All) => Ok(sent),
                Ok(Taken::TooMuch) => Err(RunError::InputFull { run_id }.into()),
                Err(_) => Err(RunError::Ended { run_id }.into()),
            }
        })
    }

    /// What the terminal of a run shows, once the wait is over.
    pub fn screen<'a>(
        &'a self,
        id: &'a SessionId,
        run_id: &'a RunId,
        query: ScreenQuery,
    ) -> BoxFuture<'a, Result<ScreenView, OpError>> {
        self.screen_as(id, run_id, query, |view| view)
    }

    /// The same, made into what the caller needs on the thread where it was drawn, in the caller's turn: both take
    /// milliseconds for a large screen, and it may be drawn for many at once.
    pub fn screen_as<'a, T: Send + 'static>(
        &'a self,
        id: &'a SessionId,
        run_id: &'a RunId,
        query: ScreenQuery,
        make: impl FnOnce(ScreenView) -> T + Send + 'static,
    ) -> BoxFuture<'a, Result<T, OpError>> {
        Box::pin(async move {
            let Permitted { parts, id } = self.access.over(id)?;
            let Some(cell) = parts.ctx.runs.get(&id, run_id) else {
                parts.stored.run(&id, run_id).await?;
                return Err(RunError::Ended { run_id: run_id.to_string() }.into());
            };
            let screen = screen_of(&cell)?;
            let limit = query.timeout.min(MAX_WAIT);
            let timed_out = tokio::select! {
                waited = tokio::time::timeout(limit, screen.wait(&query.wait)) => match waited {
                    Ok(waited) => waited.map(|()| false)?,
                    Err(_) => true,
                },
                () = cell.finished() => false,
            };
            let draw =
                move |_: &Budget| screen_of(&cell).map(|screen| make(screen_view(&cell, screen.picture(), timed_out)));
            parts.work.page_in_turn(self.access.scope().agent(), draw).await?
        })
    }

    /// The screens that a run with a terminal had.
    pub fn past_screens<'a>(
        &'a self,
        id: &'a SessionId,
        run_id: &'a RunId,
        query: PastScreenQuery,
    ) -> BoxFuture<'a, Result<PastScreens, OpError>> {
        Box::pin(async move { output::screens(self.access, id, run_id, query).await })
    }

    /// Changes the size of a run's terminal.
    pub fn resize<'a>(
        &'a self,
        id: &'a SessionId,
        run_id: &'a RunId,
        size: TerminalSize,
        hold: Option<&'a str>,
    ) -> BoxFuture<'a, Result<(), OpError>> {
        Box::pin(async move {
            validate::terminal(size)?;
            let cell = live_cell(self.access, "resize", id, run_id, hold).await?;
            screen_of(&cell)?;
            control(&cell, RunControl::Resize { size }).await
        })
    }

    /// Sends a signal (`INT`, `TERM`, `KILL`, `USR1`, …, in any case, with or without `SIG`) to a run's processes. A run is
    /// also found by its request id; if it has not started, a signal that would end it cancels it.
    pub fn signal<'a>(
        &'a self,
        id: &'a SessionId,
        run_id: &'a RunId,
        signal: &'a str,
        hold: Option<&'a str>,
    ) -> BoxFuture<'a, Result<Signalled, OpError>> {
        Box::pin(async move {
            let name = signal.to_ascii_uppercase();
            let name = name.strip_prefix("SIG").unwrap_or(&name);
            let number = translate::signal_number(name).and_then(|number| i32::try_from(number).ok());
            let Some(number) = number else {
                let detail = format!("unknown signal '{signal}'; use a name such as INT, TERM, KILL, HUP, USR1");
                return Err(OpError::Invalid { detail });
            };
            let cell = match live_cell(self.access, "signal", id, run_id, hold).await {
                Err(OpError::Run(RunError::NotFound { .. })) if ENDING.contains(&name) => {
                    match by_request(self.access, id, run_id, hold).await? {
                        Some(cell) => cell,
                        None => return Ok(Signalled::Cancelled),
                    }
                }
                other => other?,
            };
            control(&cell, RunControl::Signal { number }).await?;
            Ok(Signalled::Sent(cell.start.run_id.clone()))
        })
    }
}

/// The run that was asked for with this request id; `None` if it had not started, and was cancelled.
async fn by_request(
    access: &Access,
    id: &SessionId,
    request_id: &RunId,
    hold: Option<&str>,
) -> Result<Option<Arc<RunCell>>, OpError> {
    let Permitted { parts, id } = access.over(id)?;
    let cancel = |answer| Message::Cancel { request_id: request_id.to_string(), answer };
    match parts.ctx.registry.ask_awake(&id, cancel).await.transpose()?.unwrap_or(Cancellation::Unknown) {
        Cancellation::Done => {
            access.audit("cancel", id.as_str());
            Ok(None)
        }
        Cancellation::Started(run_id) => live_cell(access, "signal", &id, &run_id, hold).await.map(Some),
        Cancellation::Unknown => {
            let stored = RequestIndex::of(&parts.ctx.store, &id).run(request_id.as_str()).await;
            match stored.map_err(|error| read_error(&id, error))? {
                // It has most likely ended, which is found by its own name.
                Some(run) => live_cell(access, "signal", &id, &run.run_id, hold).await.map(Some),
                None => {
                    let (session_id, run_id) = (id.to_string(), request_id.to_string());
                    Err(RunError::NotFound { session_id, run_id }.into())
                }
            }
        }
    }
}

/// A run that has ended.
async fn stored_detail(parts: &Parts, id: &SessionId, run_id: &RunId, max_output: usize) -> Result<RunDetail, OpError> {
    let mut stored = parts.stored.run(id, run_id).await?;
    parts.ctx.kept_files.check_run(id, &mut stored).await?;
    let run = cell::stored_view(&stored, &parts.ctx.data_dir.outputs(id), max_output, &ByteString::default());
    Ok(RunDetail { run, command: stored.command, started_at: stored.started_at, origin: Origin::Node })
}

/// Starts a command. Returns when it runs.
pub(crate) async fn begin(access: &Access, id: &SessionId, command: Box<RunCommand>) -> Result<Started, OpError> {
    hand_over(access, id, command, RunReply::AtStart).await
}

/// What to say of a run that has begun if only this node knows that.
async fn here_only(access: &Access, id: &SessionId, cell: &RunCell) -> Option<Notice> {
    let Permitted { parts, id } = access.over(id).ok()?;
    // It has settled before it began, so this waits only if the store has just come back.
    parts.ctx.cluster.as_ref()?.settle(&id, cell.start.run_id.seq()?).await.ok()?
}

/// Sends a command to its session.
async fn hand_over<T>(
    access: &Access,
    id: &SessionId,
    mut command: Box<RunCommand>,
    reply: impl FnOnce(oneshot::Sender<Result<T, OpError>>) -> RunReply,
) -> Result<T, OpError> {
    validate::command(&command)?;
    let Permitted { parts, id } = access.over(id)?;
    access.audit("run", id.as_str());
    command.by = match command.is_person {
        true if access.as_host().is_err() => {
            let detail = "by: only the host can run a command as a person; omit it".to_owned();
            return Err(OpError::Invalid { detail });
        }
        true => Some(PERSON.to_owned()),
        false => access.scope().token().map(str::to_owned),
    };
    let bytes = command.command.0.len() + command.stdin.as_ref().map_or(0, |stdin| stdin.0.len());
    let share = parts.shares.take_body(access.scope().agent(), bytes)?;
    parts.ctx.registry.ask(&id, |answer| Message::Run { command, share, reply: reply(answer) }).await
}

/// A run that has not ended, to do `operation` to it. Refused while somebody else holds the session.
async fn live_cell(
    access: &Access,
    operation: &'static str,
    id: &SessionId,
    run_id: &RunId,
    hold: Option<&str>,
) -> Result<Arc<RunCell>, OpError> {
    let Permitted { parts, id } = access.over(id)?;
    if let Some(cell) = parts.ctx.runs.get(&id, run_id) {
        let hold = hold.map(str::to_owned);
        parts.ctx.registry.ask(&id, |answer| Message::MayAct { hold, answer }).await?;
        access.audit(operation, id.as_str());
        return Ok(cell);
    }
    parts.stored.run(&id, run_id).await?;
    Err(OpError::Run(RunError::Ended { run_id: run_id.to_string() }))
}

fn screen_of(cell: &RunCell) -> Result<&WatchedScreen, OpError> {
    cell.screen.as_deref().ok_or_else(|| RunError::NoTerminal { run_id: cell.start.run_id.to_string() }.into())
}

fn screen_view(cell: &RunCell, picture: Picture, timed_out: bool) -> ScreenView {
    let Picture { size, cursor, alternate, title, rows, dump, version, offset, masked } = picture;
    let (run_id, running) = (cell.start.run_id.clone(), !cell.is_finished());
    ScreenView { run_id, size, cursor, alternate, title, rows, dump, version, offset, masked, running, timed_out }
}

async fn control(cell: &RunCell, control: RunControl) -> Result<(), OpError> {
    cell.control
        .send(control)
        .await
        .map_err(|_| OpError::Run(RunError::Ended { run_id: cell.start.run_id.to_string() }))
}
