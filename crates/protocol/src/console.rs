//! The console in the browser: how it gets its token.

use serde::{Deserialize, Serialize};
use std::fmt;
use utoipa::ToSchema;

/// Body of `POST /v1/console/code`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ConsoleCodeRequest {
    /// What the person may do. Default: `act`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub right: Option<ConsoleRight>,
}

/// What a person at the console may do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ConsoleRight {
    /// Read everything, and change nothing.
    Watch,
    /// Read everything, and use all sessions.
    #[default]
    Act,
}

/// A code for the console.
#[derive(Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ConsoleCode {
    /// The code, for the fragment of the console's address: `#c=CODE`. It works once.
    pub code: String,
    /// Seconds for which it works.
    pub expires_in: f64,
    /// The daemon's addresses that a browser can open, `http://HOST:PORT`; empty if it listens on its socket only.
    pub urls: Vec<String>,
}

impl fmt::Debug for ConsoleCode {
    /// Without the code, which must not end up in a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConsoleCode").field("urls", &self.urls).finish_non_exhaustive()
    }
}

/// Body of `POST /v1/console/login`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ConsoleLoginRequest {
    /// The code.
    pub code: String,
}

impl fmt::Debug for ConsoleLoginRequest {
    /// Without the code, which must not end up in a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ConsoleLoginRequest { .. }")
    }
}
