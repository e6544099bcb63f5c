//! Sessions that this node deleted and that the shared store must forget too. A deletion is recorded here first; until the
//! shared store has followed, the session must not come back from there. Afterwards no other node may bring it back, also if the
//! shared store is emptied.

use super::arrive;
use super::files::SharedFiles;
use super::look::moved;
use super::removal_notes::RemovalNotes;
use crate::names::Names;
use crate::ops::{ClusterError, OpError};
use crate::pending::{Deletion, Pending};
use crate::sync::lock;
use crate::tasks;
use shellkeep_session::ownership::Claim;
use shellkeep_session::{SessionId, SessionMeta, Timestamp};
use shellkeep_shared::{Down, Loaded, RemovedSession, Ship, Tier};
use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Pauses between attempts to remove a session. The first is short, because the shared store may have been away for a moment
/// only. They grow while it answers without doing it, as with records that it cannot read: each attempt takes the time of the
/// thread that renews leases.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Of how many sessions the shared store is told, or asked, in one turn of that thread.
const AT_ONCE: usize = 100;

/// How many nodes may take a session while it is being removed, one after the other: each must wait for the lease of the one
/// before, so one is rare.
const MOST_OWNERS: u32 = 3;

/// What the shared store has of a session that is being deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TakenOut {
    /// Nothing any more.
    Now,
    /// It does not answer, and is told when it does.
    Later,
}

/// Deletions that the shared store has not followed yet.
pub(crate) struct Removals {
    ship: Arc<Ship>,
    node: String,
    waiting: Mutex<HashSet<SessionId>>,
    notes: Arc<RemovalNotes>,
    /// What all nodes can read of sessions, if there is a place for that.
    files: Option<Arc<SharedFiles>>,
    /// Sessions without a name of which there may be a copy here.
    unnamed: Mutex<HashSet<SessionId>>,
}

/// A session as one that was removed.
pub(super) fn as_removed(meta: &SessionMeta) -> RemovedSession {
    RemovedSession { session_id: meta.session_id.clone(), created_at: meta.created_at }
}

impl Removals {
    pub(super) fn new(ship: Arc<Ship>, node: &str, notes: RemovalNotes, files: Option<Arc<SharedFiles>>) -> Arc<Self> {
        let (node, waiting, unnamed) = (node.to_owned(), Mutex::default(), Mutex::default());
        Arc::new(Self { ship, node, waiting, notes: Arc::new(notes), files, unnamed })
    }

    /// Whether a session was deleted here, and the shared store still has it.
    pub(crate) fn is_waiting(&self, id: &SessionId) -> bool {
        lock(&self.waiting).contains(id)
    }

    /// Whether the shared store says that a session was removed, whatever has its name. Not while it is unreachable.
    pub(crate) async fn is_marked(&self, meta: &SessionMeta) -> bool {
        let session = as_removed(meta);
        self.ship.ask(move |tier| tier.is_marked(&session)).await.unwrap_or_default()
    }

    /// The shared store says that a session was removed, and it has no name here any more. Its copy is deleted with the next look.
    pub(super) fn unname(&self, names: &Names, id: &SessionId) {
        lock(&self.unnamed).insert(id.clone());
        names.remove(id);
    }

    /// The sessions of this node, and those that have no name here any more.
    pub(crate) fn with_unnamed(&self, names: &Names) -> Vec<SessionId> {
        let mut all = names.all();
        all.extend(lock(&self.unnamed).drain().filter(|id| !names.contains(id)));
        all
    }

    /// Notes that a session was removed. Returns when that is on the disk.
    pub(crate) async fn note(&self, meta: &SessionMeta) {
        self.keep(as_removed(meta)).await;
    }

    async fn keep(&self, removed: RemovedSession) {
        let (notes, id) = (Arc::clone(&self.notes), removed.session_id.clone());
        if let Ok(Err(error)) = tasks::blocking(move || notes.add(&removed)).await {
            tracing::warn!(session = %id, %error, "the note that a session was removed could not be written");
        }
    }

