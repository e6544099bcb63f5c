//! A refusal as an HTTP problem document, with what to do next as a route.

use crate::refusal::{RETRY_AFTER, Refusal};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use shellkeep_protocol::Problem;
use shellkeep_protocol::problem::MEDIA_TYPE;
use shellkeep_runtime::Hint;

/// The problem with what to do next in its detail.
pub fn problem(refusal: &Refusal) -> Problem {
    let problem = refusal.problem().clone();
    let Some(hint) = refusal.hint() else { return problem };
    let fact = problem.detail;
    Problem {
        detail: format!("{fact}; {}", words(hint)),
        fact: Some(fact),
        hint: Some(hint.as_str().to_owned()),
        ..problem
    }
}

fn words(hint: Hint) -> &'static str {
    match hint {
        Hint::ListSessions => "list sessions with GET /v1/sessions, or create one with POST /v1/sessions",
        Hint::ListTokens => "list tokens with GET /v1/tokens",
        Hint::ListRuns => "list its runs with GET …/runs",
        Hint::ReadPages => "read its events in pages with GET …/events, without Accept: text/event-stream",
        Hint::Verify => "check the rest of the recording with POST …/verify",
        Hint::KeepInputOpen => "to send input later, start the command with blocking=false and without stdin",
        Hint::UseTerminal => "start the command with tty=true",
        Hint::WaitForRun => {
            "wait for that run or signal it; without if_busy=reject, a command waits for its turn until its timeout"
        }
        Hint::WaitLonger => "wait for that run or signal it, or send the command again with a longer timeout",
        Hint::TryAfterRun => "wait for that run or signal it, then try again",
        Hint::WaitForRelease => {
            "wait until GET /v1/sessions/{session_id} shows no hold; the host can end it with DELETE …/hold"
        }
        Hint::HoldAgain => "take a hold again with POST …/hold",
        Hint::TakeWorkspaces => {
            "to let the copy work there, stop the original for good and start this daemon once with `shellkeep serve \
             --take-workspaces`; to keep them separate, fork the session or pass a cwd inside the copy"
        }
        Hint::ListServices => "list its services with GET …/services",
        Hint::StopService => "stop a service with POST …/services/{service_id}/stop",
        Hint::MakeRoom => {
            "stop a service with POST …/services/{service_id}/stop, or raise the limit with PUT /v1/quotas"
        }
        Hint::RaiseQuota => "raise the limit with PUT /v1/quotas",
        Hint::ReadAgentState => {
            "read it with GET …/agent_state and save again with If-Match set to the version you have read"
        }
        Hint::SaveAgentState => "save one with PUT …/agent_state",
        Hint::ReadOlderAgentState => {
            "save a new state, read an earlier version with ?version=, or rewind to a record before it"
        }
        Hint::ListKeys => "list its keys with GET …/kv?prefix=",
        Hint::RemoveTree => "pass recursive=true to remove everything in it",
        Hint::ReadInParts => "read it in parts with offset and limit",
        Hint::RestoreDirectory => {
            "put the directory back, or restore it with POST …/rewind {\"to\": \"undo\"} if it was in the workspace, or \
             pass a cwd (a `cd` in the command moves the session there)"
        }
        Hint::ClearTmp => {
            "remove it there as the daemon's user, or fork the session with POST …/fork: a fork has a /tmp of its own"
        }
        Hint::ReadOutput => "read its result with GET …/runs/{run_id} and its output with GET …/runs/{run_id}/output",
        Hint::NameAgent => "set agent to the name of the sessions' agent",
        Hint::ListNodes => "list nodes with GET /v1/nodes",
        Hint::NameNoAgent => "omit agent and may_restart",
        Hint::ListFiles => "list its files with GET …/files?path=",
        Hint::ListCheckpoints => "list checkpoints with GET …/checkpoints",
        Hint::ListMoments => "list the moments to go back to with GET …/runs and GET …/checkpoints",
        Hint::SeparateFiles => {
            "to give forks their own files, create a session with config.workspace set to that directory, or `cd` into \
             the workspace first; to share the files, fork with share_files"
        }
        Hint::ForceRewind => "dry_run shows what would change; use force to undo their changes as well",
        Hint::ResolveConflicts => {
            "resolve this in either session, or choose a side with prefer=fork or prefer=origin; dry_run shows the conflicts"
        }
        Hint::ConfigureAgent => {
            "create a session with config {\"agent\": {\"command\": [\"python3\", \"agent.py\"]}}; cwd, env and \
             timeout may be set next to command"
        }
        Hint::WaitForAgent => {
            "wait until it has finished; without if_busy=reject, a message waits for its turn until its timeout"
        }
    }
}

