//! One layer of settings: from a file, the environment or the command line. Every field is optional.

use super::checkpoints::layer::{self as checkpoints, CheckpointLayer};
use super::record::layer::{self as record, RecordLayer};
use super::setting::{Environment, parsed};
use super::values::{ByAgent, Cages, Durability, LogFormat, OnStop, Span, WhenAlone};
use crate::failure::Failure;
use clap::{Args, ValueHint};
use serde::Deserialize;
use shellkeep_session::{AllowedHost, Network, QuotaName, Sandbox, SecretSource, UserRange};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// One layer of settings. The fields have the same names in the file, and with `SHELLKEEP_` in the environment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Args)]
#[serde(deny_unknown_fields, default)]
pub struct Layer {
    /// Listen on this TCP address; `none` for no TCP [default: 127.0.0.1:7433]
    #[arg(long, value_name = "HOST:PORT")]
    pub listen: Option<String>,
    /// Listen on this Unix socket [default: DATA/shellkeep.sock]
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub socket: Option<PathBuf>,
    /// Store everything in this directory [default: $XDG_DATA_HOME/shellkeep or ~/.local/share/shellkeep]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub data: Option<PathBuf>,
    /// Store sessions here: sqlite://PATH, file://DIR, memory://, or share them with other nodes: redis://HOST:PORT/DB,
    /// redis+sentinel://HOST:PORT,HOST:PORT/NAME, rediss:// and rediss+sentinel:// for TLS, postgres://USER@HOST:PORT/DATABASE[?sslmode=verify-full] [default: sqlite://DATA/shellkeep.db]
    #[arg(long, value_name = "URL")]
    pub store: Option<String>,
    /// The name of this node among those that share a store [default: the host name]
    #[arg(long, value_name = "NAME")]
    pub node: Option<String>,
    /// The URL at which other nodes reach this one [default: that of its TCP listener]
    #[arg(long, value_name = "URL")]
    pub advertise: Option<String>,
    /// What this node does while it cannot reach the shared store [default: serve]
    #[arg(long, value_name = "WHAT")]
    pub when_alone: Option<WhenAlone>,
    /// File with the secret that all nodes share; SHELLKEEP_CLUSTER_SECRET holds the secret itself [default: the host token]
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub cluster_secret_file: Option<PathBuf>,
    /// Copy checkpoints to where all nodes can read them, file:///DIR or s3://BUCKET/PREFIX, so that files move with their session
    #[arg(long, value_name = "URL")]
    pub blobs: Option<String>,
    /// Write what agents do to a database as well: postgres://USER:PASSWORD@HOST:PORT/DATABASE or
    /// mysql://USER:PASSWORD@HOST:PORT/DATABASE; or to a broker, amqp://USER:PASSWORD@HOST:PORT/VHOST, for `shellkeep
    /// history consume`
    #[arg(long, value_name = "URL")]
    pub history: Option<String>,
    /// Bytes of the journal that are kept while the history database or broker is away; beyond that history loses the
    /// oldest [default: 2147483648]
    #[arg(long, value_name = "BYTES")]
    pub history_behind_bytes: Option<u64>,
    /// Remove records from the history database when they are this old, as in 90d; `never` [default: never]
    #[arg(long, value_name = "TIME")]
    pub history_keep: Option<Span>,
    /// The same for the sessions of some agents instead: AGENT=TIME, separated by commas
    #[arg(long, value_name = "AGENTS")]
    pub history_keep_agents: Option<ByAgent>,
    /// Remove a deleted session from the history database after this long; until then its agent cannot remove it; `never`
    /// keeps it as long as others [default: never]
    #[arg(long, value_name = "TIME")]
    pub history_keep_deleted: Option<Span>,
    /// Maximum number of live shells; beyond it, idle ones are dropped [default: 200]
    #[arg(long, value_name = "N")]
    pub max_shells: Option<usize>,
    /// Shells started in advance, for each sandbox that sessions have [default: 2]
    #[arg(long, value_name = "N")]
    pub spare_shells: Option<usize>,
    /// Whether shells are forked from a bash that is already loaded, where the machine allows it; otherwise each is
    /// started [default: true]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub fork_shells: Option<bool>,
    /// Maximum number of processes of one session [default: 256]
    #[arg(long, value_name = "N")]
    pub session_processes: Option<u64>,
    /// Maximum number of processes of all sessions and services of this node [default: 1000]
    #[arg(long, value_name = "N")]
    pub processes: Option<u64>,
    /// Maximum number of services of this node [default: 500]
    #[arg(long, value_name = "N")]
    pub services: Option<u64>,
    /// Maximum number of services of one agent [default: 5]
    #[arg(long, value_name = "N")]
    pub services_per_agent: Option<u64>,
    /// Bytes of each stream of a run that can be read back [default: 134217728]
    #[arg(long, value_name = "BYTES")]
    pub output_bytes_per_run: Option<u64>,
    /// Bytes of output of a session that can be read back; the oldest are dropped first [default: 1073741824]
    #[arg(long, value_name = "BYTES")]
    pub output_bytes_per_session: Option<u64>,
    /// Bytes on disk that a session may use [default: 10737418240]
    #[arg(long, value_name = "BYTES")]
    pub disk_bytes_per_session: Option<u64>,
    /// Bytes of a service's log that are kept [default: 16777216]
    #[arg(long, value_name = "BYTES")]
    pub service_log_bytes: Option<u64>,
    /// Bytes of the values in a session's keyed store [default: 1073741824]
    #[arg(long, value_name = "BYTES")]
    pub kv_bytes_per_session: Option<u64>,
    /// Maximum number of processes of one agent [default: 500]
    #[arg(long, value_name = "N")]
    pub processes_per_agent: Option<u64>,
    /// Bytes of memory of all processes of one agent, at most three quarters of the machine's [default: 68719476736]
    #[arg(long, value_name = "BYTES")]
    pub memory_bytes_per_agent: Option<u64>,
    /// Maximum number of sessions that an agent may create [default: 10000]
    #[arg(long, value_name = "N")]
    pub sessions_per_agent: Option<u64>,
    /// Maximum number of files and directories of a session [default: 1000000]
    #[arg(long, value_name = "N")]
    pub files_per_session: Option<u64>,
    /// Maximum number of files that one process of a session has open [default: 65536]
    #[arg(long, value_name = "N")]
    pub open_files: Option<u64>,
    /// Bytes of the files of all sessions of one agent [default: 107374182400]
    #[arg(long, value_name = "BYTES")]
    pub disk_bytes_per_agent: Option<u64>,
    /// Maximum number of files and directories of all sessions of one agent [default: 10000000]
    #[arg(long, value_name = "N")]
    pub files_per_agent: Option<u64>,
    /// Stop a service after this long without output, connections or work, as in 2h; `never` [default: 2h]
    #[arg(long, value_name = "TIME")]
    pub idle_services: Option<Span>,
    /// What happens to services when the daemon stops [default: keep]
    #[arg(long, value_name = "WHAT")]
    pub services_on_stop: Option<OnStop>,
    /// Maximum number of commands that wait in the queue of this node [default: 10000]
    #[arg(long, value_name = "N")]
    pub queue_length: Option<usize>,
    /// The longest time that a command waits in the queue [default: 30s]
    #[arg(long, value_name = "TIME")]
    pub queue_wait: Option<Span>,
    /// Delete an ended session after this long, as in 7d; `never` [default: 7d]
    #[arg(long, value_name = "TIME")]
    pub reclaim_after: Option<Span>,
    /// Delete the oldest ended sessions when together they use more bytes than this [default: 10737418240]
    #[arg(long, value_name = "BYTES")]
    pub reclaim_bytes: Option<u64>,
    /// How processes are tracked: `auto`, `no_limits` (as if there were no pids controller), `marks` (no cgroups)
    /// [default: auto]
    #[arg(long, value_name = "HOW")]
    pub cages: Option<Cages>,
    /// How far sessions are confined at least: `none`, `user` (a user for each agent; only with `--sandbox-agents user`),
    /// `fence` (read the system, write to their own directories, reach no other process), or `room` (also a root directory,
    /// processes and a network of their own) [default: none]
    #[arg(long, value_name = "SANDBOX")]
    pub sandbox: Option<Sandbox>,
    /// How far sessions of agents with tokens are confined at least: `none`, `user` (a daemon that runs as root gives each agent
    /// a user of the machine; no rooms then), `fence` or `room` [default: fence]
    #[arg(long, value_name = "SANDBOX")]
    pub sandbox_agents: Option<Sandbox>,
    /// The users of the machine that are for agents in the sandbox `user`, from the first to the last
    /// [default: 1879048192-1887436799]
    #[arg(long, value_name = "FIRST-LAST")]
    pub sandbox_users: Option<UserRange>,
    /// The network of sessions in rooms: `none` (only their own loopback) or `full` (that of the machine) [default: none]
    #[arg(long, value_name = "NETWORK")]
    pub sandbox_network: Option<Network>,
    /// Hosts that sessions in rooms with the network `none` may connect to, separated by commas: NAME:PORT, *.NAME:PORT, or
    /// NAME:PORT=ADDRESS for one in a private network
    #[arg(long, value_name = "HOSTS", value_delimiter = ',')]
    pub sandbox_hosts: Option<Vec<AllowedHost>>,
    /// Directories and files that confined sessions may read in addition to the system, separated by commas
    #[arg(long, value_name = "PATHS", value_delimiter = ',', value_hint = ValueHint::AnyPath)]
    pub sandbox_read: Option<Vec<PathBuf>>,
    /// Directories and files that confined sessions may read and write in addition to their own, separated by commas
    #[arg(long, value_name = "PATHS", value_delimiter = ',', value_hint = ValueHint::AnyPath)]
    pub sandbox_write: Option<Vec<PathBuf>>,
    /// Secrets that sessions can be given, separated by commas: NAME=FILE for sessions that are created with it,
    /// AGENT/NAME=FILE for all sessions of an agent; the file has the value
    #[arg(long, value_name = "SECRETS", value_delimiter = ',')]
    pub secrets: Option<Vec<SecretSource>>,
    /// Variables that new sessions get in addition to PATH, HOME, LANG and the like: NAME or PREFIX_*, separated by
    /// commas
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub env_pass: Option<Vec<String>>,
    /// The bash to use [default: the first in PATH]
    #[arg(long, value_name = "PATH", value_hint = ValueHint::ExecutablePath)]
    pub bash: Option<PathBuf>,
    /// Whether an agent may restart its sessions, unless its token says otherwise [default: false]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub agent_may_restart: Option<bool>,
    /// Whether MCP offers list_checkpoints, diff and rewind [default: true]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub mcp_undo: Option<bool>,
    /// What an answered command survives [default: node with a shared store, process otherwise]
    #[arg(long, value_name = "WHAT")]
    pub durability: Option<Durability>,
    /// What is logged, as in `warn` or `warn,shellkeep=debug` [default: warn,rmcp=error,shellkeep=info]
    #[arg(long, value_name = "FILTER")]
    pub log: Option<String>,
    /// The log format: `text`, or `json` with one object per line [default: text]
    #[arg(long, value_name = "FORMAT")]
    pub log_format: Option<LogFormat>,
    /// Write the log to this file instead of stderr
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub log_file: Option<PathBuf>,
    /// Start a new log file at this size; the old one becomes FILE.1 [default: 10000000]
    #[arg(long, value_name = "BYTES")]
    pub log_file_bytes: Option<u64>,
    /// How many old log files are kept [default: 5]
    #[arg(long, value_name = "N")]
    pub log_files: Option<usize>,
    /// Whether sessions that `run`, `services start` and `mcp` create in a project save the project's files [default:
    /// true]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub project_workspace: Option<bool>,
    /// When the daemon stops, let running commands finish for this long, as in 10s [default: 10s]
    #[arg(long, value_name = "TIME")]
    pub stop_grace: Option<Span>,
    /// The recordings of sessions.
    #[command(flatten)]
    pub record: RecordLayer,
    /// The checkpoints of sessions' files.
    #[command(flatten)]
    pub checkpoints: CheckpointLayer,
}

