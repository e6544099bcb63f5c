//! The running services of all sessions. Each has its own task (`supervise`), which alone touches its processes; this
//! is the list by which they are found, counted and limited. The facts about a service belong to its session and are
//! recorded by the session's actor.

mod activity;
mod forward;
pub(crate) mod idle;
mod ready;
mod reports;
mod supervise;

pub(crate) use ready::{Url, pattern};
pub(crate) use supervise::{Begin, Supervision, end_of};

use crate::adaptive::Adaptive;
use crate::background::Background;
use crate::cluster::Agents;
use crate::cluster::agents::counted_as;
use crate::disk::Disk;
use crate::masking::Masking;
use crate::notices::OverDisk;
use crate::ops::{QuotaMet, STOP_GRACE, ServiceView, counts_all_services};
use crate::quotas::NodeQuotas;
use crate::sync::lock;
use crate::tasks;
use crate::work::Work;
use activity::Activity;
use shellkeep_process::CageFactory;
use shellkeep_process::ports::SocketTables;
use shellkeep_process::proc::Stat;
use shellkeep_process::service::log::ServiceLog;
use shellkeep_session::service::Ready;
use shellkeep_session::{
    LimitName, QuotaName, RunId, Service, ServiceEnd, ServiceId, ServiceStatus, SessionId, Timestamp,
};
use shellkeep_shared::{AgentService, CountedService};
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::sync::{mpsc, watch};

/// How many orders may wait for one supervisor.
const ORDERS: usize = 16;

/// A service's full name on this node.
pub(crate) type Name = (SessionId, ServiceId);

/// Why a service is stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ServiceStop {
    /// It was requested.
    Asked,
    /// It was idle for this long.
    Idle(Duration),
    /// Its agent was ended.
    AgentEnded,
    /// Its session was ended or deleted.
    SessionEnded,
    /// The daemon stops, and is configured to stop services too.
    DaemonStops,
    /// Other nodes take over what this one has.
    NodeDrained,
    /// Its session is over its disk quota, and something of it kept writing.
    OverDisk(OverDisk),
}

/// An order to a supervisor.
pub(crate) enum Order {
    /// Stop the service.
    Stop {
        /// The grace period.
        grace: Duration,
        reason: ServiceStop,
    },
    /// Leave it running: another daemon takes over.
    Leave,
}

/// A running service, as seen from outside its supervisor.
pub struct Supervised {
    pub(crate) session_id: SessionId,
    pub(crate) service_id: ServiceId,
    agent: Option<Arc<str>>,
    directory: PathBuf,
    orders: mpsc::Sender<Order>,
    facts: watch::Sender<Service>,
    activity: Mutex<Activity>,
    /// That it counts on all nodes, until it has ended.
    counted: Mutex<Option<CountedService>>,
}

/// Who to notify of a new service.
pub(crate) struct Reserved {
    /// What others see.
    pub(crate) seen: Arc<Supervised>,
    /// A message for its supervisor.
    pub(crate) orders: mpsc::Receiver<Order>,
}

/// What a new service is entered with.
pub(crate) struct Entry {
    pub(crate) session_id: SessionId,
    pub(crate) service_id: ServiceId,
    /// The agent that it belongs to.
    pub(crate) agent: Option<String>,
    /// What is known of it.
    pub(crate) service: Service,
    /// Where its log is.
    pub(crate) directory: PathBuf,
    pub(crate) now: Timestamp,
}

/// A quota that is used up.
#[derive(Debug, Clone)]
pub(crate) struct QuotaHit {
    quota: QuotaName,
    limit: u64,
    used: u64,
    /// The agent's services on all nodes, if they were counted there.
    counted: Vec<AgentService>,
}

impl QuotaHit {
    fn here(quota: QuotaName, limit: u64, used: u64) -> Self {
        Self { quota, limit, used, counted: Vec::new() }
    }
}

/// Room for a command in the background. Where nodes share a store, it is counted until this is dropped.
pub(crate) struct Room(pub(crate) Option<CountedService>);

