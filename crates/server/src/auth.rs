//! Authentication. The Unix socket is protected by its file mode, and a process of a session that connects to it is
//! that session's agent. TCP needs a token, and rejects requests that a web page tricked a browser into (another
//! origin, or a foreign name that was rebound to this address). Handlers get only [`Scoped`]: an engine with the
//! caller's rights.

use crate::connections::Way;
use crate::metrics::RequestMetrics;
use crate::peers::Peers;
use crate::refusal::Refusal;
use crate::rights;
use crate::until::until;
use axum::extract::{FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use shellkeep_runtime::{Engine, Guest, IssuedToken, OpError, Scope, Visitor};
use std::net::IpAddr;
use std::sync::Arc;

/// Paths that need no token: supervisors check whether the process responds, and the console's page asks for a token.
const OPEN_PATHS: [&str; 2] = ["/healthz", "/"];
/// The console's scripts and styles, which need none either.
const ASSETS: &str = "/assets/";
/// Paths whose callers prove in the request itself who they are: with a code, or with a token in the first frame, because a
/// page cannot send one with the request for a WebSocket.
const LOBBY_PATHS: [&str; 2] = ["/v1/console/login", LIVE];
/// A conversation, though it is read with GET.
const LIVE: &str = "/v1/live";
/// What a browser says about where a request comes from.
const SEC_FETCH_SITE: &str = "sec-fetch-site";

/// How callers of a door are authenticated.
#[derive(Debug, Clone)]
pub enum Auth {
    /// A process outside all sessions that can open the socket is the host. A token is checked there too: it may be an
    /// agent's, and a wrong one is rejected.
    SocketOwner {
        /// The host's token.
        token: Token,
    },
    /// Callers with the host token, or an agent's token.
    Bearer {
        /// The host's token.
        token: Token,
        /// Whether the door listens on loopback only, so that a foreign name in `Host` can only be an attack.
        loopback: bool,
    },
}

/// The hash of a secret. Hashes are compared in constant time.
#[derive(Clone)]
pub struct Token(blake3::Hash);

impl Token {
    /// Of a secret.
    pub fn new(secret: impl AsRef<[u8]>) -> Self {
        Self(blake3::hash(secret.as_ref()))
    }

    fn matches(&self, given: &[u8]) -> bool {
        blake3::hash(given) == self.0
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(…)")
    }
}

/// An engine with the caller's rights. Every handler takes it from the request, and there is no other engine, so that
/// no handler can forget the check.
#[derive(Clone)]
pub struct Scoped(pub Engine);

impl<S: Send + Sync> FromRequestParts<S> for Scoped {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refusal> {
        let found = parts.extensions.get::<Self>().cloned();
        found.ok_or_else(|| Refusal::internal("a route was served without authentication"))
    }
}

/// The same for what only the host may do. Others are refused before the rest of their request is looked at, so they learn
/// nothing of what would be wrong with it.
pub struct OfHost(pub Engine);

impl<S: Send + Sync> FromRequestParts<S> for OfHost {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let Scoped(engine) = Scoped::from_request_parts(parts, state).await?;
        engine.node().check_host()?;
        Ok(Self(engine))
    }
}

/// The way in for a caller who has not proven yet who it is.
#[derive(Clone)]
pub struct Lobby {
    engine: Engine,
    auth: Auth,
    /// Whether the caller may prove that it is the host. A process of a session cannot, whatever token it sends.
    admits_host: bool,
}

impl Lobby {
    /// The owner of a token; `None` if it is not valid.
    pub(crate) fn authenticate(&self, secret: &[u8]) -> Option<Guest> {
        let (Auth::SocketOwner { token } | Auth::Bearer { token, .. }) = &self.auth;
        if token.matches(secret) {
            return self.admits_host.then(|| self.engine.identities().on_behalf(Scope::Host));
        }
        self.engine.identities().authenticate(secret)
    }

