//! What a session was at an earlier record. Every line tells what it changed, so that is the fold of the lines up to it.

use crate::read::{ReadError, Recording};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::DeserializeOwned;
use serde_json::Value;
use shellkeep_session::{AgentState, Checkpoint, Content, FilesAt, LeftOut, ShellDelta, ShellState};

/// A session as it was.
#[derive(Debug, Clone, PartialEq)]
pub struct Past {
    /// Number of the record.
    pub seq: u64,
    /// What its shell knew.
    pub shell: ShellState,
    /// What its agent had saved.
    pub agent_state: Option<AgentState>,
    /// The checkpoint that holds its files; none if there was none yet.
    pub files: Option<FilesAt>,
    /// What of the files in it may not be as it was.
    pub unsure: Unsure,
}

/// What of a session's files is not known to be as it was at a record.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Unsure {
    /// What the checkpoint itself says may have been something else; the first of so many.
    pub named: Vec<LeftOut>,
    /// How many.
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

/// Why it cannot be told what a session was.
#[derive(Debug, thiserror::Error)]
pub enum PastError {
    /// The recording cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// Nothing is before the first record.
    #[error("records are numbered from 1; 1 is the session as it was when it was made")]
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
    #[error("the records before {before} are not all there ({reason}), so what the session was then is not known")]
    Hole {
        /// Number of the record after the hole.
        before: u64,
        /// Why they are missing.
        reason: String,
    },
    /// A line does not tell what it should.
    #[error("record {seq} cannot be read: {reason}")]
    BadRecord {
        /// Its number.
        seq: u64,
        /// What is wrong with it.
        reason: String,
    },
}

/// What is known while the lines are read.
#[derive(Default)]
struct Fold {
    shell: Option<ShellState>,
    agent_state: Option<AgentState>,
    files: Files,
    /// Why the shell is not known.
    hole: Option<(u64, String)>,
}

/// What is known of the files.
#[derive(Default)]
struct Files {
    at: Option<FilesAt>,
    /// The checkpoint that they are of, if it was made from the workspace.
    checkpoint: Option<Checkpoint>,
    /// Number of the record with which the last run ended.
    ended: u64,
    /// Whether the next command began before the files were kept, if there is a next one.
    unkept: Option<bool>,
    /// The first checkpoint that is of a later record.
    next: Option<FilesAt>,
}

impl Files {
    fn kept(&mut self, checkpoint: Checkpoint) {
        self.at = Some(checkpoint.at.clone());
        self.checkpoint = Some(checkpoint);
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
    /// What the session was when this record had been made.
    pub fn past(&self, seq: u64) -> Result<Past, PastError> {
        if seq == 0 {
            return Err(PastError::BeforeTheFirst);
        }
        let mut fold = Fold::default();
        let mut raw = self.raw(0)?;
        let mut last = 0;
        while let Some(line) = raw.next()? {
            let peek = line.peek()?;
            if peek.seq > seq {
                // The checkpoint of a command is recorded after the command itself.
                let goes_on = match &*peek.event_type {
                    "checkpoint_created" => fold.files.later_checkpoint(seq, from(peek.seq, &line.parse()?.data)?),
                    "session_rewound" => false,
                    "run_started" => {
                        let unkept = || -> Result<bool, ReadError> { Ok(line.parse()?.data["files_unkept"] == true) };
                        // The next run alone can have begun too early; by the one after it, this one is long over.
                        if fold.files.unkept.is_none() {
                            fold.files.unkept = Some(unkept()?);
                        }
                        true
                    }
                    _ => true,
                };
                if goes_on && peek.seq - seq < CHECKPOINT_NEAR {
                    continue;
                }
                break;
            }
            last = peek.seq;
            let wanted = matches!(
                &*peek.event_type,
                "session_created"
                    | "session_restarted"
                    | "session_rewound"
                    | "tool_call"
                    | "agent_state_saved"
                    | "checkpoint_created"
                    | "records_lost"
                    | "hole"
            );
            if wanted {
                let line = line.parse()?;
                fold.take(line.seq, &line.event_type, &line.data)?;
                last = line.through();
            }
        }
        if last < seq {
            return Err(PastError::NoSuchRecord { seq, last });
        }
        match (fold.shell, fold.hole) {
            (Some(shell), None) => {
                let unsure = fold.files.unsure();
                Ok(Past { seq, shell, agent_state: fold.agent_state, files: fold.files.at, unsure })
            }
            (_, Some((before, reason))) => Err(PastError::Hole { before, reason }),
            (None, None) => Err(PastError::BadRecord { seq: 1, reason: "it does not begin a session".to_owned() }),
        }
    }
}

impl Fold {
    fn take(&mut self, seq: u64, event_type: &str, data: &Value) -> Result<(), PastError> {
        match event_type {
            // A tool call that the agent's framework told of has no delta of a shell.
            "tool_call" => {
                if data.get("run_id").is_some() {
                    self.files.ended = seq;
                }
                if let (Some(delta), Some(shell)) = (data.get("delta"), &mut self.shell) {
                    let delta: ShellDelta = from(seq, delta)?;
                    shell.apply(&delta);
                }
            }
            "agent_state_saved" => self.agent_state = agent_state(data),
            "checkpoint_created" => self.files.kept(from(seq, data)?),
            "records_lost" | "hole" => {
                let reason = data["reason"].as_str().unwrap_or("no line tells of them").to_owned();
                self.hole = Some((seq, reason));
            }
            _ => {
                self.shell = Some(from(seq, &data["shell"])?);
                self.hole = None;
                if event_type == "session_rewound" {
                    self.agent_state = data.get("agent_state").and_then(agent_state);
                    self.files = Files { at: from(seq, &data["files"])?, ..Files::default() };
                }
            }
        }
        Ok(())
    }
}

fn from<T: DeserializeOwned>(seq: u64, value: &Value) -> Result<T, PastError> {
    T::deserialize(value).map_err(|error| PastError::BadRecord { seq, reason: error.to_string() })
}

/// A state of an agent as a line of the recording tells it.
pub fn agent_state(data: &Value) -> Option<AgentState> {
    let text = |name: &str| data.get(name).and_then(Value::as_str);
    let number = |name: &str| data.get(name).and_then(Value::as_u64);
    let version = number("version")?;
    let content = match (text("file"), text("content_base64"), text("content")) {
        // The name follows from the version; what a file says is not taken for a path.
        (Some(_), ..) => Content::File { name: AgentState::file_name(version), bytes: number("bytes")? },
        (None, Some(bytes), _) => Content::Inline(STANDARD.decode(bytes).ok()?.into()),
        (None, None, Some(text)) => Content::Inline(text.into()),
        (None, None, None) => return None,
    };
    Some(AgentState { version, media_type: text("media_type")?.to_owned(), content })
}
