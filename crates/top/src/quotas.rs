//! Quotas in the order and the units in which they are shown.

use shellkeep_protocol::Quota;
use shellkeep_session::QuotaName;
use shellkeep_terminal::words;
use std::collections::BTreeMap;

/// The quotas in the order they are shown; those of a newer daemon come last.
pub fn sorted(quotas: &BTreeMap<String, Quota>) -> Vec<(&str, &Quota)> {
    let place = |name: &str| QuotaName::parse(name).map_or(QuotaName::COUNT, |name| name as usize);
    let mut sorted: Vec<(&str, &Quota)> = quotas.iter().map(|(name, quota)| (name.as_str(), quota)).collect();
    sorted.sort_by_key(|(name, _)| place(name));
    sorted
}

/// A number of what a quota counts, in its unit.
pub fn amount(name: &str, number: u64) -> String {
    if QuotaName::parse(name).is_some_and(QuotaName::is_bytes) { words::bytes(number) } else { words::count(number) }
}

/// What it would be without pressure.
pub fn full(quota: &Quota) -> u64 {
    quota.set.unwrap_or(quota.configured)
}

/// A quota's name as it is read, short enough for two in a line.
pub fn label(name: &str) -> String {
    match QuotaName::parse(name) {
        Some(QuotaName::ServicesPerAgent) => "services/agent".to_owned(),
        Some(QuotaName::SessionProcesses) => "procs/session".to_owned(),
        Some(QuotaName::OutputBytesPerRun) => "output/run".to_owned(),
        Some(QuotaName::OutputBytesPerSession) => "output/session".to_owned(),
        Some(QuotaName::DiskBytesPerSession) => "disk/session".to_owned(),
        Some(QuotaName::ServiceLogBytes) => "log/service".to_owned(),
        Some(QuotaName::KvBytesPerSession) => "kv/session".to_owned(),
        Some(QuotaName::ProcessesPerAgent) => "procs/agent".to_owned(),
        Some(QuotaName::MemoryBytesPerAgent) => "memory/agent".to_owned(),
        Some(QuotaName::SessionsPerAgent) => "sessions/agent".to_owned(),
        Some(QuotaName::FilesPerSession) => "files/session".to_owned(),
        Some(QuotaName::OpenFiles) => "open files/proc".to_owned(),
        Some(QuotaName::DiskBytesPerAgent) => "disk/agent".to_owned(),
        Some(QuotaName::FilesPerAgent) => "files/agent".to_owned(),
        _ => words::clean(name).replace('_', " "),
    }
}
