//! From what the shell said at the end of a command to the result that is recorded and answered.

use crate::notices;
use crate::owner::Owner;
use crate::running::{Ending, Running};
use crate::translate;
use shellkeep_process::{Done, ExitStatus};
use shellkeep_session::{ByteString, Notice, QuotaName, RunResult, RunStatus, ShellDelta, decide};

/// What is told with the next result of the session, whichever command it belongs to.
#[derive(Debug, Default)]
pub struct Untold {
    /// What the caller should know.
    pub notices: Vec<Notice>,
    /// Late output of earlier background work.
    pub late: Option<ByteString>,
}

/// The result of a run, and what it changed in the session.
pub fn result(owner: &mut Owner, running: &Running, done: &mut Done, untold: Untold) -> (RunResult, ShellDelta) {
    let (status, exit_code, signal) = outcome(running, done);
    let mut notices = untold.notices;
    if status == RunStatus::TimedOut {
        notices.push(notices::timed_out(running.cell.timeout, done.facts.is_some()));
    }
    if running.met_process_limit() {
        let quota = |name| owner.engine.quotas.get(name);
        notices.push(notices::too_many_processes(quota(QuotaName::SessionProcesses), quota(QuotaName::Processes)));
    }
    notices.extend(owner.disk_notice());
    if by_host(done) {
        notices.push(notices::ended_by_host());
    } else {
        notices.extend(notices::shell_ended(done, &running.worn.shell));
    }
    notices.extend(notices::too_large(done));
    notices.extend(notices::not_kept(done));
    notices.extend(owner.record_notice());
    notices.extend(owner.engine.data_dir.notice());
    let mut delta = done.facts.take().map(translate::delta).unwrap_or_default();
    if let Some(mask) = &mut owner.mask {
        if mask.learn(&delta) {
            running.cell.mask_again(mask.redactor());
        }
        mask.last_word(&mut delta);
    }
    notices.extend(owner.fit(&mut delta));
    let [(stdout, stdout_dropped), (stderr, stderr_dropped)] = running.cell.outputs();
    notices.extend(dropped("stdout", stdout_dropped));
    notices.extend(dropped("stderr", stderr_dropped));
    let changes = decide::changes(&owner.state.shell, &delta);
    let mut result = RunResult {
        status,
        exit_code: Some(exit_code),
        signal,
        stdout,
        stderr,
        duration_us: u64::try_from(running.cell.started.elapsed().as_micros()).unwrap_or(u64::MAX),
        cwd: delta.cwd.clone().unwrap_or_else(|| owner.state.shell.cwd.clone()),
        changes,
        background_output: untold.late,
        notices,
    };
    if let Some(mask) = &owner.mask {
        mask.result(&mut result);
    }
    (result, delta)
}

fn dropped(stream: &str, bytes: u64) -> Option<Notice> {
    (bytes > 0).then(|| notices::output_dropped(stream, bytes))
}

fn outcome(running: &Running, done: &Done) -> (RunStatus, i32, Option<String>) {
    if let Some((ending, signal)) = running.ending() {
        let status = match ending {
            Ending::TimedOut => RunStatus::TimedOut,
            Ending::Signalled(_) => RunStatus::Interrupted,
            Ending::TooManyProcesses => return (RunStatus::Exited, done.status, None),
        };
        return (status, 128 + signal, Some(translate::signal_name(signal)));
    }
    let status = if done.interrupted { RunStatus::Interrupted } else { RunStatus::Exited };
    match done.exit {
        Some(ExitStatus::Signalled(signal)) if done.facts.is_none() => {
            (status, 128 + signal, Some(translate::signal_name(signal)))
        }
        _ => (status, done.status, None),
    }
}

/// Whether the host ended the run together with its session's shell.
fn by_host(done: &Done) -> bool {
    done.interrupted && done.exit.is_some() && done.facts.is_none()
}

/// A run that never started.
pub fn refused() -> Box<Done> {
    Box::new(Done {
        status: 1,
        exit: None,
        facts: Some(Vec::new()),
        interrupted: false,
        redirected: Vec::new(),
        noexec: false,
        forked: false,
        late: Vec::new(),
    })
}

/// A run that the host ended together with its shell.
pub fn ended_by_host() -> Box<Done> {
    Box::new(Done {
        status: ExitStatus::Signalled(9).code(),
        exit: Some(ExitStatus::Signalled(9)),
        facts: None,
        interrupted: true,
        redirected: Vec::new(),
        noexec: false,
        forked: true,
        late: Vec::new(),
    })
}
