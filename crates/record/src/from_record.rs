//! From a session's record to the type and the fields of its line.

use crate::line::Line;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use serde_json::{Map, Value};
use shellkeep_session::{
    AgentState, ByteString, Call, Claim, Content, Event, FileSum, Output, Record, RewindStep, RunId, RunResult,
    RunStatus, SessionMeta, SessionState, ShellDelta, ShellState,
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
pub struct LineContent<'a> {
    pub event_type: &'a str,
    pub data: Value,
    /// Files beside the recording that the line names.
    pub files: BTreeMap<String, FileSum>,
}

/// What a line needs that is not in its record.
#[derive(Clone, Copy, Default)]
pub struct Beside<'a> {
    /// What the run that ends was begun with, if it is known.
    pub parameters: Option<&'a Map<String, Value>>,
    /// The session's directory with long outputs.
    pub outputs: Option<&'a Path>,
}

/// The names of what a command may be begun with.
const PARAMETERS: [&str; 10] =
    ["command", "command_base64", "cwd", "cwd_base64", "env", "stdin", "stdin_base64", "stdin_bytes", "tty", "merged"];

/// What a command is begun with.
pub(crate) fn parameters(command: &ByteString, call: Option<&Call>) -> Map<String, Value> {
    let fields = Fields::default().bytes("command", command);
    let Some(Call { cwd, env, stdin, stdin_bytes, tty, merged }) = call else { return fields.0 };
    let mut fields = fields.maybe_bytes("cwd", cwd.as_ref());
    if !env.is_empty() {
        fields = fields.value("env", env);
    }
    fields = fields.maybe_bytes("stdin", stdin.as_ref());
    if *stdin_bytes > 0 {
        fields = fields.value("stdin_bytes", stdin_bytes);
    }
    fields.if_true("tty", *tty).if_true("merged", *merged).0
}

/// What a command was begun with, from the line that told of it.
pub(crate) fn parameters_of(started: &Value) -> Map<String, Value> {
    let found = |name: &&str| Some(((*name).to_owned(), started.get(*name)?.clone()));
    PARAMETERS.iter().filter_map(found).collect()
}

/// The line of a record.
pub fn line_content<'a>(record: &'a Record, beside: Beside<'_>) -> LineContent<'a> {
    let new = Fields::default;
    let fields = match &record.event {
        // An agent's framework chooses type and fields itself.
        Event::Noted { event_type, data, .. } => {
            return LineContent { event_type, data: data.clone(), files: BTreeMap::new() };
        }
        Event::SessionCreated { meta, shell } => created(meta, shell),
        Event::RunStarted { run_id, request_id, command, call, by, files_unkept } => {
            let fields = Fields(parameters(command, call.as_deref())).value("run_id", run_id);
            let fields = fields.maybe("request_id", request_id.as_deref()).maybe("by", by.as_deref());
            fields.if_true("files_unkept", *files_unkept)
        }
        Event::RunFinished { run_id, result, delta } => finished(run_id, result, delta, beside),
        Event::RunInput { run_id, input, bytes, hidden, end, by } => {
            let fields = new().value("run_id", run_id).maybe("by", by.as_deref());
            typed(fields, input, *bytes, *hidden).if_true("end", *end)
        }
        Event::RunDetached { run_id } => new().value("run_id", run_id),
        Event::ShellStarted { generation } => new().value("generation", generation),
        Event::ProcessesLeft { processes, unkept } => {
            let fields = new().value("processes", processes).unless_empty("descriptors", &unkept.descriptors);
            fields.unless_empty("variables", &unkept.variables)
        }
        Event::ShellStopped { reason, notices } => new().text("reason", reason).unless_empty("notices", notices),
        Event::Restarted { shell } => new().value("shell", shell),
        Event::ServiceStarted { service_id, spec } => new().value("service_id", service_id).value("spec", spec),
        Event::ServiceLive { service_id, stamps, restarts } => {
            let fields = new().value("service_id", service_id).value("restarts", restarts);
            fields.value("stamps", stamps)
        }
        Event::ServiceReady { service_id } => new().value("service_id", service_id),
        Event::ServiceEnded { service_id, status, end, notices } => {
            let fields = new().value("service_id", service_id).value("status", status).value("end", end);
            fields.unless_empty("notices", notices)
        }
        Event::SessionEnded { reason } => new().value("reason", reason),
        Event::AgentStateSaved { state, .. } => agent_state(state),
        Event::KvChanged { version, changes, .. } => new().value("version", version).value("changes", changes),
        Event::MessageAdded { message, .. } => {
            let fields = new().value("seq_id", &message.seq_id).text("role", &message.role);
            fields.value("content", &message.content)
        }
        Event::Scrubbed { by, seqs, files, kv, checkpoints, .. } => {
            let fields = new().maybe("by", by.as_deref()).value("seqs", seqs).value("files", files);
            let fields = if kv.is_empty() { fields } else { fields.value("kv", kv) };
            fields.unless_empty("checkpoints", checkpoints)
        }
        Event::Checkpointed { checkpoint } => new().all(checkpoint),
        Event::Rewound { to, step, by, files, kept_back, shell, agent_state, kv, notices } => {
            let fields = new().value("to", to).maybe("step", step.map(RewindStep::as_str)).maybe("by", by.as_deref());
            let fields = fields.value("files", files).value("shell", shell);
            let fields = fields.unless_empty("kept_back", kept_back).unless_empty("notices", notices);
            let fields = if let Some(kv) = kv { fields.value("kv", kv) } else { fields };
            fields.maybe_agent_state(agent_state.as_deref())
        }
        event @ Event::Forked { .. } => forked(event),
        Event::SandboxChanged { sandbox, by } => new().value("sandbox", sandbox).maybe("by", by.as_deref()),
        Event::NetworkRefused { host } => new().value("host", host),
        Event::Owned { claim, because, state } => owned(claim, because, state.as_deref()),
        Event::RecordsLost { from, reason, state } => records_lost(*from..record.seq, reason, state),
        Event::SessionDestroyed => new(),
        Event::SessionDeleted { by, kept_as } => new().maybe("by", by.as_deref()).value("kept_as", kept_as),
    };
    LineContent { event_type: record.event.shown_type(), data: Value::Object(fields.0), files: files(&record.event) }
}

