//! Two nodes continued a session in different ways, because the shared store lost what it had confirmed, or because one of
//! them was cut off. The history in the shared store is the session's. What this node answered and the session does not have
//! is kept as a session of its own: the same records with the same numbers, and the files that they were made with.

use super::arrive::{self, kept};
use super::copies::Copies;
use super::files::SharedFiles;
use super::lane::OpenLane;
use super::look::{away, unreachable};
use super::made_alone::MadeAlone;
use super::own::{Asker, Own};
use super::removals::as_removed;
use super::told;
use crate::checkpoints::Checkpoints;
use crate::data_dir::DataDir;
use crate::names::Names;
use crate::ops::OpError;
use crate::tasks;
use shellkeep_record::{Line, Recording};
use shellkeep_session::fold::ApplyError;
use shellkeep_session::ownership::{Claimed, Head, Meeting, meet};
use shellkeep_session::relocate::relocate;
use shellkeep_session::{
    Claim, Claims, Event, EventName, Json, Notice, Origin, Record, RunStatus, SessionId, SessionMeta, SessionState,
    Source, Timestamp, plan,
};
use shellkeep_shared::{Create, ForkNote, LEASE, Left, Ship, Start};
use shellkeep_store::{ReadError, Store, keyed};
use shellkeep_workspace::Workspaces;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Longest parts of a session's and a node's name in the name of a fork, so that all of it fits into an id.
const MOST_NAME: usize = 60;
const MOST_NODE: usize = 30;

/// Records that a daemon makes by itself, also after a crash: nobody was told of them.
const UNTOLD: [EventName; 10] = [
    EventName::RunStarted,
    EventName::ShellStarted,
    EventName::ShellStopped,
    EventName::ProcessesLeft,
    EventName::ServiceLive,
    EventName::ServiceReady,
    EventName::ServiceEnded,
    EventName::Checkpointed,
    EventName::Owned,
    EventName::RecordsLost,
];

/// Who owns a session, as the shared store says.
#[derive(Debug)]
pub(crate) enum Whose {
    /// It knows nothing of it, or that it was removed, or has no record of what this node claimed.
    Nobodys,
    /// This node. What the shared store has may be an older copy, which lacks the last records.
    Own(Box<Head>),
    /// Another node.
    Anothers(Box<Head>),
}

/// What came of comparing a session here with the shared one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compared {
    /// Nothing is left to do.
    Done,
    /// It is not clear yet whether another node goes on with it.
    Undecided,
}

/// Keeps what this node wrote to sessions that went on without it.
pub(crate) struct Diverged {
    ship: Arc<Ship>,
    asker: Asker,
    files: Option<Arc<SharedFiles>>,
    store: Store,
    names: Arc<Names>,
    workspaces: Workspaces,
    checkpoints: Arc<Checkpoints>,
    copies: Copies,
    data_dir: DataDir,
}

impl Diverged {
    pub(super) fn new(ship: Arc<Ship>, asker: Asker, files: Option<Arc<SharedFiles>>, own: &Own) -> Self {
        let copies = Copies::new(own, Path::new(&asker.data_dir));
        let Own { store, names, workspaces, checkpoints } = own;
        Self {
            ship,
            copies,
            data_dir: DataDir::new(PathBuf::from(&asker.data_dir), store.clone()),
            asker,
            files,
            store: store.clone(),
            names: Arc::clone(names),
            workspaces: workspaces.clone(),
            checkpoints: Arc::clone(checkpoints),
        }
    }

    /// Who owns a session, if the shared store answers.
    pub(crate) async fn whose(&self, id: &SessionId) -> Result<Whose, OpError> {
        let asked = id.clone();
        let found = self.ship.ask(move |tier| tier.find(&asked)).await.map_err(away)?;
        Ok(match found.map(|found| found.head) {
            None => Whose::Nobodys,
            Some(head) if head.owner.node == self.asker.node => claimed_here(head),
            Some(head) => {
                self.asker.elsewhere.note(id, &head.owner).await;
                Whose::Anothers(Box::new(head))
            }
        })
    }

    /// What this node has of sessions that are gone.
    pub(crate) fn copies(&self) -> &Copies {
        &self.copies
    }

    /// Whether this node made a session without asking the shared store, which may know of an earlier one of its name.
    pub(crate) fn was_made_alone(&self, id: &SessionId) -> bool {
        self.asker.made_alone.contains(id)
    }

    /// Sessions that this node made without asking the shared store.
    pub(crate) fn made_alone(&self) -> &Arc<MadeAlone> {
        &self.asker.made_alone
    }

