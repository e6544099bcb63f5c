//! `shellkeep mcp`: MCP on stdio. Copies bytes between the client and the daemon, which does everything else, so that
//! stdio and HTTP share one implementation.

use crate::cli::{self, DaemonArgs};
use crate::client::pipe::{self, Pipe};
use crate::client::session::{Keeps, similar_exists, tell_elsewhere};
use crate::client::{self, Client, ClientError};
use crate::failure::Failure;
use crate::terminal;
use clap::{Args, ValueEnum};
use shellkeep_protocol::{CreateSessionRequest, STDIO_PROTOCOL, Session};
use shellkeep_session::SessionId;
use std::io::{self, IsTerminal as _, Read, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Bytes moved at once: a page of output with room for JSON.
const CHUNK: usize = 64 << 10;

/// Arguments of `mcp`.
#[derive(Debug, Args)]
#[command(after_help = "Example, for the settings of an MCP client; docs/mcp.md has more:
  {\"command\": \"shellkeep\", \"args\": [\"mcp\"]}

Without -s, the session's name is derived from the client's name and the current directory, so that the same project
gets the same shell again, and the session saves the files of that project, as with `shellkeep run`. A second window
of the same project gets its own session. The name is in the instructions that the client receives, and in `shellkeep
sessions ls`. A command keeps running when the client disconnects.

Exit codes: 0 the client closed the connection, 1 the daemon closed it or could not be reached, 2 wrong usage.")]
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
    pump(pipe)
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
    let mut client = Client::open(&args.daemon).await?;
    if let Some(session) = &args.session {
        warn_of_similar(&mut client, session).await?;
    }
    let project = if args.no_workspace { None } else { client.project() };
    if let Some(project) = &project {
        query.push(format!("workspace={}", encode(project)));
    }
    if !args.env.is_empty() {
        make_session(&mut client, args, project).await?;
    }
    Ok(client.pipe(&format!("/v1/mcp/stdio?{}", query.join("&")), STDIO_PROTOCOL).await?)
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

/// Copies both ways until the daemon closes. The client closes first; then the daemon sends what is left and closes.
fn pump(pipe: Pipe) -> Result<ExitCode, Failure> {
    let Pipe { early, mut from, mut to } = pipe;
    let client_left = Arc::new(AtomicBool::new(false));
    let left = Arc::clone(&client_left);
    // Not joined: it may wait forever for the client to write.
    std::thread::spawn(move || {
        let _ = copy(&mut io::stdin().lock(), &mut to);
        left.store(true, Ordering::SeqCst);
        // Fails only if the daemon is gone, which the other direction detects too.
        let _ = pipe::finish(&to);
    });
    let mut stdout = io::stdout().lock();
    let copied = stdout.write_all(&early).and_then(|()| copy(&mut from, &mut stdout));
    let is_over = client_left.load(Ordering::SeqCst)
        || copied.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::BrokenPipe);
    match copied {
        _ if is_over => Ok(ExitCode::SUCCESS),
        Ok(()) => Err(Failure::client("the daemon closed the connection; restart this to return to your session")),
        Err(error) => Err(Failure::client(format!("lost the connection to the daemon: {error}"))),
    }
}

fn copy(from: &mut impl Read, to: &mut impl Write) -> io::Result<()> {
    let mut buffer = vec![0; CHUNK];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(count) => {
                to.write_all(&buffer[..count])?;
                to.flush()?;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
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
