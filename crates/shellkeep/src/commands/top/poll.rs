//! Polls the daemon for what the screen shows. It requests only what is visible, and a slow request is repeated less
//! often, so that watching does not become a load of its own.

use crate::client::{Client, ClientError, Endpoint};
use serde::Serialize;
use serde::de::DeserializeOwned;
use shellkeep_protocol::{
    Node, Readiness, Service, ServiceList, Session, SessionList, StateResponse, StopServiceRequest,
};
use shellkeep_top::wants::{News, ServiceKey, SessionDetail, SessionsPage, SessionsQuery, Wants};
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, timeout};

/// A daemon that does not respond for this long counts as gone.
pub const ANSWER_LIMIT: Duration = Duration::from_secs(20);
/// Stopping waits for the service's grace period, and then for its processes to exit.
const STOP_LIMIT: Duration = Duration::from_secs(60);
/// How long to wait before trying to reach a daemon that is gone.
pub const RETRY: Duration = Duration::from_secs(1);
/// Sessions on one page of the screen.
const PAGE: usize = 200;
/// Sessions asked for at a time while searching: the largest page of the API.
const SEARCH_PAGE: usize = 1000;
/// Sessions that are searched before the page is shown as it is, with "more" for the rest.
const MOST_SEARCHED: usize = 200_000;
/// How long a search runs before the rest of the screen is updated.
const SLICE: Duration = Duration::from_millis(200);
/// A search pauses for this many times as long as it took.
const REST: u32 = 10;

/// Asks the daemon.
pub struct Poller {
    /// Where it is.
    pub endpoint: Endpoint,
    /// How often to ask.
    pub interval: Duration,
    /// What to request.
    pub wants: watch::Receiver<Wants>,
    /// Where to send updates.
    pub news: mpsc::Sender<News>,
}

/// Whether a round is complete.
enum Progress {
    /// It is.
    Done,
    /// A search is not finished.
    More,
}

/// Why a round ended early.
enum Halt {
    /// The daemon does not answer.
    Lost(String),
    /// The receiver is gone.
    Unheard,
}

/// A search through the sessions, and its progress. It runs in slices, so that the rest of the screen stays live.
struct Search {
    query: SessionsQuery,
    page: SessionsPage,
    began: Instant,
    /// When to repeat it; `None` while it is not finished.
    again: Option<Instant>,
    /// Whether it has finished once, so that partial results are not shown again.
    known: bool,
}

impl Search {
    fn new(query: &SessionsQuery, known: bool) -> Self {
        let page = SessionsPage { next: query.after.clone(), ..SessionsPage::default() };
        Self { query: query.clone(), page, began: Instant::now(), again: None, known }
    }
}

impl Poller {
    /// Polls until the receiver is gone.
    pub async fn run(mut self) {
        let mut client: Option<Client> = None;
        let mut search: Option<Search> = None;
        let mut due = Instant::now();
        loop {
            let began = Instant::now();
            let wants = self.wants.borrow_and_update().clone();
            // Between two rounds, only newly visible data is requested.
            let turn = began >= due;
            if turn {
                due = began + self.interval;
            }
            match self.round(&mut client, &mut search, &wants, turn).await {
                Ok(Progress::Done) => {}
                Ok(Progress::More) => continue,
                Err(Halt::Unheard) => return,
                Err(Halt::Lost(reason)) => {
                    (client, search, due) = (None, None, Instant::now() + RETRY);
                    if self.news.send(News::Lost { reason }).await.is_err() {
                        return;
                    }
                }
            }
            tokio::select! {
                () = tokio::time::sleep_until(due) => {}
                changed = self.wants.changed() => if changed.is_err() {
                    return;
                },
            }
        }
    }

    async fn round(
        &self,
        client: &mut Option<Client>,
        search: &mut Option<Search>,
        wants: &Wants,
        turn: bool,
    ) -> Result<Progress, Halt> {
        let fresh = client.is_none();
        let client = match client {
            Some(client) => client,
            None => client.insert(connect(&self.endpoint).await?),
        };
        if fresh {
            let daemon: Readiness = self.ask(client, "/readyz").await?.map_err(Halt::Lost)?;
            self.tell(News::Found(daemon)).await?;
        }
        if turn || fresh {
            match self.ask::<Node>(client, "/v1/node").await? {
                Ok(node) => self.tell(News::Node(Box::new(node))).await?,
                Err(reason) => self.tell(News::Refused { reason }).await?,
            }
        }
        if wants.services {
            match self.ask::<ServiceList>(client, "/v1/services").await? {
                Ok(list) => self.tell(News::Services(list.services)).await?,
                Err(reason) => self.tell(News::Refused { reason }).await?,
            }
        }
        if let Some(id) = &wants.session {
            let detail = self.session(client, id).await?;
            self.tell(News::Session { id: id.clone(), detail: detail.map(Box::new) }).await?;
        }
        if let Some(key) = &wants.service {
            let detail = self.ask::<Service>(client, &service_path(key)).await?;
            self.tell(News::Service { key: key.clone(), detail: detail.map(Box::new) }).await?;
        }
        match &wants.sessions {
            Some(query) => self.sessions(client, search, query).await,
            None => Ok(Progress::Done),
        }
    }

