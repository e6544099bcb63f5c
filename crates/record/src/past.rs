//! The state of a session at an earlier record. Every line says what it changed, so the state is the fold of the lines
//! up to it.

use crate::line::{Line, Peek};
use crate::marks::{CheckpointLine, EVERY, Head, Marks};
use crate::read::{ReadError, Recording};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use shellkeep_session::relocate::relocate;
use shellkeep_session::{
    AgentState, ByteString, Checkpoint, Content, FileSum, FilesAt, LeftOut, ShellDelta, ShellState,
};
use std::collections::BTreeMap;

/// Files beside a recording, by name.
type Sums = BTreeMap<String, FileSum>;

/// A session as it was.
#[derive(Debug, Clone, PartialEq)]
pub struct Past {
    /// Number of the record.
    pub seq: u64,
    /// Where its workspace was, if that is known.
    pub workspace: Option<ByteString>,
    /// What its shell knew.
    pub shell: ShellState,
    /// What its agent had saved.
    pub agent_state: Option<AgentState>,
    /// The version of its keyed store, if that is known.
    pub kv_version: Option<u64>,
    /// The checkpoint that holds its files; none if there was none yet.
    pub files: Option<FilesAt>,
    /// What of the files in it may not be as it was.
    pub unsure: Unsure,
}

impl Past {
    /// Moves the shell's paths to where the workspace is now: it may have been on another node.
    pub fn move_to(&mut self, workspace: &ByteString) {
        if let Some(former) = self.workspace.replace(workspace.clone()).filter(|former| former != workspace) {
            relocate(&mut self.shell, &former, workspace);
        }
    }
}

/// What of a session's files is not known to be as it was at a record.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Unsure {
    /// The checkpoint's own uncertain paths; only the first ones.
    pub named: Vec<LeftOut>,
    pub total: u64,
    /// Whether the next command had begun before the checkpoint was complete: whatever the checkpoint changed may be that
    /// command's.
    pub overtaken: bool,
    /// Whether the next command had begun and no checkpoint of exactly this record was made.
    pub missing: bool,
    /// If so, the next checkpoint: what it changed may have been changed by then. None: what changed up to now.
    pub next: Option<FilesAt>,
}

/// Lines after a record in which the checkpoint of its files is looked for. Commands wait for it for a while, and then go
/// on; it is complete within seconds.
const CHECKPOINT_NEAR: u64 = 1024;

/// The type of the last line with which a fork begins, and the reason that it gives.
pub(crate) const END_OF_A_BEGINNING: &str = "shell_stopped";
pub(crate) const FORKED: &str = "forked";

/// Why the earlier state of a session is unknown.
#[derive(Debug, thiserror::Error)]
pub enum PastError {
    /// The recording cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// Nothing is before the first record.
    #[error("records are numbered from 1; 1 is the session as it was created")]
    BeforeTheFirst,
    /// There is no such record.
    #[error("there is no record {seq}; the last one is {last}")]
    NoSuchRecord {
        /// The number asked for.
        seq: u64,
        /// The last number.
        last: u64,
    },
    /// Records before it are missing, and what they changed is not known.
    #[error("some records before {before} are missing ({reason}), so the session's state at that record is unknown")]
    Hole {
        /// Number of the record after the hole.
        before: u64,
        /// Why they are missing.
        reason: String,
    },
    /// A line is invalid.
    #[error("cannot read record {seq}: {reason}")]
    BadRecord {
        seq: u64,
        /// What is wrong with it.
        reason: String,
    },
}

/// What is known while the lines are read.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Fold {
    #[serde(default)]
    workspace: Option<ByteString>,
    shell: Option<ShellState>,
    agent_state: Option<AgentState>,
    /// The version of its keyed store, if it is known. Marks of older programs have 0 in another field where it is not: they
    /// lack this one, cannot be read, and are passed over.
    #[serde(deserialize_with = "Option::deserialize")]
    kv: Option<u64>,
    files: Files,
    /// Whether these are the lines with which a fork begins: only all of them together are the session as it was created.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    begins: bool,
    /// Why the shell is not known.
    hole: Option<(u64, String)>,
    /// The number after which the next line continues.
    last: u64,
}

/// What is known of the files.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Files {
    at: Option<FilesAt>,
    /// The checkpoint that they are of, if it was made from the workspace.
    checkpoint: Option<Checkpoint>,
    /// Number of the record with which the last run ended.
    ended: u64,
    /// Whether the next command began before the files were kept, if there is a next one.
    #[serde(skip)]
    unkept: Option<bool>,
    /// The first checkpoint that is of a later record.
    #[serde(skip)]
    next: Option<FilesAt>,
}

impl Files {
    fn kept(&mut self, checkpoint: Checkpoint) {
        self.at = Some(checkpoint.at.clone());
        self.checkpoint = Some(checkpoint);
    }

