//! How the nodes of a cluster recognise each other. A request that one node sends on to another says for whom, and carries
//! a keyed hash of everything that decides what it does. The key never leaves a node, so neither a listener on the network
//! nor a false address in the shared store learns anything that opens a door.

use crate::links::Links;
use crate::located::Located;
use crate::pace::{Pace, drain};
use crate::refusal::Refusal;
use crate::sync::lock;
use axum::body::{Body, Bytes, HttpBody as _};
use axum::extract::Request;
use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use shellkeep_runtime::{NodeEntry, Scope};
use shellkeep_session::SessionId;
use std::collections::{HashSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Says for whom a node sends a request on, with the proof.
pub(crate) const FORWARDED: HeaderName = HeaderName::from_static("shellkeep-forwarded");

/// How far the clocks of two nodes may differ. For twice this time a node remembers what it accepted.
const WINDOW: Duration = Duration::from_secs(30);

/// The longest body that is hashed as a whole. Of a longer one only the length is signed, so that it can be streamed.
const MOST_HASHED: u64 = 1 << 20;

/// The code of a refusal that the next request need not meet: by then the other node knows that this one has started again.
pub(crate) const RESTARTED: &str = "node_restarted";

/// Characters of another node's name in a refusal.
const MOST_NAME: usize = 64;

/// Makes the key unusable for anything else that is made from the same secret.
const PURPOSE: &str = "shellkeep 2026-11-16 requests between nodes";

/// The form of the header.
const VERSION: &str = "v1";

/// This node among those that have the same secret.
#[derive(Clone)]
pub struct Peers(Arc<Inner>);

struct Inner {
    node: String,
    key: [u8; blake3::KEY_LEN],
    /// Milliseconds since the epoch. What was signed earlier may have been accepted before a restart.
    started: u64,
    /// When this process started, as other nodes know it. What names it was signed for this process, and was not accepted before
    /// a restart, whatever the clock of the other node says.
    since: OnceLock<String>,
    sent: AtomicU64,
    accepted: Mutex<Accepted>,
    links: Links,
    located: Located,
}

/// Requests that must not be accepted again.
#[derive(Default)]
struct Accepted {
    macs: HashSet<blake3::Hash>,
    /// When each was accepted, oldest first.
    order: VecDeque<(u64, blake3::Hash)>,
}

impl Accepted {
    /// Whether a request is new. It is remembered.
    fn is_new(&mut self, mac: blake3::Hash, now: u64) -> bool {
        let window = millis(2 * WINDOW);
        while self.order.front().is_some_and(|(at, _)| at + window < now)
            && let Some((_, old)) = self.order.pop_front()
        {
            self.macs.remove(&old);
        }
        let is_new = self.macs.insert(mac);
        if is_new {
            self.order.push_back((now, mac));
        }
        is_new
    }
}

/// What is signed of a request.
struct Signed<'a> {
    from: &'a str,
    to: &'a str,
    at: u64,
    /// Unique among the requests of a node.
    number: &'a str,
    scope: &'a str,
    method: &'a Method,
    path: &'a str,
    body: &'a str,
}

impl Signed<'_> {
    fn mac(&self, key: &[u8; blake3::KEY_LEN]) -> blake3::Hash {
        let Self { from, to, at, number, scope, method, path, body } = self;
        // None of them can contain a line break.
        let text = format!("{VERSION}\n{from}\n{to}\n{at}\n{number}\n{scope}\n{method}\n{path}\n{body}");
        blake3::keyed_hash(key, text.as_bytes())
    }
}

/// A request that a node signed.
struct Proof<'a> {
    from: &'a str,
    at: u64,
    number: &'a str,
    /// What is signed of its body.
    body: &'a str,
    mac: blake3::Hash,
    scope: Scope,
}