    /// Tells a shared store that was emptied of the removals that this node knows of. Returns whether it has told all of them: not if
    /// they cannot be read now, or the node is stopping.
    pub(crate) async fn give_again(&self) -> bool {
        let notes = Arc::clone(&self.notes);
        match tasks::blocking(move || notes.all()).await.unwrap_or_else(|error| Err(error.into())) {
            Ok(noted) => self.give(noted.into_iter().collect()).await.is_ok(),
            Err(error) => {
                tracing::warn!(%error, "the notes of removed sessions cannot be read");
                false
            }
        }
    }

    async fn give(&self, noted: HashSet<RemovedSession>) -> Result<(), Down> {
        let all: Vec<_> = noted.iter().cloned().collect();
        for some in all.chunks(AT_ONCE) {
            self.patiently(some.to_vec(), |tier, some| tier.mark_removed(some)).await?;
        }
        let names: HashSet<_> = all.into_iter().map(|removed| removed.session_id).collect();
        let names: Vec<_> = names.into_iter().collect();
        for some in names.chunks(AT_ONCE) {
            for id in self.patiently(some.to_vec(), |tier, some| in_use(tier, some)).await? {
                self.drop_if_back(&id, &noted).await?;
            }
        }
        Ok(())
    }

    /// Removes the session that has a name from the shared store if it is one of those that were removed: a node that was faster has
    /// given it to the store. Its name is not marked: another session may have it on a node that is down.
    async fn drop_if_back(&self, id: &SessionId, noted: &HashSet<RemovedSession>) -> Result<(), Down> {
        let (owner, loaded) = match self.patiently(id.clone(), load).await {
            Ok(Some(loaded)) => loaded,
            Ok(None) => return Ok(()),
            Err(down) if down.answers => {
                tracing::warn!(session = %id, reason = down.reason, "whether it is one that was removed is not known");
                return Ok(());
            }
            Err(down) => return Err(down),
        };
        let of = id.clone();
        let meta = tasks::blocking(move || meta_of(&of, &loaded.lines)).await.ok().flatten();
        if meta.is_some_and(|meta| noted.contains(&as_removed(&meta))) {
            self.patiently((id.clone(), owner), |tier, (id, owner)| tier.drop_session(id, owner)).await?;
        }
        Ok(())
    }

    /// Asks the shared store until it answers, or the node is stopping.
    async fn patiently<Q, T>(&self, about: Q, question: fn(&mut dyn Tier, &Q) -> Result<T, Down>) -> Result<T, Down>
    where
        Q: Clone + Send + 'static,
        T: Send + 'static,
    {
        let alone = self.ship.alone();
        loop {
            let asked = about.clone();
            match self.ship.ask(move |tier| question(tier, &asked)).await {
                Err(down) if !down.answers && !alone.is_closing() => {
                    tracing::debug!(reason = down.reason, "what was removed is not told yet");
                    tokio::time::sleep(FIRST_PAUSE).await;
                    alone.until_reached().await;
                }
                answer => return answer,
            }
        }
    }

    /// Which of these sessions the shared store says were removed. None of them while it is unreachable.
    pub(crate) async fn removed(&self, ids: Vec<SessionId>) -> HashSet<SessionId> {
        self.ship.ask(move |tier| tier.removed(&ids)).await.unwrap_or_default().into_iter().collect()
    }

