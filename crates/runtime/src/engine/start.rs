//! Starting an engine: what an earlier daemon left running is taken over or killed, what it had not finished is marked
//! as lost, and only then does new work start.

use super::audit::Audit;
use super::cluster;
use super::config::EngineConfig;
use super::handle::Engine;
use super::identities;
use super::parts::Parts;
use crate::actor::{Actor, Message, reopen};
use crate::adaptive::Adaptive;
use crate::admission::Admission;
use crate::adopt::{self, Left};
use crate::background::Background;
use crate::checkpoints::Checkpoints;
use crate::cluster::{Cluster, Own, Whose};
use crate::context::SessionContext;
use crate::counts::Counts;
use crate::data_dir::DataDir;
use crate::disk::Disk;
use crate::history::History;
use crate::housekeeping::Housekeeping;
use crate::identities::Identities;
use crate::kept::KeptFiles;
use crate::lifetime::Lifetime;
use crate::live_runs::LiveRuns;
use crate::masking::Masking;
use crate::names::Names;
use crate::network::Report;
use crate::node_limits::{self, NodeLimits, adaptive_limits, memory_limit, process_limits};
use crate::ops::{BoxFuture, OpError};
use crate::past_sessions::ReadBack;
use crate::pending::{Settler, Unfinished};
use crate::pool::Pool;
use crate::quotas::NodeQuotas;
use crate::recordings::Recordings;
use crate::recover;
use crate::registry::{Registry, Spawn};
use crate::remover::Remover;
use crate::resume::Agents;
use crate::sandbox_trial;
use crate::sandboxes::{NodeFacts, Sandboxes};
use crate::secret_sources::SecretSources;
use crate::secrets::Secrets;
use crate::services::{Begin, Entry, Services, Supervision, cage_name};
use crate::session_files::SessionFiles;
use crate::shares::Shares;
use crate::shells::Shells;
use crate::stored::Stored;
use crate::tasks;
use crate::thinning::Thinning;
use crate::work::Work;
use shellkeep_process::service::{ServiceProcess, ServiceStamps};
use shellkeep_process::{CageFactory, ProcessStamp, Zygote};
use shellkeep_session::{QuotaName, SessionId, Stamp};
use shellkeep_store::{AuditTrail, Store, TokenFile};
use shellkeep_workspace::Workspaces;
use std::path::Path;
use std::sync::{Arc, Mutex, Weak};
use tokio::sync::mpsc;

