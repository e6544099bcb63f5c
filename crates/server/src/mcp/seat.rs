//! A seat is a caller with its session. The session follows from what the client sent, and is created when it is first
//! needed.

use super::hub::Hub;
use super::names::{self, TakenName};
use super::target::Target;
use crate::refusal::Refusal;
use crate::sync::lock;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use rmcp::RoleServer;
use rmcp::service::RequestContext;
use serde_json::json;
use shellkeep_runtime::{
    CreateSession, Engine, OpError, RunCommand, RunError, RunInput, RunStream, Scope, ScreenQuery, ScreenView,
    ServiceView, SessionError, StartService,
};
use shellkeep_session::{ByteString, IdError, RunId, Sandbox, SessionId};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// The header by which an HTTP client names its session.
const SESSION_HEADER: &str = "shellkeep-session";
/// The header by which an HTTP client says which MCP session it belongs to.
const MCP_SESSION_HEADER: &str = "mcp-session-id";
/// The name of an agent's session if it did not name one.
const AGENT_DEFAULT: &str = "default";

/// A caller with its session.
#[derive(Clone)]
pub struct Seat {
    /// The engine with its rights.
    pub engine: Engine,
    pub session: SessionId,
    cwd: Option<ByteString>,
    /// The workspace, if the session is created now.
    workspace: Option<String>,
}

/// What a client on stdio said about itself when it connected.
pub struct Hello {
    pub session: Option<SessionId>,
    /// The session that it had, if it comes back.
    pub again: Option<SessionId>,
    pub directory: Option<String>,
    pub workspace: Option<String>,
}

/// A client on stdio.
pub struct Pipe {
    engine: Engine,
    hello: Hello,
    name: Mutex<NameState>,
    is_gone: AtomicBool,
}

enum NameState {
    NotTaken,
    Taken(TakenName),
    /// Used, and free for other clients: the client is gone and only its running commands use it, or the client came
    /// back when another one had its name.
    Shared(String),
}

/// A command that was started.
pub struct Begun {
    pub run: RunStream,
    /// Whether its session was created for it.
    pub is_new_session: bool,
}

impl Seat {
    /// Starts a command, and creates the session first if it does not exist.
    pub async fn run(&self, command: RunCommand) -> Result<Begun, OpError> {
        match self.engine.run_stream(&self.session, command.clone()).await {
            Err(OpError::Session(SessionError::NotFound { .. })) => {}
            begun => return Ok(Begun { run: begun?, is_new_session: false }),
        }
        self.make().await?;
        Ok(Begun { run: self.engine.run_stream(&self.session, command).await?, is_new_session: true })
    }

    /// What an id names. A service is also known by its name, which may be any text.
    pub async fn target(&self, id: &str) -> Result<Target, Refusal> {
        let target = Target::parse(id);
        let may_be_name = match &target {
            Ok(Target::Run(run_id)) => run_id.seq().is_none(),
            Ok(Target::Service(_)) => false,
            Err(_) => true,
        };
        if may_be_name && let Some(service_id) = self.engine.services().named(&self.session, id).await {
            return Ok(Target::Service(service_id));
        }
        // What cannot be an id may have been meant as a name.
        target.map_err(|error| {
            if id.is_empty() {
                return error;
            }
            let detail =
                format!("session '{}' has no run or service '{id}'; list services with list_services", self.session);
            Refusal::new(StatusCode::NOT_FOUND, "service_not_found", detail)
        })
    }

    /// Sends input to a run.
    pub async fn type_into(&self, run_id: &RunId, input: RunInput) -> Result<usize, OpError> {
        self.engine.runs().input(&self.session, run_id, input, None).await.map_err(|error| no_run(error, run_id))
    }

    /// The screen of a run.
    pub async fn screen(&self, run_id: &RunId, query: ScreenQuery) -> Result<ScreenView, OpError> {
        self.engine.runs().screen(&self.session, run_id, query).await.map_err(|error| no_run(error, run_id))
    }

