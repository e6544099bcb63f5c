//! One layer of settings: what a file, the environment or the command line says. Every field may be left out.

use super::Environment;
use crate::failure::Failure;
use clap::{Args, ValueEnum, ValueHint};
use serde::Deserialize;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// What one layer says. The fields have the same names in the file, and with `SHELLKEEP_` in the environment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Args)]
#[serde(deny_unknown_fields, default)]
pub struct Layer {
    /// Listen on this TCP address; `none` for no TCP [default: 127.0.0.1:7433]
    #[arg(long, value_name = "HOST:PORT")]
    pub listen: Option<String>,
    /// Listen on this Unix socket [default: DATA/shellkeep.sock]
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub socket: Option<PathBuf>,
    /// Keep everything in this directory [default: $XDG_DATA_HOME/shellkeep or ~/.local/share/shellkeep]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub data: Option<PathBuf>,
    /// Keep facts here: sqlite://PATH, file://DIR or memory:// [default: sqlite://DATA/shellkeep.db]
    #[arg(long, value_name = "URL")]
    pub store: Option<String>,
    /// Most live shells; idle ones are put to sleep beyond it [default: 200]
    #[arg(long, value_name = "N")]
    pub max_shells: Option<usize>,
    /// Shells started ahead [default: 2]
    #[arg(long, value_name = "N")]
    pub spare_shells: Option<usize>,
    /// Most processes of one session [default: 256]
    #[arg(long, value_name = "N")]
    pub session_processes: Option<u64>,
    /// Bytes of each stream of a run that can be read back [default: 134217728]
    #[arg(long, value_name = "BYTES")]
    pub output_bytes_per_run: Option<u64>,
    /// The bash to use [default: the first in PATH]
    #[arg(long, value_name = "PATH", value_hint = ValueHint::ExecutablePath)]
    pub bash: Option<PathBuf>,
    /// Whether an agent may restart its sessions when its token's maker does not say [default: false]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub agent_may_restart: Option<bool>,
    /// What an answered command survives [default: process]
    #[arg(long, value_name = "WHAT")]
    pub durability: Option<Durability>,
    /// What is logged to stderr, as in `warn` or `warn,shellkeep=debug` [default: warn,rmcp=error,shellkeep=info]
    #[arg(long, value_name = "FILTER")]
    pub log: Option<String>,
}

/// What an answered command survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Durability {
    /// The death of the daemon.
    Process,
    /// The loss of power.
    Power,
}

impl FromStr for Durability {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "process" => Ok(Self::Process),
            "power" => Ok(Self::Power),
            _ => Err("it is `process` or `power`"),
        }
    }
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Process => "process",
            Self::Power => "power",
        })
    }
}

/// What the environment says.
pub fn from_environment(env: Environment) -> Result<Layer, Failure> {
    Ok(Layer {
        listen: env("SHELLKEEP_LISTEN"),
        socket: env("SHELLKEEP_SOCKET").map(PathBuf::from),
        data: env("SHELLKEEP_DATA").map(PathBuf::from),
        store: env("SHELLKEEP_STORE"),
        max_shells: parsed(env, "SHELLKEEP_MAX_SHELLS")?,
        spare_shells: parsed(env, "SHELLKEEP_SPARE_SHELLS")?,
        session_processes: parsed(env, "SHELLKEEP_SESSION_PROCESSES")?,
        output_bytes_per_run: parsed(env, "SHELLKEEP_OUTPUT_BYTES_PER_RUN")?,
        bash: env("SHELLKEEP_BASH").map(PathBuf::from),
        agent_may_restart: parsed(env, "SHELLKEEP_AGENT_MAY_RESTART")?,
        durability: parsed(env, "SHELLKEEP_DURABILITY")?,
        log: env("SHELLKEEP_LOG"),
    }
    .absolute(None))
}

/// What the file says: the one named by the command line or the environment, which must exist, or the usual one, which
/// need not.
pub fn from_file(named: Option<&Path>, env: Environment) -> Result<(Option<PathBuf>, Layer), Failure> {
    let named = named.map(Path::to_owned).or_else(|| env("SHELLKEEP_CONFIG").map(PathBuf::from));
    let Some(path) = named.clone().or_else(|| usual_file(env)) else { return Ok((None, Layer::default())) };
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if named.is_none() && error.kind() == std::io::ErrorKind::NotFound => {
            return Ok((None, Layer::default()));
        }
        Err(error) => return Err(Failure::start(format!("cannot read {}: {error}", path.display()))),
    };
    let layer: Layer = toml::from_str(&text)
        .map_err(|error| Failure::start(format!("{} is wrong: {}", path.display(), one_line(&error, &text))))?;
    let layer = layer.absolute(path.parent());
    Ok((Some(path), layer))
}

impl Layer {
    /// Makes paths independent of where the daemon runs. A file's own are meant from the file's directory.
    pub fn absolute(mut self, base: Option<&Path>) -> Self {
        for path in [&mut self.socket, &mut self.data, &mut self.bash].into_iter().flatten() {
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

fn parsed<T>(env: Environment, name: &str) -> Result<Option<T>, Failure>
where
    T: FromStr,
    T::Err: fmt::Display,
{
    let Some(text) = env(name) else { return Ok(None) };
    text.parse().map(Some).map_err(|error| Failure::start(format!("{name}={text} is wrong: {error}")))
}

/// A TOML error on one line, with the number of the line it is about.
fn one_line(error: &toml::de::Error, text: &str) -> String {
    let message = error.message().replace('\n', " ");
    match error.span() {
        Some(span) => format!("line {}: {message}", text[..span.start].lines().count().max(1)),
        None => message,
    }
}