/// Why an engine did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A directory cannot be created.
    #[error("cannot create {path}: {reason}")]
    Directory { path: String, reason: String },
    /// The store cannot be read.
    #[error("cannot read the store: {0}")]
    Store(String),
    /// The quotas that were set cannot be read.
    #[error("cannot read quotas.json in the data directory: {0}; fix or delete it")]
    Quotas(String),
    /// The agents' tokens cannot be read.
    #[error("cannot read the agents' tokens: {0}")]
    Tokens(#[from] shellkeep_store::OpenError),
    /// The audit trail cannot be written.
    #[error("cannot write the audit trail: {0}; is audit.jsonl in the data directory writable?")]
    Audit(std::io::Error),
    /// The settings of redaction are wrong.
    #[error("{0}")]
    Redaction(#[from] shellkeep_redact::ConfigError),
    /// The shared store's URL or this node's name cannot be used.
    #[error("{0}")]
    Cluster(String),
    /// This machine cannot confine sessions as the settings say.
    #[error("{0}")]
    Sandbox(String),
    /// Bash does not work.
    #[error("{0}")]
    Bash(#[from] shellkeep_process::StartError),
}

impl Engine {
    /// Starts: kills what an earlier daemon left running, takes over its services, marks what it had not finished as
    /// lost, and gets ready.
    pub fn start(mut config: EngineConfig, store: Store) -> BoxFuture<'static, Result<Self, StartError>> {
        Box::pin(async move {
            // A workspace is known by its real path, so that a link put there later is not followed.
            config.data_dir = config.data_dir.canonicalize().map_err(|error| not_made(&config.data_dir, &error))?;
            let workspaces = make_directories(&config.data_dir)?;
            recover::clear_scratch(&config.data_dir.join("scratch"));
            let environment = recover::inherited_environment(&config.env_pass);
            let identities = Identities::load(TokenFile::of(&config.data_dir), config.agent_may_restart)?;
            let quotas = NodeQuotas::load(config.quotas, &config.data_dir)
                .map_err(|error| StartError::Quotas(error.to_string()))?;
            let node = NodeFacts { is_alone: config.cluster.is_none(), memory: memory_limit(&quotas) };
            let (asked, data, holders) = (&config.sandbox, &config.data_dir, identities.holders());
            let trial = sandbox_trial::try_out(asked, data, &environment, holders, node);
            let sandboxes = trial.await.map_err(StartError::Sandbox)?;
            let factory =
                CageFactory::detect(&recover::instance(&config.data_dir), config.cages, process_limits(&quotas));
            factory.note_parties_in(config.data_dir.join("parties"));
            let factory = Arc::new(factory);
            let boot_id = shellkeep_process::proc::boot_id();
            let checkpoints = Arc::new(Checkpoints::new(&config.data_dir, config.checkpoints.clone()));
            let settler = Settler {
                data_dir: &config.data_dir,
                store: &store,
                checkpoints: &checkpoints,
                workspaces: &workspaces,
            };
            let unfinished = settler.settle().await;
            let left = after_crash(&config, &store, &checkpoints, (&factory, &sandboxes), &boot_id).await;
            let left = left.map_err(StartError::Store)?;
            sandbox_trial::begin(&sandboxes).map_err(StartError::Sandbox)?;
            settler.finish_deletions(&unfinished).await;
            let known = recover::patiently(|| recover::known_sessions(&store)).await.map_err(StartError::Store)?;
            let masking = Masking::new(&config.record)?;
            let secret_sources = Arc::new(SecretSources::new(std::mem::take(&mut config.secrets)));
            let audit = AuditTrail::open(&config.data_dir).map_err(StartError::Audit)?;
            let names = Arc::new(Names::new(known));
            let (news, moved) = mpsc::unbounded_channel();
            let cluster = match &config.cluster {
                None => None,
                Some(cluster) => {
                    let (store, workspaces) = (store.clone(), workspaces.clone());
                    let (names, checkpoints) = (Arc::clone(&names), Arc::clone(&checkpoints));
                    let own = Own { store, names, workspaces, checkpoints };
                    let started = Cluster::start(cluster, &config.data_dir, own, news).await;
                    Some(Arc::new(started.map_err(StartError::Cluster)?))
                }
            };
            forget_deleted(unfinished, cluster.as_deref()).await;
            let opened = Opened {
                config,
                store,
                cluster,
                workspaces,
                checkpoints,
                quotas: Arc::new(quotas),
                factory,
                names,
                masking: Arc::new(masking),
                secret_sources,
                boot_id: boot_id.into(),
                sandboxes,
                environment,
            };
            let parts = Arc::new(opened.into_parts(identities, audit));
            begin(&parts, left).await?;
            if let Some(cluster) = &parts.ctx.cluster {
                tasks::spawn(identities::follow_tokens(Arc::downgrade(&parts), Arc::clone(cluster)));
                cluster::begin(&parts, cluster, moved);
            }
            Ok(Self::of(parts))
        })
    }
}

/// Makes the directories of the sessions below the data directory.
fn make_directories(data: &Path) -> Result<Workspaces, StartError> {
    for directory in ["homes", "outputs", "scratch", "services"].map(|name| data.join(name)) {
        std::fs::create_dir_all(&directory).map_err(|error| not_made(&directory, &error))?;
    }
    let home = data.join("workspaces");
    Workspaces::open(home.clone()).map_err(|error| not_made(&home, &error))
}

/// Completes deletions where nodes share a store, before that brings a session back.
async fn forget_deleted(unfinished: Vec<Unfinished>, cluster: Option<&Cluster>) {
    for Unfinished { deletion, note, was_recorded } in unfinished {
        match cluster {
            Some(cluster) => cluster.removals().complete(&deletion, note, was_recorded).await,
            None => note.done(),
        }
    }
}

/// What is opened first; the rest of an engine is made of it.
struct Opened {
    config: EngineConfig,
    store: Store,
    cluster: Option<Arc<Cluster>>,
    workspaces: Workspaces,
    checkpoints: Arc<Checkpoints>,
    quotas: Arc<NodeQuotas>,
    factory: Arc<CageFactory>,
    names: Arc<Names>,
    masking: Arc<Masking>,
    secret_sources: Arc<SecretSources>,
    boot_id: Arc<str>,
    sandboxes: Arc<Sandboxes>,
    environment: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Opened {
    fn into_parts(self, identities: Identities, audit: AuditTrail) -> Parts {
        let shares = Arc::new(Shares::default());
        let work = Arc::new(Work::new(Arc::clone(&shares)));
        let lifetime = Arc::new(Lifetime::begin());
        let (names, cluster) = (Arc::clone(&self.names), self.cluster.clone());
        let stored = Stored::new(self.store.clone(), names, Arc::clone(&lifetime), cluster);
        let data_dir = Arc::new(DataDir::new(self.config.data_dir.clone(), self.store.clone()));
        let recordings = Recordings::new(self.store.clone(), Arc::clone(&self.names), data_dir.clone(), work.clone());
        let recordings = Arc::new(recordings);
        let limits = adaptive_limits(&self.quotas, self.config.admission.min_running);
        let adaptive = Arc::new(Adaptive::new(limits, Arc::clone(&self.config.senses)));
        let ctx = Arc::new_cyclic(|ctx: &Weak<SessionContext>| {
            let registry = Registry::new(stored.clone(), lifetime, spawn_actor(ctx.clone()));
            self.context(data_dir, Arc::clone(&recordings), Arc::clone(&adaptive), Arc::clone(&work), registry.into())
        });
        let files = self.files(&ctx, &work);
        let limits = NodeLimits {
            quotas: self.quotas,
            adaptive: Arc::clone(&adaptive),
            admission: Arc::clone(&ctx.admission),
            pool: Arc::clone(&ctx.pool),
            services: Arc::clone(&ctx.services),
            factory: Arc::clone(&self.factory),
            names: Arc::clone(&self.names),
            min_running: self.config.admission.min_running,
        };
        let agents = Arc::new(Agents::default());
        let housekeeping = Arc::new(Housekeeping {
            ctx: Arc::clone(&ctx),
            agents: Arc::clone(&agents),
            stored: stored.clone(),
            files: Arc::clone(&files),
            limits: limits.clone(),
            senses: Arc::clone(&self.config.senses),
            idle_services: self.config.idle_services,
            reclaim: self.config.reclaim,
            keep_deleted: self.config.keep_deleted,
        });
        let read_back =
            self.config.past.clone().map(|past| ReadBack::new(past, Arc::clone(&work), &self.config.data_dir));
        Parts {
            environment: self.environment,
            config: self.config,
            ctx,
            stored,
            recordings,
            read_back,
            files,
            housekeeping,
            factory: self.factory,
            adaptive,
            limits,
            agents,
            shares,
            work,
            identities,
            audit: Audit::new(audit),
        }
    }

    fn files(&self, ctx: &SessionContext, work: &Arc<Work>) -> Arc<SessionFiles> {
        Arc::new(SessionFiles {
            registry: Arc::clone(&ctx.registry),
            checkpoints: Arc::clone(&self.checkpoints),
            history: Arc::clone(&ctx.history),
            thinning: Arc::clone(&ctx.thinning),
            work: Arc::clone(work),
            names: Arc::clone(&self.names),
            lifetime: Arc::clone(&ctx.lifetime),
        })
    }

    fn kept_files(&self, data_dir: &Arc<DataDir>, recordings: Arc<Recordings>) -> KeptFiles {
        let shared = self.cluster.as_ref().and_then(|cluster| cluster.files().cloned());
        KeptFiles::new(Arc::clone(data_dir), recordings, shared)
    }

    fn context(
        &self,
        data_dir: Arc<DataDir>,
        recordings: Arc<Recordings>,
        adaptive: Arc<Adaptive>,
        work: Arc<Work>,
        registry: Arc<Registry>,
    ) -> SessionContext {
        let Self { config, store, quotas, factory, names, masking, .. } = self;
        let shells = node_limits::count(quotas, QuotaName::LiveShells);
        let bash = config.bash.clone();
        let zygote = Zygote::new(bash.clone(), data_dir.scratch(), CageFactory::clone(factory), config.forking);
        let zygote = zygote.with_locale_of(&self.environment);
        let (sandboxes, counts) = (Arc::clone(&self.sandboxes), (shells, config.spare_shells));
        let pool = Arc::new(Pool::new(zygote, data_dir.scratch(), Arc::clone(factory), sandboxes, counts));
        let runs = Arc::new(LiveRuns::default());
        let disk = Arc::new(Disk::new(&data_dir, Arc::clone(quotas)));
        let services = Arc::new(Services {
            factory: Arc::clone(factory),
            quotas: Arc::clone(quotas),
            adaptive,
            background: Background::new(Arc::clone(&runs), Arc::clone(names)),
            disk: Arc::clone(&disk),
            work,
            masking: Arc::clone(masking),
            agents: self.cluster.as_ref().map(|cluster| Arc::clone(cluster.agents())),
            live: Mutex::default(),
        });
        let supervision = Supervision {
            services: Arc::clone(&services),
            registry: Arc::clone(&registry),
            data_dir: Arc::clone(&data_dir),
            sandboxes: Arc::clone(&self.sandboxes),
            bash,
            boot_id: Arc::clone(&self.boot_id),
        };
        let thinning = Arc::new(Thinning::default());
        let secrets = Arc::new(Secrets::new(masking, &self.secret_sources, &recordings, &registry));
        let remover = Remover {
            store: store.clone(),
            data_dir: Arc::clone(&data_dir),
            workspaces: self.workspaces.clone(),
            checkpoints: Arc::clone(&self.checkpoints),
            names: Arc::clone(names),
            runs: Arc::clone(&runs),
            disk: Arc::clone(&disk),
            thinning: Arc::clone(&thinning),
            secrets: Arc::clone(&secrets),
            cluster: self.cluster.clone(),
        };
        SessionContext {
            store: store.clone(),
            cluster: self.cluster.clone(),
            workspaces: self.workspaces.clone(),
            checkpoints: Arc::clone(&self.checkpoints),
            thinning,
            shells: Shells::new(Arc::clone(&pool), Arc::clone(&registry)),
            pool,
            admission: Admission::new(config.admission.clone(), shells),
            sandboxes: Arc::clone(&self.sandboxes),
            quotas: Arc::clone(quotas),
            disk,
            services,
            supervision: Arc::new(supervision),
            masking: Arc::clone(masking),
            secrets,
            secret_sources: Arc::clone(&self.secret_sources),
            counts: Counts::new(),
            runs,
            history: Arc::new(History::new(store.clone(), Arc::clone(&recordings), Arc::clone(&config.senses))),
            kept_files: self.kept_files(&data_dir, recordings),
            remover,
            names: Arc::clone(names),
            lifetime: registry.lifetime(),
            registry,
            data_dir,
            boot_id: Arc::clone(&self.boot_id),
        }
    }
}

/// Starts the task of a session for as long as the engine lives.
fn spawn_actor(ctx: Weak<SessionContext>) -> Spawn {
    Box::new(move |state, mailbox, slot| {
        let ctx = ctx.upgrade().ok_or(OpError::ShuttingDown)?;
        tasks::spawn(Actor::new(ctx, state, mailbox, slot).serve());
        Ok(())
    })
}

/// Takes over what runs and starts the background tasks.
async fn begin(parts: &Parts, left: Vec<Left>) -> Result<(), StartError> {
    if let Err(error) = shellkeep_process::watch_logs() {
        tracing::warn!(%error, "the kernel does not report changes of service logs; they are read once a second");
    }
    // Starts one shell first, to detect a bash that does not work.
    parts.ctx.pool.probe().await?;
    for service in left {
        // One that runs is taken over first, so that it can be ended. One that has ended is its owner's to start.
        if service.end.is_none() || !is_anothers(parts, &service.session_id).await {
            take_over(parts, service);
        }
    }
    tasks::spawn(Pool::keep_spares(Arc::downgrade(&parts.ctx.pool)));
    tasks::spawn(Pool::drop_outdated_rooms(Arc::downgrade(&parts.ctx.pool)));
    let files = Arc::clone(&parts.files);
    tasks::spawn(async move { files.keep_owed().await });
    parts.housekeeping.spawn(&parts.factory);
    if let Some(reports) = parts.ctx.sandboxes.rooms().take_reports() {
        tasks::spawn(record_unreached(Arc::downgrade(&parts.ctx), reports));
    }
    Ok(())
}

/// Whether another node has taken a session over, as far as is known.
async fn is_anothers(parts: &Parts, id: &SessionId) -> bool {
    match &parts.ctx.cluster {
        Some(cluster) => matches!(cluster.diverged().whose(id).await, Ok(Whose::Anothers(_))),
        None => false,
    }
}

/// Records what rooms do not reach, for as long as the engine lives.
async fn record_unreached(ctx: Weak<SessionContext>, mut reports: mpsc::Receiver<Report>) {
    while let Some(Report { session_id, unreached, recorded }) = reports.recv().await {
        let Some(ctx) = ctx.upgrade() else { return };
        let asked = ctx.registry.ask(&session_id, |answer| Message::Unreached { unreached, answer }).await;
        if let Err(error) = asked {
            tracing::debug!(session = %session_id, %error, "a host that was not reached is not on record");
        }
        let _ = recorded.send(());
    }
}

/// Cleans up after a dead daemon, except for running services; returns those that need a supervisor.
async fn after_crash(
    config: &EngineConfig,
    store: &Store,
    checkpoints: &Checkpoints,
    (factory, sandboxes): (&Arc<CageFactory>, &Arc<Sandboxes>),
    boot_id: &str,
) -> Result<Vec<Left>, String> {
    let states = recover::patiently(|| adopt::unfinished(store)).await?;
    let mut left = adopt::services_left(&states, boot_id, &config.data_dir.join("services"), store.home().arrival());
    adopt::end_of_other_users(&mut left, &states, sandboxes);
    let keep = adopt::cages_to_keep(&left);
    let sweeping = Arc::clone(factory);
    let ended = tasks::blocking(move || sweeping.sweep(&keep)).await.map_err(|error| error.to_string())?;
    if !ended.is_empty() {
        tracing::warn!(processes = ended.len(), "killed what an earlier daemon left running");
    }
    for state in states.iter().filter(|state| checkpoints.config.on && !state.active_runs.is_empty()) {
        // Before the run is recorded as lost: a daemon that dies between the two finds it here again.
        reopen(&checkpoints.home(&state.meta.session_id), state.seq);
    }
    adopt::settle(store, states, left, boot_id, &ended)
}

/// Continues with a service of the dead daemon.
fn take_over(parts: &Parts, left: Left) {
    let stamp = |stamp: Stamp| ProcessStamp { pid: stamp.pid, started_ticks: stamp.started_ticks };
    let directory = parts.ctx.data_dir.service(&left.session_id, &left.service_id);
    let begin = match (left.end, &left.service.stamps) {
        (Some(end), _) => Begin::Ended(end),
        (None, None) => return,
        (None, Some(stamps)) => {
            let stamps = ServiceStamps { keeper: stamp(stamps.keeper), main: stamp(stamps.main) };
            let cage =
                parts.factory.adopt(left.agent.as_deref(), &cage_name(&left.session_id, &left.service_id), stamps.main);
            cage.assign(left.session_id.as_str());
            match ServiceProcess::adopt(directory.clone(), cage, stamps) {
                Ok(Some(process)) => {
                    if let Some(namespaces) = process.namespaces() {
                        parts.ctx.sandboxes.take_over(&left.session_id, left.agent.as_deref(), namespaces);
                    }
                    Begin::Adopted(Box::new(process))
                }
                // It just ended, or cannot be reached; its keeper may have left the exit code.
                Ok(None) | Err(_) => Begin::Ended(adopt::ended_just_now(&directory)),
            }
        }
    };
    if let Begin::Adopted(_) = &begin {
        tracing::info!(session = %left.session_id, service = %left.service_id, "a service was taken over");
    }
    let reserved = parts.ctx.services.adopt(Entry {
        session_id: left.session_id,
        service_id: left.service_id,
        agent: left.agent,
        service: left.service,
        directory,
        now: parts.config.senses.now(),
    });
    parts.ctx.supervision.spawn(reserved, begin);
}

fn not_made(path: &Path, error: &std::io::Error) -> StartError {
    StartError::Directory { path: path.display().to_string(), reason: error.to_string() }
}
