//! What a shared tier does. One thread uses it, so it may block and needs no locks.

use serde::{Deserialize, Serialize};
use shellkeep_session::ownership::{self, Ask, Claim, Claimed, Head, Point, Refusal};
use shellkeep_session::{ServiceId, SessionId, Timestamp};
use std::pin::Pin;
use std::time::Duration;

/// How long it is remembered that a session was removed: until then a node that still has a copy does not bring it back. And that
/// a node left.
pub const REMEMBERED: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// How long a name that was given back without a record is remembered: an agent could leave any number of them behind. Longer
/// than an append or a claim can be on its way, so that the next owner has a later epoch than every one that is still used.
pub(crate) const UNUSED: Duration = Duration::from_secs(60);

/// The tier does not answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Down {
    /// What it, or the network, said.
    pub reason: String,
    /// It answers, but not with what was asked for.
    pub answers: bool,
    /// It refuses this node until the settings are changed: the user, the password or the database is wrong.
    pub is_refused: bool,
}

impl Down {
    /// It does not answer at all.
    pub fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), answers: false, is_refused: false }
    }
}

/// Why a URL names no tier.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// The URL cannot be used.
    #[error(
        "'{url}' is not a shared store: {reason}; use redis://HOST:PORT/DB, \
         redis+sentinel://HOST:PORT,HOST:PORT/NAME, rediss:// or rediss+sentinel:// for TLS, or \
         postgres://USER@HOST:PORT/DATABASE, with ?sslmode=verify-full for TLS"
    )]
    BadUrl {
        /// What was given, without its password.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
}

/// A claim on a session.
#[derive(Debug, Clone)]
pub struct ClaimRequest {
    /// The session.
    pub session_id: SessionId,
    pub ask: Ask,
    /// The asker's data directory, so that the next owner can tell which paths were in it.
    pub data_dir: String,
    /// Whose session it is, if the asker knows.
    pub agent: Option<String>,
    /// The session is to be created: one that has records is then left alone.
    pub create: Option<Create>,
}

/// What limits the creation of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Create {
    /// How many sessions its agent may have.
    pub most_of_agent: u64,
}

/// The answer to a [`ClaimRequest`].
pub type ClaimAnswer = Result<Claimed, NoClaim>;

/// Why a session cannot be claimed by anybody now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoClaim {
    /// It was removed.
    Removed,
    /// It is new, and its agent has as many sessions as it may have.
    Full {
        /// How many these are.
        used: u64,
    },
}

/// A session that was removed. When it was created tells it from others that had its name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RemovedSession {
    pub session_id: SessionId,
    pub created_at: Timestamp,
}

/// A service of an agent, which counts towards the limit that the agent has on all nodes together.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AgentService {
    pub agent: String,
    pub session_id: SessionId,
    pub service_id: ServiceId,
}

/// The answer to a service that is to be counted: the agent's services if it may have no more.
pub type CountAnswer = Result<(), Vec<AgentService>>;

/// What an agent has on all nodes together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UsedByAgent {
    pub sessions: u64,
    pub services: u64,
}

/// Records of one session.
#[derive(Debug, Clone)]
pub struct Append {
    /// The session.
    pub session_id: SessionId,
    /// Who writes.
    pub claim: Claim,
    /// The last record in the tier, as far as the writer knows.
    pub after: Point,
    /// Number of the first record that was made under this claim.
    pub from: u64,
    /// Number of the first of these records. If it has the state in place of lost ones, that of the first of them.
    pub first: u64,
    /// Number of the last record.
    pub through: u64,
    /// The records, each a line of JSON. None of them only renews the lease.
    pub lines: Vec<Vec<u8>>,
}

impl Append {
    /// The head afterwards, or why it is refused: by [`ownership::append`], or because there would be a gap before these.
    pub(crate) fn decide(&self, head: Option<&Head>) -> Result<Head, Refusal> {
        let next = ownership::append(head, &self.claim, &self.after, self.from, self.through)?;
        match head.filter(|head| self.first > head.last.seq + 1) {
            Some(head) => Err(Refusal::Apart(Box::new(head.clone()))),
            None => Ok(next),
        }
    }
}

/// The answer to an [`Append`]: the forks that its owner has not recorded yet, or why it was refused.
pub type Appended = Result<Vec<ForkNote>, Refusal>;

/// What another node wrote to a session and is not part of it. It is kept as a session of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForkNote {
    /// The session that has it.
    pub session_id: SessionId,
    /// Number of the last record that both have.
    pub at: u64,
    /// Number of the last record that the other node wrote.
    pub through: u64,
    /// The node that wrote it.
    pub node: String,
}

impl ForkNote {
    /// Notes as tiers keep them: lines of JSON. One of a later version that cannot be read stays for a node that can.
    pub(crate) fn all_of(lines: &str) -> Vec<Self> {
        lines.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }
}

