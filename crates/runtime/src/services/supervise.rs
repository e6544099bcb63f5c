//! The task of one service: starts it, waits until it is ready, detects its end, restarts it according to its policy,
//! and stops it. It alone touches the processes; the session's actor records what it reports.

use super::forward::Forward;
use super::ready::{Probe, Probed, Url};
use super::reports::{Reports, Unrecorded};
use super::{Order, Reserved, ServiceStop, Services, Supervised, cage_name};
use crate::actor::{Message, ServiceFacts, ServiceNews};
use crate::cluster;
use crate::crash::{self, Point};
use crate::data_dir::DataDir;
use crate::network::Allowance;
use crate::notices;
use crate::ops::{ClusterError, OpError, RunError, ServiceError, SessionError};
use crate::registry::{Registry, may_pass};
use crate::sandboxes::{Confined, Sandboxes};
use crate::tasks;
use rustix::process::Signal;
use shellkeep_process::service::log::ServiceLog;
use shellkeep_process::service::{ServiceExit, ServiceProcess, ServiceSpec, ServiceStartError};
use shellkeep_process::{ExitStatus, ProcessStamp, RunSpec};
use shellkeep_session::service::{AfterEnd, Ready, WELL_AFTER, after_end};
use shellkeep_session::{Notice, Service, ServiceEnd, ServiceStamps, ServiceStatus, Stamp, Timestamp};
use std::collections::HashSet;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

/// How long to wait for a killed service; one that hangs in the kernel is abandoned.
const KILL_GRACE: Duration = Duration::from_secs(5);

/// What a supervisor starts with.
pub(crate) enum Begin {
    /// A new service. Its caller is notified when it runs.
    Start(oneshot::Sender<Result<Arc<Supervised>, OpError>>),
    /// One that an earlier daemon started.
    Adopted(Box<ServiceProcess>),
    /// One that an earlier daemon started and that has ended since, or was to be restarted.
    Ended(ServiceEnd),
}

/// Starts the tasks of services; what they all need.
pub(crate) struct Supervision {
    pub(crate) services: Arc<Services>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) data_dir: Arc<DataDir>,
    pub(crate) sandboxes: Arc<Sandboxes>,
    pub(crate) bash: PathBuf,
    pub(crate) boot_id: Arc<str>,
}

impl Supervision {
    /// Starts supervising a service.
    pub(crate) fn spawn(self: &Arc<Self>, reserved: Reserved, begin: Begin) {
        let Reserved { seen, orders } = reserved;
        let reports = Reports { registry: Arc::clone(&self.registry), seen: Arc::clone(&seen) };
        tasks::spawn(Supervisor { with: Arc::clone(self), seen, reports, orders, attempts: 0 }.serve(begin));
    }
}

/// The task of one service.
struct Supervisor {
    with: Arc<Supervision>,
    seen: Arc<Supervised>,
    reports: Reports,
    orders: mpsc::Receiver<Order>,
    /// Failed starts in a row.
    attempts: u32,
}

/// A panic here is a bug, and must stay one: the service counts as failed, so that nobody waits for its end.
impl Drop for Supervisor {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        tracing::error!(session = %self.seen.session_id, service = %self.seen.service_id, "the task of a service panicked");
        self.seen.facts.send_modify(|service| service.status = ServiceStatus::Failed);
        self.with.services.remove(&self.seen);
        let seen = Arc::clone(&self.seen);
        tasks::spawn(async move { seen.uncount().await });
    }
}

/// How one start of a service ended.
enum LifeEnd {
    /// On its own.
    Own(ServiceEnd),
    /// By order.
    Ordered { end: ServiceEnd, reason: ServiceStop },
    /// It keeps running without us.
    Left,
}

/// Makes the port that a service in a room declared reachable for the host.
async fn forward(
    service: &Service,
    process: &ServiceProcess,
    is_agents: bool,
    allowance: Arc<Allowance>,
) -> Result<Option<Forward>, String> {
    let port = match &service.spec.ready {
        Some(Ready::Port(port)) => *port,
        Some(Ready::Http(url)) => Url::parse(url)?.port(),
        Some(Ready::Log(_)) | None => return Ok(None),
    };
    let Some(namespaces) = process.namespaces().filter(|namespaces| namespaces.has_network()) else { return Ok(None) };
    let refused =
        |error| format!("port {port} of this machine cannot be forwarded to its room: {error}; use another port");
    Forward::start(namespaces, port, is_agents, allowance).await.map(Some).map_err(refused)
}

/// How the wait before a restart ended.
enum Waited {
    /// It was not disturbed.
    Whole,
    /// The service must not be restarted.
    Stopped(ServiceStop),
    /// The next daemon will do it.
    Left,
}

