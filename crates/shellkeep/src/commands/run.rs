//! `shellkeep run`: runs a command in a session, as if it ran locally.

pub(super) mod stops;
pub(super) mod turn;

use crate::cli::{self, DaemonArgs};
use crate::client::events::{Event, EventReader};
use crate::client::session::NewSession;
use crate::client::{self, Client};
use crate::failure::{Failure, NO_READER, RUN_FAILED};
use crate::input;
use crate::passthrough::{End, Keys, Role, ShownRun, our_size};
use crate::terminal;
use clap::{Args, ValueHint};
use shellkeep_protocol::{
    NoticeView, OutputEvent, RunRequest, RunResponse, RunStatus, StderrChoice, TimeoutChoice, text,
};
use shellkeep_runtime::MAX_STDIN;
use shellkeep_session::{NoticeCode, SessionId};
use shellkeep_terminal::modes::Modes;
use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use stops::Stop;
use turn::{Answered, Passed, Turn, Waited};

/// Exit code when the command moved to the background, or has no exit code after a timeout, as for `timeout(1)`.
const TIMED_OUT: u8 = 124;
/// What is said of more than [`MAX_STDIN`] bytes.
const STDIN_TOO_LONG: &str = "stdin is longer than 16 MiB; put it into a file and name the file in the command";
/// The timeout of a command that a person uses, in seconds.
const A_DAY: f64 = 86_400.0;

/// Arguments of `run`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  shellkeep run -s demo -- 'cd /tmp; export A=1'
  shellkeep run -s demo -- 'echo $A in $PWD'
  shellkeep run -s demo ls -la
  git diff | shellkeep run -s demo --stdin -- 'wc -l'
  shellkeep run -s demo --timeout 600 --background-on-timeout -- 'make all'
  shellkeep run -s demo -t vim notes.txt
  shellkeep run -s demo --no-wait -- 'make all'     (then `shellkeep runs wait|output|input|signal`)

The session is created if it does not exist; it then starts in the current directory and saves the files of the
current project: the nearest directory upwards with a .git or a project file (Cargo.toml, package.json,
pyproject.toml, …), or else the current directory. It never saves `/`, a home directory or a directory for temporary
files; there it saves only its own directory. project_workspace=false in the configuration turns this off for all
sessions. On a terminal, it asks before creating a session whose name is similar to an existing one.

While another command runs in the session, this one waits for its turn and says what for. Ctrl-C cancels a command that
waits; it interrupts one that runs and waits for its end, and a second one leaves it alone. SIGTERM and SIGHUP do the
same with their own signal (with --tty they end only this program), or just end this program if the daemon does not
answer within 5 seconds.

Exit codes: the command's own (128+n for a signal); 124 if it timed out without one or went to the background; 130, 143
or 129 if Ctrl-C, SIGTERM or SIGHUP cancelled it, or came second; 141 if the output pipe was closed; 255 for shellkeep's own errors; 2 for wrong usage.")]
pub struct RunArgs {
    /// The session
    #[arg(short, long, value_name = "NAME")]
    session: String,
    /// Seconds the command may take [default: 30; with --no-wait or --tty a day]
    #[arg(long, value_name = "S", value_parser = cli::seconds, allow_negative_numbers = true)]
    timeout: Option<f64>,
    /// Working directory for this command only
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    cwd: Option<PathBuf>,
    /// Exported variable for this command only; without a value, it is copied from this environment; may be repeated
    #[arg(long = "env", value_name = "NAME[=VALUE]", value_parser = cli::variable)]
    env: Vec<(String, String)>,
    /// Pass stdin to the command (up to 16 MiB)
    #[arg(long)]
    stdin: bool,
    /// Give the command this terminal: editors, pagers and password prompts work. Ctrl-] leaves it running
    #[arg(short, long, conflicts_with_all = ["stdin", "merge_stderr", "no_wait", "json"])]
    tty: bool,
    /// Write the command's stderr to stdout, in the order it was written
    #[arg(long)]
    merge_stderr: bool,
    /// On timeout, move the command to the background instead of killing it
    #[arg(long)]
    background_on_timeout: bool,
    /// Do not wait for the command to end; print the run's id
    #[arg(long)]
    no_wait: bool,
    /// Idempotency key: repeating it returns the first result without running again
    #[arg(long, value_name = "ID")]
    request_id: Option<String>,
    /// Print the result as JSON at the end
    #[arg(long)]
    json: bool,
    /// The command; several words are joined by spaces. Options of `run` come before it
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<String>,
    #[command(flatten)]
    new: NewSession,
    #[command(flatten)]
    daemon: DaemonArgs,
}

