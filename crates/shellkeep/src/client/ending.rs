//! Waits for a daemon to exit, and for the one that replaces it.

use super::{Client, Endpoint};
use crate::failure::Failure;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use shellkeep_process::cage::gone;
use shellkeep_protocol::{DaemonStatus, Stopping};
use std::time::Duration;
use tokio::time::Instant;

/// How long a daemon may take to save its sessions, in addition to the time that it gives to commands.
const SAVING: Duration = Duration::from_secs(60);
/// How long to pause between two attempts to reach a daemon that starts. A client gets no event when it is ready.
const PAUSE: Duration = Duration::from_millis(50);

/// Waits until the daemon has exited: for the end of its process if it is on this machine, otherwise until nothing
/// answers.
pub async fn of(client: &Client, stopping: &Stopping) -> Result<(), Failure> {
    let deadline = deadline(stopping);
    let too_long = || Failure::client(format!("the daemon (pid {}) is still running; see its log", stopping.pid));
    if let Endpoint::Unix { .. } = &client.endpoint {
        let pid = i32::try_from(stopping.pid).ok().and_then(Pid::from_raw);
        // Without such a process it has already exited.
        let Some(Ok(process)) = pid.map(|pid| pidfd_open(pid, PidfdFlags::empty())) else { return Ok(()) };
        return tokio::time::timeout_at(deadline, gone(vec![process])).await.map_err(|_| too_long());
    }
    while Instant::now() < deadline {
        if client.another().await.is_err() {
            return Ok(());
        }
        tokio::time::sleep(PAUSE).await;
    }
    Err(too_long())
}

/// Waits until another daemon answers in place of the previous one.
pub async fn next_daemon(client: &Client, before: &DaemonStatus, stopping: &Stopping) -> Result<DaemonStatus, Failure> {
    let deadline = deadline(stopping);
    while Instant::now() < deadline {
        if let Ok(mut next) = client.another().await
            && let Ok(status) = next.get::<DaemonStatus>("/v1/daemon").await
            && status.started_at != before.started_at
        {
            return Ok(status);
        }
        tokio::time::sleep(PAUSE).await;
    }
    Err(Failure::client("the daemon did not come back; its log says why"))
}

fn deadline(stopping: &Stopping) -> Instant {
    Instant::now() + SAVING + Duration::try_from_secs_f64(stopping.grace).unwrap_or_default()
}
