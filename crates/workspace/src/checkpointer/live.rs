//! A workspace that is watched: what is known of it, and the steps of a checkpoint.

use super::write::Writing;
use super::{Due, Label, Later, Limits, Saved, Trouble};
use super::{align, later};
use crate::ignored;
use crate::index::{self, Base, Index, Written};
use crate::repo::{Commit, ObjectId, Repo, RepoError};
use crate::root;
use crate::scan::{Known, Look, Omissions};
use crate::sync::lock;
use crate::unsaved;
use crate::watch::{Mailbox, Watcher, Watches};
use rustix::fd::OwnedFd;
use rustix::fs::{OFlags, fstat, lstat};
use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A workspace with too many files is scanned again after this many times the duration of the last scan.
const PATIENCE: u32 = 20;
/// How long a check of the workspace root stays valid.
const SEEN: Duration = Duration::from_millis(100);

/// Why a checkpoint is made.
#[derive(Debug, Clone, Copy)]
pub(super) enum Occasion {
    /// It is the first, before anything was done.
    Base,
    /// Something may have changed.
    Change,
    /// Something changed earlier, and the checkpoint was due then.
    Late(Due),
}

/// What is held while a session is live.
#[derive(Debug)]
pub(super) struct Live {
    watcher: Arc<Watcher>,
    mailbox: Arc<Mailbox>,
    /// None: changes are not reported.
    watches: Option<Watches>,
    index: Index,
    omissions: Omissions,
    /// Whether the next look must be at everything.
    wants_everything: bool,
    /// Whether the index knows more than its file.
    is_touched: bool,
    /// Whether a look at the root may wait for another machine or program.
    may_hang: bool,
    /// When the root was last seen to be where it was.
    seen_in_place: Mutex<Option<Instant>>,
    /// Until then a workspace with too many files is not looked at again.
    refused: Option<Instant>,
}

impl Live {
    /// What is known from before: the index's file, or else the last checkpoint itself.
    pub fn wake(watcher: &Arc<Watcher>, path: &Path, repo: Option<&Repo>) -> Result<Self, Trouble> {
        let mut index = Index::default();
        let mut is_touched = true;
        if let Some(repo) = repo {
            let stored =
                index::load(path).filter(|index| index.base.is_some_and(|base| repo.objects.contains(base.commit)));
            is_touched = stored.is_none();
            index = match (stored, repo.head()?) {
                (Some(stored), _) => stored,
                (None, Some(head)) => align::seed(repo, head)?,
                (None, None) => index,
            };
        }
        let mailbox = Arc::new(Mailbox::default());
        let watches = watcher.is_able().then(|| Watches::new(watcher, &mailbox));
        let (watcher, omissions) = (Arc::clone(watcher), Omissions::default());
        Ok(Self {
            watcher,
            mailbox,
            watches,
            index,
            omissions,
            wants_everything: true,
            is_touched,
            may_hang: true,
            seen_in_place: Mutex::default(),
            refused: None,
        })
    }

    pub fn is_clean(&self, workspace: &Path) -> bool {
        self.heard_nothing() && self.is_in_place(workspace)
    }

    pub fn heard_nothing(&self) -> bool {
        if self.wants_everything || self.watches.is_none() || !self.index.is_settled() {
            return false;
        }
        self.watcher.drain();
        self.mailbox.is_empty()
    }

    /// Whether a look at the root may wait for another machine or program.
    pub fn may_hang(&self) -> bool {
        self.may_hang
    }

    /// The root may have been moved away with the directory that it is in, which is not reported. Not asked for every
    /// command of many in a row.
    pub fn is_in_place(&self, workspace: &Path) -> bool {
        let now = Instant::now();
        let mut seen = lock(&self.seen_in_place);
        if seen.is_some_and(|seen| now.duration_since(seen) < SEEN) {
            return true;
        }
        let is_there = place_of(workspace) == self.index.place;
        // The creation of a missing root is not reported.
        *seen = (is_there && self.index.place.is_some()).then_some(now);
        is_there
    }

    pub fn is_settled(&self) -> bool {
        self.index.is_settled()
    }

    pub fn is_watching(&self) -> bool {
        self.watches.is_some()
    }

    /// What is known, if it is what the last checkpoint says.
    pub fn settled_index(&self) -> Option<&Index> {
        self.index.is_settled().then_some(&self.index)
    }

