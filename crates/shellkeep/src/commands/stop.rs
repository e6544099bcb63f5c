//! `shellkeep stop`: stops the daemon and waits for its end.

use crate::cli::DaemonArgs;
use crate::client::{self, Client, ending};
use crate::failure::Failure;
use crate::terminal;
use clap::Args;
use serde_json::json;
use shellkeep_protocol::{StopRequest, Stopping};
use shellkeep_terminal::words::counted;
use std::process::ExitCode;

/// Arguments of `stop`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  shellkeep stop
  shellkeep stop --now

The daemon refuses new commands and lets running ones finish for stop_grace (10s if the configuration does not say
otherwise). What still runs then is ended, and its caller gets a notice. Every session is saved. Services keep running,
and the next daemon takes them over, unless services_on_stop says otherwise.

Exit codes: 0 no daemon runs now, 1 it could not be stopped, 2 wrong usage.")]
pub struct StopArgs {
    /// Do not wait for running commands
    #[arg(long)]
    now: bool,
    #[command(flatten)]
    daemon: DaemonArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Does it.
pub fn execute(args: StopArgs) -> Result<ExitCode, Failure> {
    client::block_on(async {
        let Some(mut client) = Client::running(&args.daemon).await? else {
            return done(&args, false, "no daemon runs".to_owned());
        };
        let order = StopRequest { now: args.now, restart: false };
        let stopping: Stopping = client.post("/v1/daemon/stop", &order).await?;
        tell(&stopping);
        terminal::patiently("stopping the daemon", ending::of(&client, &stopping)).await?;
        done(&args, true, format!("stopped (pid {})", stopping.pid))
    })
}

/// Says that commands are waited for, if there are any.
pub fn tell(stopping: &Stopping) {
    if stopping.running > 0 && stopping.grace > 0.0 {
        let (commands, grace) = (counted(stopping.running, "command"), stopping.grace);
        terminal::notice(&format!("waiting up to {grace} s for {commands} to finish; with --now it does not wait"));
    }
}

fn done(args: &StopArgs, stopped: bool, words: String) -> Result<ExitCode, Failure> {
    if args.json {
        terminal::json(&json!({"stopped": stopped}))?;
    } else {
        terminal::line(words);
    }
    Ok(ExitCode::SUCCESS)
}
