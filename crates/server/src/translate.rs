//! From wire types to the runtime's vocabulary and back. Pure functions: errors in a request are found here, before
//! anything happens.

mod check;
mod condition;
mod files;
mod kv;
mod node;
mod record;
mod resume;
mod run_list;
mod sandbox;
mod screen;
mod service;
mod session;
mod workspace_file;

pub use files::*;
pub use kv::*;
pub use node::{cluster_node, ended_agent, node, quota_changes, quotas};
pub use record::*;
pub use resume::{resume, resumed};
pub use run_list::{all_run_list, all_run_page, run_list, run_page};
pub use sandbox::{named_sandbox, sandbox};
pub use screen::{past_screen_query, past_screens, resized, screen, screen_query, terminal_size};
pub use service::{grace, log_follow, log_page, log_query, service, service_list, service_wait, start_service};
pub use session::{hold, released, session, session_id, take_hold};
pub use workspace_file::*;

use crate::refusal::Refusal;
use check::{DEFAULT_OUTPUT_PAGE, decode, no_nul, read_from, variables, within};
use screen::terminal;
use session::named;
use shellkeep_protocol::{
    self as wire, BusyChoice, RunRequest, RunResponse, StderrChoice, StreamName, TimeoutChoice, TokenRole, text,
};
use shellkeep_runtime::{
    ConsoleRight, CreateSession, DEFAULT_MAX_OUTPUT, DEFAULT_TIMEOUT, Hint, IfBusy, IssuedToken, Key, MAX_COMMAND,
    MAX_MAX_OUTPUT, MAX_OUTPUT_PAGE, MAX_STDIN, MAX_TIMEOUT, MAX_WAIT, NewBearer, NewToken, OnTimeout, OutputPage,
    OutputQuery, ReaderRole, RunCommand, RunDetail, RunInput, RunView, SessionFilter, SessionOrder, SessionPage,
    SessionQuery, Stream, TokenBearer, TokenView,
};
use shellkeep_session::{ByteString, SessionId, SessionPlace, id};
use std::time::Duration;

/// Default number of sessions per page.
const DEFAULT_PAGE: usize = 100;
/// Maximum number of sessions per page, so that a response stays below a megabyte.
const MAX_PAGE: usize = 1000;

/// A request to create a session.
pub fn create(request: wire::CreateSessionRequest) -> Result<CreateSession, Refusal> {
    let wire::CreateSessionRequest { agent, session_id, user_id, cwd, env, config, sandbox, secrets } = request;
    if let Some(agent) = &agent {
        id::check(agent).map_err(|error| Refusal::bad_id("agent", &error))?;
    }
    let session_id = named(user_id.as_deref(), session_id)?;
    if cwd.as_ref().is_some_and(|cwd| !cwd.starts_with('/')) {
        return Err(Refusal::invalid("cwd: must be an absolute path for a new session"));
    }
    Ok(CreateSession {
        user_id: user_id.filter(|_| session_id.is_some()),
        session_id,
        agent,
        cwd: cwd.map(|cwd| no_nul("cwd", cwd)).transpose()?.map(ByteString::from),
        env: variables(env)?,
        config: serde_json::Value::Object(config.unwrap_or_default()),
        sandbox: named_sandbox(sandbox.unwrap_or_default()),
        secrets: secrets.unwrap_or_default(),
    })
}

/// A request to run a command.
pub fn run(request: RunRequest) -> Result<RunCommand, Refusal> {
    let stdin = stdin(request.stdin, request.stdin_base64)?;
    let blocking = request.blocking.unwrap_or(true);
    if request.command.len() > MAX_COMMAND {
        return Err(Refusal::too_large(format!("command: at most {MAX_COMMAND} bytes; put more into a file or stdin")));
    }
    if let Some(request_id) = &request.request_id {
        id::check(request_id).map_err(|error| Refusal::bad_id("request_id", &error))?;
    }
    if request.cwd.as_ref().is_some_and(String::is_empty) {
        return Err(Refusal::invalid("cwd: must not be an empty string; omit it to use the session's directory"));
    }
    Ok(RunCommand {
        command: no_nul("command", request.command)?.into(),
        timeout: timeout(request.timeout, blocking)?,
        // Only MCP promises an answer at once.
        patience: None,
        blocking,
        cwd: request.cwd.map(|cwd| no_nul("cwd", cwd)).transpose()?.map(ByteString::from),
        env: variables(request.env)?,
        stdin,
        max_output: max_output(request.max_output)?,
        on_timeout: match request.on_timeout.unwrap_or_default() {
            TimeoutChoice::Interrupt => OnTimeout::Interrupt,
            TimeoutChoice::Background => OnTimeout::Background,
        },
        request_id: request.request_id,
        if_busy: match request.if_busy.unwrap_or_default() {
            BusyChoice::Wait => IfBusy::Wait,
            BusyChoice::Reject => IfBusy::Reject,
        },
        terminal: terminal(request.tty.unwrap_or(false), request.tty_size)?,
        merge_stderr: request.stderr.unwrap_or_default() == StderrChoice::Merge,
        // Only a door knows when its caller disconnects.
        hang_up: None,
        // Only MCP knows the name of the tool.
        tool_name: None,
        hold: request.hold,
        is_person: request.by.is_some(),
        by: None,
    })
}

