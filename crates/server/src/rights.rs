//! What a read-only token and a token of the console may request, by method and path. Everything that is not listed is
//! rejected, so that a new route that changes something is closed to them.

use crate::refusal::Refusal;
use axum::http::{Method, StatusCode};
use shellkeep_runtime::Scope;

/// Paths that a token for metrics may read.
const FIGURES: [&str; 3] = ["/metrics", "/healthz", "/readyz"];
/// Routes with a reading method that can change something.
const CONVERSATIONS: [&str; 2] = ["/mcp", "/v1/mcp/"];

/// Where a token of the console may change something: sessions, but neither tokens nor the daemon.
const SESSIONS: &str = "/v1/sessions";
/// How a person at the console signs out.
pub(crate) const LOGOUT: &str = "/v1/console/logout";

/// Rejects a request that such a token may not make. The engine checks the limits of the host and of agents.
pub(crate) fn check(scope: &Scope, method: &Method, path: &str) -> Result<(), Refusal> {
    let reads = method == Method::GET || method == Method::HEAD;
    let (is_allowed, role) = match scope {
        Scope::Host | Scope::Agent { .. } | Scope::Session { .. } => return Ok(()),
        Scope::Metrics { .. } => (reads && FIGURES.contains(&path), "metrics"),
        Scope::Auditor { .. } => {
            let converses = CONVERSATIONS.iter().any(|start| path.starts_with(start));
            ((reads && !converses) || is_verification(method, path) || path == LOGOUT, "auditor")
        }
        Scope::Console { .. } => {
            let converses = CONVERSATIONS.iter().any(|start| path.starts_with(start));
            let is_about_sessions = path == SESSIONS || path.starts_with("/v1/sessions/");
            ((reads && !converses) || is_about_sessions || path == LOGOUT, "act")
        }
    };
    if is_allowed {
        return Ok(());
    }
    let what = match role {
        "metrics" => "it may read /metrics, /healthz and /readyz only",
        "act" => "it may read everything and use all sessions, but not change tokens, quotas or the daemon",
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
        let console = Scope::Console { token: "tok_3".to_owned() };
        for (method, path, audits, measures, acts) in [
            (Method::GET, "/v1/sessions", true, false, true),
            (Method::GET, "/v1/sessions/s/export", true, false, true),
            (Method::GET, "/metrics", true, true, true),
            (Method::GET, "/readyz", true, true, true),
            (Method::HEAD, "/healthz", true, true, true),
            (Method::POST, "/v1/sessions/s/verify", true, false, true),
            (Method::POST, "/v1/sessions/s/x/verify", false, false, true),
            (Method::POST, "/v1/sessions/s/run", false, false, true),
            (Method::PUT, "/v1/sessions/s/files/content", false, false, true),
            (Method::DELETE, "/v1/sessions/s", false, false, true),
            (Method::POST, "/metrics", false, false, false),
            (Method::GET, "/mcp", false, false, false),
            (Method::GET, "/v1/mcp/stdio", false, false, false),
            (Method::GET, "/v1/live", true, false, true),
            (Method::GET, "/v1/tokens", true, false, true),
            (Method::POST, "/v1/tokens", false, false, false),
            (Method::DELETE, "/v1/tokens/tok_1", false, false, false),
            (Method::PUT, "/v1/quotas", false, false, false),
            (Method::POST, "/v1/daemon/stop", false, false, false),
            (Method::POST, "/v1/hold", false, false, false),
            (Method::POST, "/v1/console/code", false, false, false),
            (Method::POST, "/v1/console/logout", true, false, true),
        ] {
            assert_eq!(check(&auditor, &method, path).is_ok(), audits, "auditor {method} {path}");
            assert_eq!(check(&metrics, &method, path).is_ok(), measures, "metrics {method} {path}");
            assert_eq!(check(&console, &method, path).is_ok(), acts, "console {method} {path}");
            assert!(check(&Scope::Host, &method, path).is_ok());
        }
    }
}