impl Layer {
    /// The value of a quota. The number of live shells keeps its name from before quotas existed.
    pub fn quota(&self, name: QuotaName) -> Option<u64> {
        match name {
            QuotaName::Processes => self.processes,
            QuotaName::Services => self.services,
            QuotaName::ServicesPerAgent => self.services_per_agent,
            QuotaName::LiveShells => self.max_shells.map(|shells| shells as u64),
            QuotaName::SessionProcesses => self.session_processes,
            QuotaName::OutputBytesPerRun => self.output_bytes_per_run,
            QuotaName::OutputBytesPerSession => self.output_bytes_per_session,
            QuotaName::DiskBytesPerSession => self.disk_bytes_per_session,
            QuotaName::ServiceLogBytes => self.service_log_bytes,
            QuotaName::KvBytesPerSession => self.kv_bytes_per_session,
            QuotaName::ProcessesPerAgent => self.processes_per_agent,
            QuotaName::MemoryBytesPerAgent => self.memory_bytes_per_agent,
            QuotaName::SessionsPerAgent => self.sessions_per_agent,
            QuotaName::FilesPerSession => self.files_per_session,
            QuotaName::OpenFiles => self.open_files,
            QuotaName::DiskBytesPerAgent => self.disk_bytes_per_agent,
            QuotaName::FilesPerAgent => self.files_per_agent,
        }
    }
}

