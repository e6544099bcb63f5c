//! `shellkeep fork`: creates a session from a moment of another, and merges its files back.

use super::diff::{self, Wanted};
use super::files::{print_changes, print_left};
use crate::cli::ClientArgs;
use crate::client::paths::{self, of_session};
use crate::client::{self, Client, ClientError};
use crate::failure::Failure;
use crate::terminal;
use clap::{Args, Subcommand, ValueEnum};
use shellkeep_protocol::{
    CheckpointCause, CheckpointList, ForkRequest, ForkResponse, LeftOut, MergeBackRequest, MergeBackResponse, Place,
    Problem, Session, Side,
};
use shellkeep_session::NoticeCode;
use std::process::ExitCode;

/// Arguments of `fork`.
#[derive(Debug, Args)]
#[command(
    subcommand_negates_reqs = true,
    after_help = "The new session starts with a copy of the workspace and the state; from then on the two are independent. Services are
not copied. Its name is printed. A session that works outside its workspace is not forked, because both would use the
same files, unless you pass --share-files.

Examples:
  shellkeep fork demo try-1
  for n in 1 2 3; do shellkeep fork demo try-$n --at r12; done
  shellkeep fork patch try-1 | git -C ~/project apply
  shellkeep fork merge-back try-1 --dry-run
  shellkeep fork merge-back try-1 --prefer fork
  shellkeep fork -- patch new               (a session named like a subcommand)

Exit codes: 0 done, 1 not done (no such session or moment, the name is taken, merge conflict), 2 wrong usage."
)]
pub struct ForkArgs {
    #[command(subcommand)]
    action: Option<Action>,
    /// The session to fork
    #[arg(required = true)]
    session: Option<String>,
    /// The new session's name [default: a UUID]
    name: Option<String>,
    /// The moment: a run id, a record's number, a checkpoint's id or commit, -N, 10m, a time, latest [default: now]
    #[arg(long, value_name = "MOMENT", allow_negative_numbers = true)]
    at: Option<String>,
    /// Fork even if the session works outside its workspace; both then use the same files there
    #[arg(long)]
    share_files: bool,
    #[command(flatten)]
    client: ClientArgs,
}

/// Subcommands.
#[derive(Debug, Subcommand)]
enum Action {
    /// Merge a fork's file changes back into the session it was forked from
    #[command(
        name = "merge-back",
        after_help = "Files that only the fork changed are copied; text files that both changed are merged line by line. On a conflict,
nothing is changed and the files are listed, unless --prefer chooses a side. What the merge replaces is saved in a
checkpoint, and the command that undoes it is printed.

Examples:
  shellkeep fork merge-back try-1 --dry-run
  shellkeep fork merge-back try-1 --prefer origin

Exit codes: 0 done (or, with --dry-run, no conflicts), 1 not done (or conflicts), 2 wrong usage."
    )]
    MergeBack {
        /// The fork
        fork: String,
        /// Only show what would change, and any conflicts
        #[arg(long)]
        dry_run: bool,
        /// Which side wins where both changed the same file
        #[arg(long, value_name = "WHOSE")]
        prefer: Option<Prefer>,
    },
    /// Print a fork's file changes since it was created, for `git apply`
    #[command(after_help = "Example:
  shellkeep fork patch try-1 | git -C ~/project apply

Exit codes: 0 done, 1 not done (no such session, not a fork, no daemon), 2 wrong usage.")]
    Patch {
        /// The fork
        fork: String,
    },
}

/// Which side wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Prefer {
    /// The fork's
    Fork,
    /// The session it was forked from
    Origin,
}

pub fn execute(args: ForkArgs) -> Result<ExitCode, Failure> {
    client::block_on(act(args))
}

async fn act(args: ForkArgs) -> Result<ExitCode, Failure> {
    let mut client = Client::open(&args.client.daemon).await?;
    match &args.action {
        Some(Action::MergeBack { fork, dry_run, prefer }) => {
            let prefer = prefer.map(|prefer| match prefer {
                Prefer::Fork => Side::Fork,
                Prefer::Origin => Side::Origin,
            });
            let request = MergeBackRequest { dry_run: Some(*dry_run), prefer };
            merge_back(&mut client, fork, &request, args.client.json).await
        }
        Some(Action::Patch { fork }) => patch(&mut client, fork, args.client.json).await,
        None => fork(&mut client, &args).await,
    }
}

