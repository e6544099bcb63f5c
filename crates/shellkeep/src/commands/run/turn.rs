//! Waiting for a command's turn: says what it waits for, and a signal cancels it instead of leaving it to run later.

use super::stops::{Stop, Stops};
use crate::client::{Client, ClientError, Endpoint};
use crate::failure::Failure;
use crate::terminal;
use shellkeep_protocol::{RunList, RunStatus, SignalRequest, SignalSent};
use shellkeep_session::plan::shorten;
use std::future::Future;
use std::ops::ControlFlow;
use std::pin::pin;
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// A command starts within some milliseconds unless it has to wait.
const AT_ONCE: Duration = Duration::from_millis(250);
/// On a terminal a question may come first, and Ctrl-C at a question just ends us.
const AFTER_QUESTION: Duration = Duration::from_millis(50);
/// How soon a signal is passed on again if it came before the daemon had our command.
const AGAIN: Duration = Duration::from_millis(50);
/// How long the daemon may take to pass a signal on. The sender wants us to end, even if the daemon is stuck.
const PASSED_ON: Duration = Duration::from_secs(5);
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

/// How the wait for a command's turn ended.
pub enum Waited<T> {
    Answered(Answered<T>),
    /// A signal cancelled the command, or was the second one, which leaves the command alone.
    Left(Stop),
}

/// What the daemon answered, and the signals from here on.
pub struct Answered<T> {
    pub answer: T,
    pub stops: Stops,
    /// The one that was passed on already.
    pub stopped: Option<Stop>,
}

/// What became of a signal that was to be passed on.
pub enum Passed {
    /// Our command got it, or has ended.
    Arrived,
    /// The daemon does not have our command yet.
    TooEarly,
    /// The daemon did not answer. That was said.
    Unanswered,
}

/// A signal that was passed on.
#[derive(Clone, Copy)]
struct Sent {
    stop: Stop,
    /// Whether there was a command that got it.
    arrived: bool,
}

impl Turn {
    /// Waits for the daemon's answer.
    pub async fn wait<T>(&self, ask: impl Future<Output = Result<T, Failure>>) -> Result<Waited<T>, Failure> {
        let (mut ask, mut explain) = (pin!(ask), pin!(self.explain()));
        let listens_after = if terminal::can_ask() { AFTER_QUESTION } else { Duration::ZERO };
        let early = tokio::select! {
            biased;
            answer = ask.as_mut(), if !listens_after.is_zero() => Some(answer?),
            () = sleep(listens_after) => None,
        };
        let mut stops = Stops::listen()?;
        if let Some(answer) = early {
            return Ok(Waited::Answered(Answered { answer, stops, stopped: None }));
        }
        let (mut explained, mut sent) = (false, None::<Sent>);
        loop {
            tokio::select! {
                biased;
                answer = ask.as_mut() => return match (answer, sent) {
                    (Ok(answer), sent) => {
                        if let Some(Sent { stop, arrived: false }) = sent
                            && let ControlFlow::Break(stop) = self.send(stop, &mut stops).await?
                        {
                            return Ok(Waited::Left(stop));
                        }
                        Ok(Waited::Answered(Answered { answer, stops, stopped: sent.map(|sent| sent.stop) }))
                    }
                    (Err(_), Some(Sent { stop, .. })) => Ok(Waited::Left(stop)),
                    (Err(failure), None) => Err(failure),
                },
                stop = stops.next() => {
                    if sent.is_some() {
                        return Ok(Waited::Left(stop));
                    }
                    match self.send(stop, &mut stops).await? {
                        ControlFlow::Continue(passed) => sent = Some(passed),
                        ControlFlow::Break(stop) => return Ok(Waited::Left(stop)),
                    }
                }
                Some(stop) = too_early(sent) => match self.send(stop, &mut stops).await? {
                    ControlFlow::Continue(passed) => sent = Some(passed),
                    ControlFlow::Break(stop) => return Ok(Waited::Left(stop)),
                },
                () = explain.as_mut(), if !explained => explained = true,
            }
        }
    }

    /// Passes a signal on while it listens for the next one. Breaks with the one that ends us: the second, or this one if the
    /// daemon does not answer.
    async fn send(&self, stop: Stop, stops: &mut Stops) -> Result<ControlFlow<Stop, Sent>, Failure> {
        let passed = tokio::select! {
            passed = self.pass_on(stop) => passed?,
            second = stops.next() => return Ok(ControlFlow::Break(second)),
        };
        Ok(match passed {
            Passed::Arrived => ControlFlow::Continue(Sent { stop, arrived: true }),
            Passed::TooEarly => ControlFlow::Continue(Sent { stop, arrived: false }),
            Passed::Unanswered => ControlFlow::Break(stop),
        })
    }

    /// Sends our command a signal, or cancels it if it has not started.
    pub async fn pass_on(&self, stop: Stop) -> Result<Passed, Failure> {
        match timeout(PASSED_ON, self.ask_to_pass_on(stop)).await {
            Ok(arrived) => Ok(if arrived? { Passed::Arrived } else { Passed::TooEarly }),
            Err(_) => {
                terminal::notice(
                    "the daemon does not answer; the command may have run, may still run, or may run later",
                );
                Ok(Passed::Unanswered)
            }
        }
    }

    /// False if the daemon does not have our command yet.
    async fn ask_to_pass_on(&self, stop: Stop) -> Result<bool, Failure> {
        let mut client = Client::connect(&self.endpoint).await.map_err(Failure::client)?;
        let path = format!("/v1/sessions/{}/runs/{}/signal", self.session, self.request_id);
        let request = SignalRequest { signal: stop.name().to_owned(), hold: self.hold.clone() };
        match client.post::<_, SignalSent>(&path, &request).await {
            // It ended while we asked: all the better.
            Err(ClientError::Refused(refused)) if refused.problem.code == "run_ended" => Ok(true),
            Err(ClientError::Refused(refused))
                if ["run_not_found", "session_not_found"].contains(&&*refused.problem.code) =>
            {
                Ok(false)
            }
            sent => {
                sent?;
                Ok(true)
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

/// The signal that came before the daemon had our command, after a moment; at once nothing if there is none.
async fn too_early(sent: Option<Sent>) -> Option<Stop> {
    let stop = sent.filter(|sent| !sent.arrived)?.stop;
    sleep(AGAIN).await;
    Some(stop)
}
