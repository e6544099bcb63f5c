//! Keeps a session's files: knows cheaply whether something changed in its workspace, and saves it as a checkpoint.
//! While a session rests, nothing of this is held but two files.

mod adopt;
mod align;
mod copied;
mod later;
mod live;
mod saved;
mod trouble;
mod write;

pub use crate::index::Counts;
pub use crate::limits::Limits;
pub use crate::scan::{LeftOut, Reason};
pub use adopt::{AdoptError, Adopted};
pub use later::{Due, Later};
pub use saved::{Label, Saved};
pub use trouble::Trouble;

use crate::fault::Faults;
use crate::repo::{ObjectId, Repo, RepoError};
use crate::watch::Watcher;
use live::{Live, Occasion};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The repository in a session's folder of checkpoints.
pub const REPOSITORY: &str = "repo.git";
/// The index beside it.
const INDEX: &str = "index";

/// All that is known of one session's files while it is live. Costs nothing until [`Checkpointer::begin`].
#[derive(Debug)]
pub struct Checkpointer {
    watcher: Arc<Watcher>,
    workspace: PathBuf,
    home: PathBuf,
    limits: Limits,
    faults: Arc<Faults>,
    repo: Option<Repo>,
    live: Option<Box<Live>>,
}

impl Checkpointer {
    /// For the files in `workspace`, whose checkpoints are in the folder `home`.
    pub fn new(watcher: &Arc<Watcher>, workspace: PathBuf, home: PathBuf, limits: Limits) -> Self {
        Self::with_faults(watcher, workspace, home, limits, &Arc::default())
    }

    /// The same, with switches that make it fail on purpose.
    pub fn with_faults(
        watcher: &Arc<Watcher>,
        workspace: PathBuf,
        home: PathBuf,
        limits: Limits,
        faults: &Arc<Faults>,
    ) -> Self {
        let (watcher, faults) = (Arc::clone(watcher), Arc::clone(faults));
        Self { watcher, workspace, home, limits, faults, repo: None, live: None }
    }

    /// Watches the workspace and looks at all of it. Files are not read here. After an error it may be called again;
    /// until it succeeds nothing is clean.
    pub fn begin(&mut self) -> Result<(), Trouble> {
        self.open_repo()?;
        let repo = self.repo.as_ref();
        let live = match &mut self.live {
            Some(live) => live,
            None => self.live.insert(Box::new(Live::wake(&self.watcher, &self.home.join(INDEX), repo)?)),
        };
        live.look(&self.workspace, &self.limits)
    }

    /// Whether nothing has changed since the last checkpoint, according to inotify. Costs one empty read.
    /// False before [`Checkpointer::begin`], where nothing can be watched, and where the answer could take a while: on a
    /// file system of another machine or program.
    pub fn is_clean(&self) -> bool {
        self.live.as_ref().is_some_and(|live| !live.may_hang() && live.is_clean(&self.workspace))
    }

    /// Whether no event has arrived since the last checkpoint. Never waits for the workspace's file system.
    pub fn heard_nothing(&self) -> bool {
        self.live.as_ref().is_some_and(|live| live.heard_nothing())
    }

    /// Whether something may have changed since the last checkpoint and a look at it ends soon. Without events that is
    /// always so on a file system of this machine, and never on one of another machine or program.
    pub fn may_have_news(&self) -> bool {
        self.live.as_ref().is_some_and(|live| !live.heard_nothing() && (live.is_watching() || !live.may_hang()))
    }

    /// Whether the workspace's root is where it was. False where the answer could take a while.
    pub fn is_in_place(&self) -> bool {
        self.live.as_ref().is_some_and(|live| !live.may_hang() && live.is_in_place(&self.workspace))
    }

    /// Whether the workspace is there and has no checkpoint yet.
    pub fn needs_base(&self) -> bool {
        self.repo.is_none() && self.live.as_ref().is_some_and(|live| live.is_there())
    }

    /// Saves what has changed since `parent`, the checkpoint that the files were at before. None: nothing has. After an
    /// error the next call continues where this one ended.
    pub fn save(&mut self, label: &Label, parent: Option<ObjectId>) -> Result<Option<Saved>, Trouble> {
        let parent = self.still_there(parent)?;
        if self.look(parent)? {
            return Ok(None);
        }
        let (Some(live), Some(repo)) = (&mut self.live, &mut self.repo) else { return Ok(None) };
        live.save(repo, &self.workspace, &self.limits, label, Occasion::Change)
    }

    /// Saves what is there before the first command, even if that is nothing: without it no one could tell later that
    /// every file came after it.
    pub fn save_base(&mut self, label: &Label) -> Result<Option<Saved>, Trouble> {
        self.look(None)?;
        let Some(live) = &mut self.live else { return Ok(None) };
        let repo = match &mut self.repo {
            Some(repo) => repo,
            None => self.repo.insert(create(&self.home, &self.faults)?),
        };
        live.save(repo, &self.workspace, &self.limits, label, Occasion::Base)
    }

