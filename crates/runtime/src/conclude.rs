//! How a run ended, and what follows from that for its caller and its session. Pure: the actor collects the facts, this
//! decides.

use crate::cell::RunCell;
use crate::notices::{self, ProcessLimits};
use crate::translate;
use shellkeep_process::stdio::Reader;
use shellkeep_process::{ExitStatus, Report};
use shellkeep_session::{ByteString, Notice, RunResult, RunStatus, ShellDelta, ShellState, Unkept, decide};
use std::time::Duration;

/// The signal that kills a shell together with its session.
const KILL: i32 = 9;

/// How a run ended.
#[derive(Debug)]
pub enum Ended {
    /// The driver reported the result. The shell may have ended with the command.
    Reported(Box<Report>),
    /// The shell ended without a report, so what the command changed is unknown.
    ShellGone {
        /// How the shell ended.
        exit: ExitStatus,
        /// Output pipes that a background process still holds open.
        late: Vec<Reader>,
    },
    /// The command was not run: the directory for this call could not be entered, or its deadline had passed.
    NotStarted,
    /// The session was restarted, ended or deleted while the command ran.
    KilledWithSession,
}

impl Ended {
    /// A shell that had to be killed.
    pub fn shell_killed() -> Self {
        Self::ShellGone { exit: ExitStatus::Signalled(KILL), late: Vec::new() }
    }

    /// Takes the pipes on which output may still come.
    pub fn take_late(&mut self) -> Vec<Reader> {
        match self {
            Self::Reported(report) => std::mem::take(&mut report.late),
            Self::ShellGone { late, .. } => std::mem::take(late),
            Self::NotStarted | Self::KilledWithSession => Vec::new(),
        }
    }

    /// Takes what was typed at the command's terminal and that it did not read.
    pub fn take_unread(&mut self) -> Vec<u8> {
        match self {
            Self::Reported(report) => std::mem::take(&mut report.unread),
            Self::ShellGone { .. } | Self::NotStarted | Self::KilledWithSession => Vec::new(),
        }
    }

    /// Why the session's directory cannot be entered, if a command ran in that of its request and found it gone.
    pub fn cwd_missing(&self) -> Option<&'static str> {
        matches!(self, Self::Reported(report) if report.homeless).then_some("it was removed or moved")
    }

    /// Whether the command may have left processes running.
    pub fn may_have_forked(&self) -> bool {
        match self {
            Self::Reported(report) => report.forked,
            Self::ShellGone { .. } | Self::KilledWithSession => true,
            Self::NotStarted => false,
        }
    }

    /// Whether the command ended by itself, although it may have been asked to stop: its shell was not interrupted, so
    /// what it reports is its own exit code. A program that took the shell's place cannot say whether it was asked in time; at
    /// its timeout it most likely was.
    fn is_own(&self, reason: StopReason) -> bool {
        match self {
            Self::Reported(report) => !report.interrupted,
            Self::NotStarted => true,
            Self::ShellGone { exit: ExitStatus::Exited(_), .. } => matches!(reason, StopReason::Signalled(_)),
            Self::ShellGone { exit: ExitStatus::Signalled(_), .. } | Self::KilledWithSession => false,
        }
    }

    /// Whether the session can continue in the same shell.
    pub fn shell_is_alive(&self) -> bool {
        match self {
            Self::Reported(report) => report.exit.is_none(),
            Self::NotStarted => true,
            Self::ShellGone { .. } | Self::KilledWithSession => false,
        }
    }

    fn exit_code(&self) -> i32 {
        match self {
            Self::Reported(report) => report.status,
            Self::ShellGone { exit, .. } => exit.code(),
            Self::NotStarted => 1,
            Self::KilledWithSession => ExitStatus::Signalled(KILL).code(),
        }
    }
}

/// Why shellkeep stopped a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopReason {
    /// It reached its timeout.
    TimedOut,
    /// A caller sent this signal.
    Signalled(i32),
    /// The daemon stopped before it ended.
    DaemonStops,
    /// It ended on its own, but reached the process limit; what it left running was killed.
    TooManyProcesses,
}

