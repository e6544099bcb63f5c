//! Wire types: what goes over HTTP, as plain data. The server and its clients use the same types, so that a field
//! cannot be spelled in two ways. Nothing here does I/O, and nothing here is stored.
//!
//! - [`audit`]: who did what.
//! - [`daemon`]: the daemon itself, reload and stop.
//! - [`session`]: creating, finding and listing sessions.
//! - [`state`]: the state of a session's shell.
//! - [`run`]: a command and its result. [`run_list`]: lists of them.
//! - [`output`]: reading a run's output, sending it input and signals.
//! - [`screen`]: the terminal of a run. [`past_screen`]: what it showed before.
//! - [`service`]: services and their logs.
//! - [`quota`], [`node`]: limits and their use, and the status of the node and of those beside it.
//! - [`sandbox`]: how a session is confined.
//! - [`event_summary`]: events in one line each.
//! - [`token`]: tokens. [`console`]: how the console in the browser gets one.
//! - [`workspace_file`]: single files. [`files`]: checkpoints and differences.
//! - [`rewind`]: moments, rewind, fork, merge back.
//! - [`record`]: events, messages, the agent's state, proof. [`kv`]: the keyed store.
//! - [`resume`]: a message for a session's agent.
//! - [`health`]: the health of a daemon.
//! - [`hold`]: a person takes over a session.
//! - [`problem`]: errors, after RFC 9457.
//! - [`text`]: bytes in JSON.

pub mod audit;
pub mod console;
pub mod daemon;
pub mod event_summary;
pub mod files;
pub mod health;
pub mod hold;
pub mod kv;
pub mod node;
pub mod output;
pub mod past_screen;
pub mod problem;
mod query;
pub mod quota;
pub mod record;
pub mod resume;
pub mod rewind;
pub mod run;
pub mod run_list;
pub mod sandbox;
pub mod screen;
pub mod service;
pub mod session;
pub mod state;
pub mod text;
pub mod token;
mod whole;
pub mod workspace_file;

pub use audit::{AuditEntry, AuditList};
pub use console::{ConsoleCode, ConsoleCodeRequest, ConsoleLoginRequest, ConsoleRight};
pub use daemon::{ChangedSetting, DaemonStatus, Reloaded, SettingInForce, SettingsInForce, StopRequest, Stopping};
pub use event_summary::{
    EventBucket, EventKind, EventOverview, EventSummary, EventSummaryList, EventView, OverviewParams,
};
pub use files::{
    AgainstParams, ChangeKind, Checkpoint, CheckpointCause, CheckpointDetail, CheckpointList, CheckpointName,
    CheckpointParams, CheckpointUsage, DiffParams, DiffResponse, FileChange, FileHistory, HistoryEntry, LeftOut,
    PathParams,
};
pub use health::{Live, Readiness, ReadinessStatus};
pub use hold::{Held, HoldParams, HoldRequest, HoldResponse, ReleaseResponse, RunningNow};
pub use kv::{KvBatch, KvChanged, KvChangedKey, KvEntry, KvList, KvOp, KvOpKind, KvParams, KvWritten};
pub use node::{AgentEnded, ClusterNode, ClusterNodeStatus, DrainQuery, Node, NodeList, RunningCommand};
pub use output::{InputAccepted, InputRequest, OutputParams, OutputResponse, SignalRequest, SignalSent, StreamName};
pub use past_screen::{PastScreen, PastScreenList, PastScreenParams, PastScreenRow};
pub use problem::Problem;
pub use query::{Switch, why_unreadable};
pub use quota::{LimitChange, Quota, QuotasRequest, QuotasResponse};
pub use record::{
    AgentStateParams, AgentStateSaved, Bad, Event, EventList, EventListView, EventParams, EventRequest, ExportFormat,
    ExportParams, Head, Hole, Message, MessageAdded, MessageList, MessageParams, MessageRequest, NewEvent, NotReached,
    PostedEvents, ScrubReport, ScrubRequest, Signed, SnapshotParams, Verdict,
};
pub use resume::{AnswerEvent, ResumeRequest, ResumeResponse, ResumeStatus};
pub use rewind::{
    ForkRequest, MergeBackRequest, MergeBackResponse, Place, RewindRequest, RewindResponse, ServicesChoice, Side,
    UndoneKind,
};
pub use run::{
    BusyChoice, Changes, DisconnectChoice, NameChanges, NoticeView, OutputEvent, RunBy, RunDetail, RunParams,
    RunRequest, RunResponse, RunStatus, StartedEvent, StderrChoice, TimeoutChoice,
};
pub use run_list::{RunFilter, RunList, RunListParams, RunSummary};
pub use sandbox::{NetworkName, SandboxInForce, SandboxName, SandboxRequest, SandboxSource};
pub use screen::{
    ResizeRequest, ScreenCursor, ScreenFormat, ScreenParams, ScreenResponse, ScreenSpan, TerminalResized, TerminalSize,
};
pub use service::{
    AllServicesParams, LogEvent, LogParams, LogResponse, ReadyWhen, RestartChoice, Service, ServiceList, ServiceParams,
    ServiceStatus, StartServiceRequest, StopServiceRequest,
};
pub use session::{
    CreateSessionRequest, Deleted, ForkResponse, ForkedFrom, ListParams, Session, SessionList, SessionOrder,
};
pub use state::StateResponse;
pub use token::{CreateTokenRequest, IssuedToken, TokenInfo, TokenList, TokenRole};
pub use workspace_file::{
    FileEntry, FileKind, FileListing, FileRemoved, FileWritten, ListFilesParams, ReadFileParams, RemoveFileParams,
    WriteFileParams,
};

/// What `shellkeep mcp` asks a connection to be upgraded to: MCP, one JSON message per line.
pub const STDIO_PROTOCOL: &str = "shellkeep-mcp";

/// Where the answer to MCP's `initialize` names the client's session, in `_meta`.
pub const SESSION_META: &str = "shellkeep/session";