/// A request to read output.
pub fn output(params: wire::OutputParams) -> Result<OutputQuery, Refusal> {
    let (offset, tail) = read_from(params.offset, params.tail, params.tail_lines)?;
    Ok(OutputQuery {
        stream: match params.stream.unwrap_or_default() {
            StreamName::Stdout => Stream::Stdout,
            StreamName::Stderr => Stream::Stderr,
        },
        offset,
        limit: params.limit.unwrap_or(DEFAULT_OUTPUT_PAGE).min(MAX_OUTPUT_PAGE),
        tail,
        grep: params.grep,
    })
}

/// A request to send input.
pub fn input(request: wire::InputRequest) -> Result<RunInput, Refusal> {
    let bytes = match (request.text, request.base64, request.keys) {
        (Some(text), None, None) => text.into_bytes(),
        (None, Some(base64), None) => decode("base64", &base64)?,
        (None, None, Some(_)) if request.eof => {
            return Err(Refusal::invalid(
                "keys: cannot be combined with eof; the key C-d ends the input of a terminal",
            ));
        }
        (None, None, Some(keys)) => return Ok(RunInput::Keys(keys.iter().map(|key| Key::named(key)).collect())),
        (None, None, None) if request.eof => Vec::new(),
        (None, None, None) => {
            return Err(Refusal::invalid("text: missing; pass text, base64 or keys, or eof: true to close the input"));
        }
        _ => return Err(Refusal::invalid("pass one of text, base64 and keys")),
    };
    Ok(if request.eof { RunInput::LastBytes(bytes) } else { RunInput::Bytes(bytes) })
}

/// The number of sessions per page.
pub fn page_limit(limit: Option<usize>) -> Result<usize, Refusal> {
    match limit.unwrap_or(DEFAULT_PAGE) {
        limit @ 1..=MAX_PAGE => Ok(limit),
        limit => Err(Refusal::invalid(format!("limit: {limit} is not between 1 and {MAX_PAGE}"))),
    }
}

/// Which sessions a caller wants to see.
pub fn session_query(params: wire::ListParams) -> Result<SessionQuery, Refusal> {
    let after = params.after.as_deref().map(place).transpose()?;
    Ok(SessionQuery {
        agent: params.agent,
        filter: SessionFilter::new(params.q.as_deref().unwrap_or_default(), is_on(params.failed)),
        live: is_on(params.live),
        running: is_on(params.running),
        order: match params.order.unwrap_or_default() {
            wire::SessionOrder::Id => SessionOrder::Id,
            wire::SessionOrder::Active => SessionOrder::Active,
        },
        after,
        limit: page_limit(params.limit)?,
    })
}

/// Where a page of sessions begins.
fn place(after: &str) -> Result<SessionPlace, Refusal> {
    let refused = |error| Refusal::bad_id("after", &error);
    SessionPlace::parse(after).ok_or(()).or_else(|()| SessionId::parse(after).map(SessionPlace::from).map_err(refused))
}

/// How long to wait for a run's end; by default not at all. More than [`MAX_WAIT`] is taken for that.
pub fn wait(seconds: Option<f64>) -> Result<Duration, Refusal> {
    let seconds = seconds.unwrap_or(0.0);
    Duration::try_from_secs_f64(seconds).ok().filter(|wait| *wait <= MAX_TIMEOUT).ok_or_else(|| {
        let (most, waited) = (MAX_TIMEOUT.as_secs(), MAX_WAIT.as_secs());
        let detail =
            format!("wait: {seconds} is out of range; write 0 to {most} seconds, of which {waited} are waited");
        Refusal::invalid(detail)
    })
}

