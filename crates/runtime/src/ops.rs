//! The closed vocabulary of operations. Every door (HTTP, MCP, command line, library) translates to these and to
//! nothing else.

mod error;
mod files;
mod files_reason;
mod hint;
mod kv;
mod node;
mod records;
mod resume;
mod service;
mod workspace_file;

pub use error::{
    CheckpointError, OpError, RecordError, RunError, ServiceError, SessionError, TokenError, whole_seconds,
};
pub use files::*;
pub use files_reason::FilesReason;
pub use hint::Hint;
pub use kv::*;
pub use node::*;
pub use records::*;
pub use resume::*;
pub use service::*;
pub use shellkeep_store::{ReaderRole, TokenBearer};
pub use workspace_file::*;

use crate::hang_up::HangUp;
use shellkeep_session::{ByteString, Changes, Notice, RunId, RunStatus, SessionId, SessionMeta, Timestamp};
use shellkeep_store::DeletedSession;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

/// What an operation returns. An `async fn` is compiled in each crate that awaits it; a boxed future is compiled once, in
/// the crate that defines it. `docs/design/build.md` has the figures.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Default timeout of a command.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);
/// Longest timeout a caller may ask for: a day. What runs longer is a service.
pub const MAX_TIMEOUT: Duration = Duration::from_secs(24 * 60 * 60);
/// Bytes of each stream a result carries unless the caller says otherwise.
pub const DEFAULT_MAX_OUTPUT: usize = 1 << 20;
/// Most bytes of each stream a result may carry; the rest is read by offset.
pub const MAX_MAX_OUTPUT: usize = 16 << 20;
/// The tool that a command is called by unless the caller says otherwise.
pub const DEFAULT_TOOL: &str = "run_command";
/// Longest command text. Bash itself takes more, but nobody types it.
pub const MAX_COMMAND: usize = 16 << 20;
/// Longest `stdin` a call may carry.
pub const MAX_STDIN: usize = 16 << 20;
/// Most runs of one page of a list.
pub const MAX_RUN_PAGE: usize = 1000;
/// Bytes of a command's text in a list, so that a page of long scripts stays a page.
pub const MAX_LISTED_COMMAND: usize = 4096;
/// Most bytes one page of output holds.
pub const MAX_OUTPUT_PAGE: u64 = 16 << 20;

/// Make a session.
#[derive(Debug, Clone, Default)]
pub struct CreateSession {
    /// Its name; a UUID4 if none is given.
    pub session_id: Option<SessionId>,
    /// Whose it is.
    pub agent: Option<String>,
    /// Where its shell starts; its own workspace if none is given.
    pub cwd: Option<ByteString>,
    /// Variables on top of the daemon's environment.
    pub env: BTreeMap<String, String>,
    /// The agent's configuration, kept as it is.
    pub config: serde_json::Value,
}

/// What creating did.
#[derive(Debug, Clone)]
pub enum Created {
    /// There was none; now there is.
    New(SessionView),
    /// There was one with that name; it is unchanged.
    Existing(SessionView),
}

/// A session as callers see it.
#[derive(Debug, Clone)]
pub struct SessionView {
    /// What it was made with.
    pub meta: SessionMeta,
    /// When something last happened in it.
    pub last_active_at: Timestamp,
    /// Its working directory.
    pub cwd: ByteString,
    /// Whether it wears a shell now.
    pub live: bool,
    /// That shell's process id.
    pub shell_pid: Option<u32>,
    /// How many shells it has had.
    pub generation: u64,
    /// Number of its last record.
    pub seq: u64,
    /// Who removed it and when, if it is one that its agent removed.
    pub deleted: Option<DeletedSession>,
}

/// One page of sessions.
#[derive(Debug, Clone)]
pub struct SessionPage {
    /// Ordered by name.
    pub sessions: Vec<SessionView>,
    /// Where the next page starts, if there is one: pass it as `after`.
    pub next: Option<SessionId>,
}

