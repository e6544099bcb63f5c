//! The sentences that a caller reads when a session moved, or when only one node has what it did.

use shellkeep_session::{Notice, NoticeCode};

/// The shared store is away.
pub(super) fn kept_here_only(reason: &str) -> Notice {
    let message = format!(
        "The shared store is away ({reason}). This result is kept on this node only, and is shared when the store is \
         back; until then the loss of this node would lose it."
    );
    Notice { code: NoticeCode::KeptHereOnly, message }
}

/// The session came from another node.
pub(super) fn arrived(from: &str, here: &str) -> Notice {
    let message = format!(
        "This session moved from node {from} to node {here}. Working directory, variables, functions, \
         aliases, options and traps came along; files of its workspace, background jobs and open descriptors did not. \
         Check the files that you need before you go on."
    );
    Notice { code: NoticeCode::SessionMoved, message }
}