async fn fork(client: &mut Client, args: &ForkArgs) -> Result<ExitCode, Failure> {
    let path = of_session(args.session.as_deref().unwrap_or_default(), "fork")?;
    let at = args.at.as_deref().map(Place::from);
    let share_files = args.share_files.then_some(true);
    let request = ForkRequest { at, session_id: args.name.clone(), user_id: None, share_files };
    let forked: ForkResponse = terminal::patiently("copying the files", client.post(&path, &request)).await?;
    if args.client.json {
        terminal::json(&forked)?;
        return Ok(ExitCode::SUCCESS);
    }
    let ForkResponse { session, notices } = forked;
    terminal::line(&session.session_id);
    if terminal::is_terminal()
        && let Some(origin) = &session.forked_from
    {
        let (from, place) = (&origin.session_id, &session.workspace);
        let moment = args.at.as_deref().map_or_else(String::new, |at| format!(" at {at}"));
        terminal::notice(&format!("a copy of {from}{moment}, with its files in {place}"));
    }
    notices
        .iter()
        .filter(|notice| notice.code == NoticeCode::FilesShared)
        .for_each(|notice| terminal::notice(&notice.message));
    Ok(ExitCode::SUCCESS)
}

async fn merge_back(
    client: &mut Client,
    fork: &str,
    request: &MergeBackRequest,
    json: bool,
) -> Result<ExitCode, Failure> {
    let path = of_session(fork, "merge_back")?;
    let merging = client.post::<_, MergeBackResponse>(&path, request);
    let merged = match terminal::patiently("merging", merging).await {
        Ok(merged) => merged,
        Err(ClientError::Refused(refused)) if refused.problem.code == "merge_conflict" => {
            if json {
                terminal::json(&refused.problem)?;
            } else {
                let conflicts = conflicts(&refused.problem);
                print_left("changed on both sides", &conflicts, conflicts.len() as u64);
            }
            return Err(ClientError::Refused(refused).into());
        }
        Err(error) => return Err(error.into()),
    };
    if json {
        terminal::json(&merged)?;
    } else {
        tell(&merged, client.flags());
    }
    let fits = merged.conflicts.is_empty() || request.prefer.is_some();
    Ok(if fits { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn conflicts(problem: &Problem) -> Vec<LeftOut> {
    let list = problem.data.get("conflicts").cloned().unwrap_or_default();
    serde_json::from_value(list).unwrap_or_default()
}

fn tell(merged: &MergeBackResponse, flags: &str) {
    let MergeBackResponse { into, files_total, .. } = merged;
    merged.notices.iter().for_each(|notice| terminal::notice(&notice.message));
    match (merged.dry_run, files_total) {
        (_, 0) if !merged.notices.is_empty() => terminal::line("nothing changed in the fork's workspace"),
        (_, 0) => terminal::line(format!("nothing to merge back into {into}")),
        (true, 1) => terminal::line(format!("1 file would change in {into}:")),
        (true, total) => terminal::line(format!("{total} files would change in {into}:")),
        (false, 1) => terminal::line(format!("1 file changed in {into}:")),
        (false, total) => terminal::line(format!("{total} files changed in {into}:")),
    }
    print_changes(&merged.files, *files_total);
    print_left("changed on both sides", &merged.conflicts, merged.conflicts.len() as u64);
    if let Some(undo) = merged.undo {
        terminal::line(format!("undo with: shellkeep rewind {into} {undo}{flags}"));
    }
}

/// The fork's changes since it was created.
async fn patch(client: &mut Client, fork: &str, json: bool) -> Result<ExitCode, Failure> {
    let session: Session = client.get(&paths::session(fork)?).await?;
    if session.forked_from.is_none() {
        return Err(Failure::client(format!(
            "session '{fork}' is not a fork; compare its own moments with `shellkeep diff {fork}{}`",
            client.flags()
        )));
    }
    // The first of its checkpoints is what it started with; if it started without files, its first record is used.
    let first: CheckpointList = client.get(&of_session(fork, "checkpoints?limit=1")?).await?;
    let first = first.checkpoints.into_iter().find(|checkpoint| checkpoint.cause == CheckpointCause::Fork);
    let from = first.map_or_else(|| "1".to_owned(), |checkpoint| checkpoint.checkpoint_id);
    let wanted = Wanted { from: Some(&from), to: None, path: None, patch: true, binary: true };
    let diff = diff::ask(client, fork, &wanted).await?;
    if json {
        terminal::json(&diff)?;
    } else if diff.truncated {
        return Err(Failure::client("the patch is too long for one response; merge-back has no such limit"));
    } else {
        terminal::bytes(&diff::patch_of(&diff)?)?;
    }
    Ok(ExitCode::SUCCESS)
}
