//! The settings of the machine, of which sessions may read what every user of the machine may, and with them what its
//! administrator has installed beside the system, where programs often have settings too.
//!
//! Landlock grants trees, and nothing can be taken out of them again. So where one of them has something that is closed to others
//! and that we can read, as for a daemon that is root, they are granted in parts. A rule for a file is for that file: one that is
//! renamed over it has none. So the kernel tells when a directory or the permissions of something in it change, the parts are
//! gathered again then, and shells with rules for other parts are to be replaced.
//!
//! Landlock does not cover permissions, and a session of root's can change those of any file. So what was closed once is not
//! granted because it is open later; see [`Closed`].

use super::closed::Closed;
use super::grants::{is_away, is_closed, open_real};
use super::look::{Look, News, Tree};
use crate::sync::lock;
use rustix::fd::OwnedFd;
use rustix::fs::{FileType, fstat};
use rustix::process::geteuid;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Where they are.
pub(super) const SETTINGS: &str = "/etc";
/// Where an administrator installs programs. Their settings, if they have some, are near the top.
const INSTALLED: [&str; 2] = ["/opt", "/usr/local"];
/// So deep these are looked through: as far as `/opt/program/config/secrets`. What is further down is as the directory that it
/// is in.
const DEPTH_OF_INSTALLED: usize = 3;
/// And so many entries of each: there may be whole systems below, and after a change there they are looked at again before the
/// next shell starts, which takes some ten milliseconds for so many.
const MOST_OF_INSTALLED: usize = 1 << 13;

/// How long what was seen is believed where the kernel does not tell: of any change, if a user may watch no more directories; that
/// a part was closed under another of its names. If it tells nothing at all, a new shell always looks.
const BELIEVED: Duration = Duration::from_secs(1);

/// The settings, if they are granted in parts.
#[derive(Debug)]
pub(super) struct Settings {
    roots: Vec<Root>,
    hidden: Vec<PathBuf>,
    current: Mutex<Current>,
}

/// One of the trees, by its real path, and how much of it is looked at.
#[derive(Debug)]
struct Root {
    path: PathBuf,
    depth: usize,
    entries: usize,
}

#[derive(Debug)]
struct Current {
    parts: Arc<Parts>,
    news: Option<News>,
    closed: Closed,
    /// Something has changed, and the parts could not be gathered since.
    is_behind: bool,
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
    /// The settings without what is hidden, if some of them are hidden or closed. `None` if they can be granted as a whole.
    pub(super) fn find(hidden: &[PathBuf]) -> io::Result<Option<Self>> {
        let mut roots = Root::at(SETTINGS, usize::MAX, usize::MAX)?;
        // What a plain user has installed for himself he may have closed to all others, and his sessions need it.
        for path in INSTALLED.into_iter().filter(|_| geteuid().is_root()) {
            roots.extend(Root::at(path, DEPTH_OF_INSTALLED, MOST_OF_INSTALLED)?);
        }
        Self::below(roots, hidden, News::open())
    }

    fn below(roots: Vec<Root>, hidden: &[PathBuf], mut news: Option<News>) -> io::Result<Option<Self>> {
        let mut closed = Closed::at_start();
        let Found { paths, is_whole: false } = gather(&roots, hidden, &mut news, &mut closed)? else { return Ok(None) };
        closed.has_started();
        let parts = Arc::new(Parts { generation: 1, granted: opened(paths)? });
        let current = Mutex::new(Current { parts, news, closed, is_behind: false, looked_at: Instant::now() });
        Ok(Some(Self { roots, hidden: hidden.to_vec(), current }))
    }

    /// The directories that are granted in parts.
    pub(super) fn roots(&self) -> impl Iterator<Item = &Path> {
        self.roots.iter().map(|root| root.path.as_path())
    }

    /// The parts as they are now.
    pub(super) fn parts(&self) -> io::Result<Arc<Parts>> {
        let mut current = lock(&self.current);
        self.look(&mut current, Duration::ZERO)?;
        Ok(Arc::clone(&current.parts))
    }

    /// The number of the parts as they were a moment ago.
    pub(super) fn generation(&self) -> u64 {
        let mut current = lock(&self.current);
        // If they cannot be looked at, a shell keeps what it has; a new one says why.
        let _ = self.look(&mut current, BELIEVED);
        current.parts.generation
    }

    fn look(&self, current: &mut Current, believed: Duration) -> io::Result<()> {
        current.is_behind |= current.is_outdated(believed);
        if !current.is_behind {
            return Ok(());
        }
        let Current { news, closed, .. } = &mut *current;
        let granted = opened(gather(&self.roots, &self.hidden, news, closed)?.paths)?;
        if !granted.iter().map(Part::key).eq(current.parts.granted.iter().map(Part::key)) {
            current.parts = Arc::new(Parts { generation: current.parts.generation + 1, granted });
        }
        current.is_behind = false;
        Ok(())
    }
}

