//! Starting an engine: what an earlier daemon left running is taken over or ended, what it had not finished is marked as
//! lost, and only then is anything new begun.

use super::{Engine, EngineConfig, Inner, StartError, make_directory, not_made};
use crate::adaptive::Adaptive;
use crate::admission::Admission;
use crate::adopt::{self, Left};
use crate::checkpoints::Checkpoints;
use crate::counts::Counts;
use crate::identities::Identities;
use crate::masking::Masking;
use crate::pending::Settler;
use crate::pool::Pool;
use crate::quotas::QuotaBook;
use crate::services::{Begin, Entry, Supervisor, cage_name};
use crate::shares::Shares;
use crate::work::Work;
use crate::{housekeeping, recover};
use shellkeep_process::service::{ServiceProcess, ServiceStamps};
use shellkeep_process::{CageFactory, Limits, ProcessStamp};
use shellkeep_session::{Limit, LimitName, QuotaName, Stamp};
use shellkeep_store::{AuditTrail, Store, TokenFile};
use shellkeep_workspace::Workspaces;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// Shells and services that the machine's pressure never takes away, if the quota has them.
pub(super) const LEAST: usize = 4;

impl Engine {
    /// Starts: ends what an earlier daemon left running, takes over its services, marks what it had not finished as lost,
    /// and gets ready.
    pub async fn start(mut config: EngineConfig, store: Store) -> Result<Self, StartError> {
        // A workspace is known by its real path, so that a link that is put there later is not followed.
        config.data_dir = config.data_dir.canonicalize().map_err(|error| not_made(&config.data_dir, &error))?;
        for directory in ["outputs", "scratch", "services"] {
            make_directory(&config.data_dir.join(directory))?;
        }
        let home = config.data_dir.join("workspaces");
        let workspaces = Workspaces::open(home.clone()).map_err(|error| not_made(&home, &error))?;
        let scratch = config.data_dir.join("scratch");
        recover::clear_scratch(&scratch);
        let quotas =
            QuotaBook::load(config.quotas, &config.data_dir).map_err(|error| StartError::Quotas(error.to_string()))?;
        let factory = CageFactory::detect(&recover::instance(&config.data_dir), config.cages, process_limits(&quotas));
        let factory = Arc::new(factory);
        let boot_id = shellkeep_process::proc::boot_id();
        let checkpoints = Checkpoints::new(&config.data_dir, config.checkpoints.clone());
        let settler =
            Settler { data_dir: &config.data_dir, store: &store, checkpoints: &checkpoints, workspaces: &workspaces };
        let unfinished = settler.settle().await;
        let left = after_crash(&config, &store, &factory, &boot_id).await.map_err(StartError::Store)?;
        settler.finish_deletions(unfinished).await;
        let known = recover::patiently(|| recover::known_sessions(&store)).await.map_err(StartError::Store)?;
        let masking = Masking::new(&config.record)?;
        let identities = Identities::load(TokenFile::of(&config.data_dir), config.agent_may_restart)?;
        let audit = AuditTrail::open(&config.data_dir).map_err(StartError::Audit)?;
        let shells = quota(&quotas, QuotaName::LiveShells);
        let pool = Pool::new(config.bash.clone(), scratch, Arc::clone(&factory), shells, config.spare_shells);
        let adaptive = Adaptive::new(adaptive_limits(&config, &quotas), Arc::clone(&config.senses));
        let shares = Arc::new(Shares::default());
        let inner = Arc::new(Inner {
            environment: recover::inherited_environment(&config.env_pass),
            pool,
            factory,
            store,
            workspaces,
            checkpoints,
            forking: Mutex::default(),
            sessions: Mutex::default(),
            runs: Mutex::default(),
            known: Mutex::new(known),
            services: Default::default(),
            quotas,
            admission: Admission::new(config.admission.clone(), shells),
            adaptive,
            checked: Default::default(),
            disk: Default::default(),
            thin_book: Default::default(),
            agents: Default::default(),
            identities,
            audit,
            refusals: Default::default(),
            masking,
            counts: Counts::new(),
            work: Work::new(Arc::clone(&shares)),
            shares,
            secrets: Default::default(),
            boot_id,
            started: Instant::now(),
            stopping: AtomicBool::new(false),
            data_gone: AtomicBool::new(false),
            config,
        });
        begin(&inner, left).await?;
        Ok(Self::of(inner))
    }
}