/// Bytes of each stream in a result.
pub fn max_output(bytes: Option<usize>) -> Result<usize, Refusal> {
    match bytes.unwrap_or(DEFAULT_MAX_OUTPUT) {
        bytes if bytes <= MAX_MAX_OUTPUT => Ok(bytes),
        bytes => Err(Refusal::invalid(format!(
            "max_output: {bytes} is more than {MAX_MAX_OUTPUT}; read the rest from the run's output by offset"
        ))),
    }
}

/// A page of sessions, for the caller.
pub fn session_list(page: SessionPage) -> wire::SessionList {
    wire::SessionList {
        sessions: page.sessions.into_iter().map(session).collect(),
        next: page.next.map(|next| next.to_string()),
    }
}

/// A run, for the caller.
pub fn run_view(view: RunView) -> RunResponse {
    let (stdout, stdout_base64) = text::encode(view.stdout.bytes);
    let (stderr, stderr_base64) = text::encode(view.stderr.bytes);
    let (background_output, background_output_base64) = match view.background_output {
        Some(bytes) => {
            let (text, base64) = text::encode(bytes.0);
            (Some(text), base64)
        }
        None => (None, None),
    };
    RunResponse {
        run_id: view.run_id.into(),
        seq: view.seq,
        status: view.status.into(),
        exit_code: view.exit_code,
        signal: view.signal,
        stdout,
        stdout_base64,
        stderr,
        stderr_base64,
        stdout_bytes: view.stdout.total,
        stderr_bytes: view.stderr.total,
        truncated: view.stdout.truncated || view.stderr.truncated,
        duration_ms: view.duration.as_nanos() as f64 / 1e6,
        cwd: view.cwd.to_text().into_owned(),
        changes: view.changes.into(),
        background_output,
        background_output_base64,
        unread_input: (!view.unread_input.is_empty()).then(|| text::encode(view.unread_input).0),
        notices: view.notices.into_iter().map(Into::into).collect(),
        by: view.by,
    }
}

/// A run with its command, for the caller.
pub fn run_detail(detail: RunDetail) -> wire::RunDetail {
    wire::RunDetail {
        run: run_view(detail.run),
        command: detail.command.to_text().into_owned(),
        started_at: detail.started_at.to_string(),
    }
}

/// A request for a token.
pub fn new_token(request: wire::CreateTokenRequest) -> Result<NewToken, Refusal> {
    let wire::CreateTokenRequest { role, agent, name, may_restart } = request;
    let bearer = match role.unwrap_or(TokenRole::Agent) {
        TokenRole::Agent => {
            let unnamed = || {
                Refusal::invalid("a token with the role 'agent' needs the name of its agent")
                    .with_hint(Some(Hint::NameAgent))
            };
            let agent = agent.ok_or_else(unnamed)?;
            return Ok(NewToken { bearer: NewBearer::Agent { agent, may_restart }, name });
        }
        TokenRole::Auditor => NewBearer::Reader(ReaderRole::Auditor),
        TokenRole::Metrics => NewBearer::Reader(ReaderRole::Metrics),
        TokenRole::Watch => NewBearer::Console(ConsoleRight::Watch),
        TokenRole::Act => NewBearer::Console(ConsoleRight::Act),
    };
    if agent.is_some() || may_restart.is_some() {
        let refusal = Refusal::invalid("a token with this role cannot belong to an agent");
        return Err(refusal.with_hint(Some(Hint::NameNoAgent)));
    }
    Ok(NewToken { bearer, name })
}

/// What a person at the console may do.
pub fn console_right(right: wire::ConsoleRight) -> ConsoleRight {
    match right {
        wire::ConsoleRight::Watch => ConsoleRight::Watch,
        wire::ConsoleRight::Act => ConsoleRight::Act,
    }
}

/// A token without its secret, for the host.
pub fn token(view: TokenView) -> wire::TokenInfo {
    let (role, agent, may_restart) = match view.bearer {
        TokenBearer::Agent { agent, may_restart } => (TokenRole::Agent, Some(agent), may_restart),
        TokenBearer::Reader { role: ReaderRole::Auditor } => (TokenRole::Auditor, None, false),
        TokenBearer::Reader { role: ReaderRole::Metrics } => (TokenRole::Metrics, None, false),
        TokenBearer::Console { console: ConsoleRight::Watch } => (TokenRole::Watch, None, false),
        TokenBearer::Console { console: ConsoleRight::Act } => (TokenRole::Act, None, false),
    };
    wire::TokenInfo {
        id: view.id,
        role,
        agent,
        name: view.name,
        may_restart,
        created_at: view.created_at.to_string(),
        revoked_at: view.revoked_at.map(|at| at.to_string()),
        expires_at: view.expires_at.map(|at| at.to_string()),
    }
}

