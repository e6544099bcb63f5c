//! An agent from its first line to its end: its messages are recorded, its commands are run, and at its timeout it is
//! killed with everything it started.

use super::answer::{MAX_ANSWER, Masked, floor};
use super::last_words::LastWords;
use super::lines::{Cut, Lines, MAX_LINE};
use super::talk::{self, Opening, Said, Wrong};
use super::tools::Tools;
use super::{SessionLog, Turn, Work};
use crate::crash::{self, Point};
use crate::engine::Access;
use crate::ops::{
    ClusterError, Expected, NewEvent, NewMessage, OpError, RecordError, ResumeStatus, ResumeView, RunView,
    SaveAgentState, SessionError,
};
use crate::tasks;
use crate::validate;
use serde_json::json;
use shellkeep_process::stdio::Writer;
use shellkeep_process::{ExitStatus, Heard, Program, Stream};
use shellkeep_redact::Redactor;
use shellkeep_session::agent::{FINAL_OUTPUT, RESUME_ENDED};
use shellkeep_session::{Author, SessionId};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;

/// Lines that may wait for an agent that does not read.
const TO_TELL: usize = 64;
/// Maximum number of invalid lines; an agent with more does not speak the protocol.
const MAX_WRONG: usize = 100;
/// Maximum number of events for one message; an agent with more is in a loop.
const MAX_EVENTS: usize = 100_000;
/// An agent that has closed its output or said that it is done has this long to exit on its own.
const EXIT_GRACE: Duration = Duration::from_secs(2);
/// Time between SIGTERM and SIGKILL.
const TERM_GRACE: Duration = Duration::from_secs(2);

/// How it ended, before it is recorded.
#[derive(Debug)]
enum End {
    Done {
        output: Option<String>,
    },
    Interrupted {
        reason: String,
    },
    Failed {
        reason: String,
    },
    TimedOut,
    /// It exited before it was done; how, if that is known.
    Gone {
        status: Option<ExitStatus>,
    },
}

enum Next {
    End(End),
    Line(Cut),
    Called { id: String, outcome: Box<Result<RunView, OpError>> },
}

/// How the reading of an agent's output goes.
#[derive(Debug, Clone, Copy)]
enum Hearing {
    /// It may write more.
    Open,
    /// It has closed its output; how it exited, if it did in time.
    Over { status: Option<ExitStatus> },
}

/// An agent that was started, and what it works on.
pub(crate) struct StartedAgent {
    pub(crate) id: SessionId,
    pub(crate) program: Program,
    /// What watchers see.
    pub(crate) work: Arc<Work>,
    /// Where its work is recorded.
    pub(crate) log: SessionLog,
    /// Masks its answer, if the host configured that.
    pub(crate) redactor: Option<Redactor>,
    /// Number of the record with which its last step was complete.
    pub(crate) step: u64,
    /// Version of the state that it was sent, or has saved since.
    pub(crate) version: Option<u64>,
    /// Number of the last event so far.
    pub(crate) last_seq: u64,
}

/// A running agent.
pub(crate) struct Drive {
    agent: StartedAgent,
    to_tell: mpsc::Sender<Vec<u8>>,
    deadline: Instant,
    /// Steps that it has completed.
    steps: u64,
    masked: Option<Masked>,
    lines: Lines,
    stderr: LastWords,
    hearing: Hearing,
    tools: Tools,
    wrong: usize,
    events: usize,
    streamed: bool,
    /// Held until its end is recorded.
    turn: Option<Turn>,
}

impl Drive {
    /// An agent that has not received anything; `stdin` is what it reads. Its commands have the rights of `access`.
    pub(crate) fn new(agent: StartedAgent, stdin: Writer, access: Access, timeout: Duration, turn: Turn) -> Self {
        let deadline = Instant::now() + timeout;
        Self {
            tools: Tools::new(access, agent.id.clone(), deadline),
            to_tell: spawn_teller(stdin),
            deadline,
            steps: 0,
            masked: agent.redactor.as_ref().map(Masked::new),
            stderr: LastWords::new(agent.redactor.as_ref()),
            lines: Lines::default(),
            hearing: Hearing::Open,
            wrong: 0,
            events: 0,
            streamed: false,
            turn: Some(turn),
            agent,
        }
    }