impl Peers {
    /// This node, with the secret that all nodes of its cluster have.
    pub fn new(node: &str, secret: &str) -> Self {
        let key = blake3::derive_key(PURPOSE, secret.as_bytes());
        let (sent, accepted, located) = (AtomicU64::new(0), Mutex::default(), Located::default());
        let (node, links, since) = (node.to_owned(), Links::new(), OnceLock::new());
        Self(Arc::new(Inner { node, key, started: now(), since, sent, accepted, links, located }))
    }

    /// Notes when this process started, as other nodes know it.
    pub(crate) fn known_since(&self, since: String) {
        // Each door says the same.
        let _ = self.0.since.set(since);
    }

    /// The connections to the other nodes.
    pub(crate) fn links(&self) -> &Links {
        &self.0.links
    }

    /// Which nodes answered for sessions lately.
    pub(crate) fn located(&self) -> &Located {
        &self.0.located
    }

    /// Signs a request for another node. The caller's own token is removed: the other node believes this one.
    pub(crate) async fn sign(&self, request: Request, scope: &Scope, to: &NodeEntry) -> Result<Request, Refusal> {
        let Inner { node, key, started, sent, .. } = &*self.0;
        let (mut parts, body) = request.into_parts();
        let (body, hash) = hashed(body).await?;
        // Builds from before 18 November 2026 take the number as a whole.
        let number = format!("{started:x}.{:x}.{}", sent.fetch_add(1, Ordering::Relaxed), to.since);
        let (scope, at) = (written(scope), now());
        let path = path_of(&parts.uri);
        let method = &parts.method;
        let to = &to.name;
        let signed = Signed { from: node, to, at, number: &number, scope: &scope, method, path, body: &hash };
        let mac = signed.mac(key).to_hex();
        let value = HeaderValue::from_str(&format!("{VERSION} {node} {at} {number} {hash} {mac} {scope}"));
        let value = value.map_err(|error| Refusal::internal(error.to_string()))?;
        parts.headers.remove(header::AUTHORIZATION);
        parts.headers.insert(FORWARDED, value);
        Ok(Request::from_parts(parts, body))
    }

    /// On whose behalf another node sent a request on. `None` if none did.
    pub(crate) async fn accept(&self, request: Request) -> (Request, Option<Result<Scope, Refusal>>) {
        if !request.headers().contains_key(FORWARDED) {
            return (request, None);
        }
        let (parts, body) = request.into_parts();
        let (body, scope) = match self.take(&parts, body).await {
            Ok((body, scope)) => (body, Ok(scope)),
            Err(refusal) => (Body::empty(), Err(refusal)),
        };
        (Request::from_parts(parts, body), Some(scope))
    }

    /// Takes a request with its body, which is not read before it is clear that a node signed it: anybody can send one.
    async fn take(&self, parts: &Parts, body: Body) -> Result<(Body, Scope), Refusal> {
        let proof = self.prove(parts)?;
        if let Err(refusal) = self.check_time(&proof) {
            // A node whose clock is wrong, or that does not know yet that this one was started again, gets the answer and no
            // reset.
            if is_short(&body) {
                drain(body).await;
            }
            return Err(refusal);
        }
        let (body, hash) = hashed(body).await?;
        if hash != proof.body {
            return Err(refused(proof.from, "its body is not the one that was signed"));
        }
        // Once more: a body that came slowly could outlast the memory of the same request.
        self.check_time(&proof)?;
        if !lock(&self.0.accepted).is_new(proof.mac, now()) {
            return Err(refused(proof.from, "it was accepted before"));
        }
        Ok((body, proof.scope))
    }

