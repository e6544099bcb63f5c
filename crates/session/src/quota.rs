//! Quotas: named limits that the host sets.

use serde::{Deserialize, Serialize};
use std::fmt;

/// What is limited. The names are those of the settings and of the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QuotaName {
    /// Processes of all sessions and services of the node.
    Processes,
    /// Services of the node.
    Services,
    /// Services of one agent.
    ServicesPerAgent,
    /// Live shells of the node.
    LiveShells,
    /// Processes of one session's shell, and of one service.
    SessionProcesses,
    /// Bytes of each stream of a run that can be read back.
    OutputBytesPerRun,
    /// Bytes of output of one session that can be read back; the oldest are dropped first.
    OutputBytesPerSession,
    /// Bytes of a session's files: workspace, outputs, logs.
    DiskBytesPerSession,
    /// Bytes of a service's log; the oldest are dropped first.
    ServiceLogBytes,
    /// Bytes of the values in a session's keyed store. Old values are dropped first.
    KvBytesPerSession,
    /// Processes of all shells, services and programs of one agent.
    ProcessesPerAgent,
    /// Bytes of memory of all processes of one agent.
    MemoryBytesPerAgent,
    /// Sessions that an agent may create. The host may create more for it.
    SessionsPerAgent,
    /// Files and directories of a session.
    FilesPerSession,
    /// Files that one process of a session may have open.
    OpenFiles,
    /// Bytes of the files of all sessions of one agent.
    DiskBytesPerAgent,
    /// Files and directories of all sessions of one agent.
    FilesPerAgent,
}

impl QuotaName {
    /// How many there are.
    pub const COUNT: usize = 17;

    /// All of them, in the order they are shown.
    pub const ALL: [Self; Self::COUNT] = [
        Self::Processes,
        Self::Services,
        Self::ServicesPerAgent,
        Self::LiveShells,
        Self::SessionProcesses,
        Self::OutputBytesPerRun,
        Self::OutputBytesPerSession,
        Self::DiskBytesPerSession,
        Self::ServiceLogBytes,
        Self::KvBytesPerSession,
        Self::ProcessesPerAgent,
        Self::MemoryBytesPerAgent,
        Self::SessionsPerAgent,
        Self::FilesPerSession,
        Self::OpenFiles,
        Self::DiskBytesPerAgent,
        Self::FilesPerAgent,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Processes => "processes",
            Self::Services => "services",
            Self::ServicesPerAgent => "services_per_agent",
            Self::LiveShells => "live_shells",
            Self::SessionProcesses => "session_processes",
            Self::OutputBytesPerRun => "output_bytes_per_run",
            Self::OutputBytesPerSession => "output_bytes_per_session",
            Self::DiskBytesPerSession => "disk_bytes_per_session",
            Self::ServiceLogBytes => "service_log_bytes",
            Self::KvBytesPerSession => "kv_bytes_per_session",
            Self::ProcessesPerAgent => "processes_per_agent",
            Self::MemoryBytesPerAgent => "memory_bytes_per_agent",
            Self::SessionsPerAgent => "sessions_per_agent",
            Self::FilesPerSession => "files_per_session",
            Self::OpenFiles => "open_files",
            Self::DiskBytesPerAgent => "disk_bytes_per_agent",
            Self::FilesPerAgent => "files_per_agent",
        }
    }

    /// The one with this name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|name| name.as_str() == text)
    }

    /// The smallest and the largest valid limit. Without a shell or a process nothing could run.
    pub fn bounds(self) -> (u64, u64) {
        match self {
            Self::Services | Self::ServicesPerAgent => (0, 100_000),
            Self::LiveShells => (1, 100_000),
            Self::Processes | Self::SessionProcesses | Self::ProcessesPerAgent => (1, 4_000_000),
            // A shell alone needs some.
            Self::MemoryBytesPerAgent => (16 << 20, 1 << 50),
            Self::SessionsPerAgent => (0, 100_000_000),
            Self::FilesPerSession | Self::FilesPerAgent => (1, 1_000_000_000),
            // The driver's own are just above 1,000, where no script has one.
            Self::OpenFiles => (1024, 1 << 30),
            Self::OutputBytesPerRun
            | Self::OutputBytesPerSession
            | Self::DiskBytesPerSession
            | Self::DiskBytesPerAgent
            | Self::KvBytesPerSession => (0, 1 << 50),
            Self::ServiceLogBytes => (64 << 10, 1 << 40),
        }
    }

    /// Whether it counts bytes.
    pub fn is_bytes(self) -> bool {
        matches!(
            self,
            Self::OutputBytesPerRun
                | Self::OutputBytesPerSession
                | Self::DiskBytesPerSession
                | Self::DiskBytesPerAgent
                | Self::ServiceLogBytes
                | Self::KvBytesPerSession
                | Self::MemoryBytesPerAgent
        )
    }
}

impl fmt::Display for QuotaName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A limit for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quotas([u64; QuotaName::COUNT]);

impl Quotas {
    /// One limit.
    pub fn get(&self, name: QuotaName) -> u64 {
        self.0[name as usize]
    }

    /// Changes one limit.
    pub fn set(&mut self, name: QuotaName, limit: u64) {
        self.0[name as usize] = limit;
    }
}

impl Default for Quotas {
    fn default() -> Self {
        let mut quotas = Self([0; QuotaName::COUNT]);
        for (name, limit) in [
            (QuotaName::Processes, 1000),
            (QuotaName::Services, 500),
            (QuotaName::ServicesPerAgent, 5),
            (QuotaName::LiveShells, 200),
            (QuotaName::SessionProcesses, 256),
            (QuotaName::OutputBytesPerRun, 128 << 20),
            (QuotaName::OutputBytesPerSession, 1 << 30),
            (QuotaName::DiskBytesPerSession, 10 << 30),
            (QuotaName::ServiceLogBytes, 16 << 20),
            (QuotaName::KvBytesPerSession, 1 << 30),
            (QuotaName::ProcessesPerAgent, 500),
            (QuotaName::MemoryBytesPerAgent, 64 << 30),
            (QuotaName::SessionsPerAgent, 10_000),
            (QuotaName::FilesPerSession, 1_000_000),
            (QuotaName::OpenFiles, 65_536),
            (QuotaName::DiskBytesPerAgent, 100 << 30),
            (QuotaName::FilesPerAgent, 10_000_000),
        ] {
            quotas.set(name, limit);
        }
        quotas
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_quota_has_a_name_a_place_and_a_default_within_its_bounds() {
        let defaults = Quotas::default();
        for (place, name) in QuotaName::ALL.into_iter().enumerate() {
            assert_eq!(name as usize, place);
            assert_eq!(QuotaName::parse(name.as_str()), Some(name));
            assert_eq!(serde_json::to_value(name).unwrap(), name.as_str());
            let (least, most) = name.bounds();
            assert!((least..=most).contains(&defaults.get(name)), "{name}");
        }
    }
}
