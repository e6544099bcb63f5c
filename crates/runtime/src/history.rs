//! What a session was at an earlier moment, from its recording, and the checkpoints that the recording names.

use crate::adaptive::Senses;
use crate::checkpoints::commit_of;
use crate::ops::{CheckpointError, CheckpointView, Moment, OpError, RecordError, RunError};
use crate::recordings::Recordings;
use crate::stored::read_error;
use crate::thinning;
use shellkeep_record::marks::{CheckpointLine, Marks};
use shellkeep_record::moment::{self, RunEnd};
use shellkeep_record::past::{Past, PastError};
use shellkeep_record::steps::{self, ChangedBy, Undoable, UnsavedRun};
use shellkeep_record::{Checkpoints, Recording};
use shellkeep_session::{Checkpoint, FilesAt, RewindStep, RunId, SessionId, Timestamp};
use shellkeep_store::Store;
use shellkeep_workspace::repo::ObjectId;
use std::sync::Arc;

/// Minimum length of a commit prefix.
const LEAST_DIGITS: usize = 4;
/// The last record, where a session goes back or forks; of checkpoints, the newest.
const LATEST: &str = "latest";

/// The earlier moments of all sessions.
pub(crate) struct History {
    store: Store,
    recordings: Arc<Recordings>,
    senses: Arc<dyn Senses>,
}

impl History {
    /// Reads from `recordings`; `senses` has the clock.
    pub(crate) fn new(store: Store, recordings: Arc<Recordings>, senses: Arc<dyn Senses>) -> Self {
        Self { store, recordings, senses }
    }

    /// A session's checkpoints after a record, oldest first, from its recording.
    pub(crate) async fn checkpoints_after(
        &self,
        id: &SessionId,
        after: u64,
        most: usize,
    ) -> Result<Vec<CheckpointView>, OpError> {
        let marks = self.marks(id);
        let read = move |recording: &Recording| {
            let lines = Checkpoints { recording, marks: &marks }.after(after, most)?;
            Ok(lines.iter().filter_map(view).collect())
        };
        self.recordings.read(id, read).await
    }

    /// The marks in a session's recording.
    fn marks(&self, id: &SessionId) -> Marks {
        Marks::new(&self.store.recording(id), self.store.session_key(id))
    }

    /// The end of the last run that ended after a record.
    pub(crate) async fn last_run_after(&self, id: &SessionId, seq: u64) -> Result<Option<RunEnd>, OpError> {
        self.recordings.read(id, move |recording| moment::last_run_after(recording, seq)).await
    }

