//! Settings in layers: flags over environment over file over defaults. Each value knows where it came from.

mod checkpoints;
mod cluster;
mod history;
mod layer;
mod layers;
mod paths;
mod record;
mod setting;
mod values;
mod variables;

pub use checkpoints::CheckpointSettings;
pub use cluster::{BlobsUrl, secret as cluster_secret};
pub use history::{HistoryLimits, retention};
pub use layer::Layer;
pub use paths::{DaemonPaths, keeps_projects};
pub use record::RecordSettings;
pub use setting::{Environment, SECRET_VARIABLES, Setting, ShownSetting, environment};
pub use values::{ByAgent, Cages, Durability, LogFormat, OnStop, Span, WhenAlone};
pub use variables::{WARNING, unknown_variables};

use crate::failure::Failure;
use layers::{Layers, setting_of};
use setting::show;
use shellkeep_runtime::{AGENTS_DEFAULT, AdmissionConfig, Reclaim};
use shellkeep_session::{AllowedHost, Network, QuotaName, Quotas, Sandbox, SecretSource, UserRange};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where the daemon listens on TCP, by default.
const DEFAULT_LISTEN: &str = "127.0.0.1:7433";
/// The value of `listen` for no TCP.
pub const NO_LISTEN: &str = "none";
/// Shells started in advance, by default: a burst of two new sessions does not wait.
const DEFAULT_SPARE_SHELLS: usize = 2;
/// A service without output, connections or work for this long is stopped.
const DEFAULT_IDLE_SERVICES: Span = Span(Some(Duration::from_secs(2 * 60 * 60)));
/// Whether the command line saves the files of projects, by default.
const KEEP_PROJECTS: bool = true;
/// How long running commands may continue when the daemon stops: most commands end within this time, and a supervisor
/// waits longer.
const DEFAULT_STOP_GRACE: Span = Span(Some(Duration::from_secs(10)));
/// The longest grace period; a machine that shuts down does not wait longer.
const MOST_STOP_GRACE: Duration = Duration::from_secs(3600);

/// What is logged by default. The MCP library warns about every client error, which the client is sent anyway.
const DEFAULT_LOG: &str = "warn,rmcp=error,shellkeep=info";
/// A log file of this size can still be read in an editor.
const DEFAULT_FILE_BYTES: u64 = 10_000_000;
/// How many old log files are kept, by default.
const DEFAULT_FILES: usize = 5;
/// The smallest log file, so that not every line starts a new one.
const LEAST_FILE_BYTES: u64 = 1_000;
/// Most old log files: each rotation renames them all.
const MOST_FILES: usize = 1_000;

