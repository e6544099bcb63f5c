//! From a session's record to the type and the fields of its line.

use crate::line::RECORDS_LOST;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use serde_json::{Map, Value};
use shellkeep_session::{
    AgentState, ByteString, Call, Content, Event, FileSum, Output, Record, RunId, RunResult, RunStatus, SessionMeta,
    SessionState, ShellDelta, ShellState,
};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::ops::Range;
use std::path::Path;

/// What of a stream in a file beside the recording is shown in its line.
const HEAD_BYTES: u64 = 4096;

/// Name of the tool that a command is to a reader who knows agents.
const TOOL_NAME: &str = "run_command";

/// A line's type and fields.
#[derive(Debug, Clone, PartialEq)]
pub struct Told<'a> {
    /// What kind of event.
    pub event_type: &'a str,
    /// Its fields.
    pub data: Value,
    /// Files beside the recording that it tells of.
    pub files: BTreeMap<String, FileSum>,
}

/// What is beside a record that its line tells of.
#[derive(Clone, Copy, Default)]
pub struct Beside<'a> {
    /// What the run that ends was begun with, if it is known.
    pub parameters: Option<&'a Map<String, Value>>,
    /// The session's directory with long outputs.
    pub outputs: Option<&'a Path>,
}

/// The names of what a command may be begun with.
const PARAMETERS: [&str; 9] =
    ["command", "command_base64", "cwd", "cwd_base64", "env", "stdin", "stdin_base64", "stdin_bytes", "tty"];

/// What a command is begun with.
pub(crate) fn parameters(command: &ByteString, call: Option<&Call>) -> Map<String, Value> {
    let mut fields = Fields::default();
    fields.bytes("command", command);
    let Some(Call { cwd, env, stdin, stdin_bytes, tty }) = call else { return fields.0 };
    if let Some(cwd) = cwd {
        fields.bytes("cwd", cwd);
    }
    if !env.is_empty() {
        fields.value("env", env);
    }
    if let Some(stdin) = stdin {
        fields.bytes("stdin", stdin);
    }
    if *stdin_bytes > 0 {
        fields.number("stdin_bytes", *stdin_bytes);
    }
    if *tty {
        fields.put("tty", Value::Bool(true));
    }
    fields.0
}

/// What a command was begun with, from the line that told of it.
pub(crate) fn parameters_of(started: &Value) -> Map<String, Value> {
    let found = |name: &&str| Some(((*name).to_owned(), started.get(*name)?.clone()));
    PARAMETERS.iter().filter_map(found).collect()
}

/// The line of a record.
pub fn told<'a>(record: &'a Record, beside: Beside<'_>) -> Told<'a> {
    let mut data = Fields::default();
    let event_type = match &record.event {
        Event::RunStarted { run_id, request_id, command, call, by, files_unkept } => {
            data = Fields(parameters(command, call.as_deref()));
            data.text("run_id", run_id.as_str());
            data.maybe("request_id", request_id.as_deref());
            data.maybe("by", by.as_deref());
            if *files_unkept {
                data.put("files_unkept", Value::Bool(true));
            }
            "run_started"
        }
        Event::RunFinished { run_id, result, delta } => {
            finished(&mut data, run_id, result, delta, beside);
            "tool_call"
        }
        Event::RunInput { .. } => {
            typed(&mut data, &record.event);
            "run_input"
        }
        Event::Noted { event_type, data, .. } => {
            return Told { event_type, data: data.clone(), files: BTreeMap::new() };
        }
        other => rare(&mut data, record.seq, other),
    };
    Told { event_type, data: Value::Object(data.0), files: files(&record.event) }
}