    /// A line after the record; whether there may be another that matters. The checkpoint of a command is recorded after
    /// the command itself.
    fn after(
        &mut self,
        seq: u64,
        peek: &Peek<'_>,
        line: impl FnOnce() -> Result<Line, ReadError>,
    ) -> Result<bool, PastError> {
        match &*peek.event_type {
            "checkpoint_created" => Ok(self.later_checkpoint(seq, from(peek.seq, &line()?.data)?)),
            "session_rewound" => Ok(false),
            // The next run alone can have begun too early; by the one after it, this one is long over.
            "run_started" if self.unkept.is_none() => {
                self.unkept = Some(line()?.data["files_unkept"] == true);
                Ok(true)
            }
            _ => Ok(true),
        }
    }

    /// A checkpoint that was recorded after the record; whether there may be another that matters.
    fn later_checkpoint(&mut self, seq: u64, checkpoint: Checkpoint) -> bool {
        let is_of_this = checkpoint.covers <= seq;
        match is_of_this {
            true => self.kept(checkpoint),
            false => self.next = Some(checkpoint.at),
        }
        is_of_this
    }

    fn unsure(&self) -> Unsure {
        let covers = self.checkpoint.as_ref().map_or(0, |checkpoint| checkpoint.covers);
        let of_this = self.checkpoint.as_ref().filter(|_| covers >= self.ended);
        let missing = self.unkept == Some(true) && covers < self.ended;
        Unsure {
            named: of_this.map_or_else(Vec::new, |checkpoint| checkpoint.uncertain.clone()),
            total: of_this.map_or(0, |checkpoint| checkpoint.uncertain_total),
            overtaken: of_this.is_some_and(|checkpoint| checkpoint.overtaken),
            missing,
            next: self.next.clone().filter(|_| missing),
        }
    }
}

impl Recording {
    /// What the session was when this record had been made. Of a fork's first records, what it was after the last of them.
    pub fn past(&self, seq: u64) -> Result<Past, PastError> {
        self.past_with(seq, None)
    }

    /// The same, from the mark before it on. Marks are set on the way where there are none.
    pub fn past_with(&self, seq: u64, marks: Option<&Marks>) -> Result<Past, PastError> {
        if seq == 0 {
            return Err(PastError::BeforeTheFirst);
        }
        let (from, mut fold): (u64, Fold) = marks.and_then(|marks| marks.before(self, seq)).unwrap_or_default();
        let mut raw = self.raw(from.saturating_add(1))?;
        let (mut stretch, mut seq) = (Stretch { after: from, ..Stretch::default() }, seq);
        while let Some(line) = raw.next()? {
            let peek = line.peek()?;
            if peek.seq <= from {
                continue;
            }
            if fold.begins && is_of_a_beginning(&peek.event_type) {
                seq = seq.max(peek.seq);
            }
            if peek.seq > seq {
                if !fold.files.after(seq, &peek, || line.parse())? || peek.seq - seq >= CHECKPOINT_NEAR {
                    break;
                }
                continue;
            }
            (fold.last, stretch.lines) = (peek.seq, stretch.lines + 1);
            fold.begins &= is_of_a_beginning(&peek.event_type) && peek.event_type != END_OF_A_BEGINNING;
            // A mark needs the hash of its line.
            let marks = marks.filter(|_| stretch.lines >= EVERY);
            if is_wanted(&peek.event_type) || marks.is_some() {
                let line = line.parse()?;
                fold.take(&line)?;
                fold.last = line.through();
                stretch.take(&line);
                if let Some(marks) = marks {
                    marks.write(&stretch.end(&line), &fold);
                }
            }
        }
        fold.past(seq)
    }
}

/// The lines since a mark.
#[derive(Default)]
struct Stretch {
    after: u64,
    lines: u64,
    checkpoints: Vec<CheckpointLine>,
}

impl Stretch {
    fn take(&mut self, line: &Line) {
        if line.event_type == "checkpoint_created" {
            let (seq, timestamp, data) = (line.seq, line.timestamp, line.data.clone());
            self.checkpoints.push(CheckpointLine { seq, timestamp, data });
        }
    }

    /// What the mark at its last line says of it; the next begins.
    fn end(&mut self, line: &Line) -> Head {
        let ended = std::mem::replace(self, Self { after: line.seq, ..Self::default() });
        Head { after: ended.after, seq: line.seq, hash: line.proof.hash, checkpoints: ended.checkpoints }
    }
}

/// Whether lines of this type say what a session is.
fn is_wanted(event_type: &str) -> bool {
    matches!(
        event_type,
        "session_created"
            | "session_restarted"
            | "session_rewound"
            | "tool_call"
            | "agent_state_saved"
            | "kv_changed"
            | "checkpoint_created"
            | "records_lost"
            | "session_owned"
            | "hole"
    )
}

/// Whether a fork may begin with lines of this type, after the one that creates it.
fn is_of_a_beginning(event_type: &str) -> bool {
    matches!(
        event_type,
        "session_owned" | "agent_state_saved" | "kv_changed" | "checkpoint_created" | END_OF_A_BEGINNING
    )
}

