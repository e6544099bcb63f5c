//! `shellkeep doctor`: what this machine supports, and what each missing feature costs.

use crate::cli::ClientArgs;
use crate::client::{self, Client};
use crate::config::Settings;
use crate::failure::Failure;
use crate::machine::{self, Check, Status};
use crate::terminal::{self, Colour};
use clap::Args;
use serde_json::json;
use shellkeep_protocol::{Readiness, ReadinessStatus};
use shellkeep_terminal::words;
use std::path::Path;
use std::process::ExitCode;

/// Where what was found begins: after the status and the name.
const COLUMN: usize = 25;

/// Arguments of `doctor`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  shellkeep doctor
  shellkeep doctor --json | jq '.checks[] | select(.status != \"ok\")'

Exit codes: 0 sessions can run here, 1 a required feature is missing, 2 wrong usage.")]
pub struct DoctorArgs {
    #[command(flatten)]
    client: ClientArgs,
}

pub fn execute(args: DoctorArgs) -> Result<ExitCode, Failure> {
    let (settings, (paths, endpoint)) = (client::settings(&args.client.daemon), client::find(&args.client.daemon)?);
    let checks = client::block_on(async {
        let mut checks = vec![configuration(&settings)];
        if let Ok(settings) = &settings {
            checks.extend(machine::checks(settings).await);
        }
        checks.push(daemon(&paths.socket, &endpoint).await);
        Ok(checks)
    })?;
    if args.client.json {
        terminal::json(&json!({"checks": checks}))?;
    } else {
        checks.iter().for_each(print);
    }
    let missing = checks.iter().any(|check| check.status == Status::Missing);
    Ok(if missing { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn print(check: &Check) {
    let (word, colour) = match check.status {
        Status::Ok => ("ok     ", Colour::Green),
        Status::Warning => ("warning", Colour::Yellow),
        Status::Missing => ("missing", Colour::Red),
    };
    let label = format!("{} {:<16} ", terminal::coloured(word, colour), check.name);
    terminal::sentence(&label, COLUMN, &check.found);
    for (label, text) in [("costs: ", check.cost), ("fix:   ", check.fix)] {
        if let Some(text) = text {
            terminal::sentence(&format!("{:COLUMN$}{label}", ""), COLUMN + label.len(), text);
        }
    }
}

/// Whether the configuration can be read.
fn configuration(settings: &Result<Settings, Failure>) -> Check {
    let name = "configuration";
    match settings {
        Ok(Settings { file: Some(file), .. }) => {
            Check { name, status: Status::Ok, found: file.display().to_string(), cost: None, fix: None }
        }
        Ok(_) => Check { name, status: Status::Ok, found: "no file; defaults".to_owned(), cost: None, fix: None },
        Err(failure) => Check {
            name,
            status: Status::Missing,
            found: failure.to_string(),
            cost: Some("no daemon can start, and the checks that depend on settings were left out"),
            fix: Some("correct the file or variable; `shellkeep config --help` lists all settings"),
        },
    }
}

/// Whether a daemon answers. Does not start one.
async fn daemon(socket: &Path, endpoint: &client::Endpoint) -> Check {
    let check = |status, found: String| Check { name: "daemon", status, found, cost: None, fix: None };
    let mut client = match Client::connect(endpoint).await {
        Ok(client) => client,
        Err(_) => {
            let found = format!("none on {}; the first `shellkeep run` starts one", socket.display());
            return check(Status::Ok, found);
        }
    };
    match client.get::<Readiness>("/readyz").await {
        Ok(ready) if ready.status == ReadinessStatus::Ready => check(
            Status::Ok,
            format!(
                "version {}, pid {}, {}",
                ready.version,
                ready.pid,
                words::counted(ready.live_shells, "live shell")
            ),
        ),
        Ok(ready) => check(Status::Warning, format!("degraded: {}", ready.problems.join("; "))),
        Err(error) => check(Status::Warning, error.to_string()),
    }
}
