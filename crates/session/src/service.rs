//! A service: a command that keeps running next to the session's shell until it is stopped.

use crate::{ByteString, ServiceId, Timestamp};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// Ended services that a session remembers; older ones are forgotten with their logs.
pub const ENDED_KEPT: usize = 20;
/// The first delay before a restart; it doubles with every attempt.
pub const FIRST_BACKOFF: Duration = Duration::from_secs(1);
/// The longest delay before a restart.
pub const LONGEST_BACKOFF: Duration = Duration::from_secs(60);
/// After this long without a failure, the count of failures starts over.
pub const WELL_AFTER: Duration = Duration::from_secs(60);
/// Failed starts in a row after which it is not restarted.
pub const MAX_ATTEMPTS: u32 = 10;

/// The share of one processor below which a service counts as idle.
pub const IDLE_CPU: f64 = 0.01;
/// Clock ticks in a second, as `/proc` counts them.
const TICKS_PER_SECOND: f64 = 100.0;

/// The status of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServiceStatus {
    /// It is not ready yet, or waits to be restarted.
    Starting,
    /// It is running, and its readiness condition, if any, is met.
    Running,
    /// It exited on its own; see the exit code.
    Exited,
    /// It was stopped, or was idle for too long.
    Stopped,
    /// It could not be started, exited before it was ready, or was lost.
    Failed,
}

impl ServiceStatus {
    /// Whether it has a process, or will soon have one.
    pub fn is_live(self) -> bool {
        matches!(self, Self::Starting | Self::Running)
    }
}

/// When a service is ready.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ready {
    /// When one of its processes listens on this TCP port.
    Port(u16),
    /// When a line of its log matches this regular expression.
    Log(String),
    /// When this URL on this machine answers with a status below 400.
    Http(String),
}

/// What to do when a service exits on its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RestartPolicy {
    /// It stays stopped.
    #[default]
    Never,
    /// It restarts unless its exit code was 0.
    OnFailure,
    /// It restarts.
    Always,
}

/// A process as it is stored; a pid alone may be reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    pub pid: u32,
    /// Start time in clock ticks since boot.
    pub started_ticks: u64,
}

/// The processes by which a service is found again after the daemon died.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceStamps {
    /// The one that writes its log and learns its exit code.
    pub keeper: Stamp,
    /// Its own first process.
    pub main: Stamp,
    /// Which boot.
    pub boot_id: String,
}

/// How a service ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceEnd {
    /// Exit code as bash reports it, 128+n for a signal; none if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The signal that ended it, without `SIG`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
    pub at: Timestamp,
    pub reason: String,
}

impl ServiceEnd {
    /// Whether it exited with code 0.
    pub fn is_success(&self) -> bool {
        self.exit_code == Some(0)
    }
}

/// The definition of a service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceSpec {
    pub name: String,
    pub command: ByteString,
    /// Its working directory.
    pub cwd: ByteString,
    /// Exported variables in addition to the session's.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// The readiness condition; ready at once if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<Ready>,
    /// What to do when it exits on its own.
    #[serde(default)]
    pub restart: RestartPolicy,
    /// The id of the agent's token that requested it; none for the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// A service of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Service {
    /// Its definition.
    pub spec: ServiceSpec,
    pub status: ServiceStatus,
    /// When it was first started.
    pub started_at: Timestamp,
    /// Its processes, while it has some.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stamps: Option<ServiceStamps>,
    /// How often it was restarted.
    #[serde(default)]
    pub restarts: u32,
    /// How it ended: for good, or the last time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<ServiceEnd>,
}

/// A measurement of a running service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sample {
    /// Bytes written to its log.
    pub log_end: u64,
    /// Processor time of the processes that live, in clock ticks.
    pub cpu_ticks: u64,
    /// How many live.
    pub processes: usize,
    /// Connections to the ports it listens on.
    pub connections: usize,
}

impl Sample {
    /// Whether the service was active between two measurements. A little processor time does not count: idle servers
    /// have timers.
    pub fn shows_activity_since(&self, before: &Self, elapsed: Duration) -> bool {
        let ticks = self.cpu_ticks.saturating_sub(before.cpu_ticks);
        let computed = ticks as f64 > elapsed.as_secs_f64() * TICKS_PER_SECOND * IDLE_CPU;
        self.connections > 0 || self.log_end != before.log_end || self.processes != before.processes || computed
    }
}

/// What to do about a service that exited on its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterEnd {
    /// Nothing; it has this status from now on.
    Stay(ServiceStatus),
    /// Restart it after a delay.
    Restart(Duration),
}

