//! Waiting for a command's turn: says what it waits for, and Ctrl-C cancels it instead of leaving it to run later.

use crate::client::{Client, ClientError, Endpoint};
use crate::failure::Failure;
use crate::terminal;
use shellkeep_protocol::{RunList, RunStatus, SignalRequest, SignalSent};
use shellkeep_session::plan::shorten;
use std::future::Future;
use std::pin::pin;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::sleep;

/// A command starts within some milliseconds unless it has to wait.
const AT_ONCE: Duration = Duration::from_millis(250);
/// On a terminal a question may come first, and Ctrl-C at a question just ends us.
const AFTER_QUESTION: Duration = Duration::from_millis(50);
/// The newest runs, among which the one that is in the way is looked for.
const LOOKED_AT: usize = 50;

/// Our command, which may have to wait.
pub struct Turn {
    pub endpoint: Endpoint,
    pub session: String,
    /// The command's key.
    pub request_id: String,
    /// Our hold on the session.
    pub hold: Option<String>,
}

/// What the daemon answered, and the presses of Ctrl-C from here on.
pub struct Answered<T> {
    pub answer: T,
    pub presses: Signal,
}

impl Turn {
    /// Waits for the daemon's answer. `None` if Ctrl-C cancelled the command, or a second one left it alone.
    pub async fn wait<T>(&self, ask: impl Future<Output = Result<T, Failure>>) -> Result<Option<Answered<T>>, Failure> {
        let (mut ask, mut explain) = (pin!(ask), pin!(self.explain()));
        let listens_after = if terminal::can_ask() { AFTER_QUESTION } else { Duration::ZERO };
        let early = tokio::select! {
            biased;
            answer = ask.as_mut(), if !listens_after.is_zero() => Some(answer?),
            () = sleep(listens_after) => None,
        };
        let mut presses = signal(SignalKind::interrupt()).map_err(Failure::client)?;
        if let Some(answer) = early {
            return Ok(Some(Answered { answer, presses }));
        }
        let (mut explained, mut pressed) = (false, false);
        loop {
            tokio::select! {
                biased;
                answer = ask.as_mut() => return match answer {
                    Ok(answer) => Ok(Some(Answered { answer, presses })),
                    Err(_) if pressed => Ok(None),
                    Err(failure) => Err(failure),
                },
                _ = presses.recv() => {
                    if pressed {
                        return Ok(None);
                    }
                    pressed = true;
                    self.interrupt().await?;
                }
                () = explain.as_mut(), if !explained => explained = true,
            }
        }
    }

    /// Interrupts our command, or cancels it if it has not started.
    pub async fn interrupt(&self) -> Result<(), Failure> {
        let mut client = Client::connect(&self.endpoint).await.map_err(Failure::client)?;
        let path = format!("/v1/sessions/{}/runs/{}/signal", self.session, self.request_id);
        let request = SignalRequest { signal: "INT".to_owned(), hold: self.hold.clone() };
        match client.post::<_, SignalSent>(&path, &request).await {
            // It ended while we asked: all the better.
            Err(ClientError::Refused(refused)) if ["run_ended", "run_not_found"].contains(&&*refused.problem.code) => {
                Ok(())
            }
            sent => {
                sent?;
                Ok(())
            }
        }
    }

    /// Says what our command waits for, if another one is in the way.
    async fn explain(&self) {
        sleep(AT_ONCE).await;
        let Ok(mut client) = Client::connect(&self.endpoint).await else { return };
        let path = format!("/v1/sessions/{}/runs?limit={LOOKED_AT}", self.session);
        // If the list cannot be read, nothing is shown; the command waits anyway.
        let Ok(list) = client.get::<RunList>(&path).await else { return };
        let is_in_the_way = |run: &&shellkeep_protocol::RunSummary| run.status == RunStatus::Running && !run.background;
        let Some(run) = list.runs.iter().find(is_in_the_way) else { return };
        if run.request_id.as_ref() == Some(&self.request_id) {
            return;
        }
        let seconds = (run.duration_ms / 1000.0).floor();
        terminal::notice(&format!(
            "waiting for {} in session '{}', running for {seconds} s: {}; Ctrl-C cancels",
            run.run_id,
            self.session,
            terminal::harmless(&shorten(&run.command)),
        ));
    }
}
