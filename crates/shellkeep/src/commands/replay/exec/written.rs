//! Files that were written or removed through the API, done again.

use crate::client::{Client, escaped, gathered};
use shellkeep_protocol::{FileRemoved, FileWritten};
use shellkeep_record::Line;
use shellkeep_session::SessionId;

/// Where the content of a written file is.
pub struct Saved<'a> {
    /// The recorded session.
    pub session: &'a SessionId,
    /// The number of its checkpoint.
    pub checkpoint: u64,
}

/// Repeats a change of a file in a session. False if its content cannot be had: the recording is a file, the checkpoint is
/// gone, or the file had changed before it was saved.
pub async fn repeat(client: &mut Client, session: &str, line: &Line, saved: Option<Saved<'_>>) -> bool {
    let parameters = &line.data["parameters"];
    let Some(path) = parameters["path"].as_str() else { return false };
    let path = format!("path={}", escaped(path));
    let target = format!("/v1/sessions/{session}/files/content?{path}");
    if line.data["tool_name"] == "remove_file" {
        let recursive = parameters["recursive"].as_bool().unwrap_or(false);
        return client.delete::<FileRemoved>(&format!("{target}&recursive={recursive}")).await.is_ok();
    }
    let Some(Saved { session: recorded, checkpoint }) = saved else { return false };
    let content = client.get_body(&format!("/v1/sessions/{recorded}/checkpoints/{checkpoint}/file?{path}")).await;
    let Ok(content) = content else { return false };
    let Ok(content) = gathered(content).await else { return false };
    let mode = parameters["mode"].as_str().map(|mode| format!("&mode={}", escaped(mode))).unwrap_or_default();
    let written = client.put_bytes::<FileWritten>(&format!("{target}{mode}"), content.to_vec()).await;
    written.is_ok_and(|written| parameters["sha256"] == written.sha256)
}