impl Supervisor {
    /// Runs until the service has ended for good.
    async fn serve(mut self, begin: Begin) {
        let mut next = match begin {
            Begin::Start(caller) => match self.start().await {
                Ok(process) => {
                    let _ = caller.send(Ok(Arc::clone(&self.seen)));
                    Some(process)
                }
                Err((error, end)) => {
                    let late = self.reports.ended(ServiceStatus::Failed, end, Vec::new()).await;
                    tracing::info!(session = %self.seen.session_id, service = %self.seen.service_id, %error,
                        "a service did not start");
                    let _ = caller.send(Err(error));
                    self.reports.insist(late).await;
                    None
                }
            },
            Begin::Adopted(process) => Some(*process),
            Begin::Ended(end) => self.after_own_end(end).await,
        };
        while let Some(process) = next {
            next = match self.live(process).await {
                LifeEnd::Own(end) => self.after_own_end(end).await,
                LifeEnd::Ordered { end, reason } => {
                    self.stopped(end, &reason).await;
                    None
                }
                // It stays in the list: the stopping daemon must not kill it.
                LifeEnd::Left => return,
            };
        }
        self.with.services.remove(&self.seen);
    }

    /// Starts the processes and records them.
    async fn start(&mut self) -> Result<ServiceProcess, (OpError, ServiceEnd)> {
        let failed = |error: OpError| {
            let reason = format!("it could not be started: {error}");
            (error, ServiceEnd { exit_code: None, signal: None, at: Timestamp::now(), reason })
        };
        let service = self.seen.facts();
        let asked = self.with.registry.ask(&self.seen.session_id, Message::ServiceFacts).await;
        let ServiceFacts { facts, confined, given, until } = asked.map_err(failed)?;
        let (confinement, rescue) = match confined {
            Some(Confined { confinement, rescue, .. }) => (Some(confinement), rescue),
            None => (None, self.with.data_dir.scratch()),
        };
        let unavailable = |reason: String| failed(OpError::Service(ServiceError::NotStarted { reason }));
        std::fs::create_dir_all(&self.seen.directory).map_err(|error| unavailable(error.to_string()))?;
        let spec = &service.spec;
        let env = given.variables(&spec.env);
        let cwd = given.directory(&spec.cwd);
        let cwd = Some(cwd.as_os_str().as_bytes());
        let run = RunSpec { command: spec.command.as_bytes(), cwd, env: &env, until };
        let name = cage_name(&self.seen.session_id, &self.seen.service_id);
        let process_spec = ServiceSpec {
            bash: self.with.bash.clone(),
            directory: self.seen.directory.clone(),
            log_bytes: self.with.services.quotas.get(shellkeep_session::QuotaName::ServiceLogBytes),
            rescue: rescue.join(&name),
            masked: shellkeep_redact::forms_of(given.values()),
        };
        let cage = self.with.services.factory.cage_of(self.seen.agent(), &name);
        cage.assign(self.seen.session_id.as_str());
        let (mut process, _) =
            ServiceProcess::start(process_spec, cage, confinement, &facts, run).await.map_err(|error| match error {
                ServiceStartError::BadCwd(reason) => {
                    failed(OpError::Run(RunError::BadCwd { path: spec.cwd.to_text().into_owned(), reason }))
                }
                ServiceStartError::TooLate => failed(cluster::moved(&self.seen.session_id)),
                ServiceStartError::Shell(error) => unavailable(error.to_string()),
            })?;
        crash::point(Point::ServiceStarted, spec.command.as_bytes());
        let stamps = stamps(&process, &self.with.boot_id);
        metrics::counter!("shellkeep_services_started_total").increment(1);
        let restarts = service.restarts + u32::from(service.end.is_some());
        if let Err(error) = self.reports.tell(ServiceNews::Live { stamps, restarts }).await {
            // Nobody knows it: the next daemon would kill it, and another node start it beside this one.
            process.kill();
            let _ = tokio::time::timeout(KILL_GRACE, process.ended()).await;
            return Err(failed(error));
        }
        Ok(process)
    }

