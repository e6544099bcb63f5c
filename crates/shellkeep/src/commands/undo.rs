//! `shellkeep undo` and `shellkeep redo`: undoes and redoes a session's changes, one at a time.

use super::files::shown_path;
use super::rewind::tell;
use crate::cli::ClientArgs;
use crate::client::paths::of_session;
use crate::client::{self, Client, escaped};
use crate::failure::Failure;
use crate::terminal;
use clap::Args;
use shellkeep_protocol::{
    CheckpointCause, CheckpointDetail, CheckpointList, Place, RewindRequest, RewindResponse, RunDetail, UndoneKind,
};
use shellkeep_session::RewindStep;
use shellkeep_session::plan::shorten;
use std::collections::BTreeSet;
use std::process::ExitCode;

/// How many checkpoints are searched for changes from outside, the newest first.
const SEARCHED: usize = 20;
/// How many files from outside are named.
const NAMED: usize = 5;

/// Arguments of `undo`.
#[derive(Debug, Args)]
#[command(
    after_help = "Undoes the last change: a command that changed files or the shell, a file written with `shellkeep files`, changes of
the keyed store (those in a row at once), a rewind or a merge. Files, shell, keyed store and the agent's saved state become
what they were before it. Undo again for the change before that; `shellkeep redo` reverts an undo. Files that
you or others changed in the workspace since are undone too, and named. Nothing is lost: what is replaced
is saved in a checkpoint first. Files that are not in checkpoints are left alone.

Examples:
  shellkeep undo demo
  shellkeep undo demo --dry-run
  shellkeep undo demo && shellkeep redo demo

Exit codes: 0 done (or shown, with --dry-run), 1 not done (no such session, nothing to undo), 2 wrong usage."
)]
pub struct UndoArgs {
    #[command(flatten)]
    step: StepArgs,
}

/// Arguments of `redo`.
#[derive(Debug, Args)]
#[command(after_help = "Redoes the last undone change, as long as nothing else has changed the session since.

Examples:
  shellkeep redo demo
  shellkeep redo demo --dry-run

Exit codes: 0 done (or shown, with --dry-run), 1 not done (no such session, nothing to redo), 2 wrong usage.")]
pub struct RedoArgs {
    #[command(flatten)]
    step: StepArgs,
}

#[derive(Debug, Args)]
struct StepArgs {
    /// The session
    session: String,
    /// Only show what would change
    #[arg(long)]
    dry_run: bool,
    /// Also undo changes that other sessions made in the same directory
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    client: ClientArgs,
}

/// Undoes the last change.
pub fn undo(args: UndoArgs) -> Result<ExitCode, Failure> {
    client::block_on(step(args.step, RewindStep::Undo))
}

/// Redoes the last undone change.
pub fn redo(args: RedoArgs) -> Result<ExitCode, Failure> {
    client::block_on(step(args.step, RewindStep::Redo))
}

async fn step(args: StepArgs, step: RewindStep) -> Result<ExitCode, Failure> {
    let StepArgs { session, dry_run, force, client: ClientArgs { json, daemon } } = args;
    let path = of_session(&session, "rewind")?;
    let mut client = Client::open(&daemon).await?;
    let to = Place::Name(step.as_str().to_owned());
    let request = RewindRequest { to, dry_run: Some(dry_run), services: None, force: Some(force) };
    let rewound: RewindResponse = terminal::patiently("rewinding", client.post(&path, &request)).await?;
    if json {
        terminal::json(&rewound)?;
        return Ok(ExitCode::SUCCESS);
    }
    let what = match (&rewound.undone, rewound.undone_kind) {
        (Some(run_id), _) => {
            let run: RunDetail = client.get(&of_session(&session, &format!("runs/{run_id}?max_output=0"))?).await?;
            Some(format!("{run_id}: {}", terminal::harmless(&shorten(&run.command))))
        }
        (None, Some(UndoneKind::File)) => Some("a file that was written or removed".to_owned()),
        (None, Some(UndoneKind::Kv)) => Some("changes of the keyed store".to_owned()),
        (None, Some(UndoneKind::Merge)) => Some("a merge".to_owned()),
        (None, Some(UndoneKind::Rewind)) => Some("the last rewind or redo".to_owned()),
        (None, Some(UndoneKind::Run) | None) => None,
    };
    if let Some(what) = what {
        let verb = if dry_run { "would undo" } else { "undid" };
        terminal::line(format!("{verb} {what}"));
    }
    let (verb, opposite) = match step {
        RewindStep::Undo => ("redo", format!("shellkeep redo {session}{}", client.flags())),
        RewindStep::Redo => ("undo", format!("shellkeep undo {session}{}", client.flags())),
    };
    tell(&rewound, &session, &format!("{verb} with: {opposite}"));
    // Only a hint: without it, the files above are still the ones that changed.
    let outside =
        if dry_run { Vec::new() } else { from_outside(&mut client, &session, &rewound).await.unwrap_or_default() };
    if let Some(named) = in_words(&outside) {
        terminal::notice(&format!(
            "this also took back what no command of the session had changed: {named}; `{opposite}` restores it"
        ));
    }
    Ok(ExitCode::SUCCESS)
}

/// The files that were taken back and that something else had changed: you in an editor, a service. Such changes have
/// checkpoints of their own.
async fn from_outside(client: &mut Client, session: &str, rewound: &RewindResponse) -> Result<Vec<String>, Failure> {
    let list: CheckpointList = client.get(&of_session(session, &format!("checkpoints?after={}", rewound.to))?).await?;
    let is_outside = |cause: CheckpointCause| matches!(cause, CheckpointCause::Outside | CheckpointCause::Rewind);
    let mut changed = BTreeSet::new();
    for checkpoint in list.checkpoints.iter().rev().take(SEARCHED) {
        if is_outside(checkpoint.cause) && checkpoint.kept {
            let path = of_session(session, &format!("checkpoints/{}", escaped(&checkpoint.checkpoint_id)))?;
            let detail: CheckpointDetail = client.get(&path).await?;
            changed.extend(detail.files.into_iter().map(|file| file.path));
        }
    }
    let taken_back = rewound.files.iter().filter(|file| changed.contains(&file.path));
    Ok(taken_back.map(|file| shown_path(&file.path)).collect())
}

/// The first of the files, and how many more there are.
fn in_words(files: &[String]) -> Option<String> {
    let named = files.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
    let more = files.len().saturating_sub(NAMED);
    match (files.is_empty(), more) {
        (true, _) => None,
        (false, 0) => Some(named),
        (false, more) => Some(format!("{named} and {more} more")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_files_are_named() {
        let files: Vec<String> = (1..=7).map(|number| format!("f{number}")).collect();
        assert_eq!(in_words(&[]), None);
        assert_eq!(in_words(&files[..2]).as_deref(), Some("f1, f2"));
        assert_eq!(in_words(&files).as_deref(), Some("f1, f2, f3, f4, f5 and 2 more"));
    }
}