    /// The token for a code of the console; `None` if the code is not valid.
    pub(crate) async fn login(&self, code: &str) -> Result<Option<IssuedToken>, OpError> {
        self.engine.identities().console_login(code).await
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Lobby {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refusal> {
        let found = parts.extensions.get::<Self>().cloned();
        found.ok_or_else(|| Refusal::internal("a route was served without authentication"))
    }
}

/// What authentication needs.
pub(crate) struct Gate {
    pub(crate) engine: Engine,
    pub(crate) auth: Auth,
    /// The nodes that share the store, if any do.
    pub(crate) peers: Option<Peers>,
    pub(crate) counts: Arc<RequestMetrics>,
}

/// The caller. `T` is what an agent's token resolves to.
#[derive(Debug, PartialEq)]
enum Caller<T> {
    /// Anonymous, for a path that needs no token.
    Anyone,
    Host,
    /// An agent.
    Agent(T),
}

/// Middleware for every route: authenticates, and counts responses.
pub(crate) async fn gate(State(gate): State<Arc<Gate>>, mut request: Request, next: Next) -> Response {
    let known = |secret: &[u8]| gate.engine.identities().authenticate(secret);
    let sent_on = match &gate.peers {
        Some(peers) => {
            let (same, sent_on) = peers.accept(request).await;
            request = same;
            sent_on
        }
        None => None,
    };
    let is_sent_on = sent_on.is_some();
    let caller = match sent_on {
        Some(scope) => scope.map(|scope| on_behalf(&gate, scope)),
        None => admit(&gate.auth, request.method(), request.uri(), request.headers(), known),
    };
    let shows_token = request.headers().contains_key(header::AUTHORIZATION);
    let is_live = request.uri().path() == LIVE;
    let visitor = request.extensions_mut().remove::<Visitor>();
    if LOBBY_PATHS.contains(&request.uri().path()) {
        request.extensions_mut().insert(lobby(&gate, visitor.as_ref()));
    }
    let response = match caller.and_then(|caller| place(&gate, caller, visitor.as_ref(), shows_token, is_live)) {
        Ok(Caller::Anyone) => next.run(request).await,
        Ok(Caller::Host) => match proven(&request, &gate.engine, is_sent_on) {
            Ok(()) => {
                request.extensions_mut().insert(Scoped(gate.engine.clone()));
                next.run(request).await
            }
            Err(refusal) => closing(refusal),
        },
        Ok(Caller::Agent(guest)) => match proven(&request, &guest.engine, is_sent_on) {
            Ok(()) => match rights::check(guest.engine.scope(), request.method(), request.uri().path()) {
                Ok(()) => serve_guest(guest, request, next).await,
                Err(refusal) => {
                    guest.engine.audit_refusal(None, &named(&request), "not_allowed", None);
                    refusal.into_response()
                }
            },
            Err(refusal) => closing(refusal),
        },
        Err(refusal) => {
            let who = match visitor {
                Some(Visitor::Session(from)) => format!("session {}", from.session_id),
                Some(Visitor::Host | Visitor::Unclear(_) | Visitor::Unasked) | None => "unknown".to_owned(),
            };
            let (problem, request) = (refusal.problem(), named(&request));
            gate.engine.audit_refusal(Some(who), &request, &problem.code, is_sent_on.then_some(&*problem.detail));
            refusal.into_response()
        }
    };
    gate.counts.answered(response.status());
    response
}

fn lobby(gate: &Gate, visitor: Option<&Visitor>) -> Lobby {
    let admits_host = matches!((&gate.auth, visitor), (Auth::Bearer { .. }, _) | (_, Some(Visitor::Host)));
    Lobby { engine: gate.engine.clone(), auth: gate.auth.clone(), admits_host }
}

/// The caller for whom another node sent a request on.
fn on_behalf(gate: &Gate, scope: Scope) -> Caller<Guest> {
    match scope {
        Scope::Host => Caller::Host,
        scope => Caller::Agent(gate.engine.identities().on_behalf(scope)),
    }
}

/// Counts the connection for the caller.
fn proven(request: &Request, engine: &Engine, is_sent_on: bool) -> Result<(), Refusal> {
    // Without a connection there is nothing to count: a test called the router directly.
    let Some(way) = request.extensions().get::<Way>() else { return Ok(()) };
    let counted = if is_sent_on { way.prove_again(engine) } else { way.prove(engine) };
    counted.map_err(Refusal::from)
}

/// A refusal that closes the connection.
fn closing(refusal: Refusal) -> Response {
    let mut response = refusal.into_response();
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

/// Serves an agent until its token is revoked: then a waiting request is rejected and a stream is closed.
async fn serve_guest(guest: Guest, mut request: Request, next: Next) -> Response {
    let Guest { engine, revocation } = guest;
    let name = named(&request);
    request.extensions_mut().insert(Scoped(engine.clone()));
    request.extensions_mut().insert(revocation.clone());
    // A request that revokes its own token gets its answer.
    if request.uri().path() == rights::LOGOUT {
        return next.run(request).await;
    }
    tokio::select! {
        response = next.run(request) => {
            if response.status() == StatusCode::FORBIDDEN {
                engine.audit_refusal(None, &name, "not_allowed", None);
            }
            until(response, revocation)
        }
        () = revocation.clone().happened() => unauthorized().into_response(),
    }
}

/// A request as the audit trail names it. Without its query, which may contain secrets.
fn named(request: &Request) -> String {
    format!("{} {}", request.method(), request.uri().path())
}

/// A process of a session is never the host, whatever token it sends.
fn place(
    gate: &Gate,
    caller: Caller<Guest>,
    visitor: Option<&Visitor>,
    shows_token: bool,
    is_live: bool,
) -> Result<Caller<Guest>, Refusal> {
    let (Caller::Host, Auth::SocketOwner { .. }) = (&caller, &gate.auth) else { return Ok(caller) };
    match visitor {
        Some(Visitor::Host) => Ok(Caller::Host),
        Some(Visitor::Session(from)) if !shows_token => {
            gate.engine.identities().as_session(from).map(Caller::Agent).map_err(Refusal::from)
        }
        Some(Visitor::Session(from)) => Err(forbidden_peer(format!(
            "a process inside a session (this one is in '{}') cannot use the host token; without a token the request has the \
             rights of its session",
            from.session_id
        ))),
        // It may still send an agent's token in the first frame; the lobby does not let it be the host.
        Some(Visitor::Unclear(_)) if is_live && !shows_token => Ok(Caller::Anyone),
        Some(Visitor::Unclear(reason)) => Err(forbidden_peer(format!(
            "cannot determine whether the connecting process belongs to a session: {reason}. Use an agent token \
             (SHELLKEEP_TOKEN), or connect from a process outside all sessions that stays alive"
        ))),
        Some(Visitor::Unasked) => Err(Refusal::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "shell_unavailable",
            "the daemon has no file descriptor left (os error 24), so it cannot identify the caller and nothing was \
                run. Try again when fewer commands are running, or raise its limit (`ulimit -n`)",
        )),
        None => Err(Refusal::internal("a request on the socket has no caller")),
    }
}

fn forbidden_peer(detail: String) -> Refusal {
    Refusal::new(StatusCode::FORBIDDEN, "forbidden_peer", detail)
}

fn admit<T>(
    auth: &Auth,
    method: &Method,
    uri: &Uri,
    headers: &HeaderMap,
    known: impl FnOnce(&[u8]) -> Option<T>,
) -> Result<Caller<T>, Refusal> {
    let given = headers.get(header::AUTHORIZATION);
    let path = uri.path();
    if OPEN_PATHS.contains(&path) || path.starts_with(ASSETS) {
        return Ok(Caller::Anyone);
    }
    let shown = given.and_then(|value| bearer(value.as_bytes()));
    // A proxy's own credentials are no token: a page behind it sends its token in the first frame nevertheless.
    let is_in_lobby = LOBBY_PATHS.contains(&path) && (path != LIVE || shown.is_none());
    let reads = (method == Method::GET || method == Method::HEAD) && path != LIVE;
    // Also on the socket, which ssh or socat may pass on from a port that browsers reach: without a token, a page would be
    // the host.
    if !reads {
        check_writer(uri, headers)?;
    }
    let token = match auth {
        Auth::SocketOwner { .. } if given.is_none() && (path == LIVE || !is_in_lobby) => return Ok(Caller::Host),
        Auth::SocketOwner { token } => token,
        Auth::Bearer { token, loopback } => {
            if reads {
                check_reader(headers)?;
            }
            if *loopback {
                check_host(uri, headers)?;
            }
            token
        }
    };
    if is_in_lobby {
        return Ok(Caller::Anyone);
    }
    let shown = shown.ok_or_else(unauthorized)?;
    if token.matches(shown) {
        return Ok(Caller::Host);
    }
    known(shown).map(Caller::Agent).ok_or_else(unauthorized)
}

fn unauthorized() -> Refusal {
    let detail = "missing or invalid bearer token: send `Authorization: Bearer TOKEN` with the host token (SHELLKEEP_TOKEN, or the \
                  file `token` in the daemon's data directory) or a token from `shellkeep tokens new`. The Unix socket \
                  needs no token, but rejects a wrong one";
    Refusal::new(StatusCode::UNAUTHORIZED, "unauthorized", detail)
}

fn bearer(value: &[u8]) -> Option<&[u8]> {
    const SCHEME: &[u8] = b"bearer ";
    let (scheme, token) = value.split_at_checked(SCHEME.len())?;
    scheme.eq_ignore_ascii_case(SCHEME).then(|| token.trim_ascii())
}

/// A page of this machine may read with a token: without permission of ours, its browser does not show it the response.
fn check_reader(headers: &HeaderMap) -> Result<(), Refusal> {
    match origin(headers) {
        None => Ok(()),
        Some(authority) if is_loopback(authority) => Ok(()),
        Some(_) => Err(foreign()),
    }
}

/// Only the daemon's own page may change something or open a socket. A page on another port of this machine is another
/// origin: agents run development servers there, and people open their pages.
fn check_writer(uri: &Uri, headers: &HeaderMap) -> Result<(), Refusal> {
    let site = headers.get(SEC_FETCH_SITE).map(HeaderValue::as_bytes);
    let is_ours = match origin(headers) {
        None => true,
        Some(authority) => {
            let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
            host.or(uri.authority().map(Authority::as_str)).is_some_and(|host| host.eq_ignore_ascii_case(authority))
        }
    };
    if is_ours && site.is_none_or(|site| [b"same-origin".as_slice(), b"none"].contains(&site)) {
        return Ok(());
    }
    Err(foreign())
}

/// The host and port of the page that a request comes from. Empty, which matches nothing, where they are hidden.
fn origin(headers: &HeaderMap) -> Option<&str> {
    let origin = headers.get(header::ORIGIN)?.to_str().unwrap_or_default();
    let (scheme, authority) = origin.split_once("://").unwrap_or_default();
    Some(if ["http", "https"].contains(&scheme) { authority } else { "" })
}

fn foreign() -> Refusal {
    let detail = "a web page of another origin cannot use this daemon; open its console with `shellkeep console`, or send no \
                  Origin header";
    Refusal::new(StatusCode::FORBIDDEN, "forbidden_origin", detail)
}

/// Every host name in the request must be this machine's: of several it is unclear which one was meant.
fn check_host(uri: &Uri, headers: &HeaderMap) -> Result<(), Refusal> {
    let named = headers.get_all(header::HOST).iter().map(|host| host.to_str().unwrap_or_default());
    let mut count = 0;
    let all_are_ours = named.chain(uri.authority().map(Authority::as_str)).inspect(|_| count += 1).all(is_loopback);
    if all_are_ours && count <= 1 + usize::from(uri.authority().is_some()) {
        return Ok(());
    }
    if all_are_ours {
        return Err(Refusal::invalid("send one Host header; this request has several"));
    }
    let detail = "this listener is loopback-only and accepts Host 127.0.0.1, [::1] or localhost; to use another name, \
                  listen on another address";
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

    fn asked(auth: &Auth, path: &str, headers: &[(HeaderName, &str)]) -> Result<Caller<String>, String> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(name, value.parse().unwrap());
        }
        let known = |secret: &[u8]| secret.starts_with(b"sk_").then(|| String::from_utf8(secret.to_vec()).unwrap());
        admit(auth, &Method::GET, &path.parse().unwrap(), &map, known).map_err(|refusal| refusal.problem().code.clone())
    }

