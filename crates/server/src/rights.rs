//! What a read-only token may request, by method and path. Everything that is not listed is rejected, so that a new
//! route that changes something is closed to it.

use crate::refusal::Refusal;
use axum::http::{Method, StatusCode};
use shellkeep_runtime::Scope;

/// Paths that a token for metrics may read.
const FIGURES: [&str; 3] = ["/metrics", "/healthz", "/readyz"];
/// Routes with a reading method that can change something.
const CONVERSATIONS: [&str; 3] = ["/mcp", "/v1/mcp/", "/v1/live"];

/// Rejects a request that a read-only token may not make. The engine checks the limits of the host and of agents.
pub(crate) fn check(scope: &Scope, method: &Method, path: &str) -> Result<(), Refusal> {
    let reads = method == Method::GET || method == Method::HEAD;
    let (is_allowed, role) = match scope {
        Scope::Host | Scope::Agent { .. } | Scope::Session { .. } => return Ok(()),
        Scope::Metrics { .. } => (reads && FIGURES.contains(&path), "metrics"),
        Scope::Auditor { .. } => {
            let converses = CONVERSATIONS.iter().any(|start| path.starts_with(start));
            ((reads && !converses) || is_verification(method, path), "auditor")
        }
    };
    if is_allowed {
        return Ok(());
    }
    let what = match role {
        "metrics" => "it may read /metrics, /healthz and /readyz only",
        _ => "it may read everything, and change nothing",
    };
    let detail = format!("this token has the role {role}: {what}; use an agent's token, or the host's");
    Err(Refusal::new(StatusCode::FORBIDDEN, "not_allowed", detail))
}

/// Verifying reads a recording and changes nothing, though it is a POST.
fn is_verification(method: &Method, path: &str) -> bool {
    let inner = path.strip_prefix("/v1/sessions/").and_then(|rest| rest.strip_suffix("/verify"));
    method == Method::POST && inner.is_some_and(|session| !session.contains('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_read_and_nothing_else() {
        let auditor = Scope::Auditor { token: "tok_1".to_owned() };
        let metrics = Scope::Metrics { token: "tok_2".to_owned() };
        for (method, path, audits, measures) in [
            (Method::GET, "/v1/sessions", true, false),
            (Method::GET, "/v1/sessions/s/export", true, false),
            (Method::GET, "/metrics", true, true),
            (Method::GET, "/readyz", true, true),
            (Method::HEAD, "/healthz", true, true),
            (Method::POST, "/v1/sessions/s/verify", true, false),
            (Method::POST, "/v1/sessions/s/x/verify", false, false),
            (Method::POST, "/v1/sessions/s/run", false, false),
            (Method::PUT, "/v1/sessions/s/files/content", false, false),
            (Method::DELETE, "/v1/sessions/s", false, false),
            (Method::POST, "/metrics", false, false),
            (Method::GET, "/mcp", false, false),
            (Method::GET, "/v1/mcp/stdio", false, false),
            (Method::GET, "/v1/live", false, false),
        ] {
            assert_eq!(check(&auditor, &method, path).is_ok(), audits, "auditor {method} {path}");
            assert_eq!(check(&metrics, &method, path).is_ok(), measures, "metrics {method} {path}");
            assert!(check(&Scope::Host, &method, path).is_ok());
        }
    }
}