/// What the tier says of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Its head.
    pub head: Head,
    /// Who holds the lease, if anybody does.
    pub lease: Option<Claim>,
    /// The data directory of its owner.
    pub data_dir: String,
    /// Whose session it is.
    pub agent: Option<String>,
    /// Its newest checkpoint that is complete outside of its node.
    pub files: Option<KeptFiles>,
    /// Its owner released it for good.
    pub is_free: bool,
    /// Forks that no owner has recorded yet.
    pub forks: Vec<ForkNote>,
}

/// A checkpoint that is complete where all nodes can read it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptFiles {
    /// The folder with it, below that of the session.
    pub folder: String,
    /// Its name.
    pub name: String,
    /// Its commit, in hexadecimal.
    pub commit: String,
}

/// A token that all nodes accept until it is revoked.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SharedToken {
    /// Its public name.
    pub id: String,
    pub is_revoked: bool,
    /// What a node keeps of it, as JSON; the secret is not in it.
    pub record: String,
}

/// What a node needs to go on with a session.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Loaded {
    /// Records in order. The first begins the session: it creates it, or holds its state.
    pub lines: Vec<Vec<u8>>,
}

/// A node, as it tells of itself.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct NodeEntry {
    /// Its name.
    pub name: String,
    /// The URL at which other nodes reach it; empty if there is none.
    pub url: String,
    /// Version of its program.
    pub version: String,
    /// When it started, RFC 3339.
    pub since: String,
    /// How many sessions are awake there.
    pub sessions: u64,
    /// Whether it takes no more sessions. A node of an older version does not say.
    #[serde(default)]
    pub draining: bool,
    /// Id of its data directory: two nodes that differ in it are not the same, whatever their names are. A node of an older
    /// version does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_id: Option<String>,
    /// The incarnation of the tier that it has given all of its sessions to. A node of an older version does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub given: Option<String>,
}

impl NodeEntry {
    /// Whether another node has this one's name.
    pub fn is_namesake(&self, other: &Self) -> bool {
        let ids = self.data_id.as_ref().zip(other.data_id.as_ref());
        self.name == other.name && ids.is_some_and(|(one, other)| one != other)
    }

    /// Which of two nodes with one name keeps it: the one that started first.
    pub(crate) fn comes_before(&self, other: &Self) -> bool {
        (&self.since, &self.data_id) < (&other.since, &other.data_id)
    }
}

/// What an append on a [`Pipe`] is while it is under way.
pub type Appending<'a> = Pin<Box<dyn Future<Output = Result<Vec<Appended>, PipeError>> + Send + 'a>>;

/// A connection of its own to the same server, for a task that appends.
pub trait Pipe: Send {
    /// Appends to many sessions in one round trip, as [`Tier::append`] does. After an error, or if this is dropped before
    /// its end, the pipe is not used again.
    fn append<'a>(&'a mut self, appends: &'a [Append], lease: Duration) -> Appending<'a>;
}

/// Why a pipe is not used again. Whether the records were appended is not known; the next append tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PipeError {
    /// It broke, or the server refuses what it is for: the tier may do better on its other connection.
    Broken {
        /// What it, or the network, said.
        reason: String,
    },
    /// The server was silent for as long as a tier waits for it.
    Silent(Down),
}

/// A shared tier.
pub trait Tier: Send {
    /// Asks whether it answers.
    fn ping(&mut self) -> Result<(), Down>;

    /// How often it was connected. After a new connection it may have fallen back to an older copy of itself.
    fn connections(&self) -> u64;

    /// The name of what it has, which it keeps for as long as it loses nothing as a whole: `new` if it has none. A tier
    /// that was emptied has none.
    fn incarnation(&mut self, new: &str) -> Result<String, Down>;

    /// A connection to the same server on which a task appends by itself; `None` if there is no such thing. It is used no
    /// longer than [`Tier::connections`] stays as it is. Called in a runtime.
    fn pipe(&mut self) -> Result<Option<Box<dyn Pipe>>, Down> {
        Ok(None)
    }

    /// Claims a session. The answer is decided by [`shellkeep_session::ownership::claim`]. With `create`, a session that has
    /// records is [`Claimed::Held`] by its owner, and one that was removed counts as unknown. A new session of an agent
    /// counts towards its limit from now on; if it gets no record, until the lease ends.
    fn claim(&mut self, request: &ClaimRequest, lease: Duration) -> Result<ClaimAnswer, Down>;

    /// Appends to many sessions in one round trip. Each answer is decided by [`shellkeep_session::ownership::append`]; what
    /// does not follow the last record is refused as [`Refusal::Apart`] too, with the head that the writer knows. What is
    /// appended, or would have been, renews the lease.
    fn append(&mut self, appends: &[Append], lease: Duration) -> Result<Vec<Appended>, Down>;

