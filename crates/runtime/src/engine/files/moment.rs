//! From what a caller calls a moment to what the session was then.

use crate::engine::Inner;
use crate::ops::{CheckpointView, Moment, OpError};
use crate::owner::{FilesTask, Message, all_open, is_open};
use shellkeep_record::Recording;
use shellkeep_record::marks::{CheckpointLine, Marks};
use shellkeep_record::past::{Past, PastError};
use shellkeep_session::{Checkpoint, FilesAt, RunId, SessionId, Timestamp};
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
        let marks = self.marks(id);
        let read = move |recording: &Recording| {
            let lines = recording.checkpoints(&marks, after, most)?;
            Ok(lines.iter().filter_map(view).collect())
        };
        self.read_recording(id, read).await
    }

    /// The marks in a session's recording.
    fn marks(&self, id: &SessionId) -> Marks {
        Marks::new(&self.store.recording(id), self.store.session_key(id))
    }

    /// Waits a moment for what is being kept of the last command's files, so that who asks after an answer finds it. Not
    /// for the owner itself.
    pub(super) async fn files_kept(self: &Arc<Self>, id: &SessionId) {
        if self.checkpoints.config.on && !self.is_awake(id) && is_open(&self.checkpoints.home(id)) {
            let _ = tokio::time::timeout(PATIENCE, self.ask_files(id, FilesTask::PayOwed)).await;
        }
        let _ = tokio::time::timeout(PATIENCE, self.ask_owner(id, Message::FilesKept)).await;
    }

    /// Keeps what a daemon that died had not kept, of one session after the other.
    pub(in crate::engine) async fn pay_all_owed(self: &Arc<Self>) {
        if !self.checkpoints.config.on {
            return;
        }
        let home = self.checkpoints.all().to_owned();
        let open = tokio::task::spawn_blocking(move || all_open(&home)).await.unwrap_or_default();
        for id in open {
            if self.is_stopping() {
                return;
            }
            if let Err(error) = self.ask_files(&id, FilesTask::PayOwed).await {
                tracing::warn!(session = %id, %error, "files could not be looked at after the last daemon died");
            }
        }
    }

    /// The end of the last run that ended after a record.
    pub(crate) async fn last_run_after(
        &self,
        id: &SessionId,
        seq: u64,
    ) -> Result<Option<(RunId, u64, Timestamp)>, OpError> {
        self.read_recording(id, move |recording| recording.last_run_after(seq)).await
    }

    /// What a session was at some time.
    pub(crate) async fn past(&self, id: &SessionId, moment: &Moment) -> Result<Past, OpError> {
        let (seq, files) = match moment {
            Moment::Checkpoint(name) => {
                let found = self.checkpoint_named(id, name).await?;
                (found.checkpoint.covers, Some(found.checkpoint.at))
            }
            other => (self.record_at(id, other).await?, None),
        };
        let mut past = self.past_at(id, seq).await?;
        past.files = files.or(past.files);
        Ok(past)
    }

    async fn past_at(&self, id: &SessionId, seq: u64) -> Result<Past, OpError> {
        let marks = self.marks(id);
        let found = self.read_recording(id, move |recording| Ok(recording.past_with(seq, Some(&marks)))).await?;
        let relocated = found.map(|mut past| {
            self.store.home().relocation().shell(&mut past.shell);
            past
        });
        relocated.map_err(|error| match error {
            PastError::Read(error) => {
                OpError::RecordingUnreadable { session_id: id.to_string(), reason: error.to_string() }
            }
            other => OpError::NoSuchMoment { detail: format!("session '{id}' cannot be taken to #{seq}: {other}") },
        })
    }

    /// The number of the record after which a moment is.
    async fn record_at(&self, id: &SessionId, moment: &Moment) -> Result<u64, OpError> {
        let none = |detail: String| OpError::NoSuchMoment { detail };
        match moment {
            Moment::Seq(seq) => Ok(*seq),
            Moment::Run(run_id) => self.end_of_run(id, run_id).await,
            Moment::Back(0) => {
                Err(none("-0 is no moment; -1 is before the last run that changed something".to_owned()))
            }
            Moment::Back(back) => {
                let (id, back) = (id.clone(), *back);
                let found = self.read_recording(&id, move |recording| recording.changes_ago(back)).await?;
                found.ok_or_else(|| {
                    none(format!("session '{id}' has had fewer than {back} runs that changed something"))
                })
            }
            Moment::Time(time) => {
                let (id, time) = (id.clone(), *time);
                let found = self.read_recording(&id, move |recording| recording.last_at(time)).await?;
                found.ok_or_else(|| none(format!("session '{id}' did not exist at {time}; it is younger")))
            }
            Moment::Checkpoint(name) => Ok(self.checkpoint_named(id, name).await?.checkpoint.covers),
        }
    }

    fn no_such_run(&self, id: &SessionId, run_id: &RunId) -> OpError {
        OpError::RunNotFound { session_id: id.to_string(), run_id: run_id.to_string() }
    }

    /// The number of the record with which a run ended.
    async fn end_of_run(&self, id: &SessionId, run_id: &RunId) -> Result<u64, OpError> {
        let stored = self.store.run(id, run_id).await.map_err(|error| self.read_error(id, error))?;
        let Some(run) = stored else {
            return Err(self.no_such_run(id, run_id));
        };
        match (run.result, run.ended_seq) {
            (Some(_), Some(ended)) => Ok(ended),
            // What an older version stored does not say; its recording does.
            (Some(_), None) => {
                let (name, started) = (run_id.clone(), run.seq);
                let found = self.read_recording(id, move |recording| recording.end_of_run(&name, started)).await?;
                found.ok_or_else(|| self.no_such_run(id, run_id))
            }
            (None, _) => Err(OpError::NoSuchMoment {
                detail: format!(
                    "run '{run_id}' has not ended; wait for it, or name the record before it, {}",
                    run.seq - 1
                ),
            }),
        }
    }

    /// The checkpoint of the files at some time; none before the first.
    pub(super) async fn files_at(
        self: &Arc<Self>,
        id: &SessionId,
        moment: &Moment,
    ) -> Result<Option<FilesAt>, OpError> {
        match moment {
            Moment::Checkpoint(name) => Ok(Some(self.checkpoint_named(id, name).await?.checkpoint.at)),
            other => {
                let seq = self.record_at(id, other).await?;
                Ok(self.past_at(id, seq).await?.files)
            }
        }
    }

    /// The checkpoint with this name, or with a commit that begins so.
    pub(super) async fn checkpoint_named(&self, id: &SessionId, name: &str) -> Result<CheckpointView, OpError> {
        let missing =
            || OpError::CheckpointNotFound { session_id: id.to_string(), checkpoint: name.to_owned(), was_kept: false };
        let (marks, wanted) = (self.marks(id), name.to_owned());
        let is_it = move |line: &CheckpointLine| wanted == LATEST || line.data["name"] == *wanted;
        let newest = move |recording: &Recording| recording.newest_checkpoint(&marks, is_it);
        if let Some(found) = self.read_recording(id, newest).await?.as_ref().and_then(view) {
            return Ok(found);
        }
        let is_hex = name.len() >= LEAST_DIGITS && name.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !is_hex || name == LATEST {
            return Err(missing());
        }
        let lower = name.to_ascii_lowercase();
        let mut all = self.checkpoints_after(id, 0, usize::MAX).await?;
        all.retain(|view| view.checkpoint.at.commit.starts_with(&lower));
        let first = all.first().map(|view| view.checkpoint.at.commit.clone());
        if all.iter().any(|view| Some(&view.checkpoint.at.commit) != first.as_ref()) {
            let detail = format!("'{name}' begins more than one commit; give more digits, or the checkpoint's name");
            return Err(OpError::Invalid { detail });
        }
        all.pop().ok_or_else(missing)
    }
}

/// A checkpoint as its line tells it.
fn view(line: &CheckpointLine) -> Option<CheckpointView> {
    let checkpoint: Checkpoint = serde_json::from_value(line.data.clone()).ok()?;
    Some(CheckpointView { checkpoint, seq: line.seq, at: line.timestamp, kept: true })
}
