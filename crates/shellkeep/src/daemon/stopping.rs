//! What stops a daemon, and what it lets end before it does.

use super::control::Running;
use crate::failure::Failure;
use shellkeep_runtime::Engine;
use shellkeep_server::{Control as _, StopOrder};
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

/// The signals that end a daemon, and SIGHUP, which makes it read its configuration again: closing a terminal must not
/// end every session.
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    pub(super) fn listen() -> Result<Self, Failure> {
        let on = |kind| signal(kind).map_err(Failure::start);
        Ok(Self {
            terminate: on(SignalKind::terminate())?,
            interrupt: on(SignalKind::interrupt())?,
            hangup: on(SignalKind::hangup())?,
        })
    }

    /// Returns when a signal or a client stops the daemon.
    pub(super) async fn until_stop(
        &mut self,
        orders: &mut watch::Receiver<Option<StopOrder>>,
        engine: &Engine,
        running: &Arc<Running>,
    ) -> StopOrder {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return StopOrder { now: false, restart: false },
                _ = self.interrupt.recv() => return StopOrder { now: false, restart: false },
                _ = self.hangup.recv() => reload(engine, running).await,
                order = orders.wait_for(Option::is_some) => {
                    if let Some(order) = order.ok().and_then(|order| *order) {
                        return order;
                    }
                }
            }
        }
    }

    /// Returns at the next signal that ends the daemon.
    pub(super) async fn end(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// Reads the configuration again, for SIGHUP.
async fn reload(engine: &Engine, running: &Arc<Running>) {
    let control = Arc::clone(running);
    match tokio::task::spawn_blocking(move || control.reload()).await {
        Ok(Ok(reloading)) => {
            if let Err(error) = engine.node().configure_quotas(reloading.quotas).await {
                tracing::error!(%error, "the quotas could not be changed");
            }
            tracing::info!("the configuration was reloaded");
        }
        Ok(Err(reason)) => tracing::error!(reason, "the configuration is invalid; nothing was changed"),
        Err(error) => tracing::error!(%error, "the configuration could not be read"),
    }
}

/// Lets running commands finish: until they have, the grace period is over, or a second request arrives. Returns the
/// order that applies in the end: a signal or a client may stop a daemon that was about to restart.
pub(super) async fn drain(
    engine: &Engine,
    order: StopOrder,
    grace: Duration,
    signals: &mut Signals,
    orders: &mut watch::Receiver<Option<StopOrder>>,
) -> StopOrder {
    let grace = if order.now { Duration::ZERO } else { grace };
    tracing::info!(grace = grace.as_secs(), "stopping: no new commands; sessions are being saved");
    let node = engine.node();
    let mut is_signalled = false;
    // A daemon that is back at once keeps its sessions.
    let leave = async {
        if !order.restart {
            hand_over(engine, grace).await;
        }
    };
    let left = tokio::select! {
        (left, ()) = async { tokio::join!(node.drain(grace), leave) } => left,
        () = signals.end() => {
            is_signalled = true;
            node.drain(Duration::ZERO).await
        }
        () = stop_now(orders) => node.drain(Duration::ZERO).await,
    };
    if left > 0 {
        tracing::warn!(commands = left, "still running after the grace period; killing them");
    }
    let last = orders.borrow().unwrap_or(order);
    let restart = order.restart && last.restart && !is_signalled;
    if order.restart && !restart {
        hand_over(engine, Duration::ZERO).await;
    }
    StopOrder { restart, ..last }
}

/// Other nodes, if there are some, take over what this one has.
async fn hand_over(engine: &Engine, wait: Duration) {
    if let Some(cluster) = engine.node().cluster()
        && let Err(error) = cluster.drain(wait).await
    {
        tracing::warn!(%error, "this node could not be drained");
    }
}

/// Returns when a request says not to wait for running commands.
async fn stop_now(orders: &mut watch::Receiver<Option<StopOrder>>) {
    if orders.wait_for(|order| order.is_some_and(|order| order.now)).await.is_err() {
        std::future::pending().await
    }
}
