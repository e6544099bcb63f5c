//! `shellkeep runs wait`.

use super::show;
use super::which::WhichRun;
use crate::cli::{self, DaemonArgs};
use crate::client::Client;
use crate::failure::Failure;
use crate::terminal;
use clap::Args;
use shellkeep_protocol::{RunDetail, RunStatus};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Exit code when the run still runs, or ended at its timeout without a code, as for `timeout(1)`.
const TIMED_OUT: u8 = 124;
/// Longest wait of one request.
const LONGEST_WAIT: Duration = Duration::from_secs(300);

/// Arguments of `runs wait`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  shellkeep runs wait demo r12 && echo it worked
  shellkeep runs wait demo r12 --timeout 60
  shellkeep runs wait demo r12 --json | jq .stdout

Exit codes: the run's own (128+n for a signal); 124 if it is still running after --timeout, or has no exit code; 1 no such session or
run, no daemon; 2 wrong usage.")]
pub struct WaitArgs {
    #[command(flatten)]
    run: WhichRun,
    /// Maximum number of seconds to wait [default: until it ends]
    #[arg(long, value_name = "S", value_parser = cli::seconds, allow_negative_numbers = true)]
    timeout: Option<f64>,
}

pub async fn wait(daemon: &DaemonArgs, args: WaitArgs, json: bool) -> Result<ExitCode, Failure> {
    let path = args.run.path()?;
    let limit = args.timeout.map(Duration::try_from_secs_f64).transpose();
    let limit = limit.map_err(|error| Failure::start(format!("--timeout: {error}")))?;
    let mut client = Client::open(daemon).await?;
    let started = Instant::now();
    let most = if json { "" } else { "&max_output=0" };
    let detail = loop {
        let left = limit.map_or(LONGEST_WAIT, |limit| limit.saturating_sub(started.elapsed()).min(LONGEST_WAIT));
        let asked = format!("{path}?wait={}{most}", left.as_secs_f64());
        let detail: RunDetail = terminal::patiently("waiting for it to end", client.get(&asked)).await?;
        let is_over = limit.is_some_and(|limit| started.elapsed() >= limit);
        if detail.run.status != RunStatus::Running || is_over {
            break detail;
        }
    };
    if json {
        terminal::json(&detail)?;
    } else {
        terminal::notice(&show::sentence(&detail.run));
    }
    let code = detail.run.exit_code.and_then(|code| u8::try_from(code & 0xff).ok());
    Ok(ExitCode::from(code.unwrap_or(TIMED_OUT)))
}