/// A command that shellkeep stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stopped {
    pub reason: StopReason,
    /// The last signal it was sent.
    pub signal: i32,
}

/// What is known when a run ends, apart from how it ended.
#[derive(Debug, Default)]
pub struct Before {
    /// Notices from before this end; they come first.
    pub notices: Vec<Notice>,
    /// Whether and why shellkeep stopped it.
    pub stopped: Option<Stopped>,
    /// The run's timeout.
    pub timeout: Duration,
    /// The limits that it reached, if it could not start all its processes.
    pub met_limits: Option<ProcessLimits>,
    /// The bytes that the agent's processes may use, if some were killed because they used more.
    pub out_of_memory: Option<u64>,
    /// The notice that the session is over its disk quota.
    pub over_disk: Option<Notice>,
    /// Processes that outlive the shell, if it ended.
    pub left_running: Vec<String>,
    /// What only the shell had before the run, apart from processes.
    pub unkept: Unkept,
    /// The descriptors that the shell has open now, if it is alive.
    pub descriptors: Vec<String>,
    /// The recording or the data directory cannot be written.
    pub storage: [Option<Notice>; 2],
}

/// What a run's end means.
#[derive(Debug, PartialEq, Eq)]
pub struct Conclusion {
    /// How it ended, for the caller.
    pub status: RunStatus,
    /// `$?`, or 128+n for a signal.
    pub exit_code: i32,
    /// Name of the signal that ended it.
    pub signal: Option<String>,
    /// What it changed in the shell.
    pub delta: Box<ShellDelta>,
    /// Notices for the caller.
    pub notices: Vec<Notice>,
    /// What only the shell has now: its descriptors, and the variables of this run that are too large to keep.
    pub unkept: Unkept,
    /// Whether the session can continue in the same shell.
    pub shell_is_alive: bool,
}

/// What is recorded of a run at its end.
pub struct RecordedRun {
    pub result: Box<RunResult>,
    /// What it changed in the shell.
    pub delta: Box<ShellDelta>,
    /// What only its shell has now.
    pub unkept: Unkept,
}

/// What a run's end means.
pub fn conclude(before: Before, ended: Ended) -> Conclusion {
    // What came too late, or what a trap of the command dealt with, did not stop it.
    let stopped = before.stopped.filter(|stopped| !ended.is_own(stopped.reason));
    let (status, exit_code, signal) = outcome(stopped, &ended);
    let shell_is_alive = ended.shell_is_alive();
    let mut notices = before.notices;
    if status == RunStatus::TimedOut {
        let state_kept = matches!(ended, Ended::Reported(_) | Ended::NotStarted);
        notices.push(notices::timed_out(before.timeout, state_kept));
    }
    if matches!(stopped, Some(Stopped { reason: StopReason::DaemonStops, .. })) {
        notices.push(notices::daemon_stopped());
    }
    notices.extend(before.met_limits.map(notices::too_many_processes));
    notices.extend(before.out_of_memory.map(notices::out_of_memory));
    notices.extend(before.over_disk);
    match &ended {
        Ended::KilledWithSession => notices.push(notices::killed_with_session()),
        Ended::ShellGone { exit, .. } => notices.push(notices::changes_lost(*exit, &before.unkept)),
        // `exit` closes descriptors in any bash.
        Ended::Reported(report) if report.exit.is_some() => {
            notices.extend(notices::lost_with_shell(&Unkept { descriptors: Vec::new(), ..before.unkept }));
        }
        Ended::Reported(_) | Ended::NotStarted => {}
    }
    if !before.left_running.is_empty() {
        notices.push(notices::left_running(before.left_running));
    }
    let mut unkept = Unkept { descriptors: before.descriptors, variables: Vec::new() };
    let delta = match ended {
        Ended::Reported(report) => {
            unkept.variables = translate::too_large(&report.facts);
            notices.extend(notices::too_large(&unkept.variables));
            notices.extend(notices::not_kept(&report));
            translate::delta(report.facts)
        }
        Ended::ShellGone { .. } | Ended::NotStarted | Ended::KilledWithSession => Box::default(),
    };
    notices.extend(before.storage.into_iter().flatten());
    Conclusion { status, exit_code, signal, delta, notices, unkept, shell_is_alive }
}

