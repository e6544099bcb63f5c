//! Removals of which this node knows. A shared store that was emptied is told of them again, so that a node which was down does
//! not bring a removed session back. There is a file for each day, to which each removal adds a line.

use crate::sync::lock;
use shellkeep_session::SessionId;
use shellkeep_shared::{REMEMBERED, RemovedSession};
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The folder of the data directory with the files.
const FOLDER: &str = "removed";

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// How many files stay whatever the clock says: a week that begins within a day has eight, and one may be of a wrong day.
const KEPT_FILES: usize = 9;

/// Removals of which this node knows, for as long as a shared store remembers them.
#[derive(Debug)]
pub(super) struct RemovalNotes {
    folder: PathBuf,
    /// Held while a line is added.
    writing: Mutex<()>,
}

impl RemovalNotes {
    /// Those in a data directory.
    pub(super) fn at(data_dir: &Path) -> io::Result<Self> {
        let folder = data_dir.join(FOLDER);
        std::fs::create_dir_all(&folder)?;
        Ok(Self { folder, writing: Mutex::default() })
    }

    /// Adds a removal. Blocks until it is on the disk.
    pub(super) fn add(&self, removed: &RemovedSession) -> io::Result<()> {
        self.add_on(today(), removed)
    }

    fn add_on(&self, day: u64, RemovedSession { session_id, created_at }: &RemovedSession) -> io::Result<()> {
        let _turn = lock(&self.writing);
        let path = self.folder.join(day.to_string());
        let is_new = !path.exists();
        let mut file = File::options().create(true).append(true).open(path)?;
        // What a crash left of a line is a line of its own.
        file.write_all(format!("\n{session_id} {created_at}").as_bytes())?;
        file.sync_data()?;
        if is_new {
            File::open(&self.folder)?.sync_all()?;
            self.forget_before(day)?;
        }
        Ok(())
    }

    /// Those that shared stores may remember. Blocks.
    pub(super) fn all(&self) -> io::Result<Vec<RemovedSession>> {
        self.all_on(today())
    }

    fn all_on(&self, today: u64) -> io::Result<Vec<RemovedSession>> {
        let mut all = Vec::new();
        for day in self.days()?.into_iter().filter(|day| *day >= oldest(today)) {
            match std::fs::read(self.folder.join(day.to_string())) {
                Ok(text) => all.extend(String::from_utf8_lossy(&text).lines().filter_map(removed)),
                // It was forgotten meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(all)
    }

    /// Forgets what shared stores do not remember any longer. The clock may be ahead for a while, so the newest files stay. Those of
    /// days to come do not count.
    fn forget_before(&self, day: u64) -> io::Result<()> {
        let mut old = self.days()?;
        old.retain(|old| *old <= day);
        old.sort_unstable_by(|one, other| other.cmp(one));
        let mut old = old.into_iter().skip(KEPT_FILES).filter(|old| *old < oldest(day));
        old.try_for_each(|day| std::fs::remove_file(self.folder.join(day.to_string())))
    }

    fn days(&self) -> io::Result<Vec<u64>> {
        let mut days = Vec::new();
        for entry in std::fs::read_dir(&self.folder)? {
            days.extend(entry?.file_name().to_str().and_then(|name| name.parse::<u64>().ok()));
        }
        Ok(days)
    }
}

/// The first day of which shared stores may remember something.
fn oldest(today: u64) -> u64 {
    today.saturating_sub(REMEMBERED.as_secs() / DAY.as_secs())
}

fn today() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() / DAY.as_secs()
}

/// What a line says.
fn removed(line: &str) -> Option<RemovedSession> {
    let (session_id, created_at) = line.split_once(' ')?;
    Some(RemovedSession { session_id: SessionId::parse(session_id).ok()?, created_at: created_at.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use shellkeep_session::Timestamp;

    fn removed(name: &str) -> RemovedSession {
        let session_id = SessionId::parse(name).unwrap();
        RemovedSession { session_id, created_at: Timestamp::new(1_800_000_000, 123_456_789).unwrap() }
    }

    #[test]
    fn a_removal_is_known_after_a_restart_for_a_week() {
        let data = tempfile::TempDir::new().unwrap();
        let at = || RemovalNotes::at(data.path()).unwrap();
        at().add_on(100, &removed("a")).unwrap();
        // The process was killed while it wrote this.
        let mut file = File::options().append(true).open(data.path().join("removed/100")).unwrap();
        file.write_all(b"\nb 2027-01-15T08:0").unwrap();
        at().add_on(100, &removed("c")).unwrap();
        assert_eq!(at().all_on(100).unwrap(), [removed("a"), removed("c")]);
        at().add_on(107, &removed("d")).unwrap();
        assert_eq!(at().all_on(107).unwrap().len(), 3);
        assert_eq!(at().all_on(108).unwrap(), [removed("d")], "those of the first day are forgotten");
        for day in 108..200 {
            at().add_on(day, &removed("e")).unwrap();
        }
        assert_eq!(at().days().unwrap().len(), KEPT_FILES);
    }

    /// The bug: a clock that was ahead for a moment had all notes deleted.
    #[test]
    fn a_clock_that_was_ahead_deletes_no_notes() {
        let data = tempfile::TempDir::new().unwrap();
        let notes = RemovalNotes::at(data.path()).unwrap();
        for day in (100..=107).chain([5000]) {
            notes.add_on(day, &removed("a")).unwrap();
        }
        assert_eq!(notes.all_on(107).unwrap().len(), 9);
        for day in 108..200 {
            notes.add_on(day, &removed("b")).unwrap();
            assert_eq!(notes.all_on(day).unwrap().len(), 9, "a week, and the one of the day to come");
        }
    }

    /// The bug: a file that was removed between the look at the folder and the reading made all of them unreadable.
    #[test]
    fn a_file_that_is_gone_says_nothing_of_the_others() {
        let data = tempfile::TempDir::new().unwrap();
        let notes = RemovalNotes::at(data.path()).unwrap();
        notes.add_on(100, &removed("a")).unwrap();
        std::os::unix::fs::symlink("nowhere", data.path().join("removed/101")).unwrap();
        assert_eq!(notes.all_on(101).unwrap(), [removed("a")]);
        // What is there and cannot be read is not nothing.
        std::fs::create_dir(data.path().join("removed/102")).unwrap();
        notes.all_on(102).unwrap_err();
    }
}