    async fn session(&self, client: &mut Client, id: &str) -> Result<Result<SessionDetail, String>, Halt> {
        let path = format!("/v1/sessions/{id}");
        let session = match self.ask::<Session>(client, &path).await? {
            Ok(session) => session,
            Err(reason) => return Ok(Err(reason)),
        };
        let state = match self.ask::<StateResponse>(client, &format!("{path}/state")).await? {
            Ok(state) => state.into(),
            Err(reason) => return Ok(Err(reason)),
        };
        let services = self.ask::<ServiceList>(client, &format!("{path}/services")).await?;
        Ok(services.map(|list| SessionDetail { session, state, services: list.services }))
    }

    /// One page of sessions. With a filter, the daemon's pages are searched until one page of the screen is full, or for a
    /// slice of time; then what was found so far is shown.
    async fn sessions(
        &self,
        client: &mut Client,
        search: &mut Option<Search>,
        query: &SessionsQuery,
    ) -> Result<Progress, Halt> {
        let began = Instant::now();
        let mut going = match search.take().filter(|last| last.query == *query) {
            Some(last) => match last.again {
                Some(again) if again > began => {
                    *search = Some(last);
                    return Ok(Progress::Done);
                }
                Some(_) => Search::new(query, true),
                None => last,
            },
            None => Search::new(query, false),
        };
        while going.again.is_none() && began.elapsed() < SLICE {
            if let Err(reason) = self.search_on(client, &mut going).await? {
                self.tell(News::Refused { reason }).await?;
                return Ok(Progress::Done);
            }
        }
        let through = going.again.is_some();
        if through || !going.known {
            let mut page = going.page.clone();
            if !through {
                page.next = None;
            }
            self.tell(News::Sessions { query: query.clone(), page }).await?;
        }
        *search = Some(going);
        Ok(if through { Progress::Done } else { Progress::More })
    }

    /// Searches one of the daemon's pages.
    async fn search_on(&self, client: &mut Client, search: &mut Search) -> Result<Result<(), String>, Halt> {
        let (agent, text) = search.query.parts();
        let limit = if text.is_empty() { PAGE } else { SEARCH_PAGE };
        let agent = agent.map_or_else(String::new, |agent| format!("&agent={agent}"));
        let after = search.page.next.as_ref().map_or_else(String::new, |after| format!("&after={after}"));
        let path = format!("/v1/sessions?limit={limit}{agent}{after}");
        let part = match self.ask::<SessionList>(client, &path).await? {
            Ok(part) => part,
            Err(reason) => return Ok(Err(reason)),
        };
        let page = &mut search.page;
        page.next = part.next;
        page.searched += part.sessions.len();
        let full = take(page, part.sessions, &text);
        if full || text.is_empty() || page.next.is_none() || page.searched >= MOST_SEARCHED {
            page.complete = true;
            let rest = if text.is_empty() { Duration::ZERO } else { search.began.elapsed() * REST };
            search.again = Some(Instant::now() + rest);
        }
        Ok(Ok(()))
    }

    /// Sends one request. The inner error is the daemon's refusal.
    async fn ask<R: DeserializeOwned>(&self, client: &mut Client, path: &str) -> Result<Result<R, String>, Halt> {
        match timeout(ANSWER_LIMIT, client.get(path)).await {
            Ok(Ok(answer)) => Ok(Ok(answer)),
            Ok(Err(ClientError::Refused(refused))) => Ok(Err(refused.to_string())),
            Ok(Err(ClientError::Broken(reason))) => Err(Halt::Lost(reason)),
            Err(_) => Err(Halt::Lost(silent())),
        }
    }

    async fn tell(&self, news: News) -> Result<(), Halt> {
        self.news.send(news).await.map_err(|_| Halt::Unheard)
    }
}

