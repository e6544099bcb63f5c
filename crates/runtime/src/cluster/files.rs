//! A session's checkpoints, and the files that its records name, where all nodes can read them: put there behind the answer,
//! and brought back by the node that takes the session over. Checkpoints are brought at once, the others when they are read.

mod on_the_way;

use super::config::BlobPlace;
use super::uncopied::Uncopied;
use super::unput::{Attachment, Order, ToPut, Unput};
use crate::checkpoints::{Checkpoints, Wanted, commit_of, path};
use crate::sync::lock;
use crate::tasks;
use on_the_way::{Busy, LAST_WAIT, OnTheWay};
use shellkeep_session::{Cause, FilesAt, SessionId, SessionState, Timestamp};
use shellkeep_shared::{KeptFiles, RemovedSession, Ship};
use shellkeep_workspace::blobs::{BlobError, Blobs, SessionBlobs};
use shellkeep_workspace::checkpointer::Adopted;
use shellkeep_workspace::repo::Repo;
use std::collections::HashMap;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;
use tokio::sync::{Semaphore, watch};

/// The directory of this node with copies of objects, in its data directory.
const COPIES: &str = "blob-copies";
/// How many sessions are put at a time. Each reads and writes whole packs; more would only compete for the disk.
const AT_ONCE: usize = 4;
/// How long to wait after a failure, at first and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// How long a large state of an agent may take to be copied before its caller is answered.
const ATTACH_WAIT: Duration = Duration::from_secs(2);

/// What became of the files of a session that this node took over.
#[derive(Debug)]
pub(super) enum Brought {
    /// No directory for them is configured here.
    NotConfigured {
        /// The workspace has files, of the time when the session was on this node before.
        has_older: bool,
    },
    /// None of its checkpoints is there.
    NoCheckpoint {
        /// As above.
        has_older: bool,
    },
    /// This checkpoint and those before it.
    Files {
        at: FilesAt,
        /// What became of the workspace; none if it is a directory of the host, which is left as it is.
        restored: Option<Adopted>,
    },
    /// They are there and could not be brought.
    Failed { reason: String },
}

impl Brought {
    /// The checkpoint that the files are at.
    pub(super) fn at(&self) -> Option<&FilesAt> {
        match self {
            Self::Files { at, .. } => Some(at),
            Self::NotConfigured { .. } | Self::NoCheckpoint { .. } | Self::Failed { .. } => None,
        }
    }
}

/// Checkpoints where all nodes can read them.
pub(crate) struct SharedFiles {
    blobs: Blobs,
    checkpoints: Arc<Checkpoints>,
    ship: Arc<Ship>,
    /// Sessions of which something is to be put. Notes change while this is locked, so that there is one for each of them.
    busy: Mutex<HashMap<SessionId, Busy>>,
    /// Changes whenever a session is no longer busy, or could not be put, and when nothing is tried again.
    changed: watch::Sender<bool>,
    turns: Semaphore,
    problem: Mutex<Option<String>>,
    /// Sessions whose keyed store is to be copied again.
    uncopied: Arc<Uncopied>,
    /// What is to be put, for the next start.
    unput: Unput,
}

impl SharedFiles {
    /// Those at a place.
    pub(super) fn open(
        place: &BlobPlace,
        data_dir: &Path,
        checkpoints: Arc<Checkpoints>,
        ship: Arc<Ship>,
    ) -> Result<Self, String> {
        let blobs = match place {
            BlobPlace::Directory(root) => Blobs::open(root.clone()),
            BlobPlace::Objects(objects) => Blobs::of_objects(Arc::clone(objects), data_dir.join(COPIES)),
        };
        let blobs = blobs.map_err(|error| format!("blobs: {error}"))?;
        let uncopied = Arc::new(Uncopied::at(data_dir).map_err(reason)?);
        let unput = Unput::at(data_dir).map_err(reason)?;
        let noted = unput.noted().map_err(reason)?.into_iter().map(|(id, next, noted)| {
            let attaching = next.attachments.len();
            (id, Busy { next, attaching, noted, ..Busy::default() })
        });
        let (busy, problem) = (Mutex::new(noted.collect()), Mutex::default());
        let (changed, turns) = (watch::Sender::new(false), Semaphore::new(AT_ONCE));
        Ok(Self { blobs, checkpoints, ship, busy, changed, turns, problem, uncopied, unput })
    }