    /// One start, from a running process to its end.
    async fn live(&mut self, mut process: ServiceProcess) -> LifeEnd {
        let up_since = Instant::now();
        let service = self.seen.facts();
        let agent = self.seen.agent();
        let allowance = self.with.sandboxes.rooms().allowance(&self.seen.session_id, agent);
        let forward = match forward(&service, &process, agent.is_some(), allowance).await {
            Ok(forward) => forward,
            Err(reason) => {
                process.kill();
                return LifeEnd::Own(ServiceEnd { reason, ..end_of(process.ended().await) });
            }
        };
        let log_start = if service.restarts == 0 { 0 } else { log_end(&self.seen) };
        let mut probe = match service.status {
            ServiceStatus::Starting => {
                let ready = service.spec.ready.as_ref();
                ready.and_then(|ready| Probe::new(self.probed(forward.as_ref()), ready, log_start))
            }
            _ => None,
        };
        loop {
            tokio::select! {
                exit = process.ended() => {
                    if let Some(looking) = &mut probe && looking.was_ready().await {
                        // If it cannot be recorded, it has ended before it was ready.
                        let _ = self.reports.tell(ServiceNews::Ready).await;
                    }
                    if up_since.elapsed() >= WELL_AFTER {
                        self.attempts = 0;
                    }
                    return LifeEnd::Own(end_of(exit));
                }
                Some(order) = self.orders.recv() => match order {
                    Order::Leave => return LifeEnd::Left,
                    Order::Stop { grace, reason } => return self.stop(process, grace, reason).await,
                },
                () = due(&mut probe) => {
                    if let Some(looking) = &mut probe && looking.look() {
                        match self.reports.tell(ServiceNews::Ready).await {
                            Err(error) if may_pass(&error) => looking.look_later(),
                            _ => probe = None,
                        }
                    }
                }
            }
        }
    }

    /// What is looked at until it is ready.
    fn probed(&self, forward: Option<&Forward>) -> Probed {
        let factory = Arc::clone(&self.with.services.factory);
        let name = cage_name(&self.seen.session_id, &self.seen.service_id);
        let members = move || {
            let found = factory.members_of(&HashSet::from([name.clone()]));
            found.values().flatten().map(|stat| stat.pid).collect::<Vec<u32>>()
        };
        Probed {
            work: Arc::clone(&self.with.services.work),
            agent: self.seen.agent().map(Arc::from),
            directory: self.seen.directory.clone(),
            members: Arc::new(members),
            door: forward.map(|forward| Arc::clone(forward.door())),
        }
    }

    /// SIGTERM first, SIGKILL after the grace period.
    async fn stop(&mut self, mut process: ServiceProcess, grace: Duration, reason: ServiceStop) -> LifeEnd {
        process.stop(Signal::TERM);
        let mut deadline = Instant::now() + grace;
        let mut killed = false;
        let exit = loop {
            tokio::select! {
                exit = process.ended() => break exit,
                Some(order) = self.orders.recv() => match order {
                    // A second order can only make it faster.
                    Order::Stop { grace, .. } => deadline = deadline.min(Instant::now() + grace),
                    Order::Leave => return LifeEnd::Left,
                },
                () = tokio::time::sleep_until(deadline) => {
                    if killed {
                        break ServiceExit::Unknown;
                    }
                    killed = true;
                    process.kill();
                    deadline = Instant::now() + KILL_GRACE;
                }
            }
        };
        let end = ServiceEnd { reason: stop_sentence(&reason, killed), ..end_of(exit) };
        LifeEnd::Ordered { end, reason }
    }

    /// What follows when it exited on its own: it stays stopped, or it restarts after a delay.
    async fn after_own_end(&mut self, mut end: ServiceEnd) -> Option<ServiceProcess> {
        loop {
            let service = self.seen.facts();
            let was_ready = service.status == ServiceStatus::Running;
            let wait = match after_end(service.spec.restart, &end, was_ready, self.attempts) {
                AfterEnd::Stay(status) => {
                    let notices = vec![notices::service_ended(&self.seen.service_id, &service.spec, &end)];
                    let late = self.reports.ended(status, end, notices).await;
                    self.reports.insist(late).await;
                    return None;
                }
                AfterEnd::Restart(wait) => wait,
            };
            self.attempts += 1;
            metrics::counter!("shellkeep_service_restarts_total").increment(1);
            let reason = format!("{}; attempt {} in {} s", end.reason, self.attempts, wait.as_secs());
            let ended = ServiceEnd { reason, ..end.clone() };
            let late = self.reports.ended(ServiceStatus::Starting, ended, Vec::new()).await;
            match self.wait_to_restart(late, wait).await {
                Waited::Whole => {}
                Waited::Left => return None,
                Waited::Stopped(reason) => {
                    end.reason = stop_sentence(&reason, false);
                    self.stopped(end, &reason).await;
                    return None;
                }
            }
            match self.start().await {
                Ok(process) => return Some(process),
                // Its session is gone, or the node that has it starts the service.
                Err((
                    OpError::Session(SessionError::NotFound { .. }) | OpError::Cluster(ClusterError::Moved { .. }),
                    _,
                )) => {
                    self.seen.facts.send_modify(|service| service.status = ServiceStatus::Failed);
                    return None;
                }
                Err((_, failure)) => end = failure,
            }
        }
    }

