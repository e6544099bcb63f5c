//! What a node is told about its cluster.

use shellkeep_shared::WhenAlone;
use std::path::PathBuf;

/// How this node takes part in a cluster.
#[derive(Debug, Clone)]
pub struct ClusterConfig {
    /// URL of the shared store.
    pub url: String,
    /// This node's name.
    pub node: String,
    /// The URL at which other nodes reach it; empty if there is none.
    pub advertise: String,
    /// A directory that all nodes can read, for checkpoints.
    pub blobs: Option<PathBuf>,
    /// What it does while the shared store is unreachable.
    pub when_alone: WhenAlone,
}
