//! Lists of which each node has a part: this node asks the others for theirs, and puts them together.

use super::sending::Nodes;
use crate::http::audit::limit_of as audit_limit;
use crate::http::door::json;
use crate::peers::{FORWARDED, Peers};
use crate::translate;
use axum::body::{Body, to_bytes};
use axum::extract::{Query, Request};
use axum::http::{HeaderName, HeaderValue, Method, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::Response;
use serde::Serialize;
use serde::de::DeserializeOwned;
use shellkeep_protocol::{
    AuditEntry, AuditList, ListParams, RunList, RunListParams, RunSummary, ServiceList, Session, SessionList,
    SessionOrder,
};
use shellkeep_runtime::{NodeEntry, Scope};
use shellkeep_session::{RunId, RunKey, SessionId, SessionPlace, Timestamp};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::error::Error;
use std::time::Duration;
use tokio::task::JoinSet;

/// Names nodes whose part of a list is missing.
const MISSING: HeaderName = HeaderName::from_static("shellkeep-missing-nodes");

/// How long another node may take to list what it has.
const PATIENCE: Duration = Duration::from_secs(5);

/// Most bytes of a node's part.
const MOST_READ: usize = 64 << 20;

/// A list of which each node has a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum List {
    Sessions,
    Services,
    Audit,
    Runs,
}

impl List {
    /// The list that a request asks for.
    pub(super) fn of(method: &Method, path: &str) -> Option<Self> {
        match path {
            "/v1/sessions" if method == Method::GET => Some(Self::Sessions),
            "/v1/services" if method == Method::GET => Some(Self::Services),
            "/v1/audit" if method == Method::GET => Some(Self::Audit),
            "/v1/runs" if method == Method::GET => Some(Self::Runs),
            _ => None,
        }
    }
}

/// Answers with the list of all nodes; with this node's part if another node asks.
pub(super) async fn gather(nodes: Nodes<'_>, list: List, request: Request, next: Next) -> Response {
    let uri = request.uri().clone();
    if request.headers().contains_key(FORWARDED) {
        return next.run(request).await;
    }
    // Without the shared store this node knows only its own.
    let others = nodes.cluster.others().await.unwrap_or_default();
    let (own, others) = tokio::join!(next.run(request), ask_all(nodes.peers, nodes.engine.scope(), others, &uri));
    if own.status() != StatusCode::OK || (others.parts.is_empty() && others.missing.is_empty()) {
        return own;
    }
    let mut response = match list {
        List::Sessions => {
            let (limit, order) = session_page(&uri);
            put_together(own, &others.parts, |parts| sessions(parts, limit, order)).await
        }
        List::Services => put_together(own, &others.parts, services).await,
        List::Audit => put_together(own, &others.parts, |parts| audit(parts, audit_limit(&uri))).await,
        List::Runs => put_together(own, &others.parts, |parts| runs(parts, run_limit(&uri))).await,
    };
    if let Ok(names) = HeaderValue::from_str(&others.missing.join(", ")).map_err(drop)
        && !others.missing.is_empty()
    {
        response.headers_mut().insert(MISSING, names);
    }
    response
}

/// How many sessions a page has, and in which order. This node has answered, so the query is valid.
fn session_page(uri: &Uri) -> (usize, SessionOrder) {
    match Query::<ListParams>::try_from_uri(uri) {
        Ok(Query(params)) if !translate::is_on(params.deleted) => {
            let limit = translate::page_limit(params.limit).unwrap_or(usize::MAX);
            (limit, params.order.unwrap_or_default())
        }
        _ => (usize::MAX, SessionOrder::Id),
    }
}

/// How many runs a page has. This node has answered, so the query is valid.
fn run_limit(uri: &Uri) -> usize {
    let asked = Query::<RunListParams>::try_from_uri(uri).ok().and_then(|Query(params)| params.limit);
    translate::page_limit(asked).unwrap_or(usize::MAX)
}

/// What other nodes answered.
struct Others {
    parts: Vec<Vec<u8>>,
    /// Those that did not.
    missing: Vec<String>,
}