    /// Removes a session of this node from the shared store, before anything of it is removed here. Fails if it is another node's by
    /// now, or if another node may take it at any moment: nothing is changed then.
    pub(crate) async fn take_out(&self, deletion: &Deletion) -> Result<TakenOut, OpError> {
        let id = &deletion.id;
        // From here on it is not claimed again, which it would be if a renewal comes in between.
        lock(&self.waiting).insert(id.clone());
        let refused = match self.remove(deletion, Reach::Own).await {
            Ok(true) => {
                self.ship.forget(id);
                return Ok(TakenOut::Now);
            }
            Ok(false) => moved(id),
            Err(_) if self.ship.alone().unserved().is_some() => ClusterError::Alone { node: self.node.clone() }.into(),
            Err(down) => {
                if down.answers {
                    tracing::warn!(session = %id, reason = down.reason, "a deleted session stays in the shared store for now");
                }
                self.ship.forget(id);
                return Ok(TakenOut::Later);
            }
        };
        lock(&self.waiting).remove(id);
        Err(refused)
    }

    /// Completes a deletion after everything was removed here. If the shared store has not followed yet, it is asked again until it
    /// does, or after the next start: until then the note stays.
    pub(crate) fn finish(self: &Arc<Self>, deletion: &Deletion, note: Option<Pending>, taken_out: TakenOut) {
        match taken_out {
            TakenOut::Now => self.done(&deletion.id, note),
            TakenOut::Later => self.follow_up(deletion, note, Reach::of_told(deletion)),
        }
    }

    /// Completes a deletion that an earlier daemon had begun. If it had recorded it, somebody may have been told that the session is
    /// deleted, so it is, whichever node has it.
    pub(crate) async fn complete(self: &Arc<Self>, deletion: &Deletion, note: Pending, was_recorded: bool) {
        lock(&self.waiting).insert(deletion.id.clone());
        let reach = if was_recorded { Reach::of_told(deletion) } else { Reach::Own };
        match self.remove(deletion, reach).await {
            Ok(is_removed) => {
                if is_removed {
                    self.remove_files(deletion).await;
                }
                self.done(&deletion.id, Some(note));
            }
            Err(_) => self.follow_up(deletion, Some(note), reach),
        }
    }

    /// Removes a session from the shared store, and what all nodes have of its files, when that is possible.
    fn follow_up(self: &Arc<Self>, deletion: &Deletion, note: Option<Pending>, reach: Reach) {
        let (this, deletion) = (Arc::clone(self), deletion.clone());
        tasks::spawn(async move {
            let Some(is_removed) = this.keep_trying(&deletion, reach).await else { return };
            if is_removed {
                this.remove_files(&deletion).await;
            }
            this.done(&deletion.id, note);
        });
    }

    /// Removes what all nodes can read of a session that the shared store has removed. Not before: the session may be another
    /// node's, which goes on with these files.
    pub(crate) async fn remove_files(&self, deletion: &Deletion) {
        if let Some(files) = &self.files
            && let Err(reason) = files.remove(&deletion.id, deletion.created_at).await
        {
            tracing::warn!(session = %deletion.id, reason, "the checkpoints of a removed session stay where other nodes can read them");
        }
    }

    /// Returns when the shared store has said whether a session is removed; `None` if the node is stopping.
    async fn keep_trying(&self, deletion: &Deletion, reach: Reach) -> Option<bool> {
        let (alone, mut pause) = (self.ship.alone(), FIRST_PAUSE);
        while !alone.is_closing() {
            tokio::time::sleep(pause).await;
            alone.until_reached().await;
            match self.remove(deletion, reach).await {
                Ok(is_removed) => return Some(is_removed),
                Err(down) if down.answers => pause = (pause * 2).min(LONGEST_PAUSE),
                Err(_) => pause = FIRST_PAUSE,
            }
        }
        None
    }

    fn done(&self, id: &SessionId, note: Option<Pending>) {
        lock(&self.waiting).remove(id);
        note.into_iter().for_each(Pending::done);
    }

    /// Removes a session from the shared store. Returns whether it is removed; not if it is out of reach.
    async fn remove(&self, deletion: &Deletion, reach: Reach) -> Result<bool, Down> {
        let (node, deletion) = (self.node.clone(), deletion.clone());
        match self.ship.ask(move |tier| remove(tier, &node, &deletion, reach)).await? {
            Removed::OutOfReach => return Ok(false),
            Removed::Marked(removed) => self.keep(removed).await,
            Removed::Unmarked => {}
        }
        Ok(true)
    }
}