impl Root {
    /// What is at a path, by its real one; nothing if there is nothing.
    fn at(path: &str, depth: usize, entries: usize) -> io::Result<Vec<Self>> {
        match Path::new(path).canonicalize() {
            Ok(path) => Ok(vec![Self { path, depth, entries }]),
            Err(error) if is_away(&error) => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }
}

impl Current {
    fn is_outdated(&mut self, believed: Duration) -> bool {
        let since = self.looked_at.elapsed();
        if since >= BELIEVED {
            self.looked_at = Instant::now();
        }
        match &self.news {
            Some(news) => news.take() || since >= BELIEVED && self.parts.granted.iter().any(Part::is_closed),
            None => since >= believed,
        }
    }
}

impl Part {
    /// Opens what is at a path. None if it is gone, or is not for us, or was closed since it was seen.
    fn open(path: PathBuf) -> io::Result<Option<Self>> {
        let opened = match open_real(&path) {
            Ok(opened) => opened,
            Err(error) if is_away(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
        let about = fstat(&opened)?;
        let is_directory = FileType::from_raw_mode(about.st_mode) == FileType::Directory;
        let file = (about.st_dev, about.st_ino);
        Ok((!is_closed(about.st_mode, is_directory)).then_some(Self { path, opened, is_directory, file }))
    }

    /// Whether it is closed by now.
    fn is_closed(&self) -> bool {
        fstat(&self.opened).is_ok_and(|about| is_closed(about.st_mode, self.is_directory))
    }

    fn key(&self) -> (&Path, (u64, u64)) {
        (&self.path, self.file)
    }
}

/// Opens parts, in the order of their paths.
fn opened(mut paths: Vec<PathBuf>) -> io::Result<Vec<Part>> {
    paths.sort();
    paths.into_iter().filter_map(|path| Part::open(path).transpose()).collect()
}

/// What may be read of some trees.
struct Found {
    paths: Vec<PathBuf>,
    /// Whether it is all of them.
    is_whole: bool,
}

fn gather(roots: &[Root], hidden: &[PathBuf], news: &mut Option<News>, closed: &mut Closed) -> io::Result<Found> {
    let mut found = Found { paths: Vec::new(), is_whole: true };
    for root in roots {
        let mut look = Look { hidden, news: &mut *news, closed: &mut *closed, entries: root.entries };
        match look.through(&root.path, root.depth)? {
            Tree::Open => found.paths.push(root.path.clone()),
            Tree::Parts(paths) => {
                found.paths.extend(paths);
                found.is_whole = false;
            }
            Tree::Away => {}
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn close(path: &Path) {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
    }

    fn look(tree: &Path, hidden: &[PathBuf], depth: usize, entries: usize) -> Tree {
        let (news, closed) = (&mut None, &mut Closed::at_start());
        Look { hidden, news, closed, entries }.through(tree, depth).unwrap()
    }

    fn all_of(top: &tempfile::TempDir) -> Vec<Root> {
        vec![Root { path: top.path().to_owned(), depth: usize::MAX, entries: usize::MAX }]
    }

    /// Root's own files of programs in `/opt` could be read by its sessions. Whoever has a whole system there must not wait for a
    /// look at all of it.
    #[test]
    fn what_is_installed_is_looked_at_near_the_top() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        for name in ["app/config/far/deep", "tool/bin"] {
            std::fs::create_dir_all(at(name)).unwrap();
        }
        for name in ["app/key", "app/config/secrets", "app/config/far/closed", "app/config/far/deep/hidden"] {
            std::fs::write(at(name), "").unwrap();
            close(&at(name));
        }
        let parts = |hidden: &[PathBuf], depth: usize, entries: usize| match look(root.path(), hidden, depth, entries) {
            Tree::Parts(mut parts) => {
                parts.sort();
                parts
            }
            Tree::Open => vec![root.path().to_owned()],
            Tree::Away => panic!("it is there"),
        };
        assert_eq!(parts(&[], 3, 100), [at("app/config/far"), at("tool")]);
        assert_eq!(parts(&[], 2, 100), [at("app/config"), at("tool")]);
        assert_eq!(parts(&[], 1, 100), [root.path()], "what is closed is further down");
        assert_eq!(parts(&[], 3, 0), [root.path()], "no more than so many");
        let hidden = [at("app/config/far/deep/hidden")];
        assert_eq!(parts(&hidden, 1, 100), [at("tool")], "however far down it is hidden");
        // A daemon that finds something in one of them grants all in parts, so that it notices what is closed later.
        let open = tempfile::tempdir().unwrap();
        let roots = all_of(&root).into_iter().chain(all_of(&open)).collect();
        let settings = Settings::below(roots, &[], News::open()).unwrap().unwrap();
        let granted = || settings.parts().unwrap().granted.iter().map(|part| part.path.clone()).collect::<Vec<_>>();
        assert!(granted().contains(&open.path().to_owned()));
        for name in ["open", "later"] {
            std::fs::write(open.path().join(name), "").unwrap();
        }
        close(&open.path().join("later"));
        let now = granted();
        assert!(now.contains(&open.path().join("open")) && !now.contains(&open.path().to_owned()), "{now:?}");
    }

    #[test]
    fn what_others_cannot_read_is_closed() {
        use std::os::unix::fs::symlink;
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        let set = |name: &str, mode: u32| {
            std::fs::set_permissions(at(name), std::fs::Permissions::from_mode(mode)).unwrap();
        };
        for name in ["private", "listed", "open", "all/deep"] {
            std::fs::create_dir_all(at(name)).unwrap();
            std::fs::write(at(name).join("key"), "").unwrap();
            set(&format!("{name}/key"), 0o644);
        }
        for (name, mode) in [("shadow", 0o640), ("passwd", 0o644), ("open/secret", 0o600)] {
            std::fs::write(at(name), "").unwrap();
            set(name, mode);
        }
        symlink(at("shadow"), at("link")).unwrap();
        for (name, mode) in
            [("private", 0o711), ("listed", 0o744), ("open", 0o755), ("all", 0o755), ("all/deep", 0o755), ("", 0o755)]
        {
            set(name, mode);
        }
        let parts = |hidden: &[PathBuf]| match look(root.path(), hidden, usize::MAX, usize::MAX) {
            Tree::Parts(mut parts) => {
                parts.sort();
                parts
            }
            other => panic!("{other:?}"),
        };
        assert_eq!(parts(&[]), ["all", "open/key", "passwd"].map(at));
        assert_eq!(parts(&[at("all/deep/key"), at("none")]), ["open/key", "passwd"].map(at));
        let seen = |name: &str| look(&at(name), &[], usize::MAX, usize::MAX);
        assert_eq!((seen("shadow"), seen("all")), (Tree::Parts(Vec::new()), Tree::Open));
        assert_eq!((seen("missing"), seen("link"), seen("passwd")), (Tree::Away, Tree::Away, Tree::Open));
    }

    /// A live shell lost each file that was replaced, and files that appeared or were closed later could be read.
    #[test]
    fn what_is_replaced_closed_or_new_is_noticed() {
        noticed(Some(News::open().expect("inotify")));
        noticed(None);
    }

    fn noticed(news: Option<News>) {
        let top = tempfile::tempdir().unwrap();
        let at = |name: &str| top.path().join(name);
        std::fs::create_dir_all(at("ssl/deep")).unwrap();
        for name in ["hosts", "shadow", "ssl/cert", "ssl/key", "ssl/deep/list"] {
            std::fs::write(at(name), "x").unwrap();
        }
        assert!(Settings::below(all_of(&top), &[], None).unwrap().is_none(), "nothing is closed");
        ["shadow", "ssl/key"].iter().for_each(|name| close(&at(name)));
        let is_told = news.is_some();
        let settings = Settings::below(all_of(&top), &[], news).unwrap().unwrap();
        let now = || {
            let parts = settings.parts().unwrap();
            (parts.generation, parts.granted.iter().map(|part| part.path.clone()).collect::<Vec<_>>())
        };
        assert_eq!(now(), (1, vec![at("hosts"), at("ssl/cert"), at("ssl/deep")]));
        std::fs::write(at("new"), "y").unwrap();
        std::fs::rename(at("new"), at("hosts")).unwrap();
        assert!(!is_told || settings.generation() == 2, "of a shell that is used again");
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

    /// A session of root's opened a file that was for root alone with `chmod`, and its next command could read it.
    #[test]
    fn what_was_closed_is_not_granted_once_it_is_open() {
        let top = tempfile::tempdir().unwrap();
        let at = |name: &str| top.path().join(name);
        let set = |name: &str, mode: u32| {
            std::fs::set_permissions(at(name), std::fs::Permissions::from_mode(mode)).unwrap();
        };
        std::fs::create_dir(at("private")).unwrap();
        for name in ["hosts", "shadow", "private/key"] {
            std::fs::write(at(name), "x").unwrap();
        }
        close(&at("shadow"));
        set("private", 0o700);
        let settings = Settings::below(all_of(&top), &[], News::open()).unwrap().unwrap();
        let now = || {
            let parts = settings.parts().unwrap();
            (parts.generation, parts.granted.iter().map(|part| part.path.clone()).collect::<Vec<_>>())
        };
        assert_eq!(now(), (1, vec![at("hosts")]));
        set("shadow", 0o644);
        set("private", 0o755);
        assert_eq!(now(), (1, vec![at("hosts")]));
        // One that takes its place is closed at first, and may be opened before we look.
        std::fs::write(at("new"), "y").unwrap();
        std::fs::rename(at("new"), at("shadow")).unwrap();
        assert_eq!(now(), (1, vec![at("hosts")]));
        // A file is closed for a moment when a program makes it to replace another.
        std::fs::write(at("made"), "z").unwrap();
        close(&at("made"));
        assert_eq!(now(), (1, vec![at("hosts")]));
        set("made", 0o644);
        std::fs::rename(at("made"), at("hosts")).unwrap();
        assert_eq!(now(), (2, vec![at("hosts")]));
    }
}
