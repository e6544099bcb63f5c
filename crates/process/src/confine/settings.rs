//! The settings of the machine, of which sessions may read what every user of the machine may.
//!
//! Landlock grants trees, and nothing can be taken out of them again. So where `/etc` has something that is closed to others
//! and that we can read, as for a daemon that is root, it is granted in parts. A rule for a file is for that file: one that is
//! renamed over it has none. So the parts are gathered again when one of their directories has changed, and shells with older
//! rules are to be replaced.

use super::grants::{closed, open_path, without};
use crate::sync::lock;
use rustix::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Where they are.
const SETTINGS: &str = "/etc";

/// How long what was seen is believed when a shell is used again. A new shell always looks.
const BELIEVED: Duration = Duration::from_secs(1);

/// When something was changed: seconds and nanoseconds.
type Changed = (i64, i64);

/// The settings, if they are granted in parts.
#[derive(Debug)]
pub(super) struct Settings {
    root: PathBuf,
    hidden: Vec<PathBuf>,
    current: Mutex<Current>,
}

#[derive(Debug)]
struct Current {
    parts: Arc<Parts>,
    looked_at: Instant,
}

/// The parts as they were at one time.
#[derive(Debug)]
pub(super) struct Parts {
    /// Grows with each change.
    pub(super) generation: u64,
    /// What is granted. Opened once, because opening all of them takes longer than granting them.
    pub(super) granted: Vec<(PathBuf, OwnedFd)>,
    /// The directories whose entries are granted one by one, and when those changed last.
    directories: Vec<(PathBuf, Option<Changed>)>,
}

impl Settings {
    /// The settings without what is hidden, if some of them are closed. `None` if they can be granted as a whole.
    pub(super) fn find(hidden: &[PathBuf]) -> Option<Self> {
        Self::below(Path::new(SETTINGS).canonicalize().ok()?, hidden)
    }

    fn below(root: PathBuf, hidden: &[PathBuf]) -> Option<Self> {
        let hidden = hidden.to_vec();
        let parts = Parts::gather(&root, &hidden, 1);
        if parts.directories.is_empty() {
            return None;
        }
        let current = Mutex::new(Current { parts: Arc::new(parts), looked_at: Instant::now() });
        Some(Self { root, hidden, current })
    }

    /// The directory of all settings.
    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// The parts as they are now.
    pub(super) fn parts(&self) -> Arc<Parts> {
        self.look(Duration::ZERO)
    }

    /// The number of the parts as they were a moment ago.
    pub(super) fn generation(&self) -> u64 {
        self.look(BELIEVED).generation
    }

    fn look(&self, believed: Duration) -> Arc<Parts> {
        let mut current = lock(&self.current);
        if current.looked_at.elapsed() >= believed {
            if current.parts.is_outdated() {
                let next = current.parts.generation + 1;
                current.parts = Arc::new(Parts::gather(&self.root, &self.hidden, next));
            }
            current.looked_at = Instant::now();
        }
        Arc::clone(&current.parts)
    }
}

impl Parts {
    fn gather(root: &Path, hidden: &[PathBuf], generation: u64) -> Self {
        let closed = closed(root);
        let mut directories: Vec<PathBuf> =
            closed.iter().flat_map(|path| path.ancestors().skip(1)).map(Path::to_owned).collect();
        directories.retain(|path| path.starts_with(root));
        directories.sort();
        directories.dedup();
        // Before the entries are read, so that a change meanwhile is noticed later.
        let directories: Vec<_> = directories.into_iter().map(|path| (changed(&path), path)).collect();
        let out = [hidden, &closed].concat();
        // What cannot be opened is gone, or is not for us.
        let opened = |path: PathBuf| open_path(&path).ok().map(|opened| (path, opened));
        let granted = without(root, &out).into_iter().filter_map(opened).collect();
        Self { generation, granted, directories: directories.into_iter().map(|(at, path)| (path, at)).collect() }
    }

    fn is_outdated(&self) -> bool {
        self.directories.iter().any(|(path, at)| changed(path) != *at)
    }
}

/// When entries of a directory, or its permissions, changed last.
fn changed(path: &Path) -> Option<Changed> {
    std::fs::symlink_metadata(path).ok().map(|found| (found.ctime(), found.ctime_nsec()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn close(path: &Path) {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
    }

    /// A live shell lost each file that was replaced, and files that appeared or were closed later could be read.
    #[test]
    fn what_is_replaced_closed_or_new_is_noticed() {
        let top = tempfile::tempdir().unwrap();
        let at = |name: &str| top.path().join(name);
        std::fs::create_dir(at("ssl")).unwrap();
        for name in ["hosts", "shadow", "ssl/cert", "ssl/key"] {
            std::fs::write(at(name), "x").unwrap();
        }
        assert!(Settings::below(top.path().to_owned(), &[]).is_none(), "nothing is closed");
        ["shadow", "ssl/key"].iter().for_each(|name| close(&at(name)));
        let settings = Settings::below(top.path().to_owned(), &[]).unwrap();
        let paths = |settings: &Settings| {
            let mut paths: Vec<_> = settings.parts().granted.iter().map(|(path, _)| path.clone()).collect();
            paths.sort();
            paths
        };
        assert_eq!(paths(&settings), [at("hosts"), at("ssl/cert")]);
        assert_eq!((settings.parts().generation, settings.look(Duration::ZERO).generation), (1, 1));
        std::fs::write(at("new"), "y").unwrap();
        std::fs::rename(at("new"), at("hosts")).unwrap();
        assert_eq!((settings.generation(), settings.parts().generation), (1, 2), "a new shell always looks");
        assert_eq!(settings.generation(), 2);
        std::fs::write(at("ssl/other"), "z").unwrap();
        close(&at("ssl/other"));
        assert_eq!((settings.parts().generation, paths(&settings)), (3, vec![at("hosts"), at("ssl/cert")]));
    }
}