/// Run a command.
#[derive(Debug, Clone)]
pub struct RunCommand {
    /// The text: any bytes but NUL.
    pub command: ByteString,
    /// How long it may take.
    pub timeout: Duration,
    /// Whether the caller waits for the end.
    pub blocking: bool,
    /// Working directory for this call only.
    pub cwd: Option<ByteString>,
    /// Exported variables for this call only.
    pub env: BTreeMap<String, String>,
    /// What the command reads; without it, end of file at once (or, when not blocking, what `input` sends).
    pub stdin: Option<ByteString>,
    /// Bytes of each stream in the result.
    pub max_output: usize,
    /// What to do at the timeout.
    pub on_timeout: OnTimeout,
    /// The caller's key: a second call with the same key returns the first one's result.
    pub request_id: Option<String>,
    /// What to do when the session is busy.
    pub if_busy: IfBusy,
    /// Whether the command gets a terminal (its output is then one stream, stdout).
    pub tty: bool,
    /// Whether what it writes to standard error goes into standard output, in the order of the writes.
    pub merge_stderr: bool,
    /// Ends the command when its caller hangs up; without it, the command goes on.
    pub hang_up: Option<HangUp>,
    /// The tool that the agent calls it by; `run_command` if none is given.
    pub tool_name: Option<String>,
    /// The id of the agent's token that asks. The engine sets it from its scope, whatever is given here.
    pub by: Option<String>,
}

impl RunCommand {
    /// A command with every setting at its default.
    pub fn new(command: impl Into<ByteString>) -> Self {
        Self {
            command: command.into(),
            timeout: DEFAULT_TIMEOUT,
            blocking: true,
            cwd: None,
            env: BTreeMap::new(),
            stdin: None,
            max_output: DEFAULT_MAX_OUTPUT,
            on_timeout: OnTimeout::Interrupt,
            request_id: None,
            if_busy: IfBusy::Wait,
            tty: false,
            merge_stderr: false,
            hang_up: None,
            tool_name: None,
            by: None,
        }
    }
}

/// What happens at the timeout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnTimeout {
    /// The command is ended; the session goes on with its state.
    Interrupt,
    /// The command runs on beside the session; the session goes on from its last state in a new shell.
    Background,
}

/// What happens when the session is busy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IfBusy {
    /// The command waits its turn.
    Wait,
    /// The call is refused.
    Reject,
}

/// A run as callers see it.
#[derive(Debug, Clone)]
pub struct RunView {
    /// Its id.
    pub run_id: RunId,
    /// Number of the record of its end: a rewind or fork to it has what the run did. While it runs, of its start.
    pub seq: u64,
    /// Its status.
    pub status: RunStatus,
    /// Exit code, once it has one.
    pub exit_code: Option<i32>,
    /// The signal that ended it, without `SIG`.
    pub signal: Option<String>,
    /// Standard output, head and tail, at most `max_output` bytes.
    pub stdout: StreamView,
    /// The same for standard error.
    pub stderr: StreamView,
    /// Wall time.
    pub duration: Duration,
    /// The session's working directory.
    pub cwd: ByteString,
    /// What it changed.
    pub changes: Changes,
    /// Late output of earlier background work.
    pub background_output: Option<ByteString>,
    /// What the caller should know.
    pub notices: Vec<Notice>,
    /// The id of the agent's token that asked for it; none if the host did.
    pub by: Option<String>,
}

/// A run with what it was asked to do.
#[derive(Debug, Clone)]
pub struct RunDetail {
    /// The run.
    pub run: RunView,
    /// The text.
    pub command: ByteString,
    /// When it started.
    pub started_at: Timestamp,
}

/// A run in a list, without its output.
#[derive(Debug, Clone, PartialEq)]
pub struct RunSummary {
    /// Its id.
    pub run_id: RunId,
    /// Number of the record of its end. While it runs, of its start.
    pub seq: u64,
    /// The text; the beginning of it, if it is longer than [`MAX_LISTED_COMMAND`].
    pub command: ByteString,
    /// Bytes of the whole text.
    pub command_bytes: usize,
    /// How it stands.
    pub status: RunStatus,
    /// Exit code, once it has one.
    pub exit_code: Option<i32>,
    /// The signal that ended it, without `SIG`.
    pub signal: Option<String>,
    /// When it started.
    pub started_at: Timestamp,
    /// Wall time, so far if it still runs.
    pub duration: Duration,
    /// The session's working directory afterwards, once it has ended.
    pub cwd: Option<ByteString>,
    /// Whether it runs on beside the session.
    pub background: bool,
    /// Bytes it wrote to standard output.
    pub stdout_bytes: u64,
    /// Bytes it wrote to standard error.
    pub stderr_bytes: u64,
    /// The caller's key.
    pub request_id: Option<String>,
    /// The id of the agent's token that asked for it; none if the host did.
    pub by: Option<String>,
}