/// The line of a record without a proof, for one whose recording is lost. `started` is the record with which the run began
/// that ends here.
pub fn unproven_line(record: &Record, started: Option<&Record>) -> Line {
    let parameters = started.and_then(|started| match &started.event {
        Event::RunStarted { command, call, .. } => Some(parameters(command, call.as_deref())),
        _ => None,
    });
    let LineContent { event_type, data, .. } =
        line_content(record, Beside { parameters: parameters.as_ref(), outputs: None });
    Line {
        seq: record.seq,
        event_type: event_type.to_owned(),
        timestamp: record.at,
        author: record.event.author(),
        data,
        ..Line::default()
    }
}

/// The files that a record mentions, as far as their hashes are known.
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
        Event::RecordsLost { state, .. } | Event::Owned { state: Some(state), .. } => {
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

/// Records that no disk took. What they led to is known, so the session can be taken back to here and to what follows.
fn records_lost(lost: Range<u64>, reason: &str, state: &SessionState) -> Fields {
    let fields = Fields::default().value("from", &lost.start).value("through", &lost.end.saturating_sub(1));
    fields.text("reason", reason).whole(state)
}

/// The node that may write from here on, and what it found if it took the session over.
fn owned(claim: &Claim, because: &str, state: Option<&SessionState>) -> Fields {
    let fields = Fields::default().text("node", &claim.node).value("claim", claim).text("reason", because);
    if let Some(state) = state { fields.whole(state) } else { fields }
}

/// What was typed into a command.
fn typed(mut fields: Fields, input: &ByteString, bytes: Option<u64>, hidden: bool) -> Fields {
    fields = match hidden {
        true => fields.if_true("hidden", true),
        false => fields.bytes("input", input),
    };
    let Some(bytes) = bytes else { return fields };
    fields = fields.value("bytes", &bytes);
    match bytes.saturating_sub(input.as_bytes().len() as u64) {
        0 => fields,
        left_out => fields.value("truncated", &left_out),
    }
}

fn created(meta: &SessionMeta, shell: &ShellState) -> Fields {
    let mut fields = Fields::default()
        .value("agent", &meta.agent)
        .value("agent_config", &meta.agent_config)
        .maybe("by", meta.by.as_deref());
    if let Some(origin) = &meta.forked_from {
        fields = fields.value("forked_from", origin);
    }
    if !meta.sandbox.is_none() {
        fields = fields.value("sandbox", &meta.sandbox);
    }
    if !meta.secrets.is_empty() {
        fields = fields.value("secrets", &meta.secrets);
    }
    fields.bytes("workspace", &meta.workspace).bytes("cwd", &shell.cwd).value("shell", shell)
}

fn forked(event: &Event) -> Fields {
    let Event::Forked { session_id, at, diverged_on, notices } = event else { return Fields::default() };
    let fields = Fields::default().value("session_id", session_id).value("at", at);
    fields.maybe("diverged_on", diverged_on.as_deref()).unless_empty("notices", notices)
}

fn finished(run_id: &RunId, result: &RunResult, delta: &ShellDelta, beside: Beside<'_>) -> Fields {
    let mut fields = Fields::default()
        .text("tool_name", TOOL_NAME)
        .put("parameters", Value::Object(beside.parameters.cloned().unwrap_or_default()))
        .value("run_id", run_id)
        .value("error", &error(result))
        .put("duration", (result.duration_us as f64 / 1e6).into())
        .text("status", result.status.as_str())
        .value("exit_code", &result.exit_code)
        .maybe("signal", result.signal.as_deref());
    fields = stream(fields, ["output", "stdout"], &result.stdout, run_id, beside.outputs);
    fields = stream(fields, ["stderr", "stderr"], &result.stderr, run_id, beside.outputs);
    fields = fields.bytes("cwd", &result.cwd);
    if result.changes != Default::default() {
        fields = fields.value("changes", &result.changes);
    }
    fields = fields.maybe_bytes("background_output", result.background_output.as_ref());
    fields = fields.unless_empty("notices", &result.notices);
    if let Some(terminal) = &result.terminal {
        fields = fields.value("terminal", terminal);
    }
    if delta.is_empty() { fields } else { fields.value("delta", delta) }
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
fn stream(fields: Fields, [text, name]: [&str; 2], output: &Output, run_id: &RunId, outputs: Option<&Path>) -> Fields {
    let mut fields = fields.value(&format!("{name}_bytes"), &output.total);
    fields = match &output.inline {
        Some(bytes) if bytes.as_str().is_none() => {
            fields.text(text, &bytes.to_text()).put(&format!("{name}_base64"), STANDARD.encode(bytes.as_bytes()).into())
        }
        Some(bytes) => fields.text(text, &bytes.to_text()),
        None if output.kept > 0 => {
            let file = output_file(run_id, name);
            let head = outputs.and_then(|directory| head_of(&directory.join(&file))).unwrap_or_default();
            fields.put(text, head.into()).put(&format!("{name}_file"), file.into())
        }
        None => fields.text(text, ""),
    };
    fields.maybe_bytes(&format!("{name}_tail"), output.tail.as_ref())
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

fn agent_state(state: &AgentState) -> Fields {
    let fields = Fields::default()
        .value("version", &state.version)
        .text("media_type", &state.media_type)
        .value("bytes", &state.content.len());
    match &state.content {
        Content::Inline(bytes) => fields.bytes("content", bytes),
        Content::File { name, hash, .. } => fields.text("file", name).maybe("hash", hash.as_deref()),
    }
}

/// The fields of a line while they are put together.
#[derive(Default)]
struct Fields(Map<String, Value>);

impl Fields {
    fn put(mut self, name: &str, value: Value) -> Self {
        self.0.insert(name.to_owned(), value);
        self
    }

    fn text(self, name: &str, text: &str) -> Self {
        self.put(name, Value::String(text.to_owned()))
    }

    fn maybe(self, name: &str, text: Option<&str>) -> Self {
        match text {
            Some(text) => self.text(name, text),
            None => self,
        }
    }

    fn if_true(self, name: &str, is_true: bool) -> Self {
        if is_true { self.put(name, Value::Bool(true)) } else { self }
    }

    /// Bytes as text, and beside it in base64 if they are not UTF-8.
    fn bytes(self, name: &str, bytes: &ByteString) -> Self {
        let fields = self.text(name, &bytes.to_text());
        match bytes.as_str() {
            Some(_) => fields,
            None => fields.put(&format!("{name}_base64"), STANDARD.encode(bytes.as_bytes()).into()),
        }
    }

    fn maybe_bytes(self, name: &str, bytes: Option<&ByteString>) -> Self {
        match bytes {
            Some(bytes) => self.bytes(name, bytes),
            None => self,
        }
    }

    fn value<T: Serialize>(self, name: &str, value: &T) -> Self {
        // What a record holds was written to the journal as JSON before it came here.
        self.put(name, serde_json::to_value(value).unwrap_or_default())
    }

    /// All fields of a value that is an object.
    fn all<T: Serialize>(mut self, value: &T) -> Self {
        if let Ok(Value::Object(fields)) = serde_json::to_value(value) {
            self.0.extend(fields);
        }
        self
    }

    fn unless_empty<T: Serialize>(self, name: &str, list: &[T]) -> Self {
        if list.is_empty() { self } else { self.value(name, &list) }
    }

    /// What a session was at this record. The lines before it may be missing, so it is all that a rewind to here needs: also
    /// where the paths of the shell lead, and the version of the keyed store.
    fn whole(self, state: &SessionState) -> Self {
        let fields = self.bytes("workspace", &state.meta.workspace).value("shell", &state.shell);
        let fields = fields.value("files", &state.files).value("kv", &state.kv);
        fields.maybe_agent_state(state.agent_state.as_deref())
    }

    fn maybe_agent_state(self, state: Option<&AgentState>) -> Self {
        match state {
            Some(state) => self.put("agent_state", Value::Object(agent_state(state).0)),
            None => self,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use shellkeep_session::{SessionId, Timestamp};

    fn data(event: Event, beside: Beside<'_>) -> (String, Value) {
        let record = Record { session_id: SessionId::parse("s").unwrap(), seq: 9, at: Timestamp::UNIX_EPOCH, event };
        let content = line_content(&record, beside);
        (content.event_type.to_owned(), content.data)
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
            terminal: None,
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
