//! Reads what a run wrote: while it runs, after it ended, and after its session was deleted.

use super::access::{Access, Permitted};
use super::handle::Engine;
use crate::cell::RunCell;
use crate::ops::{BoxFuture, OpError, OutputPage, OutputQuery, PastScreenQuery, PastScreens, RunError, Stream, Tail};
use crate::output::{self, OutputFile};
use crate::page::{self, PageError, Searching};
use crate::recover;
use crate::screen::past;
use crate::work::SEARCH_TIME;
use shellkeep_record::Budget;
use shellkeep_session::{Output, RunId, RunStatus, SessionId};
use shellkeep_store::deleted;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// Where a run's output is.
enum RunOutput {
    /// The run is still running.
    Live(Arc<RunCell>),
    /// It has ended.
    Kept(Box<Output>, OutputFile),
    /// Its session was deleted.
    Removed(PathBuf),
}

impl Engine {
    /// Reads a run's output.
    pub fn output<'a>(
        &'a self,
        id: &'a SessionId,
        run_id: &'a RunId,
        query: OutputQuery,
    ) -> BoxFuture<'a, Result<OutputPage, OpError>> {
        Box::pin(async move { read(&self.access, id, run_id, query).await })
    }
}

/// Reads a run's output.
pub(super) async fn read(
    access: &Access,
    id: &SessionId,
    run_id: &RunId,
    query: OutputQuery,
) -> Result<OutputPage, OpError> {
    let Permitted { parts, id } = access.over_recorded(id)?;
    let place = |directory| OutputFile { directory, run_id: run_id.clone(), stream: query.stream };
    let output = if let Some(deleted) = access.deleted_session(&id) {
        let directory = deleted::outputs(parts.ctx.data_dir.root(), &deleted.kept_as);
        let path = place(directory.into()).path();
        parts.ctx.kept_files.check_told(&id, &path).await?;
        RunOutput::Removed(path)
    } else if let Some(cell) = parts.ctx.runs.get(&id, run_id) {
        RunOutput::Live(cell)
    } else {
        let run = parts.stored.run(&id, run_id).await?;
        let result = run.result.unwrap_or_else(recover::nothing_known);
        let kept = match query.stream {
            Stream::Stdout => result.stdout,
            Stream::Stderr => result.stderr,
        };
        let place = place(parts.ctx.data_dir.outputs(&id));
        parts.ctx.kept_files.check_output(&id, &place.path(), &kept).await?;
        RunOutput::Kept(Box::new(kept), place)
    };
    // Anything that may have to read all of it runs on a blocking thread.
    let is_short = query.grep.is_none() && !matches!(query.tail, Some(Tail::Lines(_)));
    let page = if is_short {
        output.page(&query, &Searching::default())
    } else {
        let search =
            move |budget: &Budget| output.page(&query, &Searching { budget: budget.clone(), ..Searching::default() });
        parts.work.short(access.scope().agent(), Some(SEARCH_TIME), search).await?
    };
    let node = if page.is_err() { parts.ctx.made_on(&id, run_id.seq()).await } else { None };
    page.map_err(|error| error.told(|error| unreadable(run_id, node, &error)))
}

/// Reads the screens that a run with a terminal had. One that has not ended has none yet.
pub(super) async fn screens(
    access: &Access,
    id: &SessionId,
    run_id: &RunId,
    query: PastScreenQuery,
) -> Result<PastScreens, OpError> {
    let Permitted { parts, id } = access.over(id)?;
    let Some(result) = parts.stored.run(&id, run_id).await?.result else {
        return Ok(PastScreens { run_id: run_id.clone(), screens: Vec::new(), next: None });
    };
    let Some(terminal) = result.terminal else {
        let run_id = run_id.to_string();
        // Whether a lost run had a terminal is not known.
        return Err(match result.status {
            RunStatus::Lost => RunError::ScreensLost { run_id }.into(),
            _ => RunError::NoTerminal { run_id }.into(),
        });
    };
    let directory = parts.ctx.data_dir.outputs(&id);
    let path = OutputFile { directory, run_id: run_id.clone(), stream: Stream::Stdout }.path();
    parts.ctx.kept_files.check_output(&id, &path, &result.stdout).await?;
    // A secret that was given is masked for everybody: what is stored has none in one piece, but a screen puts pieces together.
    let redactor = if query.redact {
        Some(parts.ctx.secrets.masker(&id).await?.redactor().clone())
    } else {
        parts.ctx.secrets.mask_of(&id).await?
    };
    let (run, stdout) = (run_id.clone(), result.stdout);
    let draw = move |budget: &Budget| {
        let kept = output::as_it_is(&stdout, &path);
        let read = |offset, limit| output::read_kept(&kept, &path, offset, limit);
        past::screens(&run, &terminal, query, redactor.as_ref(), read, budget)
    };
    match parts.work.short(access.scope().agent(), None, draw).await? {
        Ok(screens) => Ok(screens),
        Err(error) => Err(unreadable(run_id, parts.ctx.made_on(&id, run_id.seq()).await, &error)),
    }
}

/// The output is not there, or cannot be read. `node` may have it.
fn unreadable(run_id: &RunId, node: Option<String>, error: &io::Error) -> OpError {
    match error.kind() {
        io::ErrorKind::NotFound => OpError::Run(RunError::OutputReclaimed { run_id: run_id.to_string(), node }),
        _ => OpError::StoreUnavailable { reason: format!("cannot read the output file: {error}") },
    }
}

impl RunOutput {
    fn page(&self, query: &OutputQuery, searching: &Searching) -> Result<OutputPage, PageError> {
        match self {
            Self::Live(cell) => cell.page(query, searching),
            Self::Removed(path) => page::page_of_file(path, query, searching),
            Self::Kept(kept, place) => {
                let path = place.path();
                let kept = output::as_it_is(kept, &path);
                page::page(&kept, true, query, searching, |offset, limit| {
                    output::read_kept(&kept, &path, offset, limit)
                })
            }
        }
    }
}
