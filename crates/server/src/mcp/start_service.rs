//! `start_service`: a command that keeps running next to the session.

use super::handler::Handler;
use super::seat::Seat;
use super::service_text::{self, LAST_WORDS};
use super::tool::{Effect, Entry, answer, arguments, defined};
use crate::detached::detached;
use crate::refusal::Refusal;
use crate::translate;
use rmcp::RoleServer;
use rmcp::model::CallToolResult;
use rmcp::service::RequestContext;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::Number;
use shellkeep_protocol::{ReadyWhen, RestartChoice, StartServiceRequest};
use shellkeep_runtime::{LogPage, LogQuery, ServiceView, Tail};
use shellkeep_session::ServiceStatus;
use utoipa::ToSchema;

pub const TOOL: Entry = Entry {
    define: || defined::<Arguments>("start_service", DESCRIPTION, Effect::Changes),
    call: |handler, given, context| Box::pin(async move { start(handler, arguments(given)?, context).await }),
};

/// Seconds a call waits for a service to become ready: most servers are ready by then, and no client times out sooner.
const READY_WAIT: f64 = 30.0;
/// Seconds a call waits to see whether the service ends at once, without a readiness condition. A wrong command fails
/// by then.
const SETTLE_WAIT: f64 = 1.0;

const DESCRIPTION: &str = "Start a server, database or watcher that keeps running next to your session, with its \
    directory and \
variables. Returns id, pid and ports; read_output shows its log. No & or nohup. With one of ready_*, waits up to 30 s until it \
is ready. Stop what you no longer need: few may run at once.";

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Must stay in the foreground.
    command: String,
    /// Such as web.
    name: Option<String>,
    /// Ready when it listens here.
    #[serde(default, deserialize_with = "port")]
    ready_port: Option<u16>,
    /// Ready when its log matches this regex.
    ready_log: Option<String>,
    /// Ready when this local URL answers below 400.
    ready_http: Option<String>,
    /// Default: the session's.
    cwd: Option<String>,
    /// Default never.
    restart: Option<RestartChoice>,
}

/// A TCP port. Of a number that is none, serde would say that `u16` was expected.
fn port<'de, D: Deserializer<'de>>(given: D) -> Result<Option<u16>, D::Error> {
    let Some(number) = Option::<Number>::deserialize(given)? else { return Ok(None) };
    match number.as_u64().and_then(|number| u16::try_from(number).ok()) {
        Some(port) if port > 0 => Ok(Some(port)),
        _ => Err(D::Error::custom(format!("{number} is not a TCP port; those are 1 to {}", u16::MAX))),
    }
}

async fn start(
    handler: &Handler,
    given: Arguments,
    context: &RequestContext<RoleServer>,
) -> Result<CallToolResult, Refusal> {
    let seat = handler.seat(context)?;
    let request = translate::start_service(request(given)?)?;
    let (starter, asked) = (seat.clone(), request);
    // A client that disconnects must not leave a service half started.
    let view = detached(async move { starter.start(asked).await }).await??;
    let log = last_words(&seat, &view).await?;
    answer(service_text::service(&view, log), &translate::service(view))
}

/// The end of the log of a service that failed or is not ready, so that the model sees why.
pub async fn last_words(seat: &Seat, view: &ServiceView) -> Result<Option<LogPage>, Refusal> {
    if matches!(view.status, ServiceStatus::Running | ServiceStatus::Stopped) {
        return Ok(None);
    }
    let query = LogQuery { offset: 0, limit: LAST_WORDS, tail: Some(Tail::Bytes(LAST_WORDS)), grep: None };
    Ok(Some(seat.engine.services().log(&view.session_id, view.service_id.as_str(), query).await?))
}

fn request(given: Arguments) -> Result<StartServiceRequest, Refusal> {
    let Arguments { command, name, ready_port, ready_log, ready_http, cwd, restart } = given;
    let conditions = [ready_port.map(ReadyWhen::Port), ready_log.map(ReadyWhen::Log), ready_http.map(ReadyWhen::Http)];
    let mut conditions = conditions.into_iter().flatten();
    let ready = conditions.next();
    if conditions.next().is_some() {
        return Err(Refusal::invalid("pass only one of ready_port, ready_log and ready_http"));
    }
    let wait = if ready.is_some() { READY_WAIT } else { SETTLE_WAIT };
    Ok(StartServiceRequest { command, name, cwd, env: None, ready, restart, wait: Some(wait) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn read(given: Value) -> Result<StartServiceRequest, String> {
        let Value::Object(given) = given else { panic!("arguments are an object") };
        let asked = arguments::<Arguments>(given).and_then(request);
        asked.map_err(|refusal| refusal.problem().detail.clone())
    }

    #[test]
    fn readiness_is_said_in_one_way_and_waited_for() {
        let plain = read(json!({"command": "x"})).unwrap();
        assert_eq!((plain.ready, plain.wait), (None, Some(SETTLE_WAIT)));
        let port = read(json!({"command": "x", "ready_port": 80, "restart": "always"})).unwrap();
        assert_eq!((port.ready, port.wait), (Some(ReadyWhen::Port(80)), Some(READY_WAIT)));
        assert_eq!(port.restart, Some(RestartChoice::Always));
        for (wrong, expected) in [
            (json!({"command": "x", "ready_port": 80, "ready_log": "y"}), "only one of"),
            (json!({"command": "x", "ready_port": 0}), "ready_port: 0 is not a TCP port"),
            // "expected u16", it said.
            (json!({"command": "x", "ready_port": 99999}), "ready_port: 99999 is not a TCP port; those are 1 to 65535"),
            (json!({"command": "x", "ready_port": "80"}), "ready_port: "),
            (json!({"command": "x", "ready": 80}), "unknown argument `ready`"),
            (json!({}), "missing argument `command`"),
        ] {
            let error = read(wrong.clone()).unwrap_err();
            assert!(error.contains(expected), "{wrong}: {error}");
        }
    }
}
