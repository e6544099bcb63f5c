//! The node as a whole, those that share a store with it, and ending an agent.

use crate::quota::QuotasResponse;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// Response of `GET /v1/node`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Node {
    /// Seconds since the daemon was started.
    pub uptime: f64,
    /// Number of sessions.
    pub sessions: usize,
    /// Sessions with a shell.
    pub live_shells: usize,
    /// Shells started in advance.
    pub spare_shells: usize,
    /// Running commands.
    pub running: usize,
    /// How many commands may run at once now.
    pub running_limit: usize,
    /// Commands that wait in the queue of the node.
    pub waiting: usize,
    /// Agents whose commands wait.
    pub agents_waiting: usize,
    /// The commands that have run longest, at most 100 of them.
    pub commands: Vec<RunningCommand>,
    /// Commands started since the daemon started.
    pub commands_total: u64,
    /// Running services.
    pub services: usize,
    /// Processes of all sessions and services.
    pub processes: u64,
    /// Resident memory of the daemon, in bytes.
    pub memory: u64,
    /// Share of time in which a task waited for a processor, 0 to 1.
    pub cpu_pressure: f64,
    /// Share of time in which a task waited for memory, 0 to 1.
    pub memory_pressure: f64,
    /// Share of memory that is available, 0 to 1.
    pub memory_free: f64,
    /// `quotas` and `changes`, as in `GET /v1/quotas`.
    #[serde(flatten)]
    pub quotas: QuotasResponse,
    /// Why it is degraded; empty if everything works.
    pub problems: Vec<String>,
}

/// A running command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RunningCommand {
    /// The session that it runs in.
    pub session_id: String,
    /// The agent that the session belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The run.
    pub run_id: String,
    /// Its text, truncated after 1,000 characters; secrets are masked if the daemon masks what it records.
    pub command: String,
    /// Seconds since it started.
    pub seconds: f64,
    /// Whether it moved to the background at its timeout.
    pub background: bool,
}

/// Response of `POST /v1/agents/{agent}/end`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AgentEnded {
    /// The agent.
    pub agent: String,
    /// Sessions that were ended.
    pub sessions: usize,
    /// Services that were stopped.
    pub services: usize,
    /// Nodes that did not answer, where the agent may go on; usually absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing_nodes: Vec<String>,
}

/// Answer of `GET /v1/nodes`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NodeList {
    /// The nodes that share a store, by name.
    pub nodes: Vec<ClusterNode>,
    /// The name of the node that answers; absent if its store is not shared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub this: Option<String>,
}

/// Query of `POST /v1/nodes/{node}/drain`.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct DrainQuery {
    /// Seconds to wait until the node has no session.
    #[serde(default, deserialize_with = "crate::query::blank")]
    #[param(default = 0, minimum = 0, maximum = 300)]
    pub wait: Option<f64>,
}

/// Whether a node takes sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ClusterNodeStatus {
    /// It takes sessions.
    Up,
    /// It takes no more sessions, and has some left.
    Draining,
    /// It takes no more sessions, and has none left.
    Drained,
}

/// A node among those that share a store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ClusterNode {
    /// Its name.
    pub name: String,
    /// The URL at which other nodes reach it; empty if there is none.
    pub url: String,
    /// Whether it takes sessions. Only nodes that are alive are listed.
    pub status: ClusterNodeStatus,
    /// When it started.
    #[schema(format = DateTime)]
    pub since: String,
    /// How many sessions are awake there.
    pub sessions: u64,
    /// Version of its program.
    pub version: String,
}
