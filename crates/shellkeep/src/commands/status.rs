//! `shellkeep status`: whether a daemon is running, and its health. Never starts one.

use crate::cli::ClientArgs;
use crate::client::{self, Client, Endpoint};
use crate::failure::Failure;
use crate::terminal::{self, Fields};
use clap::Args;
use serde_json::json;
use shellkeep_protocol::{DaemonStatus, ReadinessStatus};
use shellkeep_terminal::words::{counted, span};
use std::process::ExitCode;

/// Exit code when no daemon is running, as for `systemctl status`.
const NOT_RUNNING: u8 = 3;
/// Exit code when the daemon runs, but something is wrong.
const DEGRADED: u8 = 4;
/// Exit code when the daemon takes no more sessions, because its node is drained.
const DRAINING: u8 = 5;

/// Arguments of `status`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  shellkeep status
  shellkeep status --json | jq -r .pid
  shellkeep status --data /var/lib/shellkeep

Exit codes: 0 ready, 1 the daemon did not respond, 2 wrong usage, 3 no daemon is running, 4 degraded,
5 the node is being drained.")]
pub struct StatusArgs {
    #[command(flatten)]
    client: ClientArgs,
}

pub fn execute(args: StatusArgs) -> Result<ExitCode, Failure> {
    client::block_on(async {
        let Some(mut client) = Client::running(&args.client.daemon).await? else { return not_running(&args) };
        let status: DaemonStatus = client.get("/v1/daemon").await?;
        if args.client.json {
            terminal::json(&status)?;
        } else {
            print(&status);
        }
        Ok(match status.status {
            ReadinessStatus::Ready => ExitCode::SUCCESS,
            ReadinessStatus::Degraded => ExitCode::from(DEGRADED),
            ReadinessStatus::Draining => ExitCode::from(DRAINING),
        })
    })
}

fn not_running(args: &StatusArgs) -> Result<ExitCode, Failure> {
    if args.client.json {
        terminal::json(&json!({"status": "not_running"}))?;
        return Ok(ExitCode::from(NOT_RUNNING));
    }
    let flags = args.client.daemon.as_flags();
    terminal::line(match client::find(&args.client.daemon)?.1 {
        Endpoint::Unix { .. } => {
            format!(
                "not running; start the daemon with `shellkeep serve{flags}`, or let `shellkeep run{flags}` start it"
            )
        }
        Endpoint::Tcp { authority, .. } => {
            format!("not running: nothing listens on http://{authority}; start the daemon there, or check the address")
        }
    });
    Ok(ExitCode::from(NOT_RUNNING))
}

fn print(status: &DaemonStatus) {
    let word = match status.status {
        ReadinessStatus::Ready => terminal::coloured("ready", terminal::Colour::Green),
        ReadinessStatus::Degraded => terminal::coloured("degraded", terminal::Colour::Yellow),
        ReadinessStatus::Draining => terminal::coloured("draining", terminal::Colour::Yellow),
    };
    terminal::line(format!("{word}, up {}", span(status.uptime)));
    for problem in &status.problems {
        terminal::line(format!("problem: {}", terminal::harmless(problem)));
    }
    let running = format!("{}, {}", counted(status.running, "command"), counted(status.services, "service"));
    let fields = Fields::new()
        .with("pid", status.pid.to_string())
        .with("version", status.version.as_str())
        .with("data", status.data.as_str())
        .maybe("config", status.config_file.as_deref())
        .with("store", status.store.as_str())
        .with("listens on", status.doors.join(", "))
        .with("sessions", status.sessions.to_string())
        .with("shells", format!("{} live", status.live_shells))
        .with("running", running);
    terminal::fields(&fields);
}