/// Decides what follows when a service has exited on its own. `attempts` are the failed starts in a row.
pub fn after_end(policy: RestartPolicy, end: &ServiceEnd, was_ready: bool, attempts: u32) -> AfterEnd {
    let wanted = match policy {
        RestartPolicy::Never => false,
        RestartPolicy::OnFailure => !end.is_success(),
        RestartPolicy::Always => true,
    };
    if wanted && attempts < MAX_ATTEMPTS {
        return AfterEnd::Restart(backoff(attempts));
    }
    let known = end.exit_code.is_some() && was_ready && !wanted;
    AfterEnd::Stay(if known { ServiceStatus::Exited } else { ServiceStatus::Failed })
}

fn backoff(attempts: u32) -> Duration {
    FIRST_BACKOFF.saturating_mul(1 << attempts.min(16)).min(LONGEST_BACKOFF)
}

/// Forgets ended services beyond the limit, oldest first. Returns their ids.
pub fn forget_old(services: &mut BTreeMap<ServiceId, Service>) -> Vec<ServiceId> {
    let mut ended: Vec<(Timestamp, ServiceId)> = services
        .iter()
        .filter(|(_, service)| !service.status.is_live())
        .map(|(id, service)| (service.end.as_ref().map_or(service.started_at, |end| end.at), id.clone()))
        .collect();
    ended.sort();
    ended.truncate(ended.len().saturating_sub(ENDED_KEPT));
    let forgotten: Vec<ServiceId> = ended.into_iter().map(|(_, id)| id).collect();
    for id in &forgotten {
        services.remove(id);
    }
    forgotten
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(exit_code: Option<i32>) -> ServiceEnd {
        ServiceEnd { exit_code, signal: None, at: Timestamp::UNIX_EPOCH, reason: String::new() }
    }

    #[test]
    fn a_policy_decides_and_a_loop_ends() {
        use RestartPolicy::{Always, Never, OnFailure};
        assert_eq!(after_end(Never, &end(Some(3)), true, 0), AfterEnd::Stay(ServiceStatus::Exited));
        assert_eq!(after_end(Never, &end(Some(3)), false, 0), AfterEnd::Stay(ServiceStatus::Failed));
        assert_eq!(after_end(Never, &end(None), true, 0), AfterEnd::Stay(ServiceStatus::Failed));
        assert_eq!(after_end(OnFailure, &end(Some(0)), true, 0), AfterEnd::Stay(ServiceStatus::Exited));
        assert_eq!(after_end(OnFailure, &end(Some(1)), true, 0), AfterEnd::Restart(FIRST_BACKOFF));
        assert_eq!(after_end(Always, &end(Some(0)), true, 3), AfterEnd::Restart(FIRST_BACKOFF * 8));
        assert_eq!(after_end(Always, &end(Some(0)), true, 9), AfterEnd::Restart(LONGEST_BACKOFF));
        assert_eq!(after_end(Always, &end(Some(0)), true, MAX_ATTEMPTS), AfterEnd::Stay(ServiceStatus::Failed));
    }

    #[test]
    fn timers_are_not_activity_but_work_is() {
        let minute = Duration::from_secs(60);
        let before = Sample { log_end: 10, cpu_ticks: 100, processes: 2, connections: 0 };
        assert!(!Sample { cpu_ticks: 150, ..before }.shows_activity_since(&before, minute));
        assert!(Sample { cpu_ticks: 200, ..before }.shows_activity_since(&before, minute));
        assert!(Sample { log_end: 11, ..before }.shows_activity_since(&before, minute));
        assert!(Sample { connections: 1, ..before }.shows_activity_since(&before, minute));
        assert!(Sample { processes: 3, ..before }.shows_activity_since(&before, minute));
    }

    #[test]
    fn only_old_and_ended_services_are_forgotten() {
        let service = |status, at: i64| Service {
            spec: ServiceSpec {
                name: String::new(),
                command: "x".into(),
                cwd: "/".into(),
                env: BTreeMap::new(),
                ready: None,
                restart: RestartPolicy::Never,
                by: None,
            },
            status,
            started_at: Timestamp::from_second(at).unwrap(),
            stamps: None,
            restarts: 0,
            end: None,
        };
        let mut services = BTreeMap::new();
        services.insert(ServiceId::from_seq(1), service(ServiceStatus::Running, 0));
        for at in 2..=(ENDED_KEPT as u64 + 3) {
            services.insert(ServiceId::from_seq(at), service(ServiceStatus::Exited, at as i64));
        }
        assert_eq!(forget_old(&mut services), [ServiceId::from_seq(2), ServiceId::from_seq(3)]);
        assert_eq!(services.len(), ENDED_KEPT + 1);
    }
}
