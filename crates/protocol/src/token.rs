//! Tokens: of agents, auditors, metrics and the console.

use serde::{Deserialize, Serialize};
use std::fmt;
use utoipa::ToSchema;

/// Body of `POST /v1/tokens`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateTokenRequest {
    /// Its role. Default: `agent`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<TokenRole>,
    /// The agent that it is for; only for the role `agent`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// A label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Whether the agent may restart its sessions. Default: the daemon's `agent_may_restart`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub may_restart: Option<bool>,
}

/// The role of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum TokenRole {
    /// See and use an agent's own sessions.
    Agent,
    /// Read and verify everything of all sessions, and change nothing.
    Auditor,
    /// Read `/metrics`, `/healthz` and `/readyz`.
    Metrics,
    /// A person at the console who reads everything and changes nothing, for 12 hours.
    Watch,
    /// A person at the console who reads everything and uses all sessions, for 12 hours.
    Act,
}

/// A token, without its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TokenInfo {
    /// Its public name, as in the audit trail and in `by` of a run.
    pub id: String,
    /// Its role.
    pub role: TokenRole,
    /// The agent it is for; `null` for other roles.
    pub agent: Option<String>,
    /// Its label.
    pub name: Option<String>,
    /// Whether it may restart its sessions.
    pub may_restart: bool,
    /// When it was created.
    #[schema(format = DateTime)]
    pub created_at: String,
    /// When it was revoked; `null` if it was not.
    #[schema(format = DateTime)]
    pub revoked_at: Option<String>,
    /// When it stops being valid; absent if it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    pub expires_at: Option<String>,
}

/// A new token.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct IssuedToken {
    /// The secret, for `Authorization: Bearer`. It is shown only once.
    pub token: String,
    /// Everything else.
    #[serde(flatten)]
    pub info: TokenInfo,
}

impl fmt::Debug for IssuedToken {
    /// Without the secret, which must not end up in a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IssuedToken").field("info", &self.info).finish_non_exhaustive()
    }
}

/// Response of `GET /v1/tokens`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TokenList {
    /// The tokens, oldest first.
    pub tokens: Vec<TokenInfo>,
}
