//! Lists of runs.

use super::page_limit;
use crate::refusal::Refusal;
use shellkeep_protocol as wire;
use shellkeep_runtime::{ListRuns, RunFilter, RunPage, RunSummary};
use shellkeep_session::{RunId, RunKey};

/// A request to list the runs of a session.
pub fn run_list(params: &wire::RunListParams) -> Result<ListRuns<u64>, Refusal> {
    let number = |text: &str| {
        let digits = text.strip_prefix('r').unwrap_or(text);
        let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        let number = is_number.then(|| digits.parse().ok()).flatten();
        number.ok_or_else(|| {
            let shown = text.escape_debug();
            Refusal::invalid(format!(
                "before: '{shown}' is neither a run id nor a record's number; pass the `next` of the last page"
            ))
        })
    };
    let before = params.before.as_deref().map(number).transpose()?;
    Ok(ListRuns { before, limit: page_limit(params.limit)?, filter: filter(params.status) })
}

/// A request to list the runs of all sessions.
pub fn all_run_list(params: &wire::RunListParams) -> Result<ListRuns<RunKey>, Refusal> {
    let key = |text: &str| {
        RunKey::parse(text).ok_or_else(|| {
            let shown = text.escape_debug();
            Refusal::invalid(format!("before: '{shown}' is not a place in this list; pass the `next` of the last page"))
        })
    };
    let before = params.before.as_deref().map(key).transpose()?;
    Ok(ListRuns { before, limit: page_limit(params.limit)?, filter: filter(params.status) })
}

fn filter(status: Option<wire::RunFilter>) -> RunFilter {
    match status {
        None => RunFilter::All,
        Some(wire::RunFilter::Running) => RunFilter::Running,
        Some(wire::RunFilter::Failed) => RunFilter::Failed,
    }
}

/// A page of a session's runs, for the caller.
pub fn run_page(page: RunPage<u64>) -> wire::RunList {
    let next = page.next.map(|seq| RunId::from_seq(seq).into());
    wire::RunList { runs: page.runs.into_iter().map(summary).collect(), next }
}

/// A page of the runs of all sessions, for the caller.
pub fn all_run_page(page: RunPage<RunKey>) -> wire::RunList {
    let next = page.next.map(|key| key.to_string());
    wire::RunList { runs: page.runs.into_iter().map(summary).collect(), next }
}

fn summary(run: RunSummary) -> wire::RunSummary {
    wire::RunSummary {
        session_id: run.session_id.into(),
        run_id: run.run_id.into(),
        seq: run.seq,
        command: run.command.to_text().into_owned(),
        command_bytes: run.command_bytes,
        status: run.status.into(),
        exit_code: run.exit_code,
        signal: run.signal,
        started_at: run.started_at.to_string(),
        duration_ms: run.duration.as_nanos() as f64 / 1e6,
        cwd: run.cwd.map(|cwd| cwd.to_text().into_owned()),
        background: run.background,
        stdout_bytes: run.stdout_bytes,
        stderr_bytes: run.stderr_bytes,
        notices: run.notices,
        request_id: run.request_id,
        by: run.by,
    }
}