async fn ask_all(peers: &Peers, scope: &Scope, nodes: Vec<NodeEntry>, uri: &Uri) -> Others {
    let mut asked = JoinSet::new();
    for node in nodes {
        let (peers, scope, uri) = (peers.clone(), scope.clone(), uri.clone());
        asked.spawn(async move {
            let answer = tokio::time::timeout(PATIENCE, ask(&peers, &scope, &node, uri)).await;
            let part = answer.unwrap_or_else(|late| Err(late.into()));
            let part =
                part.inspect_err(|error| tracing::warn!(node = node.name, %error, "a part of a list is missing"));
            (node.name, part.ok())
        });
    }
    let mut others = Others { parts: Vec::new(), missing: Vec::new() };
    for (name, part) in asked.join_all().await {
        match part {
            Some(part) => others.parts.push(part),
            None => others.missing.push(name),
        }
    }
    others.missing.sort_unstable();
    others
}

async fn ask(
    peers: &Peers,
    scope: &Scope,
    node: &NodeEntry,
    uri: Uri,
) -> Result<Vec<u8>, Box<dyn Error + Send + Sync>> {
    let request = Request::builder().uri(uri).body(Body::empty())?;
    let request = peers.sign(request, scope, node).await.map_err(|_| "the question could not be signed")?;
    let answer = peers.links().send(node, request).await?;
    if answer.status() != StatusCode::OK {
        return Err(format!("it answered {}", answer.status()).into());
    }
    Ok(to_bytes(Body::new(answer.into_body()), MOST_READ).await?.into())
}

/// Reads all parts and makes one list of them. A part that cannot be read is left out.
async fn put_together<T: DeserializeOwned + Serialize>(
    own: Response,
    others: &[Vec<u8>],
    make: impl FnOnce(Vec<T>) -> T,
) -> Response {
    let own = to_bytes(own.into_body(), usize::MAX).await.unwrap_or_default();
    let parts = std::iter::once(&own[..]).chain(others.iter().map(Vec::as_slice));
    json(StatusCode::OK, &make(parts.filter_map(|part| serde_json::from_slice(part).ok()).collect()))
}

/// One page of several, in the order of each. A part that has more says nothing about what comes after its end. Of a session that
/// several nodes list, the newest copy is shown: others have a copy from before it moved, or of a removed one of the name.
fn sessions(parts: Vec<SessionList>, limit: usize, order: SessionOrder) -> SessionList {
    let ends = parts.iter().filter_map(|part| SessionPlace::parse(part.next.as_deref()?));
    let through = ends.min_by(|one, other| one.order().cmp(&other.order()));
    let mut newest: BTreeMap<String, Session> = BTreeMap::new();
    for session in parts.into_iter().flat_map(|part| part.sessions) {
        if newest.get(&session.session_id).is_none_or(|other| age(other) < age(&session)) {
            newest.insert(session.session_id.clone(), session);
        }
    }
    let mut placed: Vec<(SessionPlace, Session)> =
        newest.into_values().filter_map(|session| Some((place(&session, order)?, session))).collect();
    placed.retain(|(place, _)| through.as_ref().is_none_or(|through| place.order() <= through.order()));
    placed.sort_by(|(one, _), (other, _)| one.order().cmp(&other.order()));
    let is_cut = placed.len() > limit;
    placed.truncate(limit);
    let next = if is_cut { placed.last().map(|(place, _)| place.clone()) } else { through };
    let sessions = placed.into_iter().map(|(_, session)| session).collect();
    SessionList { sessions, next: next.map(|next| next.to_string()) }
}

/// What grows with what happens under a session's name: another session of the name is newer, whatever happened in the old one.
fn age(session: &Session) -> (Option<Timestamp>, u64) {
    (session.created_at.parse().ok(), session.seq)
}

/// The place of a session in a list.
fn place(session: &Session, order: SessionOrder) -> Option<SessionPlace> {
    let session_id = SessionId::parse(&session.session_id).ok()?;
    match order {
        SessionOrder::Id => Some(session_id.into()),
        SessionOrder::Active => Some(SessionPlace::active(session_id, session.last_active_at.parse().ok()?)),
    }
}

fn services(parts: Vec<ServiceList>) -> ServiceList {
    ServiceList { services: parts.into_iter().flat_map(|part| part.services).collect() }
}

/// The last entries of all nodes, oldest first.
fn audit(parts: Vec<AuditList>, limit: usize) -> AuditList {
    let mut all: Vec<AuditEntry> = parts.into_iter().flat_map(|part| part.audit).collect();
    all.sort_by_key(|entry| entry.at.parse::<Timestamp>().ok());
    all.drain(..all.len().saturating_sub(limit));
    AuditList { audit: all }
}