impl Conclusion {
    /// As it is recorded, with the run's output. `before` is the shell before the change, `late` the output of earlier
    /// background jobs.
    pub fn with_output(self, before: &ShellState, cell: &RunCell, late: Option<ByteString>) -> RecordedRun {
        let Self { status, exit_code, signal, delta, mut notices, unkept, .. } = self;
        let [stdout, stderr] = cell.outputs();
        for (stream, bytes) in [("stdout", stdout.dropped), ("stderr", stderr.dropped)] {
            notices.extend((bytes > 0).then(|| notices::output_dropped(stream, bytes)));
        }
        // What a command in the background defines stays in its own shell.
        let is_vain = !cell.is_detached() && decide::has_first_aliases_in_vain(before, &delta);
        notices.extend(is_vain.then(notices::aliases_off));
        let result = Box::new(RunResult {
            status,
            exit_code: Some(exit_code),
            signal,
            stdout: stdout.output,
            stderr: stderr.output,
            duration_us: u64::try_from(cell.started.elapsed().as_micros()).unwrap_or(u64::MAX),
            cwd: delta.cwd.clone().unwrap_or_else(|| before.cwd.clone()),
            changes: decide::changes(before, &delta, &unkept.variables),
            background_output: late,
            notices,
            terminal: cell.terminal_events(),
        });
        RecordedRun { result, delta, unkept }
    }
}