/// The layer from the environment.
pub fn from_environment(env: Environment) -> Result<Layer, Failure> {
    Ok(Layer {
        listen: env("SHELLKEEP_LISTEN"),
        socket: env("SHELLKEEP_SOCKET").map(PathBuf::from),
        data: env("SHELLKEEP_DATA").map(PathBuf::from),
        store: env("SHELLKEEP_STORE"),
        node: env("SHELLKEEP_NODE"),
        advertise: env("SHELLKEEP_ADVERTISE"),
        when_alone: parsed(env, "SHELLKEEP_WHEN_ALONE")?,
        cluster_secret_file: env("SHELLKEEP_CLUSTER_SECRET_FILE").map(PathBuf::from),
        blobs: env("SHELLKEEP_BLOBS"),
        history: env("SHELLKEEP_HISTORY"),
        history_behind_bytes: parsed(env, "SHELLKEEP_HISTORY_BEHIND_BYTES")?,
        history_keep: parsed(env, "SHELLKEEP_HISTORY_KEEP")?,
        history_keep_agents: parsed(env, "SHELLKEEP_HISTORY_KEEP_AGENTS")?,
        history_keep_deleted: parsed(env, "SHELLKEEP_HISTORY_KEEP_DELETED")?,
        max_shells: parsed(env, "SHELLKEEP_MAX_SHELLS")?,
        spare_shells: parsed(env, "SHELLKEEP_SPARE_SHELLS")?,
        fork_shells: parsed(env, "SHELLKEEP_FORK_SHELLS")?,
        session_processes: parsed(env, "SHELLKEEP_SESSION_PROCESSES")?,
        processes: parsed(env, "SHELLKEEP_PROCESSES")?,
        services: parsed(env, "SHELLKEEP_SERVICES")?,
        services_per_agent: parsed(env, "SHELLKEEP_SERVICES_PER_AGENT")?,
        output_bytes_per_run: parsed(env, "SHELLKEEP_OUTPUT_BYTES_PER_RUN")?,
        output_bytes_per_session: parsed(env, "SHELLKEEP_OUTPUT_BYTES_PER_SESSION")?,
        disk_bytes_per_session: parsed(env, "SHELLKEEP_DISK_BYTES_PER_SESSION")?,
        service_log_bytes: parsed(env, "SHELLKEEP_SERVICE_LOG_BYTES")?,
        kv_bytes_per_session: parsed(env, "SHELLKEEP_KV_BYTES_PER_SESSION")?,
        processes_per_agent: parsed(env, "SHELLKEEP_PROCESSES_PER_AGENT")?,
        memory_bytes_per_agent: parsed(env, "SHELLKEEP_MEMORY_BYTES_PER_AGENT")?,
        sessions_per_agent: parsed(env, "SHELLKEEP_SESSIONS_PER_AGENT")?,
        files_per_session: parsed(env, "SHELLKEEP_FILES_PER_SESSION")?,
        open_files: parsed(env, "SHELLKEEP_OPEN_FILES")?,
        disk_bytes_per_agent: parsed(env, "SHELLKEEP_DISK_BYTES_PER_AGENT")?,
        files_per_agent: parsed(env, "SHELLKEEP_FILES_PER_AGENT")?,
        idle_services: parsed(env, "SHELLKEEP_IDLE_SERVICES")?,
        services_on_stop: parsed(env, "SHELLKEEP_SERVICES_ON_STOP")?,
        queue_length: parsed(env, "SHELLKEEP_QUEUE_LENGTH")?,
        queue_wait: parsed(env, "SHELLKEEP_QUEUE_WAIT")?,
        reclaim_after: parsed(env, "SHELLKEEP_RECLAIM_AFTER")?,
        reclaim_bytes: parsed(env, "SHELLKEEP_RECLAIM_BYTES")?,
        cages: parsed(env, "SHELLKEEP_CAGES")?,
        sandbox: parsed(env, "SHELLKEEP_SANDBOX")?,
        sandbox_agents: parsed(env, "SHELLKEEP_SANDBOX_AGENTS")?,
        sandbox_users: parsed(env, "SHELLKEEP_SANDBOX_USERS")?,
        sandbox_network: parsed(env, "SHELLKEEP_SANDBOX_NETWORK")?,
        sandbox_hosts: listed(env, "SHELLKEEP_SANDBOX_HOSTS")?,
        sandbox_read: paths(env, "SHELLKEEP_SANDBOX_READ"),
        sandbox_write: paths(env, "SHELLKEEP_SANDBOX_WRITE"),
        secrets: listed(env, "SHELLKEEP_SECRETS")?,
        env_pass: env("SHELLKEEP_ENV_PASS").map(|names| names.split(',').map(|name| name.trim().to_owned()).collect()),
        bash: env("SHELLKEEP_BASH").map(PathBuf::from),
        agent_may_restart: parsed(env, "SHELLKEEP_AGENT_MAY_RESTART")?,
        mcp_undo: parsed(env, "SHELLKEEP_MCP_UNDO")?,
        durability: parsed(env, "SHELLKEEP_DURABILITY")?,
        log: env("SHELLKEEP_LOG"),
        log_format: parsed(env, "SHELLKEEP_LOG_FORMAT")?,
        log_file: env("SHELLKEEP_LOG_FILE").map(PathBuf::from),
        log_file_bytes: parsed(env, "SHELLKEEP_LOG_FILE_BYTES")?,
        log_files: parsed(env, "SHELLKEEP_LOG_FILES")?,
        project_workspace: parsed(env, "SHELLKEEP_PROJECT_WORKSPACE")?,
        stop_grace: parsed(env, "SHELLKEEP_STOP_GRACE")?,
        record: record::from_environment(env)?,
        checkpoints: checkpoints::from_environment(env)?,
    }
    .absolute(None))
}

