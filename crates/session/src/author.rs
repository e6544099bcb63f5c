//! Who an event comes from. Only the daemon sets this.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The kind of source of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// Unknown: events of format 3 and earlier.
    #[default]
    Unknown,
    /// The daemon itself.
    Runtime,
    /// An agent posted it. It is not verified.
    Agent,
    /// The host posted it.
    Host,
}

/// Who an event comes from.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Author {
    /// The kind of source.
    #[serde(default, skip_serializing_if = "Source::is_unknown")]
    pub source: Source,
    /// The id of the agent's token that posted or requested it; none for the host and the daemon.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

impl Source {
    /// Whether it is unknown.
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
    /// The daemon itself, on behalf of a token or on its own.
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

    /// Whether it was posted, not written by the daemon.
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