/// A new token with its secret, for the host.
pub fn issued_token(issued: IssuedToken) -> wire::IssuedToken {
    wire::IssuedToken { token: issued.secret, info: token(issued.token) }
}

/// A page of output, for the caller.
pub fn output_page(stream: Stream, page: OutputPage) -> wire::OutputResponse {
    let (text, base64) = text::encode(page.bytes);
    wire::OutputResponse {
        stream: match stream {
            Stream::Stdout => StreamName::Stdout,
            Stream::Stderr => StreamName::Stderr,
        },
        text,
        base64,
        offset: page.offset,
        next_offset: page.next_offset,
        total: page.total,
        dropped: page.dropped,
        complete: page.complete,
        merged: page.merged,
    }
}

/// The timeout of a command. A command that is not blocking gets the longest one.
fn timeout(seconds: Option<f64>, blocking: bool) -> Result<Duration, Refusal> {
    let default = if blocking { DEFAULT_TIMEOUT } else { MAX_TIMEOUT };
    seconds.map_or(Ok(default), |seconds| within(seconds, "; for anything longer start a service"))
}

fn stdin(text: Option<String>, base64: Option<String>) -> Result<Option<ByteString>, Refusal> {
    let bytes = match (text, base64) {
        (Some(_), Some(_)) => return Err(Refusal::invalid("pass stdin or stdin_base64, not both")),
        (Some(text), None) => text.into_bytes(),
        (None, Some(base64)) => decode("stdin_base64", &base64)?,
        (None, None) => return Ok(None),
    };
    if bytes.len() > MAX_STDIN {
        return Err(Refusal::too_large(format!("stdin: at most {MAX_STDIN} bytes; put more into a file")));
    }
    Ok(Some(bytes.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn request(command: &str) -> RunRequest {
        RunRequest { command: command.to_owned(), ..RunRequest::default() }
    }

    fn refused<T>(result: Result<T, Refusal>) -> String {
        match result {
            Ok(_) => panic!("it was taken"),
            Err(refusal) => refusal.problem().detail.clone(),
        }
    }

    #[test]
    fn defaults_are_those_of_the_contract() {
        let command = run(request("true")).unwrap();
        assert_eq!(command.timeout, Duration::from_secs(30));
        assert!(command.blocking && command.terminal.is_none());
        let unwatched = run(RunRequest { blocking: Some(false), ..request("true") }).unwrap();
        assert_eq!(unwatched.timeout, MAX_TIMEOUT);
        assert_eq!((command.on_timeout, command.if_busy), (OnTimeout::Interrupt, IfBusy::Wait));
    }

    #[test]
    fn what_bash_cannot_hold_is_refused() {
        assert!(refused(run(request("a\0b"))).starts_with("command: the NUL byte at position 1"));
        let env = Some(BTreeMap::from([("A=B".to_owned(), String::new())]));
        assert!(refused(run(RunRequest { env, ..request("true") })).contains("'A=B'"));
    }

    #[test]
    fn timeouts_are_numbers_of_seconds() {
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e300, 86_401.0] {
            assert!(refused(run(RunRequest { timeout: Some(bad), ..request("true") })).starts_with("timeout"), "{bad}");
        }
        let half = run(RunRequest { timeout: Some(0.5), ..request("true") }).unwrap();
        assert_eq!(half.timeout, Duration::from_millis(500));
    }

    #[test]
    fn ids_are_bound_or_checked() {
        let named = |user: Option<&str>, session: Option<&str>| wire::CreateSessionRequest {
            user_id: user.map(str::to_owned),
            session_id: session.map(str::to_owned),
            ..wire::CreateSessionRequest::default()
        };
        let made = create(named(Some("ann"), Some("7"))).unwrap().session_id.unwrap();
        assert_eq!(made.as_str(), "thread_ann_7");
        assert_eq!(create(named(Some("ann"), None)).unwrap().session_id, None);
        assert!(refused(create(named(None, Some("../etc")))).starts_with("session_id: "));
        assert!(refused(create(named(Some("a/b"), None))).starts_with("user_id: "));
        let long = refused(create(named(Some(&"u".repeat(125)), Some("7"))));
        assert!(long.starts_with("user_id and session_id, as thread_USER_SESSION: "), "{long}");
    }
}
