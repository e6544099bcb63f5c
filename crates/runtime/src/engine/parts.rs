//! What an engine consists of. All its clones share it.

use super::audit::Audit;
use super::config::EngineConfig;
use crate::adaptive::Adaptive;
use crate::context::SessionContext;
use crate::disk::NOTHING;
use crate::housekeeping::Housekeeping;
use crate::identities::Identities;
use crate::node_limits::NodeLimits;
use crate::ops::OpError;
use crate::past_sessions::ReadBack;
use crate::recordings::Recordings;
use crate::resume::Agents;
use crate::session_files::SessionFiles;
use crate::shares::Shares;
use crate::stored::Stored;
use crate::work::Work;
use shellkeep_process::CageFactory;
use shellkeep_session::SessionId;
use std::sync::Arc;

/// What an engine consists of. All its clones share it.
pub(crate) struct Parts {
    pub(super) config: EngineConfig,
    /// What sessions work with.
    pub(super) ctx: Arc<SessionContext>,
    pub(super) stored: Stored,
    pub(super) recordings: Arc<Recordings>,
    /// Sessions that only history has, if there is history.
    pub(super) read_back: Option<ReadBack>,
    pub(super) files: Arc<SessionFiles>,
    pub(super) housekeeping: Arc<Housekeeping>,
    pub(super) factory: Arc<CageFactory>,
    pub(super) adaptive: Arc<Adaptive>,
    pub(super) limits: NodeLimits,
    pub(super) agents: Arc<Agents>,
    /// Shares of limited resources.
    pub(super) shares: Arc<Shares>,
    /// Who may keep a processor busy.
    pub(super) work: Arc<Work>,
    /// The variables that new sessions get of the daemon's own.
    pub(super) environment: Vec<(Vec<u8>, Vec<u8>)>,
    pub(super) identities: Identities,
    pub(super) audit: Audit,
}

impl Parts {
    /// Refuses what writes into a session that is over a quota of disk or files, or whose agent is.
    pub(super) fn check_disk(&self, id: &SessionId) -> Result<(), OpError> {
        let agent = self.ctx.names.agent_of(id);
        self.ctx.disk.check(id, agent.as_deref(), NOTHING)
    }
}
