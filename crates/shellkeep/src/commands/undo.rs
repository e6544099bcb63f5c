//! `shellkeep undo` and `shellkeep redo`: undoes and redoes a session's changes, one at a time.

use super::files::of_session;
use super::rewind::tell;
use crate::cli::DaemonArgs;
use crate::client::{self, Client};
use crate::failure::Failure;
use crate::terminal;
use clap::Args;
use shellkeep_protocol::{Place, RewindRequest, RewindResponse, RunDetail, UndoneKind};
use shellkeep_session::RewindStep;
use shellkeep_session::plan::shorten;
use std::process::ExitCode;

/// Arguments of `undo`.
#[derive(Debug, Args)]
#[command(
    after_help = "Undoes the last change: a command that changed files or the shell, a file written with `shellkeep files`, changes of
the keyed store (those in a row at once), a rewind or a merge. Files, shell, keyed store and the agent's saved state become
what they were before it. Undo again for the change before that; `shellkeep redo` reverts an undo.
Nothing is lost: what is replaced is saved in a checkpoint first. Files that are not in checkpoints are left alone.

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
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    daemon: DaemonArgs,
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
    let StepArgs { session, dry_run, force, json, daemon } = args;
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
    let back = match step {
        RewindStep::Undo => format!("redo with: shellkeep redo {session}{}", client.flags()),
        RewindStep::Redo => format!("undo with: shellkeep undo {session}{}", client.flags()),
    };
    tell(&rewound, &session, &back);
    Ok(ExitCode::SUCCESS)
}
