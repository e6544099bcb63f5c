//! What a caller reads when a limit of processes, memory or disk was reached.

use super::notice;
use shellkeep_session::{Notice, NoticeCode, QuotaName};

/// The command reached the process limit.
pub fn too_many_processes(session: u64, agent: Option<u64>, node: u64) -> Notice {
    let agent = agent.map(|limit| format!("{limit} per agent, ")).unwrap_or_default();
    notice(
        NoticeCode::ProcessLimit,
        format!(
            "The command reached the process limit ({session} per session, {agent}{node} per node), and what it left \
             running was killed. Run fewer processes in parallel; if this session ran few, retry later."
        ),
    )
}

/// Processes of the agent were killed because they used too much memory.
pub fn out_of_memory(limit: u64) -> Notice {
    notice(
        NoticeCode::MemoryLimit,
        format!(
            "Processes were killed because this agent's sessions used more than {} MiB of memory together \
             (memory_bytes_per_agent). Process less at a time, or stop services that you do not need.",
            limit >> 20
        ),
    )
}

/// The session is over its disk quota.
pub fn over_disk(quota: QuotaName, limit: u64, used: u64) -> Notice {
    let amounts = if quota.is_bytes() {
        format!("{} MiB of disk space; its limit is {} MiB", used >> 20, limit >> 20)
    } else {
        format!("{used} files; its limit is {limit}")
    };
    notice(
        NoticeCode::DiskQuota,
        format!(
            "This session uses {amounts} ({quota}). Commands that write more are killed, and no service can be started. \
             Delete what you do not need (`du -sh *` shows where it is)."
        ),
    )
}