    /// Shortens a session's records. `line` is a record that begins the session at its number, `seq`. Records up to the one
    /// that was given before are removed, so that those since then are still there for retries. Refused, silently, if another
    /// node owns the session, or if the last record has another number. A line that was given already changes nothing: the
    /// call is repeated when its answer is lost.
    fn rest(&mut self, session_id: &SessionId, claim: &Claim, seq: u64, line: &[u8]) -> Result<(), Down>;

    /// Makes what a session takes smaller that sleeps, if the claim owns it. What is loaded stays the same.
    fn pack(&mut self, _session_id: &SessionId, _claim: &Claim) -> Result<(), Down> {
        Ok(())
    }

    /// Replaces all records of a session by these, if the claim owns it and this is the number of its last record. Returns
    /// whether it did.
    fn replace(&mut self, session_id: &SessionId, claim: &Claim, seq: u64, lines: &[Vec<u8>]) -> Result<bool, Down>;

    /// Notes the newest checkpoint that all nodes can read, if the claim owns the session. Returns whether it does.
    fn note_files(&mut self, session_id: &SessionId, claim: &Claim, files: &KeptFiles) -> Result<bool, Down>;

    /// Notes what a node wrote to a session that went on without it, for its owner to record. A note that is there is not
    /// repeated, and a session that does not exist has none.
    fn note_fork(&mut self, session_id: &SessionId, fork: &ForkNote) -> Result<(), Down>;

    /// The owner has recorded forks: their notes are removed, if the claim owns the session.
    fn forks_recorded(&mut self, session_id: &SessionId, claim: &Claim, forks: &[ForkNote]) -> Result<(), Down>;

    /// Gives up the lease, if the claim has it. `for_good`: the node does not go on with the session without a new claim,
    /// so others need not wait for it. A name under which nothing was recorded is forgotten after a while.
    fn release(&mut self, session_id: &SessionId, claim: &Claim, for_good: bool) -> Result<(), Down>;

    /// Removes a session, if the claim owns it. That it was removed is remembered for [`REMEMBERED`]; a new session of the name has
    /// later epochs until then.
    fn remove(&mut self, session_id: &SessionId, claim: &Claim) -> Result<(), Down>;

    /// Removes a session, if the claim owns it, and does not remember that of its name: a node that is down may have another session
    /// of the name, which nobody removed.
    fn drop_session(&mut self, session_id: &SessionId, claim: &Claim) -> Result<(), Down>;

    /// Remembers for [`REMEMBERED`] that these sessions were removed, whatever has their names. In one round trip.
    fn mark_removed(&mut self, removed: &[RemovedSession]) -> Result<(), Down>;

    /// Whether it is remembered that a session was removed, whatever has its name.
    fn is_marked(&mut self, session: &RemovedSession) -> Result<bool, Down>;

    /// Those of these names of which it is remembered that a session was removed, and that none has been created under since.
    fn removed(&mut self, sessions: &[SessionId]) -> Result<Vec<SessionId>, Down>;

    /// What is known of a session; `None` if it does not exist, or was removed.
    fn find(&mut self, session_id: &SessionId) -> Result<Option<Found>, Down>;

    /// What a node needs to go on with a session.
    fn load(&mut self, session_id: &SessionId) -> Result<Loaded, Down>;

    /// Counts a service of an agent for as long as the lease lasts, unless the agent has `limit` others.
    fn count_service(&mut self, service: &AgentService, limit: u64, lease: Duration) -> Result<CountAnswer, Down>;

    /// Counts these services for another lease, whatever the limit is.
    fn renew_services(&mut self, services: &[AgentService], lease: Duration) -> Result<(), Down>;

    /// A service has ended.
    fn uncount_service(&mut self, service: &AgentService) -> Result<(), Down>;

    /// What an agent has on all nodes together.
    fn used_by(&mut self, agent: &str) -> Result<UsedByAgent, Down>;

    /// Adds tokens, or replaces them. One that is revoked stays so.
    fn put_tokens(&mut self, tokens: &[SharedToken]) -> Result<(), Down>;

    /// All tokens, in no order.
    fn tokens(&mut self) -> Result<Vec<SharedToken>, Down>;

    /// A number that changes with the tokens.
    fn tokens_version(&mut self) -> Result<u64, Down>;

    /// Tells of this node for as long as the lease lasts.
    fn beat(&mut self, node: &NodeEntry, lease: Duration) -> Result<(), Down>;

    /// Takes this node out of the list. It has given up its sessions; that is remembered until it tells of itself again, at
    /// least for [`REMEMBERED`].
    fn leave(&mut self, name: &str) -> Result<(), Down>;

    /// Whether a node left by itself and has not come back.
    fn has_left(&mut self, name: &str) -> Result<bool, Down>;

    /// One node, if it is alive.
    fn node(&mut self, name: &str) -> Result<Option<NodeEntry>, Down>;

    /// The nodes that are alive, by name.
    fn nodes(&mut self) -> Result<Vec<NodeEntry>, Down>;
}