/// All settings in effect.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The file that was read, if one was.
    pub file: Option<PathBuf>,
    /// The TCP address, or [`NO_LISTEN`].
    pub listen: Setting<String>,
    /// The Unix socket.
    pub socket: Setting<PathBuf>,
    pub data: Setting<PathBuf>,
    /// The store's URL.
    pub store: Setting<String>,
    /// This node's name among those that share a store.
    pub node: Setting<String>,
    /// The URL at which others reach it; empty for that of its TCP listener.
    pub advertise: Setting<String>,
    /// What this node does while it cannot reach the shared store.
    pub when_alone: Setting<WhenAlone>,
    /// Where the secret of the cluster is.
    pub cluster_secret_file: Setting<Option<PathBuf>>,
    /// Where checkpoints are copied for all nodes; empty for nowhere.
    pub blobs: Setting<String>,
    /// The database or broker for history; empty for none.
    pub history: Setting<String>,
    /// How much of it is kept, and for how long.
    pub history_limits: HistoryLimits,
    /// Shells started in advance.
    pub spare_shells: Setting<usize>,
    /// Whether shells are forked from a bash that is already loaded.
    pub fork_shells: Setting<bool>,
    /// The quotas, in the order of [`QuotaName::ALL`].
    pub quotas: Vec<(QuotaName, Setting<u64>)>,
    /// When idle services are stopped.
    pub idle_services: Setting<Span>,
    /// What happens to services when the daemon stops.
    pub services_on_stop: Setting<OnStop>,
    /// Most commands that wait.
    pub queue_length: Setting<usize>,
    /// The longest a command waits.
    pub queue_wait: Setting<Span>,
    /// When an ended session is deleted.
    pub reclaim_after: Setting<Span>,
    /// How much disk space all ended sessions may use.
    pub reclaim_bytes: Setting<u64>,
    /// How processes are tracked.
    pub cages: Setting<Cages>,
    /// How far sessions are confined at least.
    pub sandbox: Setting<Sandbox>,
    /// How far sessions of agents with tokens are confined at least.
    pub sandbox_agents: Setting<Sandbox>,
    /// The users of the machine that are for agents.
    pub sandbox_users: Setting<UserRange>,
    /// The network of sessions in rooms.
    pub sandbox_network: Setting<Network>,
    /// What sessions in rooms may connect to.
    pub sandbox_hosts: Setting<Vec<AllowedHost>>,
    /// What confined sessions may read in addition to the system.
    pub sandbox_read: Setting<Vec<PathBuf>>,
    /// What confined sessions may write in addition to their own directories.
    pub sandbox_write: Setting<Vec<PathBuf>>,
    /// The secrets that sessions can be given.
    pub secrets: Setting<Vec<SecretSource>>,
    /// Variables that new sessions get in addition to the usual ones.
    pub env_pass: Setting<Vec<String>>,
    /// The bash to use.
    pub bash: Setting<PathBuf>,
    /// Whether an agent's new token may restart its sessions by default.
    pub agent_may_restart: Setting<bool>,
    /// Whether MCP offers tools for checkpoints.
    pub mcp_undo: Setting<bool>,
    /// What an answered command survives.
    pub durability: Setting<Durability>,
    pub log: LogSettings,
    /// Whether the command line saves the files of projects.
    pub project_workspace: Setting<bool>,
    /// How long running commands may continue when the daemon stops.
    pub stop_grace: Setting<Span>,
    /// The recordings of sessions.
    pub record: RecordSettings,
    /// The checkpoints of sessions' files.
    pub checkpoints: CheckpointSettings,
}

/// The log settings in effect.
#[derive(Debug, Clone)]
pub struct LogSettings {
    /// What is logged.
    pub filter: Setting<String>,
    /// How it is written.
    pub format: Setting<LogFormat>,
    /// Where, if not to stderr.
    pub file: Setting<Option<PathBuf>>,
    /// A new file is started at this size.
    pub file_bytes: Setting<u64>,
    /// How many old files are kept.
    pub files: Setting<usize>,
}

/// The sources of the settings, to read them again later.
pub struct Sources {
    /// The command line.
    pub flags: Layer,
    /// The file it names, if any.
    pub file: Option<PathBuf>,
    /// The environment as it was at the start; secrets are removed from the process's own.
    pub variables: BTreeMap<String, String>,
}

impl Sources {
    /// The command line, and the environment of this process.
    pub fn new(flags: Layer, file: Option<PathBuf>) -> Self {
        let variables = std::env::vars_os();
        let text = variables.filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
        Self { flags, file, variables: text.filter(|(_, value)| !value.is_empty()).collect() }
    }

    /// Joins them. Reads the file.
    pub fn load(&self) -> Result<Settings, Failure> {
        let env = |name: &str| self.variables.get(name).cloned();
        Settings::load(self.flags.clone(), self.file.as_deref(), &env)
    }
}

