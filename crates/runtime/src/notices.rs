//! The sentences a model reads when something did not come along. One place, so that they sound alike.

use shellkeep_process::proc;
use shellkeep_process::shell::INTERRUPT;
use shellkeep_process::{ExitStatus, Fact, LiveShell, Report};
use shellkeep_session::plan::shorten;
use shellkeep_session::{
    ByteString, LeftOut, LeftProcess, Notice, NoticeCode, ServiceEnd, ServiceId, ServiceSpec, SessionId,
};
use std::time::Duration;

/// Most things a sentence names one by one.
const NAMED: usize = 5;

fn notice(code: NoticeCode, message: String) -> Notice {
    Notice { code, message }
}

fn enumerate(items: Vec<String>) -> String {
    let more = items.len().saturating_sub(NAMED);
    let mut text = items.into_iter().take(NAMED).collect::<Vec<_>>().join(", ");
    if more > 0 {
        text.push_str(&format!(" and {more} more"));
    }
    text
}

/// The processes that a shell has started and that are alive.
pub fn processes(shell: &LiveShell) -> Vec<String> {
    let named = |pid: u32| format!("{pid} `{}`", shorten(&proc::command_line(pid)));
    shell.others().iter().map(|stat| named(stat.pid)).collect()
}

fn descriptors(shell: &LiveShell) -> Vec<String> {
    shell.open_descriptors().into_iter().map(|(number, target)| format!("{number} ({target})")).collect()
}

/// A process that is left running, as it is written down.
pub fn left_process(stat: &proc::Stat, boot_id: &str) -> LeftProcess {
    LeftProcess {
        pid: stat.pid,
        started_ticks: stat.started_ticks,
        boot_id: boot_id.to_owned(),
        command: shorten(&proc::command_line(stat.pid)),
    }
}

/// What is lost when a living shell is given up, if anything is.
pub fn given_up(shell: &LiveShell, why: &str) -> Vec<Notice> {
    let mut lost = Vec::new();
    let (processes, descriptors) = (processes(shell), descriptors(shell));
    if !processes.is_empty() {
        lost.push(format!("background jobs were ended and are lost: {}", enumerate(processes)));
    }
    if !descriptors.is_empty() {
        lost.push(format!("open descriptors were closed and are lost: {}", enumerate(descriptors)));
    }
    if lost.is_empty() {
        return Vec::new();
    }
    vec![notice(
        NoticeCode::ShellReplaced,
        format!(
            "This is a new shell ({why}). Working directory, variables, functions, aliases, options and traps were \
             restored; {}. Use a service for what must keep running.",
            lost.join("; ")
        ),
    )]
}

/// A command ended its shell, and the driver could not report what it had changed.
pub fn changes_lost(exit: ExitStatus) -> Notice {
    let how = match exit {
        // Only what is no longer bash dies of our own signal.
        ExitStatus::Exited(_) | ExitStatus::Signalled(INTERRUPT) => "was replaced by `exec`".to_owned(),
        ExitStatus::Signalled(signal) => format!("was ended by signal {signal}"),
    };
    notice(
        NoticeCode::ChangesLost,
        format!(
            "This command's shell {how}, so changes that this command made to variables, functions or the working \
             directory are lost. The session goes on in a new shell with its state from before this command."
        ),
    )
}

/// A command ended its shell and left processes running.
pub fn left_running(processes: Vec<String>) -> Notice {
    notice(
        NoticeCode::ShellReplaced,
        format!(
            "The shell ended with this command and the session goes on in a new one. These background processes \
             keep running but are no longer jobs of the shell: {}.",
            enumerate(processes)
        ),
    )
}

/// What a command did that cannot outlast it.
pub fn not_kept(report: &Report) -> Vec<Notice> {
    let mut notices = Vec::new();
    if !report.redirected.is_empty() {
        notices.push(notice(
            NoticeCode::NotKept,
            format!(
                "`exec` redirected {} for this command only; the next command has its own again.",
                report.redirected.join(" and ")
            ),
        ));
    }
    if report.noexec {
        notices.push(notice(
            NoticeCode::NotKept,
            "`set -n` was in force for this command only; the next command runs again.".to_owned(),
        ));
    }
    notices
}

