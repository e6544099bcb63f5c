//! The sentences that a caller reads when something was lost or limited. All in one place, so that they read alike.

mod agent_state;
mod directory;
mod limits;
mod rewind;

pub use agent_state::{agent_state_gone, agent_state_not_copied};
pub use directory::{cwd_missing, not_moved};
pub use limits::{
    OverDisk, ProcessLimits, out_of_memory, output_withheld, over_disk, secrets_not_filled, too_many_open_files,
    too_many_processes,
};
pub use rewind::{RewoundTo, files_uncertain, rewound};

use rustix::process::Signal;
use shellkeep_process::proc;
use shellkeep_process::shell::INTERRUPT;
use shellkeep_process::{ExitStatus, LiveShell, NotRestored, Report};
use shellkeep_session::plan::{first_line, shorten};
use shellkeep_session::{
    ByteString, LeftOut, LeftProcess, Notice, NoticeCode, ServiceEnd, ServiceId, ServiceSpec, SessionId, Unkept,
};
use std::time::Duration;

/// Signals that ask to end. One that ends the shell may have been for a program in its place.
const HANDLED: [Signal; 3] = [Signal::HUP, Signal::INT, Signal::TERM];
/// Most items that a sentence lists.
const NAMED: usize = 5;
/// Most characters of what a descriptor leads to.
const NAMED_CHARS: usize = 200;

fn notice(code: NoticeCode, message: String) -> Notice {
    Notice { code, message }
}