    /// Whether this node was the last owner of a session, as far as it knows.
    pub(crate) fn was_own(&self, state: &SessionState) -> bool {
        let is_lost = self.asker.elsewhere.owner(&state.meta.session_id).is_some();
        !is_lost && state.claims.last().is_some_and(|claim| claim.node == self.asker.node)
    }

    /// Compares this node's copy of a session that sleeps here with the shared one, and keeps what only this node has if
    /// another node went on.
    pub(crate) async fn compare(&self, state: &SessionState) -> Result<Compared, OpError> {
        let Whose::Anothers(head) = self.whose(&state.meta.session_id).await? else { return Ok(Compared::Done) };
        match meet(&state.claims, state.seq, &head) {
            Meeting::Same | Meeting::NodeLacks { .. } => {
                self.ship.drop_left(&state.meta.session_id);
                Ok(Compared::Done)
            }
            // The other node has claimed the session and recorded nothing yet.
            Meeting::TierLacks { .. } => Ok(Compared::Undecided),
            Meeting::Apart { after } => {
                self.keep(state, after, &head).await?;
                // The session that has the name now is perhaps another agent's.
                self.names.remove(&state.meta.session_id);
                Ok(Compared::Done)
            }
        }
    }

    /// Whether a copy is of a session that was removed, and the one with this head was made under its name since. A node that
    /// did not know of a removal claims with an epoch that says so of one session; when it was made does not change. After the
    /// store was emptied, the epochs say nothing.
    pub(crate) async fn was_replaced(&self, state: &SessionState, head: &Head) -> Result<bool, OpError> {
        let id = &state.meta.session_id;
        let seems_replaced = !self.was_made_alone(id) && state.claims.was_replaced_by(&head.claims);
        Ok((seems_replaced || self.is_marked(state).await?) && !is_same(state, &self.lines(id).await?))
    }

    /// Whether the shared store says that this session was removed, whatever has its name.
    async fn is_marked(&self, state: &SessionState) -> Result<bool, OpError> {
        let session = as_removed(&state.meta);
        self.ship.ask(move |tier| tier.is_marked(&session)).await.map_err(away)
    }

    /// The records that the shared store has of a session.
    async fn lines(&self, id: &SessionId) -> Result<Vec<Vec<u8>>, OpError> {
        let asked = id.clone();
        Ok(self.ship.ask(move |tier| tier.load(&asked)).await.map_err(away)?.lines)
    }

    /// The owner, this node, has recorded forks of a session.
    pub(crate) async fn recorded(&self, id: &SessionId, forks: Vec<ForkNote>) {
        let Some(claim) = self.ship.claim_of(id) else { return };
        let id = id.clone();
        // A note that stays is recorded again by the next owner.
        let _ = self.ship.ask(move |tier| tier.forks_recorded(&id, &claim, &forks)).await;
    }

    /// Sets this node's copy of a session aside. It sleeps here, and has records after `after` that the shared one does not
    /// have. If callers may have seen them, they become a fork, which the shared store notes for the owner. Can be repeated
    /// after a failure. A copy of a session that was removed is deleted, and the session that has its name now goes on.
    pub(super) async fn keep(
        &self,
        state: &SessionState,
        after: u64,
        head: &Head,
    ) -> Result<Option<ForkNote>, OpError> {
        let id = &state.meta.session_id;
        if self.was_replaced(state, head).await? {
            self.ship.forget(id);
            self.copies.remove(state).await?;
            return Ok(None);
        }
        let lines = self.lines(id).await?;
        let left = self.ship.left(id);
        let fork = match self.was_told(state, after, &left).await {
            true => Some(self.fork(state, Parting { after, common: common(id, &lines, after), left }).await?),
            false => None,
        };
        tracing::warn!(
            session = %id, after, through = state.seq, kept_as = fork.as_ref().map(|fork| fork.session_id.as_str()),
            "this node and the shared store have different records of a session"
        );
        self.ship.forget(id);
        arrive::set_aside(&self.store, self.data_dir.root(), state).await?;
        self.asker.made_alone.forget(id).await;
        Ok(fork)
    }

    /// Whether callers were told of records after `after`. After a restart of the daemon that is not known, and what may have
    /// been told counts.
    async fn was_told(&self, state: &SessionState, after: u64, left: &Left) -> bool {
        if let Some(told) = left.told {
            return told > after;
        }
        let id = &state.meta.session_id;
        let _ = self.store.flush_about(id).await;
        let directory = self.store.recording(id);
        let reading = tasks::blocking(move || {
            let lines = Recording::open(&directory)?.lines(after + 1)?;
            Ok::<_, shellkeep_record::ReadError>(lines.flatten().any(|line| may_be_told(&line)))
        });
        // What cannot be read is kept.
        !matches!(reading.await, Ok(Ok(false)))
    }

