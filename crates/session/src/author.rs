//! Who an event comes from. The daemon says so; nothing that is posted can.

use serde::{Deserialize, Serialize};
use std::fmt;

/// What kind of party an event comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// Nobody wrote it down: events of format 3 and before.
    #[default]
    Unknown,
    /// The daemon: it did or saw what the event says.
    Runtime,
    /// An agent said so. Nobody checked it.
    Agent,
    /// The host said so.
    Host,
}

/// Who an event comes from.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Author {
    /// What kind of party.
    #[serde(default, skip_serializing_if = "Source::is_unknown")]
    pub source: Source,
    /// The id of the agent's token that posted it or asked for it; none if it was the host, or nobody.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

impl Source {
    /// Whether nobody wrote it down.
    pub fn is_unknown(&self) -> bool {
        *self == Self::Unknown
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unknown => "unknown",
            Self::Runtime => "runtime",
            Self::Agent => "agent",
            Self::Host => "host",
        })
    }
}

impl Author {
    /// The daemon itself, on behalf of a token or of nobody in particular.
    pub fn runtime(by: Option<String>) -> Self {
        Self { source: Source::Runtime, by }
    }

    /// The holder of this token, or the host.
    pub fn caller(token: Option<&str>) -> Self {
        match token {
            Some(token) => Self { source: Source::Agent, by: Some(token.to_owned()) },
            None => Self { source: Source::Host, by: None },
        }
    }

    /// The program of the session's agent, which the daemon runs and which has no token.
    pub fn program() -> Self {
        Self { source: Source::Agent, by: None }
    }

    /// Whether nothing is known.
    pub fn is_unknown(&self) -> bool {
        *self == Self::default()
    }

    /// Whether somebody but the daemon said it.
    pub fn is_posted(&self) -> bool {
        matches!(self.source, Source::Agent | Source::Host)
    }
}

impl fmt::Display for Author {
    /// `agent 3f2a…`, `host`, `runtime`, `unknown`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.source, &self.by) {
            (Source::Agent, Some(by)) => write!(f, "agent {by}"),
            (source, _) => write!(f, "{source}"),
        }
    }
}
