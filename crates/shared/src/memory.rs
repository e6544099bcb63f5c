//! A shared tier in memory: the reference. It calls the decisions themselves, which the scripts of other tiers mirror. It
//! can be cut off, and it can fall back to an older copy of itself, as a database does when a replica takes over.

use crate::tier::{
    AgentService, Append, Appended, Appending, ClaimAnswer, ClaimRequest, CountAnswer, Down, ForkNote, Found,
    KeptFiles, Loaded, NoClaim, NodeEntry, Pipe, PipeError, RemovedSession, SharedToken, Tier, UsedByAgent,
};
use shellkeep_session::SessionId;
use shellkeep_session::ownership::{self, Ask, Claim, Claimed, Head};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// One session.
#[derive(Debug, Clone)]
struct Kept {
    head: Head,
    data_dir: String,
    agent: Option<String>,
    files: Option<KeptFiles>,
    is_free: bool,
    forks: Vec<ForkNote>,
    base: Option<Vec<u8>>,
    next: Option<(Vec<u8>, usize)>,
    log: Vec<Vec<u8>>,
}

/// Everything.
#[derive(Debug, Clone, Default)]
struct Contents {
    sessions: HashMap<SessionId, Kept>,
    /// With the epoch that each had last.
    removed: HashMap<SessionId, u64>,
    marked: HashSet<RemovedSession>,
    leases: HashMap<SessionId, (Claim, Instant)>,
    nodes: BTreeMap<String, (NodeEntry, Instant)>,
    left: HashSet<String>,
    services: BTreeMap<AgentService, Instant>,
    tokens: BTreeMap<String, SharedToken>,
    tokens_version: u64,
    incarnation: Option<String>,
    is_down: bool,
    /// Whether it answers, but not with records.
    is_unreadable: bool,
    /// How often it was asked for records.
    loads: u64,
    connections: u64,
    /// Sessions that it was told to pack, which changes nothing here.
    packed: Vec<SessionId>,
}

/// What is done while records are appended.
type During = Box<dyn FnMut() + Send>;

/// A shared tier in memory. Clones are the same tier.
#[derive(Clone, Default)]
pub struct MemoryTier {
    contents: Arc<Mutex<Contents>>,
    during_appends: Arc<Mutex<Option<During>>>,
}

/// A copy of a tier's contents.
#[derive(Debug, Clone)]
pub struct Copied(Contents);

impl MemoryTier {
    fn contents(&self) -> MutexGuard<'_, Contents> {
        self.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn up(&self) -> Result<MutexGuard<'_, Contents>, Down> {
        let contents = self.contents();
        if contents.is_down {
            return Err(Down::new("cut off"));
        }
        Ok(contents)
    }

    /// Cuts it off, or brings it back.
    pub fn set_down(&self, is_down: bool) {
        self.contents().is_down = is_down;
    }

    /// Makes its records unreadable, as damage does, or readable again: it answers who asks for them, but without them.
    pub fn set_unreadable(&self, is_unreadable: bool) {
        self.contents().is_unreadable = is_unreadable;
    }

    /// How often it was asked for records.
    pub fn loads(&self) -> u64 {
        self.contents().loads
    }

    /// Its contents now.
    pub fn copy(&self) -> Copied {
        Copied(self.contents().clone())
    }

    /// Loses everything since a copy.
    pub fn fall_back(&self, to: Copied) {
        let mut contents = self.contents();
        let connections = contents.connections + 1;
        *contents = Contents { connections, ..to.0 };
    }

    /// Loses everything without a new connection.
    pub fn empty(&self) {
        let mut contents = self.contents();
        let connections = contents.connections;
        *contents = Contents { connections, ..Contents::default() };
    }

    /// Calls `during` with each append from now on, as if it took a while and something else was done meanwhile.
    pub fn during_appends(&self, during: impl FnMut() + Send + 'static) {
        *self.during_appends.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(during));
    }

    /// Sessions that it was told to pack, each time.
    pub fn packed(&self) -> Vec<SessionId> {
        self.contents().packed.clone()
    }

    /// Ends a session's lease.
    pub fn end_lease(&self, session_id: &SessionId) {
        self.contents().leases.remove(session_id);
    }
}

