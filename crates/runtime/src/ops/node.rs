//! Operations on the node as a whole: quotas and status.

use super::{Hint, ServiceView};
use shellkeep_session::{QuotaName, RunId, ServiceId, SessionId, Timestamp};
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// Change the named quotas. `None` resets one to its configured value.
pub type QuotaChanges = BTreeMap<QuotaName, Option<u64>>;

/// One quota.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuotaView {
    pub name: QuotaName,
    /// The configured value.
    pub configured: u64,
    /// The value set at run time, if any.
    pub set: Option<u64>,
    /// The limit in effect; lower while the machine is under pressure.
    pub limit: u64,
    /// What is used now, where that is one number. An agent sees its own.
    pub used: Option<u64>,
}

/// A limit that was changed because of the machine's pressure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitChangeView {
    pub at: Timestamp,
    /// Which limit.
    pub limit: &'static str,
    /// The value before.
    pub from: u64,
    /// The value after.
    pub to: u64,
    /// The reason, as a sentence.
    pub reason: String,
}

/// All quotas.
#[derive(Debug, Clone)]
pub struct QuotasView {
    /// In the order they are shown.
    pub quotas: Vec<QuotaView>,
    /// The latest changes caused by the machine's pressure, newest first. Host only.
    pub changes: Vec<LimitChangeView>,
}

/// A running command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunningView {
    /// The session that it runs in.
    pub session_id: SessionId,
    /// The agent that the session belongs to.
    pub agent: Option<String>,
    pub run_id: RunId,
    /// Its text as recorded, truncated.
    pub command: String,
    /// How long it has run.
    pub elapsed: Duration,
    /// Whether it moved to the background at its timeout.
    pub background: bool,
}

/// The status of the node.
#[derive(Debug, Clone)]
pub struct NodeView {
    /// When the daemon started.
    pub uptime: Duration,
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
    /// The commands that have run longest, the longest first.
    pub commands: Vec<RunningView>,
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
    /// Share of memory that is available.
    pub memory_free: f64,
    pub quotas: QuotasView,
    /// Why it is degraded; empty if everything works.
    pub problems: Vec<String>,
}

/// How many services an error names at most. Its data has all of them.
const MOST_NAMED: usize = 20;

/// A quota was reached. Boxed in the error, because it is rare and large.
#[derive(Debug, Clone)]
pub struct QuotaMet {
    pub quota: QuotaName,
    /// The limit in effect.
    pub limit: u64,
    /// What is used.
    pub used: u64,
    /// The agent whose services are counted, for a limit per agent.
    pub agent: Option<String>,
    /// The caller's services on this node, the most idle first; all of them if the host met a limit of the node.
    pub services: Vec<ServiceView>,
    /// The agent's services on other nodes.
    pub elsewhere: Vec<(SessionId, ServiceId)>,
}

impl QuotaMet {
    /// A quota of the node, which no service counts for.
    pub fn new(quota: QuotaName, limit: u64, used: u64) -> Self {
        Self { quota, limit, used, agent: None, services: Vec::new(), elsewhere: Vec::new() }
    }
}

impl fmt::Display for QuotaMet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { quota, limit, used, agent, .. } = self;
        match quota {
            QuotaName::ServicesPerAgent => {
                let whose = whose(agent.as_deref());
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
            QuotaName::ProcessesPerAgent => {
                return write!(
                    f,
                    "{} runs {used} of at most {limit} processes; nothing was run. Try again when a command has \
                     finished, stop a service that you no longer need, or ask the host to raise {quota}",
                    whose(agent.as_deref())
                );
            }
            QuotaName::SessionsPerAgent => {
                return write!(
                    f,
                    "{} has {used} of at most {limit} sessions; nothing was created. Delete one that you no longer need, \
                     or ask the host to raise {quota}",
                    whose(agent.as_deref())
                );
            }
            QuotaName::DiskBytesPerSession
            | QuotaName::FilesPerSession
            | QuotaName::DiskBytesPerAgent
            | QuotaName::FilesPerAgent => {
                let what = if quota.is_bytes() { "bytes of disk" } else { "files" };
                let who = match quota {
                    QuotaName::DiskBytesPerSession | QuotaName::FilesPerSession => "this session".to_owned(),
                    _ => whose(agent.as_deref()),
                };
                return write!(
                    f,
                    "{who} uses {used} of at most {limit} {what}, and this needs more; nothing was done. Delete files and \
                     try again in 10 seconds, or ask the host to prune checkpoints or to raise {quota}"
                );
            }
            other => {
                return write!(f, "{other} is at its limit: {used} of {limit} used; remove something and try again");
            }
        }
        self.write_services(f)
    }
}

impl QuotaMet {
    /// Whether the host met a limit of the whole node: every service there is its own to stop, and the limit to raise.
    fn is_hosts(&self) -> bool {
        self.agent.is_none() && counts_all_services(self.quota)
    }

    /// What to do next. Only the host can raise a limit.
    pub(crate) fn hint(&self) -> Option<Hint> {
        match (self.is_hosts(), self.services.is_empty()) {
            (true, true) => Some(Hint::RaiseQuota),
            (true, false) => Some(Hint::MakeRoom),
            (false, is_empty) => (!is_empty || !self.elsewhere.is_empty()).then_some(Hint::StopService),
        }
    }

    /// Which services the caller can stop.
    fn write_services(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { quota, services, elsewhere, .. } = self;
        let is_hosts = self.is_hosts();
        if let Some(first) = services.first() {
            let mut listed: Vec<String> = services.iter().take(MOST_NAMED).map(named).collect();
            if services.len() > MOST_NAMED {
                listed.push(format!("and {} more", services.len() - MOST_NAMED));
            }
            let (id, name, session) = (&first.service_id, &first.name, &first.session_id);
            write!(
                f,
                "Stop one that you no longer need and try again, for example {id} ({name}) of session {session}. {}, \
                 the most idle first: {}",
                if is_hosts { "All that run" } else { "Yours" },
                listed.join("; ")
            )?;
        }
        if is_hosts {
            return if services.is_empty() { write!(f, "There is no service to stop") } else { Ok(()) };
        }
        let away: Vec<String> = elsewhere.iter().map(|(session, id)| format!("{id} of session {session}")).collect();
        match (services.is_empty(), away.is_empty()) {
            (true, true) => write!(f, "None of them is yours; try again later, or ask the host to raise {quota}"),
            (true, false) => {
                write!(f, "Stop one that you no longer need and try again. Yours, on other nodes: {}", away.join("; "))
            }
            (false, true) => Ok(()),
            (false, false) => write!(f, "; on other nodes: {}", away.join("; ")),
        }
    }
}

/// Whether a quota limits the services of all sessions together.
pub(crate) fn counts_all_services(quota: QuotaName) -> bool {
    matches!(quota, QuotaName::Services | QuotaName::Processes)
}

fn whose(agent: Option<&str>) -> String {
    agent.map_or_else(|| "this agent".to_owned(), |name| format!("agent '{name}'"))
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
