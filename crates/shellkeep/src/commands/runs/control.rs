//! `shellkeep runs input` and `shellkeep runs signal`.

use super::which::RunAndWords;
use crate::cli::DaemonArgs;
use crate::client::Client;
use crate::failure::Failure;
use crate::input;
use crate::terminal;
use clap::Args;
use shellkeep_protocol::{InputAccepted, InputRequest, SignalRequest, SignalSent, text};
use std::process::ExitCode;

/// Longest input of one call.
const MAX_INPUT: usize = 16 << 20;
/// What is sent unless another signal is named: Ctrl-C.
const DEFAULT_SIGNAL: &str = "INT";

/// Arguments of `runs input`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  shellkeep runs input demo r12 yes
  shellkeep runs input demo r12 -- -5
  shellkeep runs input demo r12 --eof < answers.txt

Words after the run's id are joined by spaces and sent with a line feed at the end. Without them, stdin is sent
unchanged.

Exit codes: 0 sent, 1 not sent (no such run, it has ended, its input is closed), 2 wrong usage.")]
pub struct InputArgs {
    #[command(flatten)]
    run: RunAndWords,
    /// Close the run's stdin afterwards
    #[arg(long)]
    eof: bool,
    /// Text that begins with a dash
    #[arg(last = true, value_name = "TEXT")]
    text: Vec<String>,
}

/// Arguments of `runs signal`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  shellkeep runs signal demo r12
  shellkeep runs signal demo r12 KILL
  shellkeep runs signal -s demo r12 sigterm

After INT, TERM, HUP or QUIT the run has 5 s to clean up and exit; then it is killed.

Exit codes: 0 sent, 1 not sent (no such run, it has ended, no such signal), 2 wrong usage.")]
pub struct SignalArgs {
    #[command(flatten)]
    run: RunAndWords,
    /// INT, TERM, KILL, HUP, USR1, …; it may also follow the run's id [default: INT]
    #[arg(long, value_name = "NAME")]
    signal: Option<String>,
}

/// Sends input.
pub async fn input(daemon: &DaemonArgs, args: InputArgs, json: bool) -> Result<ExitCode, Failure> {
    let (path, words) = args.run.path()?;
    let path = format!("{path}/input");
    let text = [words, &args.text].concat();
    let bytes = if text.is_empty() {
        input::stdin(MAX_INPUT, "stdin is longer than 16 MiB; send it in parts")?
    } else {
        format!("{}\n", text.join(" ")).into_bytes()
    };
    let (text, base64) = match text::encode(bytes) {
        (_, Some(base64)) => (None, Some(base64)),
        (text, None) => (Some(text), None),
    };
    let request = InputRequest { text, base64, eof: args.eof, ..InputRequest::default() };
    let accepted: InputAccepted = Client::open(daemon).await?.post(&path, &request).await?;
    if json {
        terminal::json(&accepted)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Sends a signal.
pub async fn signal(daemon: &DaemonArgs, args: SignalArgs, json: bool) -> Result<ExitCode, Failure> {
    let (path, words) = args.run.path()?;
    let path = format!("{path}/signal");
    let signal = match (words, args.signal) {
        ([], None) => DEFAULT_SIGNAL.to_owned(),
        ([], Some(signal)) => signal,
        ([signal], None) => signal.clone(),
        _ => return Err(Failure::start("give one signal, as in `shellkeep runs signal demo r12 TERM`")),
    };
    let request = SignalRequest { signal, hold: None };
    let sent: SignalSent = Client::open(daemon).await?.post(&path, &request).await?;
    if json {
        terminal::json(&sent)?;
    }
    Ok(ExitCode::SUCCESS)
}