    /// Waits, and before that until its end is recorded: a start needs the session too.
    async fn wait_to_restart(&mut self, late: Option<Unrecorded>, wait: Duration) -> Waited {
        let Self { reports, orders, .. } = self;
        let waiting = async {
            reports.insist(late).await;
            tokio::time::sleep(wait).await;
        };
        tokio::select! {
            () = waiting => Waited::Whole,
            Some(order) = orders.recv() => match order {
                Order::Stop { reason, .. } => Waited::Stopped(reason),
                // Nothing is running; the next daemon continues the wait.
                Order::Leave => Waited::Left,
            },
        }
    }

    /// It was stopped by order. If other nodes take over and its policy says so, the next one starts it again.
    async fn stopped(&mut self, end: ServiceEnd, reason: &ServiceStop) {
        // Its own exit code says nothing: it did not end by itself.
        let left = ServiceEnd { exit_code: None, signal: None, ..end.clone() };
        let policy = self.seen.facts().spec.restart;
        if *reason != ServiceStop::NodeDrained || !matches!(after_end(policy, &left, true, 0), AfterEnd::Restart(_)) {
            let notices = self.notices_of_stop(&end, reason);
            let late = self.reports.ended(ServiceStatus::Stopped, end, notices).await;
            return self.reports.insist(late).await;
        }
        self.seen.uncount().await;
        let late = self.reports.ended(ServiceStatus::Starting, left, Vec::new()).await;
        // Here it has ended.
        self.seen.facts.send_modify(|service| service.status = ServiceStatus::Stopped);
        self.reports.insist(late).await;
    }

    fn notices_of_stop(&self, end: &ServiceEnd, reason: &ServiceStop) -> Vec<Notice> {
        match reason {
            ServiceStop::Asked | ServiceStop::AgentEnded | ServiceStop::SessionEnded => Vec::new(),
            ServiceStop::Idle(_) | ServiceStop::DaemonStops | ServiceStop::NodeDrained | ServiceStop::OverDisk(_) => {
                vec![notices::service_ended(&self.seen.service_id, &self.seen.facts().spec, end)]
            }
        }
    }
}

async fn due(probe: &mut Option<Probe>) {
    match probe {
        Some(probe) => probe.due().await,
        None => std::future::pending().await,
    }
}

fn log_end(seen: &Supervised) -> u64 {
    ServiceLog::at(&seen.directory).bounds().map_or(0, |(_, end)| end)
}

fn stamps(process: &ServiceProcess, boot_id: &str) -> ServiceStamps {
    let stamp = |stamp: ProcessStamp| Stamp { pid: stamp.pid, started_ticks: stamp.started_ticks };
    let stamps = process.stamps();
    ServiceStamps { keeper: stamp(stamps.keeper), main: stamp(stamps.main), boot_id: boot_id.to_owned() }
}

/// How a service ended, in facts.
pub(crate) fn end_of(exit: ServiceExit) -> ServiceEnd {
    match exit {
        ServiceExit::Unknown => ServiceEnd {
            exit_code: None,
            signal: None,
            at: Timestamp::now(),
            reason: "its exit code is unknown: its keeper, the process that records it, was killed".to_owned(),
        },
        ServiceExit::Ended { status, at_ms } => {
            let at = i64::try_from(at_ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
            let signal = match status {
                ExitStatus::Signalled(number) => Some(crate::translate::signal_name(number)),
                ExitStatus::Exited(_) => None,
            };
            let reason = match &signal {
                Some(signal) => format!("it was killed by signal {signal}"),
                None => format!("it ended with exit code {}", status.code()),
            };
            let at = at.unwrap_or_else(Timestamp::now);
            ServiceEnd { exit_code: Some(status.code()), signal, at, reason }
        }
    }
}

fn stop_sentence(reason: &ServiceStop, killed: bool) -> String {
    let why = match reason {
        ServiceStop::Asked => "on request".to_owned(),
        ServiceStop::Idle(idle) => {
            format!("it was stopped after {} without output, connections or work", notices::span(*idle))
        }
        ServiceStop::AgentEnded => "it was stopped with its agent".to_owned(),
        ServiceStop::SessionEnded => "it was stopped with its session".to_owned(),
        ServiceStop::DaemonStops => "it was stopped with the daemon".to_owned(),
        ServiceStop::NodeDrained => "it was stopped because its node was drained".to_owned(),
        ServiceStop::OverDisk(over) => format!("it was stopped: {}", over.why_ended()),
    };
    if killed { format!("{why}; killed because it did not exit after SIGTERM") } else { why }
}
