//! `shellkeep runs`: the commands that ran in a session, and control of those that still run.

mod control;
mod output;
pub mod show;
mod wait;
mod which;

use super::files::of_session;
use crate::cli::DaemonArgs;
use crate::client::{self, Client};
use crate::failure::Failure;
use crate::terminal;
use clap::{Args, Subcommand};
use shellkeep_protocol::{RunDetail, RunList};
use std::process::ExitCode;
use which::RunArgs;

/// Runs asked for at a time.
const PAGE: usize = 1000;
/// How many runs are listed by default.
const LISTED: usize = 20;

/// Arguments of `runs`.
#[derive(Debug, Args)]
#[command(
    after_help = "A run is one command in one session. `shellkeep run --no-wait` prints its id; a command that moved to the background at its timeout keeps it.

Examples:
  shellkeep runs ls demo
  id=$(shellkeep run -s demo --no-wait -- 'make all')
  shellkeep runs output demo $id -f
  shellkeep runs wait demo $id
  shellkeep runs signal demo $id

Exit codes: 0 done, 1 not done (no such session or run, it has ended, no daemon), 2 wrong usage; `wait` exits with the run's own."
)]
pub struct RunsArgs {
    #[command(subcommand)]
    action: Action,
    /// Print JSON
    #[arg(long, global = true)]
    json: bool,
    #[command(flatten)]
    daemon: DaemonArgs,
}

/// What to do with runs.
#[derive(Debug, Subcommand)]
enum Action {
    /// List the runs of a session, newest first
    #[command(after_help = "Examples:
  shellkeep runs ls demo
  shellkeep runs ls demo --limit 1000 --before r5000
  shellkeep runs ls demo --json | jq -r '.runs[] | select(.exit_code != 0) | .run_id'

See also `shellkeep log`, which shows the files that each command changed.")]
    Ls {
        /// The session
        #[arg(value_name = "SESSION", required_unless_present = "named")]
        session: Option<String>,
        /// The session
        #[arg(short = 's', long = "session", value_name = "NAME", conflicts_with = "session")]
        named: Option<String>,
        /// Maximum number to list
        #[arg(long, value_name = "N", default_value_t = LISTED)]
        limit: usize,
        /// Only runs that started before this one
        #[arg(long, value_name = "RUN")]
        before: Option<String>,
    },
    /// Show one run: its command, how it ended, how much it wrote
    #[command(after_help = "Example:\n  shellkeep runs show demo r12")]
    Show {
        #[command(flatten)]
        run: RunArgs,
    },
    /// Wait for a run to end and exit with its exit code
    Wait(wait::WaitArgs),
    /// Print what a run wrote, or follow it
    Output(output::OutputArgs),
    /// Send input to a run that was started with --no-wait
    Input(control::InputArgs),
    /// Send a signal to a run's processes
    Signal(control::SignalArgs),
}

pub fn execute(args: RunsArgs) -> Result<ExitCode, Failure> {
    client::block_on(act(args))
}

async fn act(args: RunsArgs) -> Result<ExitCode, Failure> {
    let RunsArgs { action, json, daemon } = args;
    match action {
        Action::Ls { session, named, limit, before } => {
            let session = session.or(named).unwrap_or_default();
            let mut client = Client::open(&daemon).await?;
            let list = list(&mut client, &session, limit, before).await?;
            if json {
                terminal::json(&list)?
            } else {
                show::table(list)
            }
            Ok(ExitCode::SUCCESS)
        }
        Action::Show { run } => {
            let path = run.path()?;
            let detail: RunDetail = Client::open(&daemon).await?.get(&format!("{path}?max_output=0")).await?;
            if json {
                terminal::json(&detail)?
            } else {
                show::detail(&detail)
            }
            Ok(ExitCode::SUCCESS)
        }
        Action::Wait(args) => wait::wait(&daemon, args, json).await,
        Action::Output(args) => output::output(&daemon, args, json).await,
        Action::Input(args) => control::input(&daemon, args, json).await,
        Action::Signal(args) => control::signal(&daemon, args, json).await,
    }
}

/// The newest runs of a session, in as many pages as they take.
pub async fn list(
    client: &mut Client,
    session: &str,
    limit: usize,
    before: Option<String>,
) -> Result<RunList, Failure> {
    let mut list = RunList { runs: Vec::new(), next: before };
    loop {
        let count = PAGE.min(limit - list.runs.len());
        let before = list.next.as_deref().map(|run| format!("&before={}", client::escaped(run))).unwrap_or_default();
        let page: RunList = client.get(&of_session(session, &format!("runs?limit={count}{before}"))?).await?;
        list.runs.extend(page.runs);
        list.next = page.next;
        if list.next.is_none() || list.runs.len() >= limit {
            return Ok(list);
        }
    }
}