/// The files that a record tells of, as far as their hashes are known.
fn files(event: &Event) -> BTreeMap<String, FileSum> {
    let mut files = BTreeMap::new();
    match event {
        Event::RunFinished { run_id, result, .. } => {
            for (name, output) in [("stdout", &result.stdout), ("stderr", &result.stderr)] {
                if let Some(hash) = &output.hash {
                    files.insert(output_file(run_id, name), FileSum { bytes: output.kept, hash: hash.clone() });
                }
            }
        }
        Event::AgentStateSaved { state, .. } => file_of(&mut files, state),
        Event::Rewound { agent_state: Some(state), .. } => file_of(&mut files, state),
        Event::RecordsLost { state, .. } => {
            if let Some(state) = &state.agent_state {
                file_of(&mut files, state);
            }
        }
        Event::Scrubbed { sums, .. } => files.clone_from(sums),
        _ => {}
    }
    files
}

fn file_of(files: &mut BTreeMap<String, FileSum>, state: &AgentState) {
    if let Content::File { name, bytes, hash: Some(hash) } = &state.content {
        files.insert(name.clone(), FileSum { bytes: *bytes, hash: hash.clone() });
    }
}

fn output_file(run_id: &RunId, stream: &str) -> String {
    format!("{run_id}.{stream}")
}

fn rare(data: &mut Fields, seq: u64, event: &Event) -> &'static str {
    match event {
        Event::SessionCreated { meta, shell } => {
            created(data, meta, shell);
            "session_created"
        }
        Event::ShellStarted { generation } => data.as_they_are("shell_started", [("generation", generation)]),
        Event::ShellStopped { reason, notices } => {
            data.text("reason", reason);
            data.unless_empty("notices", notices);
            "shell_stopped"
        }
        Event::Restarted { shell } => data.as_they_are("session_restarted", [("shell", shell)]),
        Event::RunDetached { run_id } => data.as_they_are("run_detached", [("run_id", run_id)]),
        Event::ProcessesLeft { processes } => data.as_they_are("processes_left", [("processes", processes)]),
        Event::ServiceStarted { service_id, spec } => {
            data.text("service_id", service_id.as_str());
            data.as_they_are("service_started", [("spec", spec)])
        }
        Event::ServiceLive { service_id, stamps, restarts } => {
            data.text("service_id", service_id.as_str());
            data.number("restarts", u64::from(*restarts));
            data.as_they_are("service_live", [("stamps", stamps)])
        }
        Event::ServiceReady { service_id } => data.as_they_are("service_ready", [("service_id", service_id)]),
        Event::ServiceEnded { service_id, status, end, notices } => {
            data.text("service_id", service_id.as_str());
            data.value("status", status);
            data.unless_empty("notices", notices);
            data.as_they_are("service_ended", [("end", end)])
        }
        Event::SessionDeleted { by, kept_as } => {
            data.maybe("by", by.as_deref());
            data.as_they_are("session_deleted", [("kept_as", kept_as)])
        }
        Event::SessionEnded { reason } => data.as_they_are("session_ended", [("reason", reason)]),
        Event::AgentStateSaved { state, .. } => {
            agent_state(data, state);
            "agent_state_saved"
        }
        Event::MessageAdded { message, .. } => {
            data.number("seq_id", message.seq_id);
            data.text("role", &message.role);
            data.as_they_are("message_added", [("content", &message.content)])
        }
        Event::Scrubbed { by, seqs, files, checkpoints, .. } => {
            data.maybe("by", by.as_deref());
            data.value("seqs", seqs);
            if !checkpoints.is_empty() {
                data.value("checkpoints", checkpoints);
            }
            data.as_they_are("scrubbed", [("files", files)])
        }
        Event::Checkpointed { .. } | Event::Rewound { .. } | Event::Forked { .. } => branch(data, event),
        Event::RecordsLost { from, reason, state } => {
            records_lost(data, *from..seq, reason, state);
            RECORDS_LOST
        }
        // Those that are common are told by the caller, and a destroyed session has no lines.
        Event::RunStarted { .. }
        | Event::RunFinished { .. }
        | Event::RunInput { .. }
        | Event::Noted { .. }
        | Event::SessionDestroyed => "session_destroyed",
    }
}

