//! How an engine is set up.

use crate::adaptive::{RealSenses, Senses};
use crate::admission::AdmissionConfig;
use crate::disk::Reclaim;
use crate::masking::RecordConfig;
use crate::ops::CheckpointConfig;
use shellkeep_process::CageMode;
use shellkeep_session::Quotas;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// How long the recording of a removed session is kept unless told otherwise: long enough that somebody notices, short
/// enough that disks do not fill with it.
pub const KEEP_DELETED: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// How an engine is set up. [`EngineConfig::new`] has the defaults.
#[derive(Debug, Clone)]
pub struct EngineConfig {
    /// Where workspaces, outputs and logs are kept.
    pub data_dir: PathBuf,
    /// The bash to use.
    pub bash: PathBuf,
    /// Shells started ahead.
    pub spare_shells: usize,
    /// What may be used.
    pub quotas: Quotas,
    /// Whether a new token may restart its sessions when its maker does not say.
    pub agent_may_restart: bool,
    /// Whether a model is offered tools to list checkpoints, to compare them and to go back to them.
    pub mcp_undo: bool,
    /// How many commands run and wait.
    pub admission: AdmissionConfig,
    /// Variables of the daemon that new sessions get beside the usual ones: names, or beginnings such as `AWS_*`.
    pub env_pass: Vec<String>,
    /// How processes are held.
    pub cages: CageMode,
    /// After how long without any activity a service is stopped; never if none.
    pub idle_services: Option<Duration>,
    /// What becomes of services when the daemon stops.
    pub services_on_stop: OnStop,
    /// When the files of ended sessions are given back.
    pub reclaim: Reclaim,
    /// How files are kept.
    pub checkpoints: CheckpointConfig,
    /// How long the recording of a session is kept that its agent removed. Zero removes it with the session.
    pub keep_deleted: Duration,
    /// What is masked, and when.
    pub record: RecordConfig,
    /// The clock and the machine's pressure.
    pub senses: Arc<dyn Senses>,
}

/// What becomes of services when the daemon stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnStop {
    /// They run on, and the next daemon takes them over.
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
            quotas: Quotas::default(),
            agent_may_restart: false,
            mcp_undo: true,
            admission: AdmissionConfig::default(),
            env_pass: Vec::new(),
            cages: CageMode::Auto,
            idle_services: Some(Duration::from_secs(2 * 60 * 60)),
            services_on_stop: OnStop::Keep,
            reclaim: Reclaim::default(),
            checkpoints: CheckpointConfig::default(),
            keep_deleted: KEEP_DELETED,
            record: RecordConfig::default(),
            senses: Arc::new(RealSenses),
        }
    }
}