/// One page of several, newest first. A part that has more says nothing about what comes after its end. Of a run that several
/// nodes list, the newest copy is shown: others have a copy from before its session moved.
fn runs(parts: Vec<RunList>, limit: usize) -> RunList {
    let through = parts.iter().filter_map(|part| RunKey::parse(part.next.as_deref()?)).max();
    let mut newest: BTreeMap<Reverse<RunKey>, RunSummary> = BTreeMap::new();
    for run in parts.into_iter().flat_map(|part| part.runs) {
        let Some(key) = run_key(&run).filter(|key| through.as_ref().is_none_or(|through| key >= through)) else {
            continue;
        };
        let key = Reverse(key);
        if newest.get(&key).is_none_or(|other| other.seq < run.seq) {
            newest.insert(key, run);
        }
    }
    let is_cut = newest.len() > limit;
    let last = newest.keys().take(limit).next_back().map(|Reverse(key)| key.clone());
    let next = if is_cut { last } else { through };
    RunList { runs: newest.into_values().take(limit).collect(), next: next.map(|key| key.to_string()) }
}

/// The place of a run among those of all sessions.
fn run_key(run: &RunSummary) -> Option<RunKey> {
    let (session_id, run_id) = (SessionId::parse(&run.session_id).ok()?, RunId::parse(&run.run_id).ok()?);
    Some(RunKey { started_at: run.started_at.parse().ok()?, session_id, seq: run_id.seq()? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use shellkeep_protocol::RunStatus;
    use shellkeep_session::SessionMeta;

    fn part<N: Copy + TryInto<u64>>(names: &[(&str, N)], has_more: bool) -> SessionList {
        let session = |(name, seq): &(&str, N)| {
            let meta = SessionMeta::of_name(SessionId::parse(name).unwrap());
            Session { seq: (*seq).try_into().unwrap_or_default(), ..Session::new(meta, Timestamp::UNIX_EPOCH) }
        };
        let next = names.last().filter(|_| has_more).map(|(name, _)| (*name).to_owned());
        SessionList { sessions: names.iter().map(session).collect(), next }
    }

    fn told(list: &SessionList) -> (Vec<(&str, u64)>, Option<&str>) {
        let sessions = list.sessions.iter().map(|session| (session.session_id.as_str(), session.seq));
        (sessions.collect(), list.next.as_deref())
    }

    fn run(second: u32, session: &str, seq: u64) -> RunSummary {
        RunSummary {
            session_id: session.to_owned(),
            run_id: "r3".to_owned(),
            seq,
            command: "true".to_owned(),
            command_bytes: 4,
            status: RunStatus::Exited,
            exit_code: Some(0),
            signal: None,
            started_at: format!("2026-11-17T00:00:{second:02}.000000001Z"),
            duration_ms: 1.0,
            cwd: None,
            background: false,
            stdout_bytes: 0,
            stderr_bytes: 0,
            notices: 0,
            request_id: None,
            by: None,
        }
    }

    #[test]
    fn runs_of_several_nodes_are_one_page() {
        let page = |runs: Vec<RunSummary>, end: Option<RunSummary>| RunList {
            runs,
            next: end.as_ref().and_then(run_key).map(|key| key.to_string()),
        };
        let told = |list: RunList| {
            let runs: Vec<_> = list.runs.into_iter().map(|run| (run.session_id, run.seq)).collect();
            (runs, list.next)
        };
        let named = |runs: &[(&str, u64)]| runs.iter().map(|&(name, seq)| (name.to_owned(), seq)).collect::<Vec<_>>();
        let place = |run: RunSummary| run_key(&run).map(|key| key.to_string());

        let (old, new) = (page(vec![run(5, "a", 4), run(2, "m", 3)], None), page(vec![run(2, "m", 9)], None));
        assert_eq!(told(runs(vec![old.clone(), new], 10)), (named(&[("a", 4), ("m", 9)]), None), "the newest copy");
        let other = page(vec![run(4, "b", 4), run(3, "c", 4)], None);
        let cut = told(runs(vec![old.clone(), other], 2));
        assert_eq!(cut, (named(&[("a", 4), ("b", 4)]), place(run(4, "b", 4))));
        // What the second node has before second 4 is not known, so `m` is for the next page.
        let more = page(vec![run(4, "b", 4)], Some(run(4, "b", 4)));
        assert_eq!(told(runs(vec![old.clone(), more], 5)), (named(&[("a", 4), ("b", 4)]), place(run(4, "b", 4))));
        // A page that a filter left empty still says how far it looked.
        let empty = page(Vec::new(), Some(run(4, "b", 4)));
        assert_eq!(told(runs(vec![old, empty], 5)), (named(&[("a", 4)]), place(run(4, "b", 4))));
        assert_eq!(told(runs(vec![page(Vec::new(), None)], 5)), (Vec::new(), None));
    }

    #[test]
    fn pages_of_several_nodes_are_one_page() {
        let sessions = |parts, limit| super::sessions(parts, limit, SessionOrder::Id);
        let all = sessions(vec![part(&[("a", 1), ("c", 9)], false), part(&[("b", 2), ("c", 3)], false)], 10);
        assert_eq!(told(&all), (vec![("a", 1), ("b", 2), ("c", 9)], None), "the newest copy of one that moved");
        let cut = sessions(vec![part(&[("a", 1), ("c", 9)], false), part(&[("b", 2)], false)], 2);
        assert_eq!(told(&cut), (vec![("a", 1), ("b", 2)], Some("b")));
        // What the second node has after `b` is not known, so `c` is for the next page.
        let more = sessions(vec![part(&[("a", 1), ("c", 9)], false), part(&[("a", 0), ("b", 2)], true)], 2);
        assert_eq!(told(&more), (vec![("a", 1), ("b", 2)], Some("b")));
        let more = sessions(vec![part(&[("x", 1), ("y", 9)], true), part(&[("a", 1), ("b", 2)], true)], 2);
        assert_eq!(told(&more), (vec![("a", 1), ("b", 2)], Some("b")));
        assert_eq!(told(&sessions(vec![part::<u64>(&[], false), part::<u64>(&[], false)], 2)), (vec![], None));
        // A page that a filter left empty still says how far it looked.
        let empty = SessionList { sessions: Vec::new(), next: Some("b".to_owned()) };
        assert_eq!(told(&sessions(vec![part(&[("a", 1), ("c", 9)], false), empty], 5)), (vec![("a", 1)], Some("b")));
    }

    #[test]
    fn a_copy_of_a_removed_session_does_not_hide_the_new_one() {
        let (mut old, mut new) = (part(&[("a", 90)], false), part(&[("a", 2)], false));
        old.sessions[0].created_at = "2026-11-18T00:00:00Z".to_owned();
        new.sessions[0].created_at = "2026-11-18T00:00:00.5Z".to_owned();
        for parts in [vec![old.clone(), new.clone()], vec![new, old]] {
            assert_eq!(told(&super::sessions(parts, 9, SessionOrder::Id)), (vec![("a", 2)], None));
        }
    }

    /// A page of sessions that were active at these seconds, the latest first.
    fn active(names: &[(&str, i64)], has_more: bool) -> SessionList {
        let at = |second: i64| Timestamp::from_second(second).unwrap();
        let mut page = part(names, false);
        for (session, (_, second)) in page.sessions.iter_mut().zip(names) {
            session.last_active_at = at(*second).to_string();
        }
        let place = |(name, second): &(&str, i64)| SessionPlace::active(SessionId::parse(name).unwrap(), at(*second));
        page.next = names.last().filter(|_| has_more).map(|last| place(last).to_string());
        page
    }

    #[test]
    fn the_most_recently_active_of_all_nodes_come_first() {
        let parts = |has_more| vec![active(&[("a", 9), ("b", 3)], false), active(&[("x", 7), ("y", 5)], has_more)];
        let names =
            |list: &SessionList| list.sessions.iter().map(|s| s.session_id.clone()).collect::<Vec<_>>().join(" ");
        let all = super::sessions(parts(false), 9, SessionOrder::Active);
        assert_eq!((names(&all).as_str(), all.next), ("a x y b", None));
        // What the second node has before second 5 is not known, so `b` is for the next page.
        let more = super::sessions(parts(true), 9, SessionOrder::Active);
        assert_eq!((names(&more).as_str(), more.next.as_deref()), ("a x y", Some("5000000000/y")));
        let cut = super::sessions(parts(false), 2, SessionOrder::Active);
        assert_eq!((names(&cut).as_str(), cut.next.as_deref()), ("a x", Some("7000000000/x")));
        let same = vec![active(&[("n", 4)], false), active(&[("m", 4)], false)];
        assert_eq!(names(&super::sessions(same, 9, SessionOrder::Active)), "m n");
    }
}