    async fn fork(&self, state: &SessionState, parting: Parting) -> Result<ForkNote, OpError> {
        let id = &state.meta.session_id;
        let (fork_id, begun) = self.name(state, parting.after).await?;
        let (at, through, node) = (parting.after, state.seq, self.asker.node.clone());
        let note = ForkNote { session_id: fork_id.clone(), at, through, node };
        let (forked, lane) = match begun {
            // An earlier attempt got that far.
            Some(forked) if forked.seq > state.seq => (forked, None),
            begun => {
                let lane = self.claim(&fork_id, state.meta.agent.as_deref(), state.seq + 1).await?;
                let meta = self.meta(&state.meta, &note);
                let records = parting.records(state, &meta, told::forked_here(id, &note), lane.claim().clone());
                (self.append(begun, records)?, Some(lane))
            }
        };
        self.move_files(state, &forked.meta).await?;
        self.names.add(&fork_id, forked.meta.agent.as_deref().map(Arc::from));
        // It sleeps: its lease is released when its records are sent.
        drop(lane);
        let (asked, noted) = (id.clone(), note.clone());
        self.ship.ask(move |tier| tier.note_fork(&asked, &noted)).await.map_err(away)?;
        if let Some(files) = &self.files {
            files.offer(&forked);
            if !forked.kv.is_unused() {
                // Its own task copies it, and tries until it succeeds.
                files.uncopied().note(&fork_id).await;
            }
        }
        Ok(note)
    }

    /// The fork's name, and what an earlier attempt has made of it.
    async fn name(&self, state: &SessionState, after: u64) -> Result<(SessionId, Option<SessionState>), OpError> {
        let id = &state.meta.session_id;
        let origin = Some(Origin { session_id: id.clone(), seq: after });
        for name in fork_names(id, state.claims.last(), &self.asker.node) {
            let name = SessionId::parse(&name).map_err(|error| OpError::Internal { detail: error.to_string() })?;
            let unavailable = |error: ReadError| OpError::StoreUnavailable { reason: error.to_string() };
            match self.store.load(&name).await.map_err(unavailable)? {
                Some(other) if other.meta.forked_from != origin => {}
                begun => return Ok((name, begun)),
            }
        }
        Err(OpError::Internal { detail: format!("there is no name left for a fork of '{id}'") })
    }

    /// Claims the fork's name; its records follow, those under the claim from `from` on.
    async fn claim(&self, fork_id: &SessionId, agent: Option<&str>, from: u64) -> Result<OpenLane, OpError> {
        // What was answered is kept, whatever the limit is.
        let request = self.asker.creation(fork_id, agent, Create { most_of_agent: u64::MAX });
        let head = match self.ship.ask(move |tier| tier.claim(&request, LEASE)).await.map_err(away)? {
            Ok(Claimed::New(head) | Claimed::Kept(head) | Claimed::Taken(head)) => head,
            Ok(Claimed::Held(by)) => return Err(unreachable(fork_id, &by.node)),
            Err(_) => return Err(OpError::Internal { detail: format!("'{fork_id}' could not be created") }),
        };
        let start = Start { claim: head.owner, created_at: None, from, known: Some(head.last), seq: 0 };
        Ok(OpenLane::begin(&self.ship, fork_id, start, |_| None))
    }

    fn meta(&self, meta: &SessionMeta, note: &ForkNote) -> SessionMeta {
        let is_own = self.workspaces.owns(&meta.workspace);
        SessionMeta {
            session_id: note.session_id.clone(),
            created_at: Timestamp::now(),
            workspace: if is_own { self.workspaces.of(&note.session_id) } else { meta.workspace.clone() },
            user_id: None,
            forked_from: Some(Origin { session_id: meta.session_id.clone(), seq: note.at }),
            by: None,
            ..meta.clone()
        }
    }

    /// Appends what the fork does not have yet here; the shared store has nothing of it, and is given all of it or nothing: a name
    /// that has records there cannot be claimed by another attempt.
    fn append(&self, mut state: Option<SessionState>, records: Vec<Record>) -> Result<SessionState, OpError> {
        let wrong = |error: ApplyError| OpError::Internal { detail: format!("a record of a fork: {error}") };
        for record in &records {
            if state.as_ref().is_none_or(|state| record.seq > state.seq) {
                kept(self.store.append(record))?;
                arrive::follow(&mut state, record).map_err(wrong)?;
            }
        }
        records.iter().for_each(|record| self.ship.offer(record));
        state.ok_or_else(|| OpError::Internal { detail: "a fork has no records".to_owned() })
    }

