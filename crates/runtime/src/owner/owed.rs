//! Files that the next daemon has to keep if this one dies: how far they are kept is written in a small file while a
//! session is live. If a daemon finds that file, the one before died, and what the last run did to the files may not be
//! in any checkpoint yet. It is put into one before anything else changes the files.

use super::Owner;
use crate::checkpoints::Wanted;
use crate::ops::DEFAULT_TOOL;
use shellkeep_session::{Cause, SessionId};
use shellkeep_workspace::keeper::Due;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// The file's name in a session's folder of checkpoints.
const NAME: &str = "kept-to";
/// As wide as the largest number, so that a number is always written over a whole one.
const WIDTH: usize = 20;

/// The file that says up to which record the files of a live session are kept.
#[derive(Debug)]
pub(super) struct KeptTo {
    file: File,
}

impl KeptTo {
    /// Opens it; what it says stays as it is.
    fn open(home: &Path) -> io::Result<Self> {
        let path = home.join(NAME);
        let open = || File::options().create(true).truncate(false).write(true).mode(0o600).open(&path);
        let file = match open() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                fs::create_dir_all(home)?;
                open()?
            }
            other => other?,
        };
        Ok(Self { file })
    }

    /// The files are kept as they were after this record, or are still the same.
    fn write(&self, seq: u64) -> io::Result<()> {
        self.file.write_all_at(format!("{seq:0WIDTH$}\n").as_bytes(), 0)
    }

    /// What it says, if it is there. What cannot be read says nothing.
    fn read(home: &Path) -> Option<u64> {
        let text = fs::read_to_string(home.join(NAME)).ok()?;
        Some(text.trim_end().parse().unwrap_or(0))
    }
}

/// Whether a daemon died while the session with this folder of checkpoints was live, or one is live in it now.
pub(crate) fn is_open(home: &Path) -> bool {
    home.join(NAME).exists()
}

/// The sessions of which that is so.
pub(crate) fn all_open(checkpoints: &Path) -> Vec<SessionId> {
    let entries = fs::read_dir(checkpoints).into_iter().flatten().flatten();
    let open = entries.filter(|entry| is_open(&entry.path()));
    open.filter_map(|entry| SessionId::parse(entry.file_name().to_str()?).ok()).collect()
}

/// A checkpoint that the daemon before this one owed.
pub(super) struct Owed {
    pub(super) wanted: Wanted,
    pub(super) due: Due,
}

impl Owner {
    /// The session takes a shell: from now on its files may change, and the next daemon must know how far they are kept.
    pub(super) fn open_files(&mut self) {
        if !self.engine.checkpoints.config.on || self.files.kept_to.is_some() {
            return;
        }
        let opened = KeptTo::open(&self.engine.checkpoints.home(&self.id));
        let opened = opened.and_then(|kept_to| match self.files.owed {
            // What it says is true until what is owed is kept.
            Some(_) => Ok(kept_to),
            None => kept_to.write(self.state.seq).map(|()| kept_to),
        });
        match opened {
            Ok(kept_to) => self.files.kept_to = Some(kept_to),
            Err(error) => tracing::warn!(session = %self.id, %error, "cannot note how far files are kept"),
        }
    }

    /// The files are kept as they were after a record.
    pub(super) fn files_kept_to(&mut self, seq: u64) {
        if self.files.owed.is_some_and(|owed| owed > seq) {
            return;
        }
        self.files.owed = None;
        if let Some(Err(error)) = self.files.kept_to.as_ref().map(|kept_to| kept_to.write(seq)) {
            tracing::warn!(session = %self.id, %error, "cannot note how far files are kept");
        }
    }

    /// Nothing of the session runs. Gives what is to be removed when its files are let go of: nothing if they are not kept.
    pub(super) fn close_files(&mut self) -> Option<PathBuf> {
        self.files.kept_to = None;
        let path = self.engine.checkpoints.home(&self.id).join(NAME);
        self.files.owed.is_none().then_some(path)
    }

    /// The checkpoint that the last daemon owed, if it owed one.
    pub(super) async fn owed(&self) -> Option<Owed> {
        if !self.engine.checkpoints.config.on || !self.files.is_off() || self.files.kept_to.is_some() {
            return None;
        }
        let kept_to = KeptTo::read(&self.engine.checkpoints.home(&self.id))?;
        let (cause, covers, since) = match self.engine.history.last_run_after(&self.id, kept_to).await {
            Ok(None) => return None,
            Ok(Some((run_id, seq, at))) => {
                let cause = Cause::Tool { run_id, tool_name: DEFAULT_TOOL.to_owned() };
                (cause, seq, i64::try_from(at.as_nanosecond()).unwrap_or(i64::MAX))
            }
            // Nobody knows what the last run was or when it ended, so nothing is certain.
            Err(error) => {
                tracing::warn!(session = %self.id, %error, "cannot tell which run the files are of");
                (Cause::Manual, self.state.seq, 0)
            }
        };
        Some(Owed { wanted: Wanted::for_other(cause, covers), due: Due { since } })
    }

    /// Makes the checkpoint that the last daemon owed, before anything else is done with the files.
    pub(super) async fn pay_owed(&mut self) {
        if let Some(owed) = self.owed().await {
            self.begin_files(Some(owed));
        }
        self.settle_files().await;
    }
}
