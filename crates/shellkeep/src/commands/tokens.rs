//! `shellkeep tokens`: creates, lists and revokes tokens of agents, auditors and metrics.

use crate::cli::DaemonArgs;
use crate::client::{self, Client, paths};
use crate::failure::Failure;
use crate::terminal::{self, Cell, Column, Table, TableArgs};
use clap::{Args, Subcommand, ValueEnum};
use shellkeep_protocol::{CreateTokenRequest, IssuedToken, TokenInfo, TokenList, TokenRole};
use std::io::IsTerminal as _;
use std::process::ExitCode;

/// Arguments of `tokens`.
#[derive(Debug, Args)]
#[command(
    after_help = "An agent with a token can see and use only its own sessions. Its session `x` has the id `thread_AGENT_x`, and it may
use either name. A token is shown once, when it is created; the daemon keeps its hash. The agent passes it in
SHELLKEEP_TOKEN or as `Authorization: Bearer TOKEN`, over TCP or over the socket. With the role auditor, a token
reads everything of all sessions and changes nothing; with the role metrics, it reads /metrics, /healthz and /readyz.
Without a subcommand, lists the tokens.

Examples:
  shellkeep tokens new --agent builder --name laptop
  SHELLKEEP_TOKEN=$(shellkeep tokens new --agent builder) my-agent
  shellkeep tokens
  shellkeep tokens revoke tok_5h2kQx1vT0A

Exit codes: 0 done, 1 not done (no such token, not the host, no daemon), 2 wrong usage."
)]
pub struct TokensArgs {
    #[command(subcommand)]
    action: Option<Action>,
    /// Print JSON
    #[arg(long, global = true)]
    json: bool,
    #[command(flatten)]
    table: TableArgs,
    #[command(flatten)]
    daemon: DaemonArgs,
}

/// What to do with tokens.
#[derive(Debug, Subcommand)]
enum Action {
    /// Create a token and print it; it is shown only this once
    #[command(
        alias = "create",
        after_help = "Examples:\n  shellkeep tokens new --agent builder --name 'ci of main' --may-restart\n  shellkeep tokens new --role auditor --name 'review of May'\n  shellkeep tokens new --role metrics > /etc/prometheus/shellkeep.token"
    )]
    New {
        /// What it may do
        #[arg(long, value_name = "ROLE", default_value = "agent")]
        role: Role,
        /// The agent it is for
        #[arg(long, required_if_eq("role", "agent"))]
        agent: Option<String>,
        /// A label for you
        #[arg(long)]
        name: Option<String>,
        /// Let it restart its sessions [default: the daemon's agent_may_restart]
        #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
        may_restart: Option<bool>,
    },
    /// List tokens, including recently revoked ones
    #[command(
        after_help = "Example:\n  shellkeep tokens ls --json | jq -r '.tokens[] | select(.revoked_at == null).id'"
    )]
    Ls,
    /// Revoke tokens, effective immediately
    #[command(after_help = "Example:\n  shellkeep tokens revoke tok_5h2kQx1vT0A")]
    Revoke {
        /// The tokens' ids, as `ls` shows them
        #[arg(required = true, value_name = "ID")]
        ids: Vec<String>,
    },
}

/// What a token may do.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Role {
    /// See and use an agent's own sessions
    Agent,
    /// Read everything of all sessions, verify it, and change nothing
    Auditor,
    /// Read /metrics, /healthz and /readyz
    Metrics,
}

impl From<Role> for TokenRole {
    fn from(role: Role) -> Self {
        match role {
            Role::Agent => Self::Agent,
            Role::Auditor => Self::Auditor,
            Role::Metrics => Self::Metrics,
        }
    }
}

pub fn execute(args: TokensArgs) -> Result<ExitCode, Failure> {
    client::block_on(act(args))
}

async fn act(args: TokensArgs) -> Result<ExitCode, Failure> {
    let mut client = Client::open(&args.daemon).await?;
    match args.action.unwrap_or(Action::Ls) {
        Action::New { role, agent, name, may_restart } => {
            let request = CreateTokenRequest { role: Some(role.into()), agent, name, may_restart };
            show_new(&client.post("/v1/tokens", &request).await?, args.json)?;
        }
        Action::Ls => list(client.get("/v1/tokens").await?, args.table, args.json, client.flags())?,
        Action::Revoke { ids } => return revoke(&mut client, &ids).await,
    }
    Ok(ExitCode::SUCCESS)
}

/// Only the secret for a program, so that it can be assigned to a variable.
fn show_new(issued: &IssuedToken, json: bool) -> Result<(), Failure> {
    if json {
        return terminal::json(issued);
    }
    terminal::line(&issued.token);
    if std::io::stdout().is_terminal() {
        let TokenInfo { id, role, agent, .. } = &issued.info;
        let whose = match (role, agent) {
            (_, Some(agent)) => format!("of agent {agent}"),
            (TokenRole::Metrics, None) => "for metrics".to_owned(),
            (TokenRole::Watch | TokenRole::Act, None) => "for the console".to_owned(),
            (TokenRole::Agent | TokenRole::Auditor, None) => "for an auditor".to_owned(),
        };
        terminal::notice(&format!("this is {id} {whose}; save it now, it is not shown again"));
    }
    Ok(())
}

fn list(list: TokenList, table: TableArgs, json: bool, flags: &str) -> Result<(), Failure> {
    if json {
        return terminal::json(&list);
    }
    let columns = [
        Column::word("token"),
        Column::id("agent"),
        Column::text("name"),
        Column::text("rights"),
        Column::word("created"),
        Column::word("revoked"),
    ];
    let rows = list.tokens.into_iter().map(|token| {
        let rights = match token.role {
            TokenRole::Agent if token.may_restart => "own sessions, restart",
            TokenRole::Agent => "own sessions",
            TokenRole::Auditor => "read everything",
            TokenRole::Metrics => "read metrics",
            TokenRole::Watch => "console, watch",
            TokenRole::Act => "console, act",
        };
        [
            token.id.into(),
            Cell::or_dash(token.agent),
            Cell::or_dash(token.name),
            rights.into(),
            Cell::time(&token.created_at),
            token.revoked_at.map_or_else(Cell::dash, |at| Cell::time(&at)),
        ]
    });
    let when_empty = format!("no tokens; `shellkeep tokens new --agent NAME{flags}` creates one");
    terminal::show(&Table::new(columns, rows.collect()), table, &when_empty);
    Ok(())
}

/// Revokes each token, and reports those that could not be revoked.
async fn revoke(client: &mut Client, ids: &[String]) -> Result<ExitCode, Failure> {
    let mut code = ExitCode::SUCCESS;
    for token_id in ids {
        let path = format!("/v1/tokens/{}", paths::checked(token_id)?);
        if let Err(error) = client.delete::<()>(&path).await {
            terminal::notice(&error.to_string());
            code = ExitCode::FAILURE;
        }
    }
    Ok(code)
}