impl Settings {
    /// Joins the layers. `file` is the one named on the command line.
    pub fn load(flags: Layer, file: Option<&Path>, env: Environment) -> Result<Self, Failure> {
        let layer::FileLayer { path, layer: file } = layer::from_file(file, env)?;
        let layers = Layers { flags, env: layer::from_environment(env)?, file, path };
        let data = layers.pick("SHELLKEEP_DATA", |layer| layer.data.clone(), || default_data(env))?;
        let (admission, reclaim) = (AdmissionConfig::default(), Reclaim::default());
        let survives = durability(&layers, &data.value)?;
        let settings = Self {
            listen: layers.pick("SHELLKEEP_LISTEN", |layer| layer.listen.clone(), || Ok(DEFAULT_LISTEN.to_owned()))?,
            socket: layers.pick(
                "SHELLKEEP_SOCKET",
                |layer| layer.socket.clone(),
                || Ok(data.value.join("shellkeep.sock")),
            )?,
            store: store(&layers, &data.value)?,
            node: layers.pick("SHELLKEEP_NODE", |layer| layer.node.clone(), || Ok(cluster::host_name()))?,
            advertise: layers.or("SHELLKEEP_ADVERTISE", |layer| layer.advertise.clone(), String::new())?,
            when_alone: layers.or("SHELLKEEP_WHEN_ALONE", |layer| layer.when_alone, WhenAlone::Serve)?,
            cluster_secret_file: layers.or(
                "SHELLKEEP_CLUSTER_SECRET_FILE",
                |layer| layer.cluster_secret_file.clone().map(Some),
                None,
            )?,
            blobs: layers.or("SHELLKEEP_BLOBS", |layer| layer.blobs.clone(), String::new())?,
            history: layers.or("SHELLKEEP_HISTORY", |layer| layer.history.clone(), String::new())?,
            history_limits: HistoryLimits::load(&layers)?,
            spare_shells: layers.or("SHELLKEEP_SPARE_SHELLS", |layer| layer.spare_shells, DEFAULT_SPARE_SHELLS)?,
            fork_shells: layers.or("SHELLKEEP_FORK_SHELLS", |layer| layer.fork_shells, true)?,
            quotas: layers.quotas()?,
            idle_services: layers.or("SHELLKEEP_IDLE_SERVICES", |layer| layer.idle_services, DEFAULT_IDLE_SERVICES)?,
            services_on_stop: layers.or("SHELLKEEP_SERVICES_ON_STOP", |layer| layer.services_on_stop, OnStop::Keep)?,
            queue_length: layers.or("SHELLKEEP_QUEUE_LENGTH", |layer| layer.queue_length, admission.queue_length)?,
            queue_wait: layers.or(
                "SHELLKEEP_QUEUE_WAIT",
                |layer| layer.queue_wait,
                Span(Some(admission.queue_wait)),
            )?,
            reclaim_after: layers.or(
                "SHELLKEEP_RECLAIM_AFTER",
                |layer| layer.reclaim_after,
                Span(Some(reclaim.after)),
            )?,
            reclaim_bytes: layers.or("SHELLKEEP_RECLAIM_BYTES", |layer| layer.reclaim_bytes, reclaim.bytes)?,
            cages: layers.or("SHELLKEEP_CAGES", |layer| layer.cages, Cages::Auto)?,
            sandbox: layers.or("SHELLKEEP_SANDBOX", |layer| layer.sandbox, Sandbox::None)?,
            sandbox_agents: layers.or("SHELLKEEP_SANDBOX_AGENTS", |layer| layer.sandbox_agents, AGENTS_DEFAULT)?,
            sandbox_users: layers.or("SHELLKEEP_SANDBOX_USERS", |layer| layer.sandbox_users, UserRange::default())?,
            sandbox_network: layers.or("SHELLKEEP_SANDBOX_NETWORK", |layer| layer.sandbox_network, Network::None)?,
            sandbox_hosts: layers.or("SHELLKEEP_SANDBOX_HOSTS", |layer| layer.sandbox_hosts.clone(), Vec::new())?,
            sandbox_read: layers.or("SHELLKEEP_SANDBOX_READ", |layer| layer.sandbox_read.clone(), Vec::new())?,
            sandbox_write: layers.or("SHELLKEEP_SANDBOX_WRITE", |layer| layer.sandbox_write.clone(), Vec::new())?,
            secrets: layers.or("SHELLKEEP_SECRETS", |layer| layer.secrets.clone(), Vec::new())?,
            env_pass: layers.or("SHELLKEEP_ENV_PASS", |layer| layer.env_pass.clone(), Vec::new())?,
            bash: layers.pick("SHELLKEEP_BASH", |layer| layer.bash.clone(), || Ok(default_bash(env)))?,
            agent_may_restart: layers.or("SHELLKEEP_AGENT_MAY_RESTART", |layer| layer.agent_may_restart, false)?,
            mcp_undo: layers.or("SHELLKEEP_MCP_UNDO", |layer| layer.mcp_undo, true)?,
            durability: layers.or("SHELLKEEP_DURABILITY", |layer| layer.durability, survives)?,
            log: LogSettings::load(&layers)?,
            project_workspace: layers.or(
                "SHELLKEEP_PROJECT_WORKSPACE",
                |layer| layer.project_workspace,
                KEEP_PROJECTS,
            )?,
            stop_grace: layers.or("SHELLKEEP_STOP_GRACE", |layer| layer.stop_grace, DEFAULT_STOP_GRACE)?,
            record: RecordSettings::load(&layers)?,
            checkpoints: CheckpointSettings::load(&layers)?,
            file: layers.path,
            data,
        };
        settings.check()
    }

