//! How far a session's files are in checkpoints. While a session is live, that is written to a small file. A daemon that
//! finds the file knows that the one before died, and that the last run's changes may not be in a checkpoint yet. It puts
//! them into one before anything else changes the files.

use shellkeep_session::SessionId;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// The file's name in a session's folder of checkpoints.
const NAME: &str = "kept-to";
/// As wide as the largest number, so that a number always overwrites a whole one.
const WIDTH: usize = 20;

/// How far a session's files are in checkpoints.
#[derive(Debug, Default)]
pub(super) struct KeptTo {
    /// The file, while the session is live.
    file: Option<File>,
    /// Number of the last record whose files are not in a checkpoint yet, if there is one.
    owed: Option<u64>,
}

impl KeptTo {
    /// Whether some record's files are not in a checkpoint yet.
    pub(super) fn is_behind(&self) -> bool {
        self.owed.is_some()
    }

    /// Whether the session is live.
    pub(super) fn is_open(&self) -> bool {
        self.file.is_some()
    }

    /// The files of this record are not in a checkpoint yet.
    pub(super) fn owe(&mut self, seq: u64) {
        self.owed = Some(seq);
    }

    /// The session becomes live, at this record: from now on its files may change.
    pub(super) fn open(&mut self, home: &Path, seq: u64) -> io::Result<()> {
        if self.is_open() {
            return Ok(());
        }
        let file = open(home)?;
        // What the file says is true until what is owed is kept.
        if self.owed.is_none() {
            write(&file, seq)?;
        }
        self.file = Some(file);
        Ok(())
    }

    /// The files are kept as they were after this record, or have not changed since.
    pub(super) fn kept(&mut self, seq: u64) -> io::Result<()> {
        if self.owed.is_some_and(|owed| owed > seq) {
            return Ok(());
        }
        self.owed = None;
        self.file.as_ref().map_or(Ok(()), |file| write(file, seq))
    }

    /// Nothing of the session runs. Returns the file to remove when its files are no longer watched; none if some are not
    /// kept.
    pub(super) fn close(&mut self, home: &Path) -> Option<PathBuf> {
        self.file = None;
        self.owed.is_none().then(|| home.join(NAME))
    }
}

fn open(home: &Path) -> io::Result<File> {
    let path = home.join(NAME);
    let open = || File::options().create(true).truncate(false).write(true).mode(0o600).open(&path);
    match open() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            fs::create_dir_all(home)?;
            open()
        }
        other => other,
    }
}

fn write(file: &File, seq: u64) -> io::Result<()> {
    file.write_all_at(format!("{seq:0WIDTH$}\n").as_bytes(), 0)
}

/// What the file says, if it is there. What cannot be read says nothing.
pub(super) fn read(home: &Path) -> Option<u64> {
    let text = fs::read_to_string(home.join(NAME)).ok()?;
    Some(text.trim_end().parse().unwrap_or(0))
}

/// Whether a daemon died while the session with this folder of checkpoints was live, or it is live now.
pub(crate) fn is_open(home: &Path) -> bool {
    home.join(NAME).exists()
}

/// The sessions of which that is so.
pub(crate) fn all_open(checkpoints: &Path) -> Vec<SessionId> {
    let entries = fs::read_dir(checkpoints).into_iter().flatten().flatten();
    let open = entries.filter(|entry| is_open(&entry.path()));
    open.filter_map(|entry| SessionId::parse(entry.file_name().to_str()?).ok()).collect()
}
