//! Resuming: a message for a session's agent. Permissions, turns, and what the agent starts with; the rest is in
//! [`crate::resume`].

use super::access::{Access, Permitted};
use super::drain::DRAINED;
use super::handle::Engine;
use super::parts::Parts;
use super::records::RecordOps;
use crate::actor::{Message, confine};
use crate::crash::{self, Point};
use crate::ops::*;
use crate::resume::config::AgentProgram;
use crate::resume::drive::{Drive, StartedAgent};
use crate::resume::stream::ResumeStream;
use crate::resume::{Opening, SessionLog, Turn, Work};
use crate::stored::read_error;
use crate::tasks;
use serde_json::{Value, json};
use shellkeep_process::stdio::Writer;
use shellkeep_process::{Program, ProgramSpec};
use shellkeep_session::agent::USER_INPUT;
use shellkeep_session::{Author, QuotaName, SessionId, SessionState, StoredResume, id};
use shellkeep_store::RequestIndex;
use std::sync::Arc;
use std::time::Duration;

/// Messages of the conversation that an agent gets; it can read the others over HTTP.
const MESSAGES_TOLD: u64 = 100;
/// Bytes of them. Of a longer conversation it gets the newest messages, and always the last one.
const MESSAGES_BYTES: usize = 4 << 20;

/// The result of an earlier call with the same key.
enum Earlier {
    /// There was none.
    Never,
    /// It ended.
    Ended(Box<ResumeView>),
    /// The daemon died in between.
    CutOff {
        resume_id: String,
        /// Number of the message's event.
        seq: u64,
    },
}

impl Engine {
    /// Sends a message to a session's agent, which continues from its last step, and returns the result. Dropping this
    /// stops the agent, unless the request has a key.
    pub fn resume<'a>(
        &'a self,
        id: &'a SessionId,
        request: ResumeSession,
    ) -> BoxFuture<'a, Result<ResumeView, OpError>> {
        Box::pin(async move { Ok(self.resume_stream(id, request).await?.result().await) })
    }

    /// The same as a stream: events and pieces of the answer as they arrive.
    pub fn resume_stream<'a>(
        &'a self,
        id: &'a SessionId,
        request: ResumeSession,
    ) -> BoxFuture<'a, Result<ResumeStream, OpError>> {
        Box::pin(async move {
            check(&request)?;
            let Permitted { parts, id } = self.access.over(id)?;
            let (parts, id) = (Arc::clone(parts), id.into_owned());
            self.access.audit("resume", id.as_str());
            parts.ctx.lifetime.check_accepting()?;
            let agent = agent_of(&*parts.ctx.registry.snapshot(&id).await?)?;
            let timeout = request.timeout.unwrap_or(agent.timeout);
            if let Some(stream) = known(&self.access, &parts, &id, &request).await? {
                return Ok(stream);
            }
            parts.ctx.check_staying(&id)?;
            let turn = parts.agents.place(&id).take(&request, timeout).await?;
            // While it waited, the same request may have completed.
            let earlier = earlier(&parts, &id, &request).await?;
            if let Earlier::Ended(view) = earlier {
                return Ok(ResumeStream::ended(*view));
            }
            // The drain may have ended the work that it waited for.
            parts.ctx.check_staying(&id)?;
            // In its own task: if the caller disconnects now, the message is recorded, so its end must be too.
            let access = self.access.clone();
            let beginning =
                tasks::spawn(async move { begin_resume(&access, parts, id, request, timeout, turn, earlier).await });
            beginning.await?
        })
    }
}

/// The work of an earlier call with the same key, running or ended.
async fn known(
    access: &Access,
    parts: &Arc<Parts>,
    id: &SessionId,
    request: &ResumeSession,
) -> Result<Option<ResumeStream>, OpError> {
    let Some(request_id) = &request.request_id else { return Ok(None) };
    let current = parts.agents.place(id).work();
    if let Some(work) = current.filter(|work| work.request_id.as_deref() == Some(request_id)) {
        same(request_id, &work.message, &request.message)?;
        return Ok(Some(ResumeStream::live(access, id, &work, work.watch())));
    }
    match earlier(parts, id, request).await? {
        Earlier::Ended(view) => Ok(Some(ResumeStream::ended(*view))),
        Earlier::Never | Earlier::CutOff { .. } => Ok(None),
    }
}