    /// The files that hold secrets of the daemon, wherever they are.
    pub fn secret_files(&self) -> Vec<PathBuf> {
        let files = [&self.cluster_secret_file.value, &self.record.secrets_file.value, &self.record.signing_key.value];
        let doors = [&self.socket.value, &self.data.value];
        let given = self.secrets.value.iter().map(|source| &source.file);
        self.file.iter().chain(files.into_iter().flatten()).chain(doors).chain(given).cloned().collect()
    }

    /// Every setting, for showing.
    pub fn shown(&self) -> Vec<ShownSetting> {
        let mut shown = vec![
            show("listen", &self.listen, String::clone),
            show("socket", &self.socket, |path| shown_path(path)),
            show("data", &self.data, |path| shown_path(path)),
            show("store", &self.store, |url| cluster::without_login(url)),
            show("node", &self.node, String::clone),
            show("advertise", &self.advertise, String::clone),
            show("when_alone", &self.when_alone, ToString::to_string),
            show("cluster_secret_file", &self.cluster_secret_file, |path| {
                path.as_deref().map_or_else(String::new, shown_path)
            }),
            show("blobs", &self.blobs, String::clone),
            show("history", &self.history, |url| shellkeep_history::url::without_login(url)),
            show("spare_shells", &self.spare_shells, ToString::to_string),
            show("fork_shells", &self.fork_shells, ToString::to_string),
            show("sandbox", &self.sandbox, ToString::to_string),
            show("sandbox_agents", &self.sandbox_agents, ToString::to_string),
            show("sandbox_users", &self.sandbox_users, ToString::to_string),
            show("sandbox_network", &self.sandbox_network, ToString::to_string),
            show("sandbox_hosts", &self.sandbox_hosts, |hosts| {
                hosts.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
            }),
            show("sandbox_read", &self.sandbox_read, |paths| shown_paths(paths)),
            show("sandbox_write", &self.sandbox_write, |paths| shown_paths(paths)),
            show("secrets", &self.secrets, |sources| {
                sources.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
            }),
            show("env_pass", &self.env_pass, |names| names.join(",")),
            show("bash", &self.bash, |path| shown_path(path)),
            show("agent_may_restart", &self.agent_may_restart, ToString::to_string),
            show("mcp_undo", &self.mcp_undo, ToString::to_string),
            show("durability", &self.durability, ToString::to_string),
            show("project_workspace", &self.project_workspace, ToString::to_string),
            show("stop_grace", &self.stop_grace, ToString::to_string),
            show("idle_services", &self.idle_services, ToString::to_string),
            show("services_on_stop", &self.services_on_stop, ToString::to_string),
            show("queue_length", &self.queue_length, ToString::to_string),
            show("queue_wait", &self.queue_wait, ToString::to_string),
            show("reclaim_after", &self.reclaim_after, ToString::to_string),
            show("reclaim_bytes", &self.reclaim_bytes, ToString::to_string),
            show("cages", &self.cages, ToString::to_string),
        ];
        shown.extend(self.log.shown());
        shown.extend(self.history_limits.shown());
        shown.extend(self.record.shown());
        shown.extend(self.checkpoints.shown());
        shown.extend(self.quotas.iter().map(|(name, setting)| show(setting_of(*name), setting, ToString::to_string)));
        shown
    }

    /// The place for checkpoints that all nodes can read.
    pub fn blobs_place(&self) -> Result<Option<BlobsUrl>, Failure> {
        cluster::blobs(&self.blobs.value, &self.store.value)
    }

