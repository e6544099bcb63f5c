//! The sentences about a state of the agent that cannot be read.

use super::notice;
use shellkeep_session::{Notice, NoticeCode};

/// The agent's state of that moment is gone.
pub fn agent_state_gone(version: u64) -> Notice {
    notice(
        NoticeCode::Rewound,
        format!(
            "Version {version} of the agent's state is missing: its file was removed to free space, is damaged, or stayed on \
             the node that the session was on. The current state stays; save another one if it does not fit."
        ),
    )
}

/// A fork has no state of the agent, because it could not be read.
pub fn agent_state_not_copied(version: u64) -> Notice {
    notice(
        NoticeCode::CheckpointIncomplete,
        format!(
            "Version {version} of the agent's state was not copied: its file was removed to free space, is damaged, or stayed \
             on the node that the session was on. This session has no state of the agent; save one if you need it."
        ),
    )
}
