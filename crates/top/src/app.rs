//! The state of the screen: a plain value that keys and updates change and that drawing reads. It does no I/O; it lists
//! what it needs in [`Wants`].

use super::panes::{ServicesPane, SessionsPane};
use super::rates::Rates;
use super::views::View;
use super::wants::{News, ServiceKey, Wants};
use shellkeep_protocol::{Node, Service};
use shellkeep_terminal::list::List;
use shellkeep_terminal::theme::Level;
use std::time::Duration;

/// How long a message stays.
const MESSAGE_STAYS: Duration = Duration::from_secs(8);

/// The lists.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Tab {
    /// Services that run.
    #[default]
    Services,
    Sessions,
    /// Changes of limits.
    Changes,
}

impl Tab {
    /// All, in their order.
    pub const ALL: [Self; 3] = [Self::Services, Self::Sessions, Self::Changes];

    /// Its heading.
    pub fn title(self) -> &'static str {
        match self {
            Self::Services => "Services",
            Self::Sessions => "Sessions",
            Self::Changes => "Changes",
        }
    }
}

/// Whether the daemon answers.
#[derive(Debug, Default, PartialEq, Eq)]
pub enum Link {
    /// Unknown yet.
    #[default]
    Unknown,
    /// It does.
    Up {
        version: String,
        /// Its process.
        pid: u32,
    },
    /// It does not.
    Lost { reason: String },
}

/// A prompt.
#[derive(Debug, PartialEq, Eq)]
pub struct Prompt {
    /// What it is for.
    pub purpose: Purpose,
    /// What was typed.
    pub text: String,
    /// The previous value, for Esc.
    pub before: String,
}

/// The purpose of a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// To filter the list.
    Filter,
    /// To search the log.
    Search,
}

/// A yes-or-no question: whether to stop a service.
#[derive(Debug, PartialEq, Eq)]
pub struct Question {
    pub key: ServiceKey,
    pub name: String,
}

/// A temporary message.
#[derive(Debug, PartialEq, Eq)]
pub struct Message {
    /// The sentence.
    pub text: String,
    /// Its severity.
    pub level: Level,
    until: Duration,
}

/// What a key does other than changing the screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Leave.
    Quit,
    /// Stop a service.
    Stop(ServiceKey),
    /// Suspend (Ctrl-Z).
    Suspend,
}

/// Everything that is on the screen. Times are counted from the program's start.
#[derive(Debug, Default)]
pub struct App {
    /// Whether the daemon answers.
    pub link: Link,
    /// The last status of the node.
    pub node: Option<Node>,
    /// Commands per second.
    pub rates: Rates,
    /// Which list is visible.
    pub tab: Tab,
    pub services: ServicesPane,
    pub sessions: SessionsPane,
    /// Selection among the changes of limits.
    pub changes: List,
    /// What was opened, the topmost last.
    pub views: Vec<View>,
    /// The current prompt.
    pub prompt: Option<Prompt>,
    /// The question that waits for an answer.
    pub question: Option<Question>,
    /// Whether the help is shown.
    pub help: bool,
    /// The current message.
    pub message: Option<Message>,
    /// How many logs were opened.
    pub logs_opened: u64,
}

impl App {
    /// What it needs to know.
    pub fn wants(&self) -> Wants {
        let mut wants = Wants::default();
        match self.views.last() {
            None => match self.tab {
                Tab::Services => wants.services = true,
                Tab::Sessions => wants.sessions = Some(self.sessions.query.clone()),
                Tab::Changes => {}
            },
            Some(View::Session(view)) => wants.session = Some(view.id.clone()),
            Some(View::Service(view)) => wants.service = Some(view.key.clone()),
            Some(View::Log(log)) => wants.log = Some(log.which.clone()),
        }
        wants
    }

    /// An update from the daemon.
    pub fn on_news(&mut self, news: News, at: Duration) {
        match news {
            News::Found(daemon) => self.link = Link::Up { version: daemon.version, pid: daemon.pid },
            News::Lost { reason } => self.link = Link::Lost { reason },
            News::Node(node) => {
                self.rates.record(at, node.commands_total);
                self.changes.set_length(node.quotas.changes.len());
                self.node = Some(*node);
            }
            News::Services(services) => self.services.set(services),
            News::Sessions { query, page } => self.sessions.set(&query, page),
            News::Session { id, detail } => {
                if let Some(view) = self.views.iter_mut().find_map(|view| match view {
                    View::Session(view) if view.id == id => Some(view),
                    _ => None,
                }) {
                    view.set(detail);
                }
            }
            News::Service { key, detail } => {
                if let Some(view) = self.views.iter_mut().find_map(|view| match view {
                    View::Service(view) if view.key == key => Some(view),
                    _ => None,
                }) {
                    view.set(detail);
                }
            }
            News::Log { log: which, page } => {
                if let Some(View::Log(log)) = self.views.last_mut()
                    && log.which == which
                {
                    log.set(page);
                }
            }
            News::Stopped { key, outcome } => self.on_stopped(&key, outcome, at),
            News::Refused { reason } => self.say(reason, Level::Bad, at),
        }
    }

    /// Time has passed.
    pub fn on_tick(&mut self, at: Duration) {
        if self.message.as_ref().is_some_and(|message| message.until <= at) {
            self.message = None;
        }
    }

    /// Shows a temporary message.
    pub fn say(&mut self, text: String, level: Level, at: Duration) {
        self.message = Some(Message { text, level, until: at + MESSAGE_STAYS });
    }

    /// The service that a key would act on.
    pub fn pointed_at(&self) -> Option<&Service> {
        match self.views.last() {
            None if self.tab == Tab::Services => self.services.selected(),
            Some(View::Session(view)) => view.selected(),
            Some(View::Service(view)) => Some(&view.service),
            _ => None,
        }
    }

    /// The filter of the visible list.
    pub fn filter(&self) -> &str {
        match self.tab {
            Tab::Services => &self.services.filter,
            Tab::Sessions => &self.sessions.query.filter,
            Tab::Changes => "",
        }
    }

    /// Filters the visible list.
    pub fn set_filter(&mut self, filter: String) {
        match self.tab {
            Tab::Services => self.services.set_filter(filter),
            Tab::Sessions => self.sessions.set_filter(filter),
            Tab::Changes => {}
        }
    }

    fn on_stopped(&mut self, key: &ServiceKey, outcome: Result<Box<Service>, String>, at: Duration) {
        let ServiceKey { session, service } = key;
        match outcome {
            Ok(ended) => {
                let code = ended.exit_code.map_or_else(String::new, |code| format!(", exit code {code}"));
                let status = ended.status.as_str();
                self.say(format!("{service} ({}) of session {session} is {status}{code}", ended.name), Level::Good, at);
            }
            Err(reason) => {
                self.say(format!("{service} of session {session} was not stopped: {reason}"), Level::Bad, at)
            }
        }
    }
}

#[cfg(test)]
mod tests;
