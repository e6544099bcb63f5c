//! Refusals: which HTTP status each error of the runtime has, and how it looks on the wire.

use super::translate;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use shellkeep_protocol::Problem;
use shellkeep_protocol::problem::MEDIA_TYPE;
use shellkeep_runtime::{OpError, QuotaMet, whole_seconds};
use shellkeep_session::IdError;

/// In how many seconds to try again: data of a problem, and a header of its answer.
const RETRY_AFTER: &str = "retry_after";

/// Why a request was refused. Boxed, because it is rare and results should stay small.
#[derive(Debug)]
pub struct Refusal(Box<Problem>);

impl Refusal {
    /// A refusal with a status, a stable code and a sentence.
    pub fn new(status: StatusCode, code: &str, detail: impl Into<String>) -> Self {
        let title = status.canonical_reason().unwrap_or("Error");
        Self(Box::new(Problem::new(status.as_u16(), title, code, detail)))
    }

    /// The request makes no sense.
    pub fn invalid(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid_request", detail)
    }

    /// A field or parameter is not an id.
    pub fn bad_id(name: &str, error: &IdError) -> Self {
        Self::invalid(format!("{name}: {error}"))
    }

    /// The body is longer than a route takes.
    pub fn too_large(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "payload_too_large", detail)
    }

    /// A bug of ours.
    pub fn internal(detail: impl Into<String>) -> Self {
        let detail = detail.into();
        tracing::error!(%detail, "a request failed for a reason that is ours");
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal_error", detail)
    }

    /// The problem itself.
    pub fn problem(&self) -> &Problem {
        &self.0
    }

    fn over_quota(self, met: QuotaMet) -> Self {
        let services: Vec<_> = met.services.into_iter().map(translate::service).collect();
        let services = serde_json::to_value(services).unwrap_or_default();
        let refusal = self.with("quota", met.quota.as_str()).with("limit", met.limit).with("used", met.used);
        refusal.with("services", services)
    }

    fn with(self, name: &str, value: impl Into<serde_json::Value>) -> Self {
        Self(Box::new(self.0.with(name, value)))
    }
}

impl From<OpError> for Refusal {
    fn from(error: OpError) -> Self {
        let refusal = Self::new(status(&error), error.code(), error.to_string());
        match error {
            OpError::SessionNotFound { session_id }
            | OpError::Restarted { session_id }
            | OpError::Damaged { session_id, .. } => refusal.with("session_id", session_id),
            OpError::RunNotFound { session_id, run_id } | OpError::Busy { session_id, run_id } => {
                refusal.with("session_id", session_id).with("run_id", run_id)
            }
            OpError::RunEnded { run_id } | OpError::NoInput { run_id } | OpError::OutputReclaimed { run_id } => {
                refusal.with("run_id", run_id)
            }
            OpError::QueueFull { session_id, waiting } => {
                refusal.with("session_id", session_id).with("waiting", waiting)
            }
            OpError::TokenNotFound { token_id } => refusal.with("token_id", token_id),
            OpError::RequestIdReused { request_id } => refusal.with("request_id", request_id),
            OpError::BadCwd { path, .. } => refusal.with("cwd", path),
            OpError::CwdGone { session_id, path, .. } | OpError::FilesNotApart { session_id, path, .. } => {
                refusal.with("session_id", session_id).with("cwd", path)
            }
            OpError::BadWorkspace { path, .. } => refusal.with("workspace", path),
            OpError::WorkspaceNotTaken { session_id, path, .. } => {
                refusal.with("session_id", session_id).with("workspace", path)
            }
            OpError::QuotaExceeded(met) => refusal.over_quota(*met),
            OpError::Overloaded { waiting, limit, retry_after, .. } => {
                let seconds = whole_seconds(retry_after);
                refusal.with("waiting", waiting).with("limit", limit).with(RETRY_AFTER, seconds)
            }
            OpError::ServiceNotFound { session_id, service_id } => {
                refusal.with("session_id", session_id).with("service_id", service_id)
            }
            OpError::Resume(error) => refusal.with("session_id", error.session_id()),
            OpError::VersionConflict { current } => refusal.with("version", current),
            OpError::AgentStateReclaimed { version } | OpError::AgentStateDamaged { version, .. } => {
                refusal.with("version", version)
            }
            OpError::FileChanged { session_id, file } => refusal.with("session_id", session_id).with("file", file),
            OpError::AgentStateNotFound { session_id } | OpError::RecordingUnreadable { session_id, .. } => {
                refusal.with("session_id", session_id)
            }
            OpError::CheckpointNotFound { session_id, checkpoint, .. } => {
                refusal.with("session_id", session_id).with("checkpoint", checkpoint)
            }
            OpError::FileNotFound { checkpoint, path } => refusal.with("checkpoint", checkpoint).with("path", path),
            OpError::FilesFailed { session_id, .. } | OpError::SessionExists { session_id } => {
                refusal.with("session_id", session_id)
            }
            OpError::MergeConflict { conflicts, .. } => {
                let conflict = |(path, reason)| serde_json::json!({"path": path, "reason": reason});
                refusal.with("conflicts", conflicts.into_iter().map(conflict).collect::<Vec<_>>())
            }
            OpError::SearchSpent { place: "offset", next, .. } => refusal.with("next_offset", next),
            OpError::SearchSpent { next, .. } => refusal.with("after", next),
            OpError::NoShare(full) => refusal.with("limit", full.limit),
            OpError::EventsCutOff { taken, first_seq, .. } => refusal.with("taken", taken).with("first_seq", first_seq),
            OpError::Invalid { .. }
            | OpError::InvalidEventType { .. }
            | OpError::NoSuchMoment { .. }
            | OpError::NoOrigin { .. }
            | OpError::NotAllowed { .. }
            | OpError::TokensUnavailable { .. }
            | OpError::ShellUnavailable { .. }
            | OpError::ServiceNotStarted { .. }
            | OpError::StoreUnavailable { .. }
            | OpError::ShuttingDown => refusal,
        }
    }
}