/// Takes over the sessions that match, until the page is full. A page that ends within a page of the daemon continues
/// after its own last session.
fn take(page: &mut SessionsPage, sessions: Vec<Session>, text: &str) -> bool {
    let matches = |session: &Session| {
        let agent = session.agent.as_deref().unwrap_or_default();
        text.is_empty() || session.session_id.to_lowercase().contains(text) || agent.to_lowercase().contains(text)
    };
    let mut left = sessions.into_iter();
    for session in left.by_ref() {
        if matches(&session) {
            page.sessions.push(session);
        }
        if page.sessions.len() == PAGE {
            break;
        }
    }
    if left.len() > 0 {
        page.searched -= left.len();
        page.next = page.sessions.last().map(|last| last.session_id.clone());
    }
    page.sessions.len() == PAGE
}

async fn connect(endpoint: &Endpoint) -> Result<Client, Halt> {
    match timeout(ANSWER_LIMIT, Client::connect(endpoint)).await {
        Ok(Ok(client)) => Ok(client),
        Ok(Err(error)) => Err(Halt::Lost(error.to_string())),
        Err(_) => Err(Halt::Lost(silent())),
    }
}

fn silent() -> String {
    format!("no response within {} s", ANSWER_LIMIT.as_secs())
}

/// The address of a service.
pub fn service_path(key: &ServiceKey) -> String {
    format!("/v1/sessions/{}/services/{}", key.session, key.service)
}

/// Stops a service on a separate connection, because it takes as long as the service takes to exit.
pub async fn stop(endpoint: Endpoint, key: ServiceKey, news: mpsc::Sender<News>) {
    let asked = timeout(STOP_LIMIT, ask_to_stop(&endpoint, &key)).await;
    let outcome = asked.unwrap_or_else(|_| Err("it takes too long; look again later".to_owned()));
    // The receiver is gone when we exit.
    let _ = news.send(News::Stopped { key, outcome: outcome.map(Box::new) }).await;
}

async fn ask_to_stop(endpoint: &Endpoint, key: &ServiceKey) -> Result<Service, String> {
    let mut client = Client::connect(endpoint).await.map_err(|error| error.to_string())?;
    post(&mut client, &format!("{}/stop", service_path(key)), &StopServiceRequest::default()).await
}

async fn post<B: Serialize, R: DeserializeOwned>(client: &mut Client, path: &str, body: &B) -> Result<R, String> {
    client.post(path, body).await.map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A page of sessions `s000` and on; those with an even number belong to an agent.
    fn page(from: usize, count: usize, next: bool) -> SessionsPage {
        let session = |number: usize| {
            let agent = number.is_multiple_of(2).then_some("builder");
            let fields = serde_json::json!({
                "session_id": format!("s{number:03}"), "agent": agent, "agent_config": {}, "created_at": "",
                "last_active_at": "", "cwd": "/", "workspace": "/", "live": false, "generation": 0, "seq": 0,
            });
            serde_json::from_value::<Session>(fields).unwrap()
        };
        let sessions: Vec<Session> = (from..from + count).map(session).collect();
        let last = sessions.last().map(|session| session.session_id.clone());
        SessionsPage { next: last.filter(|_| next), searched: sessions.len(), sessions, complete: true }
    }

    fn names(page: &SessionsPage) -> Vec<&str> {
        page.sessions.iter().map(|session| session.session_id.as_str()).collect()
    }

    #[test]
    fn a_search_takes_what_matches_by_name_or_by_agent() {
        let mut found = SessionsPage { searched: 30, ..SessionsPage::default() };
        assert!(!take(&mut found, page(0, 30, false).sessions, "s01"));
        assert_eq!(names(&found), (10..20).map(|number| format!("s{number:03}")).collect::<Vec<_>>());
        let mut found = SessionsPage { searched: 6, ..SessionsPage::default() };
        assert!(!take(&mut found, page(0, 6, false).sessions, "build"));
        assert_eq!((names(&found), found.searched), (vec!["s000", "s002", "s004"], 6));
    }

    #[test]
    fn a_full_page_goes_on_behind_its_last_session() {
        let mut found = SessionsPage { next: Some("s999".to_owned()), searched: 1000, ..SessionsPage::default() };
        assert!(take(&mut found, page(0, 1000, true).sessions, "s"));
        assert_eq!((found.sessions.len(), found.next.as_deref(), found.searched), (PAGE, Some("s199"), PAGE));
        let mut found = SessionsPage { next: Some("s199".to_owned()), searched: PAGE, ..SessionsPage::default() };
        assert!(take(&mut found, page(0, PAGE, true).sessions, ""));
        assert_eq!(
            (found.next.as_deref(), found.searched),
            (Some("s199"), PAGE),
            "the daemon's own page is taken whole"
        );
    }
}
