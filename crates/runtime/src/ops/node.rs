//! Operations on the node as a whole: quotas and status.

use super::ServiceView;
use shellkeep_session::{QuotaName, RunId, SessionId, Timestamp};
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// Change quotas: those that are named. `None` brings back what the settings say.
pub type QuotaChanges = BTreeMap<QuotaName, Option<u64>>;

/// One quota.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuotaView {
    /// Which.
    pub name: QuotaName,
    /// What the settings say.
    pub configured: u64,
    /// What was set since, if it was.
    pub set: Option<u64>,
    /// What is in force now; less than was set while the machine is under pressure.
    pub limit: u64,
    /// What is used now, where that is one number. An agent sees its own.
    pub used: Option<u64>,
}

/// A limit that followed the machine's pressure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitChangeView {
    /// When.
    pub at: Timestamp,
    /// Which limit.
    pub limit: &'static str,
    /// What it was.
    pub from: u64,
    /// What it is since.
    pub to: u64,
    /// Why, in a sentence.
    pub reason: String,
}

/// All quotas.
#[derive(Debug, Clone)]
pub struct QuotasView {
    /// In the order they are shown.
    pub quotas: Vec<QuotaView>,
    /// The last changes that the machine's pressure made, newest first. The host's to see.
    pub changes: Vec<LimitChangeView>,
}

/// A command that runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunningView {
    /// The session that it runs in.
    pub session_id: SessionId,
    /// The agent that the session belongs to.
    pub agent: Option<String>,
    /// The run.
    pub run_id: RunId,
    /// Its text, as it is recorded, cut.
    pub command: String,
    /// How long it has run.
    pub elapsed: Duration,
    /// Whether it outgrew its timeout and runs in the background.
    pub background: bool,
}

/// The status of the node.
#[derive(Debug, Clone)]
pub struct NodeView {
    /// Since when the daemon runs.
    pub uptime: Duration,
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
    /// The commands that have run longest, the longest first.
    pub commands: Vec<RunningView>,
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
    /// Share of memory that is free to use.
    pub memory_free: f64,
    /// The quotas.
    pub quotas: QuotasView,
    /// Why it is degraded; empty when all is well.
    pub problems: Vec<String>,
}

/// A quota was met. Boxed in the error, because it is rare and long.
#[derive(Debug, Clone)]
pub struct QuotaMet {
    /// Which.
    pub quota: QuotaName,
    /// The limit in force.
    pub limit: u64,
    /// What is used.
    pub used: u64,
    /// Whose services are counted, where an agent's are.
    pub agent: Option<String>,
    /// The caller's services, the most idle first.
    pub services: Vec<ServiceView>,
}

impl fmt::Display for QuotaMet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { quota, limit, used, agent, services } = self;
        match quota {
            QuotaName::ServicesPerAgent => {
                let whose = agent.as_deref().map_or_else(|| "this agent".to_owned(), |name| format!("agent '{name}'"));
                write!(f, "{whose} is at its limit of {}; nothing was started. ", running(*limit, "service"))?;
            }
            QuotaName::Services => {
                write!(f, "this node is at its limit of {}; nothing was started. ", running(*limit, "service"))?;
            }
            QuotaName::Processes => {
                write!(f, "this node runs {used} of at most {limit} processes; nothing was started. ")?;
            }
            QuotaName::LiveShells => {
                return write!(
                    f,
                    "this node is at its limit of {limit} shells and all of them are busy; nothing was run. Try again \
                     when a command has finished"
                );
            }
            other => {
                return write!(f, "{other} is at its limit: {used} of {limit} used; remove something and try again");
            }
        }
        match services.first() {
            None => write!(f, "None of them is yours; try again later, or ask the host to raise {quota}"),
            Some(first) => {
                let named: Vec<String> = services.iter().map(named).collect();
                let (id, name, session) = (&first.service_id, &first.name, &first.session_id);
                write!(
                    f,
                    "Stop one that you no longer need and try again, for example {id} ({name}) of session {session}. \
                     Yours, the most idle first: {}",
                    named.join("; ")
                )
            }
        }
    }
}

fn running(limit: u64, noun: &str) -> String {
    format!("{limit} running {noun}{}", if limit == 1 { "" } else { "s" })
}

fn named(service: &ServiceView) -> String {
    let ports: Vec<String> = service.ports.iter().map(u16::to_string).collect();
    let ports = if ports.is_empty() { String::new() } else { format!(", port {}", ports.join(" ")) };
    let command = shellkeep_session::plan::shorten(&service.command.to_text());
    let session = &service.session_id;
    format!(
        "{} `{command}` in session {session}{ports}, last active {}",
        service.service_id,
        service.last_active_at.strftime("%Y-%m-%dT%H:%M:%SZ")
    )
}
