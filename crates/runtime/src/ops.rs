//! The closed vocabulary of operations. Every door (HTTP, MCP, command line, library) translates to these and to
//! nothing else.

mod cluster;
mod error;
mod files;
mod files_reason;
mod hint;
mod hold;
mod keys;
mod kv;
mod node;
mod records;
mod resume;
mod run_list;
mod sandbox;
mod service;
mod session_query;
mod terminal;
mod workspace_file;

pub use cluster::*;
pub use error::{
    CheckpointError, Conflict, Gone, OpError, RecordError, RunError, SearchNext, ServiceError, SessionError,
    TokenError, WhileBusy, whole_seconds,
};
pub use files::*;
pub use files_reason::FilesReason;
pub use hint::Hint;
pub use hold::*;
pub use keys::*;
pub use kv::*;
pub use node::*;
pub use records::*;
pub use resume::*;
pub use run_list::*;
pub use sandbox::*;
pub use service::*;
pub use session_query::SessionQuery;
pub use shellkeep_process::{Stream, TerminalSize};
pub use shellkeep_store::{ConsoleRight, ReaderRole, TokenBearer};
pub use terminal::*;
pub use workspace_file::*;

use crate::hang_up::HangUp;
use shellkeep_session::{
    ByteString, Changes, Notice, RunId, RunStatus, Sandbox, SessionId, SessionMeta, SessionPlace, Timestamp,
};
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
/// Longest timeout: a day. Anything longer is a service.
pub const MAX_TIMEOUT: Duration = Duration::from_secs(24 * 60 * 60);
/// Default number of bytes of each stream in a result.
pub const DEFAULT_MAX_OUTPUT: usize = 1 << 20;
/// Most bytes of each stream a result may carry; the rest is read by offset.
pub const MAX_MAX_OUTPUT: usize = 16 << 20;
/// The default tool name of a command.
pub const DEFAULT_TOOL: &str = "run_command";
/// Longest command text. Bash itself accepts more.
pub const MAX_COMMAND: usize = 16 << 20;
/// Longest `stdin` a call may carry.
pub const MAX_STDIN: usize = 16 << 20;
/// Maximum number of bytes per page of output.
pub const MAX_OUTPUT_PAGE: u64 = 16 << 20;

/// Create a session.
#[derive(Debug, Clone, Default)]
pub struct CreateSession {
    /// Its name; a UUID4 if none is given.
    pub session_id: Option<SessionId>,
    /// The user that its name was made for, if it was.
    pub user_id: Option<String>,
    /// The agent that it belongs to.
    pub agent: Option<String>,
    /// Where its shell starts; its own workspace if none is given.
    pub cwd: Option<ByteString>,
    /// Exported variables in addition to those that every session gets.
    pub env: BTreeMap<String, String>,
    /// The agent's configuration, stored unchanged.
    pub config: serde_json::Value,
    /// How far its processes are confined; at least as the host configured it.
    pub sandbox: Sandbox,
    /// The names of the secrets that it is given, besides those of its agent.
    pub secrets: Vec<String>,
}

/// The result of creating a session.
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
    /// Whether it has a shell now.
    pub live: bool,
    /// That shell's process id.
    pub shell_pid: Option<u32>,
    /// How many shells it has had.
    pub generation: u64,
    /// Number of its last record.
    pub seq: u64,
    /// Who deleted it and when, if its agent did.
    pub deleted: Option<DeletedSession>,
    /// Who holds it, if somebody does.
    pub hold: Option<HeldBy>,
    /// How far its processes are confined; none are left of a deleted session.
    pub sandbox: Option<Sandbox>,
}

/// One page of sessions.
#[derive(Debug, Clone, Default)]
pub struct SessionPage {
    /// In the order that was asked for. There may be fewer than asked for although there is a next page.
    pub sessions: Vec<SessionView>,
    /// Where the next page starts, if there is one: pass it as `after`.
    pub next: Option<SessionPlace>,
}

/// Run a command.
#[derive(Debug, Clone)]
pub struct RunCommand {
    /// The text: any bytes but NUL.
    pub command: ByteString,
    /// How long it may take.
    pub timeout: Duration,
    /// How long it waits for its turn; by default as long as it may take.
    pub patience: Option<Duration>,
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
    /// The idempotency key: a second call with the same key returns the first one's result.
    pub request_id: Option<String>,
    /// What to do when the session is busy.
    pub if_busy: IfBusy,
    /// The size of the command's terminal, if it gets one. Its output is then one stream, stdout.
    pub terminal: Option<TerminalSize>,
    /// Whether what it writes to standard error goes into standard output, in the order of the writes.
    pub merge_stderr: bool,
    /// Ends the command when its caller disconnects; without it, the command continues.
    pub hang_up: Option<HangUp>,
    /// The tool name; `run_command` by default.
    pub tool_name: Option<String>,
    /// The id of the caller's hold on the session, if it has one.
    pub hold: Option<String>,
    /// Whether a person at a terminal asks for it. Only the host may say so.
    pub is_person: bool,
    /// The id of the agent's token. The engine sets it from its scope, whatever is given here.
    pub by: Option<String>,
}