    fn tried(path: &str, headers: &[(HeaderName, &str)]) -> Result<(), String> {
        let auth = Auth::Bearer { token: Token::new("secret"), loopback: true };
        asked(&auth, path, headers).map(|_| ())
    }

    #[test]
    fn the_token_says_as_whom_one_comes() {
        let tcp = Auth::Bearer { token: Token::new("secret"), loopback: true };
        let socket = Auth::SocketOwner { token: Token::new("secret") };
        let refused = || Err("unauthorized".to_owned());
        let agent = || Ok(Caller::Agent("sk_1".to_owned()));
        for (header, on_tcp, on_socket) in [
            (None, refused(), Ok(Caller::Host)),
            (Some("Bearer secret"), Ok(Caller::Host), Ok(Caller::Host)),
            (Some("Bearer sk_1"), agent(), agent()),
            (Some("Bearer wrong"), refused(), refused()),
            (Some("Bearer "), refused(), refused()),
            (Some("Basic sk_1"), refused(), refused()),
            (Some(""), refused(), refused()),
        ] {
            let headers: Vec<_> = header.iter().map(|value| (header::AUTHORIZATION, *value)).collect();
            assert_eq!(asked(&tcp, "/v1/sessions", &headers), on_tcp, "{header:?}");
            assert_eq!(asked(&socket, "/v1/sessions", &headers), on_socket, "{header:?}");
        }
        assert_eq!(asked(&tcp, "/healthz", &[]), Ok(Caller::Anyone));
    }