    /// Which files of the client's directory the session saves, in words. None if the client has no directory, if nothing can
    /// be undone, or if there is no session.
    pub async fn saved_files(&self) -> Option<String> {
        let cwd = self.cwd.as_ref().filter(|_| self.engine.offers_undo())?;
        let workspace = self.engine.get(&self.session).await.ok()?.meta.workspace;
        Some(saved(cwd, &workspace))
    }

    /// Where a new session works, in words, if its room does not have the client's directory.
    pub async fn moved(&self) -> Option<String> {
        let (cwd, view) = (self.cwd.as_ref()?, self.engine.get(&self.session).await.ok()?);
        let workspace = &view.meta.workspace;
        let is_moved = !is_below(cwd, workspace) && is_below(&view.cwd, workspace);
        (is_moved && view.sandbox == Some(Sandbox::Room)).then(|| {
            let (cwd, workspace) = (cwd.to_text(), workspace.to_text());
            format!("This session is in a room that does not have {cwd}. It works in its own directory, {workspace}.")
        })
    }

    /// Starts a service, and creates the session first if it does not exist.
    pub async fn start(&self, request: StartService) -> Result<ServiceView, OpError> {
        match self.engine.services().start(&self.session, request.clone()).await {
            Err(OpError::Session(SessionError::NotFound { .. })) => {}
            started => return started,
        }
        self.make().await?;
        self.engine.services().start(&self.session, request).await
    }

    /// Creates the session. A workspace that is invalid, or that the caller may not choose, is ignored, and so is a
    /// directory that the session's room does not have: the client did not choose it, it happens to be there.
    async fn make(&self) -> Result<(), OpError> {
        let create = |cwd: Option<&ByteString>, config: serde_json::Value| {
            let session_id = Some(self.session.clone());
            self.engine.create(CreateSession { session_id, cwd: cwd.cloned(), config, ..CreateSession::default() })
        };
        if let Some(workspace) = &self.workspace {
            match create(self.cwd.as_ref(), json!({"workspace": workspace})).await {
                Err(OpError::Session(SessionError::BadWorkspace { .. }) | OpError::NotAllowed { .. }) => {}
                made => return made.map(|_| ()),
            }
        }
        match create(self.cwd.as_ref(), json!({})).await {
            Err(OpError::Session(SessionError::CwdNotInRoom { .. })) => create(None, json!({})).await.map(|_| ()),
            made => made.map(|_| ()),
        }
    }
}

/// The first command creates the session, so a session that does not exist is a run that does not exist.
pub fn no_run(error: OpError, run_id: &RunId) -> OpError {
    match error {
        OpError::Session(SessionError::NotFound { session_id }) => {
            RunError::NotFound { session_id, run_id: run_id.to_string() }.into()
        }
        other => other,
    }
}

impl Pipe {
    /// A client that connected.
    pub fn new(engine: Engine, hello: Hello) -> Arc<Self> {
        let name = Mutex::new(NameState::NotTaken);
        Arc::new(Self { engine, hello, name, is_gone: AtomicBool::new(false) })
    }

    /// The engine with its rights.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Its seat. The first request decides the name, which then stays.
    pub fn seat(&self, hub: &Hub, client: &str) -> Result<Seat, Refusal> {
        let session = match &self.hello.session {
            Some(session) => session.clone(),
            None => SessionId::parse(&self.name(hub, client)).map_err(|error| Refusal::bad_id("session", &error))?,
        };
        let cwd = self.hello.directory.clone().map(ByteString::from);
        Ok(Seat { engine: self.engine.clone(), session, cwd, workspace: self.hello.workspace.clone() })
    }

    /// Frees the name for the next window.
    pub fn release(&self) {
        self.is_gone.store(true, Ordering::Relaxed);
        let mut state = self.state();
        if let NameState::Taken(taken) = &*state {
            *state = NameState::Shared(taken.name().to_owned());
        }
    }

    /// Whether the client is gone.
    pub fn is_released(&self) -> bool {
        self.is_gone.load(Ordering::Relaxed)
    }