/// The services that run.
pub(crate) struct Services {
    /// What holds their processes.
    pub(crate) factory: Arc<CageFactory>,
    /// Their limits.
    pub(crate) quotas: Arc<NodeQuotas>,
    /// Their limit that follows the machine's pressure.
    pub(crate) adaptive: Arc<Adaptive>,
    /// Commands in the background, which count as services.
    pub(crate) background: Background,
    /// What sessions take of the disk.
    pub(crate) disk: Arc<Disk>,
    /// Who may look at their processes now.
    pub(crate) work: Arc<Work>,
    /// What masks their views.
    pub(crate) masking: Arc<Masking>,
    /// What agents have on all nodes, if there are several.
    pub(crate) agents: Option<Arc<Agents>>,
    /// By name.
    pub(crate) live: Mutex<HashMap<Name, Arc<Supervised>>>,
}

impl Services {
    fn live(&self) -> MutexGuard<'_, HashMap<Name, Arc<Supervised>>> {
        lock(&self.live)
    }

    /// Adds a new service, or returns the quota that is used up. Counting and adding are atomic.
    pub(crate) async fn reserve(&self, entry: Entry) -> Result<Reserved, QuotaHit> {
        let counted = self.count(entry.agent.as_deref(), &entry.session_id, &entry.service_id).await?;
        self.reserve_here(entry, counted)
    }

    /// Counts a service of an agent on all nodes, if there are several.
    async fn count(
        &self,
        agent: Option<&str>,
        session_id: &SessionId,
        service_id: &ServiceId,
    ) -> Result<Option<CountedService>, QuotaHit> {
        let service = counted_as(agent, session_id, service_id);
        let Some((agents, service)) = self.agents.as_ref().zip(service) else { return Ok(None) };
        let (quota, limit) = (QuotaName::ServicesPerAgent, self.quotas.get(QuotaName::ServicesPerAgent));
        let counted = agents.count(service, limit).await;
        counted.map(Some).map_err(|counted| QuotaHit { quota, limit, used: counted.len() as u64, counted })
    }

    fn reserve_here(&self, entry: Entry, counted: Option<CountedService>) -> Result<Reserved, QuotaHit> {
        let check = |quota, limit, used| if used >= limit { Err(QuotaHit::here(quota, limit, used)) } else { Ok(()) };
        if let Some(OverDisk { quota, limit, own, kept }) = self.disk.over_quota(&entry.session_id) {
            let used = own + kept;
            return Err(QuotaHit::here(quota, limit, used));
        }
        check(QuotaName::Processes, self.quotas.get(QuotaName::Processes), self.factory.count())?;
        let agent = entry.agent.as_deref();
        if let Some(agent) = agent {
            let limit = self.quotas.get(QuotaName::ProcessesPerAgent);
            check(QuotaName::ProcessesPerAgent, limit, self.factory.count_of(agent))?;
        }
        let in_background = self.background.of(agent, &entry.session_id).len();
        let all_in_background = self.background.count();
        let mut live = self.live();
        let is_own = |seen: &&Arc<Supervised>| seen.is_live() && seen.is_of(agent, &entry.session_id);
        let of_agent = (live.values().filter(is_own).count() + in_background) as u64;
        check(QuotaName::ServicesPerAgent, self.quotas.get(QuotaName::ServicesPerAgent), of_agent)?;
        let all = (live.values().filter(|seen| seen.is_live()).count() + all_in_background) as u64;
        check(QuotaName::Services, self.limit(), all)?;
        let activity = Activity::begin(entry.now);
        Ok(enter(&mut live, entry, activity, counted))
    }

    /// An error that lists the caller's services, the most idle first. At a limit of the node, the host, which has no
    /// agent, gets those of all sessions.
    pub(crate) async fn quota_met(&self, hit: QuotaHit, agent: Option<&str>, session_id: &SessionId) -> Box<QuotaMet> {
        let has_all = agent.is_none() && counts_all_services(hit.quota);
        let mut services = self.views(self.list(|seen| has_all || seen.is_of(agent, session_id))).await;
        services.extend(match has_all {
            true => self.background.list(|_| true),
            false => self.background.of(agent, session_id),
        });
        services.sort_by_key(|view| view.last_active_at);
        let QuotaHit { quota, limit, used, counted } = hit;
        let is_here = |counted: &AgentService| {
            services
                .iter()
                .any(|view| (&view.session_id, &view.service_id) == (&counted.session_id, &counted.service_id))
        };
        let elsewhere = counted.into_iter().filter(|counted| !is_here(counted));
        let elsewhere = elsewhere.map(|counted| (counted.session_id, counted.service_id)).collect();
        Box::new(QuotaMet { quota, limit, used, agent: agent.map(str::to_owned), services, elsewhere })
    }

    /// Room for one more command of this agent in the background, if there is some.
    pub(crate) async fn room_in_background(&self, agent: Option<&str>, id: &SessionId, run: &RunId) -> Option<Room> {
        let of_agent = self.list(|seen| seen.is_of(agent, id)).len() + self.background.of(agent, id).len();
        if of_agent as u64 >= self.quotas.get(QuotaName::ServicesPerAgent) || self.used() as u64 >= self.limit() {
            return None;
        }
        // A run's id is also a valid service id.
        let counted = self.count(agent, id, &ServiceId::parse(run.as_str()).ok()?).await;
        counted.ok().map(Room)
    }

    /// Most services that the node may run now.
    pub(crate) fn limit(&self) -> u64 {
        self.quotas.get(QuotaName::Services).min(self.adaptive.limit(LimitName::Services))
    }

    /// How many services run on this node, with the commands in the background.
    pub(crate) fn used(&self) -> usize {
        self.live().values().filter(|seen| seen.is_live()).count() + self.background.count()
    }

    /// Enters a service that runs already.
    pub(crate) fn adopt(&self, entry: Entry) -> Reserved {
        let service = counted_as(entry.agent.as_deref(), &entry.session_id, &entry.service_id);
        let counted = self.agents.as_ref().zip(service).map(|(agents, service)| agents.keep_counting(service));
        let activity = Activity::taken_over(entry.now);
        enter(&mut self.live(), entry, activity, counted)
    }

    /// One that runs.
    pub(crate) fn find(&self, session_id: &SessionId, service_id: &ServiceId) -> Option<Arc<Supervised>> {
        self.live().get(&(session_id.clone(), service_id.clone())).cloned()
    }

    /// All running services that `wanted` selects, in the order they were started.
    pub(crate) fn list(&self, wanted: impl Fn(&Supervised) -> bool) -> Vec<Arc<Supervised>> {
        let mut found: Vec<_> = self.live().values().filter(|seen| seen.is_live() && wanted(seen)).cloned().collect();
        found.sort_by_key(|seen| (seen.facts.borrow().started_at, seen.session_id.clone(), seen.service_id.clone()));
        found
    }

    /// The sessions that have some.
    pub(crate) fn sessions(&self) -> HashSet<SessionId> {
        self.list(|_| true).iter().map(|seen| seen.session_id.clone()).collect()
    }

    /// The cages of those that run.
    pub(crate) fn cage_names(&self) -> HashSet<String> {
        self.list(|_| true).iter().map(|seen| cage_name(&seen.session_id, &seen.service_id)).collect()
    }

    /// Stops services all at once and waits until they are gone. Returns how many.
    pub(crate) async fn stop(
        &self,
        grace: Duration,
        reason: ServiceStop,
        wanted: impl Fn(&Supervised) -> bool,
    ) -> usize {
        let services = self.list(wanted);
        for seen in &services {
            seen.tell(Order::Stop { grace, reason: reason.clone() }).await;
        }
        for seen in &services {
            seen.until(|_| false).await;
        }
        services.len()
    }

    /// The daemon stops: services are stopped, or left to the next daemon.
    pub(crate) async fn leave(&self, stop: bool) {
        if stop {
            self.stop(STOP_GRACE, ServiceStop::DaemonStops, |_| true).await;
            return;
        }
        let services = self.list(|_| true);
        for seen in &services {
            seen.tell(Order::Leave).await;
        }
        if !services.is_empty() {
            tracing::info!(services = services.len(), "services keep running; the next daemon takes them over");
        }
    }

    /// The service is not started after all.
    pub(crate) fn give_back(&self, reserved: Reserved) {
        self.remove(&reserved.seen);
    }

    fn remove(&self, seen: &Supervised) {
        self.live().remove(&(seen.session_id.clone(), seen.service_id.clone()));
    }

    /// Services as callers see them, with live data about those that run. Reads `/proc`, so not on a hot path, and in the
    /// turn of their agent.
    pub(crate) async fn views(&self, services: Vec<Arc<Supervised>>) -> Vec<ServiceView> {
        let agent = services.first().and_then(|first| first.agent.clone());
        // Those of several agents are the host's to see.
        let agent = agent.filter(|agent| services.iter().all(|seen| seen.agent.as_ref() == Some(agent)));
        let looked = self.with_members(services).await;
        let reading = self.work.look(agent.as_deref(), move || {
            let mut tables = SocketTables::default();
            looked.iter().map(|(seen, members)| live_view(seen, members, &mut tables)).collect::<Vec<_>>()
        });
        let views = reading.await.unwrap_or_default();
        views.into_iter().map(|view| self.masking.service(view)).collect()
    }

    /// Services, each with its live processes. All are checked at once: without control groups, each check reads all
    /// processes of the machine.
    async fn with_members(&self, services: Vec<Arc<Supervised>>) -> Vec<(Arc<Supervised>, Vec<Stat>)> {
        let factory = Arc::clone(&self.factory);
        let reading = tasks::blocking(move || {
            let name = |seen: &Supervised| cage_name(&seen.session_id, &seen.service_id);
            let mut members = factory.members_of(&services.iter().map(|seen| name(seen)).collect());
            let mut looked = Vec::with_capacity(services.len());
            for seen in services {
                let own = members.remove(&name(&seen)).unwrap_or_default();
                looked.push((seen, own));
            }
            looked
        });
        reading.await.unwrap_or_default()
    }
}

