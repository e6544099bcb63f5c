//! An owner's shell: taken, lost, given up.

use super::Owner;
use crate::ops::OpError;
use crate::pool::Worn;
use crate::{checkpoints, notices, translate};
use shellkeep_process::ExitStatus;
use shellkeep_session::{ByteString, Event, LeftProcess};
use std::os::unix::ffi::OsStrExt as _;
use std::sync::atomic::Ordering;

/// What the driver calls the working directory where it tells what it could not restore.
const CWD: &str = "cwd";

impl Owner {
    /// Takes a shell and becomes live: the only way, for new, restored and woken sessions alike.
    /// `None` if there is no shell to be had now.
    pub(super) async fn wear(&mut self) -> Result<Option<Worn>, OpError> {
        // Nobody may ask us for a shell while we ask them for one: both would wait for ever.
        self.slot.pid.store(0, Ordering::Relaxed);
        let Some(mut worn) = self.engine.shells.take(&self.id).await? else { return Ok(None) };
        let restored = worn.shell.restore(&translate::facts(&self.state.shell)).await;
        let problems = restored.map_err(|error| OpError::ShellUnavailable { reason: error.to_string() })?;
        self.homeless = problems.iter().find(|(what, _)| what == CWD).map(|(_, why)| why.clone());
        self.fresh_notices.extend(notices::not_restored(problems.iter().filter(|(what, _)| what != CWD)));
        self.record(Event::ShellStarted { generation: self.state.generation + 1 });
        self.open_files();
        self.watch_files();
        Ok(Some(worn))
    }

    /// The session's shell, taken if it has none. If the command brings no directory along, one that is in the session's own
    /// directory; `None` if there is no shell to be had now.
    pub(super) async fn shell_for(&mut self, in_own_directory: bool) -> Result<Option<Worn>, OpError> {
        let own = in_own_directory.then_some(&self.state.shell.cwd);
        self.engine.data_dir.check_taken(&self.state, own)?;
        if let Some(worn) = self.idle.take() {
            return Ok(Some(worn));
        }
        // Before a shell is taken: a command that is refused costs nobody theirs.
        if in_own_directory {
            self.check_cwd()?;
        }
        let Some(worn) = self.wear().await? else { return Ok(None) };
        let Some(why) = self.homeless.take_if(|_| in_own_directory) else { return Ok(Some(worn)) };
        // It went in this very moment, or may not be entered.
        self.idle = Some(worn);
        self.rest("no_directory", "the last one had no directory to work in");
        Err(self.cwd_gone(&why))
    }

    /// A relative directory is meant from where the session is.
    pub(super) fn resolve_cwd(&self, cwd: &ByteString) -> Result<Vec<u8>, OpError> {
        let path = checkpoints::path(&self.state.shell.cwd).join(checkpoints::path(cwd));
        let refused = |reason: String| OpError::BadCwd { path: path.display().to_string(), reason };
        match std::fs::metadata(&path) {
            Ok(metadata) if metadata.is_dir() => Ok(path.as_os_str().as_bytes().to_vec()),
            Ok(_) => Err(refused("it is not a directory".to_owned())),
            Err(error) => Err(refused(error.to_string())),
        }
    }

    /// Whether the session's directory can be entered. A command never runs elsewhere in its place.
    pub(super) fn check_cwd(&self) -> Result<(), OpError> {
        self.make_workspace()?;
        match std::fs::metadata(checkpoints::path(&self.state.shell.cwd)) {
            Ok(metadata) if metadata.is_dir() => Ok(()),
            Ok(_) => Err(self.cwd_gone("it is not a directory")),
            Err(error) => Err(self.cwd_gone(&error.to_string())),
        }
    }

    pub(super) fn cwd_gone(&self, reason: &str) -> OpError {
        OpError::CwdGone {
            session_id: self.id.to_string(),
            path: self.state.shell.cwd.to_text().into_owned(),
            reason: reason.to_owned(),
        }
    }

    /// Makes a workspace of our own before its session's first shell. One that is gone later was removed or lost: an empty
    /// one in its place would look as if all files had been deleted.
    pub(super) fn make_workspace(&self) -> Result<(), OpError> {
        let workspace = &self.state.meta.workspace;
        if self.state.generation > 0 {
            return Ok(());
        }
        let unmade = |error| OpError::ShellUnavailable { reason: format!("{}: {error}", workspace.to_text()) };
        self.engine.workspaces.ensure(workspace).map_err(unmade)
    }

    /// Writes down what the command left running, so that even a crash can be followed by a true notice.
    pub(super) fn note_processes(&mut self, worn: &mut Worn) {
        let left: Vec<LeftProcess> =
            worn.shell.settle().iter().map(|stat| notices::left_process(stat, &self.engine.boot_id)).collect();
        if left != self.state.processes {
            self.record(Event::ProcessesLeft { processes: left });
        }
    }

    pub(super) fn on_shell_ended(&mut self, exit: ExitStatus) {
        if let Some(worn) = self.idle.take() {
            self.record(Event::ShellStopped { reason: "died".to_owned(), notices: vec![notices::died_idle(exit)] });
            if !worn.shell.others().is_empty() {
                self.remnants.push(worn);
            }
        }
    }

    /// Gives up every process of a session in which nothing runs.
    pub(super) fn rest(&mut self, reason: &str, why: &str) {
        let Some(worn) = self.idle.take() else {
            self.remnants.clear();
            return;
        };
        let mut notices = notices::given_up(&worn.shell, why);
        for remnant in self.remnants.drain(..) {
            notices.extend(notices::given_up(&remnant.shell, why));
        }
        self.record(Event::ShellStopped { reason: reason.to_owned(), notices });
    }
}