/// The HTTP status of an error.
fn status(error: &OpError) -> StatusCode {
    match error {
        OpError::Invalid { .. }
        | OpError::InvalidEventType { .. }
        | OpError::BadCwd { .. }
        | OpError::BadWorkspace { .. } => StatusCode::BAD_REQUEST,
        OpError::NotAllowed { .. } => StatusCode::FORBIDDEN,
        OpError::SessionNotFound { .. }
        | OpError::RunNotFound { .. }
        | OpError::ServiceNotFound { .. }
        | OpError::AgentStateNotFound { .. }
        | OpError::CheckpointNotFound { .. }
        | OpError::NoSuchMoment { .. }
        | OpError::FileNotFound { .. }
        | OpError::TokenNotFound { .. } => StatusCode::NOT_FOUND,
        OpError::Restarted { .. }
        | OpError::CwdGone { .. }
        | OpError::FilesNotApart { .. }
        | OpError::WorkspaceNotTaken { .. }
        | OpError::RunEnded { .. }
        | OpError::NoInput { .. }
        | OpError::Busy { .. }
        | OpError::SessionExists { .. }
        | OpError::NoOrigin { .. }
        | OpError::MergeConflict { .. }
        | OpError::RequestIdReused { .. } => StatusCode::CONFLICT,
        OpError::FilesFailed { reason, .. } if is_full(reason) => StatusCode::INSUFFICIENT_STORAGE,
        OpError::Resume(error) if error.is_for_now() => StatusCode::SERVICE_UNAVAILABLE,
        OpError::Resume(_) => StatusCode::CONFLICT,
        OpError::QueueFull { .. } | OpError::QuotaExceeded(_) => StatusCode::TOO_MANY_REQUESTS,
        OpError::NoShare(full) if full.by_all => StatusCode::SERVICE_UNAVAILABLE,
        OpError::NoShare(_) => StatusCode::TOO_MANY_REQUESTS,
        OpError::SearchSpent { .. } => StatusCode::UNPROCESSABLE_ENTITY,
        OpError::Damaged { .. } | OpError::AgentStateDamaged { .. } | OpError::FileChanged { .. } => {
            StatusCode::INTERNAL_SERVER_ERROR
        }
        OpError::OutputReclaimed { .. } | OpError::AgentStateReclaimed { .. } => StatusCode::GONE,
        OpError::VersionConflict { .. } => StatusCode::PRECONDITION_FAILED,
        OpError::RecordingUnreadable { .. } | OpError::FilesFailed { .. } => StatusCode::INTERNAL_SERVER_ERROR,
        OpError::ShellUnavailable { .. }
        | OpError::ServiceNotStarted { .. }
        | OpError::Overloaded { .. }
        | OpError::StoreUnavailable { .. }
        | OpError::EventsCutOff { .. }
        | OpError::TokensUnavailable { .. }
        | OpError::ShuttingDown => StatusCode::SERVICE_UNAVAILABLE,
    }
}

/// How the system says that there is no room: the disk is full (28), or a user's limit is met (122).
const NO_ROOM: [&str; 3] = ["(os error 28)", "(os error 122)", "No space left on device"];

