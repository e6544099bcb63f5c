//! What is looked after from time to time: limits that follow the machine, services in which nothing happens, disk that
//! is no longer needed, processes that nobody waits for.

use crate::disk::{self, Candidate};
use crate::engine::Inner;
use crate::ops::NewEvent;
use crate::owner::Message;
use crate::services;
use shellkeep_record::beside::RECLAIMED;
use shellkeep_session::{Author, QuotaName, SessionId};
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::time::{Instant, MissedTickBehavior};

/// Between two looks at the machine's pressure. The averages it gives are over ten seconds.
const PRESSURE_EVERY: Duration = Duration::from_secs(2);
/// Between two looks at the services, at most; a short idle limit is looked at more often.
const SERVICES_EVERY: Duration = Duration::from_secs(30);
/// Between two measurements of what sessions take of the disk.
const DISK_EVERY: Duration = Duration::from_secs(10);
/// Between two looks at ended sessions.
const RECLAIM_EVERY: Duration = Duration::from_secs(10 * 60);
/// Between two rounds in which old checkpoints are removed.
const THIN_EVERY: Duration = Duration::from_secs(60);
/// A round of measuring may take this long; who was not measured is the first of the next round.
const DISK_BUDGET: Duration = Duration::from_millis(500);

/// Looks after an engine for as long as it lives.
pub(crate) fn spawn(inner: &Arc<Inner>) {
    let idle = inner.config.idle_services;
    let services_every = idle.map_or(SERVICES_EVERY, |idle| (idle / 4).clamp(PRESSURE_EVERY / 2, SERVICES_EVERY));
    every(inner, PRESSURE_EVERY, |inner| async move { follow_pressure(&inner).await });
    every(inner, services_every, |inner| async move { look_at_services(&inner).await });
    every(inner, DISK_EVERY, |inner| async move { measure_disk(&inner).await });
    every(inner, RECLAIM_EVERY, |inner| async move { reclaim(&inner).await });
    every(inner, THIN_EVERY, |inner| async move { inner.thin_some().await });
    if !inner.factory.has_limit() {
        let factory = Arc::clone(&inner.factory);
        tokio::spawn(async move { factory.guard().await });
    }
}

fn every<F>(inner: &Arc<Inner>, period: Duration, work: impl Fn(Arc<Inner>) -> F + Send + 'static)
where
    F: Future<Output = ()> + Send + 'static,
{
    let inner: Weak<Inner> = Arc::downgrade(inner);
    tokio::spawn(async move {
        let mut ticks = tokio::time::interval_at(Instant::now() + period, period);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let Some(inner) = inner.upgrade() else { return };
            if inner.is_stopping() {
                return;
            }
            work(inner).await;
        }
    });
}

/// Everything once.
pub(crate) async fn round(inner: &Arc<Inner>) {
    follow_pressure(inner).await;
    look_at_services(inner).await;
    measure_disk(inner).await;
    reclaim(inner).await;
    inner.thin_some().await;
}

async fn follow_pressure(inner: &Arc<Inner>) {
    inner.look_at_data();
    for change in inner.adaptive.tick() {
        inner.put_in_force(&change);
    }
    for _ in 0..inner.pool.excess() {
        if !inner.evict_idlest().await {
            break;
        }
    }
}

async fn look_at_services(inner: &Arc<Inner>) {
    let stopped = services::look(inner, inner.config.senses.now(), inner.config.idle_services).await;
    metrics::counter!("shellkeep_services_idle_stopped_total").increment(stopped as u64);
    metrics::gauge!("shellkeep_services").set(inner.services_used() as f64);
    let reaped = tokio::task::spawn_blocking(shellkeep_process::reap_strays).await.unwrap_or(0);
    if reaped > 0 {
        tracing::debug!(processes = reaped, "reaped what nobody waited for");
    }
}