    fn name(&self, hub: &Hub, client: &str) -> String {
        let mut state = self.state();
        match &*state {
            NameState::Taken(taken) => taken.name().to_owned(),
            NameState::Shared(name) => name.clone(),
            NameState::NotTaken => {
                let own = names::bound(self.engine.scope().agent(), "");
                let taken = match self.hello.again.as_ref().filter(|again| again.as_str().starts_with(&own)) {
                    // It goes on in its session, even if another one works there by now.
                    Some(again) => hub.names.take_only(again.as_str()).ok_or_else(|| again.to_string()),
                    None => Ok(hub.names.take(&self.own_name(client))),
                };
                let name = taken.as_ref().map_or_else(String::clone, |taken| taken.name().to_owned());
                *state = taken.map_or_else(NameState::Shared, NameState::Taken);
                name
            }
        }
    }

    fn own_name(&self, client: &str) -> String {
        let own = names::of_project(client, self.hello.directory.as_deref().unwrap_or_default());
        names::bound(self.engine.scope().agent(), &own)
    }

    fn state(&self) -> MutexGuard<'_, NameState> {
        lock(&self.name)
    }
}

/// The session that an HTTP request names: by header, or else by the agent's token.
fn named(scope: &Scope, headers: &HeaderMap) -> Option<Result<SessionId, IdError>> {
    match (text(headers, SESSION_HEADER), scope.agent()) {
        (Some(name), _) => Some(SessionId::parse(name)),
        (None, Some(agent)) => Some(SessionId::parse(&names::bound(Some(agent), AGENT_DEFAULT))),
        (None, None) => None,
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).map(|value| value.to_str().unwrap_or("\u{fffd}"))
}

/// The session that an HTTP request names, if it is one.
pub fn named_session(scope: &Scope, headers: &HeaderMap) -> Option<SessionId> {
    named(scope, headers).and_then(Result::ok)
}

/// Whether an HTTP request names its session itself.
pub fn names_session(headers: &HeaderMap) -> bool {
    headers.contains_key(SESSION_HEADER)
}

/// Gives a request that names no session the one with which its MCP session began.
pub fn name_session(headers: &mut HeaderMap, session: &SessionId) {
    if !names_session(headers)
        && let Ok(name) = HeaderValue::from_str(session.as_str())
    {
        headers.insert(SESSION_HEADER, name);
    }
}

fn saved(cwd: &ByteString, workspace: &ByteString) -> String {
    let is_inside = is_below(cwd, workspace);
    let (cwd, workspace) = (cwd.to_text(), workspace.to_text());
    match is_inside {
        true => format!(
            "Files below {workspace} are saved after each command that changes them; list_checkpoints, diff and rewind \
             cover them."
        ),
        false => format!("Files in {cwd} are not saved; list_checkpoints, diff and rewind cover only {workspace}."),
    }
}

fn is_below(path: &ByteString, directory: &ByteString) -> bool {
    path.as_path().starts_with(directory.as_path())
}

/// The session of an MCP session over HTTP that began without a name, by the host.
pub fn own_session(client: &str, mcp_session: Option<&str>) -> Result<SessionId, IdError> {
    SessionId::parse(&names::of_http(client, mcp_session))
}

/// The seat of an HTTP request: the session that it names, or else one for the MCP session.
pub fn of_request(engine: Engine, headers: &HeaderMap, client: &str) -> Result<Seat, Refusal> {
    let of_client = || own_session(client, text(headers, MCP_SESSION_HEADER));
    let session = named(engine.scope(), headers).unwrap_or_else(of_client);
    let session = session.map_err(|error| Refusal::bad_id("the header Shellkeep-Session", &error))?;
    Ok(Seat { engine, session, cwd: None, workspace: None })
}

/// What the client calls itself.
pub fn client_name(context: &RequestContext<RoleServer>) -> String {
    context.client_info().map(|client| client.name).unwrap_or_default()
}
