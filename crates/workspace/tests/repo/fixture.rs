//! A repository in a temporary directory, files as a map, and the real `git`.

use shellkeep_workspace::fault::Faults;
use shellkeep_workspace::repo::{Author, Commit, Entry, Kind, ObjectId, Repo, Result};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

/// A plain file.
pub const FILE: Kind = Kind::File { executable: false };

/// A file that its owner may run.
pub const SCRIPT: Kind = Kind::File { executable: true };

/// Files by path. [`Kind::Directory`] is an empty directory.
pub type Files = BTreeMap<Vec<u8>, (Kind, Vec<u8>)>;

/// Plain files by path.
pub fn files(list: &[(&str, &str)]) -> Files {
    list.iter().map(|(path, text)| (path.as_bytes().to_vec(), (FILE, text.as_bytes().to_vec()))).collect()
}

pub struct Home {
    pub directory: tempfile::TempDir,
    pub repo: Repo,
    pub faults: Arc<Faults>,
    seconds: i64,
}

impl Home {
    pub fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let faults = Arc::new(Faults::default());
        let repo = Repo::create(&directory.path().join("repo.git"), &faults).unwrap();
        Self { directory, repo, faults, seconds: 1_800_000_000 }
    }

    pub fn path(&self) -> PathBuf {
        self.directory.path().join("repo.git")
    }

    /// As after a restart.
    pub fn reopen(&mut self) {
        self.repo = Repo::open(&self.path(), &self.faults).unwrap().unwrap();
    }

    /// Gathers a commit and publishes it.
    pub fn save(&mut self, tag: &str, files: &Files, parents: &[ObjectId]) -> Result<ObjectId> {
        let commit = self.commit(files, parents)?;
        self.repo.publish(tag, commit)?;
        Ok(commit)
    }

    /// Gathers a commit.
    pub fn commit(&mut self, files: &Files, parents: &[ObjectId]) -> Result<ObjectId> {
        let tree = write(&mut self.repo, files)?;
        self.seconds += 1;
        self.repo.objects.commit(&Commit {
            tree,
            meta: None,
            parents: parents.to_vec(),
            author: Author { name: "agent".to_owned(), email: "agent@shellkeep".to_owned() },
            seconds: self.seconds,
            message: format!("checkpoint\n\nof {} files", files.len()),
        })
    }

    pub fn git(&self, arguments: &[&str]) -> String {
        String::from_utf8_lossy(&self.git_bytes(arguments)).into_owned()
    }

    pub fn git_bytes(&self, arguments: &[&str]) -> Vec<u8> {
        run(git_in(&self.path()).args(arguments))
    }

    /// What git has to say against the repository; warnings count, dangling objects do not.
    pub fn fsck(&self) {
        let output = git_in(&self.path()).args(["fsck", "--strict", "--full", "--no-dangling"]).output().unwrap();
        let said = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
        // It notices when there is no commit yet.
        let complaints: Vec<&str> = said.lines().filter(|line| !line.starts_with("notice: ")).collect();
        assert!(output.status.success() && complaints.is_empty(), "{said}");
    }
}

/// A `git` that reads no configuration but the repository's own.
pub fn git_in(directory: &Path) -> Command {
    let mut git = Command::new("git");
    git.current_dir(directory).env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", "/dev/null");
    git.env_remove("GIT_DIR").stdin(Stdio::null());
    git
}

/// Runs it to its end, which must be a good one.
pub fn run(command: &mut Command) -> Vec<u8> {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// Writes files as trees, and gives the root.
pub fn write(repo: &mut Repo, files: &Files) -> Result<ObjectId> {
    let mut entries = Vec::new();
    let mut below: BTreeMap<Vec<u8>, Files> = BTreeMap::new();
    for (path, (kind, bytes)) in files {
        let (name, rest) = match path.iter().position(|byte| *byte == b'/') {
            Some(slash) => (&path[..slash], Some(path[slash + 1..].to_vec())),
            None => (path.as_slice(), None),
        };
        match rest {
            Some(rest) => {
                below.entry(name.to_vec()).or_default().insert(rest, (*kind, bytes.clone()));
            }
            None if *kind == Kind::Directory => {
                entries.push(Entry { name: name.to_vec(), kind: *kind, id: repo.objects.tree(&[])? });
            }
            None => entries.push(Entry { name: name.to_vec(), kind: *kind, id: repo.objects.blob(bytes)? }),
        }
    }
    for (name, files) in below {
        entries.push(Entry { name, kind: Kind::Directory, id: write(repo, &files)? });
    }
    repo.objects.tree(&entries)
}

/// Reads a commit's files back.
pub fn read(repo: &Repo, commit: ObjectId) -> Result<Files> {
    fn below(repo: &Repo, tree: ObjectId, prefix: &[u8], files: &mut Files) -> Result<()> {
        for entry in repo.objects.read_tree(tree)? {
            let path = [prefix, &entry.name].concat();
            if entry.kind != Kind::Directory {
                files.insert(path, (entry.kind, repo.objects.read_blob(entry.id, None)?));
            } else if entry.id.is_empty_tree() {
                files.insert(path, (entry.kind, Vec::new()));
            } else {
                below(repo, entry.id, &[&path[..], b"/"].concat(), files)?;
            }
        }
        Ok(())
    }
    let mut files = Files::new();
    below(repo, repo.objects.read_commit(commit)?.tree, b"", &mut files)?;
    Ok(files)
}

/// Names of unfinished files below a directory.
pub fn unfinished(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            found.extend(unfinished(&path));
        } else if name.starts_with("tmp_") || name.ends_with(".lock") {
            found.push(path);
        }
    }
    found
}
