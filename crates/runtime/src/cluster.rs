//! This node among others: which sessions are its own, and what becomes of a session when its node is gone. The decisions
//! are in [`shellkeep_session::ownership`]; here they meet the store of this node and the one that all nodes share.

mod arrive;
mod files;
mod look;
mod members;
mod removals;
mod told;

use crate::checkpoints::Checkpoints;
use crate::names::{Names, not_found};
use crate::ops::{ClusterError, OpError, Whereabouts};
use arrive::{Former, kept};
use files::Brought;
pub(crate) use files::SharedFiles;
use look::{Look, away, holder, shown};
pub(crate) use members::Members;
pub(crate) use removals::Removals;
use shellkeep_session::ownership::{Ask, Claim, Claimed, Head, Meeting, meet};
use shellkeep_session::{Event, Notice, Record, SessionId, SessionState, Timestamp};
use shellkeep_shared::{
    ClaimRequest, Down, Found, KeptFiles, LEASE, Moved, NodeEntry, Remembered, Settled, Ship, ShipOptions, Start,
    WhenAlone,
};
use shellkeep_store::{FeedControl, Store};
use shellkeep_workspace::Workspaces;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// How long a record may take to settle in a shared store that answers. Longer than its own patience, so that this ends
/// only what nobody else would end.
const SETTLE_WAIT: Duration = Duration::from_secs(3);
/// How long a session may take to appear that another node is creating, and how long between two looks.
const CREATE_WAIT: Duration = Duration::from_secs(2);
const CREATE_PAUSE: Duration = Duration::from_millis(20);
/// After how many records the shared store is given the whole state, so that it can drop older ones.
const REST_EVERY: u64 = 256;

/// The file of the data directory with the names of the other nodes.
const NODES_FILE: &str = "nodes";

/// Why records are only on the node that made them.
const NOT_SHARED: &str = "they were not synced and exist only on the node that wrote them";

/// How this node takes part in a cluster.
#[derive(Debug, Clone)]
pub struct ClusterConfig {
    /// URL of the shared store.
    pub url: String,
    /// This node's name.
    pub node: String,
    /// The URL at which other nodes reach it; empty if there is none.
    pub advertise: String,
    /// A directory that all nodes can read, for checkpoints.
    pub blobs: Option<PathBuf>,
    /// What it does while the shared store is unreachable.
    pub when_alone: WhenAlone,
}

/// What this node has of its own.
pub(crate) struct Own {
    pub(crate) store: Store,
    pub(crate) names: Arc<Names>,
    pub(crate) workspaces: Workspaces,
    pub(crate) checkpoints: Arc<Checkpoints>,
}

/// A session that this node was asked to create.
pub(crate) enum Creation {
    /// It is this node's: its records follow.
    Mine(Claim),
    /// It exists.
    Exists(Box<SessionState>),
}

/// This node among others.
pub(crate) struct Cluster {
    ship: Arc<Ship>,
    /// Checkpoints where all nodes can read them, if there is a directory for them.
    files: Option<Arc<SharedFiles>>,
    node: String,
    members: Members,
    removals: Arc<Removals>,
    data_dir: String,
    store: Store,
    names: Arc<Names>,
    workspaces: Workspaces,
}

impl Cluster {
    /// Takes part from now on. News of sessions that moved goes to `news`.
    pub(crate) fn start(
        config: &ClusterConfig,
        data_dir: &Path,
        own: Own,
        news: mpsc::UnboundedSender<Moved>,
    ) -> Result<Self, String> {
        let tier = shellkeep_shared::open(&config.url).map_err(|error| error.to_string())?;
        let node = NodeEntry {
            name: config.node.clone(),
            url: config.advertise.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            since: Timestamp::now().to_string(),
            sessions: 0,
            draining: false,
        };
        let entry = node.clone();
        let (when_alone, remembered) = (config.when_alone, Remembered::at(&data_dir.join(NODES_FILE)));
        let options = ShipOptions { tier, node, when_alone, remembered, news };
        let ship = Arc::new(Ship::start(options).map_err(|error| error.to_string())?);
        if let Some(feed) = FeedControl::of(&own.store) {
            let (of, tell) = (Arc::downgrade(&ship), feed.clone());
            ship.on_settled(Box::new(move || tell.wake()));
            // What the shared store may not have does not become history.
            feed.set_gate(Arc::new(move |id, seq| of.upgrade().is_none_or(|ship| ship.may_be_told(id, seq))));
        }
        let members = Members::new(Arc::clone(&ship), entry);
        let removals = Removals::new(Arc::clone(&ship), &config.node);
        let data_dir = data_dir.to_string_lossy().into_owned();
        let Own { store, names, workspaces, checkpoints } = own;
        let open = |root: &PathBuf| SharedFiles::open(root.clone(), checkpoints, Arc::clone(&ship)).map(Arc::new);
        let files = config.blobs.as_ref().map(open).transpose().map_err(|error| format!("blobs: {error}"))?;
        Ok(Self { ship, files, node: config.node.clone(), members, removals, data_dir, store, names, workspaces })
    }