    pub fn is_there(&self) -> bool {
        self.index.place.is_some()
    }

    pub fn base(&self) -> Option<ObjectId> {
        self.index.base.map(|base| base.commit)
    }

    pub fn scan_everything(&mut self) {
        self.wants_everything = true;
    }

    /// What is known is what the last checkpoint says; what happened before it no longer matters.
    pub fn settle(&mut self, repo: Option<&mut Repo>) {
        self.index.changes.clear();
        // Nothing in the index is from after that checkpoint, so nothing of what gathered is needed.
        repo.into_iter().for_each(Repo::abandon);
    }

    pub fn align(&mut self, repo: Option<&Repo>, commit: Option<ObjectId>) -> Result<(), Trouble> {
        self.is_touched = true;
        align::align(&mut self.index, repo, commit)
    }

    /// The files were put to another checkpoint, but for the paths that were kept back.
    pub fn took(
        &mut self,
        repo: Option<&Repo>,
        commit: Option<ObjectId>,
        kept_back: &BTreeSet<&[u8]>,
    ) -> Result<(), Trouble> {
        if let (Some(repo), Some(commit)) = (repo, commit) {
            align::place(&mut self.index, repo, commit, kept_back)?;
        }
        self.align(repo, commit)
    }

    /// Brings the index up to what is on the disk.
    pub fn look(&mut self, workspace: &Path, limits: &Limits) -> Result<(), Trouble> {
        if self.refused.is_some_and(|until| Instant::now() < until) {
            return Err(Trouble::TooManyFiles { limit: limits.files });
        }
        let begun = Instant::now();
        let result = self.look_now(workspace, limits);
        self.is_touched |= !self.index.changes.is_empty() || self.index.root.written.is_none();
        self.refused = None;
        if let Err(Trouble::TooManyFiles { .. }) = result {
            self.give_up();
            self.refused = Some(Instant::now() + begun.elapsed() * PATIENCE);
        }
        result
    }

    fn look_now(&mut self, workspace: &Path, limits: &Limits) -> Result<(), Trouble> {
        self.watcher.drain();
        let root = open_root(workspace).map_err(|error| Trouble::Io { path: Vec::new(), source: error })?;
        if root.is_none() && (self.index.place.is_some() || self.base().is_some()) {
            // Moved away or unmounted, perhaps briefly: that says nothing about the files in it.
            self.wants_everything = true;
            return Err(Trouble::Gone { path: workspace.to_owned() });
        }
        let place = root.as_ref().and_then(place);
        if place != self.index.place || self.wants_everything {
            self.may_hang = root::may_hang(workspace);
        }
        if place.map(|place| place.0) != self.index.place.map(|place| place.0) {
            // On another device the same numbers mean other files.
            self.index.doubt();
        }
        self.wants_everything |= self.watches.is_none() || place != self.index.place;
        let mail = self.mailbox.take();
        let is_everything = self.wants_everything || mail.everything;
        let Index { root: top, changes, files, rules, .. } = &mut self.index;
        let device = place.map_or(0, |place| place.0);
        let mut look =
            Look::new(limits, self.watches.as_mut(), Known { changes, files, rules }, &mut self.omissions, device);
        let result = match &root {
            // It was never made.
            None => Ok(()),
            Some(root) if is_everything => look.everything(top, root),
            Some(root) => look.news(top, root, &mail),
        };
        if look.is_exhausted {
            // Half of the watches are of no use to us, and may be to others.
            self.watches = None;
        }
        match result {
            Ok(()) => {
                self.index.place = place;
                self.wants_everything = false;
            }
            Err(_) => self.mailbox.put_back(mail),
        }
        result
    }

    /// Holds nothing of a workspace that is too big; the next look begins anew.
    fn give_up(&mut self) {
        let base = self.index.base;
        self.index = Index { base, ..Index::default() };
        self.omissions = Omissions::default();
        self.mailbox.take();
        self.watches = self.watcher.is_able().then(|| Watches::new(&self.watcher, &self.mailbox));
        self.wants_everything = true;
    }