    fn check(self) -> Result<Self, Failure> {
        for (name, setting) in &self.quotas {
            let (least, most) = name.bounds();
            if !(least..=most).contains(&setting.value) {
                let (name, value) = (setting_of(*name), setting.value);
                return Err(Failure::start(format!("{name} is {value}; it must be from {least} to {most}")));
            }
        }
        let shells = self.quota(QuotaName::LiveShells);
        if self.spare_shells.value as u64 >= shells {
            let (spare, most) = (self.spare_shells.value, shells);
            let message = format!("spare_shells ({spare}) must be below max_shells ({most}); spares count as shells");
            return Err(Failure::start(message));
        }
        if self.queue_wait.value.0.is_none_or(|wait| wait.is_zero()) {
            return Err(Failure::start("queue_wait must be a duration, as in 30s"));
        }
        if self.stop_grace.value.0.is_none_or(|grace| grace > MOST_STOP_GRACE) {
            return Err(Failure::start("stop_grace must be a duration of at most 1h, as in 10s"));
        }
        if let Some(wrong) = self.env_pass.value.iter().find(|name| !is_variable_or_prefix(name)) {
            let message = format!("env_pass: '{wrong}' is neither a variable name nor a prefix such as AWS_*");
            return Err(Failure::start(message));
        }
        if self.sandbox_network.value == Network::Full && !self.sandbox_hosts.value.is_empty() {
            let message = "sandbox_hosts has no effect with sandbox_network = \"full\"; set that to \"none\", or remove the hosts";
            return Err(Failure::start(message));
        }
        if self.listen.value != NO_LISTEN {
            values::check_listen(&self.listen.value).map_err(Failure::start)?;
        }
        cluster::check(&self.node.value, &self.advertise.value)?;
        cluster::blobs(&self.blobs.value, &self.store.value)?;
        cluster::durability(self.durability.value, &self.store.value)?;
        if !self.history.value.is_empty() {
            shellkeep_history::url::kind(&self.history.value).map_err(Failure::start)?;
        }
        self.log.check()?;
        self.record.check()?;
        self.checkpoints.check()?;
        Ok(self)
    }

    /// All quotas.
    pub fn quotas(&self) -> Quotas {
        let mut quotas = Quotas::default();
        for (name, setting) in &self.quotas {
            quotas.set(*name, setting.value);
        }
        quotas
    }

    /// How long running commands may continue when the daemon stops.
    pub fn grace(&self) -> Duration {
        self.stop_grace.value.0.unwrap_or_default()
    }

    /// The name of a quota in the configuration.
    pub fn name_of(quota: QuotaName) -> &'static str {
        setting_of(quota)
    }

    /// One quota.
    pub fn quota(&self, name: QuotaName) -> u64 {
        self.quotas[name as usize].1.value
    }
}

impl LogSettings {
    /// Joins the layers.
    fn load(layers: &Layers) -> Result<Self, Failure> {
        Ok(Self {
            filter: layers.or("SHELLKEEP_LOG", |layer| layer.log.clone(), DEFAULT_LOG.to_owned())?,
            format: layers.or("SHELLKEEP_LOG_FORMAT", |layer| layer.log_format, LogFormat::Text)?,
            file: layers.or("SHELLKEEP_LOG_FILE", |layer| layer.log_file.clone().map(Some), None)?,
            file_bytes: layers.or("SHELLKEEP_LOG_FILE_BYTES", |layer| layer.log_file_bytes, DEFAULT_FILE_BYTES)?,
            files: layers.or("SHELLKEEP_LOG_FILES", |layer| layer.log_files, DEFAULT_FILES)?,
        })
    }

    /// Every setting, for showing.
    fn shown(&self) -> [ShownSetting; 5] {
        [
            show("log", &self.filter, String::clone),
            show("log_format", &self.format, ToString::to_string),
            show("log_file", &self.file, |path| match path {
                Some(path) => path.display().to_string(),
                None => "stderr".to_owned(),
            }),
            show("log_file_bytes", &self.file_bytes, ToString::to_string),
            show("log_files", &self.files, ToString::to_string),
        ]
    }

    /// Whether they can be used.
    fn check(&self) -> Result<(), Failure> {
        let (bytes, files) = (self.file_bytes.value, self.files.value);
        if bytes < LEAST_FILE_BYTES {
            let message = format!("log_file_bytes is {bytes}; it must be at least {LEAST_FILE_BYTES}");
            return Err(Failure::start(message));
        }
        if files > MOST_FILES {
            return Err(Failure::start(format!("log_files is {files}; it must be at most {MOST_FILES}")));
        }
        Ok(())
    }
}

