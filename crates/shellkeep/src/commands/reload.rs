//! `shellkeep reload`: makes the daemon read its configuration file again.

use crate::cli::ClientArgs;
use crate::client::{self, Client};
use crate::failure::Failure;
use crate::terminal;
use clap::Args;
use serde_json::json;
use shellkeep_protocol::{ChangedSetting, Reloaded};
use std::process::ExitCode;

/// Arguments of `reload`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  shellkeep reload
  shellkeep reload --json | jq -r '.needs_restart[].name'

Quotas, log and stop_grace change immediately. Everything else needs `shellkeep restart`. An invalid configuration
changes nothing. SIGHUP does the same.

Exit codes: 0 done, 1 the configuration is invalid or no daemon is running, 2 wrong usage.")]
pub struct ReloadArgs {
    #[command(flatten)]
    client: ClientArgs,
}

pub fn execute(args: ReloadArgs) -> Result<ExitCode, Failure> {
    client::block_on(async {
        let Some(mut client) = Client::running(&args.client.daemon).await? else {
            return Err(Failure::client("no daemon is running; the next one reads the configuration when it starts"));
        };
        let reloaded: Reloaded = client.post("/v1/daemon/reload", &json!({})).await?;
        if args.client.json {
            terminal::json(&reloaded)?;
            return Ok(ExitCode::SUCCESS);
        }
        if reloaded.changed.is_empty() && reloaded.needs_restart.is_empty() {
            terminal::line("nothing changed");
        }
        reloaded.changed.iter().for_each(|setting| print("changed", setting));
        reloaded.needs_restart.iter().for_each(|setting| print("needs a restart", setting));
        if !reloaded.needs_restart.is_empty() {
            terminal::notice(&format!("restart the daemon with `shellkeep restart{}`", args.client.daemon.as_flags()));
        }
        Ok(ExitCode::SUCCESS)
    })
}

fn print(what: &str, setting: &ChangedSetting) {
    let ChangedSetting { name, from, to } = setting;
    terminal::line(terminal::harmless(&format!("{what}: {name} from {from} to {to}")));
}
