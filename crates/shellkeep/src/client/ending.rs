//! Waits for a daemon to exit, and for the one that replaces it.

use super::{Client, Endpoint};
use crate::failure::Failure;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use shellkeep_process::cage::gone;
use shellkeep_protocol::{DaemonStatus, Stopping};
use std::os::fd::OwnedFd;
use std::time::Duration;
use tokio::time::Instant;

/// How long a daemon may take to save its sessions, in addition to the time that it gives to commands.
const SAVING: Duration = Duration::from_secs(60);
/// How long to pause between two attempts to reach a daemon that starts. A client gets no event when it is ready.
const PAUSE: Duration = Duration::from_millis(50);
/// How long a supervisor gets to start a daemon whose process has ended.
const SUPERVISED: Duration = Duration::from_secs(1);

/// Waits until the daemon has exited: for the end of its process if it is on this machine, otherwise until nothing
/// answers.
pub async fn of(client: &Client, stopping: &Stopping) -> Result<(), Failure> {
    let deadline = deadline(stopping);
    let too_long = || Failure::client(format!("the daemon (pid {}) is still running; see its log", stopping.pid));
    if let Endpoint::Unix { .. } = &client.endpoint {
        // Without such a process it has already exited.
        let Some(process) = process(client, stopping.pid) else { return Ok(()) };
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

/// The process of a daemon, if it is on this machine.
pub fn process(client: &Client, pid: u32) -> Option<OwnedFd> {
    let Endpoint::Unix { .. } = &client.endpoint else { return None };
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw)?;
    pidfd_open(pid, PidfdFlags::empty()).ok()
}

/// Waits until another daemon answers in place of the previous one. A restart keeps the process, so once that has ended, only
/// a supervisor can start another. `process` is from before the order to stop.
pub async fn next_daemon(
    client: &Client,
    before: &DaemonStatus,
    stopping: &Stopping,
    process: Option<OwnedFd>,
) -> Result<DaemonStatus, Failure> {
    let answers = async {
        loop {
            if let Some(status) = next_status(client, before).await {
                return status;
            }
            tokio::time::sleep(PAUSE).await;
        }
    };
    let ended = async {
        match process {
            Some(process) => gone(vec![process]).await,
            None => std::future::pending().await,
        }
        tokio::time::sleep(SUPERVISED).await;
    };
    let pid = stopping.pid;
    tokio::select! {
        status = answers => Ok(status),
        () = ended => Err(Failure::client(format!("the daemon (pid {pid}) ended and did not start again; its log says why"))),
        () = tokio::time::sleep_until(deadline(stopping)) => {
            Err(Failure::client("the daemon did not come back; its log says why"))
        }
    }
}

async fn next_status(client: &Client, before: &DaemonStatus) -> Option<DaemonStatus> {
    let status: DaemonStatus = client.another().await.ok()?.get("/v1/daemon").await.ok()?;
    (status.started_at != before.started_at).then_some(status)
}

fn deadline(stopping: &Stopping) -> Instant {
    Instant::now() + SAVING + Duration::try_from_secs_f64(stopping.grace).unwrap_or_default()
}
