//! How far the processes of a session are confined.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// How far the processes of a session are confined; a later one is tighter. The names are those of the settings and of the
/// wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sandbox {
    /// Not at all: they may do what the daemon's user may.
    #[default]
    None,
    /// They are another user's, one for each agent, and may do what the permissions of files allow that user. Needs a
    /// daemon that runs as root.
    User,
    /// They read the system, write to their own directories, and reach no other process.
    Fence,
    /// Like a fence, and they see only their own processes, a root directory of their own, and a network of their own
    /// unless the host shares the machine's.
    Room,
}

impl Sandbox {
    /// All of them, from the loosest to the tightest.
    pub const ALL: [Self; 4] = [Self::None, Self::User, Self::Fence, Self::Room];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::User => "user",
            Self::Fence => "fence",
            Self::Room => "room",
        }
    }

    /// Whether nothing is confined.
    pub fn is_none(&self) -> bool {
        *self == Self::None
    }
}

impl fmt::Display for Sandbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Sandbox {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let named = Self::ALL.into_iter().find(|sandbox| sandbox.as_str() == text);
        named.ok_or_else(|| format!("'{text}' is not a sandbox; use none, user, fence or room"))
    }
}

/// Which network the rooms of a node have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Network {
    /// Each session has a loopback device of its own, and no other.
    #[default]
    None,
    /// That of the machine.
    Full,
}

impl Network {
    pub const ALL: [Self; 2] = [Self::None, Self::Full];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Full => "full",
        }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let named = Self::ALL.into_iter().find(|network| network.as_str() == text);
        named.ok_or_else(|| format!("'{text}' is not a network of rooms; use none or full"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back_and_the_order_is_from_loose_to_tight() {
        for sandbox in Sandbox::ALL {
            assert_eq!(sandbox.as_str().parse(), Ok(sandbox));
            assert_eq!(serde_json::to_value(sandbox).unwrap(), sandbox.as_str());
        }
        assert!(Sandbox::ALL.is_sorted() && Sandbox::default().is_none());
        assert!("cell".parse::<Sandbox>().unwrap_err().contains("none, user, fence or room"));
    }

    #[test]
    fn networks_are_read_back() {
        for network in Network::ALL {
            assert_eq!(network.as_str().parse(), Ok(network));
        }
        assert!("some".parse::<Network>().unwrap_err().contains("none or full"));
    }
}