/// Whose session is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// Only this node's. Nobody was told yet that the session is deleted, so one that another node has taken stays.
    Own,
    /// Any node's: a caller was told, and a session that is deleted does not come back. Another node may have taken it before the
    /// shared store could be told.
    All,
}

impl Reach {
    /// What a deletion reaches that a caller was told of. Without its time of creation another session of the name may be found.
    fn of_told(deletion: &Deletion) -> Self {
        if deletion.created_at == Timestamp::UNIX_EPOCH { Self::Own } else { Self::All }
    }
}

/// What came of a removal.
enum Removed {
    /// The session is gone, and marked as removed.
    Marked(RemovedSession),
    /// It is gone. When it was created is not known.
    Unmarked,
    /// It is another node's.
    OutOfReach,
}

/// Removes a session, and marks it as removed. Another session of the same name stays.
fn remove(tier: &mut dyn Tier, node: &str, deletion: &Deletion, reach: Reach) -> Result<Removed, Down> {
    let id = &deletion.id;
    let mut attempts = 0;
    while let Some(found) = tier.find(id)? {
        let is_own = found.head.owner.node == node;
        match meta_of(id, &tier.load(id)?.lines) {
            Some(meta) if !deletion.is_of(&meta) => break,
            Some(_) if is_own || reach == Reach::All => {}
            // One that cannot be read is deleted without its time of creation.
            None if is_own => {}
            _ => return Ok(Removed::OutOfReach),
        }
        if attempts == MOST_OWNERS {
            return Err(Down { answers: true, ..Down::new("the session's owner keeps changing") });
        }
        attempts += 1;
        // Refused, silently, if another node has taken it since: then that one is looked at.
        tier.remove(id, &found.head.owner)?;
    }
    let removed = RemovedSession { session_id: id.clone(), created_at: deletion.created_at };
    if removed.created_at == Timestamp::UNIX_EPOCH {
        return Ok(Removed::Unmarked);
    }
    tier.mark_removed(std::slice::from_ref(&removed))?;
    Ok(Removed::Marked(removed))
}

/// Those of these names that a session with records has.
fn in_use(tier: &mut dyn Tier, names: &[SessionId]) -> Result<Vec<SessionId>, Down> {
    let mut used = Vec::new();
    for id in names {
        used.extend(tier.find(id)?.filter(|found| found.head.last.seq > 0).map(|_| id.clone()));
    }
    Ok(used)
}

/// The owner and the records of a session, if there is one.
fn load(tier: &mut dyn Tier, id: &SessionId) -> Result<Option<(Claim, Loaded)>, Down> {
    let Some(found) = tier.find(id)? else { return Ok(None) };
    Ok(Some((found.head.owner, tier.load(id)?)))
}

/// The session that these records are of, if they can be read.
fn meta_of(id: &SessionId, lines: &[Vec<u8>]) -> Option<SessionMeta> {
    arrive::fold(id, None, lines, |_| Ok(())).ok().flatten().map(|state| state.meta)
}

#[cfg(test)]
mod tests {
    use super::super::in_memory;
    use super::*;
    use shellkeep_session::ownership::{Ask, Claimed, Claims};
    use shellkeep_session::{ByteString, Event, Json, Record, SessionState};
    use shellkeep_shared::memory::MemoryTier;
    use shellkeep_shared::{Append, ClaimRequest, Closing, LEASE};
    use tempfile::TempDir;
    use tokio::time::timeout;

    /// Far more than anything here takes.
    const LONG: Duration = Duration::from_secs(60);

