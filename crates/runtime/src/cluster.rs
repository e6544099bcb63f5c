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
mod lane;
mod look;
mod made_alone;
mod members;
mod own;
mod removal_notes;
mod removals;
pub(crate) mod scrub;
mod session_notes;
mod take;
mod tokens;
pub(crate) mod told;
mod uncopied;
mod unput;

use crate::names::Names;
use crate::ops::OpError;
pub(crate) use agents::Agents;
use arrive::stands_for;
pub use config::{BlobPlace, ClusterConfig};
use create::Creations;
pub(crate) use create::{ClaimedName, Creation};
pub(crate) use diverged::{Compared, Diverged, Whose};
pub(crate) use elsewhere::Elsewhere;
pub(crate) use files::SharedFiles;
use look::{Look, away, emptied, holder, unreachable};
pub(crate) use look::{Sought, moved};
pub(crate) use members::Members;
use own::Asker;
pub(crate) use own::Own;
use removal_notes::RemovalNotes;
pub(crate) use removals::{Removals, TakenOut};
use shellkeep_session::{Claim, Notice, Record, SessionId, SessionState};
use shellkeep_shared::{Closing, Down, Moved, Remembered, Settled, Ship, ShipOptions};
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
        let asker = Asker::at(data_dir, &config.node).map_err(|error| error.to_string())?;
        let data_dir = asker.data_dir.clone();
        let open = |place: &BlobPlace| {
            SharedFiles::open(place, Path::new(&data_dir), Arc::clone(&own.checkpoints), Arc::clone(&ship))
        };
        let files = config.blobs.as_ref().map(open).transpose()?;
        let files = files.map(Arc::new);
        let removals = Removals::new(Arc::clone(&ship), &config.node, notes, files.clone());
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

    /// The session sleeps. With a claim, nothing follows under that one: a session that has another by now is left as it is.
    pub(crate) fn left(&self, id: &SessionId, claim: Option<&Claim>) {
        match claim {
            Some(claim) => self.ship.give_back(id, claim),
            None => self.ship.end(id),
        }
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
            Look { elsewhere: Some(node), .. } => Ok(Sought::there(node)),
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

    /// Claims the name of a session that is to be created, if its agent has fewer than `most`. The caller records it and its
    /// owner.
    pub(crate) async fn create(&self, id: &SessionId, agent: Option<&str>, most: u64) -> Result<Creation, OpError> {
        self.members.check_serving()?;
        self.creations.claim(id, agent, most).await
    }
}

#[cfg(test)]
pub(crate) mod in_memory;