/// Records that no disk took. What they led to is known, so the session can be taken back to here and to what follows.
fn records_lost(data: &mut Fields, lost: Range<u64>, reason: &str, state: &SessionState) {
    data.number("from", lost.start);
    data.number("through", lost.end.saturating_sub(1));
    data.text("reason", reason);
    data.value("shell", &state.shell);
    data.value("files", &state.files);
    if let Some(state) = &state.agent_state {
        let mut fields = Fields::default();
        agent_state(&mut fields, state);
        data.put("agent_state", Value::Object(fields.0));
    }
}

/// What was typed into a command.
fn typed(data: &mut Fields, event: &Event) {
    let Event::RunInput { run_id, input, bytes, hidden, end, by } = event else { return };
    data.text("run_id", run_id.as_str());
    data.maybe("by", by.as_deref());
    if *hidden {
        data.put("hidden", Value::Bool(true));
    } else {
        data.bytes("input", input);
    }
    if let Some(bytes) = bytes {
        data.number("bytes", *bytes);
        let left_out = bytes.saturating_sub(input.as_bytes().len() as u64);
        if left_out > 0 {
            data.number("truncated", left_out);
        }
    }
    if *end {
        data.put("end", Value::Bool(true));
    }
}

/// What tells of a session's files and of the branches of its time.
fn branch(data: &mut Fields, event: &Event) -> &'static str {
    match event {
        Event::Rewound { to, by, files, kept_back, shell, agent_state: state, notices } => {
            data.number("to", *to);
            data.maybe("by", by.as_deref());
            data.value("files", files);
            data.unless_empty("kept_back", kept_back);
            data.unless_empty("notices", notices);
            if let Some(state) = state {
                let mut fields = Fields::default();
                agent_state(&mut fields, state);
                data.put("agent_state", Value::Object(fields.0));
            }
            data.as_they_are("session_rewound", [("shell", shell)])
        }
        Event::Forked { session_id, at } => {
            data.text("session_id", session_id.as_str());
            data.as_they_are("session_forked", [("at", at)])
        }
        other => {
            if let Event::Checkpointed { checkpoint } = other {
                data.all(checkpoint);
            }
            "checkpoint_created"
        }
    }
}

fn created(data: &mut Fields, meta: &SessionMeta, shell: &ShellState) {
    data.value("agent", &meta.agent);
    data.put("agent_config", meta.agent_config.clone());
    data.maybe("by", meta.by.as_deref());
    if let Some(origin) = &meta.forked_from {
        data.value("forked_from", origin);
    }
    data.bytes("workspace", &meta.workspace);
    data.bytes("cwd", &shell.cwd);
    data.value("shell", shell);
}

fn finished(data: &mut Fields, run_id: &RunId, result: &RunResult, delta: &ShellDelta, beside: Beside<'_>) {
    data.text("tool_name", TOOL_NAME);
    data.put("parameters", Value::Object(beside.parameters.cloned().unwrap_or_default()));
    data.text("run_id", run_id.as_str());
    data.put("error", error(result).map_or(Value::Null, Value::String));
    data.put("duration", (result.duration_us as f64 / 1e6).into());
    data.text("status", status(result.status));
    data.put("exit_code", result.exit_code.map_or(Value::Null, Value::from));
    data.maybe("signal", result.signal.as_deref());
    stream(data, "output", "stdout", &result.stdout, run_id, beside.outputs);
    stream(data, "stderr", "stderr", &result.stderr, run_id, beside.outputs);
    data.bytes("cwd", &result.cwd);
    if result.changes != Default::default() {
        data.value("changes", &result.changes);
    }
    if let Some(late) = &result.background_output {
        data.bytes("background_output", late);
    }
    data.unless_empty("notices", &result.notices);
    if !delta.is_empty() {
        data.value("delta", delta);
    }
}

fn status(status: RunStatus) -> &'static str {
    match status {
        RunStatus::Exited => "exited",
        RunStatus::TimedOut => "timed_out",
        RunStatus::Interrupted => "interrupted",
        RunStatus::Running => "running",
        RunStatus::Lost => "lost",
    }
}