fn enter(
    live: &mut HashMap<Name, Arc<Supervised>>,
    entry: Entry,
    activity: Activity,
    counted: Option<CountedService>,
) -> Reserved {
    let (sender, orders) = mpsc::channel(ORDERS);
    let name = (entry.session_id.clone(), entry.service_id.clone());
    let seen = Arc::new(Supervised {
        session_id: entry.session_id,
        service_id: entry.service_id,
        agent: entry.agent.map(Arc::from),
        directory: entry.directory,
        orders: sender,
        facts: watch::Sender::new(entry.service),
        activity: Mutex::new(activity),
        counted: Mutex::new(counted),
    });
    live.insert(name, Arc::clone(&seen));
    Reserved { seen, orders }
}

impl Supervised {
    /// Whether it counts towards this agent; a session without an agent counts on its own.
    pub(crate) fn is_of(&self, agent: Option<&str>, session_id: &SessionId) -> bool {
        match (self.agent.as_deref(), agent) {
            (Some(own), Some(asked)) => own == asked,
            (None, None) => self.session_id == *session_id,
            _ => false,
        }
    }

    /// Whether it runs, or soon will. One that has ended stays in the list briefly.
    pub(crate) fn is_live(&self) -> bool {
        self.facts.borrow().status.is_live()
    }

