//! Why a request was refused, for both doors: the fact, a code, data, and a hint that each door words in its own verbs.

use axum::http::StatusCode;
use shellkeep_protocol::Problem;
use shellkeep_runtime::Hint;
use shellkeep_session::IdError;

/// Seconds after which to try again: data of a problem, and a header of its answer.
pub const RETRY_AFTER: &str = "retry_after";

/// Why a request was refused. Boxed, because it is rare and results should stay small.
#[derive(Debug)]
pub struct Refusal {
    problem: Box<Problem>,
    hint: Option<Hint>,
}

impl Refusal {
    /// A refusal with a status, a stable code and a sentence.
    pub fn new(status: StatusCode, code: &str, detail: impl Into<String>) -> Self {
        let title = status.canonical_reason().unwrap_or("Error");
        let problem = Box::new(Problem::new(status.as_u16(), title, code, detail));
        Self { problem, hint: None }
    }

    /// The request is invalid.
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

    /// A bug in the daemon.
    pub fn internal(detail: impl Into<String>) -> Self {
        let detail = detail.into();
        tracing::error!(%detail, "internal error");
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal_error", detail)
    }

    /// The problem, whose detail is only the fact.
    pub fn problem(&self) -> &Problem {
        &self.problem
    }

    /// What to do next, if the fact does not say it.
    pub fn hint(&self) -> Option<Hint> {
        self.hint
    }

    /// The same with a hint.
    pub fn with_hint(self, hint: Option<Hint>) -> Self {
        Self { hint, ..self }
    }

    /// The same with data.
    pub fn with(self, name: &str, value: impl Into<serde_json::Value>) -> Self {
        Self { problem: Box::new(self.problem.with(name, value)), ..self }
    }
}