    /// Saves what should have been saved earlier, and says what may have changed since.
    pub fn save_late(&mut self, label: &Label, parent: Option<ObjectId>, due: Due) -> Result<Option<Saved>, Trouble> {
        self.scan_everything();
        let parent = self.still_there(parent)?;
        if self.look(parent)? {
            return Ok(None);
        }
        let (Some(live), Some(repo)) = (&mut self.live, &mut self.repo) else { return Ok(None) };
        live.save(repo, &self.workspace, &self.limits, label, Occasion::Late(due))
    }

    /// The commit that the next checkpoint would be, to compare others with; `parent` itself if nothing has changed. It has
    /// no name and is gone when space is reclaimed.
    pub fn draft(&mut self, label: &Label, parent: Option<ObjectId>) -> Result<Option<ObjectId>, Trouble> {
        let parent = self.still_there(parent)?;
        if self.look(parent)? {
            return Ok(parent);
        }
        let (Some(live), Some(repo)) = (&mut self.live, &mut self.repo) else { return Ok(parent) };
        live.draft(repo, &self.workspace, &self.limits, label)
    }

    /// One that was purged is as if there had been none.
    fn still_there(&mut self, commit: Option<ObjectId>) -> Result<Option<ObjectId>, Trouble> {
        let Some(id) = commit else { return Ok(None) };
        let is_there = self.open_repo()?.is_some_and(|repo| repo.objects.contains(id));
        Ok(commit.filter(|_| is_there))
    }

    /// Looks at what has changed since `parent`; whether that is nothing. If it is something, there is a repository then.
    fn look(&mut self, parent: Option<ObjectId>) -> Result<bool, Trouble> {
        if self.live.is_none() {
            self.begin()?;
        }
        let Some(live) = &mut self.live else { return Ok(true) };
        if live.base() != parent {
            live.align(self.repo.as_ref(), parent)?;
        }
        live.look(&self.workspace, &self.limits)?;
        if live.is_settled() {
            live.settle(self.repo.as_mut());
            return Ok(true);
        }
        if self.repo.is_none() {
            self.repo = Some(create(&self.home, &self.faults)?);
        }
        Ok(false)
    }

    /// The next save looks at everything, also at what was not reported: a file that was changed through memory, or
    /// under another name elsewhere.
    pub fn scan_everything(&mut self) {
        if let Some(live) = &mut self.live {
            live.scan_everything();
        }
    }

    /// The files are now, as far as they are kept, those of another checkpoint; `None` is the empty workspace before
    /// the first. `kept_back` are paths that are not as it has them. What was put there is read again at the next save;
    /// counts are from this checkpoint on.
    pub fn took<'a>(
        &mut self,
        commit: Option<ObjectId>,
        kept_back: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<(), Trouble> {
        match &mut self.live {
            Some(live) => live.took(self.repo.as_ref(), commit, &kept_back.into_iter().collect()),
            None => Ok(()),
        }
    }

    /// Writes down what is known and lets go of everything else.
    pub fn rest(&mut self) {
        if let Some(live) = self.live.take() {
            live.rest(self.repo.as_mut(), &self.home.join(INDEX));
        }
        self.repo = None;
    }

    /// The repository, if it is open: from [`Checkpointer::begin`] on, if there is one.
    pub fn repo(&self) -> Option<&Repo> {
        self.repo.as_ref()
    }

    /// The same, to write.
    pub fn repo_mut(&mut self) -> Option<&mut Repo> {
        self.repo.as_mut()
    }

    pub fn workspace(&self) -> &Path {
        &self.workspace
    }

    /// The folder of its checkpoints.
    pub fn home(&self) -> &Path {
        &self.home
    }

    /// The repository, opened if need be; `None` if there is none.
    pub fn open_repo(&mut self) -> Result<Option<&mut Repo>, Trouble> {
        if self.repo.is_none() {
            self.repo = Repo::open(&self.home.join(REPOSITORY), &self.faults)?;
        }
        Ok(self.repo.as_mut())
    }
}

/// Deletes every checkpoint in the folder `home` that contains something that `finds` matches; returns their names. The
/// checkpointer of these files must rest. The next save begins anew, without one before it, if the last was among them.
pub fn purge(home: &Path, faults: &Arc<Faults>, finds: &dyn Fn(&[u8]) -> bool) -> Result<Vec<String>, Trouble> {
    let Some(mut repo) = Repo::open(&home.join(REPOSITORY), faults)? else { return Ok(Vec::new()) };
    let gone = repo.purge(finds)?;
    let index = home.join(INDEX);
    // It knows names, and objects that are gone.
    if gone.is_some() || std::fs::read(&index).is_ok_and(|bytes| finds(&bytes)) {
        match std::fs::remove_file(&index) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(RepoError::Io { path: index, source: error }.into());
            }
            _ => {}
        }
    }
    Ok(gone.unwrap_or_default())
}

fn create(home: &Path, faults: &Arc<Faults>) -> Result<Repo, Trouble> {
    std::fs::create_dir_all(home).map_err(|source| Trouble::Home { path: home.to_owned(), source })?;
    Ok(Repo::create(&home.join(REPOSITORY), faults)?)
}