    /// Gives a session's directories to its fork. What was moved before stays where it is.
    async fn move_files(&self, from: &SessionState, to: &SessionMeta) -> Result<(), OpError> {
        let (id, fork_id) = (&from.meta.session_id, &to.session_id);
        let root = self.data_dir.root();
        let mut moves = vec![
            (self.checkpoints.home(id), self.checkpoints.home(fork_id)),
            (self.data_dir.outputs(id).to_path_buf(), self.data_dir.outputs(fork_id).to_path_buf()),
            (self.data_dir.services(id), self.data_dir.services(fork_id)),
            (self.data_dir.homes().join(id.as_str()), self.data_dir.homes().join(fork_id.as_str())),
            (keyed::directory(root, id.as_str()), keyed::directory(root, fork_id.as_str())),
        ];
        if from.meta.workspace != to.workspace {
            moves.push((from.meta.workspace.as_path().to_owned(), to.workspace.as_path().to_owned()));
        }
        let gate = Arc::clone(&self.checkpoints.gate);
        let moving = tasks::blocking(move || {
            let _closed = gate.write();
            moves.iter().try_for_each(|(from, to)| match std::fs::rename(from, to) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                moved => moved,
            })
        });
        let failed = |reason: String| OpError::Internal { detail: format!("the files of '{fork_id}': {reason}") };
        moving.await.map_err(|error| failed(error.to_string()))?.map_err(|error| failed(error.to_string()))
    }
}

/// Where two histories part, and what is at hand of this node's.
struct Parting {
    /// Number of the last record that both have.
    after: u64,
    /// The session as it was then, if the shared store still knows.
    common: Option<SessionState>,
    left: Left,
}

impl Parting {
    /// The records of the fork: those after the last common one, with their numbers, or one record with the state if some of
    /// them cannot be read; then one that says what it was forked from.
    fn records(self, state: &SessionState, meta: &SessionMeta, notice: Notice, claim: Claim) -> Vec<Record> {
        let Self { after, common, left } = self;
        let tail: Vec<Record> = left.records.into_iter().filter(|record| record.seq > after).collect();
        let is_whole =
            tail.len() as u64 == state.seq - after && tail.iter().zip(after + 1..).all(|(one, seq)| one.seq == seq);
        let (first, tail) = match (is_whole, after, common) {
            (true, 0, _) => (None, tail),
            (true, _, Some(common)) => (Some(common), tail),
            _ => (Some(state.clone()), Vec::new()),
        };
        let origin = &state.meta.session_id;
        let first = first.map(|first| {
            let reason = format!("they belong to session {origin}");
            let (seq, at) = (first.seq, first.last_active_at);
            let event = Event::RecordsLost { from: 1, reason, state: Box::new(renamed(first, meta)) };
            Record { session_id: meta.session_id.clone(), seq, at, event }
        });
        let last = renamed(state.clone(), meta);
        let owned = Event::Owned { claim, because: "diverged".to_owned(), state: Some(Box::new(last.clone())) };
        // A command that was refused, because the session had moved, has a start and no end.
        let mut ends = plan::after_crash(&last, plan::Crash::Node, Timestamp::now(), |_| true);
        ends.retain(|event| matches!(event, Event::RunFinished { .. }));
        ends.push(Event::ShellStopped { reason: "diverged".to_owned(), notices: vec![notice] });
        let ends = std::iter::once(owned).chain(ends).zip(state.seq + 1..).map(|(event, seq)| Record {
            session_id: meta.session_id.clone(),
            seq,
            at: Timestamp::now(),
            event,
        });
        first.into_iter().chain(tail.into_iter().map(|record| of_fork(record, meta))).chain(ends).collect()
    }
}

/// A record of a session as one of its fork.
fn of_fork(record: Record, meta: &SessionMeta) -> Record {
    let event = match record.event {
        Event::SessionCreated { shell, .. } => Event::SessionCreated { meta: Box::new(meta.clone()), shell },
        other => other,
    };
    Record { session_id: meta.session_id.clone(), event, ..record }
}

/// A session's state as that of its fork, which has its files and none of its processes.
fn renamed(mut state: SessionState, meta: &SessionMeta) -> SessionState {
    relocate(&mut state.shell, &state.meta.workspace, &meta.workspace);
    state.services.clear();
    SessionState { meta: meta.clone(), claims: Claims::default(), hold: None, ..state }
}

