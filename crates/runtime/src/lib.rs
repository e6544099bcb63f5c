//! Where facts and resources meet: one task per live session, the shell pool, runs and their output.
//!
//! The path of a command: a door calls [`Engine::run`]; [`engine`] finds or wakes the session's [`actor`]; the actor
//! takes a shell from the [`pool`], records that the command starts, and hands it to [`running`], which drives it to
//! its end; [`conclude`] decides what its end means; the actor records that and answers.
//!
//! - [`ops`]: the closed vocabulary of operations.
//! - [`engine`]: one method per operation.
//! - [`identities`]: the host and its agents, and who may do what.
//! - [`actor`]: the task that alone changes a session.
//! - [`admission`]: which commands may run now, and which wait.
//! - [`adaptive`]: limits that follow the pressure on the machine.
//! - [`running`]: a command from its first byte to its end: output, `input`, signals, timeout.
//! - `services`: long-running commands; `adopt`: taking them over from a daemon that died.
//! - `quotas`: limits set by the host; `housekeeping`: periodic tasks.
//! - `resume`: continuing a session's agent from its last step.
//! - `checkpoints`: how files are saved; `pending`: operations to complete after a crash.
//! - `cluster`: this node among others that share a store.
//! - [`alarm`]: a deadline that is moved with every command.
//! - `counts`: how many facts were recorded.
//! - [`conclude`]: how a run ended and what follows from it.
//! - [`cell`], [`stream`]: a run as its watchers see it.
//! - [`page`]: reading output piece by piece.
//! - `state_file`: the files of agents' states.
//! - [`output`], [`late`]: what a run wrote, before and after it was answered.
//! - [`translate`]: between the driver's facts and the session's state.
//! - [`masking`]: masking secrets before anything is stored; `found_values`: as many as can be masked.
//! - [`given_secrets`], `secret_sources`: the secrets that sessions are given, and where those come from.
//! - [`notices`]: the sentences a model reads when something was lost or limited.
//! - [`recover`]: what an earlier daemon left behind.
//! - [`past_sessions`]: sessions that only history has.
//! - `shares`, `work`: limits per caller, and turns for work that keeps a processor busy.
//! - `user_path`: looks at paths that callers name.
//! - [`crash`]: named points at which a test may kill the daemon.

pub mod actor;
pub mod adaptive;
pub mod admission;
mod adopt;
pub mod agent_use;
mod alarm;
mod background;
pub mod cell;
mod checkpoints;
mod cluster;
pub mod conclude;
mod console_codes;
mod context;
mod counts;
pub mod crash;
mod data_dir;
mod disk;
pub mod engine;
mod file_views;
mod flood;
mod forks;
mod found_values;
pub mod given_secrets;
pub mod hang_up;
mod history;
mod host_mounts;
mod housekeeping;
pub mod identities;
mod input;
mod kept;
pub mod late;
mod lifetime;
mod live_runs;
mod machine_users;
mod masked_piece;
pub mod masking;
mod names;
mod network;
mod newborn;
mod node_limits;
pub mod notices;
pub mod ops;
pub mod output;
mod own_tmp;
pub mod page;
pub mod past_sessions;
mod pending;
pub mod pool;
mod quotas;
mod recordings;
pub mod recover;
mod registry;
mod remover;
mod resume;
pub mod rooms;
mod running;
mod sandbox_advice;
mod sandbox_trial;
mod sandboxes;
pub mod screen;
mod secret_sources;
mod secrets;
mod services;
mod session_files;
mod shares;
mod shells;
mod spare_namespaces;
mod state_file;
mod stored;
pub mod stream;
mod sync;
pub mod tasks;
mod thinning;
mod token_holders;
pub mod translate;
mod user_path;
mod users;
pub mod validate;
mod work;

pub use adaptive::{Adaptive, RealSenses, Senses};
pub use admission::{Admission, AdmissionConfig, AdmissionFigures};
pub use cluster::{BlobPlace, ClusterConfig};
pub use console_codes::CODE_LIFETIME;
pub use disk::Reclaim;
pub use engine::{
    ClusterOps, Engine, EngineConfig, EventStream, ExportStream, FileOps, FleetChange, FleetStream, FromSession, Guest,
    HOLD_LIMIT, Hold, HoldOps, IdentityOps, KEEP_DELETED, LogStream, MAX_WAIT, NodeOps, OnStop, RecordOps, RunListOps,
    RunOps, SandboxOps, ServiceOps, StartError, Visitor,
};
pub use hang_up::{Attached, HangUp, attached};
pub use identities::{Revocation, Scope};
pub use machine_users::users_of_machine;
pub use masking::RecordConfig;
pub use ops::*;
pub use past_sessions::{PastEvents, PastPart, PastSession, PastSessions};
pub use resume::stream::ResumeStream;
pub use sandboxes::{AGENTS_DEFAULT, SandboxConfig};
pub use shares::{Full, Lent, Limits, Share, UNCOUNTED_BODY};
pub use shellkeep_process::most_descriptors;
pub use shellkeep_shared::{Closing, LEASE, WhenAlone};
pub use shellkeep_store::AuditEntry;
pub use shellkeep_store::DeletedSession;
pub use shellkeep_store::{SessionFilter, SessionOrder};
pub use stream::RunStream;
