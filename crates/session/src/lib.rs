//! The facts of a session. Everything in this crate is a plain value: it can be compared, cloned and serialised, and it
//! holds no resources. There is no I/O and no clock; a time is always an argument.
//!
//! - [`id`]: names of sessions and runs, checked once at the edge.
//! - [`bytes`]: byte strings that stay readable in JSON.
//! - [`shell`]: the state of a shell (variables, functions, options, …) and the difference between two states.
//! - [`size`]: how large a shell's state is, and what of a change does not fit.
//! - [`run`]: a command, its result, its notices.
//! - [`sandbox`], [`hosts`], [`user_range`]: how far its processes are confined, what they may connect to, and whose they
//!   are.
//! - [`secret`]: which secrets it is given, by name.
//! - [`service`]: a command that keeps running next to the session.
//! - [`checkpoint`]: a workspace's files as they were.
//! - [`quota`]: limits that the host sets.
//! - [`agent`]: an agent's own state, and its conversation.
//! - [`resume`]: messages to an agent that were sent with a request id.
//! - [`author`]: who an event comes from.
//! - [`adapt`]: limits that follow the pressure on the machine.
//! - [`ownership`]: which node may write to a session.
//! - [`record`]: what happened, one numbered record at a time. The only way to change [`state`].
//! - [`event_name`]: the names of facts.
//! - [`json`]: stored values as JSON.
//! - [`skip`]: when a field is left out of JSON.
//! - [`relocate`]: a shell's state for a moved workspace.
//! - [`state`]: a session as a value.
//! - [`unkept`]: what only a live shell has.
//! - [`fold`]: a session's state as the fold of its records.
//! - [`decide`]: what may happen next.
//! - [`terminal`]: what happened at the terminal of a run.
//! - [`plan`]: what to do with a session after a crash.

pub mod adapt;
pub mod agent;
pub mod author;
pub mod bytes;
pub mod checkpoint;
pub mod decide;
pub mod event_name;
pub mod fold;
pub mod hold;
pub mod hosts;
pub mod id;
pub mod json;
pub mod kv;
pub mod ownership;
pub mod plan;
pub mod quota;
pub mod record;
pub mod relocate;
pub mod resume;
pub mod run;
pub mod sandbox;
pub mod scrub;
pub mod secret;
pub mod service;
pub mod session_place;
pub mod shell;
pub mod size;
pub mod skip;
pub mod state;
pub mod terminal;
pub mod typed_time;
pub mod unkept;
pub mod user_range;

pub use adapt::{Controller, Limit, LimitChange, LimitName, PressureReading};
pub use agent::{AgentState, Content, Message};
pub use author::{Author, Source};
pub use bytes::{ByteString, carried_over, unfinished};
pub use checkpoint::{Cause, Checkpoint, FilesAt, LeftOut, Origin};
pub use event_name::EventName;
pub use hold::SessionHold;
pub use hosts::AllowedHost;
pub use id::{IdError, RunId, ServiceId, SessionId};
pub use jiff::Timestamp;
pub use json::Json;
pub use kv::{KvChange, KvRestored, KvRewound, KvScrubbed, KvState, KvTold, KvValue};
pub use ownership::{Claim, Claims};
pub use quota::{QuotaName, Quotas};
pub use record::{Event, FORMAT_VERSION, Record, RewindStep};
pub use resume::{ResumeMark, StoredResume};
pub use run::{Call, Changes, FileSum, Notice, NoticeCode, Output, RunKey, RunResult, RunStatus, StoredRun};
pub use sandbox::{Network, Sandbox};
pub use scrub::OutOfReach;
pub use secret::SecretSource;
pub use service::{Ready, RestartPolicy, Service, ServiceEnd, ServiceSpec, ServiceStamps, ServiceStatus, Stamp};
pub use session_place::SessionPlace;
pub use shell::{ShellDelta, ShellState};
pub use state::{ActiveRun, LeftProcess, SessionMeta, SessionState};
pub use terminal::{TerminalChange, TerminalEvent, TerminalEvents, TerminalLog};
pub use unkept::Unkept;
pub use user_range::UserRange;