    /// The agent that it belongs to.
    pub(crate) fn agent(&self) -> Option<&str> {
        self.agent.as_deref()
    }

    /// What is known of it.
    pub(crate) fn facts(&self) -> Service {
        self.facts.borrow().clone()
    }

    /// Sends a message to its supervisor. One that has just ended no longer reads it.
    pub(crate) async fn tell(&self, order: Order) {
        let _ = self.orders.send(order).await;
    }

    /// Waits until its facts satisfy a condition, or it has ended.
    pub(crate) async fn until(&self, wanted: impl Fn(&Service) -> bool) -> Service {
        let mut facts = self.facts.subscribe();
        let found = facts.wait_for(|service| !service.status.is_live() || wanted(service)).await;
        match found {
            Ok(service) => service.clone(),
            Err(_) => self.facts(),
        }
    }

    /// It has ended: other nodes may start one in its place.
    async fn uncount(&self) {
        let counted = lock(&self.counted).take();
        if let Some(counted) = counted {
            counted.end().await;
        }
    }

    fn activity(&self) -> MutexGuard<'_, Activity> {
        lock(&self.activity)
    }
}

fn live_view(seen: &Supervised, members: &[Stat], tables: &mut SocketTables) -> ServiceView {
    let service = seen.facts();
    let mut view = stored_view(&seen.session_id, seen.agent(), &seen.service_id, &service, &seen.directory);
    let pids: Vec<u32> = members.iter().map(|stat| stat.pid).collect();
    view.ports = tables.of(&pids).listening;
    view.processes = members.len();
    let main = service.stamps.as_ref().map(|stamps| stamps.main.pid);
    let oldest = members.iter().min_by_key(|stat| stat.started_ticks).map(|stat| stat.pid);
    view.pid = main.filter(|pid| pids.contains(pid)).or(oldest);
    // A service that was started again is active since then.
    view.last_active_at = seen.activity().last_active_with(view.log_bytes).max(view.started_at);
    view
}

