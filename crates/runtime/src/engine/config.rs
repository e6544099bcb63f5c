//! How an engine is set up.

use crate::adaptive::{RealSenses, Senses};
use crate::admission::AdmissionConfig;
use crate::cluster::ClusterConfig;
use crate::disk::Reclaim;
use crate::masking::RecordConfig;
use crate::ops::CheckpointConfig;
use crate::past_sessions::PastSessions;
use crate::sandboxes::SandboxConfig;
use shellkeep_process::{CageMode, Forking};
use shellkeep_session::{Quotas, SecretSource};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// How long the recording of a deleted session is kept by default: long enough that someone notices, short enough that
/// disks do not fill up.
pub const KEEP_DELETED: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// How an engine is set up. [`EngineConfig::new`] has the defaults.
#[derive(Debug, Clone)]
pub struct EngineConfig {
    /// Where workspaces, outputs and logs are kept.
    pub data_dir: PathBuf,
    /// The bash to use.
    pub bash: PathBuf,
    /// Shells started in advance.
    pub spare_shells: usize,
    /// Whether shells are forked from a bash that is already loaded.
    pub forking: Forking,
    pub quotas: Quotas,
    /// Whether a new token may restart its sessions by default.
    pub agent_may_restart: bool,
    /// Whether a model is offered tools to list checkpoints, to compare them and to rewind.
    pub mcp_undo: bool,
    /// How many commands run and wait.
    pub admission: AdmissionConfig,
    /// Variables of the daemon that new sessions get in addition to the usual ones: names, or prefixes such as `AWS_*`.
    pub env_pass: Vec<String>,
    /// How processes are tracked.
    pub cages: CageMode,
    /// After how long without any activity a service is stopped; never if none.
    pub idle_services: Option<Duration>,
    /// How sessions are confined.
    pub sandbox: SandboxConfig,
    /// The secrets that sessions can be given.
    pub secrets: Vec<SecretSource>,
    /// What happens to services when the daemon stops.
    pub services_on_stop: OnStop,
    /// When the files of ended sessions are reclaimed.
    pub reclaim: Reclaim,
    /// The settings of checkpoints.
    pub checkpoints: CheckpointConfig,
    /// How long to keep the recording of a session that its agent deleted. Zero deletes it with the session.
    pub keep_deleted: Duration,
    /// What is masked, and when.
    pub record: RecordConfig,
    /// The other nodes, if there are some.
    pub cluster: Option<ClusterConfig>,
    /// Where sessions are read back from that this node does not have, if there is history.
    pub past: Option<Arc<dyn PastSessions>>,
    /// The clock and the machine's pressure.
    pub senses: Arc<dyn Senses>,
}

/// What happens to services when the daemon stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnStop {
    /// They keep running, and the next daemon takes them over.
    Keep,
    /// They are stopped.
    Stop,
}

impl EngineConfig {
    /// Everything at its default.
    pub fn new(data_dir: PathBuf, bash: PathBuf) -> Self {
        Self {
            data_dir,
            bash,
            spare_shells: 2,
            forking: Forking::Auto,
            quotas: Quotas::default(),
            agent_may_restart: false,
            mcp_undo: true,
            admission: AdmissionConfig::default(),
            env_pass: Vec::new(),
            cages: CageMode::Auto,
            sandbox: SandboxConfig::default(),
            secrets: Vec::new(),
            idle_services: Some(Duration::from_secs(2 * 60 * 60)),
            services_on_stop: OnStop::Keep,
            reclaim: Reclaim::default(),
            checkpoints: CheckpointConfig::default(),
            keep_deleted: KEEP_DELETED,
            record: RecordConfig::default(),
            cluster: None,
            past: None,
            senses: Arc::new(RealSenses),
        }
    }
}
