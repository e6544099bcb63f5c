//! What the nodes of a cluster share. Each session has a head in the shared tier, which says who may write to it, and the
//! records that a node needs to go on with it. The decisions are in [`shellkeep_session::ownership`]; this crate carries
//! them out where all nodes see the result.
//!
//! - [`tier`]: what a shared tier does.
//! - [`memory`]: one in memory, the reference for the contract that all tiers keep.
//! - [`redis`]: one in Redis or Valkey, with scripts in Lua.
//! - [`postgres`]: one in PostgreSQL.
//! - [`ship`]: what brings a node's records to the tier, and those who wait for it.
//! - [`counted`]: services of agents that count towards limits of all nodes.
//! - [`admit`]: whether a node may take part.
//! - [`alone`]: what a node may do while the tier is unreachable; `tenure`: for how long.
//! - `given`: which nodes have given their sessions to a tier that was emptied.
//! - `note_file`: a file with what a node knows of others.
//! - `worker`: the thread of the ship; `appender`: its task, which appends on a [`Pipe`] if the tier has one; `turns`: which of them uses the tier; `lanes`: what they and the ship share; `lane`: what they know of one session;
//!   `to_pack`: sessions that sleep and are to be made smaller.

pub mod admit;
pub mod alone;
pub mod counted;
pub mod memory;
pub mod postgres;
pub mod redis;
pub mod ship;
pub mod tier;

mod appender;
mod drain;
mod given;
mod lane;
mod lanes;
mod note_file;
mod tenure;
mod to_pack;
mod turns;
mod worker;

pub use admit::{NotAdmitted, admit};
pub use alone::{Alone, Lacking, Unserved};
pub use counted::{AgentCounts, CountedService};
pub use drain::Drain;
pub use ship::{Closing, Left, Moved, Settled, Ship, ShipOptions, Start};
pub use tenure::{Remembered, WhenAlone};
pub use tier::{
    AgentService, Append, Appended, Appending, ClaimAnswer, ClaimRequest, CountAnswer, Create, Down, ForkNote, Found,
    KeptFiles, Loaded, NoClaim, NodeEntry, OpenError, Pipe, PipeError, REMEMBERED, RemovedSession, SharedToken, Tier,
    UsedByAgent,
};

/// How long a node keeps a session without a word: others take it over afterwards.
pub const LEASE: std::time::Duration = std::time::Duration::from_secs(5);

/// How URLs of PostgreSQL begin.
const POSTGRES: [&str; 2] = ["postgres://", "postgresql://"];

/// Opens the tier that a URL names: `redis://HOST:PORT/DB`, `redis+sentinel://HOST:PORT,HOST:PORT/NAME`, `rediss://` and
/// `rediss+sentinel://` with TLS, or `postgres://HOST:PORT/DATABASE`. Nothing is connected yet: an unreachable server does not prevent a start; one that
/// refuses the user, the password or the database does ([`admit`]).
pub fn open(url: &str) -> Result<Box<dyn Tier>, OpenError> {
    if POSTGRES.iter().any(|scheme| url.starts_with(scheme)) {
        return Ok(Box::new(postgres::PostgresTier::new(url)?));
    }
    Ok(Box::new(redis::RedisTier::new(url)?))
}

/// Whether a store's URL names a shared tier.
pub fn is_shared(url: &str) -> bool {
    let redis = ["redis://", "rediss://", "redis+sentinel://", "rediss+sentinel://"];
    redis.iter().chain(&POSTGRES).any(|scheme| url.starts_with(scheme))
}
