//! What was closed to other users when it was seen. Whoever owns a file can open it to all, and commands behind a fence can where
//! they have the owner's user: that must not make it readable to them.

use std::collections::HashSet;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// For so long after a file was made, whoever opens it to all is believed to be who made it: programs replace a file by one that
/// is closed until it is complete.
const MAKING: Duration = Duration::from_secs(60);

/// A file or directory: its file system, its number there, and when it was made, because numbers are used again.
type Identity = (u64, u64, SystemTime);

/// Names and files that stay closed, whatever their permissions are by now. It grows only with what the host makes.
#[derive(Debug, Default)]
pub(super) struct Closed {
    /// What was closed when the daemon started. What takes the place of such a file is as secret: it is closed when it is made,
    /// and may be opened before we see it.
    names: HashSet<PathBuf>,
    /// What was closed since. Not by name: one that a session has closed is granted again once the host has replaced it.
    files: HashSet<Identity>,
    is_starting: bool,
}

impl Closed {
    /// For the first look, before there are sessions.
    pub(super) fn at_start() -> Self {
        Self { is_starting: true, ..Self::default() }
    }

    /// The first look is over.
    pub(super) fn has_started(&mut self) {
        self.is_starting = false;
    }

    /// What is closed now.
    pub(super) fn remember(&mut self, path: &Path, about: &Metadata) {
        if self.is_starting {
            self.names.insert(path.to_owned());
        }
        self.files.extend(identity(about));
    }

    /// Whether what is open now was closed before, and has to stay so.
    pub(super) fn has(&mut self, path: &Path, about: &Metadata, now: SystemTime) -> bool {
        if self.names.contains(path) {
            return true;
        }
        let Some(file) = identity(about).filter(|file| self.files.contains(file)) else { return false };
        let is_being_made = now.duration_since(file.2).is_ok_and(|age| age < MAKING);
        if is_being_made {
            self.files.remove(&file);
        }
        !is_being_made
    }
}

/// None where the file system does not know when a file was made: a number alone may be another file's.
fn identity(about: &Metadata) -> Option<Identity> {
    Some((about.dev(), about.ino(), about.created().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_was_closed_stays_so_under_every_name() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        std::fs::write(at("a"), "x").unwrap();
        let about = at("a").metadata().unwrap();
        let Ok(made) = about.created() else {
            return println!("skipped: this file system does not know when a file was made");
        };
        let mut closed = Closed::default();
        closed.remember(&at("a"), &about);
        let later = made + MAKING;
        assert!(closed.has(&at("b"), &about, later));
        assert!(closed.has(&at("a"), &about, made - MAKING), "the clock was set back");
        assert!(!closed.has(&at("a"), &about, made + MAKING / 2), "it was being made");
        assert!(!closed.has(&at("a"), &about, later), "and is not closed since");
        closed.remember(&at("a"), &about);
        std::fs::write(at("c"), "y").unwrap();
        assert!(!closed.has(&at("a"), &at("c").metadata().unwrap(), later), "another took its place");
    }

    #[test]
    fn a_name_that_was_closed_at_the_start_stays_so() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        let about = |name: &str| {
            std::fs::write(at(name), name).unwrap();
            at(name).metadata().unwrap()
        };
        let mut closed = Closed::at_start();
        closed.remember(&at("a"), &about("a"));
        closed.has_started();
        closed.remember(&at("b"), &about("b"));
        let (other, now) = (about("c"), SystemTime::now());
        assert!(closed.has(&at("a"), &other, now) && !closed.has(&at("b"), &other, now));
    }
}
