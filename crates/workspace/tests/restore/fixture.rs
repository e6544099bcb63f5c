//! A workspace with checkpoints that is rewound, and everything that is in it.

use shellkeep_workspace::checkpointer::{Checkpointer, Label, Limits};
use shellkeep_workspace::fault::Faults;
use shellkeep_workspace::repo::{Author, ObjectId, Repo};
use shellkeep_workspace::restore::{self, Applied, KeptBack, Plan};
use shellkeep_workspace::watch::Watcher;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Everything on the disk by its path: mode with file type, and bytes.
pub type Seen = BTreeMap<PathBuf, (u32, Vec<u8>)>;

pub struct Room {
    _temporary: Option<tempfile::TempDir>,
    pub workspace: PathBuf,
    pub home: PathBuf,
    pub checkpointer: Checkpointer,
    pub now: Option<ObjectId>,
    pub faults: Arc<Faults>,
    count: i64,
}

impl Room {
    pub fn new() -> Self {
        let temporary = tempfile::tempdir().unwrap();
        let mut room = Self::at(temporary.path());
        room._temporary = Some(temporary);
        room
    }

    /// Where one is already, or where one is made.
    pub fn at(directory: &Path) -> Self {
        Self::in_two(&directory.join("workspace"), &directory.join("checkpoints"))
    }

    pub fn in_two(workspace: &Path, home: &Path) -> Self {
        fs::create_dir_all(workspace).unwrap();
        let faults = Arc::new(Faults::default());
        let (workspace, home) = (workspace.to_owned(), home.to_owned());
        let checkpointer =
            Checkpointer::with_faults(&Watcher::new(), workspace.clone(), home.clone(), Limits::default(), &faults);
        Self { _temporary: None, workspace, home, checkpointer, now: None, faults, count: 0 }
    }

    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.workspace.join(name)
    }

    pub fn write(&self, name: impl AsRef<Path>, text: impl AsRef<[u8]>) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub fn chmod(&self, name: &str, mode: u32) {
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(mode)).unwrap();
    }

    /// Checkpoints what is there.
    pub fn save(&mut self) -> ObjectId {
        self.count += 1;
        let label = Label {
            tag: format!("tool_bash_{}", self.count),
            message: "a run".to_owned(),
            author: Author { name: "t".to_owned(), email: "t@localhost".to_owned() },
            seconds: 1_800_000_000 + self.count,
        };
        let saved = self.checkpointer.save(&label, self.now).unwrap();
        self.now = saved.map(|saved| saved.commit).or(self.now);
        self.now.unwrap()
    }

    pub fn repo(&self) -> &Repo {
        self.checkpointer.repo().unwrap()
    }

    pub fn plan(&self, target: Option<ObjectId>) -> Plan {
        restore::plan(self.repo(), self.now, target).unwrap()
    }

    /// Stages and applies, and leaves the rest to the caller.
    pub fn try_rewind(&self, target: Option<ObjectId>) -> Result<Applied, restore::RestoreError> {
        let plan = self.plan(target);
        let staged = restore::stage(self.repo(), &self.workspace, &self.home, &plan, &self.faults)?;
        restore::apply(staged, b"note", &self.faults)
    }

    /// Rewinds to a checkpoint; gives what was kept back, after checking that it was foreseen.
    pub fn rewind(&mut self, target: Option<ObjectId>) -> Vec<KeptBack> {
        let mut foreseen = restore::preview(&self.workspace, &self.plan(target)).unwrap();
        let applied = self.try_rewind(target).unwrap();
        let mut kept_back = applied.kept_back.clone();
        applied.finish().unwrap();
        for list in [&mut foreseen, &mut kept_back] {
            list.sort_by(|one, other| one.path.cmp(&other.path));
        }
        let foreseen: Vec<_> = foreseen.into_iter().map(|kept| kept.path).collect();
        let told: Vec<_> = kept_back.iter().map(|kept| kept.path.clone()).collect();
        assert!(foreseen.iter().all(|path| told.contains(path)), "{foreseen:?} {told:?}");
        self.now = target;
        self.checkpointer.took(target, kept_back.iter().map(|kept| kept.path.as_slice())).unwrap();
        self.assert_tidy();
        kept_back
    }

    /// Nothing of ours is left beside the checkpoints and the files.
    pub fn assert_tidy(&self) {
        let names = |path: &Path| -> Vec<_> {
            fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect()
        };
        let home = names(&self.home);
        assert!(home.iter().all(|name| name == "repo.git" || name == "index"), "{home:?}");
        let left: Vec<_> = names(&self.workspace).into_iter().filter(|name| name.starts_with(".shellkeep-")).collect();
        assert!(left.is_empty(), "{left:?}");
    }

    pub fn seen(&self) -> Seen {
        let mut seen = Seen::new();
        look(&self.workspace, &self.workspace, &mut seen);
        seen
    }
}