    /// What a node signed of a request. Without its body, which it says there.
    fn prove<'a>(&self, parts: &'a Parts) -> Result<Proof<'a>, Refusal> {
        let mut given = parts.headers.get_all(FORWARDED).iter();
        let (Some(value), None) = (given.next(), given.next()) else {
            return Err(refused("?", "it has several proofs"));
        };
        let value = value.to_str().map_err(|_| refused("?", "its proof cannot be read"))?;
        let mut words = value.splitn(7, ' ');
        let mut word = || words.next().unwrap_or_default();
        let (version, from, at, number, body, mac, scope) = (word(), word(), word(), word(), word(), word(), word());
        let refused = |why: &str| refused(from, why);
        if version != VERSION {
            return Err(refused("its proof has another version; run the same version on all nodes"));
        }
        let at: u64 = at.parse().map_err(|_| refused("its time cannot be read"))?;
        let mac = blake3::Hash::from_hex(mac).map_err(|_| refused("its hash cannot be read"))?;
        let (method, path) = (&parts.method, path_of(&parts.uri));
        let signed = Signed { from, to: &self.0.node, at, number, scope, method, path, body };
        // Hashes are compared in constant time.
        if signed.mac(&self.0.key) != mac {
            return Err(refused("its hash is wrong: set the same SHELLKEEP_CLUSTER_SECRET on all nodes"));
        }
        let scope = read(scope).ok_or_else(|| refused("its caller cannot be read"))?;
        Ok(Proof { from, at, number, body, mac, scope })
    }

    /// Whether a request was signed a moment ago, and for this process.
    fn check_time(&self, proof: &Proof<'_>) -> Result<(), Refusal> {
        let Proof { from, at, number, .. } = *proof;
        let now = now();
        if at.abs_diff(now) > millis(WINDOW) {
            let seconds = at.abs_diff(now) / 1000;
            let way = if at < now { "before" } else { "after" };
            let why = format!(
                "it was signed {seconds} s {way} this node's time, and at most {} s are accepted: it waited, or the clocks differ",
                WINDOW.as_secs()
            );
            return Err(refused(from, &why));
        }
        if at < self.0.started && !self.is_for_this_start(number) {
            return Err(restarted(from));
        }
        Ok(())
    }

    /// Whether a request was signed for this process.
    fn is_for_this_start(&self, number: &str) -> bool {
        let since = number.splitn(3, '.').nth(2);
        since.is_some() && since == self.0.since.get().map(String::as_str)
    }
}

impl std::fmt::Debug for Peers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Peers({}, …)", self.0.node)
    }
}

/// `from` is the node's name as the request has it, which need not be true.
fn refused(from: &str, why: &str) -> Refusal {
    let from: String = from.chars().take(MOST_NAME).collect();
    let detail = format!("a request that node '{from}' forwarded was refused: {why}");
    Refusal::new(StatusCode::UNAUTHORIZED, "node_not_trusted", detail)
}

/// Refuses a request that an earlier process of this node may have accepted.
fn restarted(from: &str) -> Refusal {
    let from: String = from.chars().take(MOST_NAME).collect();
    let detail =
        format!("a request that node '{from}' forwarded was signed before this node started, so it was not handled");
    Refusal::new(StatusCode::UNAUTHORIZED, RESTARTED, detail)
}

/// Whether a body is hashed as a whole.
pub(crate) fn is_short(body: &Body) -> bool {
    body.size_hint().exact().is_some_and(|length| length <= MOST_HASHED)
}

/// Reads a short body.
pub(crate) async fn whole(mut body: Body) -> Result<Bytes, Refusal> {
    let pace = Pace::begin();
    let first = pace.next(&mut body, 0).await?.unwrap_or_default();
    if body.is_end_stream() {
        return Ok(first);
    }
    let mut whole = Vec::from(first);
    while let Some(bytes) = pace.next(&mut body, whole.len()).await? {
        whole.extend_from_slice(&bytes);
        if whole.len() as u64 > MOST_HASHED {
            return Err(Refusal::too_large("the body is longer than it said"));
        }
    }
    Ok(whole.into())
}

/// A body and what is signed of it: its hash, or its length if it is long or unknown.
async fn hashed(body: Body) -> Result<(Body, String), Refusal> {
    if is_short(&body) {
        let bytes = whole(body).await?;
        let hash = blake3::hash(&bytes).to_hex().to_string();
        return Ok((Body::from(bytes), hash));
    }
    let length = body.size_hint().exact().map_or_else(|| "-".to_owned(), |length| length.to_string());
    Ok((body, length))
}