    /// A session of this node in a tier, and its deletion.
    fn deleted() -> (TempDir, MemoryTier, Arc<Removals>, Deletion) {
        let (mut tier, id) = (MemoryTier::default(), SessionId::parse("s").unwrap());
        let ask = Ask { node: "n1".to_owned(), nonce: "x".to_owned(), mine: None, seen: 0, claims: Claims::default() };
        let request = ClaimRequest { session_id: id.clone(), ask, data_dir: String::new(), agent: None, create: None };
        tier.claim(&request, LEASE).unwrap().unwrap();
        let data = TempDir::new().unwrap();
        let removals = Removals::new(in_memory::ship(&tier), "n1", RemovalNotes::at(data.path()).unwrap(), None);
        (data, tier, removals, Deletion::of_files(&id, ByteString::from("")))
    }

    fn created_in(year: &str) -> Record {
        let (session_id, at) = (SessionId::parse("s").unwrap(), format!("{year}-01-01T00:00:00Z").parse().unwrap());
        let meta = SessionMeta { created_at: at, ..SessionMeta::of_name(session_id.clone()) };
        let event = Event::SessionCreated { meta: Box::new(meta), shell: Box::default() };
        Record { session_id, seq: 1, at, event }
    }

    /// Gives a session to a tier, as a node does that was down.
    fn give(tier: &mut MemoryTier, record: &Record) {
        let ask = Ask { node: "n2".to_owned(), nonce: "y".to_owned(), mine: None, seen: 0, claims: Claims::default() };
        let session_id = record.session_id.clone();
        let request =
            ClaimRequest { session_id: session_id.clone(), ask, data_dir: String::new(), agent: None, create: None };
        let Ok(Claimed::New(head)) = tier.claim(&request, LEASE).unwrap() else { panic!("it is new") };
        let (claim, after, lines) = (head.owner, head.last, vec![record.to_json().unwrap()]);
        let append = Append { session_id, claim, after, from: 1, first: 1, through: 1, lines };
        tier.append(&[append], LEASE).unwrap().remove(0).unwrap();
    }

    /// The bug: a store that was emptied knew nothing of removals any more.
    #[tokio::test]
    async fn a_store_that_was_emptied_is_told_of_removals_again() {
        let (_data, mut tier, removals, _) = deleted();
        let (old, new) = (created_in("2025"), created_in("2026"));
        let meta = |record: &Record| SessionState::create(record).unwrap().meta;
        tier.empty();
        give(&mut tier, &old);
        removals.note(&meta(&old)).await;
        assert!(!removals.is_marked(&meta(&old)).await);
        removals.give_again().await;
        assert!(removals.is_marked(&meta(&old)).await && !removals.is_marked(&meta(&new)).await);
        assert_eq!(tier.find(&new.session_id), Ok(None), "a node that was faster had given it");
        assert!(removals.removed(vec![new.session_id.clone()]).await.is_empty(), "it is not known what has its name");
        // Another session has the name since.
        tier.empty();
        give(&mut tier, &new);
        removals.give_again().await;
        assert!(removals.is_marked(&meta(&old)).await);
        assert!(tier.find(&new.session_id).unwrap().is_some());
    }

    /// The bug: each removal took a turn of the thread that renews leases, and with it the whole session that has the name.
    #[tokio::test]
    async fn what_has_a_name_is_read_once_however_often_that_was_removed() {
        let (_data, mut tier, removals, _) = deleted();
        let old: Vec<_> = (0..2 * AT_ONCE).map(|year| created_in(&(2000 + year).to_string())).collect();
        let metas: Vec<_> = old.iter().map(|record| SessionState::create(record).unwrap().meta).collect();
        tier.empty();
        give(&mut tier, &old[AT_ONCE]);
        for meta in &metas {
            removals.notes.add(&as_removed(meta)).unwrap();
        }
        assert!(removals.give_again().await);
        assert_eq!((tier.loads(), tier.find(&metas[0].session_id)), (1, Ok(None)));
        for meta in &metas {
            assert!(removals.is_marked(meta).await, "{meta:?}");
        }
    }

