//! `shellkeep mcp`: MCP on stdio. Carries messages between the client and the daemon, which does everything else, so
//! that stdio and HTTP share one implementation.

mod envelope;
mod relay;
mod words;

use crate::cli::{self, DaemonArgs};
use crate::client::pipe::Pipe;
use crate::client::session::{Keeps, similar_exists, tell_elsewhere};
use crate::client::{self, Client, ClientError};
use crate::failure::Failure;
use crate::terminal;
use clap::{Args, ValueEnum};
use relay::Disconnected;
use shellkeep_protocol::{CreateSessionRequest, STDIO_PROTOCOL, Session};
use shellkeep_session::SessionId;
use std::io::{self, IsTerminal as _};
use std::process::ExitCode;
use std::time::Duration;
use tokio::time::Instant;

/// How long to wait for a daemon that was lost to be back before one is started: a supervisor starts it again, with the
/// flags that it should have. The unit in `deploy/systemd` waits for two seconds.
const RETURN: Duration = Duration::from_secs(3);
/// How long to try to reach a daemon again before the client's message is answered with an error. Clients wait for an
/// answer for about a minute.
const PATIENCE: Duration = Duration::from_secs(30);
/// The pause between two attempts. There is no event when a daemon is ready.
const PAUSE: Duration = Duration::from_millis(100);

/// Arguments of `mcp`.
#[derive(Debug, Args)]
#[command(after_help = "Example, for the settings of an MCP client; docs/mcp.md has more:
  {\"command\": \"shellkeep\", \"args\": [\"mcp\"]}

Without -s, the session's name is derived from the client's name and the current directory, so that the same project
gets the same shell again, and the session saves the files of that project, as with `shellkeep run`. A second window
of the same project gets its own session. The name is in the instructions that the client receives, and in `shellkeep
sessions ls`. A command keeps running when the client disconnects. When the daemon restarts or crashes, the client's
next request connects again, to the same session.

Exit codes: 0 the client closed the connection, 1 the daemon could not be reached at first, 2 wrong usage.")]
pub struct McpArgs {
    /// The session [default: one for the client and this directory]
    #[arg(short, long, value_name = "NAME")]
    session: Option<String>,
    /// Exported variable of a new session; without a value, it is copied from this environment; may be repeated
    #[arg(long = "env", value_name = "NAME[=VALUE]", value_parser = cli::variable, requires = "session")]
    env: Vec<(String, String)>,
    /// Do not save the files of the current project in a new session
    #[arg(long)]
    no_workspace: bool,
    /// Which tools to offer
    #[arg(long, value_name = "SET", default_value = "default")]
    toolset: ToolsetName,
    #[command(flatten)]
    daemon: DaemonArgs,
}

/// A set of tools.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum ToolsetName {
    /// run_command, start_service, stop_service, list_services, read_output, send_input, signal, list_checkpoints, diff,
    /// rewind
    Default,
    /// The same with run_command{tty}, read_screen and send_keys, for programs such as editors
    Terminal,
    /// The classic bash{command, restart}
    Bash,
}

pub fn execute(args: McpArgs) -> Result<ExitCode, Failure> {
    let pipe = client::block_on(open(&args))?;
    if io::stdin().is_terminal() && io::stderr().is_terminal() {
        introduce(&args);
    }
    relay::run(pipe, move |lost| client::block_on(open_again(&args, &lost)))
}

/// Tells a person who started this by hand what it is for.
fn introduce(args: &McpArgs) {
    let session = args.session.as_ref().map(|session| format!(" -s {session}")).unwrap_or_default();
    let (tools, toolset) = match args.toolset {
        ToolsetName::Default => ("run_command, read_output, start_service and others", ""),
        ToolsetName::Terminal => ("run_command, read_screen, send_keys and others", " --toolset terminal"),
        ToolsetName::Bash => ("bash", " --toolset bash"),
    };
    terminal::notice(&format!(
        "this is an MCP server with the tools {tools}; it waits for a client on stdin. Ctrl-D ends it. To add it to a \
            client:\n  claude mcp add shellkeep -- shellkeep mcp{session}{toolset}{}\nFor other clients see docs/mcp.md, \
            or put this command into their settings",
        args.daemon.as_flags()
    ));
}