    /// Shares a record that this node's store has. The end of a session is not shared as a record: see [`Removals`].
    pub(crate) fn offer(&self, record: &Record) {
        if !record.event.destroys() {
            self.ship.offer(record);
        }
    }

    /// Waits until a record is shared. Returns what to say if only this node has it.
    pub(crate) async fn settle(&self, id: &SessionId, seq: u64) -> Result<Option<Notice>, OpError> {
        loop {
            match tokio::time::timeout(SETTLE_WAIT, self.ship.settle(id, seq)).await {
                Ok(Settled::Kept) => return Ok(None),
                Ok(Settled::HereOnly { reason }) => return Ok(Some(told::kept_here_only(&reason))),
                Ok(Settled::Moved) => return Err(moved(id)),
                // Not longer than the store is away: to claim it again, a store that came back empty needs the session's task.
                Err(_) if self.ship.alone().waits() && self.ship.problem().is_some() => {}
                Err(_) => {
                    let reason = format!("no confirmation within {} s", SETTLE_WAIT.as_secs());
                    return Ok(Some(told::kept_here_only(&reason)));
                }
            }
        }
    }

    /// Gives the shared store the whole state now and then.
    pub(crate) fn rest(&self, state: &SessionState) {
        if state.seq.is_multiple_of(REST_EVERY) {
            self.ship.rest(&stands_for(state, 1, "they are on the node that owned the session"));
        }
    }

    /// The session sleeps.
    pub(crate) fn left(&self, id: &SessionId) {
        self.ship.end(id);
    }

    /// Checkpoints where all nodes can read them, if there is a directory for them.
    pub(crate) fn files(&self) -> Option<&Arc<SharedFiles>> {
        self.files.as_ref()
    }

    /// What is wrong, each in a sentence.
    pub(crate) fn problems(&self) -> Vec<String> {
        let unserved = self.ship.alone().unserved().is_some();
        let away = self.ship.problem().map(|reason| told::away(&reason, unserved));
        away.into_iter().chain(self.files.as_ref().and_then(|files| files.problem())).collect()
    }

    /// The nodes, this one among them.
    pub(crate) fn members(&self) -> &Members {
        &self.members
    }

    /// Deletions that the shared store has not followed yet.
    pub(crate) fn removals(&self) -> &Arc<Removals> {
        &self.removals
    }

    /// Sends what it can and leaves the cluster. Blocks meanwhile.
    pub(crate) fn close(&self) {
        self.ship.close();
    }

    /// Where a session is, and whether this node must take it before it is used here.
    pub(crate) async fn locate(&self, id: &SessionId) -> Result<(Whereabouts, bool), OpError> {
        if let Some(node) = self.members.served_by()? {
            return Ok((Whereabouts::There(node), false));
        }
        if self.ship.is_open(id) || self.removals.is_waiting(id) {
            return Ok((Whereabouts::Here, false));
        }
        let look = match self.look(id).await {
            Ok(look) => look,
            // Alone, this node answers for what it has.
            Err(_) => return Ok((Whereabouts::Here, false)),
        };
        match look {
            Look { found: None, .. } => Ok((Whereabouts::Here, false)),
            Look { elsewhere: Some(node), .. } if node.url.is_empty() => Err(self.unreachable(id, &node.name)),
            Look { elsewhere: Some(node), .. } => Ok((Whereabouts::There(shown(node)), false)),
            Look { found: Some(found), elsewhere: None, is_early } => {
                let is_own = found.head.owner.node == self.node;
                if !is_own && (found.lease.is_some() || is_early) {
                    return Err(self.unreachable(id, holder(&found)));
                }
                if self.ship.is_draining() {
                    return Ok((Whereabouts::There(self.members.another().await?), false));
                }
                if !self.names.contains(id) {
                    self.names.add(id, found.agent.as_deref().map(Arc::from));
                }
                Ok((Whereabouts::Here, !is_own))
            }
        }
    }