/// Whose a session is that this node has claimed: without a record, the shared store has nothing of it.
fn claimed_here(head: Head) -> Whose {
    if head.last.seq == 0 { Whose::Nobodys } else { Whose::Own(Box::new(head)) }
}

/// The session as it was at a record, from what the shared store has.
fn common(id: &SessionId, lines: &[Vec<u8>], at: u64) -> Option<SessionState> {
    let is_common = |line: &&Vec<u8>| Record::from_json(line).is_ok_and(|record| record.seq <= at);
    let lines: Vec<Vec<u8>> = lines.iter().take_while(is_common).cloned().collect();
    arrive::fold(id, None, &lines, |_| Ok(())).ok().flatten().filter(|state| state.seq == at)
}

/// Whether records are those of this session, and not of another one of its name.
fn is_same(state: &SessionState, lines: &[Vec<u8>]) -> bool {
    let shared = arrive::fold(&state.meta.session_id, None, lines, |_| Ok(())).ok().flatten();
    shared.is_some_and(|shared| shared.meta.created_at == state.meta.created_at)
}

/// Whether a caller may have been told of a line.
fn may_be_told(line: &Line) -> bool {
    let is_ours = line.author.source == Source::Runtime;
    let is_lost = line.data.get("status").is_some_and(|status| status == RunStatus::Lost.as_str());
    let is_untold = EventName::of_shown(&line.event_type).is_some_and(|name| UNTOLD.contains(&name));
    !(is_ours && (is_untold || is_lost))
}

/// Names for the session that keeps what a node wrote under a claim: `demo.fork-7.n1`, and another in case the shared store
/// forgot an epoch and handed it out again.
fn fork_names(id: &SessionId, claim: Option<&Claim>, node: &str) -> [String; 2] {
    let (epoch, nonce) = claim.map_or((0, ""), |claim| (claim.epoch, claim.nonce.as_str()));
    let cut = |text: &str, most: usize| text.chars().take(most).collect::<String>();
    let (name, node) = (cut(id.as_str(), MOST_NAME), cut(node, MOST_NODE));
    [format!("{name}.fork-{epoch}.{node}"), format!("{name}.fork-{epoch}.{node}.{}", cut(nonce, 8))]
}

#[cfg(test)]
mod tests {
    use super::*;
    use shellkeep_session::ownership::Point;
    use shellkeep_session::{SessionMeta, ShellState};

    /// The bug: a session that was given to an emptied store under a late epoch was taken for another one of its name, and what
    /// callers had been told was deleted.
    #[test]
    fn a_session_is_not_replaced_by_itself() {
        let created = |at: Timestamp| {
            let session_id = SessionId::parse("s").unwrap();
            let meta = SessionMeta { created_at: at, ..SessionMeta::of_name(session_id.clone()) };
            let event = Event::SessionCreated { meta: Box::new(meta), shell: Box::new(ShellState::default()) };
            Record { session_id, seq: 1, at, event }
        };
        let (first, next) = (created(Timestamp::UNIX_EPOCH), created(Timestamp::now()));
        let state = SessionState::create(&first).unwrap();
        assert!(is_same(&state, &[first.to_json().unwrap()]));
        assert!(!is_same(&state, &[next.to_json().unwrap()]));
        assert!(!is_same(&state, &[]));
    }

    #[test]
    fn a_claim_without_records_is_nothing_that_the_shared_store_has() {
        let owner: Claim = "1.n1.x".parse().unwrap();
        let head = |seq: u64| Head {
            owner: owner.clone(),
            last: Point { seq, at: (seq > 0).then(|| owner.clone()) },
            claims: Claims::default(),
        };
        assert!(matches!(claimed_here(head(0)), Whose::Nobodys));
        assert!(matches!(claimed_here(head(3)), Whose::Own(_)));
    }

    #[test]
    fn a_fork_is_named_after_the_session_the_claim_and_the_node() {
        let claim: Claim = "7.n1.9f3a".parse().unwrap();
        let named = |name: &str, node: &str| fork_names(&SessionId::parse(name).unwrap(), Some(&claim), node);
        assert_eq!(named("demo", "n1"), ["demo.fork-7.n1", "demo.fork-7.n1.9f3a"]);
        let last: Claim = format!("{}.n1.{}", u64::MAX, "f".repeat(16)).parse().unwrap();
        for name in fork_names(&SessionId::parse(&"x".repeat(128)).unwrap(), Some(&last), &"n".repeat(64)) {
            SessionId::parse(&name).unwrap();
        }
    }
}