/// After how many seconds to try again what is unavailable, if nothing better is known.
const SOON: u64 = 1;

/// The code of a refusal, for those that its response passes.
#[derive(Clone)]
pub(super) struct Code(pub(super) String);

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let problem = problem(&self);
        let status = StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let body = serde_json::to_vec(&problem).unwrap_or_default();
        let mut response = (status, [(header::CONTENT_TYPE, MEDIA_TYPE)], body).into_response();
        if status == StatusCode::UNAUTHORIZED {
            let challenge = HeaderValue::from_static("Bearer realm=\"shellkeep\"");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
        }
        let seconds = problem.data.get(RETRY_AFTER).and_then(serde_json::Value::as_u64);
        let passes = (status == StatusCode::SERVICE_UNAVAILABLE).then_some(SOON);
        if let Some(seconds) = seconds.or(passes) {
            response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
        }
        response.extensions_mut().insert(Code(problem.code));
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shellkeep_runtime::{OpError, RunError, ServiceError, WhileBusy};
    use std::time::Duration;

    #[test]
    fn what_is_unavailable_says_when_to_come_again() {
        let (waited, retry_after) = (Duration::from_secs(30), Duration::from_millis(1200));
        let refusal = Refusal::from(OpError::Run(RunError::Overloaded { waiting: 10, limit: 10, waited, retry_after }));
        let data = refusal.problem().data.clone();
        assert_eq!(refusal.into_response().headers()[header::RETRY_AFTER], "2");
        assert_eq!((&data["waiting"], &data["limit"], &data["retry_after"]), (&10.into(), &10.into(), &2.into()));
        assert_eq!(Refusal::from(OpError::ShuttingDown).into_response().headers()[header::RETRY_AFTER], "5");
        let unwell = OpError::StoreUnavailable { reason: String::new() };
        assert_eq!(Refusal::from(unwell).into_response().headers()[header::RETRY_AFTER], "1");
        let unknown = OpError::Service(ServiceError::NotFound { session_id: "s".into(), service_id: "s1".into() });
        assert!(Refusal::from(unknown).into_response().headers().get(header::RETRY_AFTER).is_none());
    }

    /// A command that had waited was told that commands wait, and a rewind that it may be sent without if_busy.
    #[test]
    fn a_busy_session_says_what_helps_whom() {
        let told = |asked: WhileBusy| {
            let (session_id, run_id, command) = ("s".to_owned(), "r1".to_owned(), "sleep 60".to_owned());
            let busy = RunError::Busy { session_id, run_id, command, running_for: Duration::from_secs(9), asked };
            problem(&Refusal::from(OpError::Run(busy))).detail
        };
        assert!(
            told(WhileBusy::NotToWait).contains("nothing was done; wait for that run or signal it; without if_busy")
        );
        let waited = told(WhileBusy::Waited);
        assert!(waited.contains("timeout ran out while it waited for its turn, and nothing was run"), "{waited}");
        assert!(waited.ends_with("or send the command again with a longer timeout"), "{waited}");
        let other = told(WhileBusy::Other);
        assert!(other.ends_with("nothing was done; wait for that run or signal it, then try again"), "{other}");
        assert!(!waited.contains("if_busy") && !other.contains("if_busy"));
    }

    #[test]
    fn what_to_do_next_is_a_route() {
        let error = OpError::Service(ServiceError::NotFound { session_id: "s".into(), service_id: "s1".into() });
        let problem = problem(&Refusal::from(error));
        assert_eq!(problem.detail, "session 's' has no service 's1'; list its services with GET …/services");
        assert_eq!(problem.fact.as_deref(), Some("session 's' has no service 's1'"));
        assert_eq!(problem.hint.as_deref(), Some("list_services"));
    }
}