    /// A client of `/v1/live` had to send a token in the first frame, also over the socket, and with one in the header.
    #[test]
    fn a_websocket_is_opened_with_what_other_routes_need_or_with_nothing() {
        let tcp = Auth::Bearer { token: Token::new("secret"), loopback: true };
        let socket = Auth::SocketOwner { token: Token::new("secret") };
        let (refused, agent) = (|| Err("unauthorized".to_owned()), || Ok(Caller::Agent("sk_1".to_owned())));
        for (header, on_tcp, on_socket) in [
            (None, Ok(Caller::Anyone), Ok(Caller::Host)),
            (Some("Bearer secret"), Ok(Caller::Host), Ok(Caller::Host)),
            (Some("Bearer sk_1"), agent(), agent()),
            (Some("Bearer wrong"), refused(), refused()),
            (Some("Basic of-a-proxy"), Ok(Caller::Anyone), Ok(Caller::Anyone)),
        ] {
            let headers: Vec<_> = header.iter().map(|value| (header::AUTHORIZATION, *value)).collect();
            assert_eq!(asked(&tcp, LIVE, &headers), on_tcp, "{header:?}");
            assert_eq!(asked(&socket, LIVE, &headers), on_socket, "{header:?}");
        }
        let page = [(header::AUTHORIZATION, "Bearer secret"), (header::ORIGIN, "http://localhost:3000")];
        assert_eq!(asked(&tcp, LIVE, &page), Err("forbidden_origin".to_owned()));
        // Where the socket was passed on from a port, a page of any origin was the host there.
        for origin in ["http://evil.example", "http://localhost:3000", "null"] {
            let page = [(header::ORIGIN, origin), (header::HOST, "localhost:9000")];
            assert_eq!(asked(&socket, LIVE, &page), Err("forbidden_origin".to_owned()), "{origin}");
        }
    }

