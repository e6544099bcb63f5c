//! Starts a daemon if none is running. The daemon reports on a pipe that it is ready; if the pipe closes first, it
//! failed.

use super::endpoint::{Connection, Endpoint, agent_token, unreachable};
use crate::config::{DaemonPaths, WARNING, unknown_variables};
use crate::failure::Failure;
use crate::terminal;
use crate::turn::StartTurn;
use rustix::pipe::PipeFlags;
use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;

/// How often to look for a daemon that another process is starting, and how long to pause in between. Only a daemon
/// started by hand in the same second needs this; clients wait for each other with a lock.
const ATTEMPTS: u32 = 40;
const PAUSE: Duration = Duration::from_millis(50);
/// Bytes of the daemon's log that are searched for the reason why it did not start.
const LOG_TAIL: u64 = 4096;

/// Starts a daemon on the endpoint's socket and connects to it.
pub async fn daemon(paths: &DaemonPaths, endpoint: &Endpoint) -> Result<Connection, Failure> {
    let data = &paths.data;
    // One client at a time starts a daemon, and none while one restarts.
    let _turn = StartTurn::take(data).await.map_err(|error| {
        let reason =
            if data.exists() && !data.is_dir() { "it is not a directory".to_owned() } else { error.to_string() };
        Failure::client(format!(
            "cannot use the data directory {}: {reason}; choose another with --data",
            data.display()
        ))
    })?;
    // The process that had the turn before us may have started it.
    if let Ok(connection) = endpoint.connect().await {
        return Ok(connection);
    }
    // The daemon says it too, in its log.
    unknown_variables().iter().for_each(|problem| terminal::notice(problem));
    let log = data.join("daemon.log");
    let began = std::fs::metadata(&log).map_or(0, |found| found.len());
    if launch(paths, &log).await? {
        return endpoint.connect().await.map_err(|error| unreachable(endpoint, "", &error));
    }
    // It did not start. If that is because another one is starting, use that one.
    let reason = reason(&log, began);
    if !reason.as_ref().is_some_and(|reason| reason.contains("another daemon") || reason.contains("already listens")) {
        let reason = reason.unwrap_or_else(|| {
            let data = data.display();
            format!("it logged no reason; is the disk full? Run `shellkeep serve --data {data}` to see the error")
        });
        return Err(Failure::client(format!("the daemon could not be started: {reason} (log: {})", log.display())));
    }
    for _ in 0..ATTEMPTS {
        if let Ok(connection) = endpoint.connect().await {
            return Ok(connection);
        }
        tokio::time::sleep(PAUSE).await;
    }
    Err(Failure::client(reason.unwrap_or_default()))
}

/// Runs the daemon detached from this process. True if it is ready, false if it exited before.
async fn launch(paths: &DaemonPaths, log: &Path) -> Result<bool, Failure> {
    let cannot = |error: std::io::Error| Failure::client(format!("the daemon could not be started: {error}"));
    let program = std::env::current_exe().map_err(cannot)?;
    let output = OpenOptions::new().append(true).create(true).mode(0o600).open(log).map_err(cannot)?;
    let (reader, writer) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).map_err(|error| cannot(error.into()))?;
    // Its standard output is the pipe: no other descriptor is inherited, so none can leak into its shells. Later output
    // goes to the log.
    let mut command = Command::new(program);
    if agent_token().is_some() {
        // An agent's token must not become the host token of a new daemon.
        command.env_remove("SHELLKEEP_TOKEN");
    }
    let child = command
        .args(["serve", "--no-listen", "--detach", "--ready-fd", "1"])
        .arg("--data")
        .arg(&paths.data)
        .arg("--socket")
        .arg(&paths.socket)
        .stdin(Stdio::null())
        .stdout(writer)
        .stderr(output)
        .current_dir("/")
        .spawn()
        .map_err(cannot)?;
    // It outlives us on purpose. The pipe must close with it, so it must not be open here.
    drop((child, command));
    let mut reader = pipe::Receiver::from_owned_fd(reader).map_err(cannot)?;
    let mut byte = [0; 1];
    let read = terminal::patiently("starting the daemon", reader.read(&mut byte)).await;
    Ok(read.map_err(cannot)? > 0)
}

/// What the daemon said last before it exited, since we started it.
fn reason(log: &Path, began: u64) -> Option<String> {
    let mut file = File::open(log).ok()?;
    let length = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(began.max(length.saturating_sub(LOG_TAIL)))).ok()?;
    let mut text = Vec::new();
    file.read_to_end(&mut text).ok()?;
    error_in(&String::from_utf8_lossy(&text))
}

/// The error in a log: other threads may log after it, and what they say is not why the daemon did not start.
fn error_in(log: &str) -> Option<String> {
    let errors = log.lines().rev().filter_map(|line| line.strip_prefix(terminal::MARK));
    let panics = log.lines().rev().filter(|line| line.contains("panicked at"));
    errors.filter(|error| !error.starts_with(WARNING)).chain(panics).next().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever was logged last was told as the reason.
    #[test]
    fn the_reason_is_the_error_and_not_the_last_line() {
        for (log, reason) in [
            ("shellkeep: the port is taken\n2026-11-19T00:00:00Z  INFO shellkeep: waits\n", Some("the port is taken")),
            ("shellkeep: an old one\nshellkeep: this one\n\n", Some("this one")),
            ("2026-11-19T00:00:00Z  WARN shellkeep_store: slow\n", None),
            ("thread 'main' panicked at src/a.rs:1:2:\noops\n", Some("thread 'main' panicked at src/a.rs:1:2:")),
            ("shellkeep: warning: there is no setting\n", None),
            ("", None),
        ] {
            assert_eq!(error_in(log).as_deref(), reason, "{log}");
        }
    }
}