    /// The state of a session at some moment.
    pub(crate) async fn past(&self, id: &SessionId, moment: &Moment) -> Result<Past, OpError> {
        let (seq, files) = match moment {
            Moment::Checkpoint(name) if name == LATEST => (self.last_record(id).await?, None),
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
        let found = self.recordings.read(id, move |recording| Ok(recording.past_with(seq, Some(&marks)))).await?;
        let relocated = found.map(|mut past| {
            self.store.home().relocation().shell(&mut past.shell);
            past
        });
        relocated.map_err(|error| match error {
            PastError::Read(error) => {
                OpError::Record(RecordError::Unreadable { session_id: id.to_string(), reason: error.to_string() })
            }
            other => OpError::Checkpoint(CheckpointError::NoSuchMoment {
                detail: format!("session '{id}' cannot be rewound to record {seq}: {other}"),
            }),
        })
    }

    /// The number of the record that a moment follows.
    async fn record_at(&self, id: &SessionId, moment: &Moment) -> Result<u64, OpError> {
        let none = |detail: String| OpError::Checkpoint(CheckpointError::NoSuchMoment { detail });
        match moment {
            Moment::Seq(seq) => Ok(*seq),
            Moment::Run(run_id) => self.end_of_run(id, run_id).await,
            Moment::Back(0) => {
                Err(none("-0 is not a moment; -1 is before the last run that changed something".to_owned()))
            }
            Moment::Back(back) => {
                let (id, back) = (id.clone(), *back);
                let found = self.recordings.read(&id, move |recording| moment::changes_ago(recording, back)).await?;
                found.ok_or_else(|| {
                    none(format!("session '{id}' has had fewer than {back} runs that changed something"))
                })
            }
            Moment::Time(time) => {
                let (id, time) = (id.clone(), *time);
                let found = self.recordings.read(&id, move |recording| moment::last_at(recording, time)).await?;
                let time = time.strftime("%Y-%m-%d %H:%M:%S UTC");
                found.ok_or_else(|| none(format!("session '{id}' did not exist at {time}; it was created later")))
            }
            Moment::Checkpoint(name) => Ok(self.checkpoint_named(id, name).await?.checkpoint.covers),
            Moment::Step(step) => Ok(self.step(id, *step).await?.before),
        }
    }

    async fn last_record(&self, id: &SessionId) -> Result<u64, OpError> {
        let last = self.recordings.read(id, |recording: &Recording| recording.last()).await?;
        last.map(|line| line.seq).ok_or_else(|| {
            OpError::Checkpoint(CheckpointError::NoSuchMoment { detail: format!("session '{id}' has no record yet") })
        })
    }

    /// The run after which the session was as it was after a record; none if that cannot be said so.
    pub(crate) async fn run_before(&self, id: &SessionId, seq: u64) -> Result<Option<RunId>, OpError> {
        self.recordings.read(id, move |recording| moment::run_before(recording, seq)).await
    }

    /// When a record was made.
    pub(crate) async fn time_of(&self, id: &SessionId, seq: u64) -> Result<Option<Timestamp>, OpError> {
        let found = self.recordings.read(id, move |recording| recording.before(seq.saturating_add(1))).await?;
        Ok(found.map(|line| line.timestamp))
    }

    /// What going to a moment takes back, if it is an undo.
    pub(crate) async fn undone(&self, id: &SessionId, moment: &Moment) -> Result<Option<ChangedBy>, OpError> {
        match moment {
            Moment::Step(RewindStep::Undo) => Ok(Some(self.step(id, RewindStep::Undo).await?.by)),
            _ => Ok(None),
        }
    }

    /// The run whose changes of files no checkpoint holds, if there is one.
    pub(crate) async fn last_unsaved_run(&self, id: &SessionId) -> Result<Option<UnsavedRun>, OpError> {
        self.recordings.read(id, steps::last_unsaved_run).await
    }

    /// What an undo or a redo reverts.
    async fn step(&self, id: &SessionId, step: RewindStep) -> Result<Undoable, OpError> {
        let (found, detail) = match step {
            RewindStep::Undo => (
                self.recordings.read(id, steps::last_change).await?,
                format!(
                    "there is nothing to undo in session '{id}': its files, shell and keyed store have not changed, or all \
                     changes have been undone"
                ),
            ),
            RewindStep::Redo => (
                self.recordings.read(id, steps::last_undo).await?,
                format!("there is nothing to redo in session '{id}': nothing was undone, or it has changed since"),
            ),
        };
        found.ok_or(OpError::Checkpoint(CheckpointError::NothingToUndo { detail }))
    }

    /// The number of the record with which a run ended.
    async fn end_of_run(&self, id: &SessionId, run_id: &RunId) -> Result<u64, OpError> {
        let stored = self.store.run(id, run_id).await.map_err(|error| read_error(id, error))?;
        let Some(run) = stored else {
            return Err(no_such_run(id, run_id));
        };
        match (run.result, run.ended_seq) {
            (Some(_), Some(ended)) => Ok(ended),
            // Old stored runs lack it; their recording has it.
            (Some(_), None) => {
                let (name, started) = (run_id.clone(), run.seq);
                let found =
                    self.recordings.read(id, move |recording| moment::end_of_run(recording, &name, started)).await?;
                found.ok_or_else(|| no_such_run(id, run_id))
            }
            (None, _) => Err(OpError::Checkpoint(CheckpointError::NoSuchMoment {
                detail: format!(
                    "run '{run_id}' has not ended; wait for it, or name the record before it, {}",
                    run.seq - 1
                ),
            })),
        }
    }

    /// The checkpoint of the files at some moment; none before the first.
    pub(crate) async fn files_at(&self, id: &SessionId, moment: &Moment) -> Result<Option<FilesAt>, OpError> {
        match moment {
            Moment::Checkpoint(name) => Ok(Some(self.checkpoint_named(id, name).await?.checkpoint.at)),
            other => {
                let seq = self.record_at(id, other).await?;
                Ok(self.past_at(id, seq).await?.files)
            }
        }
    }

    /// The checkpoint with this name or commit prefix.
    pub(crate) async fn checkpoint_named(&self, id: &SessionId, name: &str) -> Result<CheckpointView, OpError> {
        let missing = || {
            OpError::Checkpoint(CheckpointError::NotFound {
                session_id: id.to_string(),
                checkpoint: name.to_owned(),
                gone: None,
            })
        };
        let (marks, wanted) = (self.marks(id), name.to_owned());
        let is_it = move |line: &CheckpointLine| wanted == LATEST || line.data["name"] == *wanted;
        let newest = move |recording: &Recording| Checkpoints { recording, marks: &marks }.newest(is_it);
        if let Some(found) = self.recordings.read(id, newest).await?.as_ref().and_then(view) {
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
            let detail = format!(
                "'{name}' is the prefix of more than one commit; use more digits, or the checkpoint's \
                name"
            );
            return Err(OpError::Invalid { detail });
        }
        all.pop().ok_or_else(missing)
    }

    /// The commits of a session that the policy keeps, if all of the newest `most` are kept.
    pub(crate) async fn commits_to_keep(
        &self,
        id: &SessionId,
        current: Option<&FilesAt>,
        most: usize,
    ) -> Result<Vec<ObjectId>, OpError> {
        let all = self.checkpoints_after(id, 0, usize::MAX).await?;
        let keep = thinning::to_keep(&all, most, self.senses.now());
        let keep = keep.into_iter().map(|view| &view.checkpoint.at).chain(current);
        Ok(keep.filter_map(commit_of).collect())
    }
}

fn no_such_run(id: &SessionId, run_id: &RunId) -> OpError {
    OpError::Run(RunError::NotFound { session_id: id.to_string(), run_id: run_id.to_string() })
}

/// A checkpoint from its line.
fn view(line: &CheckpointLine) -> Option<CheckpointView> {
    let checkpoint: Checkpoint = serde_json::from_value(line.data.clone()).ok()?;
    Some(CheckpointView { checkpoint, seq: line.seq, at: line.timestamp, kept: true, command: None })
}
