//! The settings of the machine, of which sessions may read what every user of the machine may.
//!
//! Landlock grants trees, and nothing can be taken out of them again. So where `/etc` has something that is closed to others
//! and that we can read, as for a daemon that is root, it is granted in parts. A rule for a file is for that file: one that is
//! renamed over it has none. So the kernel tells when a directory or the permissions of something in it change, the parts are
//! gathered again then, and shells with rules for other parts are to be replaced.

use super::grants::{closed, is_closed, open_path, without};
use crate::sync::lock;
use rustix::fd::OwnedFd;
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::fs::{FileType, fstat};
use rustix::io::Errno;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Where they are.
const SETTINGS: &str = "/etc";

/// How long what was seen is believed when a shell is used again, where the kernel does not tell of changes. A new shell
/// always looks.
const BELIEVED: Duration = Duration::from_secs(1);

/// Room for some hundred changes.
const NEWS_BYTES: usize = 4096;

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
    news: Option<News>,
    looked_at: Instant,
}

/// The parts as they were at one time.
#[derive(Debug)]
pub(super) struct Parts {
    /// Grows with each change.
    pub(super) generation: u64,
    pub(super) granted: Vec<Part>,
}

/// A part that is granted. Opened once, because opening all of them takes longer than granting them.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) path: PathBuf,
    pub(super) opened: OwnedFd,
    pub(super) is_directory: bool,
    /// The file system and the number in it.
    file: (u64, u64),
}

impl Settings {
    /// The settings without what is hidden, if some of them are closed. `None` if they can be granted as a whole.
    pub(super) fn find(hidden: &[PathBuf]) -> Option<Self> {
        Self::below(Path::new(SETTINGS).canonicalize().ok()?, hidden, News::open())
    }

    fn below(root: PathBuf, hidden: &[PathBuf], mut news: Option<News>) -> Option<Self> {
        let closed = closed_in(&root, &mut news);
        if closed.is_empty() {
            return None;
        }
        let parts = Arc::new(Parts { generation: 1, granted: granted(&root, hidden, &closed) });
        let current = Mutex::new(Current { parts, news, looked_at: Instant::now() });
        Some(Self { root, hidden: hidden.to_vec(), current })
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
        if current.is_outdated(believed) {
            let closed = closed_in(&self.root, &mut current.news);
            let granted = granted(&self.root, &self.hidden, &closed);
            if !granted.iter().map(Part::key).eq(current.parts.granted.iter().map(Part::key)) {
                current.parts = Arc::new(Parts { generation: current.parts.generation + 1, granted });
            }
            current.looked_at = Instant::now();
        }
        Arc::clone(&current.parts)
    }
}

impl Current {
    fn is_outdated(&self, believed: Duration) -> bool {
        self.news.as_ref().map_or_else(|| self.looked_at.elapsed() >= believed, News::take)
    }
}

impl Part {
    /// Opens what is at a path. What cannot be opened is gone, or is not for us; and it may be closed since it was seen.
    fn open(path: PathBuf) -> Option<Self> {
        let opened = open_path(&path).ok()?;
        let about = fstat(&opened).ok()?;
        let is_directory = FileType::from_raw_mode(about.st_mode) == FileType::Directory;
        let file = (about.st_dev, about.st_ino);
        (!is_closed(about.st_mode, is_directory)).then_some(Self { path, opened, is_directory, file })
    }

    fn key(&self) -> (&Path, (u64, u64)) {
        (&self.path, self.file)
    }
}

/// What is closed in the settings. All directories in which something may be closed later are watched from now on; if one
/// cannot be, nothing is told.
fn closed_in(root: &Path, news: &mut Option<News>) -> Vec<PathBuf> {
    closed(root, &mut |directory| {
        if news.as_ref().is_some_and(|news| !news.watch(directory)) {
            *news = None;
        }
    })
}

/// The settings without what is hidden or closed, in the order of their paths.
fn granted(root: &Path, hidden: &[PathBuf], closed: &[PathBuf]) -> Vec<Part> {
    let mut paths = without(root, &[hidden, closed].concat());
    paths.sort();
    paths.into_iter().filter_map(Part::open).collect()
}

/// What the kernel tells of directories: changes of their entries, and of permissions.
#[derive(Debug)]
struct News(OwnedFd);

impl News {
    /// None where a user may have no more of these.
    fn open() -> Option<Self> {
        inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok().map(Self)
    }

    /// Tells of a directory too, from now on. Whether that can be done, or there is no such directory any more.
    fn watch(&self, directory: &Path) -> bool {
        let wanted = WatchFlags::ATTRIB
            | WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::MOVED_FROM
            | WatchFlags::MOVED_TO
            | WatchFlags::ONLYDIR
            | WatchFlags::DONT_FOLLOW;
        matches!(inotify::add_watch(&self.0, directory, wanted), Ok(_) | Err(Errno::NOENT | Errno::NOTDIR))
    }

    /// Whether there were news since the last call.
    fn take(&self) -> bool {
        let mut bytes = [0; NEWS_BYTES];
        let mut had_some = false;
        loop {
            match rustix::io::read(&self.0, &mut bytes) {
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return had_some,
                Ok(_) => had_some = true,
                Err(_) => return true,
            }
        }
    }
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
        noticed(News::open());
        noticed(None);
    }

    fn noticed(news: Option<News>) {
        let top = tempfile::tempdir().unwrap();
        let at = |name: &str| top.path().join(name);
        std::fs::create_dir_all(at("ssl/deep")).unwrap();
        for name in ["hosts", "shadow", "ssl/cert", "ssl/key", "ssl/deep/list"] {
            std::fs::write(at(name), "x").unwrap();
        }
        assert!(Settings::below(top.path().to_owned(), &[], None).is_none(), "nothing is closed");
        ["shadow", "ssl/key"].iter().for_each(|name| close(&at(name)));
        let is_told = news.is_some();
        let settings = Settings::below(top.path().to_owned(), &[], news).unwrap();
        let now = || {
            let parts = settings.parts();
            (parts.generation, parts.granted.iter().map(|part| part.path.clone()).collect::<Vec<_>>())
        };
        assert_eq!(now(), (1, vec![at("hosts"), at("ssl/cert"), at("ssl/deep")]));
        std::fs::write(at("new"), "y").unwrap();
        std::fs::rename(at("new"), at("hosts")).unwrap();
        assert_eq!(settings.generation(), if is_told { 2 } else { 1 }, "of a shell that is used again");
        assert_eq!(now(), (2, vec![at("hosts"), at("ssl/cert"), at("ssl/deep")]), "a new shell always looks");
        assert_eq!(settings.generation(), 2);
        std::fs::write(at("ssl/other"), "z").unwrap();
        close(&at("ssl/other"));
        assert_eq!(now(), (2, vec![at("hosts"), at("ssl/cert"), at("ssl/deep")]), "nothing else is granted");
        // No directory of a part has changed by these.
        close(&at("hosts"));
        assert_eq!(now(), (3, vec![at("ssl/cert"), at("ssl/deep")]));
        std::fs::write(at("ssl/deep/more"), "z").unwrap();
        assert_eq!(now().0, 3, "it is below a part");
        close(&at("ssl/deep/list"));
        assert_eq!(now(), (4, vec![at("ssl/cert"), at("ssl/deep/more")]));
    }
}
