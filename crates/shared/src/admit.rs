//! Whether a node may take part: the tier takes its settings, and nobody else has its name.

use crate::LEASE;
use crate::tier::{Down, NodeEntry, Tier};
use std::time::{Duration, Instant};

/// How often to look at the entry of a node that may be gone.
const PAUSE: Duration = Duration::from_millis(100);

/// Why a node does not start.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotAdmitted {
    /// Another node has its name.
    #[error("{}", told(.0))]
    NameTaken(Box<NodeEntry>),
    /// The tier refuses it.
    #[error("the shared store refuses this node ({reason}); check user, password and database in its URL")]
    Refused {
        /// What it said.
        reason: String,
    },
}

/// What is wrong if another node has this one's name.
fn told(other: &NodeEntry) -> String {
    let NodeEntry { name, url, since, .. } = other;
    let at = if url.is_empty() { String::new() } else { format!(" at {url}") };
    format!(
        "another node is named '{name}'{at}, with another data directory, since {since}; give each node a name of its own \
         (--node or SHELLKEEP_NODE; it is the host name by default)"
    )
}

/// Asks whether a node may start. One of its name that was killed, and came back with another data directory, is waited for
/// until its lease has ended. A tier that does not answer prevents nothing: the name is looked at when it does.
pub fn admit(tier: &mut dyn Tier, node: &NodeEntry) -> Result<(), NotAdmitted> {
    let until = Instant::now() + LEASE + PAUSE * 5;
    loop {
        match tier.node(&node.name) {
            Ok(Some(other)) if other.is_namesake(node) => {
                if Instant::now() >= until {
                    return Err(NotAdmitted::NameTaken(Box::new(other)));
                }
            }
            Err(Down { reason, is_refused: true, .. }) => return Err(NotAdmitted::Refused { reason }),
            Ok(_) | Err(_) => return Ok(()),
        }
        std::thread::sleep(PAUSE);
    }
}

/// Fails if another node that started earlier has this one's name: both started at once, or the tier was away.
pub(crate) fn check_name(tier: &mut dyn Tier, node: &NodeEntry) -> Result<(), Down> {
    match tier.node(&node.name)? {
        Some(other) if other.is_namesake(node) && other.comes_before(node) => Err(Down::new(told(&other))),
        _ => Ok(()),
    }
}