/// What went wrong, in few words; nothing if nothing did.
fn error(result: &RunResult) -> Option<String> {
    let signal = result.signal.as_deref();
    match (result.status, result.exit_code, signal) {
        (RunStatus::Running, ..) | (RunStatus::Exited, Some(0) | None, None) => None,
        (RunStatus::Exited, _, Some(signal)) => Some(format!("ended by signal {signal}")),
        (RunStatus::Exited, Some(code), None) => Some(format!("exit code {code}")),
        (RunStatus::TimedOut, ..) => Some("timed out".to_owned()),
        (RunStatus::Interrupted, _, Some(signal)) => Some(format!("interrupted by {signal}")),
        (RunStatus::Interrupted, ..) => Some("interrupted".to_owned()),
        (RunStatus::Lost, ..) => Some("lost: outcome unknown".to_owned()),
    }
}

/// A stream under two names: `output`, which readers know, and `stdout_bytes` and so on for what is beside it.
fn stream(data: &mut Fields, text: &str, name: &str, output: &Output, run_id: &RunId, outputs: Option<&Path>) {
    data.put(&format!("{name}_bytes"), output.total.into());
    match &output.inline {
        Some(bytes) => {
            data.text(text, &bytes.to_text());
            if bytes.as_str().is_none() {
                data.put(&format!("{name}_base64"), STANDARD.encode(bytes.as_bytes()).into());
            }
        }
        None if output.kept > 0 => {
            let file = output_file(run_id, name);
            let head = outputs.and_then(|directory| head_of(&directory.join(&file))).unwrap_or_default();
            data.put(text, head.into());
            data.put(&format!("{name}_file"), file.into());
        }
        None => data.text(text, ""),
    }
    if let Some(tail) = &output.tail {
        data.bytes(&format!("{name}_tail"), tail);
    }
}

