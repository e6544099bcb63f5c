//! The built program as a child, for the figures over HTTP and of the daemon's memory.

use crate::Fallible;
use crate::floor;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long it may take to save every session and stop.
const STOP: Duration = Duration::from_secs(30);

/// A daemon with a data directory of its own. Dropping it ends both.
pub struct Daemon {
    child: Child,
    directory: TempDir,
    /// Held open: what the daemon still has to say must not fail.
    stdout: BufReader<ChildStdout>,
}

impl Daemon {
    /// Starts one that may have `max_shells` live shells, and waits until it listens.
    pub fn start(program: &Path, bash: &Path, max_shells: usize) -> Fallible<Self> {
        let directory = tempfile::tempdir()?;
        let log = directory.path().join("log");
        let mut command = Command::new(program);
        for (name, _) in std::env::vars_os() {
            // Whoever runs the benchmark may have settings of their own, which are not what is measured.
            if name.to_string_lossy().starts_with("SHELLKEEP_") {
                command.env_remove(name);
            }
        }
        command
            .args(["serve", "--no-listen", "--max-shells", &max_shells.to_string(), "--bash"])
            .arg(bash)
            .arg("--data")
            .arg(directory.path())
            .arg("--socket")
            .arg(directory.path().join("socket"))
            .env("XDG_CONFIG_HOME", directory.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(File::create(&log)?);
        let mut child = command.spawn().map_err(|error| format!("{}: {error}", program.display()))?;
        let Some(stdout) = child.stdout.take() else { return Err("the daemon has no output".into()) };
        let mut daemon = Self { child, directory, stdout: BufReader::new(stdout) };
        let mut line = String::new();
        daemon.stdout.read_line(&mut line)?;
        if line.starts_with("listening") {
            return Ok(daemon);
        }
        let said = std::fs::read_to_string(&log).unwrap_or_default();
        Err(format!("the daemon did not start: {said}").into())
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Where it listens.
    pub fn socket(&self) -> PathBuf {
        self.directory.path().join("socket")
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // It ends its shells itself if it is asked; killed, it could not.
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, Signal::TERM);
        }
        let until = Instant::now() + STOP;
        while Instant::now() < until {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        floor::end(&mut self.child);
    }
}
