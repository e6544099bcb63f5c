//! Who may come in. The Unix socket is guarded by its file mode; TCP needs a token, and refuses requests that a web
//! page tricked a browser into (another origin, or a foreign name that was rebound to this address).

use super::metrics::RequestMetrics;
use super::problem::Refusal;
use axum::extract::{Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::hint::black_box;
use std::net::IpAddr;
use std::sync::Arc;

/// The one path that needs no token: supervisors must be able to ask whether the process answers.
const OPEN_PATH: &str = "/healthz";

/// Who may come in through a door.
#[derive(Debug, Clone)]
pub enum Auth {
    /// Whoever can open the socket.
    SocketOwner,
    /// Whoever has the token.
    Bearer {
        /// The token.
        token: Token,
        /// Whether the door listens on loopback only, so that a foreign name in `Host` can only be a trick.
        loopback: bool,
    },
}

/// A secret that is compared in constant time and never printed.
#[derive(Clone)]
pub struct Token(String);

impl Token {
    /// Wraps a secret.
    pub fn new(secret: impl Into<String>) -> Self {
        Self(secret.into())
    }

    /// Compares without telling, by the time it takes, how much was right. The length is no secret.
    fn matches(&self, given: &[u8]) -> bool {
        let secret = self.0.as_bytes();
        let mut difference = u8::from(secret.len() != given.len());
        for (ours, theirs) in secret.iter().zip(given) {
            difference |= black_box(ours ^ theirs);
        }
        black_box(difference) == 0
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(…)")
    }
}

/// What the gate needs.
pub(crate) struct Gate {
    pub(crate) auth: Auth,
    pub(crate) counts: Arc<RequestMetrics>,
}

/// Stands before every route: lets in, and counts what comes out.
pub(crate) async fn gate(State(gate): State<Arc<Gate>>, request: Request, next: Next) -> Response {
    let response = match admit(&gate.auth, request.uri().path(), request.headers()) {
        Ok(()) => next.run(request).await,
        Err(refusal) => refusal.into_response(),
    };
    gate.counts.answered(response.status());
    response
}

fn admit(auth: &Auth, path: &str, headers: &HeaderMap) -> Result<(), Refusal> {
    let Auth::Bearer { token, loopback } = auth else { return Ok(()) };
    if path == OPEN_PATH {
        return Ok(());
    }
    check_origin(headers)?;
    if *loopback {
        check_host(headers)?;
    }
    let given = headers.get(header::AUTHORIZATION).and_then(|value| bearer(value.as_bytes()));
    if given.is_some_and(|given| token.matches(given)) {
        return Ok(());
    }
    let detail = "this door needs the header `Authorization: Bearer TOKEN`; the token is in SHELLKEEP_TOKEN or in the \
                  file `token` of the daemon's data directory. The Unix socket needs none";
    Err(Refusal::new(StatusCode::UNAUTHORIZED, "unauthorized", detail))
}

fn bearer(value: &[u8]) -> Option<&[u8]> {
    const SCHEME: &[u8] = b"bearer ";
    let (scheme, token) = value.split_at_checked(SCHEME.len())?;
    scheme.eq_ignore_ascii_case(SCHEME).then(|| token.trim_ascii())
}

fn check_origin(headers: &HeaderMap) -> Result<(), Refusal> {
    let Some(origin) = headers.get(header::ORIGIN) else { return Ok(()) };
    let host = origin.to_str().ok().and_then(|text| text.split_once("://")).map(|(_, authority)| authority);
    if host.is_some_and(is_loopback) {
        return Ok(());
    }
    let detail = "requests of web pages are taken from loopback origins only; call without an Origin header";
    Err(Refusal::new(StatusCode::FORBIDDEN, "forbidden_origin", detail))
}

fn check_host(headers: &HeaderMap) -> Result<(), Refusal> {
    let Some(host) = headers.get(header::HOST) else { return Ok(()) };
    if host.to_str().is_ok_and(is_loopback) {
        return Ok(());
    }
    let detail = "this door listens on loopback and takes requests for 127.0.0.1, [::1] or localhost only; to be \
                  reached by another name, listen on another address";
    Err(Refusal::new(StatusCode::FORBIDDEN, "forbidden_host", detail))
}

/// Whether `host[:port]` names this machine itself.
fn is_loopback(authority: &str) -> bool {
    let Ok(authority) = authority.parse::<Authority>() else { return false };
    let host = authority.host();
    let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    bare.eq_ignore_ascii_case("localhost") || bare.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderName;

    fn tried(path: &str, headers: &[(HeaderName, &str)]) -> Result<(), String> {
        let auth = Auth::Bearer { token: Token::new("secret"), loopback: true };
        let map = headers.iter().map(|(name, value)| (name.clone(), value.parse().unwrap())).collect();
        admit(&auth, path, &map).map_err(|refusal| refusal.problem().code.clone())
    }

    #[test]
    fn the_token_opens_and_nothing_else_does() {
        let authorization = header::AUTHORIZATION;
        assert_eq!(tried("/v1/sessions", &[(authorization.clone(), "Bearer secret")]), Ok(()));
        assert_eq!(tried("/v1/sessions", &[(authorization.clone(), "bearer secret")]), Ok(()));
        assert_eq!(tried("/healthz", &[]), Ok(()));
        for wrong in ["", "Bearer", "Bearer ", "Bearer secre", "Bearer secrets", "Basic secret", "secret"] {
            let tried = tried("/v1/sessions", &[(authorization.clone(), wrong)]);
            assert_eq!(tried, Err("unauthorized".to_owned()), "{wrong:?}");
        }
        assert_eq!(tried("/openapi.json", &[]), Err("unauthorized".to_owned()));
    }

    #[test]
    fn web_pages_of_others_stay_outside() {
        let key = (header::AUTHORIZATION, "Bearer secret");
        for (origin, expected) in [
            ("http://localhost:3000", Ok(())),
            ("http://[::1]:7433", Ok(())),
            ("https://example.com", Err("forbidden_origin".to_owned())),
            ("http://127.0.0.1.example.com", Err("forbidden_origin".to_owned())),
            ("null", Err("forbidden_origin".to_owned())),
        ] {
            assert_eq!(tried("/", &[key.clone(), (header::ORIGIN, origin)]), expected, "{origin}");
        }
        let rebound = tried("/", &[key.clone(), (header::HOST, "evil.example:7433")]);
        assert_eq!(rebound, Err("forbidden_host".to_owned()));
        assert_eq!(tried("/", &[key, (header::HOST, "127.0.0.1:7433")]), Ok(()));
    }
}
