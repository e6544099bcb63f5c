//! A run in a list.

use crate::cell::RunCell;
use crate::ops::{MAX_LISTED_COMMAND, RunSummary};
use shellkeep_session::{Output, RunResult, RunStatus, SessionId, StoredRun};
use std::time::Duration;

/// Whether a run ended otherwise than with exit code 0.
pub(super) fn has_failed(run: &StoredRun) -> bool {
    let failed = |result: &RunResult| result.status != RunStatus::Exited || result.exit_code != Some(0);
    run.result.as_ref().is_some_and(failed)
}

/// A row of a list. Only the cell of a running run knows what it has done so far.
pub(super) fn summary(session_id: &SessionId, run: StoredRun, cell: Option<&RunCell>) -> RunSummary {
    let command_bytes = run.command.0.len();
    let mut command = run.command;
    command.0.truncate(MAX_LISTED_COMMAND);
    let live = cell.filter(|_| run.result.is_none());
    let now = live.map(|cell| cell.view(0));
    let result = run.result.as_ref();
    let written = |stream: fn(&RunResult) -> &Output| result.map_or(0, |result| stream(result).total);
    RunSummary {
        session_id: session_id.clone(),
        seq: run.ended_seq.unwrap_or(run.seq),
        command,
        command_bytes,
        status: result.map_or(RunStatus::Running, |result| result.status),
        exit_code: result.and_then(|result| result.exit_code),
        signal: result.and_then(|result| result.signal.clone()),
        started_at: run.started_at,
        duration: match (&now, result) {
            (Some(now), _) => now.duration,
            (None, Some(result)) => Duration::from_micros(result.duration_us),
            (None, None) => Duration::ZERO,
        },
        cwd: result.map(|result| result.cwd.clone()),
        background: live.is_some_and(RunCell::is_detached),
        stdout_bytes: now.as_ref().map_or_else(|| written(|result| &result.stdout), |now| now.stdout.total),
        notices: result.map_or(0, |result| result.notices.len()),
        stderr_bytes: now.as_ref().map_or_else(|| written(|result| &result.stderr), |now| now.stderr.total),
        run_id: run.run_id,
        request_id: run.request_id,
        by: run.by,
    }
}
