//! `shellkeep stop`: stops the daemon and waits until it has exited.

use crate::cli::ClientArgs;
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

The daemon rejects new commands and lets running ones finish for stop_grace (default 10s). Commands still running after
that are killed, and their callers get a notice. Every session is saved. Services keep running, and the next daemon takes
them over, unless services_on_stop says otherwise.

A daemon whose disk is full keeps new records in memory. It refuses to stop while there are any, unless --now is given;
free some space, then try again.

Exit codes: 0 no daemon is running now, 1 it could not be stopped, 2 wrong usage.")]
pub struct StopArgs {
    /// Do not wait for running commands, and discard records that the disk cannot store
    #[arg(long)]
    now: bool,
    #[command(flatten)]
    client: ClientArgs,
}

pub fn execute(args: StopArgs) -> Result<ExitCode, Failure> {
    client::block_on(async {
        let Some(mut client) = Client::running(&args.client.daemon).await? else {
            return done(&args, false, "no daemon is running".to_owned());
        };
        let order = StopRequest { now: args.now, restart: false };
        let stopping: Stopping = client.post("/v1/daemon/stop", &order).await?;
        tell(&stopping);
        terminal::patiently("stopping the daemon", ending::of(&client, &stopping)).await?;
        done(&args, true, format!("stopped (pid {})", stopping.pid))
    })
}

/// Says that it waits for running commands, if there are any.
pub fn tell(stopping: &Stopping) {
    if stopping.running > 0 && stopping.grace > 0.0 {
        let (commands, grace) = (counted(stopping.running, "command"), stopping.grace);
        terminal::notice(&format!("waiting up to {grace} s for {commands} to finish; --now does not wait"));
    }
}

fn done(args: &StopArgs, stopped: bool, words: String) -> Result<ExitCode, Failure> {
    if args.client.json {
        terminal::json(&json!({"stopped": stopped}))?;
    } else {
        terminal::line(words);
    }
    Ok(ExitCode::SUCCESS)
}
