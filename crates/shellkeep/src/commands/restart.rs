//! `shellkeep restart`: restarts the daemon with the same flags and environment.

use super::stop;
use crate::cli::ClientArgs;
use crate::client::{self, Client, ending};
use crate::failure::Failure;
use crate::terminal;
use clap::Args;
use shellkeep_protocol::{DaemonStatus, StopRequest, Stopping};
use std::process::ExitCode;

/// Arguments of `restart`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  shellkeep restart            after an upgrade, or a configuration change that needs it
  shellkeep restart --now

Stops the daemon like `shellkeep stop`, then starts the program that is now at its path in the same process, with the
same flags and environment. Sessions and services are kept. With an invalid configuration the daemon is not stopped.
Nor is it stopped while it has records that a full disk cannot store, unless --now is given. If no daemon
is running, one is started.

Exit codes: 0 a daemon is running, 1 it could not be restarted, 2 wrong usage.")]
pub struct RestartArgs {
    /// Do not wait for running commands, and discard records that the disk cannot store
    #[arg(long)]
    now: bool,
    #[command(flatten)]
    client: ClientArgs,
}

pub fn execute(args: RestartArgs) -> Result<ExitCode, Failure> {
    client::block_on(async {
        let (did, status): (_, DaemonStatus) = match Client::running(&args.client.daemon).await? {
            None => ("started", Client::open(&args.client.daemon).await?.get("/v1/daemon").await?),
            Some(mut client) => {
                let before: DaemonStatus = client.get("/v1/daemon").await?;
                let process = ending::process(&client, before.pid);
                let order = StopRequest { now: args.now, restart: true };
                let stopping: Stopping = client.post("/v1/daemon/stop", &order).await?;
                stop::tell(&stopping);
                let next = ending::next_daemon(&client, &before, &stopping, process);
                ("restarted", terminal::patiently("restarting the daemon", next).await?)
            }
        };
        if args.client.json {
            terminal::json(&status)?;
        } else {
            terminal::line(format!("{did} (pid {}, version {})", status.pid, status.version));
        }
        Ok(ExitCode::SUCCESS)
    })
}