/// Takes over what runs and starts what goes on beside all operations.
async fn begin(inner: &Arc<Inner>, left: Vec<Left>) -> Result<(), StartError> {
    // One shell is started before anyone asks: a bash that does not work is found out now.
    inner.pool.probe().await?;
    for service in left {
        take_over(inner, service);
    }
    let ahead = Arc::downgrade(inner);
    tokio::spawn(async move {
        if let Some(inner) = ahead.upgrade() {
            inner.pool.keep_ahead().await;
        }
    });
    let owing = Arc::downgrade(inner);
    tokio::spawn(async move {
        if let Some(inner) = owing.upgrade() {
            inner.pay_all_owed().await;
        }
    });
    housekeeping::spawn(inner);
    Ok(())
}

/// The limits that follow the machine's pressure.
fn adaptive_limits(config: &EngineConfig, quotas: &QuotaBook) -> [Limit; 3] {
    let (shells, services) = (quota(quotas, QuotaName::LiveShells), quota(quotas, QuotaName::Services));
    [
        Limit::new(LimitName::Running, config.admission.min_running.min(shells), shells),
        Limit::new(LimitName::LiveShells, LEAST.min(shells), shells),
        Limit::new(LimitName::Services, LEAST.min(services), services),
    ]
}

/// A quota as a count.
pub(super) fn quota(quotas: &QuotaBook, name: QuotaName) -> usize {
    usize::try_from(quotas.get(name)).unwrap_or(usize::MAX)
}

/// The limits of processes that the quotas say.
pub(super) fn process_limits(quotas: &QuotaBook) -> Limits {
    Limits { per_cage: quotas.get(QuotaName::SessionProcesses), node: quotas.get(QuotaName::Processes) }
}

/// Brings everything of a dead daemon to rest but the services that run; gives those to be looked after.
async fn after_crash(
    config: &EngineConfig,
    store: &Store,
    factory: &Arc<CageFactory>,
    boot_id: &str,
) -> Result<Vec<Left>, String> {
    let states = recover::patiently(|| adopt::unfinished(store)).await?;
    let left = adopt::services_left(&states, boot_id, &config.data_dir.join("services"), store.home().arrival());
    let keep = adopt::cages_to_keep(&left);
    let sweeping = Arc::clone(factory);
    let ended = tokio::task::spawn_blocking(move || sweeping.sweep(&keep)).await.map_err(|error| error.to_string())?;
    if !ended.is_empty() {
        tracing::warn!(processes = ended.len(), "ended what an earlier daemon left running");
    }
    adopt::settle(store, states, left, boot_id, &ended)
}

/// Goes on where the dead daemon was with a service.
fn take_over(inner: &Arc<Inner>, left: Left) {
    let stamp = |stamp: Stamp| ProcessStamp { pid: stamp.pid, started_ticks: stamp.started_ticks };
    let directory = inner.service_directory(&left.session_id, &left.service_id);
    let begin = match (left.end, &left.service.stamps) {
        (Some(end), _) => Begin::Ended(end),
        (None, None) => return,
        (None, Some(stamps)) => {
            let stamps = ServiceStamps { keeper: stamp(stamps.keeper), main: stamp(stamps.main) };
            let cage = inner.factory.adopt(&cage_name(&left.session_id, &left.service_id), stamps.main);
            cage.assign(left.session_id.as_str());
            match ServiceProcess::adopt(directory.clone(), cage, stamps) {
                Ok(Some(process)) => Begin::Adopted(Box::new(process)),
                // It ended in this very moment, or cannot be reached; its keeper may have left a word.
                Ok(None) | Err(_) => Begin::Ended(adopt::ended_just_now(&directory)),
            }
        }
    };
    if let Begin::Adopted(_) = &begin {
        tracing::info!(session = %left.session_id, service = %left.service_id, "a service was taken over");
    }
    let reserved = inner.services.adopt(Entry {
        session_id: left.session_id,
        service_id: left.service_id,
        agent: left.agent,
        service: left.service,
        directory,
        now: inner.config.senses.now(),
    });
    Supervisor::spawn(Arc::clone(inner), reserved, begin);
}