impl Contents {
    fn lease(&self, session_id: &SessionId) -> Option<&Claim> {
        self.leases.get(session_id).filter(|(_, until)| *until > Instant::now()).map(|(claim, _)| claim)
    }

    /// How many sessions an agent has. One without records is only being created, for as long as its lease lasts.
    fn sessions_of(&self, agent: &str) -> u64 {
        let counts = |(id, kept): &(&SessionId, &Kept)| {
            kept.agent.as_deref() == Some(agent) && (kept.head.last.seq > 0 || self.lease(id).is_some())
        };
        self.sessions.iter().filter(counts).count() as u64
    }

    fn services_of(&self, agent: &str) -> Vec<AgentService> {
        let now = Instant::now();
        let counts = |(service, until): &(&AgentService, &Instant)| service.agent == agent && **until > now;
        self.services.iter().filter(counts).map(|(service, _)| service.clone()).collect()
    }

    fn owned(&mut self, session_id: &SessionId, claim: &Claim) -> Option<&mut Kept> {
        self.sessions.get_mut(session_id).filter(|kept| kept.head.owner == *claim)
    }
}

impl Pipe for MemoryTier {
    fn append<'a>(&'a mut self, appends: &'a [Append], lease: Duration) -> Appending<'a> {
        let answers = Tier::append(self, appends, lease).map_err(PipeError::Silent);
        Box::pin(async { answers })
    }
}

impl Tier for MemoryTier {
    fn ping(&mut self) -> Result<(), Down> {
        self.up().map(|_| ())
    }

    fn connections(&self) -> u64 {
        self.contents().connections
    }

    fn incarnation(&mut self, new: &str) -> Result<String, Down> {
        Ok(self.up()?.incarnation.get_or_insert_with(|| new.to_owned()).clone())
    }

    fn pipe(&mut self) -> Result<Option<Box<dyn Pipe>>, Down> {
        self.up().map(|_| ())?;
        Ok(Some(Box::new(self.clone())))
    }

    fn claim(&mut self, request: &ClaimRequest, lease: Duration) -> Result<ClaimAnswer, Down> {
        let mut contents = self.up()?;
        let ClaimRequest { session_id, ask, data_dir, agent, create } = request;
        if contents.removed.contains_key(session_id) && create.is_none() {
            return Ok(Err(NoClaim::Removed));
        }
        let head = contents.sessions.get(session_id).map(|kept| kept.head.clone());
        // A new session is told from a copy of a removed one by its epoch.
        let seen = contents.removed.get(session_id).copied().unwrap_or_default().max(ask.seen);
        let ask = &Ask { seen, ..ask.clone() };
        let claimed = ownership::claim(head.as_ref(), contents.lease(session_id), ask);
        let head = match (&claimed, head) {
            (Claimed::Held(_), _) => return Ok(Ok(claimed)),
            (_, Some(head)) if create.is_some() && head.last.seq > 0 && ask.mine.as_ref() != Some(&head.owner) => {
                return Ok(Ok(Claimed::Held(head.owner)));
            }
            (Claimed::New(head) | Claimed::Kept(head) | Claimed::Taken(head), _) => head.clone(),
        };
        if let (Some(create), Some(agent)) = (create, agent) {
            let used = contents.sessions_of(agent);
            let is_counted = contents.sessions.contains_key(session_id) && contents.lease(session_id).is_some();
            if used >= create.most_of_agent && !is_counted {
                return Ok(Err(NoClaim::Full { used }));
            }
        }
        contents.removed.remove(session_id);
        contents.leases.insert(session_id.clone(), (head.owner.clone(), Instant::now() + lease));
        let empty = Kept {
            head: head.clone(),
            data_dir: String::new(),
            agent: None,
            files: None,
            is_free: false,
            forks: Vec::new(),
            base: None,
            next: None,
            log: Vec::new(),
        };
        let kept = contents.sessions.entry(session_id.clone()).or_insert(empty);
        (kept.head, kept.data_dir, kept.is_free) = (head, data_dir.clone(), false);
        kept.agent = agent.clone().or(kept.agent.take());
        Ok(Ok(claimed))
    }

