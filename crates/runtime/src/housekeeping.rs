//! Periodic tasks: limits that follow the machine, idle services, disk space to reclaim, orphaned processes.

use crate::actor::{Message, RestReason, Slot};
use crate::adaptive::Senses;
use crate::context::SessionContext;
use crate::disk::{self, Candidate, DiskUse, Reclaim, SessionUsage};
use crate::node_limits::NodeLimits;
use crate::ops::{NewEvent, OpError, SessionError};
use crate::resume::Agents;
use crate::services::{self, Order, ServiceStop};
use crate::session_files::SessionFiles;
use crate::stored::Stored;
use crate::tasks;
use shellkeep_process::{CageFactory, Unwatched};
use shellkeep_record::beside::RECLAIMED;
use shellkeep_session::{Author, QuotaName, SessionId};
use shellkeep_store::keyed;
use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::{Instant, MissedTickBehavior};

/// Interval between two readings of the machine's pressure, which is an average over ten seconds.
const PRESSURE_EVERY: Duration = Duration::from_secs(2);
/// Longest interval between two checks of the services; a short idle limit is checked more often.
const SERVICES_EVERY: Duration = Duration::from_secs(30);
/// Interval between two measurements of disk usage.
const DISK_EVERY: Duration = Duration::from_secs(10);
/// Interval between two checks of ended sessions.
const RECLAIM_EVERY: Duration = Duration::from_secs(10 * 60);
/// Interval between two rounds of pruning old checkpoints.
const THIN_EVERY: Duration = Duration::from_secs(60);
/// A round of measuring may take this long; sessions that were not measured come first in the next round.
const DISK_BUDGET: Duration = Duration::from_millis(500);

/// How long a service that writes beyond the disk quota has to end. It may fill the disk meanwhile.
const OVER_DISK_GRACE: Duration = Duration::from_secs(1);

/// The periodic tasks.
pub(crate) struct Housekeeping {
    pub(crate) ctx: Arc<SessionContext>,
    /// The agents that work on a message.
    pub(crate) agents: Arc<Agents>,
    pub(crate) stored: Stored,
    pub(crate) files: Arc<SessionFiles>,
    pub(crate) limits: NodeLimits,
    pub(crate) senses: Arc<dyn Senses>,
    /// After how long without any activity a service is stopped.
    pub(crate) idle_services: Option<Duration>,
    /// When the files of ended sessions are reclaimed.
    pub(crate) reclaim: Reclaim,
    /// How long the recording of a deleted session is kept.
    pub(crate) keep_deleted: Duration,
}

impl Housekeeping {
    /// Runs everything for as long as the engine lives.
    pub(crate) fn spawn(self: &Arc<Self>, factory: &Arc<CageFactory>) {
        let idle = self.idle_services;
        let services_every = idle.map_or(SERVICES_EVERY, |idle| (idle / 4).clamp(PRESSURE_EVERY / 2, SERVICES_EVERY));
        self.every(PRESSURE_EVERY, |house| async move { house.follow_pressure().await });
        self.every(services_every, |house| async move { house.look_at_services().await });
        self.every(DISK_EVERY, |house| async move { house.measure_disk().await });
        self.every(RECLAIM_EVERY, |house| async move { house.reclaim().await });
        self.every(THIN_EVERY, |house| async move { house.files.thin_some().await });
        // Each ends at once where the kernel holds the limit.
        let (processes, memory, watches) = (Arc::clone(factory), Arc::clone(factory), Arc::clone(factory));
        tasks::spawn(async move { processes.guard().await });
        tasks::spawn(async move { shellkeep_process::guard_memory(&memory).await });
        // No kernel holds this one.
        tasks::spawn(async move { shellkeep_process::guard_watches(&watches, report_unwatched).await });
    }

