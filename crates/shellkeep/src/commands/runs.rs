//! `shellkeep runs`: the commands that ran, and control of those that still run.

mod control;
mod list;
mod output;
pub mod show;
mod wait;
mod which;

pub use list::{Wanted, list};

use crate::cli::ClientArgs;
use crate::client::{self, Client};
use crate::failure::Failure;
use crate::terminal;
use clap::{Args, Subcommand};
use shellkeep_protocol::RunDetail;
use std::process::ExitCode;
use which::WhichRun;

/// Arguments of `runs`.
#[derive(Debug, Args)]
#[command(
    after_help = "A run is one command in one session. `shellkeep run --no-wait` prints its id; a command that moved to the background at its timeout keeps it.

Examples:
  shellkeep runs ls
  shellkeep runs ls demo --failed
  id=$(shellkeep run -s demo --no-wait -- 'make all')
  shellkeep runs output demo $id -f
  shellkeep runs wait demo $id
  shellkeep runs signal demo $id

Exit codes: 0 done, 1 not done (no such session or run, it has ended, no daemon), 2 wrong usage.

`wait` exits with the run's own exit code."
)]
pub struct RunsArgs {
    #[command(subcommand)]
    action: Action,
    #[command(flatten)]
    client: ClientArgs,
}

/// What to do with runs.
#[derive(Debug, Subcommand)]
enum Action {
    /// List runs, newest first: of a session, or of all sessions
    Ls(list::ListArgs),
    /// Show one run: its command, how it ended, how much it wrote
    #[command(after_help = "Example:\n  shellkeep runs show demo r12")]
    Show {
        #[command(flatten)]
        run: WhichRun,
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
    let RunsArgs { action, client: ClientArgs { json, daemon } } = args;
    match action {
        Action::Ls(args) => list::show(&daemon, args, json).await,
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
