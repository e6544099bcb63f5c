//! The law of the whole crate: whatever is done to a workspace and wherever it is rewound to, what is on the disk is what
//! a simple model says, and what no checkpoint holds (`.git`, ignored files) is never touched.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on should stop")]

use proptest::prelude::*;
use shellkeep_workspace::checkpointer::{Checkpointer, Label, Limits};
use shellkeep_workspace::fault::{Blow, Faults, Point};
use shellkeep_workspace::repo::{Author, ObjectId};
use shellkeep_workspace::restore::{self, RestoreError};
use shellkeep_workspace::watch::Watcher;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const NAMES: [&[u8]; 9] = [b"a", b"b", b"line\nbreak", b"\xff\xfe", b".GIT", b"%41", b"modes", b"+a", b"git~1"];
const MODES: [u32; 6] = [0o644, 0o755, 0o600, 0o444, 0o750, 0o664];

#[derive(Debug, Clone, PartialEq, Eq)]
enum Node {
    File { bytes: Vec<u8>, mode: u32 },
    Link { target: Vec<u8> },
    Directory { mode: u32 },
}

impl Node {
    fn is_directory(&self) -> bool {
        matches!(self, Self::Directory { .. })
    }
}

type Nodes = BTreeMap<PathBuf, Node>;

#[derive(Debug, Clone)]
enum Step {
    Write { at: PathBuf, byte: u8, length: usize },
    Append { at: PathBuf, byte: u8 },
    Remove { at: PathBuf },
    Rename { from: PathBuf, to: PathBuf },
    Chmod { at: PathBuf, mode: u32 },
    Symlink { at: PathBuf, to: PathBuf },
    Directory { at: PathBuf },
    Turn { at: PathBuf },
    Ignored { at: PathBuf },
    Repository { at: PathBuf },
    Save,
    Rest,
    Rewind { to: usize, fault: Option<u64> },
}

fn place() -> impl Strategy<Value = PathBuf> {
    let name = prop::sample::select(&NAMES[..]).prop_map(OsStr::from_bytes);
    prop::collection::vec(name, 1..4).prop_map(PathBuf::from_iter)
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (place(), any::<u8>(), 0..3000_usize).prop_map(|(at, byte, length)| Step::Write { at, byte, length }),
        2 => (place(), any::<u8>()).prop_map(|(at, byte)| Step::Append { at, byte }),
        2 => place().prop_map(|at| Step::Remove { at }),
        3 => (place(), place()).prop_map(|(from, to)| Step::Rename { from, to }),
        3 => (place(), prop::sample::select(&MODES[..])).prop_map(|(at, mode)| Step::Chmod { at, mode }),
        2 => (place(), place()).prop_map(|(at, to)| Step::Symlink { at, to }),
        2 => place().prop_map(|at| Step::Directory { at }),
        3 => place().prop_map(|at| Step::Turn { at }),
        1 => place().prop_map(|at| Step::Ignored { at }),
        1 => place().prop_map(|at| Step::Repository { at }),
        3 => Just(Step::Save),
        1 => Just(Step::Rest),
        4 => (any::<usize>(), prop::option::of(1..12_u64)).prop_map(|(to, fault)| Step::Rewind { to, fault }),
    ]
}

/// What should be there.
#[derive(Debug, Clone, Default)]
struct Model {
    /// What checkpoints hold.
    kept: Nodes,
    /// What they do not.
    hidden: Nodes,
}

impl Model {
    fn is_free(&self, at: &Path) -> bool {
        !self.kept.contains_key(at) && !self.hidden.contains_key(at)
    }

    /// Whether everything above is a directory, or is not there and can be made.
    fn has_way(&self, at: &Path) -> bool {
        at.ancestors().skip(1).all(|above| self.kept.get(above).is_none_or(Node::is_directory))
    }

    fn is_directory(&self, at: &Path) -> bool {
        at == Path::new("") || self.kept.get(at).is_some_and(Node::is_directory)
    }

    fn remove(&mut self, at: &Path) {
        self.kept.retain(|path, _| !path.starts_with(at));
        self.hidden.retain(|path, _| !path.starts_with(at));
    }

    fn rename(&mut self, from: &Path, to: &Path) {
        for nodes in [&mut self.kept, &mut self.hidden] {
            let moved = |path: &Path| match path.strip_prefix(from) {
                Ok(rest) if rest == Path::new("") => to.to_owned(),
                Ok(rest) => to.join(rest),
                Err(_) => path.to_owned(),
            };
            *nodes = std::mem::take(nodes).into_iter().map(|(path, node)| (moved(&path), node)).collect();
        }
    }

