//! `shellkeep sessions`: creates, lists, shows and ends sessions.

mod new;
mod show;

use crate::cli::DaemonArgs;
use crate::client::paths::{self, of_session};
use crate::client::{self, Client};
use crate::failure::Failure;
use crate::terminal::{self, TableArgs};
use clap::{Args, Subcommand};
use serde_json::json;
use shellkeep_protocol::{SandboxInForce, SandboxName, SandboxRequest, Session, SessionList, StateResponse};
use std::process::ExitCode;

/// Sessions asked for at a time.
const PAGE: usize = 1000;

/// Arguments of `sessions`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  shellkeep sessions ls --agent builder
  shellkeep sessions state demo --json | jq .env
  shellkeep sessions end demo
  shellkeep sessions rm demo
  shellkeep sessions ls --deleted

Exit codes: 0 done, 1 not done (no such session, no daemon), 2 wrong usage.")]
pub struct SessionsArgs {
    #[command(subcommand)]
    action: Action,
    /// Print JSON
    #[arg(long, global = true)]
    json: bool,
    #[command(flatten)]
    table: TableArgs,
    #[command(flatten)]
    daemon: DaemonArgs,
}

/// What to do with sessions.
#[derive(Debug, Subcommand)]
enum Action {
    /// Create a session
    #[command(
        after_help = "Examples:\n  shellkeep sessions new demo --cwd ~/project --env NAME=ann\n  shellkeep sessions \
            new demo --workspace ~/project      (its files are saved, and can be rewound)\n  shellkeep sessions new \
            notes -- python3 /opt/agents/counter.py"
    )]
    New(new::NewArgs),
    /// List sessions by name
    #[command(after_help = "Example:\n  shellkeep sessions ls --json | jq -r '.sessions[].session_id'")]
    Ls {
        /// Only this agent's
        #[arg(long)]
        agent: Option<String>,
        /// Sessions that agents deleted and whose recordings are kept
        #[arg(long, conflicts_with = "agent")]
        deleted: bool,
    },
    /// Show one session
    #[command(after_help = "Example:\n  shellkeep sessions show demo")]
    Show {
        /// The session
        id: String,
    },
    /// Show the state of a session's shell
    #[command(after_help = "Example:\n  shellkeep sessions state demo --json | jq .functions")]
    State {
        /// The session
        id: String,
    },
    /// Stop a session's services and drop its shell; keep the session and its files
    #[command(after_help = "Example:\n  shellkeep sessions end demo")]
    End {
        /// The session
        id: String,
    },
    /// Delete sessions, with their processes and files
    #[command(
        after_help = "When the host deletes a session, its recording is deleted too. When an agent deletes one, it is gone for the agent;
the host keeps its recording for record.keep_deleted (see `shellkeep sessions ls --deleted`) and can delete it by the name it
has there.

Example:\n  shellkeep sessions rm one two three"
    )]
    Rm {
        /// The sessions
        #[arg(required = true)]
        ids: Vec<String>,
    },
    /// Show how a session is confined, or confine it more tightly
    #[command(after_help = "Examples:\n  shellkeep sessions sandbox demo\n  shellkeep sessions sandbox demo fence")]
    Sandbox {
        /// The session
        id: String,
        /// The tighter sandbox: user, fence or room
        #[arg(value_parser = crate::cli::sandbox)]
        sandbox: Option<SandboxName>,
    },
    /// Drop a session's shell and keep the session
    #[command(after_help = "Example:\n  shellkeep sessions hibernate demo")]
    Hibernate {
        /// The session
        id: String,
    },
    /// Give a session a clean shell with its initial state
    #[command(after_help = "Example:\n  shellkeep sessions restart demo")]
    Restart {
        /// The session
        id: String,
    },
}

pub fn execute(args: SessionsArgs) -> Result<ExitCode, Failure> {
    client::block_on(act(args))
}

