//! The built program as a child, for the figures over HTTP and of the daemon's memory.

use crate::fallible::Fallible;
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

/// The setting of an address for TCP.
pub const LISTEN: &str = "SHELLKEEP_LISTEN";

/// A daemon with a data directory of its own. Dropping it ends both.
pub struct Daemon {
    running: Running,
    directory: TempDir,
    program: PathBuf,
    bash: PathBuf,
    max_shells: usize,
    /// Variables with settings.
    settings: Vec<(String, String)>,
}

struct Running {
    child: Child,
    /// Held open: what the daemon still has to say must not fail.
    _stdout: BufReader<ChildStdout>,
}

impl Daemon {
    /// Starts one that may have `max_shells` live shells, and waits until it listens.
    pub fn start(program: &Path, bash: &Path, max_shells: usize) -> Fallible<Self> {
        Self::start_with(program, bash, max_shells, &[])
    }

    /// The same with settings, as variables.
    pub fn start_with(program: &Path, bash: &Path, max_shells: usize, settings: &[(&str, &str)]) -> Fallible<Self> {
        let directory = tempfile::tempdir()?;
        let settings: Vec<_> = settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let running = Running::start(program, bash, max_shells, &settings, directory.path())?;
        Ok(Self { running, directory, program: program.to_owned(), bash: bash.to_owned(), max_shells, settings })
    }

    pub fn pid(&self) -> u32 {
        self.running.child.id()
    }

    /// Where it listens.
    pub fn socket(&self) -> PathBuf {
        self.directory.path().join("socket")
    }

    /// Its data directory.
    pub fn directory(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    /// Asks it to end, as its host does, or kills it.
    pub fn end(&mut self, asked: bool) {
        self.running.end(asked);
    }

    /// Starts it again on what it left, once it has ended. Gives the time from the start of the program until it listens.
    pub fn start_again(&mut self) -> Fallible<Duration> {
        let start = Instant::now();
        self.running =
            Running::start(&self.program, &self.bash, self.max_shells, &self.settings, self.directory.path())?;
        Ok(start.elapsed())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.running.end(true);
    }
}

impl Running {
    fn start(
        program: &Path,
        bash: &Path,
        max_shells: usize,
        settings: &[(String, String)],
        directory: &Path,
    ) -> Fallible<Self> {
        let log = directory.join("log");
        let mut command = Command::new(program);
        for (name, _) in std::env::vars_os() {
            // Whoever runs the benchmark may have settings of their own, which are not what is measured.
            if name.to_string_lossy().starts_with("SHELLKEEP_") {
                command.env_remove(name);
            }
        }
        command
            .args(["serve", "--max-shells", &max_shells.to_string(), "--bash"])
            .arg(bash)
            .arg("--data")
            .arg(directory.join("data"))
            .arg("--socket")
            .arg(directory.join("socket"))
            .env("XDG_CONFIG_HOME", directory)
            .envs(settings.iter().cloned())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(File::create(&log)?);
        // Only a node among others has a door of this kind.
        let has_tcp = settings.iter().any(|(name, _)| name == LISTEN);
        command.args((!has_tcp).then_some("--no-listen"));
        let mut child = command.spawn().map_err(|error| format!("{}: {error}", program.display()))?;
        let Some(stdout) = child.stdout.take() else { return Err("the daemon has no output".into()) };
        let mut stdout = BufReader::new(stdout);
        let mut lines = Vec::new();
        for _ in 0..1 + usize::from(has_tcp) {
            let mut line = String::new();
            stdout.read_line(&mut line)?;
            lines.push(line);
        }
        let mut running = Self { child, _stdout: stdout };
        if lines.iter().all(|line| line.starts_with("listening")) {
            return Ok(running);
        }
        running.end(false);
        let said = std::fs::read_to_string(&log).unwrap_or_default();
        Err(format!("the daemon did not start: {said}").into())
    }

    fn end(&mut self, asked: bool) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        if let (true, Some(pid), Ok(None)) = (asked, pid, self.child.try_wait()) {
            // It ends its shells itself if it is asked.
            let _ = kill_process(pid, Signal::TERM);
            let until = Instant::now() + STOP;
            while Instant::now() < until {
                if !matches!(self.child.try_wait(), Ok(None)) {
                    return;
                }
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        floor::end(&mut self.child);
    }
}