    /// Sends it the message, and drives it to its end.
    pub(crate) async fn run(mut self, opening: Opening<'_>) {
        let mut end = self.tell(opening.line()).await.err();
        while end.is_none() {
            end = match self.next().await {
                Next::End(end) => Some(end),
                Next::Line(cut) => self.on_line(cut).await.err(),
                Next::Called { id, outcome } => self.tell(talk::tool_result(&id, &outcome)).await.err(),
            };
        }
        let end = end.unwrap_or(End::TimedOut);
        self.finish(end).await;
    }

    async fn next(&mut self) -> Next {
        let Self { agent: StartedAgent { work, program, .. }, lines, stderr, hearing, tools, deadline, .. } = self;
        let line = async {
            loop {
                if let Some(cut) = lines.next() {
                    return Next::Line(cut);
                }
                if let Hearing::Over { status } = *hearing {
                    return lines.rest().map_or(Next::End(End::Gone { status }), Next::Line);
                }
                let mut sink = |stream: Stream, bytes: &[u8]| match stream {
                    Stream::Stdout => lines.push(bytes),
                    Stream::Stderr => stderr.hear(bytes),
                };
                match program.hear(&mut sink).await {
                    Heard::Output => {}
                    Heard::Ended(status) => *hearing = Hearing::Over { status: Some(status) },
                    Heard::Closed => {
                        let status = tokio::time::timeout(EXIT_GRACE, program.ended(&mut sink)).await.ok();
                        *hearing = Hearing::Over { status };
                    }
                }
            }
        };
        tokio::select! {
            biased;
            end = over(work, *deadline) => Next::End(end),
            (id, outcome) = tools.ended() => Next::Called { id, outcome: Box::new(outcome) },
            next = line => next,
        }
    }

    /// Sends a line to the agent. An agent that does not read blocks only itself, until its deadline.
    async fn tell(&mut self, line: Vec<u8>) -> Result<(), End> {
        tokio::select! {
            biased;
            end = over(&self.agent.work, self.deadline) => Err(end),
            // An agent that has closed its input gets no more lines; it may continue without them.
            _ = self.to_tell.send(line) => Ok(()),
        }
    }

    async fn on_line(&mut self, cut: Cut) -> Result<(), End> {
        let said = match cut {
            Cut::Line(line) => talk::read(&line),
            Cut::TooLong => Err(Wrong {
                code: "line_too_long",
                detail: format!(
                    "the line has more than {MAX_LINE} bytes; put large data into a file and its path here"
                ),
                id: None,
            }),
        };
        match said {
            Ok(Said::Event { event_type, data }) => self.on_event(NewEvent { event_type, data }).await,
            Ok(Said::Output { text }) => {
                self.streamed = true;
                self.answer(&text);
                Ok(())
            }
            Ok(Said::Call(call)) => {
                let id = call.id.clone();
                match self.tools.ask(call, self.agent.step) {
                    Ok(()) => Ok(()),
                    Err(detail) => self.refuse(Wrong { code: "bad_call", detail, id: Some(id) }).await,
                }
            }
            Ok(Said::State { media_type, bytes }) => self.on_state(media_type, bytes).await,
            Ok(Said::Done { output }) => Err(End::Done { output }),
            Err(wrong) => self.refuse(wrong).await,
        }
    }

    /// Reports an invalid line, unless there were too many.
    async fn refuse(&mut self, wrong: Wrong) -> Result<(), End> {
        metrics::counter!("shellkeep_agent_bad_lines_total").increment(1);
        self.wrong += 1;
        if self.wrong >= MAX_WRONG {
            let reason = format!("the agent wrote {MAX_WRONG} invalid lines; the last error: {}", wrong.detail);
            return Err(End::Failed { reason });
        }
        self.tell(talk::error(&wrong)).await
    }

    async fn on_event(&mut self, event: NewEvent) -> Result<(), End> {
        self.events += 1;
        if self.events > MAX_EVENTS {
            let reason = format!("the agent sent more than {MAX_EVENTS} events for one message");
            return Err(End::Failed { reason });
        }
        if let Err(error) = validate::records::events(std::slice::from_ref(&event)) {
            return self.refuse(Wrong { code: error.code(), detail: error.to_string(), id: None }).await;
        }
        match self.agent.log.event(event, Author::program()).await {
            Ok(posted) => {
                self.agent.last_seq = posted.last_seq;
                Ok(())
            }
            Err(error) => self.not_kept(error).await,
        }
    }

