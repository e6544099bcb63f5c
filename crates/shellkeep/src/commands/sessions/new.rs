//! `shellkeep sessions new`: creates a session, optionally with an agent.

use crate::client::session::{other_workspace, similar_exists};
use crate::client::{Client, ClientError};
use crate::failure::Failure;
use crate::{cli, terminal};
use clap::{Args, ValueHint};
use serde_json::{Map, Value, json};
use shellkeep_protocol::{CreateSessionRequest, SandboxName, Session};
use shellkeep_session::SessionId;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// Arguments of `sessions new`.
#[derive(Debug, Args)]
pub struct NewArgs {
    /// Its name [default: a UUID]
    id: Option<String>,
    /// The agent it belongs to
    #[arg(long)]
    agent: Option<String>,
    /// Where its shell starts [default: its own directory]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    cwd: Option<PathBuf>,
    /// Save the files of this directory, and start there [default: its own directory]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    workspace: Option<PathBuf>,
    /// Exported variable; without a value, it is copied from this environment; may be repeated
    #[arg(long = "env", value_name = "NAME[=VALUE]", value_parser = cli::variable)]
    env: Vec<(String, String)>,
    /// A JSON file with its config; `-` is standard input
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    config: Option<PathBuf>,
    /// How far its commands are confined: none, user, fence, room [default: as the daemon is configured]
    #[arg(long, value_name = "SANDBOX", value_parser = cli::sandbox)]
    sandbox: Option<SandboxName>,
    /// A secret of the daemon's settings that its commands get as a variable; may be repeated
    #[arg(long = "secret", value_name = "NAME")]
    secrets: Vec<String>,
    /// Its agent: a program with its arguments; `shellkeep resume` runs it
    #[arg(last = true, value_name = "PROGRAM")]
    program: Vec<String>,
}

/// Creates it. An existing session must have the requested workspace and agent; everything else applies only to a new
/// session.
pub async fn create(client: &mut Client, args: NewArgs) -> Result<Session, Failure> {
    let (workspace, agent) = (args.workspace.clone(), args.agent.clone());
    let is_for_new = args.cwd.is_some() || !args.env.is_empty() || args.config.is_some() || !args.program.is_empty();
    let found = match &args.id {
        Some(id) => existing(client, id).await?,
        None => Found::None { similar: None },
    };
    let before = match found {
        Found::Session(session) => *session,
        Found::None { similar } => {
            let session: Session = client.post("/v1/sessions", &request(args)?).await?;
            if let Some(close) = similar {
                similar_exists(&session.session_id, &close, client.flags());
            }
            return Ok(session);
        }
    };
    if let Some(failure) = workspace.and_then(|wanted| other_workspace(&before, &wanted, client.flags())) {
        return Err(failure);
    }
    let name = &before.session_id;
    if agent.is_some() && agent != before.agent {
        let owner = before.agent.as_ref().map_or_else(|| "no agent".to_owned(), |agent| format!("agent '{agent}'"));
        return Err(Failure::client(format!("session '{name}' exists and belongs to {owner}; choose another name")));
    }
    let ignored = if is_for_new { "; --cwd, --env, --config and a program are for a new session only" } else { "" };
    terminal::notice(&format!("session '{name}' exists; nothing was changed{ignored}"));
    Ok(before)
}

/// What there is of a name.
enum Found {
    Session(Box<Session>),
    None { similar: Option<String> },
}

async fn existing(client: &mut Client, id: &str) -> Result<Found, Failure> {
    let id = SessionId::parse(id).map_err(Failure::client)?;
    match client.get(&format!("/v1/sessions/{id}")).await {
        Ok(session) => Ok(Found::Session(Box::new(session))),
        Err(ClientError::Refused(refused)) if refused.problem.code == "session_not_found" => {
            Ok(Found::None { similar: refused.meant().map(str::to_owned) })
        }
        Err(error) => Err(error.into()),
    }
}

fn request(args: NewArgs) -> Result<CreateSessionRequest, Failure> {
    let mut config = args.config.as_deref().map(read).transpose()?;
    if !args.program.is_empty() {
        let agent = config.get_or_insert_default().entry("agent").or_insert_with(|| json!({}));
        let Value::Object(agent) = agent else {
            return Err(Failure::client("--config: \"agent\" is not an object"));
        };
        agent.insert("command".to_owned(), args.program.into());
    }
    if let Some(workspace) = args.workspace.as_deref() {
        config.get_or_insert_default().insert("workspace".to_owned(), cli::directory("--workspace", workspace)?.into());
    }
    Ok(CreateSessionRequest {
        agent: args.agent,
        session_id: args.id,
        user_id: None,
        cwd: args.cwd.as_deref().map(|cwd| cli::directory("--cwd", cwd)).transpose()?,
        env: (!args.env.is_empty()).then(|| args.env.into_iter().collect()),
        config,
        sandbox: args.sandbox,
        secrets: (!args.secrets.is_empty()).then_some(args.secrets),
    })
}

fn read(path: &Path) -> Result<Map<String, Value>, Failure> {
    let unreadable = |error: &dyn std::fmt::Display| Failure::client(format!("--config {}: {error}", path.display()));
    let mut text = String::new();
    let read = match path.to_str() {
        Some("-") => std::io::stdin().lock().read_to_string(&mut text),
        _ => std::fs::File::open(path).and_then(|mut file| file.read_to_string(&mut text)),
    };
    read.map_err(|error| unreadable(&error))?;
    serde_json::from_str(&text).map_err(|error| unreadable(&error))
}