/// The first items by name, and how many more there are.
fn list<T>(first: &[T], total: u64, name: impl Fn(&T) -> String) -> String {
    let named: Vec<String> = first.iter().take(NAMED).map(name).collect();
    match total.saturating_sub(named.len() as u64) {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}

fn enumerate(items: &[String]) -> String {
    list(items, items.len() as u64, String::clone)
}

/// The processes that a shell has started and that are alive.
pub fn processes(shell: &LiveShell) -> Vec<String> {
    let named = |pid: u32| format!("{} `{}`", proc::own_number(pid), shorten(&proc::command_line(pid)));
    shell.descendants.alive().iter().map(|stat| named(stat.pid)).collect()
}

/// The descriptors that a shell has open besides its own.
pub fn descriptors(shell: &LiveShell) -> Vec<String> {
    let (open, more) = proc::open_descriptors(shell.pid());
    let named = open.into_iter().map(|(number, target)| format!("{number} ({})", first_line(&target, NAMED_CHARS)));
    named.chain((more > 0).then(|| format!("and {more} more"))).collect()
}

/// A process that is left running, as it is recorded.
pub fn left_process(stat: &proc::Stat, boot_id: &str) -> LeftProcess {
    LeftProcess {
        pid: stat.pid,
        started_ticks: stat.started_ticks,
        boot_id: boot_id.to_owned(),
        command: shorten(&proc::command_line(stat.pid)),
    }
}

/// What is lost when a shell is dropped with what runs in the session, if anything: these processes, and what only the shell
/// had.
pub fn given_up(processes: &[String], unkept: &Unkept, why: &str) -> Option<Notice> {
    let mut lost = Vec::new();
    if !processes.is_empty() {
        lost.push(format!("background jobs were killed: {}", enumerate(processes)));
    }
    lost.extend(unkept.losses());
    if lost.is_empty() {
        return None;
    }
    Some(notice(
        NoticeCode::ShellReplaced,
        format!(
            "This is a new shell ({why}). Working directory, variables, functions, aliases, options and traps were \
             restored; {}. Use a service for anything that must keep running.",
            lost.join("; ")
        ),
    ))
}

/// A command killed its shell, and the driver could not report the changes.
pub fn changes_lost(exit: ExitStatus, unkept: &Unkept) -> Notice {
    let how = match exit {
        // Only a process that is no longer bash dies of our own signal.
        ExitStatus::Exited(_) | ExitStatus::Signalled(INTERRUPT) => "was replaced by `exec`".to_owned(),
        ExitStatus::Signalled(signal) if HANDLED.iter().any(|handled| handled.as_raw() == signal) => {
            format!("was killed by signal {signal}, or was replaced by `exec` with a program that was")
        }
        ExitStatus::Signalled(signal) => format!("was killed by signal {signal}"),
    };
    notice(
        NoticeCode::ChangesLost,
        format!(
            "This command's shell {how}, so changes that this command made to variables, functions or the working \
             directory are lost. The session continues in a new shell with the state from before this command.{}",
            with_the_last_shell(unkept)
        ),
    )
}

/// A sentence about what was lost with a shell; empty if that is nothing.
fn with_the_last_shell(unkept: &Unkept) -> String {
    match unkept.losses() {
        lost if lost.is_empty() => String::new(),
        lost => format!(" With the last shell, {}.", lost.join("; ")),
    }
}

/// The session continues in a new shell, and the one of a command in the background keeps what is not the session's.
pub fn kept_in_background(unkept: &Unkept) -> Option<Notice> {
    let message = || format!("These stay with the command's own shell: {}.", unkept.names().join("; "));
    (!unkept.is_empty()).then(|| notice(NoticeCode::ShellReplaced, message()))
}

/// The session continues in a new shell, and the last one had what is not kept.
pub fn lost_with_shell(unkept: &Unkept) -> Option<Notice> {
    let message = || format!("The session continues in a new shell.{}", with_the_last_shell(unkept));
    (!unkept.is_empty()).then(|| notice(NoticeCode::ShellReplaced, message()))
}

/// A command ended its shell and left processes running.
pub fn left_running(processes: Vec<String>) -> Notice {
    notice(
        NoticeCode::ShellReplaced,
        format!(
            "The shell ended with this command and the session continues in a new one. These background processes \
             keep running but are no longer jobs of the shell: {}.",
            enumerate(&processes)
        ),
    )
}

/// What a command did that lasts only as long as the command.
pub fn not_kept(report: &Report) -> Vec<Notice> {
    let mut notices = Vec::new();
    if !report.redirected.is_empty() {
        notices.push(notice(
            NoticeCode::NotKept,
            format!(
                "`exec` redirected {} for this command only; the next command starts with its own.",
                report.redirected.join(" and ")
            ),
        ));
    }
    if report.noexec {
        notices.push(notice(
            NoticeCode::NotKept,
            "`set -n` applied to this command only; the next command runs.".to_owned(),
        ));
    }
    notices
}

/// A command defined the session's first aliases, and bash does not expand them.
pub fn aliases_off() -> Notice {
    let message = "Aliases are kept, but bash expands them only after `shopt -s expand_aliases`, in later commands. A \
                   function works without that.";
    notice(NoticeCode::AliasesOff, message.to_owned())
}

/// What could not be put into a new shell.
pub fn not_restored<'a>(problems: impl Iterator<Item = &'a NotRestored>) -> Vec<Notice> {
    let told = |NotRestored { what, why }: &NotRestored| {
        notice(NoticeCode::RestoreIncomplete, format!("`{what}` could not be restored in the new shell: {why}."))
    };
    problems.map(told).collect()
}

/// A shell that exited on its own while nothing ran in it. `processes` of it are alive.
pub fn died_idle(exit: ExitStatus, processes: &[String], unkept: &Unkept) -> Notice {
    let how = match exit {
        ExitStatus::Signalled(signal) => format!("it was killed by signal {signal}"),
        ExitStatus::Exited(code) => format!("it ended with status {code}"),
    };
    let jobs = match processes {
        [] => String::new(),
        names => format!(
            " These background processes keep running but are no longer jobs of the shell: {}.",
            enumerate(names)
        ),
    };
    notice(
        NoticeCode::ShellReplaced,
        format!(
            "This is a new shell: the last one ended between two commands ({how}). Working directory, variables, \
             functions, aliases, options and traps were restored.{}{jobs}",
            with_the_last_shell(unkept)
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
            "The command was killed after its timeout of {} s. {kept} Set a longer timeout, or run it in the \
             background.",
            timeout.as_secs_f64()
        ),
    )
}