fn path_of(uri: &Uri) -> &str {
    uri.path_and_query().map_or("/", |path| path.as_str())
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, millis)
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// A caller, in words. Names and ids have no spaces.
fn written(scope: &Scope) -> String {
    match scope {
        Scope::Host => "host".to_owned(),
        Scope::Agent { agent, may_restart, token } => {
            format!("agent {agent} {token} {}", if *may_restart { "may_restart" } else { "-" })
        }
        Scope::Auditor { token } => format!("auditor {token}"),
        Scope::Metrics { token } => format!("metrics {token}"),
        Scope::Console { token } => format!("console {token}"),
        Scope::Session { session_id } => format!("session {session_id}"),
    }
}

fn read(text: &str) -> Option<Scope> {
    let words: Vec<&str> = text.split(' ').collect();
    match words.as_slice() {
        ["host"] => Some(Scope::Host),
        ["agent", agent, token, restart] => Some(Scope::Agent {
            agent: (*agent).to_owned(),
            token: (*token).to_owned(),
            may_restart: *restart == "may_restart",
        }),
        ["auditor", token] => Some(Scope::Auditor { token: (*token).to_owned() }),
        ["metrics", token] => Some(Scope::Metrics { token: (*token).to_owned() }),
        ["console", token] => Some(Scope::Console { token: (*token).to_owned() }),
        ["session", id] => SessionId::parse(id).ok().map(|session_id| Scope::Session { session_id }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::body::{Frame, SizeHint};
    use std::convert::Infallible;
    use std::pin::Pin;
    use std::task::{Context, Poll};

    fn request(path: &str, body: &'static str) -> Request {
        let request = Request::builder().method("POST").uri(path).header(header::AUTHORIZATION, "Bearer sk_1");
        request.body(Body::from(body)).unwrap()
    }

    async fn accepted(peers: &Peers, request: Request) -> Result<Scope, String> {
        let scope = peers.accept(request).await.1.expect("it has the header");
        scope.map_err(|refusal| refusal.problem().detail.clone())
    }

    /// The node `n2`, which started then.
    fn node(since: &str) -> NodeEntry {
        NodeEntry { name: "n2".to_owned(), since: since.to_owned(), ..NodeEntry::default() }
    }

    /// A request as a listener could send it again.
    fn copy(request: &Request, path: &str, body: &'static str) -> Request {
        let mut copy = Request::builder().method(request.method()).uri(path).body(Body::from(body)).unwrap();
        *copy.headers_mut() = request.headers().clone();
        copy
    }

    #[tokio::test]
    async fn a_request_is_accepted_once_where_it_was_meant_to_go_and_as_it_was() {
        let (first, second) = (Peers::new("n1", "secret"), Peers::new("n2", "secret"));
        let (third, stranger) = (Peers::new("n3", "secret"), Peers::new("n2", "other"));
        let signed = first.sign(request("/v1/x?a=1", "body"), &Scope::Host, &node("1")).await.unwrap();
        assert!(!signed.headers().contains_key(header::AUTHORIZATION));
        assert!(!format!("{:?}", signed.headers()).contains("secret"));
        let (path, body) = ("/v1/x?a=1", "body");
        for (peers, path, body, why) in [
            (&third, path, body, "its hash is wrong"),
            (&stranger, path, body, "its hash is wrong"),
            (&second, "/v1/x?a=2", body, "its hash is wrong"),
            (&second, path, "another", "its body is not the one that was signed"),
        ] {
            let error = accepted(peers, copy(&signed, path, body)).await.unwrap_err();
            assert!(error.contains("node 'n1'") && error.contains(why), "{error}");
        }
        let again = copy(&signed, path, body);
        assert_eq!(accepted(&second, signed).await, Ok(Scope::Host));
        assert!(accepted(&second, again).await.unwrap_err().contains("accepted before"));
        assert!(second.accept(request(path, body)).await.1.is_none());
    }

    /// A body that must not be read.
    struct Unread;

    impl axum::body::HttpBody for Unread {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            panic!("it is read");
        }

        fn size_hint(&self) -> SizeHint {
            SizeHint::with_exact(MOST_HASHED)
        }
    }

    /// The bug: whoever could connect sent a header that proves nothing and a megabyte without its last byte, which was kept
    /// for as long as the connection.
    #[tokio::test]
    async fn nothing_is_read_of_a_body_whose_sender_proves_nothing() {
        let (first, stranger) = (Peers::new("n1", "secret"), Peers::new("n2", "other"));
        let signed = first.sign(request("/", ""), &Scope::Host, &node("1")).await.unwrap();
        let mut forged = copy(&signed, "/", "");
        *forged.body_mut() = Body::new(Unread);
        let error = accepted(&stranger, forged).await.unwrap_err();
        assert!(error.contains("its hash is wrong"), "{error}");
    }

    #[tokio::test]
    async fn a_request_from_another_time_is_refused() {
        let first = Peers::new("n1", "secret");
        let signed = first.sign(request("/", ""), &Scope::Host, &node("1")).await.unwrap();
        let mut restarted = Peers::new("n2", "secret");
        Arc::get_mut(&mut restarted.0).unwrap().started = now() + 10;
        let error = accepted(&restarted, copy(&signed, "/", "")).await.unwrap_err();
        assert!(error.contains("before this node started"), "{error}");
        restarted.known_since("2".to_owned());
        assert!(accepted(&restarted, copy(&signed, "/", "")).await.is_err());
        let mut accepted = Accepted::default();
        let mac = blake3::hash(b"one");
        assert!(accepted.is_new(mac, 0) && !accepted.is_new(mac, 59_000));
        assert!(accepted.is_new(mac, 61_000) && accepted.order.len() == 1);
    }

    /// Every node whose clock was behind was not trusted by one that had just started, for as long as the clocks differed.
    #[tokio::test]
    async fn a_node_whose_clock_is_behind_is_trusted_after_a_restart() {
        let (first, mut second) = (Peers::new("n1", "secret"), Peers::new("n2", "secret"));
        Arc::get_mut(&mut second.0).unwrap().started = now() + 20_000;
        second.known_since("2026-11-18T00:00:00.000000001Z".to_owned());
        for (since, is_accepted) in [
            ("2026-11-18T00:00:00.000000001Z", true),
            ("2026-11-17T00:00:00.000000001Z", false),
            ("2026-11-18T00:00:00Z", false),
            ("", false),
        ] {
            let signed = first.sign(request("/", ""), &Scope::Host, &node(since)).await.unwrap();
            let again = copy(&signed, "/", "");
            let scope = second.accept(signed).await.1.unwrap();
            match scope {
                Ok(_) => assert!(is_accepted, "{since}"),
                Err(refusal) => assert_eq!((is_accepted, &*refusal.problem().code), (false, RESTARTED), "{since}"),
            }
            assert!(accepted(&second, again).await.is_err(), "once only");
        }
    }

    #[test]
    fn every_caller_can_be_written_and_read() {
        let token = || "tok_1".to_owned();
        for scope in [
            Scope::Host,
            Scope::Agent { agent: "ann".to_owned(), may_restart: true, token: token() },
            Scope::Agent { agent: "a:b".to_owned(), may_restart: false, token: token() },
            Scope::Auditor { token: token() },
            Scope::Metrics { token: token() },
            Scope::Console { token: token() },
            Scope::Session { session_id: SessionId::parse("s").unwrap() },
        ] {
            assert_eq!(read(&written(&scope)), Some(scope));
        }
        assert_eq!(read("root"), None);
    }
}
