//! The node as a whole: how it stands, and the end of an agent.

use crate::quota::QuotasResponse;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Answer of `GET /v1/node`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Node {
    /// Seconds since the daemon was started.
    pub uptime: f64,
    /// Sessions there are.
    pub sessions: usize,
    /// Of them, with a shell.
    pub live_shells: usize,
    /// Shells started ahead.
    pub spare_shells: usize,
    /// Commands that run.
    pub running: usize,
    /// Most commands that may run at once now.
    pub running_limit: usize,
    /// Commands that wait for their turn on the node.
    pub waiting: usize,
    /// Agents whose commands wait.
    pub agents_waiting: usize,
    /// The commands that have run longest, at most 100 of them.
    pub commands: Vec<RunningCommand>,
    /// Commands started since the daemon runs.
    pub commands_total: u64,
    /// Services that run.
    pub services: usize,
    /// Processes of all sessions and services.
    pub processes: u64,
    /// Resident memory of the daemon, in bytes.
    pub memory: u64,
    /// Share of time in which something waited for a processor, 0 to 1.
    pub cpu_pressure: f64,
    /// Share of time in which something waited for memory, 0 to 1.
    pub memory_pressure: f64,
    /// Share of memory that is free to use, 0 to 1.
    pub memory_free: f64,
    /// `quotas` and `changes`, as `GET /v1/quotas` has them.
    #[serde(flatten)]
    pub quotas: QuotasResponse,
    /// Why it is degraded; empty when all is well.
    pub problems: Vec<String>,
}

/// A command that runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RunningCommand {
    /// The session that it runs in.
    pub session_id: String,
    /// The agent that the session belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The run.
    pub run_id: String,
    /// Its text, cut after 1,000 characters; secrets are masked if the daemon masks what it records.
    pub command: String,
    /// Seconds since it started.
    pub seconds: f64,
    /// Whether it outgrew its timeout and runs in the background.
    pub background: bool,
}

/// Answer of `POST /v1/agents/{agent}/end`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AgentEnded {
    /// Whose end it was.
    pub agent: String,
    /// Sessions that were ended.
    pub sessions: usize,
    /// Services that were stopped.
    pub services: usize,
}
