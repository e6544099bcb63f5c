//! Which paths all sessions of a node may use, and how.

use super::grants::{NOT_GRANTED, is_directory, open_real, system, without};
use super::plan;
use super::settings::{SETTINGS, Settings};
use rustix::fd::OwnedFd;
use std::io;
use std::path::{Path, PathBuf};

/// The paths.
#[derive(Debug)]
pub(super) struct Granted {
    /// The system, as all sessions see it.
    system: Vec<Grant>,
    /// What of it all of them may read, but for settings.
    parts: Vec<Grant>,
    /// Directories of the system that are granted in parts, and listed as a whole.
    listed: Vec<PathBuf>,
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
        let opened = |path: &PathBuf| Grant::open(path.clone()).ok();
        let system = system(hidden);
        let settings = Settings::find(hidden).map_err(|error| NotOpened { path: SETTINGS.into(), error })?;
        let roots: Vec<PathBuf> = settings.iter().flat_map(Settings::roots).map(Path::to_owned).collect();
        let apart: Vec<PathBuf> = NOT_GRANTED.iter().map(PathBuf::from).chain(roots).collect();
        let is_divided = |path: &&PathBuf| apart.iter().any(|apart| apart != *path && apart.starts_with(path));
        let listed: Vec<PathBuf> = system.iter().filter(is_divided).cloned().collect();
        // Of a directory that is divided, files are not granted: they would have to be opened for each shell.
        let is_part = |grant: &Grant| grant.is_held() || system.contains(&grant.path().to_owned());
        let parts = system.iter().flat_map(|path| without(path, &apart));
        let parts = parts.filter_map(|path| opened(&path)).filter(is_part).collect();
        let system = system.iter().filter_map(opened).collect();
        Ok(Self { system, parts, listed, settings, read: named(read, data)?, write: named(write, data)? })
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

    /// Directories of which only parts may be read, and all names be listed.
    pub(super) fn listed(&self) -> impl Iterator<Item = &Path> {
        let roots = self.settings.iter().flat_map(Settings::roots);
        self.listed.iter().map(PathBuf::as_path).chain(roots)
    }

    /// The settings of the machine, if they are granted in parts.
    pub(super) fn settings(&self) -> Option<&Settings> {
        self.settings.as_ref()
    }

    /// Everything but settings that are granted in parts.
    pub(super) fn all(&self) -> impl Iterator<Item = (&Grant, Use)> {
        let read = self.parts.iter().chain(&self.read).map(|grant| (grant, Use::Read));
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A session read the credentials that a cloud had given to its virtual machine.
    #[test]
    fn what_the_firmware_gives_is_not_granted() {
        let granted = Granted::open(&[], &[], &[], Path::new("/nowhere")).unwrap();
        for path in ["/usr/bin", "/usr/share", "/proc", "/sys/class", "/sys/kernel/mm"] {
            assert!(granted.reads(Path::new(path)) || !Path::new(path).exists(), "{path}");
        }
        for path in
            NOT_GRANTED.into_iter().chain(["/", "/sys", "/sys/kernel", "/run/NetworkManager/system-connections"])
        {
            assert!(!granted.reads(&Path::new(path).join("x")), "{path}");
        }
        // They are seen all the same.
        assert!(granted.readable().any(|grant| grant.path() == Path::new("/usr")));
        assert!(granted.listed().any(|path| path == Path::new("/sys")) || !Path::new("/sys/firmware").exists());
    }
}
