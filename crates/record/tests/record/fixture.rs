//! A session that did a bit of everything, and a place for its recording.

use serde_json::json;
use shellkeep_record::marks::Marks;
use shellkeep_record::{Key, Line, Recorder, RecorderOptions, Recording, SessionKey, Verdict, verify};
use shellkeep_session::shell::Variable;
use shellkeep_session::{
    Event, Message, Output, Record, RunId, RunResult, RunStatus, SessionId, SessionMeta, ShellDelta, ShellState,
    Timestamp,
};
use std::path::PathBuf;
use tempfile::TempDir;

/// A secret that the story's environment has, and that one command prints.
pub const SECRET: &str = "kV9-story-value-7731";

pub fn id(text: &str) -> SessionId {
    SessionId::parse(text).unwrap()
}

pub fn at(seq: u64) -> Timestamp {
    Timestamp::from_microsecond(1_700_000_000_000_000 + i64::try_from(seq).unwrap()).unwrap()
}

pub fn key() -> Key {
    Key([7; 32])
}

pub fn session_key() -> SessionKey {
    key().of(&id("a"))
}

/// A root for recordings.
pub struct House {
    pub directory: TempDir,
}

impl House {
    pub fn new() -> Self {
        Self { directory: TempDir::new().unwrap() }
    }

    pub fn recorder(&self, segment_bytes: u64) -> Recorder {
        self.recorder_with(RecorderOptions { segment_bytes, ..RecorderOptions::default() })
    }

    pub fn recorder_with(&self, options: RecorderOptions) -> Recorder {
        Recorder::open(self.directory.path().to_owned(), key(), options).unwrap()
    }

    pub fn path(&self) -> PathBuf {
        self.directory.path().join("a")
    }

    pub fn recording(&self) -> Recording {
        Recording::open(&self.path()).unwrap()
    }

    pub fn marks(&self) -> Marks {
        Marks::new(&self.path(), session_key())
    }

    pub fn marks_directory(&self) -> PathBuf {
        self.path().join("past")
    }

    pub fn verify(&self, expected: u64) -> Verdict {
        verify(&self.recording(), Some(&session_key()), Some(expected)).unwrap()
    }

    pub fn assert_intact(&self, expected: u64) {
        let verdict = self.verify(expected);
        assert_eq!((verdict.bad.clone(), verdict.lines), (None, expected), "{verdict:?}");
        assert!(verdict.is_intact(), "{verdict:?}");
    }

    /// The numbers of all lines.
    pub fn numbers(&self) -> Vec<u64> {
        self.lines().iter().map(|line| line.seq).collect()
    }

    pub fn lines(&self) -> Vec<Line> {
        self.recording().lines(1).unwrap().map(Result::unwrap).collect()
    }
}

pub fn record(seq: u64, event: Event) -> Record {
    Record { session_id: id("a"), seq, at: at(seq), event }
}

pub fn created() -> Record {
    let mut shell = ShellState { cwd: "/w".into(), ..ShellState::default() };
    shell.variables.insert("STORY_API_KEY".into(), Variable::scalar("x", SECRET));
    shell.variables.insert("LANG".into(), Variable::scalar("x", "C"));
    let meta = SessionMeta {
        agent: Some("ann".to_owned()),
        agent_config: json!({"model": "m", "temperature": 0.1}),
        created_at: at(1),
        workspace: "/w".into(),
        ..SessionMeta::of_name(id("a"))
    };
    record(1, Event::SessionCreated { meta: Box::new(meta), shell: Box::new(shell) })
}

pub fn started(seq: u64, command: &str) -> Record {
    let run_id = RunId::from_seq(seq);
    record(
        seq,
        Event::RunStarted {
            run_id,
            request_id: None,
            command: command.into(),
            call: None,
            by: None,
            files_unkept: false,
        },
    )
}

pub fn finished(seq: u64, start: u64, output: &[u8]) -> Record {
    let length = output.len() as u64;
    let result = RunResult {
        status: RunStatus::Exited,
        exit_code: Some(i32::from(seq.is_multiple_of(3))),
        signal: None,
        stdout: Output { total: length, kept: length, inline: Some(output.into()), ..Output::default() },
        stderr: Output::default(),
        duration_us: seq * 31 + 7,
        cwd: "/w".into(),
        changes: Default::default(),
        background_output: None,
        notices: Vec::new(),
        terminal: None,
    };
    let mut delta = ShellDelta::default();
    if seq.is_multiple_of(4) {
        delta.variables.insert("COUNT".into(), Some(Variable::scalar("", seq.to_string())));
    }
    let run_id = RunId::from_seq(start);
    record(seq, Event::RunFinished { run_id, result: Box::new(result), delta: Box::new(delta) })
}

/// A story of `length` records: commands, what a framework tells, messages.
pub fn story(length: u64) -> Vec<Record> {
    let mut records = vec![created()];
    for seq in 2..=length {
        records.push(match seq % 6 {
            0 => {
                let data =
                    json!({"model": "m", "usage": {"in": seq, "cost": seq as f64 / 7.0}, "empty": {}, "no": null});
                record(seq, Event::Noted { event_type: "llm_call".to_owned(), data, author: Default::default() })
            }
            1 => {
                let content = json!([{"type": "text", "text": format!("message {seq}\n\"quoted\"")}]);
                let message = Message { seq_id: seq / 6, role: "user".to_owned(), content, at: at(seq) };
                record(seq, Event::MessageAdded { message: Box::new(message), author: Default::default() })
            }
            2 | 4 => started(seq, &format!("echo $STORY_API_KEY {seq} # ü")),
            _ => {
                let text = format!("value {SECRET} of {seq}\n");
                let output: &[u8] = if seq % 5 == 0 { b"\xff\x00bytes\n" } else { text.as_bytes() };
                finished(seq, seq - 1, output)
            }
        });
    }
    records
}

pub fn take(recorder: &mut Recorder, records: &[Record]) -> Vec<String> {
    let records: Vec<&Record> = records.iter().collect();
    recorder.take(&records).into_iter().map(|stall| stall.reason).collect()
}