    /// A step is complete.
    async fn on_state(&mut self, media_type: String, bytes: Vec<u8>) -> Result<(), End> {
        let save = SaveAgentState {
            media_type,
            bytes,
            expected: self.agent.version.map_or(Expected::Nothing, Expected::Version),
        };
        if let Err(error) = validate::records::agent_state(&save) {
            return self.refuse(Wrong { code: error.code(), detail: error.to_string(), id: None }).await;
        }
        match self.agent.log.state(save).await {
            Ok(saved) => {
                crash::point(Point::StateSaved, self.agent.work.message.as_bytes());
                (self.agent.version, self.agent.step, self.agent.last_seq) =
                    (Some(saved.version), saved.seq, saved.seq);
                self.steps += 1;
                self.tools.step();
                let warning = saved.notices.first().map(|notice| notice.message.as_str());
                self.tell(talk::saved(saved.version, warning)).await
            }
            Err(OpError::Record(RecordError::VersionConflict { current })) => {
                let now = current.map_or("is gone".to_owned(), |version| format!("has version {version}"));
                let reason = format!(
                    "another client saved the agent's state, which {now} now; send the message again to continue from \
                        that"
                );
                Err(End::Failed { reason })
            }
            Err(error) => self.not_kept(error).await,
        }
    }

    /// The session or its store refused something: the agent gets an error, unless there is nothing left to work for.
    async fn not_kept(&mut self, error: OpError) -> Result<(), End> {
        match error {
            OpError::Session(SessionError::NotFound { .. }) => {
                Err(End::Interrupted { reason: "the session was deleted".to_owned() })
            }
            OpError::ShuttingDown | OpError::Cluster(ClusterError::Moved { .. }) => {
                Err(End::Interrupted { reason: error.to_string() })
            }
            _ => self.refuse(Wrong { code: error.code(), detail: error.to_string(), id: None }).await,
        }
    }

    /// A piece of the answer, masked if the host configured that.
    fn answer(&mut self, text: &str) {
        match &mut self.masked {
            Some(masked) => self.agent.work.push(&masked.push(text)),
            None => self.agent.work.push(text),
        }
    }

    /// Stops everything, records the result, and returns it.
    async fn finish(mut self, end: End) {
        self.tools.stop().await;
        self.rest(&end).await;
        if let Some(masked) = self.masked.take() {
            self.agent.work.push(&masked.finish());
        }
        let (status, error) = self.verdict(&end);
        let output = self.output(end);
        let mut view = ResumeView {
            resume_id: self.agent.work.resume_id.clone(),
            output,
            status,
            steps: self.steps,
            agent_state_version: self.agent.version.unwrap_or(0),
            seq_from: self.agent.work.seq_from,
            seq_to: self.agent.last_seq,
            error,
        };
        metrics::counter!("shellkeep_resumes_total", "status" => status.as_str()).increment(1);
        if let Err(error) = self.record_result(&mut view).await {
            tracing::warn!(session = %self.agent.id, %error, "the end of an agent's work is not recorded");
        }
        // A caller that gets the result may send the next message at once.
        self.turn = None;
        self.agent.work.finish(view);
    }

    /// Kills the agent with everything it started.
    async fn rest(&mut self, end: &End) {
        let (to_tell, _) = mpsc::channel(1);
        let to_tell = std::mem::replace(&mut self.to_tell, to_tell);
        let stderr = &mut self.stderr;
        // Further output does not matter.
        let mut last_words = |stream: Stream, bytes: &[u8]| {
            if stream == Stream::Stderr {
                stderr.hear(bytes);
            }
        };
        match end {
            End::Done { .. } | End::Gone { status: Some(_) } => {
                // Its input ends with this.
                drop(to_tell);
                let _ = tokio::time::timeout(EXIT_GRACE, self.agent.program.ended(&mut last_words)).await;
            }
            End::Gone { status: None } => drop(to_tell),
            End::TimedOut => drop(to_tell.try_send(talk::stop("it timed out"))),
            End::Interrupted { reason } | End::Failed { reason } => drop(to_tell.try_send(talk::stop(reason))),
        }
        self.agent.program.stop(TERM_GRACE, &mut last_words).await;
    }