/// The beginning of a file as text. It may be gone by now: outputs are given back when they are old.
fn head_of(path: &Path) -> Option<String> {
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(HEAD_BYTES).read_to_end(&mut bytes).ok()?;
    // A line that the cut went through is left out, so that a secret in it is not shown by half.
    if bytes.len() as u64 == HEAD_BYTES
        && let Some(end) = memchr::memrchr(b'\n', &bytes)
    {
        bytes.truncate(end + 1);
    }
    // Without lines, at least no character is cut.
    if let Err(error) = std::str::from_utf8(&bytes)
        && error.error_len().is_none()
    {
        bytes.truncate(error.valid_up_to());
    }
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

fn agent_state(data: &mut Fields, state: &AgentState) {
    data.number("version", state.version);
    data.text("media_type", &state.media_type);
    data.number("bytes", state.content.len());
    match &state.content {
        Content::Inline(bytes) => data.bytes("content", bytes),
        Content::File { name, hash, .. } => {
            data.text("file", name);
            data.maybe("hash", hash.as_deref());
        }
    }
}

/// The fields of a line while they are put together.
#[derive(Default)]
struct Fields(Map<String, Value>);

impl Fields {
    fn put(&mut self, name: &str, value: Value) {
        self.0.insert(name.to_owned(), value);
    }

    fn text(&mut self, name: &str, text: &str) {
        self.put(name, Value::String(text.to_owned()));
    }

    fn number(&mut self, name: &str, number: u64) {
        self.put(name, number.into());
    }

    fn maybe(&mut self, name: &str, text: Option<&str>) {
        if let Some(text) = text {
            self.text(name, text);
        }
    }

    /// Bytes as text, and beside it in base64 if they are none.
    fn bytes(&mut self, name: &str, bytes: &ByteString) {
        self.text(name, &bytes.to_text());
        if bytes.as_str().is_none() {
            self.put(&format!("{name}_base64"), STANDARD.encode(bytes.as_bytes()).into());
        }
    }

    fn value<T: Serialize>(&mut self, name: &str, value: &T) {
        // What a record holds was written to the journal as JSON before it came here.
        self.put(name, serde_json::to_value(value).unwrap_or_default());
    }

    /// All fields of a value that is an object.
    fn all<T: Serialize>(&mut self, value: &T) {
        if let Ok(Value::Object(fields)) = serde_json::to_value(value) {
            self.0.extend(fields);
        }
    }

    fn unless_empty<T: Serialize>(&mut self, name: &str, list: &[T]) {
        if !list.is_empty() {
            self.value(name, &list);
        }
    }

    /// Takes fields over and gives back the type, for events that have little to tell.
    fn as_they_are<'t, T: Serialize, const N: usize>(
        &mut self,
        event_type: &'t str,
        fields: [(&str, T); N],
    ) -> &'t str {
        for (name, value) in fields {
            self.value(name, &value);
        }
        event_type
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use shellkeep_session::{SessionId, Timestamp};

    fn data(event: Event, beside: Beside<'_>) -> (String, Value) {
        let record = Record { session_id: SessionId::parse("s").unwrap(), seq: 9, at: Timestamp::UNIX_EPOCH, event };
        let told = told(&record, beside);
        (told.event_type.to_owned(), told.data)
    }

    fn result() -> RunResult {
        RunResult {
            status: RunStatus::Exited,
            exit_code: Some(2),
            signal: None,
            stdout: Output { total: 3, kept: 3, inline: Some(vec![b'a', 0xff, b'\n'].into()), ..Output::default() },
            stderr: Output::default(),
            duration_us: 1_500_000,
            cwd: "/w".into(),
            changes: Default::default(),
            background_output: None,
            notices: Vec::new(),
        }
    }

    #[test]
    fn a_run_is_a_tool_call() {
        let (delta, run_id) = (Box::default(), RunId::from_seq(8));
        let event = Event::RunFinished { run_id, result: Box::new(result()), delta };
        let call = Call { cwd: Some("/a".into()), stdin_bytes: 9, ..Call::default() };
        let parameters = parameters(&"ls x".into(), Some(&call));
        let (event_type, data) = data(event, Beside { parameters: Some(&parameters), outputs: None });
        assert_eq!(event_type, "tool_call");
        let wanted = json!({
            "tool_name": "run_command", "parameters": {"command": "ls x", "cwd": "/a", "stdin_bytes": 9}, "run_id": "r8", "error": "exit code 2",
            "duration": 1.5, "status": "exited", "exit_code": 2, "output": "a\u{fffd}\n", "stdout_bytes": 3,
            "stdout_base64": "Yf8K", "stderr": "", "stderr_bytes": 0, "cwd": "/w",
        });
        assert_eq!(data, wanted);
    }

    #[test]
    fn a_long_output_is_told_by_its_file_and_its_beginning() {
        let directory = tempfile::TempDir::new().unwrap();
        std::fs::write(directory.path().join("r8.stdout"), "ü".repeat(5000)).unwrap();
        let stdout = Output { total: 10_000, kept: 10_000, ..Output::default() };
        let result = RunResult { stdout, signal: Some("KILL".to_owned()), exit_code: Some(137), ..result() };
        let event = Event::RunFinished { run_id: RunId::from_seq(8), result: Box::new(result), delta: Box::default() };
        let (_, data) = data(event, Beside { parameters: None, outputs: Some(directory.path()) });
        assert_eq!((&data["stdout_file"], &data["stdout_bytes"]), (&json!("r8.stdout"), &json!(10_000)));
        assert_eq!(data["output"], json!("ü".repeat(2048)));
        assert_eq!((&data["error"], &data["parameters"]), (&json!("ended by signal KILL"), &json!({})));
    }

    #[test]
    fn what_a_framework_tells_is_taken_down_as_it_is() {
        let told = json!({"model": "m", "tokens": {"in": 1}});
        let event = Event::Noted { event_type: "llm_call".to_owned(), data: told.clone(), author: Default::default() };
        assert_eq!(data(event, Beside::default()), ("llm_call".to_owned(), told));
    }
}
