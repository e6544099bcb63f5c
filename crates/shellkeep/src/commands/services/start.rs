//! `shellkeep services start`.

use super::{find, show};
use crate::cli::{self, DaemonArgs};
use crate::client::Client;
use crate::client::session::NewSession;
use crate::failure::Failure;
use crate::terminal;
use clap::{Args, ValueEnum, ValueHint};
use shellkeep_protocol::{LogResponse, ReadyWhen, RestartChoice, Service, ServiceStatus, StartServiceRequest};
use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

/// Seconds to wait for a service to become ready, by default.
const READY_WAIT: f64 = 30.0;
/// Seconds to see whether a service ends at once, without a readiness condition.
const SETTLE_WAIT: f64 = 1.0;
/// Bytes of the log that are shown if a service failed to start.
const LAST_WORDS: u64 = 2048;

/// Arguments of `services start`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  shellkeep services start -s demo -- 'npm run dev'
  shellkeep services start -s demo --name web --ready-port 5173 -- 'npx vite --port 5173'
  shellkeep services start -s demo --ready-log 'ready in' --restart on_failure -- './worker'
  id=$(shellkeep services start -s demo -- './server')

The session is created if it does not exist, as `shellkeep run` creates it. Standard output is only the service's id; its status goes to standard error.

Exit codes: 0 it is running, or exited with code 0; 1 it failed, or could not be started; 2 wrong usage.")]
pub struct StartArgs {
    /// The session
    #[arg(short, long, value_name = "NAME")]
    session: String,
    /// Its name [default: the beginning of the command]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Its working directory [default: the session's]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    cwd: Option<PathBuf>,
    /// Exported variable in addition to the session's; may be repeated
    #[arg(long = "env", value_name = "K=V", value_parser = cli::variable)]
    env: Vec<(String, String)>,
    #[command(flatten)]
    ready: ReadyArgs,
    /// What to do when it exits on its own
    #[arg(long, value_name = "POLICY", default_value = "never")]
    restart: Restart,
    /// Seconds to wait until it is ready, or to see whether it ends at once [default: 30 with --ready-…, else 1]
    #[arg(long, value_name = "S", value_parser = cli::seconds, allow_negative_numbers = true)]
    wait: Option<f64>,
    /// The command; several words are joined by spaces. Options of `start` come before it
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<String>,
    #[command(flatten)]
    new: NewSession,
}

/// The readiness condition.
#[derive(Debug, Args)]
#[group(multiple = false)]
struct ReadyArgs {
    /// It is ready when it listens on this TCP port
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    ready_port: Option<u16>,
    /// It is ready when a line of its log matches this regular expression
    #[arg(long, value_name = "REGEX")]
    ready_log: Option<String>,
    /// It is ready when this URL on this machine answers with a status below 400
    #[arg(long, value_name = "URL", value_hint = ValueHint::Url)]
    ready_http: Option<String>,
}

/// What to do when it exits on its own.
#[derive(Debug, Clone, Copy, ValueEnum)]
#[value(rename_all = "snake_case")]
enum Restart {
    /// It stays stopped
    Never,
    /// It restarts unless its exit code was 0
    #[value(alias = "on-failure")]
    OnFailure,
    /// It restarts
    Always,
}

pub async fn start(daemon: &DaemonArgs, args: StartArgs, json: bool) -> Result<ExitCode, Failure> {
    let root = find::of_session(&args.session)?;
    let (session, new) = (args.session.clone(), args.new.beside_json(json));
    let request = request(args)?;
    let mut client = Client::open(daemon).await?;
    let starting = client.in_session(&session, &new, async |client| client.post(&root, &request).await);
    let service: Service = terminal::patiently("waiting for the service", starting).await?;
    if json {
        terminal::json(&service)?;
    } else {
        terminal::line(&service.service_id);
        say(&mut client, &root, &service).await?;
    }
    let is_well = service.status.is_live() || service.exit_code == Some(0);
    Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Prints its status: always for a person, for a program only if it failed or is not ready yet.
async fn say(client: &mut Client, root: &str, service: &Service) -> Result<(), Failure> {
    if service.status.is_live() {
        if service.status == ServiceStatus::Starting || std::io::stderr().is_terminal() {
            terminal::notice(&show::sentence(service));
        }
        return Ok(());
    }
    terminal::notice(&show::sentence(service));
    let page: LogResponse = client.get(&format!("{root}/{}/logs?tail={LAST_WORDS}", service.service_id)).await?;
    let bytes = page.into_bytes().map_err(Failure::client)?;
    let _ = std::io::stderr().write_all(&bytes);
    Ok(())
}

fn request(args: StartArgs) -> Result<StartServiceRequest, Failure> {
    let ReadyArgs { ready_port, ready_log, ready_http } = args.ready;
    let ready = ready_port.map(ReadyWhen::Port).or(ready_log.map(ReadyWhen::Log)).or(ready_http.map(ReadyWhen::Http));
    let default_wait = if ready.is_some() { READY_WAIT } else { SETTLE_WAIT };
    Ok(StartServiceRequest {
        command: args.command.join(" "),
        name: args.name,
        cwd: args.cwd.as_deref().map(|cwd| cli::directory("--cwd", cwd)).transpose()?,
        env: (!args.env.is_empty()).then(|| args.env.into_iter().collect()),
        ready,
        restart: Some(match args.restart {
            Restart::Never => RestartChoice::Never,
            Restart::OnFailure => RestartChoice::OnFailure,
            Restart::Always => RestartChoice::Always,
        }),
        wait: Some(args.wait.unwrap_or(default_wait)),
    })
}
