//! How far a session's files are in checkpoints. While the changes of a run that ended are not in one yet, a small file
//! says after which record that run began. A daemon that finds the file puts those changes into a checkpoint before
//! anything else changes the files.
//!
//! The file changes only when files do: it is written before the end of a run that changed some is recorded, and again
//! when those are in a checkpoint. A session that changes nothing has no such file, so that waking one costs none. A run
//! that had not ended is in the journal ([`reopen`]). If a power failure reverted a write, the file would claim too much,
//! so with `durability=power` the file has the number of the last record after each run.

use shellkeep_session::SessionId;
use shellkeep_store::Durability;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// The file's name in a session's folder of checkpoints.
const NAME: &str = "kept-to";
/// As wide as the largest number, so that a number always overwrites a whole one.
const WIDTH: usize = 20;
/// The file's content while the files of every ended run are in a checkpoint.
const ALL: u64 = u64::MAX;

/// How far a session's files are in checkpoints.
#[derive(Debug, Default)]
pub(super) struct KeptTo {
    /// Set while the session is live.
    note: Option<Note>,
    /// Number of the last record whose files are not in a checkpoint yet, if there is one.
    owed: Option<u64>,
}

/// The file of a live session.
#[derive(Debug)]
struct Note {
    /// The session's folder of checkpoints.
    home: PathBuf,
    /// None while there is no such file.
    file: Option<File>,
    /// What the next daemon will read. No file says the same as [`ALL`].
    noted: Option<u64>,
    /// What the note must be right after.
    durability: Durability,
}

impl KeptTo {
    /// Whether some record's files are not in a checkpoint yet.
    pub(super) fn is_behind(&self) -> bool {
        self.owed.is_some()
    }

    /// Whether the session is live.
    pub(super) fn is_open(&self) -> bool {
        self.note.is_some()
    }

    /// The files of this record are not in a checkpoint yet.
    pub(super) fn owe(&mut self, seq: u64) {
        self.owed = Some(seq);
    }

    /// The session becomes live: from now on its files may change.
    pub(super) fn open(&mut self, home: PathBuf, seq: u64, durability: Durability) {
        if self.is_open() {
            return;
        }
        let file = match existing(&home) {
            // From an empty file, the next daemon concludes that nothing is saved.
            Ok(None) if self.is_behind() => create(&home).map(Some),
            other => other,
        };
        let (file, noted) = match file {
            Ok(Some(file)) => (Some(file), None),
            Ok(None) => (None, Some(ALL)),
            Err(error) => return complain(&error),
        };
        let note = self.note.insert(Note { home, file, noted, durability });
        // The file stays correct until the owed checkpoint is taken.
        if self.owed.is_none() {
            note.note_all(seq);
        }
    }

    /// A run changed files, and its end is about to be recorded after this record.
    pub(super) fn fall_behind(&mut self, seq: u64) {
        if let Some(note) = self.note.as_mut().filter(|note| note.noted == Some(ALL)) {
            note.write(seq);
        }
    }

    /// The files are saved as they were after this record, or have not changed since.
    pub(super) fn kept(&mut self, seq: u64) {
        if self.owed.is_none_or(|owed| owed <= seq) {
            self.owed = None;
            if let Some(note) = &mut self.note {
                note.note_all(seq);
            }
        }
    }

    /// Nothing of the session runs. Returns the file to remove when its files are no longer watched; none if some are
    /// not saved.
    pub(super) fn close(&mut self) -> Option<PathBuf> {
        let note = self.note.take()?;
        (note.file.is_some() && self.owed.is_none()).then(|| note.home.join(NAME))
    }
}

impl Note {
    /// Everything up to this record is saved.
    fn note_all(&mut self, seq: u64) {
        self.write(match self.durability {
            Durability::Power => seq,
            Durability::Process => ALL,
        });
    }

    fn write(&mut self, seq: u64) {
        if self.noted == Some(seq) {
            return;
        }
        match self.try_write(seq) {
            Ok(()) => self.noted = Some(seq),
            // The file is unchanged, and the next run tries again.
            Err(error) => complain(&error),
        }
    }

    fn try_write(&mut self, seq: u64) -> io::Result<()> {
        let file = match self.file.take() {
            Some(file) => file,
            None => create(&self.home)?,
        };
        write(self.file.insert(file), seq)
    }
}

/// A run had not ended when the last daemon died, after this record: what it did to the files is not in a checkpoint.
pub(crate) fn reopen(home: &Path, seq: u64) {
    if read(home).is_some_and(|kept_to| kept_to != ALL) {
        return;
    }
    if let Err(error) = create(home).and_then(|file| write(&file, seq)) {
        complain(&error);
    }
}

/// Removes the file of a session that is at rest. If it stays, the next actor finds that nothing is owed.
pub(super) fn remove(file: &Path) {
    let _ = fs::remove_file(file);
    // Without checkpoints, the folder contains nothing else.
    let _ = file.parent().map(fs::remove_dir);
}

fn write(file: &File, seq: u64) -> io::Result<()> {
    file.write_all_at(format!("{seq:0WIDTH$}\n").as_bytes(), 0)
}

fn complain(error: &io::Error) {
    tracing::warn!(%error, "cannot note how far a session's files are saved");
}

fn existing(home: &Path) -> io::Result<Option<File>> {
    match File::options().write(true).open(home.join(NAME)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        other => other.map(Some),
    }
}

fn create(home: &Path) -> io::Result<File> {
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

/// The file's content, if it exists and can be read.
pub(super) fn read(home: &Path) -> Option<u64> {
    let text = fs::read_to_string(home.join(NAME)).ok()?;
    Some(text.trim_end().parse().unwrap_or(0))
}

/// Whether the session with this folder of checkpoints has such a file: a daemon died before the changes of a run were in
/// a checkpoint, or the session is live and has changed files.
pub(crate) fn is_open(home: &Path) -> bool {
    home.join(NAME).exists()
}

/// The sessions for which that is the case.
pub(crate) fn all_open(checkpoints: &Path) -> Vec<SessionId> {
    let entries = fs::read_dir(checkpoints).into_iter().flatten().flatten();
    let open = entries.filter(|entry| is_open(&entry.path()));
    open.filter_map(|entry| SessionId::parse(entry.file_name().to_str()?).ok()).collect()
}
