//! Where facts and resources meet: one task per live session, the shell pool, runs and their output.
//!
//! The way of a command: a door calls [`Engine::run`]; [`engine`] finds or wakes the session's [`actor`]; the actor
//! takes a shell from the [`pool`], records that the command starts, and hands it to [`running`], which drives it to its
//! end; [`conclude`] decides what its end means; the actor records that and answers.
//!
//! - [`ops`]: the closed vocabulary of operations.
//! - [`engine`]: one method per operation.
//! - [`identities`]: the host and its agents, and who may do what.
//! - [`actor`]: the task that alone changes a session.
//! - [`admission`]: who may run a command now, and who waits.
//! - [`adaptive`]: limits that follow the pressure on the machine.
//! - [`running`]: a command from its first byte to its end: output, input, signals, timeout.
//! - `services`: what runs on beside the sessions; `adopt`: taking it over from a daemon that died.
//! - `quotas`: what may be used; `housekeeping`: what is looked after from time to time.
//! - `resume`: running a session's agent on from its last step.
//! - `checkpoints`: how files are kept; `pending`: what is begun and must be ended after a crash.
//! - [`alarm`]: a deadline that is moved with every command.
//! - `counts`: how many facts were recorded.
//! - [`conclude`]: how a run ended and what follows from it.
//! - [`cell`], [`stream`]: a run as its watchers see it.
//! - [`page`]: reading output piece by piece.
//! - `state_file`: the files of agents' states.
//! - [`output`], [`late`]: what a run wrote, and what came after it had been answered.
//! - [`translate`]: between the driver's facts and the session's state.
//! - [`masking`]: secrets, where they are masked before anything is kept.
//! - [`notices`]: the sentences a model reads when something did not come along.
//! - [`recover`]: what an earlier daemon left behind.
//! - `shares`, `work`: what is lent to callers, and who may keep a processor busy.
//! - [`crash`]: named points at which a test may kill the daemon.

pub mod actor;
pub mod adaptive;
pub mod admission;
mod adopt;
pub mod alarm;
mod background;
pub mod cell;
mod checkpoints;
pub mod conclude;
mod context;
mod counts;
pub mod crash;
mod data_dir;
mod disk;
pub mod engine;
mod file_views;
mod forks;
pub mod hang_up;
mod history;
mod housekeeping;
pub mod identities;
mod kept;
pub mod late;
mod lifetime;
mod live_runs;
pub mod masking;
mod names;
mod node_limits;
pub mod notices;
pub mod ops;
pub mod output;
pub mod page;
mod pending;
pub mod pool;
mod quotas;
mod recordings;
pub mod recover;
mod registry;
mod remover;
mod resume;
pub mod running;
mod secrets;
mod services;
mod session_files;
mod shares;
mod shells;
mod state_file;
mod stored;
pub mod stream;
mod sync;
mod thinning;
pub mod translate;
pub mod validate;
mod work;

pub use adaptive::{Adaptive, RealSenses, Senses};
pub use admission::{Admission, AdmissionConfig, AdmissionFigures};
pub use disk::Reclaim;
pub use engine::{
    Engine, EngineConfig, EventStream, ExportStream, FileOps, FromSession, Guest, HOLD_LIMIT, Hold, IdentityOps,
    KEEP_DELETED, LogStream, MAX_WAIT, NodeOps, OnStop, RecordOps, RunOps, ServiceOps, StartError, Visitor,
};
pub use hang_up::{Attached, HangUp, attached};
pub use identities::{Revocation, Scope};
pub use masking::RecordConfig;
pub use ops::*;
pub use resume::stream::ResumeStream;
pub use shares::{Full, Lent, Limits, Share};
pub use shellkeep_store::AuditEntry;
pub use shellkeep_store::DeletedSession;
pub use stream::RunStream;