/// What could not be put into a new shell.
pub fn not_restored<'a>(problems: impl Iterator<Item = &'a (String, String)>) -> Vec<Notice> {
    let told = |(what, why): &(String, String)| {
        notice(NoticeCode::RestoreIncomplete, format!("`{what}` could not be restored in the new shell: {why}."))
    };
    problems.map(told).collect()
}

/// A command ran in the directory that it brought along, because the session's own is gone.
pub fn cwd_missing(cwd: &str, why: &str) -> Notice {
    notice(
        NoticeCode::CwdMissing,
        format!(
            "The session's working directory {cwd} cannot be entered ({why}). This command ran in the directory that was \
             given with it; one without is refused until {cwd} is back, or until a command that is given a directory \
             moves the session with `cd`."
        ),
    )
}

/// A shell that ended by itself while nothing ran in it.
pub fn died_idle(exit: ExitStatus) -> Notice {
    let how = match exit {
        ExitStatus::Signalled(signal) => format!("it was ended by signal {signal}"),
        ExitStatus::Exited(code) => format!("it ended with status {code}"),
    };
    notice(
        NoticeCode::ShellReplaced,
        format!(
            "This is a new shell: the last one ended between two commands ({how}). Working directory, variables, \
             functions, aliases, options and traps were restored; background jobs are no longer jobs of the shell."
        ),
    )
}

/// The timeout was reached and the command ended.
pub fn timed_out(timeout: Duration, state_kept: bool) -> Notice {
    let kept =
        if state_kept { "Its output so far and what it changed are kept." } else { "Its output so far is kept." };
    notice(
        NoticeCode::TimedOut,
        format!(
            "The command was ended after its timeout of {} s. {kept} Give a longer timeout, or let it move to \
             the background on timeout.",
            timeout.as_secs_f64()
        ),
    )
}

/// The command met the limit of processes.
pub fn too_many_processes(session: u64, node: u64) -> Notice {
    notice(
        NoticeCode::ProcessLimit,
        format!(
            "The command could not start some processes, and what it left running was ended: one session may have {session}, \
             and all sessions of the node together {node}. Start fewer at a time; if it ran only a few, others use the rest: \
             try again later."
        ),
    )
}

/// The host restarted, ended or deleted the session.
pub fn killed_with_session() -> Notice {
    notice(
        NoticeCode::ChangesLost,
        "The host restarted or removed the session while this command ran; the command was ended with its shell."
            .to_owned(),
    )
}

/// Variables that are too large to outlive the shell.
pub fn too_large(facts: &[Fact]) -> Vec<Notice> {
    let name = |fact: &Fact| match fact {
        Fact::TooLarge { name } => Some(String::from_utf8_lossy(name).into_owned()),
        _ => None,
    };
    let names: Vec<String> = facts.iter().filter_map(name).collect();
    if names.is_empty() {
        return Vec::new();
    }
    vec![notice(
        NoticeCode::NotKept,
        format!(
            "These variables are too large to be kept and last only as long as this shell: {}. Put large data into a file.",
            enumerate(names)
        ),
    )]
}

/// The session's state has no room for all that a command set.
pub fn state_full(names: Vec<String>, most: usize) -> Notice {
    notice(
        NoticeCode::NotKept,
        format!(
            "A session keeps at most {} MiB of variables and functions in total. These did not fit and last only as long as \
             this shell: {}. Unset what is not needed, or put large data into a file.",
            most >> 20,
            enumerate(names)
        ),
    )
}

/// The timeout was reached and the command runs on.
pub fn backgrounded(run_id: &str, timeout: Duration) -> Notice {
    notice(
        NoticeCode::Backgrounded,
        format!(
            "After {} s the command was moved to the background, where it runs on as {run_id}; read its output and result \
             under that id. The session goes on in a new shell with its state from before this command; what the \
             command changes in its own shell does not come back.",
            timeout.as_secs_f64()
        ),
    )
}

/// The timeout was reached and the command could not run on.
pub fn no_room_in_background() -> Notice {
    notice(
        NoticeCode::Backgrounded,
        "The command was to run on in the background, where it counts as a service, but this agent or the node already runs \
         as many as it may; so it was ended. Stop one, or give a longer timeout."
            .to_owned(),
    )
}