    /// Sessions whose keyed store is to be copied again.
    pub(crate) fn uncopied(&self) -> &Arc<Uncopied> {
        &self.uncopied
    }

    /// Closed for a moment while the data directory is backed up.
    pub(super) fn gate(&self) -> Arc<RwLock<()>> {
        Arc::clone(&self.checkpoints.gate)
    }

    /// Why checkpoints do not get there, if they do not.
    pub(super) fn problem(&self) -> Option<String> {
        lock(&self.problem).as_ref().map(|reason| {
            format!("Checkpoints and outputs are not copied for other nodes ({reason}). They are kept on this node, and copied when that works again.")
        })
    }

    /// A session's checkpoints changed. Returns at once; a task puts them in their place.
    pub(crate) fn offer(self: &Arc<Self>, state: &SessionState) {
        let (Some(files), Some(claim)) = (&state.files, state.claims.last()) else { return };
        let id = &state.meta.session_id;
        let order = Order { claim: claim.clone(), created_at: state.meta.created_at, files: files.clone() };
        self.give(id, ToPut { checkpoint: Some(order), ..ToPut::default() });
    }

    /// Files that records of a session name were written: each with the hash of its bytes. Returns at once.
    pub(crate) fn attach(self: &Arc<Self>, state: &SessionState, files: Vec<(PathBuf, String)>) {
        let Some(claim) = state.claims.last().filter(|_| !files.is_empty()) else { return };
        let created_at = state.meta.created_at;
        let attachment = |(path, hash)| Attachment { claim: claim.clone(), created_at, path, hash };
        let attachments = files.into_iter().map(attachment).collect();
        self.give(&state.meta.session_id, ToPut { attachments, ..ToPut::default() });
    }

    /// Goes on with what an earlier process was to put.
    pub(crate) fn go_on(self: &Arc<Self>) {
        let noted: Vec<SessionId> = lock(&self.busy).keys().cloned().collect();
        noted.iter().for_each(|id| self.give(id, ToPut::default()));
    }

    /// Adds to what is to be put of a session. A task does it.
    fn give(self: &Arc<Self>, id: &SessionId, more: ToPut) {
        let mut all = lock(&self.busy);
        let busy = all.entry(id.clone()).or_default();
        // A session that was removed may be followed by another of its name.
        busy.is_removed = false;
        busy.noted += self.unput.add(id, &more);
        busy.attaching += more.attachments.len();
        busy.next.add(more);
        if !std::mem::replace(&mut busy.has_task, true) {
            tasks::spawn(Arc::clone(self).work(id.clone()));
        }
    }

    /// Waits until the files that records of a session name are where other nodes can read them, for a while. Returns whether
    /// they are.
    pub(crate) async fn attached(&self, id: &SessionId) -> bool {
        let mut changed = self.changed.subscribe();
        let is_done = |_: &bool| lock(&self.busy).get(id).is_none_or(|busy| busy.attaching == 0);
        tokio::time::timeout(ATTACH_WAIT, changed.wait_for(is_done)).await.is_ok()
    }

    /// Brings a file that a record names, if another node has put it there. `to` does not exist.
    pub(crate) async fn fetch(&self, id: &SessionId, hash: &str, to: &Path) -> Result<bool, String> {
        let (blobs, id, hash, to) = (self.blobs.clone(), id.clone(), hash.to_owned(), to.to_owned());
        blocking(move || blobs.bring_attached(id.as_str(), &hash, &to)).await
    }

    /// Brings all files that records name and this node lacks.
    pub(crate) async fn fetch_all(&self, id: &SessionId, outputs: &Path) -> Result<(), String> {
        let (blobs, id, outputs) = (self.blobs.clone(), id.clone(), outputs.to_owned());
        blocking(move || blobs.bring_all_attached(id.as_str(), &outputs)).await
    }

    /// Files that records name were removed to make room.
    pub(crate) async fn detach(&self, id: &SessionId, names: Vec<String>) -> Result<(), String> {
        let (blobs, id) = (self.blobs.clone(), id.clone());
        blocking(move || blobs.detach(id.as_str(), &names)).await
    }

