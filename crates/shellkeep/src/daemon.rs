//! The daemon: joins settings, store, engine and doors, and ends them in order.

mod private;

use crate::config::{self, Cages, Durability, NO_LISTEN, Settings};
use crate::failure::{FAILED, Failure};
use crate::ready::Ready;
use crate::{terminal, token};
use shellkeep_process::{CageMode, own};
use shellkeep_runtime::{AdmissionConfig, Engine, EngineConfig, OnStop, Reclaim, RecordConfig};
use shellkeep_server::{
    Auth, Token, bind_tcp, bind_unix, install_metrics, keep_metrics, router, serve_tcp, serve_unix,
};
use shellkeep_session::Quotas;
use shellkeep_store::{Arrival, RecordOptions, Store};
use std::fs;
use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;
use tokio::net::{TcpListener, UnixListener};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tracing_subscriber::EnvFilter;

/// Variables that may hold secrets. They are read before the daemon starts, and removed then.
const SECRET_VARIABLES: [&str; 3] = ["SHELLKEEP_TOKEN", "SHELLKEEP_RECORD_SECRETS", "SHELLKEEP_STORE"];
/// Least time between two looks for children that nobody waits for: many may end at once.
const REAP_PAUSE: Duration = Duration::from_millis(10);

/// What a daemon starts with.
pub struct Start {
    /// Everything in force.
    pub settings: Settings,
    /// The token of the environment.
    pub token: Option<String>,
    /// Where to say that we are ready.
    pub ready: Option<Ready>,
    /// Whether to print a first thing to try.
    pub hint: bool,
    /// Whether to start although the store has lost something.
    pub accept_loss: bool,
    /// Whether a copied data directory takes the directories outside that its sessions work in.
    pub take_workspaces: bool,
}

/// Runs a daemon until a signal ends it.
pub fn run(start: Start) -> Result<ExitCode, Failure> {
    start_log(&start.settings.log.value)?;
    keep_to_ourselves()?;
    shellkeep_process::spawn::raise_descriptor_limit();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(Failure::start)?;
    runtime.block_on(live(start))
}

async fn live(start: Start) -> Result<ExitCode, Failure> {
    let settings = &start.settings;
    private::make_data(&settings.data.value)?;
    private::close_store(&settings.store.value);
    let metrics = install_metrics().map_err(Failure::start)?;
    let record = settings.record.config()?;
    let store = open_store(settings, &record, start.accept_loss)?;
    tell_place(&store, start.take_workspaces)?;
    let doors = Doors::open(settings).await?;
    let token = token::find(start.token, &settings.data.value)?;
    let mut signals = Signals::listen()?;
    let engine = start_engine(settings, store, record).await?;

    let (stop, stopped) = watch::channel(false);
    let mut serving = JoinSet::new();
    let token = Token::new(token);
    let auth = Auth::SocketOwner { token: token.clone() };
    let socket = router(engine.at_door("socket"), auth, metrics.clone());
    serving.spawn(serve_unix(doors.unix, socket, engine.clone(), stopped.clone()));
    serving.spawn(reap_strays(signal(SignalKind::child()).map_err(Failure::start)?, stopped.clone()));
    let mut lines = vec![format!("listening on unix:{}", settings.socket.value.display())];
    if let Some(listener) = doors.tcp {
        let address = listener.local_addr().map_err(Failure::start)?;
        let auth = Auth::Bearer { token, loopback: address.ip().is_loopback() };
        lines.push(format!("listening on http://{address}"));
        serving.spawn(serve_tcp(listener, router(engine.at_door("tcp"), auth, metrics.clone()), stopped));
    }
    let upkeep = tokio::spawn(keep_metrics(metrics));
    announce(&lines, start.ready, start.hint);

    signals.next().await;
    tracing::info!("stopping: sessions are being saved");
    let ending = async {
        // Doors take nothing new from here on, but answers under way still go out while the engine ends their runs.
        let _ = stop.send(true);
        engine.shutdown().await;
        while serving.join_next().await.is_some() {}
        engine.close_store().await
    };
    let code = tokio::select! {
        saved = ending => after_saving(saved),
        () = signals.next() => ExitCode::from(FAILED),
    };
    upkeep.abort();
    remove_socket(&settings.socket.value);
    Ok(code)
}

/// Says whether everything was saved, in words and by the exit code.
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
        let unix = bind_unix(&settings.socket.value).map_err(Failure::start)?;
        Ok(Self { unix, tcp })
    }
}

