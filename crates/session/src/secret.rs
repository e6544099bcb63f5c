//! Secrets that a node gives to sessions by name. Their values are nowhere in this crate: what is a fact can be written
//! down, and a value must not be.

use serde::Deserialize;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// The longest name of a secret.
const MOST_NAME_BYTES: usize = 128;

/// A secret and the file with its value: `NAME=FILE` for sessions that are created with it, `AGENT/NAME=FILE` for all
/// sessions of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct SecretSource {
    /// The variable that commands find it in.
    pub name: String,
    /// The agent whose sessions have it, if only those do.
    pub agent: Option<String>,
    /// Where its value is read before each command.
    pub file: PathBuf,
}

impl SecretSource {
    /// Whether sessions of this agent, or of none, can have it.
    pub fn is_for(&self, agent: Option<&str>) -> bool {
        self.agent.is_none() || self.agent.as_deref() == agent
    }
}

/// What is wrong with the name of a secret, if something is.
pub fn wrong_name(name: &str) -> Option<String> {
    let is_letter = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let is_variable =
        !name.is_empty() && name.chars().all(is_letter) && !name.starts_with(|c: char| c.is_ascii_digit());
    let is_ours = name.starts_with("SHELLKEEP_");
    let is_right = is_variable && !is_ours && name.len() <= MOST_NAME_BYTES;
    (!is_right).then(|| format!("'{name}' cannot be the name of a secret; use a variable's name, as in GITHUB_TOKEN"))
}

impl fmt::Display for SecretSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, agent, file } = self;
        match agent {
            Some(agent) => write!(f, "{agent}/{name}={}", file.display()),
            None => write!(f, "{name}={}", file.display()),
        }
    }
}

impl FromStr for SecretSource {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // The text is not repeated: whoever wrote the value instead of a file would find it in a log.
        let wrong = || "a secret is written NAME=FILE, or AGENT/NAME=FILE, with the file that has its value".to_owned();
        let (name, file) = text.trim().split_once('=').ok_or_else(wrong)?;
        let (agent, name) = name.split_once('/').map_or((None, name), |(agent, name)| (Some(agent), name));
        if file.is_empty() || agent == Some("") {
            return Err(wrong());
        }
        wrong_name(name).map_or(Ok(()), Err)?;
        Ok(Self { name: name.to_owned(), agent: agent.map(str::to_owned), file: PathBuf::from(file) })
    }
}

impl TryFrom<String> for SecretSource {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_read_back() {
        for text in ["TOKEN=/run/secrets/token", "reviewer/GITHUB_TOKEN=/x=y"] {
            assert_eq!(text.parse::<SecretSource>().unwrap().to_string(), text);
        }
        let of_agent: SecretSource = "a/TOKEN=/x".parse().unwrap();
        assert!(of_agent.is_for(Some("a")) && !of_agent.is_for(Some("b")) && !of_agent.is_for(None));
        assert!("TOKEN=/x".parse::<SecretSource>().unwrap().is_for(None));
    }

    #[test]
    fn what_is_wrong_does_not_repeat_a_value() {
        for text in ["hunter2-4711", "TOKEN=", "/TOKEN=/x", "=/x"] {
            let error = text.parse::<SecretSource>().unwrap_err();
            assert!(!error.contains("hunter2"), "{error}");
        }
        for name in ["", "1A", "A-B", "SHELLKEEP_TOKEN", &"A".repeat(129)] {
            assert!(wrong_name(name).is_some(), "{name}");
        }
    }
}
