//! Asks the daemon, again and again, for what the screen wants to know. It asks only for what is in sight, and a question
//! that takes long is asked less often, so that looking on does not become the load one looks at.

use super::wants::{News, ServiceKey, SessionDetail, SessionsPage, SessionsQuery, Wants};
use crate::client::{Client, ClientError, Endpoint};
use serde::Serialize;
use serde::de::DeserializeOwned;
use shellkeep_protocol::{
    Node, Readiness, Service, ServiceList, Session, SessionList, StateResponse, StopServiceRequest,
};
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, timeout};

/// A daemon that is silent for so long is as good as gone.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);
/// Stopping waits for the service's grace, and then for its processes to go.
const STOP_LIMIT: Duration = Duration::from_secs(60);
/// How long to wait before a daemon that is gone is looked for again.
const RETRY: Duration = Duration::from_secs(1);
/// Sessions on one page of the screen.
const PAGE: usize = 200;
/// Sessions asked for at a time while searching: the most there are to a page on the wire.
const SEARCH_PAGE: usize = 1000;
/// Sessions that are searched before the page is shown as it is, with the rest behind "more".
const MOST_SEARCHED: usize = 200_000;
/// A search rests this many times as long as it took.
const REST: u32 = 10;

/// Asks the daemon.
pub struct Poller {
    /// Where it is.
    pub endpoint: Endpoint,
    /// How often to ask.
    pub interval: Duration,
    /// What for.
    pub wants: watch::Receiver<Wants>,
    /// Whom to tell.
    pub news: mpsc::Sender<News>,
}

/// Why a round ended early.
enum Halt {
    /// The daemon does not answer.
    Lost(String),
    /// Nobody listens to us any more.
    Unheard,
}

/// A search that was done, and when it may be done again.
struct Searched {
    query: SessionsQuery,
    again: Instant,
}

impl Poller {
    /// Asks until nobody wants to know any more.
    pub async fn run(mut self) {
        let mut client: Option<Client> = None;
        let mut searched: Option<Searched> = None;
        let mut due = Instant::now();
        loop {
            let began = Instant::now();
            let wants = self.wants.borrow_and_update().clone();
            // Between two turns, only what is newly in sight is asked for.
            let turn = began >= due;
            let mut pause = self.interval;
            match self.round(&mut client, &mut searched, &wants, turn).await {
                Ok(()) => {}
                Err(Halt::Unheard) => return,
                Err(Halt::Lost(reason)) => {
                    (client, searched, pause) = (None, None, RETRY);
                    due = began;
                    if self.news.send(News::Lost { reason }).await.is_err() {
                        return;
                    }
                }
            }
            if due <= began {
                due = began + pause;
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
        searched: &mut Option<Searched>,
        wants: &Wants,
        turn: bool,
    ) -> Result<(), Halt> {
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
        if let Some(query) = &wants.sessions {
            self.sessions(client, searched, query).await?;
        }
        if let Some(id) = &wants.session {
            let detail = self.session(client, id).await?;
            self.tell(News::Session { id: id.clone(), detail: detail.map(Box::new) }).await?;
        }
        if let Some(key) = &wants.service {
            let detail = self.ask::<Service>(client, &service_path(key)).await?;
            self.tell(News::Service { key: key.clone(), detail: detail.map(Box::new) }).await?;
        }
        Ok(())
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

    /// One page of sessions. With a filter, the daemon's pages are searched until one page of the screen is full.
    async fn sessions(
        &self,
        client: &mut Client,
        searched: &mut Option<Searched>,
        query: &SessionsQuery,
    ) -> Result<(), Halt> {
        let began = Instant::now();
        if searched.as_ref().is_some_and(|last| last.query == *query && last.again > began) {
            return Ok(());
        }
        let (agent, text) = query.parts();
        let limit = if text.is_empty() { PAGE } else { SEARCH_PAGE };
        let agent = agent.map_or_else(String::new, |agent| format!("&agent={agent}"));
        let mut page = SessionsPage { next: query.after.clone(), ..SessionsPage::default() };
        loop {
            let after = page.next.map_or_else(String::new, |after| format!("&after={after}"));
            let part =
                match self.ask::<SessionList>(client, &format!("/v1/sessions?limit={limit}{agent}{after}")).await? {
                    Ok(part) => part,
                    Err(reason) => return self.tell(News::Refused { reason }).await,
                };
            page.next = part.next;
            page.searched += part.sessions.len();
            let full = take(&mut page, part.sessions, &text);
            if full || text.is_empty() || page.next.is_none() || page.searched >= MOST_SEARCHED {
                break;
            }
            // Somebody types on; what was looked for is not wanted any more.
            if self.wants.has_changed().unwrap_or(true) {
                return Ok(());
            }
        }
        let rest = if text.is_empty() { Duration::ZERO } else { began.elapsed() * REST };
        *searched = Some(Searched { query: query.clone(), again: Instant::now() + rest });
        self.tell(News::Sessions { query: query.clone(), page }).await
    }

    /// Asks one question. The inner error is the daemon's refusal, in its words.
    async fn ask<R: DeserializeOwned>(&self, client: &mut Client, path: &str) -> Result<Result<R, String>, Halt> {
        match timeout(ANSWER_LIMIT, client.get(path)).await {
            Ok(Ok(answer)) => Ok(Ok(answer)),
            Ok(Err(ClientError::Refused(problem))) => Ok(Err(problem.to_string())),
            Ok(Err(ClientError::Broken(reason))) => Err(Halt::Lost(reason)),
            Err(_) => Err(Halt::Lost(silent())),
        }
    }

    async fn tell(&self, news: News) -> Result<(), Halt> {
        self.news.send(news).await.map_err(|_| Halt::Unheard)
    }
}

/// Takes over the sessions that match, until the page is full. A page that ends within a page of the daemon's goes on
/// behind its own last session.
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
    format!("it does not answer within {} s", ANSWER_LIMIT.as_secs())
}

/// The address of a service.
pub fn service_path(key: &ServiceKey) -> String {
    format!("/v1/sessions/{}/services/{}", key.session, key.service)
}

/// Stops a service on a connection of its own, because that takes as long as the service takes to end.
pub async fn stop(endpoint: Endpoint, key: ServiceKey, news: mpsc::Sender<News>) {
    let asked = timeout(STOP_LIMIT, ask_to_stop(&endpoint, &key)).await;
    let outcome = asked.unwrap_or_else(|_| Err("it takes too long; look again later".to_owned()));
    // Nobody listens when we are leaving.
    let _ = news.send(News::Stopped { key, outcome: outcome.map(Box::new) }).await;
}

async fn ask_to_stop(endpoint: &Endpoint, key: &ServiceKey) -> Result<Service, String> {
    let mut client = Client::connect(endpoint).await.map_err(|error| error.to_string())?;
    post(&mut client, &format!("{}/stop", service_path(key)), &StopServiceRequest::default()).await
}

async fn post<B: Serialize, R: DeserializeOwned>(client: &mut Client, path: &str, body: &B) -> Result<R, String> {
    client.post(path, body).await.map_err(|error| error.to_string())
}
