//! Creating, finding and listing sessions.

use crate::NoticeView;
use crate::hold::Held;
use crate::query::Switch;
use crate::sandbox::SandboxName;
use serde::{Deserialize, Serialize};
use shellkeep_session::{SessionMeta, Timestamp};
use std::collections::BTreeMap;
use std::str::FromStr;
use utoipa::{IntoParams, ToSchema};

/// Body of `POST /v1/sessions`. Every field is optional.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateSessionRequest {
    /// The agent that it belongs to; sessions can be listed by agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Its name: 1–128 of `A-Za-z0-9._:-`, not starting with a dot. Default: a UUID4.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// With `session_id`, the session's id becomes `thread_{user_id}_{session_id}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_id: Option<String>,
    /// Absolute path where the shell starts. Default: the session's own workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Exported variables in addition to those that every session gets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env: Option<BTreeMap<String, String>>,
    /// The agent's configuration: an object, stored unchanged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<serde_json::Map<String, serde_json::Value>>,
    /// How far its processes are confined; at least as far as the host configured it, which is the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<SandboxName>,
    /// Names of the node's secrets that its commands get as variables, besides those of its agent. Host only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secrets: Option<Vec<String>>,
}

/// A session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Session {
    /// Its name.
    pub session_id: String,
    /// The agent that it belongs to.
    pub agent: Option<String>,
    /// The configuration it was created with.
    #[schema(value_type = Object)]
    pub agent_config: serde_json::Value,
    /// When it was created (RFC 3339, UTC).
    #[schema(format = DateTime)]
    pub created_at: String,
    /// When something last happened in it.
    #[schema(format = DateTime)]
    pub last_active_at: String,
    /// Its working directory.
    pub cwd: String,
    /// Its workspace: the directory whose files checkpoints cover.
    pub workspace: String,
    /// Whether it has a shell now.
    pub live: bool,
    /// That shell's process id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shell_pid: Option<u32>,
    /// How many shells it has had.
    pub generation: u64,
    /// Number of its last record.
    pub seq: u64,
    /// The session that it was forked from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forked_from: Option<ForkedFrom>,
    /// How far its processes are confined; absent if it was deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<SandboxName>,
    /// The names of the secrets that it was created with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<String>,
    /// Who holds it, if somebody does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<Held>,
    /// Who deleted it and when, if its agent did; only the host sees such sessions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deleted: Option<Deleted>,
}

/// The deletion of a session by its agent. Its recording is kept until the host's retention ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Deleted {
    /// The name that the session had.
    pub session_id: String,
    /// The id of the token that deleted it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// When (RFC 3339, UTC).
    #[schema(format = DateTime)]
    pub at: String,
}

/// Response to `POST …/fork`: the new session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ForkResponse {
    /// The session.
    #[serde(flatten)]
    pub session: Session,
    /// Notices; the first run repeats them.
    pub notices: Vec<NoticeView>,
}

/// The origin of a fork.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ForkedFrom {
    /// The session.
    pub session_id: String,
    /// Number of the record that the fork starts after.
    pub seq: u64,
}

impl Session {
    /// A session without a shell; the caller fills in what it knows beyond `meta`.
    pub fn new(meta: SessionMeta, last_active_at: Timestamp) -> Self {
        Self {
            session_id: meta.session_id.into(),
            agent: meta.agent,
            agent_config: meta.agent_config,
            created_at: meta.created_at.to_string(),
            last_active_at: last_active_at.to_string(),
            cwd: String::new(),
            workspace: meta.workspace.to_text().into_owned(),
            live: false,
            shell_pid: None,
            generation: 0,
            seq: 0,
            forked_from: meta
                .forked_from
                .map(|origin| ForkedFrom { session_id: origin.session_id.into(), seq: origin.seq }),
            sandbox: None,
            secrets: meta.secrets,
            held: None,
            deleted: None,
        }
    }
}

/// The order of a list of sessions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SessionOrder {
    /// By id.
    #[default]
    Id,
    /// The session in which something happened last comes first.
    Active,
}

impl FromStr for SessionOrder {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "id" => Ok(Self::Id),
            "active" => Ok(Self::Active),
            _ => Err("an order is `id` or `active`"),
        }
    }
}

/// One page of sessions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SessionList {
    /// The sessions. With a filter there may be fewer than `limit`, or none, although there is a next page.
    pub sessions: Vec<Session>,
    /// Pass this as `after` for the next page, with the same filters and order; `null` on the last one.
    pub next: Option<String>,
}

/// Query of `GET /v1/sessions`.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ListParams {
    /// Only this agent's sessions.
    #[serde(default, deserialize_with = "crate::query::blank")]
    pub agent: Option<String>,
    /// Only sessions that have each of these words in their id, agent, working directory or last command (its first 500
    /// bytes), in any case.
    #[serde(default, deserialize_with = "crate::query::blank")]
    pub q: Option<String>,
    /// With `true`, only sessions that have a shell now.
    #[serde(default, deserialize_with = "crate::query::blank")]
    #[param(value_type = Option<bool>)]
    pub live: Option<Switch>,
    /// With `true`, only sessions in which a command runs now.
    #[serde(default, deserialize_with = "crate::query::blank")]
    #[param(value_type = Option<bool>)]
    pub running: Option<Switch>,
    /// With `true`, only sessions whose last command has ended, and not with exit code 0.
    #[serde(default, deserialize_with = "crate::query::blank")]
    #[param(value_type = Option<bool>)]
    pub failed: Option<Switch>,
    /// The order: `id`, or `active` for the most recently active first.
    #[serde(default, deserialize_with = "crate::query::blank")]
    #[param(inline, default = "id")]
    pub order: Option<SessionOrder>,
    /// Maximum number of sessions to return, 1–1000.
    #[serde(default, deserialize_with = "crate::query::blank")]
    #[param(minimum = 1, maximum = 1000, default = 100)]
    pub limit: Option<usize>,
    /// The `next` of the previous page.
    #[serde(default, deserialize_with = "crate::query::blank")]
    pub after: Option<String>,
    /// Instead of existing sessions, list those that agents deleted and whose recordings are kept, all on one page.
    /// Host only.
    #[serde(default, deserialize_with = "crate::query::blank")]
    #[param(value_type = Option<bool>)]
    pub deleted: Option<Switch>,
}