    /// What a rewind to `target` makes of it: directories with hidden things in them stay, and so nothing else can be
    /// in their places.
    fn rewind(&mut self, target: &Nodes) {
        let mut after = target.clone();
        for above in self.hidden.keys().flat_map(|path| path.ancestors().skip(1)) {
            if let Some(now) = self.kept.get(above)
                && !after.get(above).is_some_and(Node::is_directory)
            {
                after.insert(above.to_owned(), now.clone());
            }
        }
        self.kept = after;
    }

    fn all(&self) -> Nodes {
        self.kept.clone().into_iter().chain(self.hidden.clone()).collect()
    }
}

struct World {
    _temporary: tempfile::TempDir,
    workspace: PathBuf,
    home: PathBuf,
    faults: Arc<Faults>,
    checkpointer: Checkpointer,
    model: Model,
    saved: Vec<(Option<ObjectId>, Nodes)>,
    now: Option<ObjectId>,
    count: i64,
}

impl World {
    fn new() -> Self {
        let temporary = tempfile::tempdir().unwrap();
        let (workspace, home) = (temporary.path().join("workspace"), temporary.path().join("checkpoints"));
        fs::create_dir(&workspace).unwrap();
        let faults = Arc::new(Faults::default());
        let watcher = Watcher::new();
        let checkpointer =
            Checkpointer::with_faults(&watcher, workspace.clone(), home.clone(), Limits::default(), &faults);
        let saved = vec![(None, Nodes::new())];
        let model = Model::default();
        let mut world =
            Self { _temporary: temporary, workspace, home, faults, checkpointer, model, saved, now: None, count: 0 };
        world.hide(Path::new(".git/config"));
        world.hide(Path::new("node_modules/package/index.js"));
        world
    }

    fn path(&self, at: &Path) -> PathBuf {
        self.workspace.join(at)
    }

    fn chmod(&self, at: &Path, mode: u32) {
        fs::set_permissions(self.path(at), fs::Permissions::from_mode(mode)).unwrap();
    }

    /// Makes directories that no umask changes.
    fn make_way(&mut self, at: &Path) {
        let mut above: Vec<_> = at.ancestors().skip(1).filter(|above| *above != Path::new("")).collect();
        above.reverse();
        for directory in above {
            if !self.path(directory).exists() {
                fs::create_dir(self.path(directory)).unwrap();
                self.chmod(directory, 0o755);
                self.model.kept.insert(directory.to_owned(), Node::Directory { mode: 0o755 });
            }
        }
    }

    fn write(&mut self, at: &Path, bytes: Vec<u8>, mode: u32) {
        fs::write(self.path(at), &bytes).unwrap();
        self.chmod(at, mode);
        self.model.kept.insert(at.to_owned(), Node::File { bytes, mode });
    }

    fn remove(&mut self, at: &Path) {
        let path = self.path(at);
        match fs::symlink_metadata(&path) {
            Ok(about) if about.is_dir() => fs::remove_dir_all(&path).unwrap(),
            Ok(_) => fs::remove_file(&path).unwrap(),
            Err(_) => {}
        }
        self.model.remove(at);
    }

    /// A file that no checkpoint holds, in a directory that none does, or that is there.
    fn hide(&mut self, at: &Path) {
        fs::create_dir_all(self.path(at).parent().unwrap()).unwrap();
        fs::write(self.path(at), "hidden").unwrap();
        for path in at.ancestors().filter(|path| *path != Path::new("")) {
            if !self.model.kept.contains_key(path) {
                self.model.hidden.insert(path.to_owned(), look_at(&self.path(path)));
            }
        }
    }

    fn save(&mut self) {
        self.count += 1;
        let label = Label {
            tag: format!("tool_bash_{}", self.count),
            message: "a run".to_owned(),
            author: Author { name: "t".to_owned(), email: "t@localhost".to_owned() },
            seconds: 1_800_000_000 + self.count,
        };
        if let Some(saved) = self.checkpointer.save(&label, self.now).unwrap() {
            assert_eq!(saved.left_out.total, 0, "{:?}", saved.left_out);
            self.now = Some(saved.commit);
        }
        self.saved.push((self.now, self.model.kept.clone()));
    }