    fn every<F>(self: &Arc<Self>, period: Duration, work: impl Fn(Arc<Self>) -> F + Send + 'static)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let house = Arc::downgrade(self);
        tasks::spawn(async move {
            let mut ticks = tokio::time::interval_at(Instant::now() + period, period);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                ticks.tick().await;
                let Some(house) = house.upgrade() else { return };
                if house.ctx.lifetime.is_stopping() {
                    return;
                }
                work(house).await;
            }
        });
    }

    /// Runs everything once.
    pub(crate) async fn round(&self) {
        self.follow_pressure().await;
        self.look_at_services().await;
        self.measure_disk().await;
        self.reclaim().await;
        self.files.thin_some().await;
    }

    async fn follow_pressure(&self) {
        self.ctx.data_dir.look();
        self.limits.follow_pressure();
        for _ in 0..self.ctx.pool.excess() {
            if !self.ctx.shells.evict(None).await {
                break;
            }
        }
    }

    async fn look_at_services(&self) {
        let stopped = services::idle::look(&self.ctx.services, self.senses.now(), self.idle_services).await;
        metrics::counter!("shellkeep_services_idle_stopped_total").increment(stopped as u64);
        metrics::gauge!("shellkeep_services").set(self.ctx.services.used() as f64);
        let reaped = tasks::blocking(shellkeep_process::reap_strays).await.unwrap_or(0);
        if reaped > 0 {
            tracing::debug!(processes = reaped, "reaped orphaned processes");
        }
    }

    /// Measures the sessions that were used or written into since the last time, and those in which something works, and
    /// deletes outputs beyond the quota.
    async fn measure_disk(&self) {
        let active = self.active_since_measured();
        for (id, in_force) in &active {
            self.trim_outputs(id, *in_force).await;
        }
        // Files are written into sessions that are not awake, too. In no order: there may be too many for one round.
        let active = active.into_iter().map(|(id, _)| id);
        let mut sessions: HashSet<SessionId> = active.chain(self.ctx.disk.estimated()).collect();
        // Nobody uses these: a service, an agent, and what a command has left running write by themselves.
        sessions.extend(self.ctx.services.sessions());
        sessions.extend(self.agents.sessions());
        sessions.extend(self.ctx.runs.detached(|_| true).into_iter().map(|(id, _)| id));
        let ctx = Arc::clone(&self.ctx);
        let measuring = tasks::blocking(move || {
            let left = shellkeep_process::assignees_at_work(&ctx.services.factory);
            sessions.extend(left.iter().filter_map(|id| SessionId::parse(id).ok()));
            let start = Instant::now();
            let (mut growing, mut over) = (Vec::new(), HashSet::new());
            for id in sessions {
                let Measured { disk_use, agent } = measure(&ctx, &id);
                over.extend(agent.filter(|_| disk_use != DiskUse::Within));
                if disk_use == DiskUse::OverAndGrowing {
                    growing.push(id);
                }
                if start.elapsed() > DISK_BUDGET {
                    break;
                }
            }
            mark_sessions_of(&ctx, &over);
            growing
        });
        // Only sessions that still grow are stopped: a command that frees space must be able to run.
        for id in measuring.await.unwrap_or_default() {
            self.end_writers(&id);
        }
    }

    /// Ends what works in a session that grows beyond its disk quota: which of it writes is not known.
    fn end_writers(&self, id: &SessionId) {
        let Some(over) = self.ctx.disk.over_quota(id) else { return };
        let why = over.why_ended();
        tracing::warn!(session = %id, why, "over its disk quota and growing; ending what works in it");
        self.ctx.runs.kill(|other| other == id);
        self.agents.interrupt(id, &why);
        let services = self.ctx.services.list(|seen| seen.session_id == *id);
        let (registry, id) = (Arc::clone(&self.ctx.registry), id.clone());
        let ending = async move {
            for seen in services {
                // It is not restarted: it was stopped by order.
                seen.tell(Order::Stop { grace: OVER_DISK_GRACE, reason: ServiceStop::OverDisk(over) }).await;
            }
            let (answer, ended) = oneshot::channel();
            registry.tell_awake(&id, Message::Evict { why: RestReason::OverDisk, answer }).await;
            let _ = ended.await;
        };
        // It may be busy for long with something else; other sessions are measured meanwhile.
        tasks::spawn(tokio::time::timeout(DISK_EVERY, ending));
    }

    /// Removes a session's oldest outputs beyond the quota. That is recorded first, so that a file that is missing for
    /// another reason can be distinguished from one that was removed to make room.
    async fn trim_outputs(&self, id: &SessionId, in_force: u64) {
        let (outputs, limit) = (self.ctx.data_dir.outputs(id), self.ctx.quotas.get(QuotaName::OutputBytesPerSession));
        let looking = tasks::blocking(move || disk::excess_outputs(&outputs, limit, in_force));
        let excess = looking.await.unwrap_or_default();
        if excess.is_empty() {
            return;
        }
        let name = |path: &PathBuf| path.file_name().map(|name| name.to_string_lossy().into_owned());
        let names: Vec<String> = excess.iter().filter_map(name).collect();
        let event = NewEvent { event_type: RECLAIMED.to_owned(), data: serde_json::json!({ "files": names }) };
        match self
            .ctx
            .registry
            .ask(id, |answer| Message::Note { events: vec![event], author: Author::runtime(None), answer })
            .await
        {
            Ok(_) => {
                let removing = tasks::blocking(move || {
                    for path in excess {
                        let _ = std::fs::remove_file(path);
                    }
                });
                let _ = removing.await;
                if let Some(files) = self.ctx.shared_files()
                    && let Err(reason) = files.detach(id, names).await
                {
                    tracing::warn!(session = %id, reason, "outputs beyond the quota stay where nodes share them");
                }
            }
            Err(error) => {
                tracing::warn!(session = %id, %error, "outputs beyond the quota are kept until that can be recorded")
            }
        }
    }

    /// Deletes ended sessions that are old, or too large in total; never one that is in use.
    async fn reclaim(&self) {
        let mut ended = Vec::new();
        for id in self.ctx.disk.ended() {
            let state = match self.stored.load(&id).await {
                Ok(state) => state,
                Err(OpError::Session(SessionError::NotFound { .. } | SessionError::Damaged { .. })) => {
                    self.ctx.disk.not_ended(&id);
                    continue;
                }
                // The note stays: without it, nothing would look at the session's files again.
                Err(error) => {
                    tracing::warn!(session = %id, %error, "whether an ended session can be reclaimed is not known yet");
                    continue;
                }
            };
            match state.ended_at {
                None => self.ctx.disk.not_ended(&id),
                Some(_) if self.ctx.registry.is_awake(&id) || !state.is_at_rest() => {}
                Some(ended_at) => {
                    let mut directories = own_directories(&self.ctx, &id);
                    directories.extend(kept_directories(&self.ctx, &id));
                    let measuring = tasks::blocking(move || disk::measure(&directories));
                    ended.push(Candidate { id, ended_at, bytes: measuring.await.unwrap_or_default().bytes });
                }
            }
        }
        let (ctx, now, keep) = (Arc::clone(&self.ctx), self.senses.now(), self.keep_deleted);
        let _ = tasks::blocking(move || ctx.remover.purge_expired(now, keep)).await;
        for candidate in disk::to_reclaim(ended, self.senses.now(), self.reclaim) {
            self.remove(&candidate).await;
        }
    }

    async fn remove(&self, candidate: &Candidate) {
        let id: &SessionId = &candidate.id;
        match self.ctx.registry.ask(id, |answer| Message::Reclaim { ended_at: candidate.ended_at, answer }).await {
            Ok(()) => {
                metrics::counter!("shellkeep_reclaimed_bytes_total").increment(candidate.bytes);
                tracing::info!(session = %id, bytes = candidate.bytes, "an ended session was reclaimed");
            }
            Err(error) => tracing::warn!(session = %id, %error, "an ended session could not be reclaimed"),
        }
    }

    /// Sessions that were used since they were last measured, each with the first version of its agent's state whose
    /// file must stay.
    fn active_since_measured(&self) -> Vec<(SessionId, u64)> {
        let was_used = |slot: &Slot| slot.last_used.load(Ordering::Relaxed) >= slot.measured_at.load(Ordering::Relaxed);
        let mut active = Vec::new();
        self.ctx.registry.for_each(|id, slot| {
            if slot.busy.load(Ordering::Relaxed) || was_used(slot) {
                active.push((id.clone(), slot.agent_state.load(Ordering::Relaxed)));
            }
        });
        active
    }
}

