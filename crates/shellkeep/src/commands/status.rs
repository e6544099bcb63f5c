//! `shellkeep status`: whether a daemon runs, and how it is. Never starts one.

use crate::cli::DaemonArgs;
use crate::client::{self, Client};
use crate::failure::Failure;
use crate::terminal;
use clap::Args;
use serde_json::json;
use shellkeep_protocol::{DaemonStatus, ReadinessStatus};
use std::process::ExitCode;

/// Exit code when no daemon runs, as `systemctl status` has it.
const NOT_RUNNING: u8 = 3;
/// Exit code when the daemon runs, but something is wrong.
const DEGRADED: u8 = 4;

/// Arguments of `status`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  shellkeep status
  shellkeep status --json | jq -r .pid
  shellkeep status --data /var/lib/shellkeep

Exit codes: 0 ready, 1 the daemon could not be asked, 2 wrong usage, 3 no daemon runs, 4 degraded.")]
pub struct StatusArgs {
    #[command(flatten)]
    daemon: DaemonArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Does it.
pub fn execute(args: StatusArgs) -> Result<ExitCode, Failure> {
    client::block_on(async {
        let Some(mut client) = Client::running(&args.daemon).await? else { return not_running(&args) };
        let status: DaemonStatus = client.get("/v1/daemon").await?;
        if args.json {
            terminal::json(&status)?;
        } else {
            print(&status);
        }
        Ok(match status.status {
            ReadinessStatus::Ready => ExitCode::SUCCESS,
            ReadinessStatus::Degraded => ExitCode::from(DEGRADED),
        })
    })
}

fn not_running(args: &StatusArgs) -> Result<ExitCode, Failure> {
    let flags = args.daemon.as_flags();
    if args.json {
        terminal::json(&json!({"status": "not_running"}))?;
    } else {
        terminal::line(format!(
            "not running; start the daemon with `shellkeep serve{flags}`, or let `shellkeep run{flags}` start it"
        ));
    }
    Ok(ExitCode::from(NOT_RUNNING))
}

fn print(status: &DaemonStatus) {
    let word = match status.status {
        ReadinessStatus::Ready => terminal::coloured("ready", terminal::Colour::Green),
        ReadinessStatus::Degraded => terminal::coloured("degraded", terminal::Colour::Yellow),
    };
    terminal::line(format!("{word}, up {}", time(status.uptime)));
    for problem in &status.problems {
        terminal::line(format!("  problem: {}", terminal::harmless(problem)));
    }
    let rows = [
        ("pid", status.pid.to_string()),
        ("version", status.version.clone()),
        ("data", status.data.clone()),
        ("config", status.config_file.clone().unwrap_or_else(|| "none".to_owned())),
        ("store", status.store.clone()),
        ("listens on", status.doors.join(", ")),
        ("sessions", format!("{} kept, {} with a shell", status.sessions, status.live_shells)),
        ("running", format!("{} commands, {} services", status.running, status.services)),
    ];
    for (name, value) in rows {
        terminal::line(format!("{name:<11} {}", terminal::harmless(&value)));
    }
}

/// A length of time for a person: its two largest units.
fn time(seconds: f64) -> String {
    let seconds = seconds.max(0.0) as u64;
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, _) => format!("{minutes}min {}s", seconds % 60),
        (0, _, _) => format!("{hours}h {minutes}min"),
        _ => format!("{days}d {hours}h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_two_units() {
        for (seconds, text) in
            [(0.4, "0s"), (59.9, "59s"), (61.0, "1min 1s"), (7_260.0, "2h 1min"), (90_000.0, "1d 1h")]
        {
            assert_eq!(time(seconds), text);
        }
    }
}