    fn rewind(&mut self, to: usize, fault: Option<u64>) {
        self.save();
        let (target, nodes) = self.saved[to % self.saved.len()].clone();
        let mut kept_back = Vec::new();
        if let Some(repo) = self.checkpointer.repo() {
            let plan = restore::plan(repo, self.now, target).unwrap();
            let staged = restore::stage(repo, &self.workspace, &self.home, &plan, &self.faults).unwrap();
            if let Some(nth) = fault {
                self.faults.arm(Point::Applying, nth, 1, Blow::Error);
            }
            let applied = match restore::apply(staged, b"", &self.faults) {
                Err(RestoreError::Apply(_)) => {
                    restore::recover(&self.workspace, &self.home, &self.faults).unwrap().unwrap().1
                }
                other => other.unwrap(),
            };
            self.faults.disarm(Point::Applying);
            self.model.rewind(&nodes);
            assert_eq!(applied.kept_back.is_empty(), self.model.kept == nodes, "{:?}", applied.kept_back);
            kept_back.clone_from(&applied.kept_back);
            applied.finish().unwrap();
        }
        self.now = target;
        self.checkpointer.took(target, kept_back.iter().map(|kept| kept.path.as_slice())).unwrap();
    }

    fn act(&mut self, step: &Step) {
        match step {
            Step::Write { at, byte, length } if self.model.has_way(at) && !self.model.is_directory(at) => {
                self.remove(at);
                self.make_way(at);
                self.write(at, vec![*byte; *length], 0o644);
            }
            Step::Append { at, byte } => {
                if let Some(Node::File { mut bytes, mode }) = self.model.kept.get(at).cloned() {
                    bytes.push(*byte);
                    self.write(at, bytes, mode);
                }
            }
            Step::Remove { at } if self.model.has_way(at) => self.remove(at),
            Step::Rename { from, to } if self.can_rename(from, to) => {
                fs::rename(self.path(from), self.path(to)).unwrap();
                self.model.rename(from, to);
            }
            Step::Chmod { at, mode } => {
                if let Some(Node::File { mode: now, .. } | Node::Directory { mode: now }) = self.model.kept.get_mut(at)
                {
                    *now = *mode;
                    self.chmod(at, *mode);
                }
            }
            Step::Symlink { at, to } if self.model.is_free(at) && self.model.has_way(at) => {
                self.make_way(at);
                symlink(to, self.path(at)).unwrap();
                let target = to.as_os_str().as_bytes().to_vec();
                self.model.kept.insert(at.clone(), Node::Link { target });
            }
            Step::Directory { at } if self.model.has_way(at) && self.model.is_free(at) => self.make_way(&at.join("x")),
            Step::Turn { at } if self.model.kept.contains_key(at) => {
                let was_directory = self.model.is_directory(at);
                self.remove(at);
                if was_directory {
                    self.write(at, b"was a directory".to_vec(), 0o755);
                } else {
                    self.make_way(&at.join("inner/file"));
                    self.write(&at.join("inner/file"), b"was a file".to_vec(), 0o600);
                }
            }
            Step::Ignored { at } if self.model.is_directory(at) => self.hide(&at.join("x.pyc")),
            Step::Repository { at } if self.model.is_directory(at) => self.hide(&at.join(".git/HEAD")),
            Step::Save => self.save(),
            Step::Rest => self.checkpointer.rest(),
            Step::Rewind { to, fault } => self.rewind(*to, *fault),
            _ => {}
        }
    }

    fn can_rename(&self, from: &Path, to: &Path) -> bool {
        let above = to.parent().unwrap();
        self.model.kept.contains_key(from)
            && self.model.is_free(to)
            && self.model.is_directory(above)
            && !to.starts_with(from)
    }

    fn check(&self, after: &Step) {
        let mut there = Nodes::new();
        look(&self.workspace, &self.workspace, &mut there);
        assert_eq!(there, self.model.all(), "after {after:?}");
        for entry in fs::read_dir(&self.home).into_iter().flatten() {
            let name = entry.unwrap().file_name();
            assert!(name == "repo.git" || name == "index", "{name:?} was left");
        }
    }
}

fn look_at(path: &Path) -> Node {
    let about = path.symlink_metadata().unwrap();
    let mode = about.mode() & 0o7777;
    if about.is_dir() {
        Node::Directory { mode }
    } else if about.is_symlink() {
        Node::Link { target: fs::read_link(path).unwrap().as_os_str().as_bytes().to_vec() }
    } else {
        Node::File { bytes: fs::read(path).unwrap(), mode }
    }
}

fn look(root: &Path, directory: &Path, there: &mut Nodes) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let node = look_at(&path);
        if node.is_directory() {
            look(root, &path, there);
        }
        there.insert(path.strip_prefix(root).unwrap().to_owned(), node);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_tree_is_the_model_at_every_step(steps in prop::collection::vec(step(), 1..80)) {
        let mut world = World::new();
        for step in &steps {
            world.act(step);
            world.check(step);
        }
    }
}