/// `NAME`, or `PREFIX*`.
fn is_variable_or_prefix(text: &str) -> bool {
    let name = text.strip_suffix('*').unwrap_or(text);
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || c == '_';
    !text.is_empty() && name.chars().all(is_allowed) && !name.starts_with(|c: char| c.is_ascii_digit())
}

fn shown_path(path: &Path) -> String {
    path.display().to_string()
}

fn shown_paths(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| shown_path(path)).collect::<Vec<_>>().join(",")
}

fn default_data(env: Environment) -> Result<PathBuf, Failure> {
    let base = env("XDG_DATA_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let base = base.or_else(|| env("HOME").map(|home| Path::new(&home).join(".local/share")));
    base.map(|base| base.join("shellkeep")).ok_or_else(|| {
        Failure::start(
            "neither XDG_DATA_HOME nor HOME is set; set the data directory with --data DIR or SHELLKEEP_DATA",
        )
    })
}

/// The store on this node's own disk: what a shared one is in front of, or the store itself.
pub fn local_store(store: &str, data: &Path) -> String {
    if shellkeep_shared::is_shared(store) { default_store(data) } else { store.to_owned() }
}

fn store(layers: &Layers, data: &Path) -> Result<Setting<String>, Failure> {
    layers.pick("SHELLKEEP_STORE", |layer| layer.store.clone(), || Ok(default_store(data)))
}

fn durability(layers: &Layers, data: &Path) -> Result<Durability, Failure> {
    let is_shared = shellkeep_shared::is_shared(&store(layers, data)?.value);
    Ok(if is_shared { Durability::Node } else { Durability::Process })
}

fn default_store(data: &Path) -> String {
    format!("sqlite://{}", data.join("shellkeep.db").display())
}

/// The first bash in `PATH`; if there is none, the usual path, so that the error names it.
fn default_bash(env: Environment) -> PathBuf {
    let path = env("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|directory| directory.join("bash")).find(|bash| bash.is_file());
    found.unwrap_or_else(|| PathBuf::from("/bin/bash"))
}

#[cfg(test)]
mod tests {
    use super::checkpoints::layer::CheckpointLayer;
    use super::setting::SetBy;
    use super::*;

    fn load(flags: Layer, variables: &[(&str, &str)], file: Option<&str>) -> Result<Settings, Failure> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config.toml");
        if let Some(text) = file {
            std::fs::write(&path, text).unwrap();
        }
        let env = |name: &str| {
            let found = variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
            found.or_else(|| (name == "HOME").then(|| "/home/ann".to_owned()))
        };
        Settings::load(flags, file.map(|_| path.as_path()), &env)
    }

    #[test]
    fn the_upper_layer_wins_and_says_so() {
        let flags = Layer { max_shells: Some(7), ..Layer::default() };
        let variables = [("SHELLKEEP_MAX_SHELLS", "8"), ("SHELLKEEP_LISTEN", "127.0.0.1:1")];
        let file = "max_shells = 9\nlisten = \"127.0.0.1:2\"\nspare_shells = 1\n";
        let settings = load(flags, &variables, Some(file)).unwrap();
        assert_eq!(settings.quotas[QuotaName::LiveShells as usize].1, Setting { value: 7, source: SetBy::Flag });
        assert_eq!(settings.listen.value, "127.0.0.1:1");
        assert_eq!(settings.listen.source.to_string(), "env SHELLKEEP_LISTEN");
        assert!(matches!(settings.spare_shells, Setting { value: 1, source: SetBy::File(_) }));
        let processes = &settings.quotas[QuotaName::SessionProcesses as usize].1;
        assert_eq!(*processes, Setting { value: 256, source: SetBy::Default });
    }

    #[test]
    fn places_follow_the_data_directory() {
        let settings = load(Layer::default(), &[("SHELLKEEP_DATA", "/d")], None).unwrap();
        assert_eq!(settings.socket.value, Path::new("/d/shellkeep.sock"));
        assert_eq!(settings.store.value, "sqlite:///d/shellkeep.db");
        let settings = load(Layer::default(), &[], None).unwrap();
        assert_eq!(settings.data.value, Path::new("/home/ann/.local/share/shellkeep"));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let message = |result: Result<Settings, Failure>| format!("{:?}", result.unwrap_err());
        assert!(message(load(Layer::default(), &[], Some("max_shell = 9\n"))).contains("max_shell"));
        assert!(message(load(Layer::default(), &[("SHELLKEEP_MAX_SHELLS", "many")], None)).contains("MAX_SHELLS"));
        let negative = message(load(Layer::default(), &[("SHELLKEEP_MAX_SHELLS", "-1")], None));
        assert!(negative.contains("must be a whole number that is not negative"), "{negative}");
        assert!(message(load(Layer::default(), &[("SHELLKEEP_DURABILITY", "x")], None)).contains("power"));
        assert!(message(load(Layer::default(), &[("SHELLKEEP_MAX_SHELLS", "2")], None)).contains("spare_shells"));
        assert!(message(load(Layer::default(), &[], Some("[record]\nrules = [\"e-mail\"]\n"))).contains("'e-mail'"));
        assert!(message(load(Layer::default(), &[], Some("[record]\nsegment_bytes = 1\n"))).contains("at least 1000"));
        assert!(message(load(Layer::default(), &[], Some("[record]\nsecret = []\n"))).contains("secret"));
        assert!(message(load(Layer::default(), &[("SHELLKEEP_LISTEN", "abc")], None)).contains("HOST:PORT"));
        assert!(load(Layer::default(), &[("SHELLKEEP_LISTEN", "none")], None).is_ok());
    }

    #[test]
    fn checkpoints_have_a_table_of_their_own() {
        let file = "[checkpoints]\nkeep_all = 5\ntime = \"3s\"\n";
        let flags = Layer {
            checkpoints: CheckpointLayer { on: Some(false), ..CheckpointLayer::default() },
            ..Layer::default()
        };
        let settings = load(flags, &[("SHELLKEEP_CHECKPOINTS_MAX_FILE_BYTES", "5000")], Some(file)).unwrap();
        let config = settings.checkpoints.config();
        assert_eq!((config.on, config.keep_all, config.time), (false, 5, Duration::from_secs(3)));
        assert_eq!((config.max_file_bytes, config.max_files), (5000, 200_000));
        let shown = format!("{:?}", settings.shown());
        assert!(
            shown.contains("checkpoints.max_file_bytes") && shown.contains("CHECKPOINTS_MAX_FILE_BYTES"),
            "{shown}"
        );
        let wrong = load(Layer::default(), &[("SHELLKEEP_CHECKPOINTS_TIME", "never")], None);
        assert!(format!("{:?}", wrong.unwrap_err()).contains("checkpoints.time"));
    }

    #[test]
    fn recordings_have_a_table_of_their_own() {
        let file = "[record]\nsecrets = [\"horse-battery\"]\nredact_on_write = true\nnational_ids = [\"us_ssn\"]\n";
        let variables = [("SHELLKEEP_RECORD_SEGMENT_BYTES", "5000")];
        let settings = load(Layer::default(), &variables, Some(file)).unwrap();
        assert_eq!((settings.record.segment_bytes.value, settings.record.redact_on_write.value), (5000, true));
        let config = settings.record.config().unwrap();
        assert_eq!(config.secrets, ["horse-battery"]);
        assert!(config.redaction.rules.contains("us_ssn") && config.redaction.rules.contains("email"));
        assert!(!config.redaction.rules.contains("phone"));
        let phones = load(Layer::default(), &[("SHELLKEEP_RECORD_PHONE_NUMBERS", "true")], None).unwrap();
        assert!(phones.record.config().unwrap().redaction.rules.contains("phone"));
        let shown = format!("{:?} {settings:?} {config:?}", settings.shown());
        assert!(!shown.contains("horse") && shown.contains("1 secrets"), "{shown}");
        let short = load(Layer::default(), &[("SHELLKEEP_RECORD_SECRETS", "long-enough\nabc")], None).unwrap();
        assert!(format!("{:?}", short.record.config().unwrap_err()).contains("number 2"));
    }
}
