//! What can be opened on top of the lists: a session, a service, a log.

use super::log::Log;
use super::wants::{ServiceKey, SessionDetail};
use shellkeep_protocol::Service;
use shellkeep_terminal::list::List;

/// Something that was opened.
#[derive(Debug)]
pub enum View {
    Session(Box<SessionView>),
    Service(Box<ServiceView>),
    Log(Box<Log>),
}

/// A session that was opened.
#[derive(Debug)]
pub struct SessionView {
    pub id: String,
    /// What the daemon said about it last.
    pub detail: Option<SessionDetail>,
    /// Why it cannot be shown.
    pub problem: Option<String>,
    /// Selection among its services.
    pub list: List,
}

impl SessionView {
    /// A session about which nothing is known yet.
    pub fn new(id: String) -> Self {
        Self { id, detail: None, problem: None, list: List::default() }
    }

    /// The daemon told.
    pub fn set(&mut self, detail: Result<Box<SessionDetail>, String>) {
        match detail {
            Ok(mut detail) => {
                // The newest first: who looks at a session looks at what it did last.
                detail.services.reverse();
                let kept = self.selected().map(ServiceKey::of);
                self.list.set_length(detail.services.len());
                let place = detail.services.iter().position(|service| Some(ServiceKey::of(service)) == kept);
                if let Some(row) = place {
                    self.list.select(row);
                }
                self.detail = Some(*detail);
                self.problem = None;
            }
            Err(problem) => self.problem = Some(problem),
        }
    }

    /// The selected one of its services.
    pub fn selected(&self) -> Option<&Service> {
        self.detail.as_ref().and_then(|detail| detail.services.get(self.list.selected))
    }
}

/// A service that was opened.
#[derive(Debug)]
pub struct ServiceView {
    pub key: ServiceKey,
    /// What is known about it.
    pub service: Service,
    /// Why it can no longer be shown.
    pub problem: Option<String>,
    /// Lines that are scrolled out at the top.
    pub scroll: u16,
}

impl ServiceView {
    /// A service as the list had it.
    pub fn new(service: Service) -> Self {
        Self { key: ServiceKey::of(&service), service, problem: None, scroll: 0 }
    }

    /// The daemon told.
    pub fn set(&mut self, detail: Result<Box<Service>, String>) {
        match detail {
            Ok(service) => (self.service, self.problem) = (*service, None),
            Err(problem) => self.problem = Some(problem),
        }
    }
}
