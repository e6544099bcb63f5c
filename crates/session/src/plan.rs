//! What to do with a session after its daemon or its task died. Nothing is ever run again: what had not ended is `lost`.

use crate::{
    Event, LeftProcess, Notice, NoticeCode, Output, RunId, RunResult, RunStatus, SessionState, ShellDelta, Timestamp,
    Unkept,
};

/// What died under a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Crash {
    /// The daemon.
    Daemon,
    /// The node that had the session, as another node that takes it over sees it: it died, was stopped, or is cut off.
    Node,
    /// Only the session's task, by a bug.
    Session,
}

impl Crash {
    fn reason(self) -> &'static str {
        match self {
            Self::Daemon => "daemon_died",
            Self::Node => "node_lost",
            Self::Session => "session_failed",
        }
    }

    fn died(self) -> &'static str {
        match self {
            Self::Daemon => "The daemon died",
            Self::Node => "The session's node was lost",
            Self::Session => "shellkeep failed (a bug; the daemon's log has more)",
        }
    }

    fn restarted(self) -> &'static str {
        match self {
            Self::Daemon => "the daemon was restarted",
            Self::Node => "the session's node was lost",
            Self::Session => "shellkeep failed",
        }
    }
}

/// The records that complete a session after a crash, in order. `was_ended` says whether a process that a finished
/// command had left running was still alive and was killed.
pub fn after_crash(
    state: &SessionState,
    crash: Crash,
    now: Timestamp,
    was_ended: impl Fn(&LeftProcess) -> bool,
) -> Vec<Event> {
    let lost = state.active_runs.iter().map(|(run_id, run)| {
        let elapsed = now.as_microsecond().saturating_sub(run.started_at.as_microsecond());
        lost_run(state, crash, run_id, u64::try_from(elapsed).unwrap_or(0))
    });
    let mut events: Vec<Event> = lost.collect();
    let mut notices = Vec::new();
    if !state.active_runs.is_empty() {
        notices.push(replaced_notice(state, crash));
    }
    let ended: Vec<&LeftProcess> = state.processes.iter().filter(|process| was_ended(process)).collect();
    notices.extend(shell_notice(&ended, &state.unkept, crash));
    if !state.holds_no_shell_work() {
        events.push(Event::ShellStopped { reason: crash.reason().to_owned(), notices });
    }
    events
}

/// What was lost with the shell, if anything was.
fn shell_notice(ended: &[&LeftProcess], unkept: &Unkept, crash: Crash) -> Option<Notice> {
    let named: Vec<String> = ended.iter().map(|process| format!("{} `{}`", process.pid, process.command)).collect();
    let jobs = (!named.is_empty()).then(|| format!("background jobs were killed: {}", named.join(", ")));
    let advice = if jobs.is_some() { " Use a service for anything that must keep running." } else { "" };
    let lost: Vec<String> = jobs.into_iter().chain(unkept.losses()).collect();
    (!lost.is_empty()).then(|| Notice {
        code: NoticeCode::ShellReplaced,
        message: format!(
            "This is a new shell: {}. Working directory, variables, functions, aliases, options and traps were restored; \
             {}.{advice}",
            crash.restarted(),
            lost.join("; ")
        ),
    })
}

fn lost_run(state: &SessionState, crash: Crash, run_id: &RunId, duration_us: u64) -> Event {
    let notice = Notice {
        code: NoticeCode::ChangesLost,
        message: format!(
            "{} while this command ran. Its outcome is unknown, what it wrote is gone, and it was not run again; check \
             what it did before you repeat it.",
            crash.died()
        ),
    };
    let result = RunResult {
        status: RunStatus::Lost,
        exit_code: None,
        signal: None,
        stdout: Output::default(),
        stderr: Output::default(),
        duration_us,
        cwd: state.shell.cwd.clone(),
        changes: Default::default(),
        background_output: None,
        notices: vec![notice],
        terminal: None,
    };
    Event::RunFinished { run_id: run_id.clone(), result: Box::new(result), delta: Box::new(ShellDelta::default()) }
}

fn replaced_notice(state: &SessionState, crash: Crash) -> Notice {
    let commands: Vec<String> =
        state.active_runs.values().map(|run| format!("`{}`", shorten(&run.command.to_text()))).collect();
    Notice {
        code: NoticeCode::ShellReplaced,
        message: format!(
            "This is a new shell: {} while {} ran. Working directory, variables, functions, \
             aliases and options are as after the last finished command; that command's outcome is unknown.",
            crash.restarted(),
            commands.join(", ")
        ),
    }
}

/// Shortens a command for a sentence.
pub fn shorten(command: &str) -> String {
    first_line(command, 60)
}

/// The first line of a command, at most `limit` letters of it, and a sign if there is more.
pub fn first_line(command: &str, limit: usize) -> String {
    let line = command.lines().next().unwrap_or_default();
    if line.len() == command.len() && line.chars().count() <= limit {
        return line.to_owned();
    }
    let mut short: String = line.chars().take(limit).collect();
    short.push('…');
    short
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ActiveRun, SessionId, SessionMeta, ShellState};

    /// The bug: a node that was only stopped, or cut off, was said to have died in the results of what ran on it.
    #[test]
    fn a_run_of_a_node_that_was_lost_does_not_say_that_a_daemon_died() {
        let meta = SessionMeta::of_name(SessionId::parse("s").unwrap());
        let mut state = SessionState::blank(meta, Timestamp::UNIX_EPOCH, ShellState::default());
        let run = ActiveRun {
            request_id: None,
            command: "sleep 30".into(),
            started_at: Timestamp::UNIX_EPOCH,
            detached: false,
        };
        state.active_runs.insert(RunId::from_seq(2), run);
        let events = after_crash(&state, Crash::Node, Timestamp::UNIX_EPOCH, |_| true);
        let [Event::RunFinished { result, .. }, Event::ShellStopped { reason, notices }] = events.as_slice() else {
            panic!("{events:?}")
        };
        let told = &result.notices[0].message;
        assert!(told.starts_with("The session's node was lost while this command ran."), "{told}");
        let told = &notices[0].message;
        assert!(told.starts_with("This is a new shell: the session's node was lost while `sleep 30` ran."), "{told}");
        assert_eq!(reason, "node_lost");
    }
}
