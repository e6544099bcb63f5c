//! The lists of services and of sessions: what is in them, what of it is shown, and what is selected.

use super::wants::{ServiceKey, SessionsPage, SessionsQuery};
use shellkeep_protocol::{Service, Session};
use shellkeep_terminal::list::{List, Motion};

/// How services are put in order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Order {
    /// By session and id.
    #[default]
    Name,
    /// The most idle first.
    Idle,
    /// The largest log first.
    Log,
}

impl Order {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Name => "by session",
            Self::Idle => "most idle first",
            Self::Log => "largest log first",
        }
    }

    fn next(self) -> Self {
        match self {
            Self::Name => Self::Idle,
            Self::Idle => Self::Log,
            Self::Log => Self::Name,
        }
    }
}

/// The services that run.
#[derive(Debug, Default)]
pub struct ServicesPane {
    /// What they are filtered by.
    pub filter: String,
    /// How they are put in order.
    pub order: Order,
    /// Selection and scroll position.
    pub list: List,
    /// All of them, once the daemon has told.
    all: Option<Vec<Service>>,
    shown: Vec<Service>,
}

impl ServicesPane {
    /// The daemon told.
    pub fn set(&mut self, services: Vec<Service>) {
        self.all = Some(services);
        self.arrange();
    }

    /// Filters by another text.
    pub fn set_filter(&mut self, filter: String) {
        self.filter = filter;
        self.arrange();
    }

    /// Puts them in the next order.
    pub fn next_order(&mut self) {
        self.order = self.order.next();
        self.arrange();
    }

    /// Those that are shown.
    pub fn shown(&self) -> &[Service] {
        &self.shown
    }

    /// Whether the daemon has told.
    pub fn is_known(&self) -> bool {
        self.all.is_some()
    }

    /// The selected one.
    pub fn selected(&self) -> Option<&Service> {
        self.shown.get(self.list.selected)
    }

    /// The selection stays with its service, wherever that goes.
    fn arrange(&mut self) {
        let kept = self.selected().map(ServiceKey::of);
        let wanted = self.filter.to_lowercase();
        let matches = |service: &&Service| {
            let agent = service.agent.as_deref().unwrap_or_default();
            let words = [&service.session_id, &service.service_id, &service.name, &service.command, agent];
            wanted.is_empty() || words.iter().any(|word| word.to_lowercase().contains(&wanted))
        };
        self.shown = self.all.iter().flatten().filter(matches).cloned().collect();
        let name = |service: &Service| (service.session_id.clone(), number(&service.service_id));
        match self.order {
            Order::Name => self.shown.sort_by_cached_key(name),
            Order::Idle => self.shown.sort_by_cached_key(|service| (service.last_active_at.clone(), name(service))),
            Order::Log => {
                self.shown.sort_by_cached_key(|service| (std::cmp::Reverse(service.log_bytes), name(service)));
            }
        }
        self.list.set_length(self.shown.len());
        if let Some(row) = kept.and_then(|key| self.shown.iter().position(|service| ServiceKey::of(service) == key)) {
            self.list.select(row);
        }
    }
}

/// `s9` comes before `s10`.
fn number(id: &str) -> (usize, String) {
    (id.len(), id.to_owned())
}

/// One page of the sessions.
#[derive(Debug, Default)]
pub struct SessionsPane {
    /// Which page is wanted.
    pub query: SessionsQuery,
    /// Selection and scroll position.
    pub list: List,
    /// The page that arrived last; of another query while the wanted one is on its way.
    pub page: SessionsPage,
    /// Sessions on the pages before.
    pub before: usize,
    known: bool,
    trail: Vec<(Option<String>, usize)>,
    from_below: bool,
}

impl SessionsPane {
    /// The daemon told a page.
    pub fn set(&mut self, query: &SessionsQuery, page: SessionsPage) {
        if *query != self.query {
            return;
        }
        let kept = self.selected().map(|session| session.session_id.clone());
        let turned = !std::mem::replace(&mut self.known, true);
        self.page = page;
        let length = self.page.sessions.len();
        self.list.set_length(length);
        let row = match kept.filter(|_| !turned) {
            Some(id) => self.page.sessions.iter().position(|session| session.session_id == id),
            None if turned => Some(if self.from_below { length.saturating_sub(1) } else { 0 }),
            None => None,
        };
        self.from_below = false;
        if let Some(row) = row {
            self.list.select(row);
        }
    }

    /// Filters by another text, from the first page on.
    pub fn set_filter(&mut self, filter: String) {
        if filter != self.query.filter {
            self.trail.clear();
            self.turn(SessionsQuery { filter, after: None }, 0);
        }
    }

    /// Makes a step; beyond the last row, to the next page, and before the first, back.
    pub fn step(&mut self, step: Motion) {
        if !self.known {
            return;
        }
        if step == Motion::First && !self.trail.is_empty() {
            self.trail.clear();
            self.turn(SessionsQuery { after: None, ..self.query.clone() }, 0);
        } else if !self.list.step(step) {
            match step {
                Motion::Down | Motion::PageDown => self.next_page(),
                Motion::Up | Motion::PageUp => self.previous_page(),
                Motion::First | Motion::Last => {}
            }
        }
    }

    /// The selected one.
    pub fn selected(&self) -> Option<&Session> {
        self.page.sessions.get(self.list.selected)
    }

    /// Whether the page that is wanted, or a part of it, is still on its way.
    pub fn is_searching(&self) -> bool {
        !self.known || !self.page.complete
    }

    fn next_page(&mut self) {
        if let Some(next) = self.page.next.clone() {
            self.trail.push((self.query.after.clone(), self.before));
            let before = self.before + self.page.sessions.len();
            self.turn(SessionsQuery { after: Some(next), ..self.query.clone() }, before);
        }
    }

    fn previous_page(&mut self) {
        if let Some((after, before)) = self.trail.pop() {
            self.turn(SessionsQuery { after, ..self.query.clone() }, before);
            self.from_below = true;
        }
    }

    fn turn(&mut self, query: SessionsQuery, before: usize) {
        self.query = query;
        self.before = before;
        self.known = false;
        self.from_below = false;
    }
}