/// The store refused.
pub fn store_failed(reason: &str) -> Notice {
    notice(
        NoticeCode::StoreFailed,
        format!(
            "The command ran, but its result is not stored yet: {reason}. Until it is, a crash of the daemon would lose it."
        ),
    )
}

/// The disk failed under what was written.
pub fn not_on_disk(reason: &str) -> Notice {
    notice(
        NoticeCode::StoreFailed,
        format!(
            "What was recorded is not on disk yet: {reason}. It is being written again; until that succeeds, a loss of \
             power would lose it."
        ),
    )
}

/// The recording cannot be written.
pub fn record_failed(reason: &str) -> Notice {
    notice(
        NoticeCode::RecordFailed,
        format!(
            "The command ran and its result is kept, but the session's recording cannot be written at the moment: {reason}. \
             It is tried again; if it stays so for long, the recording will say where it has a hole."
        ),
    )
}

/// A service ended without having been asked to.
pub fn service_ended(service_id: &ServiceId, spec: &ServiceSpec, end: &ServiceEnd) -> Notice {
    notice(
        NoticeCode::ServiceEnded,
        format!(
            "Service {service_id} ({}) has ended: {}. Its log can still be read under that id; start it again \
             if you need it.",
            spec.name, end.reason
        ),
    )
}

/// A service belongs to another data directory.
pub fn service_left_alone(service_id: &ServiceId, spec: &ServiceSpec, end: &ServiceEnd) -> Notice {
    notice(
        NoticeCode::ServiceEnded,
        format!(
            "Service {service_id} ({}) does not run here: {}. Start it again if you need it here too.",
            spec.name, end.reason
        ),
    )
}

/// The data directory is gone.
pub fn data_gone(problem: &str) -> Notice {
    notice(NoticeCode::StoreFailed, format!("This answer may be lost: {problem}."))
}

/// The session takes more of the disk than it may.
pub fn over_disk(limit: u64, used: u64) -> Notice {
    let mib = |bytes: u64| bytes >> 20;
    notice(
        NoticeCode::DiskQuota,
        format!(
            "This session's files take {} MiB and may take {} MiB. Commands that write more are ended, and no service can be \
             started; remove what is not needed (`du -sh *` shows where it is).",
            mib(used),
            mib(limit)
        ),
    )
}

/// Some files are not in the last checkpoint.
pub fn files_left_out(first: &[LeftOut], total: u64) -> Notice {
    const NAMED: usize = 3;
    let named: Vec<String> =
        first.iter().take(NAMED).map(|left| format!("{} ({})", left.path.to_text(), left.reason)).collect();
    let others = total.saturating_sub(named.len() as u64);
    let others = if others == 0 { String::new() } else { format!(" and {others} more") };
    notice(
        NoticeCode::CheckpointIncomplete,
        format!(
            "The checkpoint of the files leaves out {}{others}. A rewind does not bring these back and does not touch them.",
            named.join(", ")
        ),
    )
}

/// Some rules of what to ignore are not applied.
pub fn rules_not_read<R>(first: &[(Vec<u8>, R)], total: u64) -> Notice {
    const NAMED: usize = 3;
    let named: Vec<_> = first.iter().take(NAMED).map(|(path, _)| String::from_utf8_lossy(path)).collect();
    let more = if total > named.len() as u64 { ", …" } else { "" };
    notice(
        NoticeCode::CheckpointIncomplete,
        format!(
            "{total} file(s) with ignore rules were not read, because this workspace has too many rules or the file is too \
             large: {}{more}. What they would ignore is kept in checkpoints and brought back by a rewind. Remove rules that \
             are not needed.",
            named.join(", ")
        ),
    )
}

/// The files could not be kept.
pub fn files_not_kept(reason: &str) -> Notice {
    notice(
        NoticeCode::CheckpointIncomplete,
        format!(
            "The last command's changes of files are not in a checkpoint: {reason}. It is tried again after the next command; \
             until then a rewind cannot bring them back."
        ),
    )
}