    /// Files that records name were changed: what is there is removed, and these are put there.
    pub(crate) async fn replace(
        self: &Arc<Self>,
        state: &SessionState,
        files: Vec<(PathBuf, String)>,
    ) -> Result<(), String> {
        self.on_the_way().settled(&state.meta.session_id).await;
        let place = self.of(&state.meta.session_id, state.meta.created_at);
        blocking(move || place.detach_all()).await?;
        self.attach(state, files);
        Ok(())
    }

    /// Puts what is to be put of a session, until there is nothing more.
    async fn work(self: Arc<Self>, id: SessionId) {
        let mut pause = FIRST_PAUSE;
        while let Some(mut next) = self.next(&id) {
            let put = self.put_all(&id, &mut next).await;
            if let Some(busy) = lock(&self.busy).get_mut(&id) {
                busy.fails = put.is_err();
            }
            match put {
                Ok(()) => {
                    pause = FIRST_PAUSE;
                    *lock(&self.problem) = None;
                }
                Err(reason) => {
                    tracing::warn!(session = %id, reason, "checkpoints could not be copied for other nodes");
                    metrics::counter!("shellkeep_blob_failures_total").increment(1);
                    *lock(&self.problem) = Some(reason);
                    self.changed.send_modify(|_| {});
                    if self.closes_within(pause).await {
                        // Its note stays.
                        lock(&self.busy).remove(&id);
                        break;
                    }
                    pause = (pause * 2).min(LONGEST_PAUSE);
                    if let Some(busy) = lock(&self.busy).get_mut(&id).filter(|busy| !busy.is_removed) {
                        next.add(std::mem::take(&mut busy.next));
                        busy.next = next;
                    }
                }
            }
        }
        self.changed.send_modify(|_| {});
    }

    /// Waits for a while. Returns at once, and that it does, if nothing is tried again from now on.
    async fn closes_within(&self, pause: Duration) -> bool {
        let mut changed = self.changed.subscribe();
        tokio::time::timeout(pause, changed.wait_for(|is_closing| *is_closing)).await.is_ok()
    }

