//! Which paths all sessions of a node may use, and how.

use super::grants::{is_directory, open_real, system, without};
use super::plan;
use super::settings::{SETTINGS, Settings};
use rustix::fd::OwnedFd;
use std::io;
use std::path::{Path, PathBuf};

/// The paths.
#[derive(Debug)]
pub(super) struct Granted {
    /// The system, which all sessions may read.
    system: Vec<Grant>,
    /// The settings of the machine, if only parts of them may be read.
    settings: Option<Settings>,
    /// What the host has named, to be read or written too.
    read: Vec<Grant>,
    write: Vec<Grant>,
}

/// A path that every session may use.
#[derive(Debug)]
pub(super) enum Grant {
    /// Opened once.
    Directory { path: PathBuf, opened: OwnedFd },
    /// Opened each time: programs replace a file by renaming another over it.
    File { path: PathBuf },
}

/// How a path may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    Read,
    /// And read.
    Write,
}

/// A path that the host named cannot be opened.
#[derive(Debug)]
pub(super) struct NotOpened {
    pub(super) path: PathBuf,
    pub(super) error: io::Error,
}

impl Granted {
    /// The system without what is hidden, and what the host named without the data directory.
    pub(super) fn open(
        hidden: &[PathBuf],
        read: &[PathBuf],
        write: &[PathBuf],
        data: &Path,
    ) -> Result<Self, NotOpened> {
        // What cannot be opened is not there, or is not for us.
        let system = system(hidden).into_iter().filter_map(|path| Grant::open(path).ok()).collect();
        let settings = Settings::find(hidden).map_err(|error| NotOpened { path: SETTINGS.into(), error })?;
        Ok(Self { system, settings, read: named(read, data)?, write: named(write, data)? })
    }

    /// Whether a real path, or what is below it, may be read.
    pub(super) fn reads(&self, path: &Path) -> bool {
        let is_part = |settings: &Settings| {
            settings.parts().is_ok_and(|parts| parts.granted.iter().any(|part| path.starts_with(&part.path)))
        };
        self.all().any(|(grant, _)| path.starts_with(grant.path())) || self.settings.as_ref().is_some_and(is_part)
    }

    /// What sessions see as readable: of the settings of the machine also what they cannot read.
    pub(super) fn readable(&self) -> impl Iterator<Item = &Grant> {
        self.system.iter().chain(&self.read)
    }

    /// What sessions may write.
    pub(super) fn writable(&self) -> impl Iterator<Item = &Grant> {
        self.write.iter()
    }

    /// The settings of the machine, if they are granted in parts.
    pub(super) fn settings(&self) -> Option<&Settings> {
        self.settings.as_ref()
    }

    /// Everything but settings that are granted in parts.
    pub(super) fn all(&self) -> impl Iterator<Item = (&Grant, Use)> {
        let is_in_parts =
            |grant: &&Grant| self.settings.as_ref().is_some_and(|settings| grant.path().starts_with(settings.root()));
        let system = self.system.iter().filter(move |grant| !is_in_parts(grant));
        let read = system.chain(&self.read).map(|grant| (grant, Use::Read));
        read.chain(self.write.iter().map(|grant| (grant, Use::Write)))
    }

    /// The paths among `grants` that come with the session's own, or those that come before. Directories for temporary files
    /// are a session's own, and what is below them comes on top. If something contains them, it still comes after them.
    pub(super) fn paths_of<'a>(
        &'a self,
        grants: impl Iterator<Item = &'a Grant>,
        is_late: bool,
    ) -> impl Iterator<Item = &'a Path> {
        let all_late = self.readable().chain(&self.write).any(|grant| plan::has_temporary(grant.path()));
        let late = move |grant: &Grant| all_late || !grant.is_held() || plan::is_below_temporary(grant.path());
        grants.filter(move |grant| late(grant) == is_late).map(Grant::path)
    }
}

impl Grant {
    /// At a real path.
    pub(super) fn open(path: PathBuf) -> io::Result<Self> {
        let opened = open_real(&path)?;
        Ok(if is_directory(&opened)? { Self::Directory { path, opened } } else { Self::File { path } })
    }

    pub(super) fn is_held(&self) -> bool {
        matches!(self, Self::Directory { .. })
    }

    pub(super) fn path(&self) -> &Path {
        match self {
            Self::Directory { path, .. } | Self::File { path } => path,
        }
    }
}

/// Paths that the host named. Each must exist: one that is missing would be missed only by a command.
fn named(paths: &[PathBuf], data: &Path) -> Result<Vec<Grant>, NotOpened> {
    let mut grants = Vec::new();
    for path in paths {
        let refused = |error: io::Error| NotOpened { path: path.clone(), error };
        let real = path.canonicalize().map_err(refused)?;
        for part in without(&real, &[data.to_owned()]) {
            grants.push(Grant::open(part).map_err(refused)?);
        }
    }
    Ok(grants)
}