/// The session was taken back.
pub fn rewound(to: u64, has_files: bool, kept_back: usize, uncertain: u64, secrets: usize) -> Notice {
    let files = match (has_files, uncertain) {
        (true, 0) => "files, ",
        (true, _) => "files (but for those named below), ",
        (false, _) => "",
    };
    let mut message = format!(
        "This session was taken back to what it was at #{to}: {files}working directory, variables, functions and options \
         are as they were then, in a new shell. What happened since is still in the timeline and can be rewound to."
    );
    if !has_files {
        message.push_str(" No file was touched: none in its workspace was ever kept, and those elsewhere never are.");
    }
    if kept_back > 0 {
        message.push_str(&format!(" {kept_back} path(s) were left as they are; the answer to the rewind names them."));
    }
    if secrets > 0 {
        message.push_str(&format!(" {secrets} secret variable(s) keep their present value: the recording masks them."));
    }
    notice(NoticeCode::Rewound, message)
}

/// Files that may not be as they were at the moment that was gone back to.
pub fn files_uncertain(first: &[LeftOut], total: u64) -> Option<Notice> {
    const NAMED: usize = 5;
    let names: Vec<_> = first.iter().take(NAMED).map(|left| left.path.to_text().into_owned()).collect();
    let more = if total > names.len() as u64 { ", …" } else { "" };
    let names = names.join(", ");
    (total > 0).then(|| {
        notice(
            NoticeCode::FilesUncertain,
            format!(
                "{total} path(s) may not be as they were at that moment: {names}{more}. No checkpoint of exactly that \
                 moment could be made. Look at them before you rely on them."
            ),
        )
    })
}

/// A path that changed after the command ended and before its checkpoint could be made.
pub fn changed_later(path: Vec<u8>) -> LeftOut {
    let reason = "it changed after the command had ended and before its files could be kept, while no daemon ran";
    LeftOut { path: ByteString(path), reason: reason.to_owned() }
}

/// The agent's state of then is gone.
pub fn agent_state_gone(version: u64) -> Notice {
    notice(
        NoticeCode::Rewound,
        format!(
            "Version {version} of the agent's state is missing: its file was removed to make room, or is damaged. The \
             present state stays; save another one if it does not fit."
        ),
    )
}

/// The session began as a copy of another.
pub fn forked(from: &SessionId, at: u64, services: &[String]) -> Notice {
    let services = match services {
        [] => String::new(),
        names => format!(" Its services do not run here ({}); start those that are needed.", names.join(", ")),
    };
    notice(
        NoticeCode::ShellReplaced,
        format!(
            "This session began as a copy of '{from}' at #{at}, with its own files in another directory.{services}"
        ),
    )
}

/// A fork works in the directory of the session that it came from.
pub fn files_shared(from: &SessionId, cwd: &str) -> Notice {
    notice(
        NoticeCode::FilesShared,
        format!(
            "This session works in {cwd}, as '{from}' does: what one changes there, the other sees, and it is neither kept in \
             checkpoints nor merged back. Only the workspace was copied."
        ),
    )
}

/// A fork works where nothing is known of its files.
pub fn not_compared(fork: &SessionId, cwd: &str, workspace: &str) -> Notice {
    notice(
        NoticeCode::FilesShared,
        format!(
            "Only files in the fork's workspace {workspace} are compared. '{fork}' works in {cwd}, outside of it; what it \
             changed there is not known and was not brought back."
        ),
    )
}

/// What of a session's files its copy does not have.
pub fn not_copied(left_out: &[(Vec<u8>, String)], total: u64) -> Notice {
    const NAMED: usize = 5;
    let name = |(path, reason): &(Vec<u8>, String)| format!("{} ({reason})", String::from_utf8_lossy(path));
    let named: Vec<String> = left_out.iter().take(NAMED).map(name).collect();
    let more = if total > named.len() as u64 { ", …" } else { "" };
    notice(
        NoticeCode::CheckpointIncomplete,
        format!("{total} path(s) are not in this copy, or not as they were: {}{more}", named.join(", ")),
    )
}

/// A length of time as a person says it.
pub fn span(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7200 => format!("{} min", seconds / 60),
        seconds => format!("{} h", seconds / 3600),
    }
}

/// More output than may be kept.
pub fn output_dropped(stream: &str, dropped: u64) -> Notice {
    notice(
        NoticeCode::OutputDropped,
        format!(
            "{dropped} bytes in the middle of {stream} were dropped: they exceed what is kept of one run, or the disk is full."
        ),
    )
}