    async fn look(&self, id: &SessionId) -> Result<Look, Down> {
        let (name, session_id, alone) = (self.node.clone(), id.clone(), self.ship.alone());
        self.ship.ask(move |tier| Look::at(tier, &session_id, &name, &alone)).await
    }

    /// Whether another node still has a session, as far as is known.
    pub(crate) async fn is_with(&self, id: &SessionId, node: &str) -> bool {
        match self.look(id).await {
            Ok(look) => look.elsewhere.is_some_and(|elsewhere| elsewhere.name == node),
            Err(_) => true,
        }
    }

    fn unreachable(&self, id: &SessionId, node: &str) -> OpError {
        ClusterError::OwnerUnreachable { session_id: id.to_string(), node: node.to_owned() }.into()
    }

    fn request(&self, id: &SessionId, local: Option<&SessionState>, create: bool) -> Result<ClaimRequest, OpError> {
        let mine = local.and_then(|state| state.claims.last()).filter(|claim| claim.node == self.node).cloned();
        let ask = Ask { node: self.node.clone(), nonce: nonce()?, mine };
        let agent = local.and_then(|state| state.meta.agent.clone());
        Ok(ClaimRequest { session_id: id.clone(), ask, data_dir: self.data_dir.clone(), agent, create })
    }

    /// Makes a session this node's, before it is used: claims it, and brings what this node and the shared store have of it
    /// together. Gives its state.
    pub(crate) async fn take(&self, id: &SessionId, local: Option<SessionState>) -> Result<SessionState, OpError> {
        if self.removals.is_waiting(id) {
            return Err(not_found(id));
        }
        let request = self.request(id, local.as_ref(), false)?;
        let (nonce, alone) = (request.ask.nonce.clone(), self.ship.alone());
        let asked = self.ship.ask(move |tier| {
            let look = Look::at(tier, &request.session_id, &request.ask.node, &alone)?;
            let is_others = look.elsewhere.is_some() || look.is_early;
            let claimed = if is_others { None } else { tier.claim(&request, LEASE)? };
            Ok((look, claimed))
        });
        let (look, claimed) = match asked.await {
            Ok(answer) => answer,
            Err(down) => return self.alone(id, local, nonce, down),
        };
        if let Some(node) = look.elsewhere {
            return Err(self.unreachable(id, &node.name));
        }
        if let Some(found) = look.found.as_ref().filter(|_| look.is_early) {
            return Err(self.unreachable(id, holder(found)));
        }
        match claimed {
            None => {
                self.names.remove(id);
                Err(not_found(id))
            }
            Some(Claimed::Held(by)) => Err(self.unreachable(id, &by.node)),
            Some(Claimed::New(head) | Claimed::Kept(head) | Claimed::Taken(head)) => {
                self.join(id, local, head, look.found).await
            }
        }
    }

    /// Brings this node's copy of a claimed session and the shared one together.
    async fn join(
        &self,
        id: &SessionId,
        local: Option<SessionState>,
        head: Head,
        found: Option<Found>,
    ) -> Result<SessionState, OpError> {
        let meeting = match &local {
            Some(state) => meet(&state.claims, state.seq, &head),
            None => meet(&Default::default(), 0, &head),
        };
        let mut state = match (meeting, local) {
            (Meeting::Same | Meeting::TierLacks { .. }, Some(state)) => state,
            (Meeting::Same | Meeting::TierLacks { .. }, None) => return Err(not_found(id)),
            (Meeting::NodeLacks { .. }, local) => self.bring(id, local).await?,
            (Meeting::Apart { after }, local) => {
                if let Some(state) = &local {
                    tracing::warn!(session = %id, after, through = state.seq, "this node and the shared store have different records; this node's are kept as a removed session");
                    arrive::set_aside(&self.store, state).await?;
                }
                self.bring(id, None).await?
            }
        };
        let (seq, is_first) = (state.seq, state.claims.last() != Some(&head.owner));
        let from = if is_first { seq + 1 } else { state.claims.last_from().unwrap_or(seq + 1) };
        let start = Start { claim: head.owner.clone(), from, known: Some(head.last), seq };
        self.ship.begin(id, start, |after| Some(stands_for(&state, after + 1, NOT_SHARED)));
        if is_first {
            let before = state.claims.last().map(|claim| claim.node.clone()).filter(|node| *node != self.node);
            let events = match before.zip(found) {
                Some((node, Found { data_dir, files, .. })) => {
                    self.moved_here(&state, head.owner, Former { node, data_dir }, files).await
                }
                None => arrive::joined(head.owner),
            };
            self.arrive(&mut state, events)?;
            self.share_files(&state);
        }
        Ok(state)
    }

