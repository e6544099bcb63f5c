//! What a session was made with, in a file of its own: `config_snapshot.json`.

use crate::beside;
use crate::mask::Masker;
use crate::private::open_empty;
use serde::Serialize;
use serde_json::Value;
use shellkeep_session::{FORMAT_VERSION, FileSum, SessionId, SessionMeta, ShellState, Timestamp};
use std::io::{self, Write as _};
use std::path::Path;

/// The file's name.
pub const NAME: &str = "config_snapshot.json";

#[derive(Serialize)]
struct Snapshot<'a> {
    format: u32,
    session_id: &'a SessionId,
    agent: Option<&'a str>,
    agent_config: &'a Value,
    created_at: Timestamp,
    workspace: &'a shellkeep_session::ByteString,
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<&'a str>,
    shell: &'a ShellState,
}

/// Writes the file, and returns its length and hash. The session's first line is written after it, so a reader that finds
/// that line finds the file whole.
pub(super) fn write(
    directory: &Path,
    meta: &SessionMeta,
    shell: &ShellState,
    masker: Option<&Masker>,
) -> io::Result<FileSum> {
    let snapshot = Snapshot {
        format: FORMAT_VERSION,
        session_id: &meta.session_id,
        agent: meta.agent.as_deref(),
        agent_config: &meta.agent_config,
        created_at: meta.created_at,
        workspace: &meta.workspace,
        by: meta.by.as_deref(),
        shell,
    };
    let mut bytes = match masker {
        Some(masker) => {
            let mut value = serde_json::to_value(&snapshot)?;
            masker.mask_value(&mut value);
            serde_json::to_vec_pretty(&value)?
        }
        None => serde_json::to_vec_pretty(&snapshot)?,
    };
    bytes.push(b'\n');
    let path = directory.join(NAME);
    let mut file = open_empty(&path)?;
    file.write_all(&bytes)?;
    Ok(beside::sum(&bytes))
}