/// Whether a reason is that there is no room.
fn is_full(reason: &str) -> bool {
    NO_ROOM.iter().any(|words| reason.contains(words))
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.0.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let body = serde_json::to_vec(&self.0).unwrap_or_default();
        let mut response = (status, [(header::CONTENT_TYPE, MEDIA_TYPE)], body).into_response();
        if status == StatusCode::UNAUTHORIZED {
            let challenge = HeaderValue::from_static("Bearer realm=\"shellkeep\"");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
        }
        if let Some(seconds) = self.0.data.get(RETRY_AFTER).and_then(serde_json::Value::as_u64) {
            response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::service_text::tests::view;
    use std::time::Duration;

    fn quota_met() -> OpError {
        let quota = shellkeep_session::QuotaName::LiveShells;
        OpError::QuotaExceeded(Box::new(QuotaMet { quota, limit: 1, used: 1, agent: None, services: Vec::new() }))
    }

    fn overloaded() -> OpError {
        let (waited, retry_after) = (Duration::from_secs(30), Duration::from_millis(1200));
        OpError::Overloaded { waiting: 10, limit: 10, waited, retry_after }
    }

    fn not_kept(reason: &str) -> OpError {
        let reason = reason.to_owned();
        OpError::FilesFailed {
            session_id: "s".into(),
            what: "could not be kept",
            reason,
            state: "they are as they were",
        }
    }

    fn of(error: OpError) -> (u16, String) {
        let refusal = Refusal::from(error);
        (refusal.problem().status, refusal.problem().code.clone())
    }

    #[test]
    fn statuses_and_codes_are_those_of_the_contract() {
        let session_id = "s".to_owned();
        let run_id = "r1".to_owned();
        let table = [
            (OpError::Invalid { detail: String::new() }, 400, "invalid_request"),
            (OpError::NotAllowed { detail: String::new() }, 403, "not_allowed"),
            (OpError::TokenNotFound { token_id: "t".into() }, 404, "token_not_found"),
            (OpError::TokensUnavailable { detail: String::new() }, 503, "store_unavailable"),
            (OpError::SessionNotFound { session_id: session_id.clone() }, 404, "session_not_found"),
            (OpError::RunNotFound { session_id: session_id.clone(), run_id: run_id.clone() }, 404, "run_not_found"),
            (OpError::Busy { session_id: session_id.clone(), run_id }, 409, "session_busy"),
            (OpError::RequestIdReused { request_id: "q".into() }, 409, "request_id_reused"),
            (OpError::QueueFull { session_id: session_id.clone(), waiting: 9 }, 429, "queue_full"),
            (quota_met(), 429, "quota_exceeded"),
            (OpError::Damaged { session_id, reason: String::new() }, 500, "session_damaged"),
            (OpError::ShellUnavailable { reason: String::new() }, 503, "shell_unavailable"),
            (OpError::ServiceNotFound { session_id: "s".into(), service_id: "s1".into() }, 404, "service_not_found"),
            (OpError::ServiceNotStarted { reason: String::new() }, 503, "service_not_started"),
            (overloaded(), 503, "overloaded"),
            (not_kept("No space left on device (os error 28)"), 507, "files_failed"),
            (not_kept("Permission denied (os error 13)"), 500, "files_failed"),
            (OpError::NoSuchMoment { detail: String::new() }, 404, "no_such_moment"),
            (OpError::FileNotFound { checkpoint: "c".into(), path: "p".into() }, 404, "file_not_found"),
            (OpError::SessionExists { session_id: "s".into() }, 409, "session_exists"),
            (OpError::NoOrigin { detail: String::new() }, 409, "no_origin"),
            (OpError::StoreUnavailable { reason: String::new() }, 503, "store_unavailable"),
            (OpError::ShuttingDown, 503, "shutting_down"),
        ];
        for (error, status, code) in table {
            assert_eq!(of(error), (status, code.to_owned()));
        }
    }

    #[test]
    fn a_busy_session_names_its_run() {
        let refusal = Refusal::from(OpError::Busy { session_id: "s".into(), run_id: "r7".into() });
        assert_eq!(serde_json::to_value(refusal.problem()).unwrap()["run_id"], "r7");
    }

    #[test]
    fn a_refused_merge_names_what_does_not_fit() {
        let conflicts = vec![("a.txt".to_owned(), "both changed it".to_owned())];
        let refusal = Refusal::from(OpError::MergeConflict { first: "a.txt".into(), conflicts });
        let data = serde_json::to_value(refusal.problem()).unwrap();
        assert_eq!((&data["status"], &data["code"]), (&409.into(), &"merge_conflict".into()));
        assert_eq!(data["conflicts"][0], serde_json::json!({"path": "a.txt", "reason": "both changed it"}));
    }

    #[test]
    fn an_overloaded_node_says_when_to_come_again() {
        let response = Refusal::from(overloaded()).into_response();
        assert_eq!(response.headers()[header::RETRY_AFTER], "2");
        let refusal = Refusal::from(overloaded());
        let data = &refusal.problem().data;
        assert_eq!((&data["waiting"], &data["limit"], &data["retry_after"]), (&10.into(), &10.into(), &2.into()));
        assert!(Refusal::from(OpError::ShuttingDown).into_response().headers().get(header::RETRY_AFTER).is_none());
    }

    #[test]
    fn a_met_quota_names_the_services_that_could_go() {
        let quota = shellkeep_session::QuotaName::ServicesPerAgent;
        let met = QuotaMet { quota, limit: 1, used: 1, agent: Some("ann".into()), services: vec![view()] };
        let refusal = Refusal::from(OpError::QuotaExceeded(Box::new(met)));
        let data = serde_json::to_value(refusal.problem()).unwrap();
        assert_eq!(
            (&data["quota"], &data["limit"], &data["used"]),
            (&"services_per_agent".into(), &1.into(), &1.into())
        );
        assert_eq!(
            (&data["services"][0]["service_id"], &data["services"][0]["ports"][0]),
            (&"s12".into(), &5173.into())
        );
        assert!(refusal.problem().detail.contains("stop_service"), "{}", refusal.problem());
    }
}