    /// What is recorded of a session that comes from another node, after its files were brought.
    async fn moved_here(
        &self,
        state: &SessionState,
        claim: Claim,
        former: Former,
        noted: Option<KeptFiles>,
    ) -> Vec<Event> {
        let mut arrived = arrive::relocated(state, &former, &self.data_dir);
        let is_own = self.workspaces.owns(&arrived.meta.workspace);
        if let Err(error) = self.workspaces.ensure(&arrived.meta.workspace) {
            // Its first command tries again and reports the failure.
            tracing::warn!(session = %state.meta.session_id, %error, "a session's workspace could not be created here");
        }
        let brought = match &self.files {
            Some(files) => files.bring(&arrived, noted.as_ref(), is_own).await,
            None => Brought::NotConfigured,
        };
        if let Brought::Failed { reason } = &brought {
            tracing::error!(session = %state.meta.session_id, reason, "the files of a session that moved here could not be brought");
        }
        arrived.files = brought.at().cloned();
        let cwd = arrive::make_cwd(&arrived, is_own);
        let id = state.meta.session_id.clone();
        let lines = self.ship.ask(move |tier| tier.load(&id)).await.map(|loaded| loaded.lines).unwrap_or_default();
        let since = arrive::runs_since(&lines, arrived.files.as_ref());
        arrived.pending_notices.push(told::arrived(&former.node, &self.node, &brought, &since, cwd));
        arrive::events(arrived, claim, &former.node)
    }

    /// Brings this node's store to where the shared one is. Gives the state.
    async fn bring(&self, id: &SessionId, local: Option<SessionState>) -> Result<SessionState, OpError> {
        let asked = id.clone();
        let loaded = self.ship.ask(move |tier| tier.load(&asked)).await.map_err(away)?;
        let state = arrive::fold(id, local, &loaded.lines, |record| kept(self.store.append(record)))?;
        state.ok_or_else(|| not_found(id))
    }

    fn share_files(&self, state: &SessionState) {
        if let Some(files) = &self.files {
            files.offer(state);
        }
    }

    /// Records that this node owns the session from now on.
    fn arrive(&self, state: &mut SessionState, events: Vec<Event>) -> Result<(), OpError> {
        for event in events {
            let session_id = state.meta.session_id.clone();
            let record = Record { session_id, seq: state.seq + 1, at: Timestamp::now(), event };
            kept(self.store.append(&record))?;
            self.offer(&record);
            state.apply(&record).map_err(|error| OpError::Internal { detail: error.to_string() })?;
        }
        Ok(())
    }

    /// The shared store is unreachable: this node keeps serving the sessions that are its own or have no owner.
    fn alone(
        &self,
        id: &SessionId,
        local: Option<SessionState>,
        nonce: String,
        down: Down,
    ) -> Result<SessionState, OpError> {
        self.members.check_serving()?;
        let Some(mut state) = local else { return Err(away(down)) };
        match state.claims.last().cloned() {
            Some(claim) if claim.node == self.node => {
                let from = state.claims.last_from().unwrap_or(state.seq);
                let start = Start { claim, from, known: None, seq: state.seq };
                self.ship.begin(id, start, |after| Some(stands_for(&state, after + 1, NOT_SHARED)));
            }
            Some(claim) => return Err(self.unreachable(id, &claim.node)),
            None => {
                let claim = Claim { epoch: 1, node: self.node.clone(), nonce };
                let start = Start { claim: claim.clone(), from: state.seq + 1, known: None, seq: state.seq };
                self.ship.begin(id, start, |after| Some(stands_for(&state, after + 1, NOT_SHARED)));
                self.arrive(&mut state, arrive::joined(claim))?;
            }
        }
        Ok(state)
    }

