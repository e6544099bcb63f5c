//! A value that is in force, where it came from, and how it is read and shown.

use crate::failure::Failure;
use shellkeep_protocol::why_unreadable;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// Variables that may hold secrets. They are read before the daemon starts, then removed.
pub const SECRET_VARIABLES: [&str; 6] = [
    "SHELLKEEP_TOKEN",
    "SHELLKEEP_RECORD_SECRETS",
    "SHELLKEEP_STORE",
    "SHELLKEEP_CLUSTER_SECRET",
    "SHELLKEEP_HISTORY",
    "SHELLKEEP_HISTORY_INTO",
];

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SetBy {
    /// The command line.
    Flag,
    /// A variable.
    Environment(String),
    File(PathBuf),
    Default,
}

impl fmt::Display for SetBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag => f.write_str("flag"),
            Self::Environment(name) => write!(f, "env {name}"),
            Self::File(path) => write!(f, "file {}", path.display()),
            Self::Default => f.write_str("default"),
        }
    }
}

/// A value and its source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting<T> {
    /// The value in force.
    pub value: T,
    /// Where it was set.
    pub source: SetBy,
}

impl<T: Copy> Setting<T> {
    /// The value, if it is not the default.
    pub fn set(&self) -> Option<T> {
        (self.source != SetBy::Default).then_some(self.value)
    }
}

/// A setting as it is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShownSetting {
    /// Its name, as in the file.
    pub name: &'static str,
    /// The value in force.
    pub value: String,
    /// Where it came from.
    pub source: String,
}

pub(super) fn show<T>(name: &'static str, setting: &Setting<T>, value: impl Fn(&T) -> String) -> ShownSetting {
    ShownSetting { name, value: value(&setting.value), source: setting.source.to_string() }
}

/// A variable's value by its name; tests bring their own.
pub type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The process's own environment.
pub fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

pub(super) fn parsed<T>(env: Environment, name: &str) -> Result<Option<T>, Failure>
where
    T: FromStr,
    T::Err: fmt::Display + 'static,
{
    let Some(text) = env(name) else { return Ok(None) };
    let wrong = |error| Failure::start(format!("{name}={text} is wrong: {}", why_unreadable(&error)));
    text.parse().map(Some).map_err(wrong)
}