/// What is separated by commas.
fn listed<T: FromStr<Err = String>>(env: Environment, name: &str) -> Result<Option<Vec<T>>, Failure> {
    let read = |text: String| text.split(',').map(|part| part.parse()).collect::<Result<Vec<T>, String>>();
    env(name).map(read).transpose().map_err(|reason| Failure::start(format!("{name}: {reason}")))
}

/// Paths that are separated by commas.
fn paths(env: Environment, name: &str) -> Option<Vec<PathBuf>> {
    env(name).map(|text| text.split(',').map(|path| PathBuf::from(path.trim())).collect())
}

/// What a configuration file says.
#[derive(Default)]
pub struct FileLayer {
    /// The file, if there is one.
    pub path: Option<PathBuf>,
    pub layer: Layer,
}

/// The layer from the file: one named by the command line or the environment must exist, the default one need not.
pub fn from_file(named: Option<&Path>, env: Environment) -> Result<FileLayer, Failure> {
    let is_named = named.is_some() || env("SHELLKEEP_CONFIG").is_some();
    let Some(path) = path(named, env) else { return Ok(FileLayer::default()) };
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if !is_named && error.kind() == std::io::ErrorKind::NotFound => {
            return Ok(FileLayer::default());
        }
        Err(error) => return Err(Failure::start(format!("cannot read {}: {error}", path.display()))),
    };
    let layer: Layer = toml::from_str(&text).map_err(|error| {
        Failure::start(format!("invalid configuration in {}: {}", path.display(), one_line(&error, &text)))
    })?;
    let layer = layer.absolute(path.parent());
    Ok(FileLayer { path: Some(path), layer })
}

