//! The other side: git as it comes, on a tree of its own. Only its housekeeping is off, which it would start beside a
//! commit; that is for its good.

use crate::fallible::Fallible;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const SETTINGS: [(&str, &str); 4] =
    [("gc.auto", "0"), ("maintenance.auto", "false"), ("user.name", "bench"), ("user.email", "bench@localhost")];

/// A repository.
pub struct Git {
    tree: PathBuf,
}

impl Git {
    /// Makes one in a directory.
    pub fn init(tree: &Path) -> Fallible<Self> {
        let git = Self { tree: tree.to_owned() };
        git.run(&["init", "-q"])?;
        for (name, value) in SETTINGS {
            git.run(&["config", name, value])?;
        }
        Ok(git)
    }

    /// Where the files are.
    pub fn tree(&self) -> &Path {
        &self.tree
    }

    /// Where it keeps what it knows.
    pub fn repository(&self) -> PathBuf {
        self.tree.join(".git")
    }

    /// `git add -A && git commit -qm x`, without a shell around it.
    pub fn commit(&self) -> Fallible<Duration> {
        let start = Instant::now();
        self.run(&["add", "-A"])?;
        self.run(&["commit", "-qm", "x"])?;
        Ok(start.elapsed())
    }

    /// The same when there is nothing to do, which it says with its exit code.
    pub fn commit_nothing(&self) -> Fallible<Duration> {
        let start = Instant::now();
        self.run(&["add", "-A"])?;
        match self.command(&["commit", "-qm", "x"]).status()?.code() {
            Some(1) => Ok(start.elapsed()),
            other => Err(format!("git found something to commit: {other:?}").into()),
        }
    }

    /// Everything into one pack.
    pub fn gather(&self) -> Fallible<()> {
        self.run(&["gc", "-q"])
    }

    fn run(&self, arguments: &[&str]) -> Fallible<()> {
        let status = self.command(arguments).status().map_err(|error| format!("git: {error}"))?;
        if status.success() { Ok(()) } else { Err(format!("git {arguments:?} failed: {status}").into()) }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("git");
        command.args(arguments).current_dir(&self.tree);
        // Nobody's own settings, hooks or repositories around.
        command.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", "/dev/null");
        for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"] {
            command.env_remove(name);
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }
}

/// Its version, or why there is none.
pub fn version() -> String {
    let output = Command::new("git").arg("--version").output();
    output.map_or_else(
        |error| format!("no git ({error})"),
        |output| String::from_utf8_lossy(&output.stdout).trim().to_owned(),
    )
}