/// The daemon stopped before the command ended.
pub fn daemon_stopped() -> Notice {
    notice(
        NoticeCode::DaemonStopped,
        "The daemon was stopped while this command ran, so the command was killed. Its output so far and the session \
         are kept. Run the command again when the daemon is back."
            .to_owned(),
    )
}

/// The session was restarted, ended or deleted.
pub fn killed_with_session() -> Notice {
    notice(
        NoticeCode::ChangesLost,
        "The session was restarted, ended or deleted while this command ran; the command and its shell were killed."
            .to_owned(),
    )
}

/// Variables that are too large to outlive the shell.
pub fn too_large(names: &[String]) -> Option<Notice> {
    let message = || {
        format!(
            "These variables are too large to keep and last only as long as this shell: {}. Put large data into a file.",
            enumerate(names)
        )
    };
    (!names.is_empty()).then(|| notice(NoticeCode::NotKept, message()))
}

/// The session's state has no room for everything that a command set.
pub fn state_full(names: Vec<String>, most: usize) -> Notice {
    notice(
        NoticeCode::NotKept,
        format!(
            "A session keeps at most {} MiB of variables and functions in total. These did not fit and last only as long as \
             this shell: {}. Unset what is not needed, or put large data into a file.",
            most >> 20,
            enumerate(&names)
        ),
    )
}

/// The timeout was reached and the command keeps running.
pub fn backgrounded(run_id: &str, timeout: Duration) -> Notice {
    notice(
        NoticeCode::Backgrounded,
        format!(
            "After {} s the command was moved to the background, where it keeps running as {run_id}. The session continues \
             in a new shell with the state from before this command; what the command changes in its own shell is not kept.",
            timeout.as_secs_f64()
        ),
    )
}

/// The timeout was reached, and there was no room in the background.
pub fn no_room_in_background() -> Notice {
    notice(
        NoticeCode::Backgrounded,
        "The command was killed at its timeout instead of moving to the background, where it counts as a service: this \
         agent or the node is at its limit of running services. Stop one, or set a longer timeout."
            .to_owned(),
    )
}

/// The store could not write a record yet.
pub fn store_failed(reason: &str) -> Notice {
    notice(
        NoticeCode::StoreFailed,
        format!(
            "The record is only in memory: {reason}. The write is being retried; the record is lost if the daemon crashes \
             before it succeeds."
        ),
    )
}

/// The store did not take a record.
pub fn not_stored(reason: &str) -> Notice {
    notice(NoticeCode::StoreFailed, format!("The result was not stored and cannot be read later: {reason}."))
}

/// A sync failed.
pub fn not_on_disk(reason: &str) -> Notice {
    notice(
        NoticeCode::StoreFailed,
        format!(
            "What was recorded is not on disk yet: {reason}. The write is being retried; a power failure before it succeeds \
             loses it."
        ),
    )
}

/// The recording cannot be written.
pub fn record_failed(reason: &str) -> Notice {
    notice(
        NoticeCode::RecordFailed,
        format!(
            "The command ran and its result is stored, but the session's recording cannot be written: {reason}. The write is \
             retried; if it keeps failing, the recording will say which events are missing."
        ),
    )
}

/// A service ended on its own.
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
    notice(NoticeCode::StoreFailed, format!("This result may be lost: {problem}."))
}

/// Some files are not in the last checkpoint.
pub fn files_left_out(first: &[LeftOut], total: u64) -> Notice {
    let named = list(first, total, |left| format!("{} ({})", left.path.to_text(), left.reason));
    notice(
        NoticeCode::CheckpointIncomplete,
        format!("The checkpoint does not contain {named}. A rewind neither restores nor changes these."),
    )
}

