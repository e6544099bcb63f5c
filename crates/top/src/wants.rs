//! What the screen needs from the daemon, and the updates. The screen states it as a value; the poller fetches it
//! repeatedly until the value changes.

use shellkeep_protocol::{LogResponse, Node, Readiness, Service, Session, StateResponse};

/// A service, by its names.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ServiceKey {
    pub session: String,
    /// Its id in the session.
    pub service: String,
}

impl ServiceKey {
    /// The key of a service.
    pub fn of(service: &Service) -> Self {
        Self { session: service.session_id.clone(), service: service.service_id.clone() }
    }
}

/// A log that is looked at. The same log opened again is another: it begins anew, and news of the first are not for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Followed {
    pub key: ServiceKey,
    /// How many logs were opened before.
    pub number: u64,
}

/// What is visible, besides the node itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wants {
    /// The services that run.
    pub services: bool,
    /// A page of sessions.
    pub sessions: Option<SessionsQuery>,
    /// One session with its state and its services.
    pub session: Option<String>,
    /// One service.
    pub service: Option<ServiceKey>,
    pub log: Option<Followed>,
}

/// Which page of which sessions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionsQuery {
    /// Text that the id or the agent contains; `@name` for the sessions of one agent.
    pub filter: String,
    /// The id after which the page begins.
    pub after: Option<String>,
}

impl SessionsQuery {
    /// The agent whose sessions are asked for, and the text to look for.
    pub fn parts(&self) -> (Option<&str>, String) {
        match self.filter.strip_prefix('@') {
            Some(agent) if shellkeep_session::id::check(agent).is_ok() => (Some(agent), String::new()),
            Some(text) => (None, text.to_lowercase()),
            None => (None, self.filter.to_lowercase()),
        }
    }
}

/// A page of sessions.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SessionsPage {
    pub sessions: Vec<Session>,
    /// Where the next page begins, if there is one.
    pub next: Option<String>,
    /// How many sessions were looked at for it.
    pub searched: usize,
    /// Whether that were all there is to look at for it.
    pub complete: bool,
}

/// One session, looked at closely.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionDetail {
    pub session: Session,
    /// What its shell knows, in figures.
    pub state: StateSummary,
    /// Its services, those that ended too.
    pub services: Vec<Service>,
}

/// What a session's shell knows, in figures. The values stay with the daemon: they may be secrets, and long.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StateSummary {
    /// Variables that differ from a bare bash.
    pub variables: usize,
    /// Exported ones.
    pub exported: usize,
    /// Names of functions.
    pub functions: Vec<String>,
    pub aliases: usize,
    /// Signals with a trap.
    pub traps: Vec<String>,
    /// `$?`
    pub status: i32,
}

impl From<StateResponse> for StateSummary {
    fn from(state: StateResponse) -> Self {
        Self {
            variables: state.variables.len(),
            exported: state.env.len(),
            functions: state.functions.into_keys().collect(),
            aliases: state.aliases.len(),
            traps: state.traps.into_keys().collect(),
            status: state.status,
        }
    }
}

/// What the daemon said.
#[derive(Debug)]
pub enum News {
    /// It answers.
    Found(Readiness),
    /// It does not answer.
    Lost { reason: String },
    /// The status of the node.
    Node(Box<Node>),
    /// The services that run.
    Services(Vec<Service>),
    /// A page of sessions.
    Sessions { query: SessionsQuery, page: SessionsPage },
    /// One session, or why it cannot be shown.
    Session { id: String, detail: Result<Box<SessionDetail>, String> },
    /// One service, or why it cannot be shown.
    Service { key: ServiceKey, detail: Result<Box<Service>, String> },
    /// A page of a log, or why it cannot be read.
    Log { log: Followed, page: Result<Box<LogResponse>, String> },
    /// A service was stopped, or not.
    Stopped { key: ServiceKey, outcome: Result<Box<Service>, String> },
    /// Something that was asked for was refused.
    Refused {
        /// The daemon's words.
        reason: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_is_a_text_or_an_agent() {
        let parts = |filter: &str| {
            let query = SessionsQuery { filter: filter.to_owned(), after: None };
            let (agent, text) = query.parts();
            (agent.map(str::to_owned), text)
        };
        assert_eq!(parts("Demo"), (None, "demo".to_owned()));
        assert_eq!(parts("@builder"), (Some("builder".to_owned()), String::new()));
        assert_eq!(parts("@"), (None, String::new()), "half of a name is no name");
        assert_eq!(parts("@a b&limit=1"), (None, "a b&limit=1".to_owned()), "nothing but a name goes into an address");
    }
}