fn look(root: &Path, path: &Path, seen: &mut Seen) {
    let about = path.symlink_metadata().unwrap();
    let bytes = if about.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            look(root, &entry.unwrap().path(), seen);
        }
        Vec::new()
    } else if about.is_symlink() {
        fs::read_link(path).unwrap().as_os_str().as_bytes().to_vec()
    } else {
        fs::read(path).unwrap()
    };
    seen.insert(path.strip_prefix(root).unwrap().to_owned(), (about.mode(), bytes));
}

/// Files that no checkpoint holds: a repository, ignored things.
pub fn hidden(room: &Room) {
    room.write(".git/config", "[core]\n");
    room.write("nested/.git/HEAD", "ref: x\n");
    room.write("node_modules/x/index.js", "x");
}

/// Two states of a workspace that differ in every way.
pub fn first(room: &Room, files: usize) {
    room.write("same", "same");
    room.write("edited", "one");
    room.write("removed/deep/file", "gone later");
    room.write("to_file/inner/x", "x");
    room.write("to_directory", "a file");
    room.write(OsStr::from_bytes(b"odd\n\xff/\xfe"), "odd");
    room.write("mode", "mode");
    room.chmod("mode", 0o600);
    room.write("closed/file", "closed");
    room.chmod("closed", 0o555);
    fs::create_dir_all(room.path("empty/very")).unwrap();
    symlink("edited", room.path("link")).unwrap();
    symlink("nowhere", room.path("link_to_file")).unwrap();
    room.write("file_to_link", "file");
    for number in 0..files {
        room.write(format!("many/{}/{number}", number % 7), format!("first {number}"));
    }
}

pub fn second(room: &Room, files: usize) {
    room.chmod("closed", 0o755);
    room.write("closed/file", "opened and closed");
    room.write("closed/more", "more");
    room.chmod("closed", 0o500);
    room.write("edited", "two and more");
    fs::remove_dir_all(room.path("removed")).unwrap();
    fs::remove_dir_all(room.path("to_file")).unwrap();
    room.write("to_file", "now a file");
    fs::remove_file(room.path("to_directory")).unwrap();
    room.write("to_directory/a/b", "now below");
    fs::remove_dir_all(room.path(OsStr::from_bytes(b"odd\n\xff"))).unwrap();
    room.chmod("mode", 0o755);
    fs::remove_dir_all(room.path("empty")).unwrap();
    fs::create_dir(room.path("other_empty")).unwrap();
    room.chmod("other_empty", 0o711);
    for name in ["link", "link_to_file", "file_to_link"] {
        fs::remove_file(room.path(name)).unwrap();
    }
    symlink("same", room.path("link")).unwrap();
    room.write("link_to_file", "file");
    symlink("x\ny", room.path("file_to_link")).unwrap();
    room.write("new/one/two", "new");
    for number in (0..files).step_by(2) {
        room.write(format!("many/{}/{number}", number % 7), format!("second {number}"));
    }
}
