//! `shellkeep runs input` and `shellkeep runs signal`.

use super::which::RunArgs;
use crate::cli::DaemonArgs;
use crate::client::Client;
use crate::failure::Failure;
use crate::terminal;
use clap::Args;
use shellkeep_protocol::{InputAccepted, InputRequest, SignalRequest, SignalSent, text};
use std::io::Read as _;
use std::process::ExitCode;

/// Longest input of one call.
const MAX_INPUT: u64 = 16 << 20;

/// Arguments of `runs input`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  shellkeep runs input demo r12 -- yes
  shellkeep runs input demo r12 --eof < answers.txt

TEXT is sent with a line feed at the end. Without TEXT, stdin is sent unchanged.

Exit codes: 0 sent, 1 not sent (no such run, it has ended, its input is closed), 2 wrong usage.")]
pub struct InputArgs {
    #[command(flatten)]
    run: RunArgs,
    /// Close the run's stdin afterwards
    #[arg(long)]
    eof: bool,
    /// The text; several words are joined by spaces
    #[arg(last = true, value_name = "TEXT")]
    text: Vec<String>,
}

/// Arguments of `runs signal`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  shellkeep runs signal demo r12
  shellkeep runs signal demo r12 --signal KILL

Exit codes: 0 sent, 1 not sent (no such run, it has ended, no such signal), 2 wrong usage.")]
pub struct SignalArgs {
    #[command(flatten)]
    run: RunArgs,
    /// INT, TERM, KILL, HUP, USR1, …
    #[arg(long, value_name = "NAME", default_value = "INT")]
    signal: String,
}

/// Sends input.
pub async fn input(daemon: &DaemonArgs, args: InputArgs, json: bool) -> Result<ExitCode, Failure> {
    let path = format!("{}/input", args.run.path()?);
    let bytes = if args.text.is_empty() { stdin()? } else { format!("{}\n", args.text.join(" ")).into_bytes() };
    let (text, base64) = match text::encode(bytes) {
        (_, Some(base64)) => (None, Some(base64)),
        (text, None) => (Some(text), None),
    };
    let request = InputRequest { text, base64, eof: args.eof };
    let accepted: InputAccepted = Client::open(daemon).await?.post(&path, &request).await?;
    if json {
        terminal::json(&accepted)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Sends a signal.
pub async fn signal(daemon: &DaemonArgs, args: SignalArgs, json: bool) -> Result<ExitCode, Failure> {
    let path = format!("{}/signal", args.run.path()?);
    let request = SignalRequest { signal: args.signal };
    let sent: SignalSent = Client::open(daemon).await?.post(&path, &request).await?;
    if json {
        terminal::json(&sent)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn stdin() -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let read = std::io::stdin().lock().take(MAX_INPUT + 1).read_to_end(&mut bytes);
    read.map_err(|error| Failure::client(format!("cannot read stdin: {error}")))?;
    if bytes.len() as u64 > MAX_INPUT {
        return Err(Failure::client("stdin is longer than 16 MiB; send it in parts"));
    }
    Ok(bytes)
}
