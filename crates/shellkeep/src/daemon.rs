//! The daemon: connects settings, store, engine and doors, and shuts them down in order.

mod cluster;
mod control;
mod history;
mod log;
mod private;
mod socket;
mod stopping;

use crate::config::{self, Cages, Durability, NO_LISTEN, SECRET_VARIABLES, Settings, Sources, local_store};
use crate::failure::{FAILED, Failure};
use crate::ready::Ready;
use crate::turn::StartTurn;
use crate::{noted, terminal, token};
use control::Running;
use log::LogFilter;
use shellkeep_history::Outbox;
use shellkeep_process::{CageMode, Forking, own};
use shellkeep_runtime::{
    AdmissionConfig, Closing, ClusterConfig, Engine, EngineConfig, OnStop, Reclaim, RecordConfig, SandboxConfig,
};
use shellkeep_server::{
    Auth, Control as _, DaemonFacts, McpClients, Token, bind_tcp, install_metrics, keep_metrics, router, serve_tcp,
    serve_unix, watch_neighbours,
};
use shellkeep_session::Timestamp;
use shellkeep_store::{Arrival, RecordOptions, Store};
use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::Duration;
use stopping::{Signals, drain};
use tokio::net::{TcpListener, UnixListener};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Minimum time between two checks for orphaned children: many may exit at once.
const REAP_PAUSE: Duration = Duration::from_millis(10);

/// What a daemon starts with.
pub struct Start {
    /// The settings in effect.
    pub settings: Settings,
    /// Where it came from.
    pub sources: Sources,
    /// Where to report readiness.
    pub ready: Option<Ready>,
    /// The command to try first, if one is to be printed.
    pub hint: Option<String>,
    /// Whether to start even if the store has lost records.
    pub accept_loss: bool,
    /// Whether sessions of a copied data directory may use the original's directories outside of it.
    pub take_workspaces: bool,
}

/// How a daemon ended.
enum End {
    Stopped(ExitCode),
    /// To start again, with the turn to do so if it could be had.
    Restart(Option<StartTurn>),
}

/// Runs a daemon until a signal or a client stops it.
pub fn run(start: Start) -> Result<ExitCode, Failure> {
    let log = log::start(&start.settings.log)?;
    let again = Again::prepare(&start.sources)?;
    keep_to_ourselves()?;
    shellkeep_process::spawn::raise_descriptor_limit();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(Failure::start)?;
    let end = runtime.block_on(live(start, log))?;
    // Everything is saved. Work for a caller that is gone must not delay the exit.
    runtime.shutdown_timeout(STRAGGLERS);
    match end {
        End::Stopped(code) => Ok(code),
        End::Restart(turn) => Err(again.start(turn)),
    }
}

/// How long a client may have the turn to start a daemon before a restart continues without it.
const TURN_LIMIT: Duration = Duration::from_secs(10);
/// How long abandoned work may delay the exit.
const STRAGGLERS: Duration = Duration::from_secs(2);

/// Restarts this program in the same process, so that a supervisor does not notice.
struct Again {
    /// Its path: an upgrade replaces the program there.
    program: PathBuf,
    /// Variables that were removed from the environment of the process.
    secrets: Vec<(&'static str, String)>,
}

impl Again {
    fn prepare(sources: &Sources) -> Result<Self, Failure> {
        let program = std::env::current_exe().map_err(Failure::start)?;
        let secret = |name| Some((name, sources.variables.get(name)?.clone()));
        Ok(Self { program, secrets: SECRET_VARIABLES.into_iter().filter_map(secret).collect() })
    }