pub fn execute(args: RunArgs) -> Result<ExitCode, Failure> {
    SessionId::parse(&args.session).map_err(|error| Failure::start(format!("--session: {error}")))?;
    let done = client::block_on(run(args)).map_err(|failure| failure.with_code(RUN_FAILED));
    done.map(ExitCode::from)
}

async fn run(args: RunArgs) -> Result<u8, Failure> {
    let request = request(&args)?;
    let mut client = Client::open(&args.daemon).await?;
    let path = format!("/v1/sessions/{}/run", args.session);
    let turn = Turn {
        endpoint: client.endpoint().clone(),
        session: args.session.clone(),
        request_id: request.request_id.clone().unwrap_or_default(),
        hold: None,
    };
    if args.no_wait || args.json {
        let new = args.new.beside_json(args.json);
        let run = client.in_session(&args.session, &new, async |client| client.post(&path, &request).await);
        return match turn.wait(run).await? {
            Waited::Answered(Answered { answer, stops, .. }) => {
                // The daemon has answered: what is left to end is our own printing.
                drop(stops.guard(true)?);
                finished(&args, &answer)
            }
            Waited::Left(stop) => Ok(stop.code()),
        };
    }
    if args.tty {
        return on_terminal(&args, client, &turn, &request).await;
    }
    let ask = async |client: &mut Client| client.post_events(&path, &request).await;
    let asked = client.in_session(&args.session, &args.new, ask);
    match turn.wait(asked).await? {
        Waited::Answered(answered) => follow(&args, &turn, answered).await,
        Waited::Left(stop) => Ok(stop.code()),
    }
}

/// Passes a command's output on to us, and our signals on to the command.
async fn follow(args: &RunArgs, turn: &Turn, answered: Answered<EventReader>) -> Result<u8, Failure> {
    let Answered { answer: mut events, stops, stopped } = answered;
    let mut first = stops.guard(stopped.is_some())?;
    loop {
        let event = tokio::select! {
            event = events.next() => event?,
            Some(stop) = first.recv() => {
                let stop = stop.map_err(Failure::client)?;
                match turn.pass_on(stop).await? {
                    Passed::Arrived | Passed::TooEarly => continue,
                    Passed::Unanswered => return Ok(stop.code()),
                }
            }
        };
        let Some(event) = event else { return Err(Failure::client("the daemon ended the stream without a result")) };
        match handle(event)? {
            Next::More => {}
            Next::NoReader => {
                turn.pass_on(Stop::Interrupt).await?;
                return Ok(NO_READER);
            }
            Next::Result(result) => {
                // There is no command left to pass a signal on to: the next one ends us.
                drop(first);
                return finished(args, &result);
            }
        }
    }
}

/// Runs a command on our terminal.
async fn on_terminal(args: &RunArgs, mut client: Client, turn: &Turn, request: &RunRequest) -> Result<u8, Failure> {
    if !terminal::can_ask() || !terminal::is_terminal() {
        return Err(Failure::client("--tty needs a terminal at stdin, stdout and stderr; leave it out"));
    }
    let (modes, keys) = (Modes::keep().map_err(Failure::client)?, Keys::of_terminal()?);
    let path = format!("/v1/sessions/{}/run", args.session);
    let ask = async |client: &mut Client| client.post_events(&path, request).await;
    let asked = client.in_session(&args.session, &args.new, ask);
    let events = match turn.wait(asked).await? {
        Waited::Answered(Answered { stopped: Some(stop), .. }) if stop != Stop::Interrupt => return Ok(stop.code()),
        Waited::Answered(Answered { answer, .. }) => answer,
        Waited::Left(stop) => return Ok(stop.code()),
    };
    let shown =
        ShownRun { endpoint: &turn.endpoint, session: &args.session, modes: &modes, role: Role::Drives { hold: None } };
    match shown.drive(&keys, events).await? {
        End::Result { result, .. } => finished(args, &result),
        End::Signalled(number) => Ok(128 + number),
        End::Broken { .. } => Err(Failure::client(
            "the daemon stopped, so the command's outcome is unknown; check what it did before you repeat it",
        )),
        End::Left { run_id } => {
            let (session, flags) = (&args.session, args.daemon.as_flags());
            terminal::notice(&format!(
                "it continues as {run_id}: `shellkeep runs wait {session} {run_id}{flags}` waits for its end"
            ));
            Ok(TIMED_OUT)
        }
    }
}

/// What an event leads to.
enum Next {
    More,
    NoReader,
    Result(Box<RunResponse>),
}