    /// The status, and what is wrong; masked like the answer, because an agent can put anything into a line that is
    /// invalid.
    fn verdict(&mut self, end: &End) -> (ResumeStatus, Option<String>) {
        let last_words = match std::mem::take(&mut self.stderr).told() {
            text if text.is_empty() => text,
            text => format!(". The end of its stderr: {text}"),
        };
        let (status, error) = match end {
            End::Done { .. } => (ResumeStatus::Done, None),
            End::Interrupted { reason } => (ResumeStatus::Interrupted, Some(format!("{reason}; {GO_ON}"))),
            End::Failed { reason } => (ResumeStatus::Failed, Some(format!("{reason}{last_words}"))),
            End::TimedOut => {
                let error = format!("the agent timed out and was killed; {GO_ON}{last_words}");
                (ResumeStatus::TimedOut, Some(error))
            }
            End::Gone { status } => {
                let how = match status {
                    Some(ExitStatus::Exited(code)) => format!("ended with exit code {code}"),
                    Some(ExitStatus::Signalled(signal)) => format!("ended by signal {signal}"),
                    None => "closed its output".to_owned(),
                };
                let error = format!("the agent {how} before it reported that it was done; {GO_ON}{last_words}");
                (ResumeStatus::Failed, Some(error))
            }
        };
        (status, error.map(|error| self.masked_text(error)))
    }

    fn masked_text(&self, text: String) -> String {
        match &self.agent.redactor {
            Some(redactor) => redactor.redact_str(&text),
            None => text,
        }
    }

    /// The answer: the final one, or the streamed parts.
    fn output(&self, end: End) -> String {
        let (mut text, left_out) = match end {
            End::Done { output: Some(output) } => {
                let output = self.masked_text(output);
                let kept = floor(&output, MAX_ANSWER);
                (output[..kept].to_owned(), output.len() - kept)
            }
            _ => self.agent.work.answer(),
        };
        if left_out > 0 {
            text.push_str("\n[the answer was truncated; this is its beginning]");
        }
        text
    }

    async fn record_result(&mut self, view: &mut ResumeView) -> Result<(), OpError> {
        let mut data = json!({
            "output": view.output,
            "stream": self.streamed,
            "resume_id": view.resume_id,
            "status": view.status.as_str(),
            "steps": view.steps,
            "agent_state_version": view.agent_state_version,
            "seq_from": view.seq_from,
        });
        if let Some(request_id) = &self.agent.work.request_id {
            data["request_id"] = request_id.as_str().into();
        }
        if let Some(error) = &view.error {
            data["error"] = error.as_str().into();
        }
        let event_type = match view.status {
            ResumeStatus::Done => {
                let message = NewMessage { role: "assistant".to_owned(), content: view.output.as_str().into() };
                view.seq_to = self.agent.log.message(message, Author::runtime(None)).await?.seq;
                FINAL_OUTPUT
            }
            _ => RESUME_ENDED,
        };
        let event = NewEvent { event_type: event_type.to_owned(), data };
        view.seq_to = self.agent.log.event(event, Author::runtime(None)).await?.last_seq;
        Ok(())
    }
}

/// What to do about work that is not done.
const GO_ON: &str = "its completed steps are kept, and the next message continues from there";

/// Waits until the work must end, whatever the agent does.
async fn over(work: &Work, deadline: Instant) -> End {
    tokio::select! {
        biased;
        reason = work.stopped() => End::Interrupted { reason },
        () = work.abandoned() => End::Interrupted { reason: "the caller disconnected".to_owned() },
        () = tokio::time::sleep_until(deadline) => End::TimedOut,
    }
}

/// Writes to an agent in a separate task: it may read slowly, and we must read its output in the meantime.
fn spawn_teller(stdin: Writer) -> mpsc::Sender<Vec<u8>> {
    let (sender, mut lines) = mpsc::channel::<Vec<u8>>(TO_TELL);
    tasks::spawn(async move {
        while let Some(line) = lines.recv().await {
            if stdin.write_all(&line).await.is_err() {
                return;
            }
        }
    });
    sender
}
