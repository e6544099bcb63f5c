//! This node among others: which sessions are its own, and what becomes of a session when its node is gone. The decisions
//! are in [`shellkeep_session::ownership`]; here they meet the store of this node and the one that all nodes share.

pub(crate) mod agents;
mod arrive;
mod config;
mod copies;
mod create;
mod diverged;
mod elsewhere;
mod files;
pub(crate) mod keys;
mod look;
mod made_alone;
mod members;
mod own;
mod removal_notes;
mod removals;
pub(crate) mod scrub;
mod session_notes;
mod tokens;
pub(crate) mod told;
mod uncopied;
mod unput;

use crate::checkpoints::path;
use crate::names::{Names, not_found};
use crate::ops::{ClusterError, OpError};
pub(crate) use agents::Agents;
use arrive::{Former, NOT_SHARED, kept, stands_for};
pub use config::{BlobPlace, ClusterConfig};
use create::Creations;
pub(crate) use create::{ClaimedName, Creation};
pub(crate) use diverged::{Compared, Diverged, Whose};
pub(crate) use elsewhere::Elsewhere;
use files::Brought;
pub(crate) use files::SharedFiles;
pub(crate) use look::Sought;
use look::{Look, away, emptied, holder, shown, unreachable};
pub(crate) use members::Members;
use own::Asker;
pub(crate) use own::Own;
use removal_notes::RemovalNotes;
pub(crate) use removals::Removals;
use shellkeep_session::ownership::{Claim, Claimed, Head, Meeting, meet};
use shellkeep_session::{Event, Notice, Record, SessionId, SessionState, Timestamp};
use shellkeep_shared::{Closing, Down, Found, Moved, Remembered, Settled, Ship, ShipOptions, Start};
use shellkeep_store::{FeedControl, Store, deleted};
use shellkeep_workspace::Workspaces;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
pub(crate) use tokens::Tokens;
use tokio::sync::mpsc;
pub(crate) use uncopied::Uncopied;

/// How long a record may take to be written by a shared store that answers. Longer than the store's own timeouts, so that
/// this one only ends what they do not.
const SETTLE_WAIT: Duration = Duration::from_secs(3);
/// After how many records the shared store is given the whole state, so that it can drop older ones.
const REST_EVERY: u64 = 256;

/// The file of the data directory with the names of the other nodes.
const NODES_FILE: &str = "nodes";

/// This node among others.
pub(crate) struct Cluster {
    ship: Arc<Ship>,
    /// Checkpoints where all nodes can read them, if there is a directory for them.
    files: Option<Arc<SharedFiles>>,
    node: String,
    members: Members,
    removals: Arc<Removals>,
    creations: Creations,
    asker: Asker,
    diverged: Diverged,
    tokens: Tokens,
    agents: Arc<Agents>,
    data_dir: String,
    store: Store,
    names: Arc<Names>,
    workspaces: Workspaces,
}