fn handle(event: Event) -> Result<Next, Failure> {
    match event.name.as_str() {
        "stdout" => write(&mut io::stdout().lock(), output(&event)?),
        "stderr" => write(&mut io::stderr().lock(), output(&event)?),
        "result" => Ok(Next::Result(Box::new(event.read()?))),
        // A newer daemon may send events that we do not know.
        _ => Ok(Next::More),
    }
}

fn write(stream: &mut impl io::Write, bytes: Vec<u8>) -> Result<Next, Failure> {
    Ok(if terminal::write(stream, &bytes)? { Next::More } else { Next::NoReader })
}

fn output(event: &Event) -> Result<Vec<u8>, Failure> {
    event.read::<OutputEvent>()?.into_bytes().map_err(Failure::client)
}

/// Prints what remains and returns the exit code.
fn finished(args: &RunArgs, result: &RunResponse) -> Result<u8, Failure> {
    if args.json {
        terminal::json(result)?;
    } else {
        if args.no_wait {
            terminal::line(&result.run_id);
        }
        if let Some(late) = &result.background_output {
            let bytes =
                text::decode(late.clone(), result.background_output_base64.as_deref()).map_err(Failure::client)?;
            terminal::notice("output of earlier background jobs:");
            let _ = io::stderr().write_all(&bytes);
        }
        for NoticeView { code, message, .. } in &result.notices {
            match code {
                NoticeCode::TimedOut => terminal::notice(&timed_out(args, result)),
                _ => terminal::notice(message),
            }
        }
    }
    // Now and not at the start, when the writer of a pipe may not have begun.
    if !(args.stdin || args.tty || args.json) && input::is_waiting() {
        terminal::hint("stdin was not passed to the command; if the command needs stdin, use --stdin");
    }
    match (result.status, result.exit_code) {
        (_, Some(code)) => Ok(u8::try_from(code & 0xff).unwrap_or(RUN_FAILED)),
        (RunStatus::Running, None) if args.no_wait => Ok(0),
        (RunStatus::Running, None) => {
            let (session, id, flags) = (&args.session, &result.run_id, args.daemon.as_flags());
            terminal::notice(&format!(
                "it continues as {id}: `shellkeep runs output {session} {id} -f{flags}` follows it, `shellkeep runs wait \
                 {session} {id}{flags}` waits for its end"
            ));
            Ok(TIMED_OUT)
        }
        (RunStatus::TimedOut, None) => Ok(TIMED_OUT),
        (RunStatus::Interrupted, None) => Err(Failure::client("the command was interrupted; it has no exit code")),
        (RunStatus::Lost | RunStatus::Exited, None) => Err(Failure::client(format!(
            "the command's outcome is unknown, because the daemon stopped while it ran; check what it did before you repeat \
             it ({})",
            result.run_id
        ))),
    }
}

/// What happened to a command that took too long, and what to do, in the words of this command.
fn timed_out(args: &RunArgs, result: &RunResponse) -> String {
    let flags = args.daemon.as_flags();
    format!(
        "the command was killed after {:.1} s; its output so far is kept. To let it run longer, pass --timeout SECONDS; to \
         run it in the background, `shellkeep run -s {} --no-wait{flags} -- COMMAND`",
        result.duration_ms / 1000.0,
        args.session,
    )
}

fn request(args: &RunArgs) -> Result<RunRequest, Failure> {
    let given = args.stdin.then(|| input::stdin(MAX_STDIN, STDIN_TOO_LONG)).transpose()?;
    let (stdin, stdin_base64) = match given.map(text::encode) {
        Some((_, Some(base64))) => (None, Some(base64)),
        Some((text, None)) => (Some(text), None),
        None => (None, None),
    };
    let streamed = !(args.json || args.no_wait);
    Ok(RunRequest {
        command: args.command.join(" "),
        timeout: args.timeout.or(args.tty.then_some(A_DAY)),
        blocking: args.no_wait.then_some(false),
        cwd: args.cwd.as_deref().map(|cwd| cli::directory("--cwd", cwd)).transpose()?,
        env: (!args.env.is_empty()).then(|| args.env.iter().cloned().collect::<BTreeMap<_, _>>()),
        stdin,
        stdin_base64,
        // Streamed output is not repeated in the result.
        max_output: streamed.then_some(0),
        on_timeout: args.background_on_timeout.then_some(TimeoutChoice::Background),
        request_id: Some(args.request_id.clone().unwrap_or_else(|| uuid::Uuid::new_v4().to_string())),
        if_busy: None,
        tty: args.tty.then_some(true),
        tty_size: if args.tty { our_size() } else { None },
        stderr: args.merge_stderr.then_some(StderrChoice::Merge),
        hold: None,
        by: None,
        on_disconnect: None,
    })
}