async fn open(args: &McpArgs) -> Result<Pipe, Failure> {
    let query = query(args)?;
    let mut client = Client::open(&args.daemon).await?;
    if let Some(session) = &args.session {
        warn_of_similar(&mut client, session).await?;
    }
    let project = project(args, &client);
    if !args.env.is_empty() {
        make_session(&mut client, args, project.clone()).await?;
    }
    Ok(pipe(&client, query, project).await?)
}

/// Opens a connection in place of a lost one, as soon as there is a daemon.
async fn open_again(args: &McpArgs, lost: &Disconnected) -> Result<Pipe, Failure> {
    let mut query = query(args)?;
    if let Some(session) = &lost.session {
        query.push(format!("again={}", encode(session)));
    }
    let began = Instant::now();
    loop {
        let found = match Client::running(&args.daemon).await {
            Ok(None) if lost.at.elapsed() >= RETURN => Client::open(&args.daemon).await.map(Some),
            found => found,
        };
        let failure = match found {
            Ok(Some(client)) => match pipe(&client, query.clone(), project(args, &client)).await {
                Err(ClientError::Broken(broken)) => Failure::client(broken),
                done => return Ok(done?),
            },
            Ok(None) => Failure::client("no daemon is running"),
            Err(failure) => failure,
        };
        if began.elapsed() >= PATIENCE {
            return Err(failure);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// What the daemon must know of the client, as parameters.
fn query(args: &McpArgs) -> Result<Vec<String>, Failure> {
    let mut query = vec![match args.toolset {
        ToolsetName::Default => "toolset=default".to_owned(),
        ToolsetName::Terminal => "toolset=terminal".to_owned(),
        ToolsetName::Bash => "toolset=bash".to_owned(),
    }];
    if let Some(session) = &args.session {
        let session = SessionId::parse(session).map_err(|error| Failure::start(format!("--session: {error}")))?;
        query.push(format!("session={}", encode(session.as_str())));
    }
    if let Some(here) = std::env::current_dir().ok().and_then(|here| here.into_os_string().into_string().ok()) {
        query.push(format!("cwd={}", encode(&here)));
    }
    Ok(query)
}

fn project(args: &McpArgs, client: &Client) -> Option<String> {
    if args.no_workspace { None } else { client.project() }
}

async fn pipe(client: &Client, mut query: Vec<String>, project: Option<String>) -> Result<Pipe, ClientError> {
    query.extend(project.map(|project| format!("workspace={}", encode(&project))));
    client.pipe(&format!("/v1/mcp/stdio?{}", query.join("&")), STDIO_PROTOCOL).await
}

/// Says on stderr, which an MCP client logs, that the session will be new and that another has nearly its name.
async fn warn_of_similar(client: &mut Client, session: &str) -> Result<(), Failure> {
    match client.get::<Session>(&format!("/v1/sessions/{session}")).await {
        Err(ClientError::Refused(refused)) if refused.problem.code == "session_not_found" => {
            if let Some(close) = refused.meant() {
                similar_exists(session, close, client.flags());
            }
            Ok(())
        }
        found => found.map(drop).map_err(Failure::from),
    }
}

/// Creates the session with its variables, unless it exists. They go into a body and not into the URL, which may be
/// logged.
async fn make_session(client: &mut Client, args: &McpArgs, project: Option<String>) -> Result<(), Failure> {
    let here = std::env::current_dir().ok().and_then(|here| here.into_os_string().into_string().ok());
    let request = CreateSessionRequest {
        agent: None,
        session_id: args.session.clone(),
        user_id: None,
        cwd: here,
        env: Some(args.env.iter().cloned().collect()),
        config: None,
        sandbox: None,
        secrets: None,
    };
    if let Keeps::OwnDirectory(directory) = client.create_in(project, &request).await? {
        tell_elsewhere(args.session.as_deref().unwrap_or_default(), &request, &directory);
    }
    Ok(())
}

/// A value in a query: percent-encodes everything but unreserved characters.
fn encode(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~' | b'/');
    text.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_fits_into_a_query() {
        assert_eq!(encode("/home/ann/my project+é&x=1"), "/home/ann/my%20project%2B%C3%A9%26x%3D1");
    }
}