    /// The shared store lacks records of a session that is awake here, and the ship no longer has them: claims the session
    /// again and gives its state. Returns whether it is still this node's.
    pub(crate) async fn reclaim(&self, state: &SessionState) -> bool {
        let id = &state.meta.session_id;
        let Some(mine) = self.ship.claim_of(id) else { return true };
        let Ok(mut request) = self.request(id, Some(state), false) else { return true };
        request.ask.mine = Some(mine.clone());
        let owner = mine.clone();
        let asked = self.ship.ask(move |tier| {
            // One that is another's by now is not taken from it.
            match tier.find(&request.session_id)?.filter(|found| found.head.owner != owner) {
                Some(_) => Ok(None),
                None => tier.claim(&request, LEASE),
            }
        });
        match asked.await {
            // It is tried again when the store is back.
            Err(_) => true,
            Ok(Some(Claimed::New(head) | Claimed::Kept(head))) => {
                let from = state.claims.last_from().unwrap_or(state.seq);
                let start = Start { claim: mine, from, known: Some(head.last), seq: state.seq };
                self.ship.begin(id, start, |after| Some(stands_for(state, after + 1, NOT_SHARED)));
                // A store that came back empty does not know where the files are.
                self.share_files(state);
                true
            }
            Ok(_) => false,
        }
    }

    /// Claims the name of a session that is to be created. The caller records it and its owner.
    pub(crate) async fn create(&self, id: &SessionId, agent: Option<&str>) -> Result<Creation, OpError> {
        self.members.check_serving()?;
        if self.removals.is_waiting(id) {
            return Err(ClusterError::NameInUse { session_id: id.to_string() }.into());
        }
        let mut request = self.request(id, None, true)?;
        request.agent = agent.map(str::to_owned);
        let nonce = request.ask.nonce.clone();
        let (claim, known) = match self.ship.ask(move |tier| tier.claim(&request, LEASE)).await {
            Ok(Some(Claimed::New(head) | Claimed::Kept(head) | Claimed::Taken(head))) => (head.owner, Some(head.last)),
            Ok(Some(Claimed::Held(by))) => return self.existing(id, &by).await,
            Ok(None) => return Err(not_found(id)),
            Err(_) => (Claim { epoch: 1, node: self.node.clone(), nonce }, None),
        };
        let start = Start { claim: claim.clone(), from: 2, known, seq: 0 };
        self.ship.begin(id, start, |_| None);
        Ok(Creation::Mine(claim))
    }

    /// A session that another node has, or is about to have.
    async fn existing(&self, id: &SessionId, by: &Claim) -> Result<Creation, OpError> {
        let deadline = tokio::time::Instant::now() + CREATE_WAIT;
        loop {
            let asked = id.clone();
            let loaded = self.ship.ask(move |tier| tier.load(&asked)).await.map_err(away)?;
            if let Some(state) = arrive::fold(id, None, &loaded.lines, |_| Ok(()))? {
                return Ok(Creation::Exists(Box::new(state)));
            }
            if tokio::time::Instant::now() >= deadline {
                return Err(self.unreachable(id, &by.node));
            }
            tokio::time::sleep(CREATE_PAUSE).await;
        }
    }
}

/// A record that stands for everything of a session up to its number.
fn stands_for(state: &SessionState, from: u64, reason: &str) -> Record {
    let event = Event::RecordsLost { from, reason: reason.to_owned(), state: Box::new(state.clone()) };
    Record { session_id: state.meta.session_id.clone(), seq: state.seq, at: state.last_active_at, event }
}

/// The session is another node's.
pub(crate) fn moved(id: &SessionId) -> OpError {
    ClusterError::Moved { session_id: id.to_string() }.into()
}

/// Random text that makes a claim unique.
fn nonce() -> Result<String, OpError> {
    let mut bytes = [0; 8];
    let unavailable = |error: rustix::io::Errno| OpError::Internal { detail: error.to_string() };
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()).map_err(unavailable)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