/// Some ignore rules are not applied.
pub fn rules_not_read<R>(first: &[(Vec<u8>, R)], total: u64) -> Notice {
    let named = list(first, total, |(path, _)| String::from_utf8_lossy(path).into_owned());
    notice(
        NoticeCode::CheckpointIncomplete,
        format!(
            "The rules of {} are not applied, because this workspace has too many rules or a file is too large: {named}. \
             What they would ignore is saved in checkpoints and restored by a rewind. Remove rules that you do not need.",
            counted(total, "ignore file")
        ),
    )
}

/// The files could not be saved.
pub fn files_not_kept(reason: &str) -> Notice {
    notice(
        NoticeCode::CheckpointIncomplete,
        format!(
            "The last command's file changes are not in a checkpoint: {reason}. The next command retries; until then a rewind \
             cannot restore them."
        ),
    )
}

/// A path that changed after the command ended and before its checkpoint was taken.
pub fn changed_later(path: Vec<u8>) -> LeftOut {
    let reason = "it changed after the command ended and before its checkpoint was taken, while no daemon ran";
    LeftOut { path: ByteString(path), reason: reason.to_owned() }
}

/// The session is a fork, of how the other was then if a moment was named.
pub fn forked(from: &SessionId, moment: Option<&str>, services: &[String]) -> Notice {
    let services = match services {
        [] => String::new(),
        names => format!(" Its services do not run here ({}); start those you need.", names.join(", ")),
    };
    let moment = moment.map_or_else(String::new, |moment| format!(" as it was {moment}"));
    notice(
        NoticeCode::ShellReplaced,
        format!(
            "This session is a fork of '{from}'{moment}, with its own copy of the files in another directory.{services}"
        ),
    )
}

/// A fork works in the directory of its origin.
pub fn files_shared(from: &SessionId, cwd: &str) -> Notice {
    notice(
        NoticeCode::FilesShared,
        format!(
            "This session works in {cwd}, like '{from}': each sees the other's changes there, and they are neither in \
             checkpoints nor merged back. Only the workspace was copied."
        ),
    )
}

/// A fork works outside of its workspace.
pub fn not_compared(fork: &SessionId, cwd: &str, workspace: &str) -> Notice {
    notice(
        NoticeCode::FilesShared,
        format!(
            "Only files in the fork's workspace {workspace} are compared. '{fork}' works in {cwd}, outside of it; what it \
             changed there is not known and was not merged."
        ),
    )
}

/// Files of a session that are missing from its copy.
pub fn not_copied(left_out: &[(Vec<u8>, String)], total: u64) -> Notice {
    let named = list(left_out, total, |(path, reason)| format!("{} ({reason})", String::from_utf8_lossy(path)));
    let (are, differ) = if total == 1 { ("is", "differs") } else { ("are", "differ") };
    notice(
        NoticeCode::CheckpointIncomplete,
        format!("{} {are} missing from this copy, or {differ}: {named}.", counted(total, "path")),
    )
}

/// Paths of a fork that a merge did not change in its origin.
pub fn not_merged(first: &[LeftOut], total: u64) -> Notice {
    let named = list(first, total, |left| format!("{} ({})", left.path.to_text(), left.reason));
    let was = if total == 1 { "was" } else { "were" };
    notice(
        NoticeCode::CheckpointIncomplete,
        format!("{} {was} not changed by the merge: {named}. The fork still has its version.", counted(total, "path")),
    )
}

/// A number of things, as text.
pub fn counted(count: u64, thing: &str) -> String {
    format!("{count} {thing}{}", if count == 1 { "" } else { "s" })
}

/// A duration as text.
pub fn span(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7200 => format!("{} min", seconds / 60),
        seconds => format!("{} h", seconds / 3600),
    }
}

/// More output than is kept.
pub fn output_dropped(stream: &str, dropped: u64) -> Notice {
    notice(
        NoticeCode::OutputDropped,
        format!(
            "{dropped} bytes in the middle of {stream} were dropped: the output limit of one run was reached, or the disk is full."
        ),
    )
}

#[cfg(test)]
mod tests;