impl RunCommand {
    /// A command with every setting at its default.
    pub fn new(command: impl Into<ByteString>) -> Self {
        Self {
            command: command.into(),
            timeout: DEFAULT_TIMEOUT,
            patience: None,
            blocking: true,
            cwd: None,
            env: BTreeMap::new(),
            stdin: None,
            max_output: DEFAULT_MAX_OUTPUT,
            on_timeout: OnTimeout::Interrupt,
            request_id: None,
            if_busy: IfBusy::Wait,
            terminal: None,
            merge_stderr: false,
            hang_up: None,
            tool_name: None,
            hold: None,
            is_person: false,
            by: None,
        }
    }
}

/// What happens at the timeout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnTimeout {
    /// The command is killed; the session continues with its state.
    Interrupt,
    /// The command moves to the background; the session continues from its last state in a new shell.
    Background,
}

/// What happens when the session is busy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IfBusy {
    /// The command waits in the queue.
    Wait,
    /// The call is rejected.
    Reject,
}

/// A run as callers see it.
#[derive(Debug, Clone)]
pub struct RunView {
    pub run_id: RunId,
    /// Number of the record of its end: a rewind or fork to it includes the run's changes. While it runs, of its start.
    pub seq: u64,
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
    /// Late output of earlier background jobs.
    pub background_output: Option<ByteString>,
    /// What was typed at its terminal and that it did not read, while that is known. Empty if the terminal did not echo.
    pub unread_input: Vec<u8>,
    pub notices: Vec<Notice>,
    /// The id of the agent's token that requested it; none for the host.
    pub by: Option<String>,
}

/// A run with its command.
#[derive(Debug, Clone)]
pub struct RunDetail {
    pub run: RunView,
    pub command: ByteString,
    /// When it started.
    pub started_at: Timestamp,
    pub origin: Origin,
}

/// A stream of a run in a result.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StreamView {
    /// The bytes, or head and tail of them with a line in between that says how many are missing.
    pub bytes: Vec<u8>,
    /// Bytes the command wrote.
    pub total: u64,
    /// Whether `bytes` is truncated.
    pub truncated: bool,
    /// Bytes of the head: where the missing ones begin.
    pub head: usize,
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

/// How much of the end of a stream to return.
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
    pub bytes: Vec<u8>,
    /// Where they start.
    pub offset: u64,
    /// Where to continue; equal to `total` at the end.
    pub next_offset: u64,
    /// Bytes written so far.
    pub total: u64,
    /// Bytes from `offset` to `next_offset` that were not kept.
    pub dropped: u64,
    /// Whether the run has ended, so that `total` is final.
    pub complete: bool,
    /// Whether this is the standard error of a run that merges it into standard output.
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

/// Create a token.
#[derive(Debug, Clone)]
pub struct NewToken {
    /// Whom it is for.
    pub bearer: NewBearer,
    /// Its label.
    pub name: Option<String>,
}

/// Whom a new token is for.
#[derive(Debug, Clone)]
pub enum NewBearer {
    Agent {
        agent: String,
        /// Whether it may restart its sessions; by default the host's setting for all.
        may_restart: Option<bool>,
    },
    /// A read-only role.
    Reader(ReaderRole),
    /// A person at the console, for a working day.
    Console(ConsoleRight),
}

/// A token as the host sees it: everything but its secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenView {
    /// Its public name, as in the audit trail.
    pub id: String,
    /// Whom it is for.
    pub bearer: TokenBearer,
    /// Its label.
    pub name: Option<String>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was revoked, if it was.
    pub revoked_at: Option<Timestamp>,
    /// When it stops being valid, if it does.
    pub expires_at: Option<Timestamp>,
}

/// A new token.
#[derive(Clone)]
pub struct IssuedToken {
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
    /// Why it is degraded; empty if everything works.
    pub problems: Vec<String>,
    /// Sessions with a shell.
    pub live_shells: usize,
    /// Shells started in advance.
    pub spare_shells: usize,
    /// Whether this node is being drained, so that other nodes take over its sessions.
    pub draining: bool,
}