/// A service as its session remembers it.
pub(crate) fn stored_view(
    session_id: &SessionId,
    agent: Option<&str>,
    service_id: &ServiceId,
    service: &Service,
    directory: &Path,
) -> ServiceView {
    let Service { spec, status, started_at, restarts, end, .. } = service;
    let ended = end.as_ref().filter(|_| !status.is_live());
    ServiceView {
        service_id: service_id.clone(),
        session_id: session_id.clone(),
        agent: agent.map(str::to_owned),
        name: spec.name.clone(),
        command: spec.command.clone(),
        cwd: spec.cwd.clone(),
        status: *status,
        pid: None,
        ports: Vec::new(),
        processes: 0,
        started_at: *started_at,
        last_active_at: end.as_ref().map_or(*started_at, |end| end.at),
        restart: spec.restart,
        restarts: *restarts,
        ended_at: ended.map(|end| end.at),
        exit_code: ended.and_then(|end| end.exit_code),
        signal: ended.and_then(|end| end.signal.clone()),
        detail: detail(service),
        log_bytes: ServiceLog::at(directory).bounds().map_or(0, |(_, end)| end),
    }
}

fn detail(service: &Service) -> Option<String> {
    match (service.status, &service.stamps, &service.end) {
        (ServiceStatus::Starting, Some(_), _) => service.spec.ready.as_ref().map(|ready| match ready {
            Ready::Port(port) => format!("it does not listen on port {port} yet"),
            Ready::Log(pattern) => format!("no line of its log matches `{pattern}` yet"),
            Ready::Http(url) => format!("{url} does not answer with a status below 400 yet"),
        }),
        (ServiceStatus::Starting, None, Some(end)) => Some(format!("it will be restarted: {}", end.reason)),
        (ServiceStatus::Running, Some(_), Some(end)) => left_behind(end),
        (ServiceStatus::Starting | ServiceStatus::Running, ..) => None,
        (_, _, end) => end.as_ref().map(|end| end.reason.clone()),
    }
}

/// What to say of a service that was started again for a node that is gone: nobody heard that the earlier one ended, and it
/// outlives its daemon. The records have only the sentence that `cluster/arrive.rs` makes.
fn left_behind(end: &ServiceEnd) -> Option<String> {
    let (node, _) = end.reason.strip_prefix("node ")?.split_once(" is gone")?;
    Some(format!(
        "it was started again here because node {node} is gone; if that machine runs, the earlier one may still run there until \
         the daemon of {node} is started again"
    ))
}

/// The name of the cage that holds a service; the same for every daemon on one data directory.
pub(crate) fn cage_name(session_id: &SessionId, service_id: &ServiceId) -> String {
    format!("service-{session_id}-{service_id}")
}
