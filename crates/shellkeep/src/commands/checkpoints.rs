//! `shellkeep checkpoints`: lists saved versions of a session's files, what they changed, and their size.

mod show;
mod usage;

use super::files::path_parameter;
use crate::cli::ClientArgs;
use crate::client::paths::{self, of_session};
use crate::client::{self, Client, escaped};
use crate::failure::Failure;
use crate::terminal;
use clap::{Args, Subcommand};
use http_body_util::BodyExt as _;
use serde_json::json;
use shellkeep_protocol::{Checkpoint, CheckpointDetail, CheckpointList, FileHistory, Session};
use std::ffi::{OsStr, OsString};
use std::process::ExitCode;

/// Checkpoints asked for at a time.
const PAGE: usize = 1000;

/// Arguments of `checkpoints`.
#[derive(Debug, Args)]
#[command(
    subcommand_negates_reqs = true,
    after_help = "After each command that created, changed or deleted files in the session's workspace, its files are saved: that is a checkpoint. C is a checkpoint's id, a commit or a prefix of one, `latest`, or another
moment (the files as they were then): a run id (r12: after that run), the number of a record, -N (N changing runs
back), how long ago (10m, 1h30m, 2d), an RFC 3339 time. A PATH is relative to the session's workspace.

Examples:
  shellkeep checkpoints demo
  shellkeep checkpoints show demo latest
  shellkeep checkpoints history demo src/main.rs
  shellkeep checkpoints cat demo r12 src/main.rs > main-after-r12.rs
  shellkeep checkpoints du
  shellkeep checkpoints ls -- show          (a session named like a subcommand)

See also `shellkeep log`, `shellkeep undo`, `shellkeep diff`, `shellkeep rewind`, `shellkeep fork`.

Exit codes: 0 done, 1 not done (no such session, checkpoint or file; no daemon), 2 wrong usage."
)]
pub struct CheckpointsArgs {
    #[command(subcommand)]
    action: Option<Action>,
    /// The session
    #[arg(required = true)]
    session: Option<String>,
    /// Only those after this number
    #[arg(long, value_name = "SEQ", default_value = "0")]
    after: u64,
    /// Maximum number to print
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    #[command(flatten)]
    client: ClientArgs,
}

/// Subcommands.
#[derive(Debug, Subcommand)]
enum Action {
    /// List the checkpoints of a session
    #[command(after_help = "Examples:\n  shellkeep checkpoints ls demo\n  shellkeep checkpoints ls demo --limit 20")]
    Ls {
        /// The session
        session: String,
        /// Only those after this number
        #[arg(long, value_name = "SEQ")]
        after: Option<u64>,
        /// Maximum number to print
        #[arg(long, value_name = "N")]
        limit: Option<usize>,
    },
    /// Show a checkpoint and which files it changed
    #[command(after_help = "Example:\n  shellkeep checkpoints show demo tool_bash_20261115T183000.123456Z")]
    Show {
        /// The session
        session: String,
        /// The checkpoint
        #[arg(value_name = "C", allow_negative_numbers = true)]
        checkpoint: String,
    },
    /// Save the files as they are now
    #[command(after_help = "Prints the checkpoint's id, or says that nothing has changed since the last one.

Example:
  shellkeep checkpoints save demo")]
    Save {
        /// The session
        session: String,
    },
    /// Show how much disk space checkpoints use
    #[command(
        after_help = "With --thin, old ones are pruned first: all of the newest are kept (checkpoints.keep_all), of older ones one per hour,
and after a day one per day.

Examples:
  shellkeep checkpoints du
  shellkeep checkpoints du demo --thin"
    )]
    Du {
        /// The session [default: all]
        session: Option<String>,
        /// Prune old ones
        #[arg(long)]
        thin: bool,
    },
    /// List when a file or directory changed, and by which command
    #[command(after_help = "Example:\n  shellkeep checkpoints history demo src/main.rs")]
    History {
        /// The session
        session: String,
        /// The file or directory
        path: OsString,
    },
    /// Print a file as it was
    #[command(after_help = "Example:\n  shellkeep checkpoints cat demo r12 src/main.rs")]
    Cat {
        /// The session
        session: String,
        /// The checkpoint
        #[arg(value_name = "C", allow_negative_numbers = true)]
        checkpoint: String,
        /// The file
        path: OsString,
    },
}