    /// The bug: notes that could not be read counted as none, and the store was never told of them.
    #[tokio::test]
    async fn removals_that_cannot_be_read_are_not_told() {
        let (data, mut tier, removals, _) = deleted();
        let (old, unreadable) = (created_in("2025"), data.path().join("removed/9999999"));
        tier.empty();
        give(&mut tier, &old);
        let meta = SessionState::create(&old).unwrap().meta;
        removals.note(&meta).await;
        std::fs::create_dir(&unreadable).unwrap();
        assert!(!removals.give_again().await && !removals.is_marked(&meta).await);
        std::fs::remove_dir(unreadable).unwrap();
        assert!(removals.give_again().await && removals.is_marked(&meta).await);
    }

    /// The bug: a session whose records could not be read was asked for as fast as the store answered, on the thread that renews
    /// leases.
    #[tokio::test]
    async fn a_session_that_cannot_be_removed_is_tried_again_after_a_pause() {
        let (_data, mut tier, removals, deletion) = deleted();
        tier.set_unreadable(true);
        let removed = timeout(2 * FIRST_PAUSE, removals.keep_trying(&deletion, Reach::Own)).await;
        assert!(removed.is_err(), "it cannot be removed");
        assert!(tier.loads() <= 1, "it was tried {} times", tier.loads());
        tier.set_unreadable(false);
        let removed = timeout(LONG, removals.keep_trying(&deletion, Reach::Own)).await;
        assert_eq!(removed.expect("it can be removed"), Some(true));
        assert_eq!(tier.find(&deletion.id), Ok(None));
    }

    /// The bug: a node that was stopping answered at once that it was, and was asked again.
    #[tokio::test]
    async fn a_node_that_stops_leaves_a_removal_to_its_next_start() {
        let (_data, _tier, removals, deletion) = deleted();
        removals.ship.close(Closing::Stop);
        let removed = timeout(LONG, removals.keep_trying(&deletion, Reach::Own)).await;
        assert_eq!(removed.expect("it stops trying"), None);
    }

    /// The bug: a node that had lost a session without knowing it removed what all nodes have of its files, and said that the
    /// session was deleted. The node that went on with it lost them.
    #[tokio::test]
    async fn another_node_s_session_is_not_taken_out() {
        let (_data, mut tier, removals, _) = deleted();
        let record = created_in("2026");
        let meta = SessionState::create(&record).unwrap().meta;
        tier.empty();
        give(&mut tier, &record);
        let deletion = Deletion::new(&meta, None);
        let refused = removals.take_out(&deletion).await;
        assert!(matches!(refused, Err(OpError::Cluster(ClusterError::Moved { .. }))), "{refused:?}");
        assert!(tier.find(&deletion.id).unwrap().is_some() && !tier.is_marked(&as_removed(&meta)).unwrap());
        assert!(!removals.is_waiting(&deletion.id), "its name can be used");
    }

    /// The bug: a session whose deletion was answered while the shared store was away stayed for ever if another node had taken it
    /// before the store could be told. Another session of the name stays.
    #[tokio::test]
    async fn what_was_said_to_be_deleted_is_removed_from_any_node() {
        let (_data, mut tier, removals, _) = deleted();
        let (old, new) = (created_in("2025"), created_in("2026"));
        let deletion = Deletion::new(&SessionState::create(&old).unwrap().meta, None);
        tier.empty();
        tier.set_down(true);
        assert_eq!(removals.take_out(&deletion).await.unwrap(), TakenOut::Later);
        assert!(removals.is_waiting(&deletion.id), "its name cannot be used until then");
        tier.set_down(false);
        for (record, is_left) in [(old, false), (new, true)] {
            tier.empty();
            give(&mut tier, &record);
            let removed = timeout(LONG, removals.keep_trying(&deletion, Reach::of_told(&deletion))).await;
            assert_eq!(removed.expect("the store answers"), Some(true));
            assert_eq!(tier.find(&deletion.id).unwrap().is_some(), is_left);
        }
    }
}
