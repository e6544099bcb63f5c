//! Notices about the working directory of a session.

use super::notice;
use shellkeep_session::{Notice, NoticeCode};

/// A command ran in the directory of its request, because the session's own is gone.
pub fn cwd_missing(cwd: &str, why: &str) -> Notice {
    notice(
        NoticeCode::CwdMissing,
        format!(
            "The session's working directory {cwd} cannot be entered ({why}). This command ran in the directory given with \
             it. Commands without one are refused until {cwd} exists again, or until a command with a directory moves \
             the session with `cd`."
        ),
    )
}

/// A command moved to a directory with a secret in its path, in a form that cannot be filled in again.
pub fn not_moved(cwd: &str) -> Notice {
    notice(
        NoticeCode::NotKept,
        format!(
            "The directory that the command moved to has a masked secret in its path, which cannot be kept. The next \
             command starts in {cwd} again."
        ),
    )
}
