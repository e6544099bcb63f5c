//! What a caller reads when a limit of processes, memory, disk or masking was reached.

use super::{enumerate, notice};
use shellkeep_redact::MOST_FOUND;
use shellkeep_session::{Notice, NoticeCode, QuotaName};

/// The process limits that hold for a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessLimits {
    /// For one session.
    pub session: u64,
    /// For its agent, if it has one.
    pub agent: Option<u64>,
    /// For the whole node.
    pub node: u64,
}

/// A quota that a session is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OverDisk {
    pub quota: QuotaName,
    pub limit: u64,
    /// What its commands wrote.
    pub own: u64,
    /// What is kept of it.
    pub kept: u64,
}

impl OverDisk {
    /// Why what works in such a session was ended.
    pub fn why_ended(self) -> String {
        wrote_on(self.quota, self.limit, self.own + self.kept)
    }
}

/// The command reached the process limit.
pub fn too_many_processes(ProcessLimits { session, agent, node }: ProcessLimits) -> Notice {
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

/// A process of the command had as many files open as it may.
pub fn too_many_open_files(limit: u64) -> Notice {
    notice(
        NoticeCode::OpenFilesLimit,
        format!(
            "The limit of open files may be why this failed: a process may have {limit} open (open_files), or fewer if \
             `ulimit -S -n` is lower. Raise it with `ulimit -S -n NUMBER`, or open fewer files at a time."
        ),
    )
}

/// The session is over its disk quota: what its commands wrote, and what is kept of it, are more than the limit together.
pub fn over_disk(OverDisk { quota, limit, own, kept }: OverDisk) -> Notice {
    let [used, own_part, kept_part, most] = [own + kept, own, kept, limit].map(|amount| shown(quota, amount));
    let what = if quota.is_bytes() { "of disk space" } else { "files" };
    let (who, its) = match quota {
        QuotaName::DiskBytesPerAgent | QuotaName::FilesPerAgent => ("All sessions of this agent together use", "their"),
        _ => ("This session uses", "its"),
    };
    let advice = if own > kept || own > limit {
        "Delete what you do not need (`du -sh *` shows where it is)."
    } else {
        "Deleting files alone does not help: most is kept by the daemon. Ask its operator to prune checkpoints or to \
         raise the limit."
    };
    notice(
        NoticeCode::DiskQuota,
        format!(
            "{who} {used} {what}; {its} limit is {most} ({quota}). {own_part} of it in {its} own directories, \
             {kept_part} for checkpoints, outputs and logs. Commands, background jobs and services that write more are ended, \
             and no service can be started. {advice}"
        ),
    )
}

/// Why what works in a session that is over its disk quota was ended.
fn wrote_on(quota: QuotaName, limit: u64, used: u64) -> String {
    let [used, most] = [used, limit].map(|amount| shown(quota, amount));
    let what = if quota.is_bytes() { "of disk space" } else { "files" };
    let (who, its) = match quota {
        QuotaName::DiskBytesPerAgent | QuotaName::FilesPerAgent => ("the sessions of its agent use", "their"),
        _ => ("its session uses", "its"),
    };
    format!(
        "{who} {used} {what}, {its} limit is {most} ({quota}), and more was being written; delete what is not needed before \
         you start it again"
    )
}

/// An amount of what a quota limits.
fn shown(quota: QuotaName, amount: u64) -> String {
    if quota.is_bytes() { format!("{} MiB", amount >> 20) } else { amount.to_string() }
}

/// The output may hold more secrets than can be masked.
pub fn output_withheld() -> Notice {
    notice(
        NoticeCode::OutputDropped,
        format!(
            "The output is withheld: variables whose names look secret hold more than {} KiB together, which is too much \
             to mask. Continue in a new session, and put large data into files.",
            MOST_FOUND >> 10
        ),
    )
}

/// What has so many copies of a secret that a new shell was not given them. None if nothing has.
pub fn secrets_not_filled(names: &[String], most: usize) -> Option<Notice> {
    let told = || {
        notice(
            NoticeCode::RestoreIncomplete,
            format!(
                "The session's variables and functions hold more than {} MiB of copies of secrets. In these, the name of the \
                 secret stands in place of each copy, as in ⟨secret:NAME⟩: {}. Unset them, and use the secret's own \
                 variable.",
                most >> 20,
                enumerate(names)
            ),
        )
    };
    (!names.is_empty()).then(told)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An agent was told to delete its files where nearly all of them were our checkpoints.
    #[test]
    fn the_advice_is_for_what_uses_most() {
        let files_over = OverDisk { quota: QuotaName::FilesPerSession, limit: 500, own: 490, kept: 20 };
        let told = |own, kept| over_disk(OverDisk { own, kept, ..files_over }).message;
        let files = told(490, 20);
        assert!(files.contains("uses 510 files; its limit is 500 (files_per_session)"), "{files}");
        assert!(files.contains("490 of it in its own directories, 20 for checkpoints"), "{files}");
        assert!(files.contains("Delete what you do not need"), "{files}");
        let checkpoints = told(3, 498);
        assert!(checkpoints.contains("prune checkpoints") && !checkpoints.contains("du -sh"), "{checkpoints}");
        let bytes_over = OverDisk { quota: QuotaName::DiskBytesPerSession, limit: 10 << 20, own: 12 << 20, kept: 0 };
        let bytes = over_disk(bytes_over).message;
        assert!(bytes.contains("uses 12 MiB of disk space; its limit is 10 MiB"), "{bytes}");
        let of_agent = over_disk(OverDisk { quota: QuotaName::FilesPerAgent, ..files_over }).message;
        assert!(of_agent.contains("sessions of this agent together use 510 files; their limit is 500"), "{of_agent}");
    }

    #[test]
    fn what_was_ended_says_which_limit_and_what_to_do() {
        let why = wrote_on(QuotaName::DiskBytesPerSession, 20 << 20, 401 << 20);
        assert!(
            why.starts_with("its session uses 401 MiB of disk space, its limit is 20 MiB (disk_bytes_per_session)")
        );
        let why = wrote_on(QuotaName::FilesPerAgent, 500, 510);
        assert!(
            why.starts_with("the sessions of its agent use 510 files, their limit is 500 (files_per_agent)"),
            "{why}"
        );
        assert!(why.ends_with("delete what is not needed before you start it again"), "{why}");
    }
}
