//! Runs a command for a model: starts it, reports progress, interrupts it when the client cancels, and words its
//! result.

use super::calls::Call;
use super::handler::Handler;
use super::order::QueuePosition;
use super::plain::plain;
use super::progress::Progress;
use super::seat::{Begun, Seat};
use super::text::{self, Style};
use super::tool::answer;
use crate::refusal::Refusal;
use crate::translate;
use axum::http::StatusCode;
use rmcp::RoleServer;
use rmcp::model::{CallToolResult, ContentBlock, ProtocolVersion};
use rmcp::service::RequestContext;
use shellkeep_protocol::RunResponse;
use shellkeep_runtime::{Attached, OpError, RunCommand, RunError, RunStream, RunView, attached};
use shellkeep_session::RunId;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Longest wait for the commands before it that is not counted: they are only being handed to the session.
const SHORT_WAIT: Duration = Duration::from_millis(50);

/// Runs a command in the caller's session.
pub async fn execute(
    handler: &Handler,
    context: &RequestContext<RoleServer>,
    command: RunCommand,
    style: Style,
) -> Result<CallToolResult, Refusal> {
    let seat = handler.seat(context)?;
    let call = handler.calls.begin(context.id.clone());
    let blocking = command.blocking;
    let Begun { mut run, is_new_session } = start(&seat, command, &call, context).await?;
    let view = if blocking { watch(&seat, &mut run, &call, context).await? } else { run.now() };
    let view = view.ok_or_else(|| Refusal::internal("a run ended without a result"))?;
    if handler.is_heard(context) {
        handler.notices_told(&seat, &view);
    }
    handler.output_shown(&seat, &view);
    let text = text::run(&view, &view.notices, style);
    let mut result = answer(text, &readable(translate::run_view(view)))?;
    if is_new_session {
        let saved = if style.names_tools() { seat.saved_files().await } else { None };
        let words: Vec<String> = seat.moved().await.into_iter().chain(saved).collect();
        if !words.is_empty() {
            result.content.push(ContentBlock::text(format!("[new session. {}]", words.join(" "))));
        }
    }
    Ok(result)
}

/// Starts a command in its turn, after those that its client sent before. One whose call is cancelled before that is
/// not started; a client that disconnects does not cancel it.
async fn start(
    seat: &Seat,
    command: RunCommand,
    call: &Call<'_>,
    context: &RequestContext<RoleServer>,
) -> Result<Begun, Refusal> {
    let (attached, hang_up) = attached();
    let waiting = Waiting(Some(attached));
    let position = context.extensions.get::<Arc<QueuePosition>>();
    if let Some(waiting) = position.and_then(|position| position.too_many()) {
        let session_id = seat.session.to_string();
        return Err(OpError::from(RunError::QueueFull { session_id, waiting }).into());
    }
    let begin = async {
        let patience = match position {
            Some(position) => wait(position, &command).await,
            None => command.patience,
        };
        let begun = seat.run(RunCommand { patience, hang_up: Some(hang_up), ..command }).await;
        if let Some(position) = position {
            position.leave();
        }
        begun
    };
    tokio::select! {
        biased;
        begun = begin => Ok(begun?),
        () = cancelled(call, context) => {
            waiting.cancel();
            let detail = "the call was cancelled before its command started; nothing was run";
            Err(Refusal::new(StatusCode::CONFLICT, "cancelled", detail))
        }
    }
}

/// Waits for the commands before it, as long as a command may wait for its session, and returns how long it may still wait
/// for that: it is one wait to the caller. After it, the session says what it is busy with.
async fn wait(position: &QueuePosition, command: &RunCommand) -> Option<Duration> {
    let limit = command.patience.unwrap_or(command.timeout);
    let began = Instant::now();
    // If it is over, no command before it has started, and so the session is still busy.
    let _ = tokio::time::timeout(limit, position.reached()).await;
    let waited = began.elapsed();
    if waited > SHORT_WAIT { Some(limit.saturating_sub(waited)) } else { command.patience }
}

/// A call whose command waits for its turn.
struct Waiting(Option<Attached>);

impl Waiting {
    fn cancel(mut self) {
        self.0 = None;
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.take().into_iter().for_each(Attached::leave);
    }
}

/// A result without escape codes: some clients show a model the data instead of the text.
fn readable(run: RunResponse) -> RunResponse {
    RunResponse {
        stdout: plain(&run.stdout),
        stderr: plain(&run.stderr),
        background_output: run.background_output.as_deref().map(plain),
        ..run
    }
}

/// Waits for a run's end. A client that disconnects does not end it; one that cancels does.
async fn watch(
    seat: &Seat,
    run: &mut RunStream,
    call: &Call<'_>,
    context: &RequestContext<RoleServer>,
) -> Result<Option<RunView>, Refusal> {
    let run_id = run.run_id().clone();
    let mut progress = Progress::of(context);
    let mut interrupted = false;
    loop {
        let end = async {
            match &mut progress {
                Some(progress) => progress.follow(run).await.transpose(),
                None => Ok(run.result().await),
            }
        };
        tokio::select! {
            biased;
            () = cancelled(call, context), if !interrupted => {
                interrupted = true;
                interrupt(seat, &run_id).await;
            }
            view = end => return Ok(view?),
        }
    }
}

/// Returns when the client cancels. Since 2026-07-28, closing the response is the only way to cancel over HTTP; in
/// every other case disconnecting does not cancel.
async fn cancelled(call: &Call<'_>, context: &RequestContext<RoleServer>) {
    let stateless = context.extensions.get::<axum::http::request::Parts>().is_some()
        && context.protocol_version().is_some_and(|version| version >= ProtocolVersion::V_2026_07_28);
    if stateless {
        context.ct.cancelled().await;
    } else {
        call.cancelled().await;
    }
}

async fn interrupt(seat: &Seat, run_id: &RunId) {
    match seat.engine.runs().signal(&seat.session, run_id, "INT", None).await {
        // It ended on its own at the same moment.
        Ok(_) | Err(OpError::Run(RunError::Ended { .. })) => {}
        Err(error) => tracing::warn!(%error, "a cancelled command could not be interrupted"),
    }
}
