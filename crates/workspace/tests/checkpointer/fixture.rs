//! A workspace with its checkpointer, and what is in it: on the disk, and in the last checkpoint.

use shellkeep_workspace::checkpointer::{Checkpointer, Label, Limits, Saved, Trouble};
use shellkeep_workspace::fault::Faults;
use shellkeep_workspace::meta;
use shellkeep_workspace::repo::{Author, Kind, ObjectId, Repo};
use shellkeep_workspace::watch::Watcher;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What a path is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Thing {
    File { bytes: Vec<u8>, mode: u32 },
    Link { target: Vec<u8> },
    Directory { mode: u32 },
}

pub type Tree = BTreeMap<String, Thing>;

pub struct Room {
    _temporary: Option<tempfile::TempDir>,
    pub workspace: PathBuf,
    pub home: PathBuf,
    pub watcher: Arc<Watcher>,
    pub faults: Arc<Faults>,
    pub checkpointer: Checkpointer,
    pub last: Option<ObjectId>,
    count: i64,
}

impl Room {
    pub fn new() -> Self {
        Self::with(&Watcher::new(), Limits::default())
    }

    pub fn with(watcher: &Arc<Watcher>, limits: Limits) -> Self {
        let temporary = tempfile::tempdir().unwrap();
        let workspace = temporary.path().join("workspace");
        fs::create_dir(&workspace).unwrap();
        let home = temporary.path().join("checkpoints");
        let mut room = Self::at(watcher, limits, workspace, home);
        room._temporary = Some(temporary);
        room
    }

    pub fn at(watcher: &Arc<Watcher>, limits: Limits, workspace: PathBuf, home: PathBuf) -> Self {
        let faults = Arc::new(Faults::default());
        let checkpointer = Checkpointer::with_faults(watcher, workspace.clone(), home.clone(), limits, &faults);
        let watcher = Arc::clone(watcher);
        Self { _temporary: None, workspace, home, watcher, faults, checkpointer, last: None, count: 0 }
    }

    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.workspace.join(name)
    }

    pub fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub fn begin(&mut self) {
        self.checkpointer.begin().unwrap();
    }

    pub fn try_save(&mut self) -> Result<Option<Saved>, Trouble> {
        self.count += 1;
        let label = Label {
            tag: format!("tool_bash_{}", self.count),
            message: "Run 1: true".to_owned(),
            author: Author { name: "shellkeep".to_owned(), email: "shellkeep@localhost".to_owned() },
            seconds: 1_800_000_000 + self.count,
        };
        let saved = self.checkpointer.save(&label, self.last)?;
        self.last = saved.as_ref().map(|saved| saved.commit).or(self.last);
        Ok(saved)
    }

    /// Saves, and checks that the checkpoint holds what is on the disk.
    pub fn save(&mut self) -> Option<Saved> {
        let saved = self.try_save().unwrap();
        if self.last.is_some() || self.there().len() > 1 {
            assert_eq!(self.kept(), self.there(), "{saved:?}");
        }
        saved
    }

    /// Saves again what must be nothing, and is known to be.
    pub fn assert_clean(&mut self) {
        assert!(self.checkpointer.is_clean());
        assert_eq!(self.try_save().unwrap(), None);
    }

    /// What the last checkpoint holds.
    pub fn kept(&self) -> Tree {
        let mut tree = Tree::new();
        if let (Some(repo), Some(commit)) = (self.checkpointer.repo(), self.last) {
            let commit = repo.objects.read_commit(commit).unwrap();
            read_kept(repo, (commit.tree, commit.meta), "", &mut tree);
        }
        tree
    }

    /// What is on the disk and can be kept, by another hand than the checkpointer's.
    pub fn there(&self) -> Tree {
        let mut tree = Tree::new();
        if self.workspace.exists() {
            read_there(&self.workspace, "", &mut tree);
        }
        tree
    }

    /// Runs git on the session's repository.
    pub fn git(&self, arguments: &[&str]) -> String {
        git(&self.home.join("repo.git"), arguments)
    }
}

pub fn git(directory: &Path, arguments: &[&str]) -> String {
    let output = std::process::Command::new("git")
        .current_dir(directory)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .args(["-c", "safe.directory=*", "-c", "user.name=t", "-c", "user.email=t@localhost"])
        .args(arguments)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "git {arguments:?}: {said}");
    String::from_utf8_lossy(&output.stdout).into_owned() + &said
}

fn read_kept(repo: &Repo, (tree, side): (ObjectId, Option<ObjectId>), path: &str, into: &mut Tree) {
    let level = meta::read(repo, side).unwrap();
    into.insert(format!("{path}/"), Thing::Directory { mode: level.modes.directory });
    for entry in repo.objects.read_tree(tree).unwrap() {
        let name = format!("{path}/{}", entry.name.escape_ascii());
        match entry.kind {
            Kind::Directory => read_kept(repo, (entry.id, level.below.get(&entry.name).copied()), &name, into),
            Kind::Link => {
                into.insert(name, Thing::Link { target: repo.objects.read_blob(entry.id, None).unwrap() });
            }
            Kind::File { executable } => {
                let mode = level.modes.of_file(&entry.name, executable);
                into.insert(name, Thing::File { bytes: repo.objects.read_blob(entry.id, None).unwrap(), mode });
            }
        }
    }
}

fn read_there(directory: &Path, path: &str, into: &mut Tree) {
    let mode = |path: &Path| fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777;
    into.insert(format!("{path}/"), Thing::Directory { mode: mode(directory) });
    for entry in fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        if entry.file_name() == ".git" {
            continue;
        }
        let name = format!("{path}/{}", entry.file_name().as_bytes().escape_ascii());
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            read_there(&entry.path(), &name, into);
        } else if kind.is_symlink() {
            let target = fs::read_link(entry.path()).unwrap().into_os_string().into_vec();
            into.insert(name, Thing::Link { target });
        } else if !kind.is_socket() && !kind.is_fifo() {
            let bytes = fs::read(entry.path()).unwrap();
            into.insert(name, Thing::File { bytes, mode: mode(&entry.path()) });
        }
    }
}