    /// Replaces this process. Returns only if that fails.
    fn start(self, turn: Option<StartTurn>) -> Failure {
        let mut arguments = Vec::new();
        let mut given = std::env::args_os().skip(1);
        while let Some(argument) = given.next() {
            // The process that waited for the first start has been notified.
            if argument == "--ready-fd" {
                given.next();
            } else if !argument.to_string_lossy().starts_with("--ready-fd=") {
                arguments.push(argument);
            }
        }
        // The next daemon treats what it finds as its caller's.
        shellkeep_process::own::restore_umask();
        shellkeep_process::spawn::restore_descriptor_limit();
        let mut command = Command::new(&self.program);
        if let Some(turn) = turn {
            command.stdin(turn.into_stdin());
        }
        let error = command.args(arguments).envs(self.secrets).exec();
        Failure::start(format!("cannot restart {}: {error}", self.program.display()))
    }
}

async fn live(start: Start, log: LogFilter) -> Result<End, Failure> {
    let Start { settings, sources, ready, hint, accept_loss, take_workspaces } = start;
    private::make_data(&settings.data.value)?;
    let metrics = install_metrics().map_err(Failure::start)?;
    let record = settings.record.config()?;
    let store = open_store(&settings, &record, accept_loss)?;
    tell_place(&store, take_workspaces)?;
    let history = history::start(&settings, &record, &store)?;
    let doors = Doors::open(&settings).await?;
    let token = token::find(sources.variables.get("SHELLKEEP_TOKEN").cloned(), &settings.data.value)?;
    let mut signals = Signals::listen()?;
    let cluster = cluster::config(&settings, doors.tcp.as_ref())?;
    let peers = cluster::peers(&settings, &sources, cluster.as_ref(), &token)?;
    let engine = start_engine(&settings, store, record, cluster).await?;
    let outbox = history::audit(history, engine.clone());

    let facts = facts(&settings, &doors)?;
    let addresses = facts.doors.clone();
    let (socket_path, data) = (settings.socket.value.clone(), settings.data.value.clone());
    note_socket(&data, &socket_path);
    let running = Arc::new(Running::new(facts, sources, settings, log, outbox.as_ref().map(Outbox::keeper)));
    let mut orders = running.orders();
    let (stop, stopped) = watch::channel(false);
    let mut serving = JoinSet::new();
    let token = Token::new(token);
    let auth = Auth::SocketOwner { token: token.clone() };
    let mcp_clients = McpClients::default();
    let socket =
        router(engine.at_door("socket"), auth, peers.clone(), metrics.clone(), running.clone(), mcp_clients.clone());
    serving.spawn(serve_unix(doors.unix, socket, engine.clone(), stopped.clone()));
    serving.spawn(reap_strays(signal(SignalKind::child()).map_err(Failure::start)?, stopped.clone()));
    if let Some(peers) = peers.clone() {
        serving.spawn(watch_neighbours(engine.clone(), peers, stopped.clone()));
    }
    if let Some(listener) = doors.tcp {
        let loopback = listener.local_addr().map_err(Failure::start)?.ip().is_loopback();
        let auth = Auth::Bearer { token, loopback };
        let tcp = router(engine.at_door("tcp"), auth, peers, metrics.clone(), running.clone(), mcp_clients);
        serving.spawn(serve_tcp(listener, tcp, engine.clone(), stopped));
    }
    let upkeep = tokio::spawn(keep_metrics(metrics));
    announce(&addresses, ready, hint.as_deref());
    StartTurn::end_inherited(&data).map_err(Failure::start)?;

    let order = signals.until_stop(&mut orders, &engine, &running).await;
    let order = drain(&engine, order, running.stop_grace(), &mut signals, &mut orders).await;
    // While the doors still answer, so that no client waits with the turn for this daemon.
    let turn = if order.restart { turn_to_restart(&data).await } else { None };
    let ending = async {
        // Doors accept nothing new from here on, but pending responses are still sent while the engine ends their runs.
        let _ = stop.send(true);
        engine.shutdown().await;
        while serving.join_next().await.is_some() {}
        history::close(outbox, &engine).await;
        engine.close_store(if order.restart { Closing::Restart } else { Closing::Stop }).await
    };
    let code = tokio::select! {
        saved = ending => after_saving(saved),
        () = signals.end() => ExitCode::from(FAILED),
    };
    upkeep.abort();
    remove_socket(&socket_path, &data);
    // A restart must not hide that something was not saved.
    Ok(if order.restart && code == ExitCode::SUCCESS { End::Restart(turn) } else { End::Stopped(code) })
}

/// What does not change while the daemon runs.
fn facts(settings: &Settings, doors: &Doors) -> Result<DaemonFacts, Failure> {
    let mut addresses = vec![format!("unix:{}", settings.socket.value.display())];
    if let Some(listener) = &doors.tcp {
        addresses.push(format!("http://{}", listener.local_addr().map_err(Failure::start)?));
    }
    Ok(DaemonFacts {
        started_at: Timestamp::now().to_string(),
        data: settings.data.value.clone(),
        doors: addresses,
        store: settings.store.value.split(':').next().unwrap_or_default().to_owned(),
    })
}

/// The turn to start a daemon, so that no client starts one between the end of this one and its next start. A restart does
/// not fail for the lack of it.
async fn turn_to_restart(data: &Path) -> Option<StartTurn> {
    let taken = tokio::time::timeout(TURN_LIMIT, StartTurn::take(data)).await;
    match taken.map_err(std::io::Error::from).and_then(|taken| taken) {
        Ok(turn) => Some(turn),
        Err(error) => {
            tracing::warn!(%error, "clients may start another daemon while this one restarts");
            None
        }
    }
}

/// Reports whether everything was saved, in the log and by the exit code.
fn after_saving(saved: Result<(), String>) -> ExitCode {
    match saved {
        Ok(()) => {
            tracing::info!("stopped: every session is saved");
            ExitCode::SUCCESS
        }
        Err(reason) => {
            tracing::error!(reason, "stopped, but not everything is saved");
            ExitCode::from(FAILED)
        }
    }
}

/// The doors, open but not yet served: the kernel keeps early callers waiting.
struct Doors {
    unix: UnixListener,
    tcp: Option<TcpListener>,
}

impl Doors {
    async fn open(settings: &Settings) -> Result<Self, Failure> {
        // TCP first: if its port is taken, no socket is left behind.
        let tcp = match settings.listen.value.as_str() {
            NO_LISTEN => None,
            address => Some(bind_tcp(address).await.map_err(Failure::start)?),
        };
        if let Some(parent) = settings.socket.value.parent() {
            private::make(parent)?;
        }
        let unix = socket::open(&settings.socket.value).await.map_err(Failure::start)?;
        Ok(Self { unix, tcp })
    }
}

fn open_store(settings: &Settings, record: &RecordConfig, accept_loss: bool) -> Result<Store, Failure> {
    let durability = match settings.durability.value {
        // What survives the node is in the shared store, which is waited for in any case.
        Durability::Process | Durability::Node => shellkeep_store::Durability::Process,
        Durability::Power => shellkeep_store::Durability::Power,
    };
    let options = RecordOptions {
        segment_bytes: settings.record.segment_bytes.value,
        redactor: record.writing_redactor().map_err(Failure::start)?,
        accept_loss,
        signing_key: settings.record.signing_key.value.clone(),
        anchor: settings.record.anchor()?,
        feed: history::feed(settings),
        ..RecordOptions::default()
    };
    let (data, url) = (&settings.data.value, local_store(&settings.store.value, &settings.data.value));
    let store = Store::open_with(&url, data, durability, options);
    let store = store.map_err(|error| private::cannot_open(&error, data))?;
    private::close_data(data, &settings.store.value, settings.sandbox_agents.set()).map(|()| store)
}

/// Reports if the data directory was moved or copied, and takes over the directories outside of a copy if the host says
/// so.
fn tell_place(store: &Store, take_workspaces: bool) -> Result<(), Failure> {
    if take_workspaces {
        store.home().take_workspaces().map_err(Failure::start)?;
    }
    match store.home().arrival() {
        Arrival::Same => {}
        Arrival::Moved => tracing::warn!(
            "the data directory was moved to another file system or restored; services that still run from its former \
                path are left alone"
        ),
        Arrival::Copied => tracing::warn!("the data directory is a copy; services of the original are left alone"),
    }
    if let Some(copy) = store.home().yields_to() {
        tracing::warn!(
            original = %copy.path.to_text(),
            "this data directory is a copy: its sessions do not use directories outside of it, which belong to the \
                original; start with --take-workspaces when the original is no longer used"
        );
    }
    Ok(())
}

async fn start_engine(
    settings: &Settings,
    store: Store,
    record: RecordConfig,
    cluster: Option<ClusterConfig>,
) -> Result<Engine, Failure> {
    let defaults = AdmissionConfig::default();
    let config = EngineConfig {
        spare_shells: settings.spare_shells.value,
        forking: if settings.fork_shells.value { Forking::Auto } else { Forking::Off },
        quotas: settings.quotas(),
        agent_may_restart: settings.agent_may_restart.value,
        mcp_undo: settings.mcp_undo.value,
        admission: AdmissionConfig {
            queue_length: settings.queue_length.value,
            queue_wait: settings.queue_wait.value.0.unwrap_or(defaults.queue_wait),
            ..defaults
        },
        env_pass: settings.env_pass.value.clone(),
        cages: match settings.cages.value {
            Cages::Auto => CageMode::Auto,
            Cages::NoLimits => CageMode::NoLimits,
            Cages::Marks => CageMode::Marks,
        },
        sandbox: SandboxConfig {
            least: settings.sandbox.value,
            agents: settings.sandbox_agents.set(),
            users: settings.sandbox_users.value,
            network: settings.sandbox_network.value,
            hosts: settings.sandbox_hosts.value.clone(),
            read: settings.sandbox_read.value.clone(),
            write: settings.sandbox_write.value.clone(),
            hidden: settings.secret_files(),
        },
        secrets: settings.secrets.value.clone(),
        idle_services: settings.idle_services.value.0,
        services_on_stop: match settings.services_on_stop.value {
            config::OnStop::Keep => OnStop::Keep,
            config::OnStop::Stop => OnStop::Stop,
        },
        reclaim: Reclaim {
            after: settings.reclaim_after.value.0.unwrap_or(Duration::MAX),
            bytes: settings.reclaim_bytes.value,
        },
        keep_deleted: settings.record.keep_deleted.value.0.unwrap_or(Duration::MAX),
        record,
        checkpoints: settings.checkpoints.config(),
        cluster,
        past: history::past(settings),
        ..EngineConfig::new(settings.data.value.clone(), settings.bash.value.clone())
    };
    Engine::start(config, store).await.map_err(Failure::start)
}

fn announce(doors: &[String], ready: Option<Ready>, hint: Option<&str>) {
    for door in doors {
        terminal::line(format!("listening on {door}"));
    }
    if let Some(hint) = hint {
        terminal::line(format!("try: {hint}"));
    }
    if let Some(ready) = ready {
        ready.tell();
    }
}

/// Protects the daemon from the processes of sessions, which run as the same user. Must run before there are other
/// threads.
fn keep_to_ourselves() -> Result<(), Failure> {
    own::make_files_private();
    own::forget_variables(&SECRET_VARIABLES).map_err(Failure::start)?;
    let hidden = own::hide_from_same_user();
    let closed = own::keep_inherited_descriptors();
    // Callers on the socket are identified by their ancestors, so orphaned processes must become our children.
    let reaps = shellkeep_process::become_subreaper();
    for (what, done) in [("dumpable", hidden), ("close_range", closed), ("subreaper", reaps)] {
        if let Err(error) = done {
            tracing::warn!(what, %error, "the kernel does not support this protection");
        }
    }
    Ok(())
}

/// Reaps processes of sessions that lost their parent and became our children, until the daemon stops.
async fn reap_strays(mut ended: Signal, mut stop: watch::Receiver<bool>) {
    loop {
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => return,
            _ = ended.recv() => {}
        }
        let _ = tokio::task::spawn_blocking(shellkeep_process::reap_strays).await;
        tokio::time::sleep(REAP_PAUSE).await;
    }
}

/// Clients that know only the data directory find the socket by this.
fn note_socket(data: &Path, path: &Path) {
    if let Err(error) = noted::write(data, path) {
        tracing::warn!(%error, "where the socket is could not be noted; clients need --socket to find it");
    }
}

fn remove_socket(path: &Path, data: &Path) {
    for removed in [fs::remove_file(path), noted::remove(data)] {
        if let Err(error) = removed {
            tracing::debug!(%error, "the socket was gone already");
        }
    }
}