impl Fold {
    fn past(self, seq: u64) -> Result<Past, PastError> {
        if self.last < seq {
            return Err(PastError::NoSuchRecord { seq, last: self.last });
        }
        match (self.shell, self.hole) {
            (Some(shell), None) => {
                let unsure = self.files.unsure();
                let Self { workspace, agent_state, kv: kv_version, .. } = self;
                Ok(Past { seq, workspace, shell, agent_state, kv_version, files: self.files.at, unsure })
            }
            (_, Some((before, reason))) => Err(PastError::Hole { before, reason }),
            (None, None) => Err(PastError::BadRecord { seq: 1, reason: "it does not begin a session".to_owned() }),
        }
    }

    fn take(&mut self, line: &Line) -> Result<(), PastError> {
        let Line { seq, event_type, data, proof, .. } = line;
        let seq = *seq;
        if let ("session_created" | "session_owned" | "records_lost", Some(path)) =
            (event_type.as_str(), data["workspace"].as_str())
        {
            self.workspace = Some(path.into());
        }
        match event_type.as_str() {
            // A posted event changed no shell, whatever it says.
            "tool_call" if line.author.is_posted() => {}
            "tool_call" => {
                if data.get("run_id").is_some() {
                    self.files.ended = seq;
                }
                if let (Some(delta), Some(shell)) = (data.get("delta"), &mut self.shell) {
                    let delta: ShellDelta = from(seq, delta)?;
                    shell.apply(&delta);
                }
            }
            "agent_state_saved" => self.agent_state = agent_state(data, &proof.files),
            "kv_changed" => self.kv_changed(data),
            "checkpoint_created" => self.files.kept(from(seq, data)?),
            // Their result is recorded, so what follows is known again; an older program did not record the keyed store's.
            "records_lost" if data.get("shell").is_some() => {
                self.kv = None;
                self.begin_anew(seq, data, &proof.files)?;
            }
            "records_lost" | "hole" => {
                self.kv = None;
                let reason = data["reason"].as_str().unwrap_or("no line tells of them").to_owned();
                self.hole = Some((seq, reason));
            }
            "session_owned" if data.get("shell").is_some() => self.begin_anew(seq, data, &proof.files)?,
            "session_rewound" => self.begin_anew(seq, data, &proof.files)?,
            "session_created" | "session_restarted" => {
                if event_type == "session_created" {
                    self.kv = Some(0);
                }
                self.shell = Some(from(seq, &data["shell"])?);
                self.hole = None;
                self.begins = event_type == "session_created" && data.get("forked_from").is_some();
            }
            _ => {}
        }
        Ok(())
    }

    /// The keyed store has another version, if this says so.
    fn kv_changed(&mut self, data: &Value) {
        self.kv = data["version"].as_u64().or(self.kv);
    }

    /// A line that has the whole state of the session. Where it does not speak of the keyed store, that did not change.
    fn begin_anew(&mut self, seq: u64, data: &Value, sums: &Sums) -> Result<(), PastError> {
        self.shell = Some(from(seq, &data["shell"])?);
        self.hole = None;
        self.agent_state = data.get("agent_state").and_then(|state| agent_state(state, sums));
        self.files = Files { at: from(seq, &data["files"])?, ..Files::default() };
        self.kv_changed(&data["kv"]);
        Ok(())
    }
}

fn from<T: DeserializeOwned>(seq: u64, value: &Value) -> Result<T, PastError> {
    T::deserialize(value).map_err(|error| PastError::BadRecord { seq, reason: error.to_string() })
}

/// A state of an agent as a line of the recording has it, with the files that the line mentions.
pub fn agent_state(data: &Value, sums: &Sums) -> Option<AgentState> {
    let text = |name: &str| data.get(name).and_then(Value::as_str);
    let number = |name: &str| data.get(name).and_then(Value::as_u64);
    let version = number("version")?;
    let content = match (text("file"), text("content_base64"), text("content")) {
        // The name follows from the version; what a file says is not taken for a path.
        (Some(_), ..) => {
            let name = AgentState::file_name(version);
            let hash = sums.get(&name).map(|sum| sum.hash.clone()).or_else(|| text("hash").map(str::to_owned));
            Content::File { name, bytes: number("bytes")?, hash }
        }
        (None, Some(bytes), _) => Content::Inline(STANDARD.decode(bytes).ok()?.into()),
        (None, None, Some(text)) => Content::Inline(text.into()),
        (None, None, None) => return None,
    };
    Some(AgentState { version, media_type: text("media_type")?.to_owned(), content })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Marks of older programs have version 0 where the version of the keyed store was not known. A rewind from one of them
    /// would empty the store.
    #[test]
    fn a_mark_that_cannot_say_that_a_version_is_unknown_is_passed_over() {
        let mut mark = serde_json::to_value(Fold::default()).unwrap();
        assert_eq!(serde_json::from_value::<Fold>(mark.clone()).unwrap().kv, None);
        let fields = mark.as_object_mut().unwrap();
        fields.remove("kv");
        fields.insert("kv_version".to_owned(), 0.into());
        assert!(serde_json::from_value::<Fold>(mark).is_err());
    }
}