fn outcome(stopped: Option<Stopped>, ended: &Ended) -> (RunStatus, i32, Option<String>) {
    let by_signal = |status, signal: i32| (status, 128 + signal, Some(translate::signal_name(signal)));
    match stopped {
        Some(Stopped { reason: StopReason::TimedOut, signal }) => return by_signal(RunStatus::TimedOut, signal),
        Some(Stopped { reason: StopReason::Signalled(_) | StopReason::DaemonStops, signal }) => {
            return by_signal(RunStatus::Interrupted, signal);
        }
        Some(Stopped { reason: StopReason::TooManyProcesses, .. }) => {
            return (RunStatus::Exited, ended.exit_code(), None);
        }
        None => {}
    }
    match ended {
        Ended::ShellGone { exit: ExitStatus::Signalled(signal), .. } => by_signal(RunStatus::Exited, *signal),
        Ended::KilledWithSession => by_signal(RunStatus::Interrupted, KILL),
        Ended::Reported(report) if report.interrupted => (RunStatus::Interrupted, report.status, None),
        Ended::Reported(_) | Ended::ShellGone { .. } | Ended::NotStarted => {
            (RunStatus::Exited, ended.exit_code(), None)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shellkeep_process::Fact;
    use shellkeep_session::NoticeCode::{self, *};

    fn report(status: i32) -> Report {
        Report {
            status,
            exit: None,
            facts: vec![Fact::Status(status)],
            interrupted: false,
            redirected: Vec::new(),
            noexec: false,
            homeless: false,
            forked: false,
            late: Vec::new(),
            unread: Vec::new(),
        }
    }

    fn reported(report: Report) -> Ended {
        Ended::Reported(Box::new(report))
    }

    /// A command out of which bash was called back.
    fn interrupted(status: i32) -> Ended {
        reported(Report { interrupted: true, ..report(status) })
    }

    fn gone(exit: ExitStatus) -> Ended {
        Ended::ShellGone { exit, late: Vec::new() }
    }

    fn stopped(reason: StopReason, signal: i32) -> Before {
        Before { stopped: Some(Stopped { reason, signal }), ..Before::default() }
    }

    fn leaves(process: &str) -> Before {
        Before { left_running: vec![process.to_owned()], ..Before::default() }
    }

    /// Before and end of a run; then status, exit code, signal and the notices in their order.
    type Case = (&'static str, Before, Ended, RunStatus, i32, Option<&'static str>, &'static [NoticeCode]);

    fn ends_by_itself() -> Vec<Case> {
        use RunStatus::*;
        let exited = || report(3);
        vec![
            ("reports", Before::default(), reported(exited()), Exited, 3, None, &[]),
            (
                "exits the shell",
                Before::default(),
                reported(Report { exit: Some(ExitStatus::Exited(3)), ..exited() }),
                Exited,
                3,
                None,
                &[],
            ),
            (
                "exits the shell and leaves a process",
                leaves("7 `sleep`"),
                reported(Report { exit: Some(ExitStatus::Exited(3)), ..exited() }),
                Exited,
                3,
                None,
                &[ShellReplaced],
            ),
            (
                "reports, and its shell dies of a signal",
                Before::default(),
                reported(Report { exit: Some(ExitStatus::Signalled(15)), ..report(143) }),
                Exited,
                143,
                None,
                &[],
            ),
            (
                "redirects and switches execution off",
                Before::default(),
                reported(Report { redirected: vec!["stdout"], noexec: true, ..exited() }),
                Exited,
                3,
                None,
                &[NotKept, NotKept],
            ),
            (
                "sets a variable that is too large",
                Before::default(),
                reported(Report { facts: vec![Fact::TooLarge { name: b"big".to_vec() }], ..exited() }),
                Exited,
                3,
                None,
                &[NotKept],
            ),
            (
                "kills its shell",
                Before::default(),
                gone(ExitStatus::Signalled(9)),
                Exited,
                137,
                Some("KILL"),
                &[ChangesLost],
            ),
            ("execs a program", Before::default(), gone(ExitStatus::Exited(4)), Exited, 4, None, &[ChangesLost]),
            (
                "kills its shell and leaves a process",
                leaves("7 `sleep`"),
                gone(ExitStatus::Signalled(9)),
                Exited,
                137,
                Some("KILL"),
                &[ChangesLost, ShellReplaced],
            ),
            ("cannot enter its directory", Before::default(), Ended::NotStarted, Exited, 1, None, &[]),
        ]
    }

    fn is_stopped() -> Vec<Case> {
        use RunStatus::*;
        let timed_out = || stopped(StopReason::TimedOut, 15);
        vec![
            ("is interrupted", Before::default(), interrupted(130), Interrupted, 130, None, &[]),
            (
                "the daemon stops",
                stopped(StopReason::DaemonStops, 15),
                interrupted(130),
                Interrupted,
                143,
                Some("TERM"),
                &[DaemonStopped],
            ),
            (
                "gets a signal",
                stopped(StopReason::Signalled(2), 2),
                interrupted(130),
                Interrupted,
                130,
                Some("INT"),
                &[],
            ),
            (
                "ignores a signal and is killed",
                stopped(StopReason::Signalled(2), 9),
                gone(ExitStatus::Signalled(9)),
                Interrupted,
                137,
                Some("KILL"),
                &[ChangesLost],
            ),
            ("times out", timed_out(), interrupted(130), TimedOut, 143, Some("TERM"), &[NoticeCode::TimedOut]),
            (
                "times out and is killed",
                stopped(StopReason::TimedOut, 9),
                gone(ExitStatus::Signalled(9)),
                TimedOut,
                137,
                Some("KILL"),
                &[NoticeCode::TimedOut, ChangesLost],
            ),
            (
                "starts too many processes",
                Before {
                    met_limits: Some(ProcessLimits { session: 1, agent: None, node: 2 }),
                    ..stopped(StopReason::TooManyProcesses, 9)
                },
                reported(report(2)),
                Exited,
                2,
                None,
                &[ProcessLimit],
            ),
        ]
    }

    /// A signal was sent to it, but is not what ended it: the result once told 128+n and the signal nevertheless.
    fn ends_by_itself_although_asked() -> Vec<Case> {
        use RunStatus::*;
        let (signalled, timed_out) = (|| stopped(StopReason::Signalled(15), 15), || stopped(StopReason::TimedOut, 15));
        let exits = |code| reported(Report { exit: Some(ExitStatus::Exited(code)), ..report(code) });
        vec![
            ("traps a signal and goes on to its end", signalled(), reported(report(0)), Exited, 0, None, &[]),
            ("exits in a trap for a signal", signalled(), exits(7), Exited, 7, None, &[]),
            ("ends as it times out", timed_out(), reported(report(3)), Exited, 3, None, &[]),
            ("ends as the daemon stops", stopped(StopReason::DaemonStops, 15), exits(0), Exited, 0, None, &[]),
            (
                "execs a program that handles a signal",
                signalled(),
                gone(ExitStatus::Exited(4)),
                Exited,
                4,
                None,
                &[ChangesLost],
            ),
            (
                "execs a program that times out and then ends by itself",
                timed_out(),
                gone(ExitStatus::Exited(0)),
                TimedOut,
                143,
                Some("TERM"),
                &[NoticeCode::TimedOut, ChangesLost],
            ),
            ("cannot enter its directory, and gets a signal", signalled(), Ended::NotStarted, Exited, 1, None, &[]),
        ]
    }

    fn is_killed() -> Vec<Case> {
        use RunStatus::*;
        let killed = || Ended::KilledWithSession;
        let timed_out = stopped(StopReason::TimedOut, 15);
        let both: &[NoticeCode] = &[NoticeCode::TimedOut, ChangesLost];
        vec![
            ("is killed with its session", Before::default(), killed(), Interrupted, 137, Some("KILL"), &[ChangesLost]),
            ("is killed while it times out", timed_out, killed(), TimedOut, 143, Some("TERM"), both),
        ]
    }

    #[test]
    fn every_end_has_its_status_and_notices() {
        let cases = ends_by_itself().into_iter().chain(is_stopped()).chain(is_killed());
        let cases = cases.chain(ends_by_itself_although_asked());
        for (what, before, ended, status, exit_code, signal, codes) in cases {
            let conclusion = conclude(before, ended);
            let found: Vec<_> = conclusion.notices.iter().map(|notice| notice.code).collect();
            let outcome = (conclusion.status, conclusion.exit_code, conclusion.signal.as_deref());
            assert_eq!((outcome, found.as_slice()), ((status, exit_code, signal), codes), "a command that {what}");
        }
    }

    #[test]
    fn a_live_shell_tells_that_its_directory_is_gone() {
        assert_eq!(reported(report(0)).cwd_missing(), None);
        assert!(reported(Report { homeless: true, ..report(0) }).cwd_missing().is_some());
        assert_eq!(gone(ExitStatus::Exited(0)).cwd_missing(), None);
    }

    #[test]
    fn only_a_report_changes_the_shell() {
        let changed = |ended| conclude(Before::default(), ended).delta != Box::default();
        assert!(changed(reported(report(3))));
        assert!(![gone(ExitStatus::Exited(0)), Ended::NotStarted, Ended::KilledWithSession].into_iter().any(changed));
    }

    #[test]
    fn a_timeout_says_whether_changes_are_kept() {
        let message = |ended| conclude(stopped(StopReason::TimedOut, 15), ended).notices.remove(0).message;
        assert!(message(interrupted(130)).contains("what it changed"));
        assert!(!message(gone(ExitStatus::Signalled(9))).contains("what it changed"));
    }

    #[test]
    fn a_shell_outlives_only_a_report_without_exit() {
        let cases = [
            (reported(report(0)), true),
            (reported(Report { exit: Some(ExitStatus::Exited(0)), ..report(0) }), false),
            (gone(ExitStatus::Exited(0)), false),
            (Ended::NotStarted, true),
            (Ended::KilledWithSession, false),
        ];
        for (ended, alive) in cases {
            assert_eq!(ended.shell_is_alive(), alive, "{ended:?}");
        }
    }
}