    /// A change of a session's keyed store could not be copied: `share` is called until it succeeds. It fails if another try
    /// may help. Returns when it is noted, so that it is tried again after a restart too.
    pub(crate) async fn share_again<F>(self: &Arc<Self>, id: &SessionId, share: impl Fn() -> F + Send + 'static)
    where
        F: Future<Output = Result<(), String>> + Send,
    {
        if !self.uncopied.wait(id) {
            return;
        }
        self.uncopied.save(id).await;
        let (files, id, mut pause) = (Arc::clone(self), id.clone(), FIRST_PAUSE);
        tasks::spawn(async move {
            while !files.closes_within(pause).await {
                files.uncopied.go(&id);
                let Err(reason) = share().await else {
                    *lock(&files.problem) = None;
                    return files.uncopied.save(&id).await;
                };
                *lock(&files.problem) = Some(reason);
                pause = (pause * 2).min(LONGEST_PAUSE);
                if !files.uncopied.wait(&id) {
                    return;
                }
            }
        });
    }

    /// Takes what is to be put next. If there is nothing, the session is no longer busy.
    fn next(&self, id: &SessionId) -> Option<ToPut> {
        // What is not put before a stop is put after the next start.
        let is_closing = *self.changed.borrow();
        let mut all = lock(&self.busy);
        let busy = all.get_mut(id)?;
        let next = std::mem::take(&mut busy.next);
        if !next.is_empty() {
            busy.noted = self.unput.shorten(id, busy.noted, &next);
            return Some(next);
        }
        all.remove(id);
        if !is_closing {
            self.unput.remove(id);
        }
        None
    }

    /// Whether a session is still this node's of which an earlier process was to put something. What is put of one that was
    /// removed would stay there.
    async fn is_own(&self, id: &SessionId, old: &ToPut) -> Result<bool, String> {
        let Some((claim, created_at)) = old.origin() else { return Ok(false) };
        let Ok(_turn) = self.turns.acquire().await else { return Ok(false) };
        let (node, session) = (claim.node.clone(), RemovedSession { session_id: id.clone(), created_at });
        let asked = self.ship.ask(move |tier| match tier.is_marked(&session)? {
            true => Ok(Some(false)),
            false => Ok(tier.find(&session.session_id)?.map(|found| found.head.owner.node == node)),
        });
        match asked.await.map_err(|down| down.reason)? {
            Some(is_own) => Ok(is_own),
            None if self.ship.alone().has_given() => Ok(false),
            None => Err("the shared store does not know the session yet".to_owned()),
        }
    }

    /// Puts what is to be put, the small first. What was put is taken out of it.
    async fn put_all(&self, id: &SessionId, next: &mut ToPut) -> Result<(), String> {
        if next.is_old && !self.is_own(id, next).await? {
            if let Some(busy) = lock(&self.busy).get_mut(id) {
                busy.attaching = busy.attaching.saturating_sub(next.attachments.len());
            }
            *next = ToPut::default();
        }
        next.is_old = false;
        while let Some(Attachment { claim, created_at, path, hash }) = next.attachments.last().cloned() {
            let place = self.of(id, created_at);
            let putting = move || match path.exists() {
                true => place.attach(&path, &hash, &claim.to_string()),
                // It was removed to make room.
                false => Ok(()),
            };
            blocking(putting).await?;
            next.attachments.pop();
            if let Some(busy) = lock(&self.busy).get_mut(id) {
                busy.attaching = busy.attaching.saturating_sub(1);
            }
            self.changed.send_modify(|_| {});
        }
        if let Some(order) = &next.checkpoint {
            self.put(id, order).await?;
            next.checkpoint = None;
        }
        Ok(())
    }

    /// What is there of a session.
    pub(super) fn of(&self, id: &SessionId, created_at: Timestamp) -> SessionBlobs {
        self.blobs.of(id.as_str(), &created_at.as_nanosecond().to_string())
    }

    async fn put(&self, id: &SessionId, order: &Order) -> Result<(), String> {
        let Ok(_turn) = self.turns.acquire().await else { return Ok(()) };
        let (place, faults) = (self.of(id, order.created_at), Arc::clone(self.checkpoints.faults()));
        let (directory, claim, files) = (self.checkpoints.repository(id), order.claim.clone(), order.files.clone());
        let putting = move || match Repo::open(&directory, &faults)? {
            // One that was pruned or purged since has a newer one behind it.
            Some(local) if commit_of(&files).is_some_and(|commit| local.objects.contains(commit)) => {
                place.put(&local, &claim.to_string(), &faults).map(Some)
            }
            _ => Ok::<_, BlobError>(None),
        };
        let Some(folder) = blocking(putting).await? else { return Ok(()) };
        let FilesAt { name, commit } = order.files.clone();
        let (session_id, claim, note) = (id.clone(), order.claim.clone(), KeptFiles { folder, name, commit });
        let folder = note.folder.clone();
        let noting = self.ship.ask(move |tier| tier.note_files(&session_id, &claim, &note)).await;
        if !noting.map_err(|down| down.reason)? {
            // It is another node's by now, which has what it found.
            return Ok(());
        }
        metrics::counter!("shellkeep_blob_puts_total").increment(1);
        let (place, faults) = (self.of(id, order.created_at), Arc::clone(self.checkpoints.faults()));
        blocking(move || place.tidy(&folder, &faults)).await
    }

    /// Waits until everything is put, for a while; nothing is tried again after that.
    pub(crate) async fn finish(&self) {
        let mut changed = self.changed.subscribe();
        let done = changed.wait_for(|_| lock(&self.busy).is_empty());
        if tokio::time::timeout(LAST_WAIT, done).await.is_err() {
            tracing::warn!("the last files of some sessions are copied for other nodes after the next start");
        }
        let _ = self.changed.send_replace(true);
    }

    /// What is on its way.
    pub(crate) fn on_the_way(&self) -> OnTheWay<'_> {
        OnTheWay { busy: &self.busy, changed: &self.changed }
    }

    /// Removes everything of a session.
    pub(crate) async fn remove(&self, id: &SessionId, created_at: Timestamp) -> Result<(), String> {
        {
            let mut all = lock(&self.busy);
            if all.get(id).is_some_and(|busy| !busy.has_task) {
                // An earlier process noted it. No task goes on with it yet that would end, so it would be waited for in vain.
                all.remove(id);
                self.unput.remove(id);
            } else if let Some(busy) = all.get_mut(id) {
                *busy = Busy { is_removed: true, noted: busy.noted, has_task: true, ..Busy::default() };
            }
        }
        self.on_the_way().settled(id).await;
        let place = self.of(id, created_at);
        blocking(move || place.remove()).await
    }

