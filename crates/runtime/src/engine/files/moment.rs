//! From what a caller calls a moment to what the session was then.

use crate::engine::Inner;
use crate::ops::{CheckpointView, MAX_EVENT_PAGE, Moment, OpError};
use crate::owner::Message;
use shellkeep_record::past::{Past, PastError};
use shellkeep_record::{Filter, Line, Recording};
use shellkeep_session::{Checkpoint, FilesAt, SessionId};
use std::sync::Arc;
use std::time::Duration;

/// The fewest digits of a commit that name it.
const LEAST_DIGITS: usize = 4;
/// The name of the newest checkpoint.
const LATEST: &str = "latest";
/// How long somebody who looks waits for the last command's checkpoint.
const PATIENCE: Duration = Duration::from_secs(10);

impl Inner {
    /// A session's checkpoints after a record, oldest first, as its recording tells of them.
    pub(super) async fn checkpoints_after(
        &self,
        id: &SessionId,
        after: u64,
        most: usize,
    ) -> Result<Vec<CheckpointView>, OpError> {
        let filter = Filter { types: vec!["checkpoint_created".to_owned()], ..Filter::default() };
        let read = move |recording: &Recording| {
            let (mut found, mut after) = (Vec::new(), after);
            loop {
                let page = recording.page(after, MAX_EVENT_PAGE, &filter)?;
                found.extend(page.lines.iter().filter_map(view));
                match page.next {
                    Some(next) if found.len() < most => after = next,
                    _ => break,
                }
            }
            found.truncate(most);
            Ok(found)
        };
        self.read_recording(id, read).await
    }

    /// Waits a moment for what is being kept of the last command's files, so that who asks after an answer finds it. Not
    /// for the owner itself.
    pub(super) async fn files_kept(&self, id: &SessionId) {
        let _ = tokio::time::timeout(PATIENCE, self.ask_owner(id, Message::FilesKept)).await;
    }

    /// What a session was at some time.
    pub(crate) async fn past(&self, id: &SessionId, moment: &Moment) -> Result<Past, OpError> {
        let (seq, files) = match moment {
            Moment::Seq(seq) => (*seq, None),
            Moment::Checkpoint(name) => {
                let found = self.checkpoint_named(id, name).await?;
                (found.checkpoint.covers, Some(found.checkpoint.at))
            }
        };
        let mut past = self.past_at(id, seq).await?;
        past.files = files.or(past.files);
        Ok(past)
    }

    async fn past_at(&self, id: &SessionId, seq: u64) -> Result<Past, OpError> {
        let found = self.read_recording(id, move |recording| Ok(recording.past(seq))).await?;
        found.map_err(|error| match error {
            PastError::Read(error) => {
                OpError::RecordingUnreadable { session_id: id.to_string(), reason: error.to_string() }
            }
            other => OpError::NoSuchMoment { detail: format!("session '{id}' cannot be taken to #{seq}: {other}") },
        })
    }

    /// The checkpoint of the files at some time; none before the first.
    pub(super) async fn files_at(
        self: &Arc<Self>,
        id: &SessionId,
        moment: &Moment,
    ) -> Result<Option<FilesAt>, OpError> {
        match moment {
            Moment::Seq(seq) => Ok(self.past_at(id, *seq).await?.files),
            Moment::Checkpoint(name) => Ok(Some(self.checkpoint_named(id, name).await?.checkpoint.at)),
        }
    }

    /// The checkpoint with this name, or with a commit that begins so.
    async fn checkpoint_named(&self, id: &SessionId, name: &str) -> Result<CheckpointView, OpError> {
        let missing =
            || OpError::CheckpointNotFound { session_id: id.to_string(), checkpoint: name.to_owned(), was_kept: false };
        let mut all = self.checkpoints_after(id, 0, usize::MAX).await?;
        if name == LATEST {
            return all.pop().ok_or_else(missing);
        }
        if let Some(found) = all.iter().rfind(|view| view.checkpoint.at.name == name) {
            return Ok(found.clone());
        }
        let is_hex = name.len() >= LEAST_DIGITS && name.bytes().all(|byte| byte.is_ascii_hexdigit());
        let lower = name.to_ascii_lowercase();
        all.retain(|view| is_hex && view.checkpoint.at.commit.starts_with(&lower));
        let first = all.first().map(|view| view.checkpoint.at.commit.clone());
        if all.iter().any(|view| Some(&view.checkpoint.at.commit) != first.as_ref()) {
            let detail = format!("'{name}' begins more than one commit; give more digits, or the checkpoint's name");
            return Err(OpError::Invalid { detail });
        }
        all.pop().ok_or_else(missing)
    }
}

/// A checkpoint as its line tells it.
fn view(line: &Line) -> Option<CheckpointView> {
    let checkpoint: Checkpoint = serde_json::from_value(line.data.clone()).ok()?;
    Some(CheckpointView { checkpoint, seq: line.seq, at: line.timestamp, kept: true })
}