/// The result of an earlier call with the same key. Only the records of that key are read.
async fn earlier(parts: &Parts, id: &SessionId, request: &ResumeSession) -> Result<Earlier, OpError> {
    let Some(request_id) = &request.request_id else { return Ok(Earlier::Never) };
    let stored =
        RequestIndex::of(&parts.ctx.store, id).resume(request_id).await.map_err(|error| read_error(id, error))?;
    let Some(StoredResume { seq, ended_seq, .. }) = stored else { return Ok(Earlier::Never) };
    let missing = |seq: u64| {
        let (session_id, reason) = (id.to_string(), format!("record {seq} is missing; use another request_id"));
        OpError::Record(RecordError::Unreadable { session_id, reason })
    };
    let input = parts.recordings.read(id, move |recording| recording.line(seq)).await?;
    let input = input.ok_or_else(|| missing(seq))?;
    let text = |name: &str| input.data[name].as_str().unwrap_or_default().to_owned();
    // Where secrets are masked it may not be there word for word.
    if !parts.ctx.masking.is_on() {
        same(request_id, &text("message"), &request.message)?;
    }
    let Some(seq) = ended_seq else {
        return Ok(Earlier::CutOff { resume_id: text("resume_id"), seq: input.seq });
    };
    let end = parts.recordings.read(id, move |recording| recording.line(seq)).await?;
    let end = end.ok_or_else(|| missing(seq))?;
    Ok(Earlier::Ended(Box::new(recorded(&end.data, end.seq))))
}

/// Starts the agent and sends it the message. Nothing is recorded if it does not start.
async fn begin_resume(
    access: &Access,
    parts: Arc<Parts>,
    id: SessionId,
    request: ResumeSession,
    timeout: Duration,
    turn: Turn,
    earlier: Earlier,
) -> Result<ResumeStream, OpError> {
    let state = parts.ctx.registry.snapshot(&id).await?;
    let agent = agent_of(&state)?;
    let kept = kept_state(access, &id, &state).await?;
    let given = parts.ctx.registry.ask(&id, Message::Give).await?;
    let spec = agent.spec(&parts.ctx.sandboxes.placed(&state), &given);
    let spec = spec.map_err(|reason| ResumeError::NotStarted { session_id: id.to_string(), reason })?;
    let (program, stdin) = start_program(&parts, &state, spec).await?;
    let log = SessionLog::new(&parts.ctx.registry, &id);
    let recorded = match earlier {
        Earlier::CutOff { resume_id, seq } => {
            let last = told_again(access, &parts, &id, &request, seq).await?;
            RecordedInput { resume_id, first_seq: seq, last_seq: last.unwrap_or(state.seq) }
        }
        _ => record_message(&log, &request, access.scope().token()).await?,
    };
    let after = parts.ctx.registry.snapshot(&id).await?.messages.saturating_sub(MESSAGES_TOLD);
    let messages = newest(RecordOps::new(access).messages(&id, after, MESSAGES_TOLD as usize).await?.messages);
    let token = access.scope().token().map(str::to_owned);
    let (work, watch) = Work::new(recorded.resume_id, recorded.first_seq, request, token);
    turn.begin(&work);
    // A drain that began in between did not see it.
    if parts.ctx.is_draining() {
        work.stop(DRAINED);
    }
    let stream = ResumeStream::live(access, &id, &work, watch);
    let agent = StartedAgent {
        id: id.clone(),
        program,
        work: Arc::clone(&work),
        log,
        redactor: parts.ctx.secrets.mask_of(&id).await?,
        step: state.agent_step,
        version: kept.as_ref().map(|kept| kept.version),
        last_seq: recorded.last_seq,
    };
    let drive = Drive::new(agent, stdin, access.clone(), timeout, turn);
    tasks::spawn(async move {
        let (session_id, resume_id, message) = (id.as_str(), work.resume_id.as_str(), work.message.as_str());
        drive.run(Opening { session_id, resume_id, message, state: kept.as_ref(), messages: &messages }).await;
    });
    Ok(stream)
}

/// The daemon may have died just before the message was in the conversation. Then it is added; returns its number.
async fn told_again(
    access: &Access,
    parts: &Arc<Parts>,
    id: &SessionId,
    request: &ResumeSession,
    input: u64,
) -> Result<Option<u64>, OpError> {
    let types = vec!["message_added".to_owned()];
    let query = EventQuery { after: input, limit: MAX_EVENT_PAGE, types, ..EventQuery::default() };
    let added = RecordOps::new(access).events(id, query).await?.events;
    // Word for word, unless secrets are masked.
    let is_it =
        |data: &Value| data["role"] == "user" && (data["content"] == *request.message || parts.ctx.masking.is_on());
    if added.iter().any(|line| is_it(&line.data)) {
        return Ok(None);
    }
    let said = NewMessage { role: "user".to_owned(), content: request.message.as_str().into() };
    let log = SessionLog::new(&parts.ctx.registry, id);
    log.message(said, access.author()).await.map(|added| Some(added.seq))
}

/// The state that the agent saved last.
async fn kept_state(access: &Access, id: &SessionId, state: &SessionState) -> Result<Option<AgentStateView>, OpError> {
    match &state.agent_state {
        Some(_) => RecordOps::new(access).agent_state(id, None).await.map(Some),
        None => Ok(None),
    }
}