    /// Brings the checkpoints of a session that this node takes over, and puts its files into its workspace if that is one
    /// of our own. `state` has its paths on this node.
    pub(super) async fn bring(&self, state: &SessionState, noted: Option<&KeptFiles>, is_own: bool) -> Brought {
        let noted_at = noted.map(|noted| FilesAt { name: noted.name.clone(), commit: noted.commit.clone() });
        // The checkpoint that the files are at may not be the newest: the session was perhaps rewound to it.
        let wanted: Vec<FilesAt> = state.files.iter().cloned().chain(noted_at).collect();
        let place = self.of(&state.meta.session_id, state.meta.created_at);
        let (faults, folder) = (Arc::clone(self.checkpoints.faults()), noted.map(|noted| noted.folder.clone()));
        let mut checkpointer = self.checkpoints.checkpointer(&state.meta.session_id, &state.meta.workspace);
        let workspace = path(&state.meta.workspace).to_owned();
        let label = Wanted::for_other(Cause::Outside, state.seq).label(&state.meta.session_id, None);
        let bringing = move || {
            let mut found = None;
            for at in wanted {
                let Some(commit) = commit_of(&at) else { continue };
                if let Some(repo) = place.find(commit, folder.as_deref(), &faults).map_err(reason)? {
                    found = Some((at, commit, repo));
                    break;
                }
            }
            let Some((at, commit, repo)) = found else {
                return Ok(Brought::NoCheckpoint { has_older: is_own && has_files(&workspace) });
            };
            checkpointer.fetch(&repo).map_err(reason)?;
            let restored = match is_own {
                true => {
                    let made = std::fs::create_dir_all(&workspace).map_err(reason);
                    Some(made.and_then(|()| checkpointer.adopt(commit, &label).map_err(reason))?)
                }
                false => None,
            };
            checkpointer.rest();
            Ok(Brought::Files { at, restored })
        };
        match tasks::blocking(bringing).await {
            Ok(Ok(brought)) => brought,
            Ok(Err(reason)) => Brought::Failed { reason },
            Err(error) => Brought::Failed { reason: error.to_string() },
        }
    }
}

/// Whether there is something in a workspace.
pub(super) fn has_files(workspace: &Path) -> bool {
    std::fs::read_dir(workspace).is_ok_and(|mut entries| entries.next().is_some())
}

fn reason(error: impl Display) -> String {
    error.to_string()
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, BlobError> + Send + 'static,
) -> Result<T, String> {
    match tasks::blocking(work).await {
        Ok(done) => done.map_err(reason),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::in_memory;
    use super::*;
    use crate::ops::CheckpointConfig;
    use shellkeep_shared::memory::MemoryTier;
    use tempfile::TempDir;

    /// The bug: a start that completed a deletion waited for what an earlier process was to put of the session, which nothing puts
    /// before the start is over: ten seconds for each deletion.
    #[tokio::test]
    async fn what_an_earlier_process_was_to_put_is_forgotten_with_the_session() {
        let (data, place) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        let (id, created_at) = (SessionId::parse("s").unwrap(), Timestamp::from_second(7).unwrap());
        let order = Order {
            claim: "1.n1.x".parse().unwrap(),
            created_at,
            files: FilesAt { name: "c1".to_owned(), commit: "cd".to_owned() },
        };
        Unput::at(data.path()).unwrap().add(&id, &ToPut { checkpoint: Some(order), ..ToPut::default() });
        let ship = in_memory::ship(&MemoryTier::default());
        let checkpoints = Arc::new(Checkpoints::new(data.path(), CheckpointConfig::default()));
        let place = BlobPlace::Directory(place.path().to_owned());
        let files = SharedFiles::open(&place, data.path(), checkpoints, ship).unwrap();
        assert_eq!(files.unput.noted().unwrap().len(), 1);
        files.remove(&id, created_at).await.unwrap();
        assert!(files.unput.noted().unwrap().is_empty() && lock(&files.busy).is_empty());
    }
}