    fn append(&mut self, appends: &[Append], lease: Duration) -> Result<Vec<Appended>, Down> {
        if let Some(during) = &mut *self.during_appends.lock().unwrap_or_else(PoisonError::into_inner) {
            during();
        }
        let mut contents = self.up()?;
        let mut take = |append: &Append| {
            let Append { session_id, claim, lines, .. } = append;
            let head = append.decide(contents.sessions.get(session_id).map(|kept| &kept.head))?;
            contents.leases.insert(session_id.clone(), (claim.clone(), Instant::now() + lease));
            let Some(kept) = contents.sessions.get_mut(session_id) else { return Ok(Vec::new()) };
            if !lines.is_empty() {
                kept.head = head;
                kept.log.extend(lines.iter().cloned());
            }
            Ok(kept.forks.clone())
        };
        Ok(appends.iter().map(&mut take).collect())
    }

    fn rest(&mut self, session_id: &SessionId, claim: &Claim, seq: u64, line: &[u8]) -> Result<(), Down> {
        if let Some(kept) = self.up()?.owned(session_id, claim).filter(|kept| kept.head.last.seq == seq)
            && kept.next.as_ref().is_none_or(|(given, _)| given != line)
        {
            if let Some((base, covers)) = kept.next.take() {
                kept.base = Some(base);
                kept.log.drain(..covers);
            }
            kept.next = Some((line.to_vec(), kept.log.len()));
        }
        Ok(())
    }

    fn pack(&mut self, session_id: &SessionId, _: &Claim) -> Result<(), Down> {
        self.up()?.packed.push(session_id.clone());
        Ok(())
    }

    fn replace(&mut self, session_id: &SessionId, claim: &Claim, seq: u64, lines: &[Vec<u8>]) -> Result<bool, Down> {
        let mut contents = self.up()?;
        let Some(kept) = contents.owned(session_id, claim).filter(|kept| kept.head.last.seq == seq) else {
            return Ok(false);
        };
        (kept.base, kept.next, kept.log) = (None, None, lines.to_vec());
        Ok(true)
    }

    fn note_files(&mut self, session_id: &SessionId, claim: &Claim, files: &KeptFiles) -> Result<bool, Down> {
        let mut contents = self.up()?;
        let owned = contents.owned(session_id, claim);
        Ok(owned.map(|kept| kept.files = Some(files.clone())).is_some())
    }

    fn note_fork(&mut self, session_id: &SessionId, fork: &ForkNote) -> Result<(), Down> {
        let mut contents = self.up()?;
        if let Some(kept) = contents.sessions.get_mut(session_id).filter(|kept| !kept.forks.contains(fork)) {
            kept.forks.push(fork.clone());
        }
        Ok(())
    }

    fn forks_recorded(&mut self, session_id: &SessionId, claim: &Claim, forks: &[ForkNote]) -> Result<(), Down> {
        if let Some(kept) = self.up()?.owned(session_id, claim) {
            kept.forks.retain(|fork| !forks.contains(fork));
        }
        Ok(())
    }

    fn release(&mut self, session_id: &SessionId, claim: &Claim, for_good: bool) -> Result<(), Down> {
        let mut contents = self.up()?;
        if let Some(kept) = contents.owned(session_id, claim) {
            kept.is_free = for_good;
        }
        if contents.leases.get(session_id).is_some_and(|(holder, _)| holder == claim) {
            contents.leases.remove(session_id);
        }
        Ok(())
    }

    fn remove(&mut self, session_id: &SessionId, claim: &Claim) -> Result<(), Down> {
        let mut contents = self.up()?;
        if contents.owned(session_id, claim).is_some() {
            contents.sessions.remove(session_id);
            contents.leases.remove(session_id);
            contents.removed.insert(session_id.clone(), claim.epoch);
        }
        Ok(())
    }

    fn drop_session(&mut self, session_id: &SessionId, claim: &Claim) -> Result<(), Down> {
        let mut contents = self.up()?;
        if contents.owned(session_id, claim).is_some() {
            contents.sessions.remove(session_id);
            contents.leases.remove(session_id);
        }
        Ok(())
    }

    fn mark_removed(&mut self, removed: &[RemovedSession]) -> Result<(), Down> {
        self.up()?.marked.extend(removed.iter().cloned());
        Ok(())
    }