/// The signals that end a daemon, and the one that does not: a terminal that is closed, or a script that means to have the
/// settings read again, must not end every session. Settings are read at the start only.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    fn listen() -> Result<Self, Failure> {
        let on = |kind| signal(kind).map_err(Failure::start);
        Ok(Self {
            terminate: on(SignalKind::terminate())?,
            interrupt: on(SignalKind::interrupt())?,
            hangup: on(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return,
                _ = self.interrupt.recv() => return,
                _ = self.hangup.recv() => tracing::info!("SIGHUP is ignored; restart the daemon to change its settings"),
            }
        }
    }
}

fn open_store(settings: &Settings, record: &RecordConfig, accept_loss: bool) -> Result<Store, Failure> {
    let durability = match settings.durability.value {
        Durability::Process => shellkeep_store::Durability::Process,
        Durability::Power => shellkeep_store::Durability::Power,
    };
    let options = RecordOptions {
        segment_bytes: settings.record.segment_bytes.value,
        redactor: record.writing_redactor().map_err(Failure::start)?,
        accept_loss,
        signing_key: settings.record.signing_key.value.clone(),
        anchor: settings.record.anchor()?,
        ..RecordOptions::default()
    };
    Store::open_with(&settings.store.value, &settings.data.value, durability, options).map_err(Failure::start)
}

/// Says if the data directory is not where it was, and takes what is outside of a copy if the host says so.
fn tell_place(store: &Store, take_workspaces: bool) -> Result<(), Failure> {
    if take_workspaces {
        store.home().take_workspaces().map_err(Failure::start)?;
    }
    match store.home().arrival() {
        Arrival::Same => {}
        Arrival::Moved => tracing::warn!(
            "the data directory was moved to another file system or restored; services that still run at its former place are left alone"
        ),
        Arrival::Copied => tracing::warn!("the data directory is a copy; services of the original are left alone"),
    }
    if let Some(copy) = store.home().yields_to() {
        tracing::warn!(
            original = %copy.path.to_text(),
            "this data directory is a copy: its sessions do not work in directories outside of it, which are the original's; start with --take-workspaces when the original is not used any more"
        );
    }
    Ok(())
}

async fn start_engine(settings: &Settings, store: Store, record: RecordConfig) -> Result<Engine, Failure> {
    let mut quotas = Quotas::default();
    for (name, setting) in &settings.quotas {
        quotas.set(*name, setting.value);
    }
    let defaults = AdmissionConfig::default();
    let config = EngineConfig {
        spare_shells: settings.spare_shells.value,
        quotas,
        agent_may_restart: settings.agent_may_restart.value,
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
        ..EngineConfig::new(settings.data.value.clone(), settings.bash.value.clone())
    };
    Engine::start(config, store).await.map_err(Failure::start)
}

fn announce(lines: &[String], ready: Option<Ready>, hint: bool) {
    for line in lines {
        terminal::line(line);
    }
    if hint {
        terminal::line("try: shellkeep run -s demo -- 'echo hello from $PWD'");
    }
    if let Some(ready) = ready {
        ready.tell();
    }
}

fn start_log(filter: &str) -> Result<(), Failure> {
    let filter =
        EnvFilter::try_new(filter).map_err(|error| Failure::start(format!("log={filter} is wrong: {error}")))?;
    let ansi = io::IsTerminal::is_terminal(&io::stderr());
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).with_ansi(ansi).init();
    Ok(())
}

/// What the processes of sessions, which run as the same user, must not get from us. Before there are other threads.
fn keep_to_ourselves() -> Result<(), Failure> {
    own::make_files_private();
    own::forget_variables(&SECRET_VARIABLES).map_err(Failure::start)?;
    let hidden = own::hide_from_same_user();
    let closed = own::keep_inherited_descriptors();
    // Who connects to the socket is known by descent, so that nobody may lose its way to us.
    let reaps = shellkeep_process::become_subreaper();
    for (what, done) in [("dumpable", hidden), ("close_range", closed), ("subreaper", reaps)] {
        if let Err(error) = done {
            tracing::warn!(what, %error, "the kernel does not offer this protection");
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

fn remove_socket(path: &Path) {
    if let Err(error) = fs::remove_file(path) {
        tracing::debug!(%error, "the socket was gone already");
    }
}