async fn act(args: SessionsArgs) -> Result<ExitCode, Failure> {
    let mut client = Client::open(&args.daemon).await?;
    match args.action {
        Action::New(wanted) => show(&new::create(&mut client, wanted).await?, args.json)?,
        Action::Ls { deleted: true, .. } => list_deleted(&mut client, args.table, args.json).await?,
        Action::Ls { agent, .. } => list(&mut client, agent.as_deref(), args.table, args.json).await?,
        Action::Show { id } => {
            let session: Session = client.get(&paths::session(&id)?).await?;
            match args.json || !terminal::is_terminal() {
                true => show(&session, args.json)?,
                false => show::session(&session, client.get(&of_session(&id, "sandbox")?).await.ok().as_ref())?,
            }
        }
        Action::State { id } => state(&client.get(&of_session(&id, "state")?).await?, args.json)?,
        Action::End { id } => {
            let (path, nothing) = (of_session(&id, "end")?, json!({}));
            let end = client.post(&path, &nothing);
            show(&terminal::patiently("stopping its services", end).await?, args.json)?;
        }
        Action::Sandbox { id, sandbox: None } => sandbox(&client.get(&of_session(&id, "sandbox")?).await?, args.json)?,
        Action::Sandbox { id, sandbox: Some(wanted) } => {
            let request = SandboxRequest { sandbox: wanted };
            sandbox(&client.put(&of_session(&id, "sandbox")?, &request).await?, args.json)?;
        }
        Action::Rm { ids } => return remove(&mut client, &ids).await,
        Action::Hibernate { id } => show(&client.post(&of_session(&id, "hibernate")?, &json!({})).await?, args.json)?,
        Action::Restart { id } => show(&client.post(&of_session(&id, "restart")?, &json!({})).await?, args.json)?,
    }
    Ok(ExitCode::SUCCESS)
}

async fn list(client: &mut Client, agent: Option<&str>, table: TableArgs, json: bool) -> Result<(), Failure> {
    let mut path = format!("/v1/sessions?limit={PAGE}");
    if let Some(agent) = agent {
        shellkeep_session::id::check(agent).map_err(|error| Failure::client(format!("--agent: {error}")))?;
        path.push_str("&agent=");
        path.push_str(agent);
    }
    let mut sessions = Vec::new();
    let mut next: Option<String> = None;
    loop {
        let after = next.map_or_else(String::new, |after| format!("&after={after}"));
        let page: SessionList = client.get(&format!("{path}{after}")).await?;
        sessions.extend(page.sessions);
        next = page.next;
        if next.is_none() {
            break;
        }
    }
    if json {
        return terminal::json(&SessionList { sessions, next: None });
    }
    show::table(sessions, table, client.flags());
    Ok(())
}

/// Sessions that agents deleted. Their names are those of recordings: `events`, `replay`, `export`, `verify` and `rm`
/// accept them.
async fn list_deleted(client: &mut Client, table: TableArgs, json: bool) -> Result<(), Failure> {
    let page: SessionList = client.get("/v1/sessions?deleted=true").await?;
    if json {
        return terminal::json(&page);
    }
    show::deleted(page.sessions, table);
    Ok(())
}

fn show(session: &Session, json: bool) -> Result<(), Failure> {
    if json { terminal::json(session) } else { show::session(session, None) }
}

fn sandbox(sandbox: &SandboxInForce, json: bool) -> Result<(), Failure> {
    if json { terminal::json(sandbox) } else { show::sandbox(sandbox) }
}

fn state(state: &StateResponse, json: bool) -> Result<(), Failure> {
    if json { terminal::json(state) } else { show::state(state) }
}

/// Deletes each session, and reports those that could not be deleted.
async fn remove(client: &mut Client, ids: &[String]) -> Result<ExitCode, Failure> {
    let mut code = ExitCode::SUCCESS;
    for id in ids {
        if let Err(error) = client.delete::<()>(&paths::session(id)?).await {
            terminal::notice(&error.to_string());
            code = ExitCode::FAILURE;
        }
    }
    Ok(code)
}