    fn is_marked(&mut self, session: &RemovedSession) -> Result<bool, Down> {
        Ok(self.up()?.marked.contains(session))
    }

    fn removed(&mut self, sessions: &[SessionId]) -> Result<Vec<SessionId>, Down> {
        let contents = self.up()?;
        Ok(sessions.iter().filter(|id| contents.removed.contains_key(*id)).cloned().collect())
    }

    fn find(&mut self, session_id: &SessionId) -> Result<Option<Found>, Down> {
        let contents = self.up()?;
        let found = contents.sessions.get(session_id).map(|kept| Found {
            head: kept.head.clone(),
            lease: contents.lease(session_id).cloned(),
            data_dir: kept.data_dir.clone(),
            agent: kept.agent.clone(),
            files: kept.files.clone(),
            is_free: kept.is_free,
            forks: kept.forks.clone(),
        });
        Ok(found)
    }

    fn load(&mut self, session_id: &SessionId) -> Result<Loaded, Down> {
        let mut contents = self.up()?;
        contents.loads += 1;
        if contents.is_unreadable {
            return Err(Down { answers: true, ..Down::new("records cannot be read") });
        }
        let Some(kept) = contents.sessions.get(session_id) else { return Ok(Loaded::default()) };
        Ok(Loaded { lines: kept.base.iter().chain(&kept.log).cloned().collect() })
    }

    fn count_service(&mut self, service: &AgentService, limit: u64, lease: Duration) -> Result<CountAnswer, Down> {
        let mut contents = self.up()?;
        let counted = contents.services_of(&service.agent);
        if counted.len() as u64 >= limit && !counted.contains(service) {
            return Ok(Err(counted));
        }
        contents.services.insert(service.clone(), Instant::now() + lease);
        Ok(Ok(()))
    }

    fn renew_services(&mut self, services: &[AgentService], lease: Duration) -> Result<(), Down> {
        let until = Instant::now() + lease;
        self.up()?.services.extend(services.iter().map(|service| (service.clone(), until)));
        Ok(())
    }

    fn uncount_service(&mut self, service: &AgentService) -> Result<(), Down> {
        self.up()?.services.remove(service);
        Ok(())
    }

    fn used_by(&mut self, agent: &str) -> Result<UsedByAgent, Down> {
        let contents = self.up()?;
        let (sessions, services) = (contents.sessions_of(agent), contents.services_of(agent).len() as u64);
        Ok(UsedByAgent { sessions, services })
    }

    fn put_tokens(&mut self, tokens: &[SharedToken]) -> Result<(), Down> {
        let mut contents = self.up()?;
        for token in tokens {
            let known = contents.tokens.get(&token.id);
            if known.is_none_or(|known| known != token && (token.is_revoked || !known.is_revoked)) {
                contents.tokens.insert(token.id.clone(), token.clone());
                contents.tokens_version += 1;
            }
        }
        Ok(())
    }

    fn tokens(&mut self) -> Result<Vec<SharedToken>, Down> {
        Ok(self.up()?.tokens.values().cloned().collect())
    }

    fn tokens_version(&mut self) -> Result<u64, Down> {
        Ok(self.up()?.tokens_version)
    }

    fn beat(&mut self, node: &NodeEntry, lease: Duration) -> Result<(), Down> {
        let mut contents = self.up()?;
        contents.nodes.insert(node.name.clone(), (node.clone(), Instant::now() + lease));
        contents.left.remove(&node.name);
        Ok(())
    }

    fn leave(&mut self, name: &str) -> Result<(), Down> {
        let mut contents = self.up()?;
        contents.nodes.remove(name);
        contents.left.insert(name.to_owned());
        Ok(())
    }

    fn has_left(&mut self, name: &str) -> Result<bool, Down> {
        Ok(self.up()?.left.contains(name))
    }

    fn node(&mut self, name: &str) -> Result<Option<NodeEntry>, Down> {
        Ok(self.nodes()?.into_iter().find(|node| node.name == name))
    }

    fn nodes(&mut self) -> Result<Vec<NodeEntry>, Down> {
        let contents = self.up()?;
        let alive = contents.nodes.values().filter(|(_, until)| *until > Instant::now());
        Ok(alive.map(|(node, _)| node.clone()).collect())
    }
}