/// Says whose processes had used up what the daemon's user may watch.
fn report_unwatched(Unwatched { party, processes }: Unwatched) {
    metrics::counter!("shellkeep_epoll_kills_total").increment(processes as u64);
    tracing::warn!(
        agent = %party,
        processes,
        "killed: with these the daemon's user had no epoll watches left (fs.epoll.max_user_watches), and nobody got a new \
         shell"
    );
}

/// A session that was measured.
struct Measured {
    disk_use: DiskUse,
    agent: Option<Arc<str>>,
}

/// Measures the disk usage of a session.
fn measure(ctx: &SessionContext, id: &SessionId) -> Measured {
    let recording = [ctx.store.recording(id)];
    let (own, kept) = (disk::measure(&own_directories(ctx, id)), disk::measure(&kept_directories(ctx, id)));
    let kept = kept + disk::measure(&recording);
    let agent = ctx.names.agent_of(id);
    let disk_use = ctx.disk.measured(id, agent.clone(), SessionUsage { own, kept });
    if let Some(slot) = ctx.registry.slot(id) {
        slot.measured_at.store(ctx.lifetime.now_ms(), Ordering::Relaxed);
        slot.over_disk.store(disk_use != DiskUse::Within, Ordering::Relaxed);
    }
    if !ctx.names.contains(id) {
        // It was deleted meanwhile.
        ctx.disk.drop_usage(id);
    }
    Measured { disk_use, agent }
}

/// Marks the sessions of these agents, each of which is over a quota for one session or for all of them. Whether a session's
/// result has a notice is decided when it runs a command. Called once per measurement, because it visits every session that
/// is awake.
fn mark_sessions_of(ctx: &SessionContext, agents: &HashSet<Arc<str>>) {
    if agents.is_empty() {
        return;
    }
    ctx.registry.for_each(|_, slot| {
        if agents.contains(&slot.agent) {
            slot.over_disk.store(true, Ordering::Relaxed);
        }
    });
}

/// The directories that a session's commands write to. One that the host named is the host's: several sessions and other
/// programs may write to it, and which of them did is not known.
fn own_directories(ctx: &SessionContext, id: &SessionId) -> Vec<PathBuf> {
    vec![ctx.workspaces.of(id).as_path().to_owned(), ctx.data_dir.homes().join(id.as_str())]
}

/// The directories with what is kept of a session.
fn kept_directories(ctx: &SessionContext, id: &SessionId) -> Vec<PathBuf> {
    let outputs = ctx.data_dir.outputs(id).to_path_buf();
    let values = keyed::directory(ctx.data_dir.root(), id.as_str());
    vec![outputs, values, ctx.data_dir.services(id), ctx.checkpoints.home(id)]
}