/// A page of runs, newest first.
#[derive(Debug, Clone, PartialEq)]
pub struct RunPage {
    /// The runs.
    pub runs: Vec<RunSummary>,
    /// Where the next page starts, if there is one: pass it as `before`.
    pub next: Option<RunId>,
}

/// A stream of a run in a result.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StreamView {
    /// The bytes, or head and tail of them with a line in between that says how many are missing.
    pub bytes: Vec<u8>,
    /// Bytes the command wrote.
    pub total: u64,
    /// Whether `bytes` is not all of it.
    pub truncated: bool,
}

/// Which stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// Read a run's output.
#[derive(Debug, Clone)]
pub struct OutputQuery {
    /// Which stream.
    pub stream: Stream,
    /// First byte.
    pub offset: u64,
    /// Most bytes to return.
    pub limit: u64,
    /// Only the end (of what `offset` leaves).
    pub tail: Option<Tail>,
    /// Only lines that match this regular expression.
    pub grep: Option<String>,
}

/// How much of the end of a stream is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tail {
    /// The last bytes.
    Bytes(u64),
    /// The last lines. A last line without a line feed counts.
    Lines(u64),
}

/// A page of a run's output.
#[derive(Debug, Clone)]
pub struct OutputPage {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Where they start.
    pub offset: u64,
    /// Where to go on; equal to `total` at the end.
    pub next_offset: u64,
    /// Bytes written so far.
    pub total: u64,
    /// Whether the run has ended, so that `total` is final.
    pub complete: bool,
    /// Whether this is the standard error of a run that writes it into its standard output.
    pub merged: bool,
}

/// What a signal did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Signalled {
    /// It was sent to this run's processes.
    Sent(RunId),
    /// The command had not started, and will not.
    Cancelled,
}

/// What a streaming caller gets.
#[derive(Debug, Clone)]
pub enum RunChunk {
    /// Bytes of standard output.
    Stdout(Vec<u8>),
    /// Bytes of standard error.
    Stderr(Vec<u8>),
    /// The end.
    Result(Box<RunView>),
}

/// Make a token.
#[derive(Debug, Clone)]
pub struct NewToken {
    /// Whom it is for.
    pub bearer: NewBearer,
    /// What the host calls it.
    pub name: Option<String>,
}

/// Whom a new token is for.
#[derive(Debug, Clone)]
pub enum NewBearer {
    /// An agent.
    Agent {
        /// The agent.
        agent: String,
        /// Whether it may restart its sessions; as the host has set it for all if not given.
        may_restart: Option<bool>,
    },
    /// Somebody who only reads.
    Reader(ReaderRole),
}

/// A token as the host sees it: everything but its secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenView {
    /// Its public name, as in the audit trail.
    pub id: String,
    /// Whom it is for.
    pub bearer: TokenBearer,
    /// What the host calls it.
    pub name: Option<String>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was revoked, if it was.
    pub revoked_at: Option<Timestamp>,
}

/// A token that was just made.
#[derive(Clone)]
pub struct IssuedToken {
    /// The token.
    pub token: TokenView,
    /// Its secret, which is returned only here and not kept.
    pub secret: String,
}

impl std::fmt::Debug for IssuedToken {
    /// Without the secret, which must not end up in a log.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IssuedToken").field("token", &self.token).finish_non_exhaustive()
    }
}

/// The status of the engine.
#[derive(Debug, Clone)]
pub struct Health {
    /// Why it is degraded; empty when all is well.
    pub problems: Vec<String>,
    /// Sessions with a shell.
    pub live_shells: usize,
    /// Shells started ahead.
    pub spare_shells: usize,
}