    /// Reads what has changed, and makes the checkpoint.
    pub fn save(
        &mut self,
        repo: &mut Repo,
        workspace: &Path,
        limits: &Limits,
        label: &Label,
        occasion: Occasion,
    ) -> Result<Option<Saved>, Trouble> {
        let begun = Instant::now();
        let written_before = repo.written();
        let is_base = matches!(occasion, Occasion::Base);
        let Some((commit, written)) = self.commit(repo, workspace, limits, label, is_base)? else { return Ok(None) };
        let (counts, left_out, unread_rules) =
            (self.index.counts(), self.omissions.told(), self.omissions.unread_rules());
        let later = match occasion {
            Occasion::Late(due) => later::since(due, &self.index, workspace),
            Occasion::Base | Occasion::Change => Later::default(),
        };
        let tag = repo.publish(&label.tag, commit)?;
        self.index.base = Some(Base { commit, written });
        self.index.changes.clear();
        let bytes_written = repo.written() - written_before;
        Ok(Some(Saved { commit, tag, counts, bytes_written, left_out, took: begun.elapsed(), later, unread_rules }))
    }

    /// The commit that a checkpoint would be now. Nothing names it, so it is gone when space is reclaimed.
    pub fn draft(
        &mut self,
        repo: &mut Repo,
        workspace: &Path,
        limits: &Limits,
        label: &Label,
    ) -> Result<Option<ObjectId>, Trouble> {
        let drafted = self.commit(repo, workspace, limits, label, false)?;
        repo.flush()?;
        Ok(drafted.map(|(commit, _)| commit).or(self.base()))
    }

    /// Reads what has changed and makes a commit of it; none if nothing has. The base may be of nothing.
    fn commit(
        &mut self,
        repo: &mut Repo,
        workspace: &Path,
        limits: &Limits,
        label: &Label,
        is_base: bool,
    ) -> Result<Option<(ObjectId, Written)>, Trouble> {
        let bytes = repo.size();
        if bytes >= limits.repo_bytes {
            return Err(Trouble::Full { bytes, limit: limits.repo_bytes });
        }
        self.is_touched = true;
        let parents = match self.write(repo, workspace, limits) {
            // An id was from before something was thinned away. Everything is read again, once.
            Err(Trouble::Repo(RepoError::Missing { .. })) => {
                self.index.doubt();
                self.write(repo, workspace, limits)?
            }
            other => other?,
        };
        let Some(written) = self.index.root.written else { return Ok(None) };
        if self.is_settled() && !is_base {
            self.settle(Some(repo));
            return Ok(None);
        }
        let commit = repo.objects.commit(&Commit {
            tree: written.tree,
            meta: written.meta,
            parents,
            author: label.author.clone(),
            seconds: label.seconds,
            message: message(label, &self.omissions),
        })?;
        Ok(Some((commit, written)))
    }

    /// Writes all directories that are marked. Gives the parents of the checkpoint to be.
    fn write(&mut self, repo: &mut Repo, workspace: &Path, limits: &Limits) -> Result<Vec<ObjectId>, Trouble> {
        let root = open_root(workspace).ok().flatten();
        let mut writing = Writing::new(repo, limits, &self.mailbox, &mut self.omissions);
        let result = writing.directory(&mut self.index.root, root.as_ref());
        if let Err(Trouble::TooSlow { .. }) = result {
            // What was read so far need not be read again, even if we are gone by then.
            repo.flush()?;
        }
        result?;
        Ok(self.base().into_iter().collect())
    }

    /// Writes the index down, if its file says less, and gives the watches back.
    pub fn rest(self, repo: Option<&mut Repo>, path: &Path) {
        // An index that names what is not on the disk would be found out, at the price of reading everything again.
        let is_flushed = repo.is_none_or(|repo| repo.flush().is_ok());
        if self.is_touched && is_flushed && !self.wants_everything {
            // It is a cache: without it the next begin costs more, and that is all.
            let _ = index::store(&self.index, path);
        }
    }
}

fn message(label: &Label, omissions: &Omissions) -> String {
    let text = label.message.trim_end();
    format!("{text}\n\n{}{}\n{}", unsaved::RULES, ignored::in_words(), unsaved::lines(omissions.paths()))
}

/// The root, or None if there is none.
fn open_root(workspace: &Path) -> io::Result<Option<OwnedFd>> {
    match root::open(workspace, OFlags::RDONLY) {
        Ok(root) => Ok(Some(root)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn place(root: &OwnedFd) -> Option<(u64, u64)> {
    fstat(root).ok().map(|about| (about.st_dev, about.st_ino))
}

fn place_of(workspace: &Path) -> Option<(u64, u64)> {
    lstat(workspace).ok().map(|about| (about.st_dev, about.st_ino))
}