    #[test]
    fn the_token_opens_and_nothing_else_does() {
        let authorization = header::AUTHORIZATION;
        assert_eq!(tried("/v1/sessions", &[(authorization.clone(), "Bearer secret")]), Ok(()));
        assert_eq!(tried("/v1/sessions", &[(authorization.clone(), "bearer secret")]), Ok(()));
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
            assert_eq!(tried("/x", &[key.clone(), (header::ORIGIN, origin)]), expected, "{origin}");
        }
        let rebound = tried("/x", &[key.clone(), (header::HOST, "evil.example:7433")]);
        assert_eq!(rebound, Err("forbidden_host".to_owned()));
        assert_eq!(tried("/x", &[key.clone(), (header::HOST, "127.0.0.1:7433")]), Ok(()));
        let host = |name: &'static str| (header::HOST, name);
        let second = [key.clone(), host("127.0.0.1:7433"), host("evil.example:7433")];
        assert_eq!(tried("/x", &second), Err("forbidden_host".to_owned()));
        let twice = [key.clone(), host("127.0.0.1:7433"), host("localhost")];
        assert_eq!(tried("/x", &twice), Err("invalid_request".to_owned()));
        let absolute = [key, host("127.0.0.1:7433")];
        assert_eq!(tried("http://evil.example/x", &absolute), Err("forbidden_host".to_owned()));
        assert_eq!(tried("http://localhost:7433/x", &absolute), Ok(()));
    }

    #[test]
    fn only_the_own_page_writes_and_opens_sockets() {
        let auth = Auth::Bearer { token: Token::new("secret"), loopback: true };
        let tried = |method: &Method, path: &str, origin: Option<&str>, site: Option<&str>| {
            let mut map = HeaderMap::new();
            map.insert(header::AUTHORIZATION, "Bearer secret".parse().unwrap());
            map.insert(header::HOST, "127.0.0.1:7433".parse().unwrap());
            origin.map(|origin| map.insert(header::ORIGIN, origin.parse().unwrap()));
            site.map(|site| map.insert(SEC_FETCH_SITE, site.parse().unwrap()));
            admit(&auth, method, &path.parse().unwrap(), &map, |_| None::<()>).is_ok()
        };
        for (origin, site, writes) in [
            (None, None, true),
            (None, Some("none"), true),
            (Some("http://127.0.0.1:7433"), Some("same-origin"), true),
            (Some("http://127.0.0.1:7433"), Some("cross-site"), false),
            (Some("http://127.0.0.1:3000"), None, false),
            (Some("http://localhost:7433"), None, false),
            (Some("http://127.0.0.1"), None, false),
            (Some("null"), None, false),
            (None, Some("same-site"), false),
        ] {
            for (method, path) in
                [(Method::POST, "/v1/sessions"), (Method::GET, "/v1/live"), (Method::POST, "/v1/console/login")]
            {
                assert_eq!(tried(&method, path, origin, site), writes, "{method} {path} {origin:?} {site:?}");
            }
        }
        assert!(tried(&Method::GET, "/v1/sessions", Some("http://127.0.0.1:3000"), Some("same-site")));
        assert!(!tried(&Method::GET, "/v1/sessions", Some("http://example.com"), None));
    }
}