/// Starts an agent in its own cage.
async fn start_program(parts: &Parts, state: &SessionState, spec: ProgramSpec) -> Result<(Program, Writer), OpError> {
    parts.ctx.data_dir.check_taken(state, Some(&state.shell.cwd))?;
    let (limit, used) = (parts.ctx.quotas.get(QuotaName::Processes), parts.factory.count());
    if used >= limit {
        return Err(OpError::QuotaExceeded(Box::new(QuotaMet::new(QuotaName::Processes, limit, used))));
    }
    let confined = confine(&parts.ctx, state, None).await?;
    let (workspaces, factory) = (parts.ctx.workspaces.clone(), Arc::clone(&parts.factory));
    let (session_id, workspace) = (state.meta.session_id.clone(), state.meta.workspace.clone());
    let (is_new, agent) = (state.generation == 0, state.meta.agent.clone());
    let started = parts.work.start(state.meta.agent.as_deref(), move || {
        if is_new && spec.cwd.starts_with(workspace.as_bytes()) {
            workspaces.ensure(&workspace)?;
        }
        let cage = factory.cage_of(agent.as_deref(), &format!("agent-{}", uuid::Uuid::new_v4().simple()));
        cage.assign(session_id.as_str());
        Program::start(&spec, cage, confined.map(|confined| confined.confinement))
    });
    started.await?.map_err(|error: std::io::Error| {
        let session_id = state.meta.session_id.to_string();
        ResumeError::NotStarted { session_id, reason: error.to_string() }.into()
    })
}

/// A message that is recorded.
struct RecordedInput {
    resume_id: String,
    first_seq: u64,
    last_seq: u64,
}

async fn record_message(log: &SessionLog, request: &ResumeSession, by: Option<&str>) -> Result<RecordedInput, OpError> {
    let name = uuid::Uuid::new_v4().simple().to_string();
    let resume_id = format!("a{}", &name[..12]);
    let mut data = json!({"message": request.message, "resume_id": resume_id});
    if let Some(request_id) = &request.request_id {
        data["request_id"] = request_id.as_str().into();
    }
    if let Some(by) = by {
        data["by"] = by.into();
    }
    let event = NewEvent { event_type: USER_INPUT.to_owned(), data };
    let first_seq = log.event(event, Author::caller(by)).await?.first_seq;
    crash::point(Point::InputRecorded, request.message.as_bytes());
    let said = NewMessage { role: "user".to_owned(), content: request.message.as_str().into() };
    let last_seq = log.message(said, Author::caller(by)).await?.seq;
    Ok(RecordedInput { resume_id, first_seq, last_seq })
}

fn check(request: &ResumeSession) -> Result<(), OpError> {
    let invalid = |detail: String| Err(OpError::Invalid { detail });
    if request.message.len() > MAX_RESUME_MESSAGE {
        return invalid(format!(
            "message is longer than {MAX_RESUME_MESSAGE} bytes; put it into a file and name the file"
        ));
    }
    if request.timeout.is_some_and(|timeout| timeout.is_zero() || timeout > MAX_TIMEOUT) {
        return invalid(format!("timeout must be more than 0 and at most {} seconds", MAX_TIMEOUT.as_secs()));
    }
    match request.request_id.as_deref().map(id::check) {
        Some(Err(error)) => invalid(format!("request_id: {error}")),
        _ => Ok(()),
    }
}

fn agent_of(state: &SessionState) -> Result<AgentProgram, OpError> {
    let session_id = state.meta.session_id.to_string();
    AgentProgram::of(&state.meta.agent_config).map_err(|reason| ResumeError::NoAgent { session_id, reason }.into())
}

fn same(request_id: &str, first: &str, second: &str) -> Result<(), OpError> {
    if first == second {
        Ok(())
    } else {
        Err(OpError::Run(RunError::RequestIdReused { request_id: request_id.to_owned() }))
    }
}

/// The newest messages, as many as an agent gets.
fn newest(mut messages: Vec<shellkeep_session::Message>) -> Vec<shellkeep_session::Message> {
    let mut bytes = 0;
    let is_too_much = |message: &&shellkeep_session::Message| {
        bytes += message.content.to_string().len();
        bytes > MESSAGES_BYTES
    };
    let beyond = messages.iter().rev().skip(1).filter(is_too_much).count();
    messages.drain(..beyond);
    messages
}

/// A result as recorded.
fn recorded(data: &Value, seq: u64) -> ResumeView {
    let text = |name: &str| data[name].as_str().unwrap_or_default().to_owned();
    let number = |name: &str| data[name].as_u64().unwrap_or_default();
    ResumeView {
        resume_id: text("resume_id"),
        output: text("output"),
        status: ResumeStatus::parse(&text("status")).unwrap_or(ResumeStatus::Failed),
        steps: number("steps"),
        agent_state_version: number("agent_state_version"),
        seq_from: number("seq_from"),
        seq_to: seq,
        error: data["error"].as_str().map(str::to_owned),
    }
}
