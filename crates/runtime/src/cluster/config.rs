//! What a node is told about its cluster.

use shellkeep_session::Timestamp;
use shellkeep_shared::{NodeEntry, WhenAlone};
use shellkeep_workspace::blobs::Objects;
use std::path::PathBuf;
use std::sync::Arc;

/// Where all nodes can read checkpoints.
#[derive(Debug, Clone)]
pub enum BlobPlace {
    /// In a directory on a file system that all of them mount.
    Directory(PathBuf),
    /// In a store of objects.
    Objects(Arc<dyn Objects>),
}

/// How this node takes part in a cluster.
#[derive(Debug, Clone)]
pub struct ClusterConfig {
    /// URL of the shared store.
    pub url: String,
    /// This node's name.
    pub node: String,
    /// The URL at which other nodes reach it; empty if there is none.
    pub advertise: String,
    /// Where all nodes can read checkpoints, if there is such a place.
    pub blobs: Option<BlobPlace>,
    /// What it does while the shared store is unreachable.
    pub when_alone: WhenAlone,
}

impl ClusterConfig {
    /// What this node tells others of itself when it starts.
    pub(super) fn entry(&self, data_id: &str) -> NodeEntry {
        NodeEntry {
            name: self.node.clone(),
            url: self.advertise.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            since: Timestamp::now().to_string(),
            data_id: Some(data_id.to_owned()),
            ..NodeEntry::default()
        }
    }
}