pub fn execute(args: CheckpointsArgs) -> Result<ExitCode, Failure> {
    client::block_on(act(args))
}

async fn act(args: CheckpointsArgs) -> Result<ExitCode, Failure> {
    let CheckpointsArgs { action, session, after, limit, client: ClientArgs { json, daemon } } = args;
    let action = action.unwrap_or(Action::Ls { session: session.unwrap_or_default(), after: None, limit: None });
    let mut client = Client::open(&daemon).await?;
    let client = &mut client;
    match action {
        Action::Ls { session, after: from, limit: most } => {
            list(client, &session, from.unwrap_or(after), most.or(limit).unwrap_or(usize::MAX), json).await?;
        }
        Action::Show { session, checkpoint } => {
            let path = of_session(&session, &format!("checkpoints/{}", escaped(&checkpoint)))?;
            let detail: CheckpointDetail = terminal::patiently("comparing", client.get(&path)).await?;
            if json { terminal::json(&detail)? } else { show::detail(&detail) }
        }
        Action::Save { session } => save(client, &session, json).await?,
        Action::Du { session, thin } => {
            let before = if thin { usage::Before::Thin } else { usage::Before::Nothing };
            usage::show(client, session.as_deref(), before, json).await?;
        }
        Action::History { session, path } => {
            let path = of_session(&session, &format!("files/history?{}", path_parameter(&path)))?;
            let history: FileHistory = terminal::patiently("looking", client.get(&path)).await?;
            if json { terminal::json(&history)? } else { show::history(history.changes) }
        }
        Action::Cat { session, checkpoint, path } => cat(client, &session, &checkpoint, &path).await?,
    }
    Ok(ExitCode::SUCCESS)
}

async fn list(client: &mut Client, session: &str, after: u64, limit: usize, json: bool) -> Result<(), Failure> {
    let reading = async {
        let (mut checkpoints, mut next, mut current) = (Vec::new(), Some(after), None);
        while let (Some(after), true) = (next, checkpoints.len() < limit) {
            let count = PAGE.min(limit - checkpoints.len());
            let path = of_session(session, &format!("checkpoints?after={after}&limit={count}"))?;
            let page: CheckpointList = client.get(&path).await?;
            checkpoints.extend(page.checkpoints);
            (next, current) = (page.next, page.current);
        }
        Ok::<_, Failure>(CheckpointList { checkpoints, next, current })
    };
    let list = terminal::patiently("reading", reading).await?;
    if json {
        return terminal::json(&list);
    }
    let is_empty = list.checkpoints.is_empty();
    show::table(list.checkpoints, list.current.as_deref());
    if is_empty && terminal::is_terminal() {
        let session: Session = client.get(&paths::session(session)?).await?;
        terminal::notice(&format!(
            "no checkpoints yet: they cover only its workspace, {}, and it works in {}",
            session.workspace, session.cwd
        ));
    }
    Ok(())
}

async fn save(client: &mut Client, session: &str, json: bool) -> Result<(), Failure> {
    let (path, nothing) = (of_session(session, "checkpoints")?, json!({}));
    let saving = client.post::<_, Option<Checkpoint>>(&path, &nothing);
    let saved = terminal::patiently("keeping the files", saving).await?;
    if json {
        return terminal::json(&json!({"checkpoint": saved}));
    }
    match saved {
        Some(checkpoint) => {
            terminal::line(&checkpoint.checkpoint_id);
            show::what_is_missing(&checkpoint);
        }
        None => terminal::notice("nothing has changed since the last checkpoint"),
    }
    Ok(())
}

async fn cat(client: &mut Client, session: &str, checkpoint: &str, path: &OsStr) -> Result<(), Failure> {
    let rest = format!("checkpoints/{}/file?{}", escaped(checkpoint), path_parameter(path));
    let mut body = client.get_body(&of_session(session, &rest)?).await?;
    let broken = |error| Failure::client(format!("the response was cut off: {error}"));
    while let Some(frame) = body.frame().await {
        if let Ok(bytes) = frame.map_err(broken)?.into_data()
            && !terminal::bytes(&bytes)?
        {
            break;
        }
    }
    Ok(())
}