impl Cluster {
    /// Takes part from now on. News of sessions that moved goes to `news`.
    pub(crate) async fn start(
        config: &ClusterConfig,
        data_dir: &Path,
        own: Own,
        news: mpsc::UnboundedSender<Moved>,
    ) -> Result<Self, String> {
        let node = config.entry(own.store.home().id());
        let (entry, tier) = (node.clone(), members::admitted(&config.url, &node).await?);
        let (when_alone, remembered) = (config.when_alone, Remembered::at(&data_dir.join(NODES_FILE)));
        let options = ShipOptions { tier, node, when_alone, remembered, news };
        let ship = Arc::new(Ship::start(options).map_err(|error| error.to_string())?);
        if let Some(feed) = FeedControl::of(&own.store) {
            let (of, tell) = (Arc::downgrade(&ship), feed.clone());
            ship.on_settled(Box::new(move || tell.wake()));
            // What the shared store may not have does not become history.
            feed.set_gate(Arc::new(move |record, at| of.upgrade().is_none_or(|ship| ship.may_be_told(record, at))));
        }
        let members = Members::new(Arc::clone(&ship), entry);
        let notes = RemovalNotes::at(data_dir).map_err(|error| error.to_string())?;
        let removals = Removals::new(Arc::clone(&ship), &config.node, notes);
        let asker = Asker::at(data_dir, &config.node).map_err(|error| error.to_string())?;
        let data_dir = asker.data_dir.clone();
        let open = |place: &BlobPlace| {
            SharedFiles::open(place, Path::new(&data_dir), Arc::clone(&own.checkpoints), Arc::clone(&ship))
        };
        let files = config.blobs.as_ref().map(open).transpose()?;
        let files = files.map(Arc::new);
        let diverged = Diverged::new(Arc::clone(&ship), asker.clone(), files.clone(), &own);
        let Own { store, names, workspaces, .. } = own;
        let (node, tokens) = (config.node.clone(), Tokens::new(Arc::clone(&ship)));
        let agents = Arc::new(Agents::new(&ship));
        let creations = Creations::new(Arc::clone(&ship), asker.clone(), Arc::clone(&removals));
        Ok(Self {
            ship,
            files,
            node,
            members,
            removals,
            creations,
            asker,
            diverged,
            tokens,
            agents,
            data_dir,
            store,
            names,
            workspaces,
        })
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
                Err(_) if self.ship.alone().waits() && self.ship.alone().problem().is_some() => {}
                // The process was stopped: another node may have the session by now, which is known soon.
                Err(_) if self.ship.alone().is_late() => {}
                Err(_) => {
                    self.ship.tell(id, seq);
                    let reason = format!("no confirmation within {} s", SETTLE_WAIT.as_secs());
                    return Ok(Some(told::kept_here_only(&reason)));
                }
            }
        }
    }

    /// Gives the shared store the whole state after every [`REST_EVERY`] records, whatever they are.
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
        let away = self.ship.alone().problem().map(|reason| told::away(&reason, unserved));
        away.into_iter().chain(self.files.as_ref().and_then(|files| files.problem())).collect()
    }

    /// The nodes, this one among them.
    pub(crate) fn members(&self) -> &Members {
        &self.members
    }

    /// Tokens that all nodes accept.
    pub(crate) fn tokens(&self) -> &Tokens {
        &self.tokens
    }

    /// What agents have on all nodes together.
    pub(crate) fn agents(&self) -> &Arc<Agents> {
        &self.agents
    }

    /// Sessions that this node and others continued in different ways.
    pub(crate) fn diverged(&self) -> &Diverged {
        &self.diverged
    }

    /// Deletions that the shared store has not followed yet.
    pub(crate) fn removals(&self) -> &Arc<Removals> {
        &self.removals
    }

    /// Sends what it can, and leaves the cluster unless the node is back in a moment. Blocks meanwhile.
    pub(crate) fn close(&self, closing: Closing) {
        self.ship.close(closing);
    }

    /// Where a session is, and whether this node must take it before it is used here.
    pub(crate) async fn locate(&self, id: &SessionId) -> Result<Sought, OpError> {
        if let Some(node) = self.members.served_by()? {
            return Ok(Sought::there(node));
        }
        if self.ship.is_open(id) || self.removals.is_waiting(id) {
            return Ok(Sought::here());
        }
        let is_known = self.names.contains(id) || self.asker.elsewhere.owner(id).is_some() || deleted::is_name(id);
        let look = match self.look(id).await {
            Ok(look) => look,
            // While the shared store is away, this node answers for its own sessions that no other node has taken.
            Err(_) if is_known => return self.asker.elsewhere.place(id, self.members.neighbours()),
            Err(down) => return Ok(Sought::unsure(away(down))),
        };
        if let Some(found) = look.found.as_ref().filter(|_| look.elsewhere.is_some() && self.names.contains(id)) {
            self.asker.elsewhere.note(id, &found.head.owner).await;
        }
        match look {
            // The node that had it last gives it again.
            look if look.is_forgotten() && self.asker.elsewhere.owner(id).is_some() => {
                self.asker.elsewhere.place(id, self.members.others().await?)
            }
            Look { found: None, lacking: Some(nodes), .. } if !is_known => Ok(Sought::unsure(emptied(&nodes))),
            Look { found: None, .. } => Ok(Sought::here()),
            Look { elsewhere: Some(node), .. } if node.url.is_empty() => Err(unreachable(id, &node.name)),
            Look { elsewhere: Some(node), .. } => Ok(Sought::there(shown(node))),
            Look { found: Some(found), elsewhere: None, is_early, .. } => {
                let is_own = found.head.owner.node == self.node;
                if !is_own && (found.lease.is_some() || is_early) {
                    return Err(unreachable(id, holder(&found)));
                }
                if self.ship.drain().is_free() {
                    return Ok(Sought::there(self.members.another().await?));
                }
                if !self.names.contains(id) {
                    if is_own {
                        self.asker.elsewhere.note_lost(id, &found.head.owner).await;
                    }
                    self.names.add(id, found.agent.as_deref().map(Arc::from));
                }
                let must_take = !is_own || self.asker.elsewhere.is_lost(id);
                Ok(Sought { must_take, ..Sought::here() })
            }
        }
    }

    /// Sessions that other nodes took from this one.
    pub(crate) fn elsewhere(&self) -> &Arc<Elsewhere> {
        &self.asker.elsewhere
    }

    async fn look(&self, id: &SessionId) -> Result<Look, Down> {
        let (name, session_id, alone) = (self.node.clone(), id.clone(), self.ship.alone());
        self.ship.ask(move |tier| Look::at(tier, &session_id, &name, &alone)).await
    }

    /// Whether another node still has a session, as far as is known; `None` if the shared store does not know the session.
    pub(crate) async fn is_with(&self, id: &SessionId, node: &str) -> Option<bool> {
        match self.look(id).await {
            Ok(look) if look.is_forgotten() => None,
            Ok(look) => Some(look.elsewhere.is_some_and(|elsewhere| elsewhere.name == node)),
            Err(_) => Some(true),
        }
    }

    /// Makes a session this node's, before it is used: claims it, and brings what this node and the shared store have of it
    /// together. Gives its state.
    pub(crate) async fn take(&self, id: &SessionId, local: Option<SessionState>) -> Result<SessionState, OpError> {
        if self.removals.is_waiting(id) {
            return Err(not_found(id));
        }
        let request = self.asker.request(id, local.as_ref())?;
        let (nonce, alone) = (request.claim.ask.nonce.clone(), self.ship.alone());
        let taken_by = self.asker.elsewhere.owner(id);
        let (is_lost, asker) = (taken_by.is_some(), self.asker.clone());
        let asked = self.ship.ask(move |tier| {
            let look = Look::at(tier, &request.claim.session_id, &request.claim.ask.node, &alone)?;
            let is_others = look.elsewhere.is_some() || look.is_early || (is_lost && look.is_forgotten());
            let claimed = if is_others { None } else { asker.claim(tier, &request)?.ok() };
            Ok((look, claimed))
        });
        let (look, claimed) = match asked.await {
            Ok(answer) => answer,
            Err(down) => return self.alone(id, local, nonce, down).await,
        };
        if let Some(owner) = taken_by.filter(|_| look.is_forgotten()) {
            return Err(unreachable(id, &owner.node));
        }
        if let Some(node) = look.elsewhere {
            return Err(unreachable(id, &node.name));
        }
        if let Some(found) = look.found.as_ref().filter(|_| look.is_early) {
            return Err(unreachable(id, holder(found)));
        }
        match claimed {
            None => {
                self.removals.unname(&self.names, id);
                Err(not_found(id))
            }
            Some(Claimed::Held(by)) => Err(unreachable(id, &by.node)),
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
        let mut forks = found.as_ref().map(|found| found.forks.clone()).unwrap_or_default();
        let mut state = match (meeting, local) {
            (Meeting::Same | Meeting::TierLacks { .. }, Some(state)) => state,
            (Meeting::Same | Meeting::TierLacks { .. }, None) => return Err(not_found(id)),
            (Meeting::NodeLacks { .. }, local) => self.bring(id, local).await?,
            (Meeting::Apart { after }, local) => {
                if let Some(state) = &local {
                    let kept = self.diverged.keep(state, after, &head).await?;
                    forks.extend(kept.filter(|kept| !forks.contains(kept)));
                }
                self.bring(id, None).await?
            }
        };
        // This node may have known a removed session of the name, which was another agent's.
        self.names.add(id, state.meta.agent.as_deref().map(Arc::from));
        let (next, is_first) = (state.seq + 1, state.claims.last() != Some(&head.owner));
        let from = if is_first { next } else { state.claims.last_from().unwrap_or(next) };
        let start = Start::of(&state, head.owner.clone(), from, Some(head.last));
        self.ship.begin(id, start, |after| Some(stands_for(&state, after + 1, NOT_SHARED)));
        if is_first {
            let has_copy = !self.asker.elsewhere.is_lost(id);
            let events = match Former::of(&state, &self.node, has_copy, found) {
                Some(former) => self.moved_here(&state, head.owner, former).await,
                None => arrive::joined(head.owner),
            };
            self.arrive(&mut state, events)?;
            self.files.iter().for_each(|files| files.offer(&state));
        }
        self.asker.known(id).await;
        if !forks.is_empty() {
            self.ship.know_forks(id, forks.clone());
            self.arrive(&mut state, forks.iter().map(told::forked).collect())?;
            self.ship.settle(id, state.seq).await;
            self.diverged.recorded(id, forks).await;
        }
        Ok(state)
    }

    /// What is recorded of a session that comes from another node, after its files were brought.
    async fn moved_here(&self, state: &SessionState, claim: Claim, former: Former) -> Vec<Event> {
        metrics::counter!("shellkeep_takeovers_total").increment(1);
        let mut arrived = arrive::relocated(state, &former, &self.data_dir);
        let is_own = self.workspaces.owns(&arrived.meta.workspace);
        if let Err(error) = self.workspaces.ensure(&arrived.meta.workspace) {
            // Its first command tries again and reports the failure.
            tracing::warn!(session = %state.meta.session_id, %error, "a session's workspace could not be created here");
        }
        let brought = match &self.files {
            Some(files) => files.bring(&arrived, former.files.as_ref(), is_own).await,
            None => Brought::NotConfigured { has_older: is_own && files::has_files(path(&arrived.meta.workspace)) },
        };
        if let Brought::Failed { reason } = &brought {
            tracing::error!(session = %state.meta.session_id, reason, "the files of a session that moved here could not be brought");
        }
        arrived.files = brought.at().cloned();
        let cwd = arrive::make_cwd(&arrived, is_own);
        let id = state.meta.session_id.clone();
        let lines = self.ship.ask(move |tier| tier.load(&id)).await.map(|loaded| loaded.lines).unwrap_or_default();
        let since = arrive::runs_since(&lines, arrived.files.as_ref());
        let keys = keys::bring(self.files.as_deref(), &self.data_dir, state).await;
        let arrival =
            told::Arrival { from: &former.node, here: &self.node, files: &brought, keys: &keys, since: &since, cwd };
        arrived.pending_notices.push(told::arrived(arrival));
        arrive::events(arrived, claim, &former.node)
    }

    /// Brings this node's store to where the shared one is. Gives the state.
    async fn bring(&self, id: &SessionId, local: Option<SessionState>) -> Result<SessionState, OpError> {
        let asked = id.clone();
        let loaded = self.ship.ask(move |tier| tier.load(&asked)).await.map_err(away)?;
        let state = arrive::fold(id, local, &loaded.lines, |record| kept(self.store.append(record)))?;
        state.ok_or_else(|| not_found(id))
    }

    /// Records that this node owns the session from now on.
    fn arrive(&self, state: &mut SessionState, events: Vec<Event>) -> Result<(), OpError> {
        for event in events {
            let session_id = state.meta.session_id.clone();
            let record = Record { session_id, seq: state.seq + 1, at: Timestamp::now(), event };
            kept(self.store.append(&record))?;
            self.offer(&record);
            state.apply(&record).map_err(|error| OpError::Internal { detail: error.to_string() })?;
            self.rest(state);
        }
        Ok(())
    }

    /// The shared store is unreachable: this node keeps serving the sessions that are its own or have no owner.
    async fn alone(
        &self,
        id: &SessionId,
        local: Option<SessionState>,
        nonce: String,
        down: Down,
    ) -> Result<SessionState, OpError> {
        self.members.check_serving()?;
        if let Some(owner) = self.asker.elsewhere.owner(id) {
            return Err(unreachable(id, &owner.node));
        }
        if self.ship.alone().is_in_doubt() {
            return Err(self.members.cut_off());
        }
        let Some(mut state) = local.filter(|_| !self.asker.elsewhere.is_lost(id)) else { return Err(away(down)) };
        match state.claims.last().cloned() {
            Some(claim) if claim.node == self.node => {
                let from = state.claims.last_from().unwrap_or(state.seq);
                let start = Start::of(&state, claim, from, None);
                self.ship.begin(id, start, |after| Some(stands_for(&state, after + 1, NOT_SHARED)));
            }
            Some(claim) => return Err(unreachable(id, &claim.node)),
            None => {
                self.asker.made_alone.note(id).await;
                let claim = Claim { epoch: 1, node: self.node.clone(), nonce };
                let start = Start::of(&state, claim.clone(), state.seq + 1, None);
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
        let Ok(mut request) = self.asker.request(id, Some(state)) else { return true };
        request.claim.ask.mine = Some(mine.clone());
        let (owner, asker) = (mine.clone(), self.asker.clone());
        let asked = self.ship.ask(move |tier| {
            // One that is another's by now is not taken from it.
            match tier.find(&request.claim.session_id)?.filter(|found| found.head.owner != owner) {
                Some(_) => Ok(None),
                None => Ok(asker.claim(tier, &request)?.ok()),
            }
        });
        match asked.await {
            // It is tried again when the store is back.
            Err(_) => true,
            Ok(Some(Claimed::New(head) | Claimed::Kept(head))) => {
                self.asker.made_alone.forget(id).await;
                let from = state.claims.last_from().unwrap_or(state.seq);
                let start = Start::of(state, mine, from, Some(head.last));
                self.ship.begin(id, start, |after| Some(stands_for(state, after + 1, NOT_SHARED)));
                // A store that came back empty does not know where the files are.
                self.files.iter().for_each(|files| files.offer(state));
                true
            }
            Ok(_) => false,
        }
    }

    /// Claims the name of a session that is to be created, if its agent has fewer than `most`. The caller records it and its
    /// owner.
    pub(crate) async fn create(&self, id: &SessionId, agent: Option<&str>, most: u64) -> Result<Creation, OpError> {
        self.members.check_serving()?;
        self.creations.claim(id, agent, most).await
    }
}

/// The session is another node's.
pub(crate) fn moved(id: &SessionId) -> OpError {
    ClusterError::Moved { session_id: id.to_string() }.into()
}
