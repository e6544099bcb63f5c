//! `shellkeep agents`: ends agents.

use crate::cli::ClientArgs;
use crate::client::{self, Client, paths};
use crate::failure::Failure;
use crate::terminal;
use clap::{Args, Subcommand};
use serde_json::json;
use shellkeep_protocol::AgentEnded;
use shellkeep_terminal::words;
use std::process::ExitCode;

/// Arguments of `agents`.
#[derive(Debug, Args)]
#[command(
    after_help = "An agent owns sessions and tokens: it is their `agent`. Ending it stops its services and drops its shells. Its
sessions stay, with their state and files, until they are deleted or reclaimed; its tokens stay valid (revoke them
with `shellkeep tokens revoke`). Where several nodes share a store, it is ended on all of them.

Examples:
  shellkeep agents end builder

Exit codes: 0 done, 1 not done, or not on all nodes (not the host, no daemon, a node does not answer), 2 wrong usage."
)]
pub struct AgentsArgs {
    #[command(subcommand)]
    action: Action,
    #[command(flatten)]
    client: ClientArgs,
}

/// What to do with agents.
#[derive(Debug, Subcommand)]
enum Action {
    /// Stop an agent's services and drop its shells
    #[command(after_help = "Example:\n  shellkeep agents end builder")]
    End {
        /// The agent
        name: String,
    },
}

pub fn execute(args: AgentsArgs) -> Result<ExitCode, Failure> {
    client::block_on(act(args))
}

async fn act(args: AgentsArgs) -> Result<ExitCode, Failure> {
    let Action::End { name } = args.action;
    let path = format!("/v1/agents/{}/end", paths::checked(&name)?);
    let mut client = Client::open(&args.client.daemon).await?;
    let nothing = json!({});
    let end = client.post(&path, &nothing);
    let ended: AgentEnded = terminal::patiently("stopping its services", end).await?;
    let missing = ended.missing_nodes.join(", ");
    if args.client.json {
        terminal::json(&ended)?;
    } else {
        let [sessions, services] =
            [(ended.sessions, "session"), (ended.services, "service")].map(|(n, what)| words::counted(n, what));
        terminal::line(format!("{}: {sessions} ended, {services} stopped", ended.agent));
    }
    if missing.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    terminal::notice(&format!("{name} may go on where no answer came from: {missing}; repeat this when they answer"));
    Ok(ExitCode::FAILURE)
}
