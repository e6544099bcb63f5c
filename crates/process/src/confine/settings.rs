//! The settings of the machine, of which sessions may read what every user of the machine may.
//!
//! Landlock grants trees, and nothing can be taken out of them again. So where `/etc` has something that is closed to others
//! and that we can read, as for a daemon that is root, it is granted in parts. A rule for a file is for that file: one that is
//! renamed over it has none. So the kernel tells when a directory or the permissions of something in it change, the parts are
//! gathered again then, and shells with rules for other parts are to be replaced.
//!
//! Landlock does not cover permissions, and a session of root's can change those of any file. So what was closed once is not
//! granted because it is open later; see [`Closed`].

use super::closed::Closed;
use super::grants::{is_away, is_closed, open_real};
use crate::sync::lock;
use rustix::fd::OwnedFd;
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::fs::{FileType, fstat};
use rustix::io::Errno;
use rustix::process::geteuid;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

/// Where they are.
pub(super) const SETTINGS: &str = "/etc";

/// How long what was seen is believed where the kernel does not tell: of any change, if a user may watch no more directories; that
/// a part was closed under another of its names. If it tells nothing at all, a new shell always looks.
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
        match Path::new(SETTINGS).canonicalize() {
            Ok(root) => Self::below(root, hidden, News::open()),
            Err(error) if is_away(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn below(root: PathBuf, hidden: &[PathBuf], mut news: Option<News>) -> io::Result<Option<Self>> {
        let mut closed = Closed::at_start();
        let Tree::Parts(paths) = look_through(&root, hidden, &mut news, &mut closed)? else { return Ok(None) };
        closed.has_started();
        let parts = Arc::new(Parts { generation: 1, granted: opened(paths)? });
        let current = Mutex::new(Current { parts, news, closed, is_behind: false, looked_at: Instant::now() });
        Ok(Some(Self { root, hidden: hidden.to_vec(), current }))
    }

    /// The directory of all settings.
    pub(super) fn root(&self) -> &Path {
        &self.root
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
        let granted = match look_through(&self.root, &self.hidden, news, closed)? {
            Tree::Parts(paths) => opened(paths)?,
            Tree::Open => opened(vec![self.root.clone()])?,
            Tree::Away => Vec::new(),
        };
        if !granted.iter().map(Part::key).eq(current.parts.granted.iter().map(Part::key)) {
            current.parts = Arc::new(Parts { generation: current.parts.generation + 1, granted });
        }
        current.is_behind = false;
        Ok(())
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

/// What of a tree may be read.
#[derive(Debug, PartialEq, Eq)]
enum Tree {
    /// All of it.
    Open,
    /// Only these parts.
    Parts(Vec<PathBuf>),
    /// It is gone, or a link, or not even we can read it. There is no rule for it, and it is not in the way of one for more: a rule
    /// for a link would be one for what it names, which may be hidden.
    Away,
}

/// Looks for what is hidden in a tree, and what is closed to other users in it, such as `/etc/shadow`, and can be read by us. Asked
/// of the permissions and not by trying: root reads everything. What was closed before still is. All open directories are watched
/// from before their entries are looked at; if one cannot be, nothing is told any more.
fn look_through(tree: &Path, hidden: &[PathBuf], news: &mut Option<News>, closed: &mut Closed) -> io::Result<Tree> {
    if hidden.iter().any(|path| tree.starts_with(path)) {
        return Ok(Tree::Parts(Vec::new()));
    }
    let about = match std::fs::symlink_metadata(tree) {
        Ok(about) if about.is_symlink() => return Ok(Tree::Away),
        Ok(about) => about,
        Err(error) if is_away(&error) => return Ok(Tree::Away),
        Err(error) => return Err(error),
    };
    let is_closed_now = is_closed(about.mode(), about.is_dir());
    if is_closed_now || closed.has(tree, &about, SystemTime::now()) {
        let is_ours = rustix::fs::access(tree, rustix::fs::Access::READ_OK).is_ok();
        if is_closed_now && (is_ours || about.uid() == geteuid().as_raw()) {
            closed.remember(tree, &about);
        }
        return Ok(if is_ours { Tree::Parts(Vec::new()) } else { Tree::Away });
    }
    if !about.is_dir() {
        return Ok(Tree::Open);
    }
    if news.as_ref().is_some_and(|news| !news.watch(tree)) {
        *news = None;
    }
    let entries = match std::fs::read_dir(tree) {
        Ok(entries) => entries,
        Err(error) if is_away(&error) => return Ok(Tree::Away),
        Err(error) => return Err(error),
    };
    let (mut parts, mut is_whole) = (Vec::new(), true);
    for entry in entries {
        let path = entry?.path();
        match look_through(&path, hidden, news, closed)? {
            Tree::Open => parts.push(path),
            Tree::Parts(below) => {
                parts.extend(below);
                is_whole = false;
            }
            Tree::Away => {}
        }
    }
    Ok(if is_whole { Tree::Open } else { Tree::Parts(parts) })
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
        let parts =
            |hidden: &[PathBuf]| match look_through(root.path(), hidden, &mut None, &mut Closed::at_start()).unwrap() {
                Tree::Parts(mut parts) => {
                    parts.sort();
                    parts
                }
                other => panic!("{other:?}"),
            };
        assert_eq!(parts(&[]), ["all", "open/key", "passwd"].map(at));
        assert_eq!(parts(&[at("all/deep/key"), at("none")]), ["open/key", "passwd"].map(at));
        let seen = |name: &str| look_through(&at(name), &[], &mut None, &mut Closed::at_start()).unwrap();
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
        assert!(Settings::below(top.path().to_owned(), &[], None).unwrap().is_none(), "nothing is closed");
        ["shadow", "ssl/key"].iter().for_each(|name| close(&at(name)));
        let is_told = news.is_some();
        let settings = Settings::below(top.path().to_owned(), &[], news).unwrap().unwrap();
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
        let settings = Settings::below(top.path().to_owned(), &[], News::open()).unwrap().unwrap();
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