/// The configuration file: the one named by the command line or the environment, or the default one.
pub fn path(named: Option<&Path>, env: Environment) -> Option<PathBuf> {
    let named = named.map(Path::to_owned).or_else(|| env("SHELLKEEP_CONFIG").map(PathBuf::from));
    named.or_else(|| usual_file(env))
}

impl Layer {
    /// Makes paths absolute. Those in a file are relative to the file's directory.
    pub fn absolute(mut self, base: Option<&Path>) -> Self {
        let paths = [
            &mut self.socket,
            &mut self.data,
            &mut self.bash,
            &mut self.log_file,
            &mut self.cluster_secret_file,
            &mut self.record.secrets_file,
            &mut self.record.signing_key,
        ];
        let lists = [&mut self.sandbox_read, &mut self.sandbox_write].into_iter().flatten().flatten();
        let secrets = self.secrets.iter_mut().flatten().map(|source| &mut source.file);
        for path in paths.into_iter().flatten().chain(lists).chain(secrets) {
            let joined = base.map_or_else(|| path.clone(), |base| base.join(&*path));
            *path = std::path::absolute(&joined).unwrap_or(joined);
        }
        self
    }
}

fn usual_file(env: Environment) -> Option<PathBuf> {
    let base = env("XDG_CONFIG_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let base = base.or_else(|| env("HOME").map(|home| Path::new(&home).join(".config")))?;
    Some(base.join("shellkeep/config.toml"))
}

/// A TOML error on one line, with the number of the line it is about.
fn one_line(error: &toml::de::Error, text: &str) -> String {
    let message = error.message().replace('\n', " ");
    let Some(span) = error.span() else { return message };
    let message = unknown_setting(text, &text[span.clone()]).unwrap_or_else(|| in_words(&message));
    format!("line {}: {message}", text[..span.start].matches('\n').count() + 1)
}

/// What the parser says, without the names of Rust's types.
fn in_words(message: &str) -> String {
    let numbers = ["u16", "u32", "u64", "usize"];
    let message = numbers.iter().fold(message.to_owned(), |message, name| {
        message.replace(&format!("expected {name}"), "expected a whole number that is not negative")
    });
    message.replace("invalid type: ", "wrong type: ").replace("expected f64", "expected a number")
}

/// The most letters in which a wrong name differs from the one that was meant.
const MOST_WRONG: usize = 3;

/// What is wrong with a key that was not accepted, if that is its name.
fn unknown_setting(text: &str, key: &str) -> Option<String> {
    let (table, known): (toml::Table, _) = (text.parse().ok()?, flags());
    let given = table.iter().flat_map(|(name, value)| match value.as_table() {
        Some(part) => part.keys().map(|key| format!("{name}.{key}")).collect(),
        None => vec![name.clone()],
    });
    let mut unknown = given.filter(|name| !known.contains(name));
    let name = unknown.find(|name| name.split('.').any(|part| part == key))?;
    let rated = known.iter().map(|other| (strsim::osa_distance(&name, other), other));
    let meant = rated.filter(|(wrong, _)| *wrong <= MOST_WRONG).min();
    let meant = meant.map_or_else(String::new, |(_, other)| format!("did you mean `{other}`? "));
    Some(format!("unknown setting `{name}`; {meant}`shellkeep config --help` lists all settings"))
}

/// The settings that have a flag, by their names in a file; those of a part are in a table of its name.
fn flags() -> Vec<String> {
    let flags = Layer::augment_args(clap::Command::new("settings"));
    let name = |flag: &str| {
        let part = ["record", "checkpoints"].into_iter().find_map(|part| {
            let rest = flag.strip_prefix(part)?.strip_prefix('-')?;
            Some(format!("{part}.{rest}"))
        });
        part.unwrap_or_else(|| flag.to_owned()).replace('-', "_")
    };
    flags.get_arguments().filter_map(|argument| argument.get_long().map(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_of_the_wrong_type_is_told_in_words() {
        for (text, told) in [
            ("max_shells = \"x\"", "line 1: wrong type: string \"x\", expected a whole number that is not negative"),
            ("\nmax_shells = -1", "line 2: invalid value: integer `-1`, expected a whole number that is not negative"),
        ] {
            assert_eq!(one_line(&toml::from_str::<Layer>(text).unwrap_err(), text), told);
        }
    }

    #[test]
    fn a_mistyped_setting_gets_a_suggestion() {
        let all = "`shellkeep config --help` lists all settings";
        for (text, wrong, meant) in [
            ("max_shels = 5", "line 1: unknown setting `max_shels`", Some("max_shells")),
            (
                "\n[record]\nsegmnt_bytes = 5",
                "line 3: unknown setting `record.segmnt_bytes`",
                Some("record.segment_bytes"),
            ),
            ("[recrd]\nrules = \"x\"", "line 1: unknown setting `recrd.rules`", Some("record.rules")),
            ("node = \"a\"\nfoo_bar_baz = 1", "line 2: unknown setting `foo_bar_baz`", None),
        ] {
            let error = toml::from_str::<Layer>(text).unwrap_err();
            let meant = meant.map_or_else(String::new, |meant| format!("did you mean `{meant}`? "));
            assert_eq!(one_line(&error, text), format!("{wrong}; {meant}{all}"));
        }
    }
}