/// Measures the sessions that did something since the last time, and gives back outputs beyond the quota.
async fn measure_disk(inner: &Arc<Inner>) {
    let active = inner.active_since_measured();
    for (id, in_force) in &active {
        trim_outputs(inner, id, *in_force).await;
    }
    let keeper = Arc::clone(inner);
    let measuring = tokio::task::spawn_blocking(move || {
        let start = Instant::now();
        let mut growing = Vec::new();
        for (id, _) in active {
            if keeper.measured(&id, disk::measure(&keeper.directories_of(&id))) {
                growing.push(id);
            }
            if start.elapsed() > DISK_BUDGET {
                break;
            }
        }
        growing
    });
    // Only what writes is ended: a command that makes room must be able to run.
    for id in measuring.await.unwrap_or_default() {
        tracing::warn!(session = %id, "over its disk quota and growing; what it runs is ended");
        inner.kill_runs(&id).await;
    }
}

/// Removes a session's oldest outputs beyond the quota. That is recorded first, so that a file that is gone for another
/// reason can be told from one that was removed to make room.
async fn trim_outputs(inner: &Arc<Inner>, id: &SessionId, in_force: u64) {
    let (outputs, limit) = (inner.output_directory(id), inner.quotas.get(QuotaName::OutputBytesPerSession));
    let looking = tokio::task::spawn_blocking(move || disk::excess_outputs(&outputs, limit, in_force));
    let excess = looking.await.unwrap_or_default();
    if excess.is_empty() {
        return;
    }
    let name = |path: &PathBuf| path.file_name().map(|name| name.to_string_lossy().into_owned());
    let names: Vec<String> = excess.iter().filter_map(name).collect();
    let event = NewEvent { event_type: RECLAIMED.to_owned(), data: serde_json::json!({ "files": names }) };
    match inner.ask(id, |answer| Message::Note { events: vec![event], author: Author::runtime(None), answer }).await {
        Ok(_) => {
            let removing = tokio::task::spawn_blocking(move || {
                for path in excess {
                    let _ = std::fs::remove_file(path);
                }
            });
            let _ = removing.await;
        }
        Err(error) => {
            tracing::warn!(session = %id, %error, "outputs beyond the quota are kept until that can be recorded")
        }
    }
}

/// Removes ended sessions that are old, or too large together; never one that is in use.
async fn reclaim(inner: &Arc<Inner>) {
    let data_dir = &inner.config.data_dir;
    let mut ended = Vec::new();
    for id in inner.disk.ended(data_dir) {
        let state = match inner.load(&id).await {
            Ok(state) => state,
            Err(_) => {
                inner.disk.not_ended(data_dir, &id);
                continue;
            }
        };
        match state.ended_at {
            None => inner.disk.not_ended(data_dir, &id),
            Some(_) if inner.is_awake(&id) || !state.is_at_rest() => {}
            Some(ended_at) => {
                let directories = inner.directories_of(&id);
                let measuring = tokio::task::spawn_blocking(move || disk::measure(&directories));
                ended.push(Candidate { id, ended_at, bytes: measuring.await.unwrap_or(0) });
            }
        }
    }
    let keeper = Arc::clone(inner);
    let _ = tokio::task::spawn_blocking(move || keeper.purge_expired()).await;
    for candidate in disk::to_reclaim(ended, inner.config.senses.now(), inner.config.reclaim) {
        remove(inner, &candidate).await;
    }
}

async fn remove(inner: &Arc<Inner>, candidate: &Candidate) {
    let id: &SessionId = &candidate.id;
    match inner.ask(id, |answer| Message::Reclaim { ended_at: candidate.ended_at, answer }).await {
        Ok(()) => {
            metrics::counter!("shellkeep_reclaimed_bytes_total").increment(candidate.bytes);
            tracing::info!(session = %id, bytes = candidate.bytes, "an ended session was reclaimed");
        }
        Err(error) => tracing::warn!(session = %id, %error, "an ended session could not be reclaimed"),
    }
}
