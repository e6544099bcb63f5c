//! Services: from the wire to the runtime's vocabulary and back.

use super::check::{DEFAULT_OUTPUT_PAGE, no_nul, read_from, shown, variables};
use crate::refusal::Refusal;
use shellkeep_protocol::{self as wire, text};
use shellkeep_runtime::{
    LogPage, LogQuery, MAX_COMMAND, MAX_OUTPUT_PAGE, MAX_STOP_GRACE, STOP_GRACE, ServiceView, StartService, Tail,
};
use shellkeep_session::ByteString;
use std::time::Duration;

/// The longest a caller may wait for a service in one request: proxies and clients time out sooner.
const MAX_WAIT: Duration = Duration::from_secs(300);

/// A request to start a service.
pub fn start_service(request: wire::StartServiceRequest) -> Result<StartService, Refusal> {
    let wire::StartServiceRequest { command, name, cwd, env, ready, restart, wait } = request;
    if command.len() > MAX_COMMAND {
        return Err(Refusal::too_large(format!("command: at most {MAX_COMMAND} bytes; put more into a file")));
    }
    if command.trim().is_empty() {
        return Err(Refusal::invalid("command: must not be empty"));
    }
    if cwd.as_ref().is_some_and(String::is_empty) {
        return Err(Refusal::invalid("cwd: must not be an empty string; omit it to use the session's directory"));
    }
    Ok(StartService {
        command: no_nul("command", command)?.into(),
        name,
        cwd: cwd.map(|cwd| no_nul("cwd", cwd)).transpose()?.map(ByteString::from),
        env: variables(env)?,
        ready: ready.map(Into::into),
        restart: restart.unwrap_or_default().into(),
        wait: service_wait(wait)?,
    })
}

/// How long to wait until a service is ready or has exited; by default not at all.
pub fn service_wait(seconds: Option<f64>) -> Result<Duration, Refusal> {
    span("wait", seconds, Duration::ZERO, MAX_WAIT)
}

/// The time between SIGTERM and SIGKILL.
pub fn grace(request: &wire::StopServiceRequest) -> Result<Duration, Refusal> {
    span("grace", request.grace, STOP_GRACE, MAX_STOP_GRACE)
}

fn span(name: &str, seconds: Option<f64>, default: Duration, most: Duration) -> Result<Duration, Refusal> {
    let Some(seconds) = seconds else { return Ok(default) };
    Duration::try_from_secs_f64(seconds).ok().filter(|span| *span <= most).ok_or_else(|| {
        Refusal::invalid(format!("{name}: {} is not a number of seconds from 0 to {}", shown(seconds), most.as_secs()))
    })
}

/// A request to read a log.
pub fn log_query(params: wire::LogParams) -> Result<LogQuery, Refusal> {
    let (offset, tail) = read_from(params.offset, params.tail, params.tail_lines)?;
    let limit = params.limit.unwrap_or(DEFAULT_OUTPUT_PAGE).min(MAX_OUTPUT_PAGE);
    Ok(LogQuery { offset, limit, tail, grep: params.grep })
}

/// A request to follow a log: where to begin.
pub fn log_follow(params: &wire::LogParams) -> Result<(u64, Option<Tail>), Refusal> {
    if params.limit.is_some() || params.grep.is_some() {
        return Err(Refusal::invalid(
            "a streamed log (Accept: text/event-stream) accepts `offset`, `tail` or `tail_lines`, but neither `limit` \
                nor `grep`; use those without streaming",
        ));
    }
    read_from(params.offset, params.tail, params.tail_lines)
}

/// A service, for the caller.
pub fn service(view: ServiceView) -> wire::Service {
    wire::Service {
        service_id: view.service_id.into(),
        session_id: view.session_id.into(),
        agent: view.agent,
        name: view.name,
        command: view.command.to_text().into_owned(),
        cwd: view.cwd.to_text().into_owned(),
        status: view.status.into(),
        pid: view.pid,
        ports: view.ports,
        processes: view.processes,
        started_at: view.started_at.to_string(),
        last_active_at: view.last_active_at.to_string(),
        restart: view.restart.into(),
        restarts: view.restarts,
        ended_at: view.ended_at.map(|at| at.to_string()),
        exit_code: view.exit_code,
        signal: view.signal,
        detail: view.detail,
        log_bytes: view.log_bytes,
    }
}

/// Services, for the caller.
pub fn service_list(views: Vec<ServiceView>) -> wire::ServiceList {
    wire::ServiceList { services: views.into_iter().map(service).collect() }
}

/// A page of a log, for the caller.
pub fn log_page(page: LogPage) -> wire::LogResponse {
    let (text, base64) = text::encode(page.bytes);
    wire::LogResponse {
        text,
        base64,
        offset: page.offset,
        next_offset: page.next_offset,
        first: page.first,
        total: page.total,
        complete: page.complete,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shellkeep_session::{Ready, RestartPolicy};

    fn read(json: &str) -> Result<StartService, String> {
        let request = serde_json::from_str(json).map_err(|error| error.to_string())?;
        start_service(request).map_err(|refusal| refusal.problem().detail.clone())
    }

    #[test]
    fn a_service_is_asked_for_as_the_contract_says() {
        let plain = read(r#"{"command": "npm run dev"}"#).unwrap();
        assert_eq!((plain.ready, plain.restart, plain.wait), (None, RestartPolicy::Never, Duration::ZERO));
        let full = read(
            r#"{"command": "x", "name": "web", "cwd": "/srv", "env": {"A": "1"}, "ready": {"port": 3000},
                "restart": "on_failure", "wait": 2.5}"#,
        )
        .unwrap();
        assert_eq!((full.ready, full.restart), (Some(Ready::Port(3000)), RestartPolicy::OnFailure));
        assert_eq!((full.wait, full.env["A"].as_str()), (Duration::from_millis(2500), "1"));
    }

    #[test]
    fn what_makes_no_sense_is_refused_by_name() {
        for (wrong, expected) in [
            (r#"{"command": " "}"#, "command: must not be empty"),
            (r#"{"command": "a\u0000"}"#, "command: the NUL byte"),
            (r#"{"command": "x", "wait": 301}"#, "wait: 301"),
            (r#"{"command": "x", "wait": -1}"#, "wait: -1"),
            (r#"{"command": "x", "cwd": ""}"#, "cwd: "),
            (r#"{"command": "x", "env": {"A=": ""}}"#, "env: 'A='"),
            (r#"{"command": "x", "restart": "sometimes"}"#, "`on_failure`"),
            (r#"{"command": "x", "port": 1}"#, "unknown field `port`"),
        ] {
            let error = read(wrong).unwrap_err();
            assert!(error.contains(expected), "{wrong}: {error}");
        }
        let grace = |seconds| grace(&wire::StopServiceRequest { grace: seconds });
        assert_eq!(grace(None).unwrap(), STOP_GRACE);
        assert_eq!(grace(Some(0.0)).unwrap(), Duration::ZERO);
        assert!(grace(Some(121.0)).unwrap_err().problem().detail.starts_with("grace: 121"));
        let params = |grep: Option<&str>| wire::LogParams { grep: grep.map(str::to_owned), ..Default::default() };
        assert!(log_follow(&params(Some("x"))).is_err());
        assert_eq!(log_follow(&params(None)).unwrap(), (0, None));
    }
}
