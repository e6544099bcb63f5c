//! An owner's shell: taken, lost, given up.

use super::Owner;
use crate::ops::OpError;
use crate::pool::Worn;
use crate::{notices, translate};
use shellkeep_process::{ExitStatus, Fact};
use shellkeep_session::shell::Variable;
use shellkeep_session::{ByteString, Event};
use std::sync::atomic::Ordering;

/// What a new shell is told, and the problem with the working directory if there is one.
type ToRestore = (Vec<Fact>, Option<(String, String)>);

impl Owner {
    /// Takes a shell and becomes live: the only way, for new, restored and woken sessions alike.
    /// `None` if there is no shell to be had now.
    pub(super) async fn wear(&mut self) -> Result<Option<Worn>, OpError> {
        // Nobody may ask us for a shell while we ask them for one: both would wait for ever.
        self.slot.pid.store(0, Ordering::Relaxed);
        let Some(mut worn) = self.engine.take_shell(&self.id).await? else { return Ok(None) };
        let unavailable = |reason: String| OpError::ShellUnavailable { reason };
        let (facts, cwd_problem) = self.facts_to_restore().map_err(unavailable)?;
        let mut problems = match worn.shell.restore(&facts).await {
            Ok(problems) => problems,
            Err(error) => return Err(unavailable(error.to_string())),
        };
        problems.extend(cwd_problem);
        let cwd = self.state.shell.cwd.to_text().into_owned();
        let fallback = self.moved_to.as_ref().map(|path| path.to_text().into_owned()).unwrap_or_default();
        self.fresh_notices.extend(notices::not_restored(&problems, &cwd, &fallback));
        self.record(Event::ShellStarted { generation: self.state.generation + 1 });
        self.open_files();
        self.watch_files();
        Ok(Some(worn))
    }

    /// The session's facts; if its directory is gone, with its workspace in the place of it.
    pub(super) fn facts_to_restore(&mut self) -> Result<ToRestore, String> {
        use std::os::unix::ffi::OsStrExt;
        let workspace = self.state.meta.workspace.clone();
        let path = |bytes: &ByteString| std::path::PathBuf::from(std::ffi::OsStr::from_bytes(bytes.as_bytes()));
        if self.state.shell.cwd.as_bytes().starts_with(workspace.as_bytes()) {
            let made = self.engine.workspaces.ensure(&workspace);
            made.map_err(|error| format!("{}: {error}", workspace.to_text()))?;
        }
        let reason = match std::fs::metadata(path(&self.state.shell.cwd)) {
            Ok(metadata) if metadata.is_dir() => return Ok((translate::facts(&self.state.shell), None)),
            Ok(_) => "it is not a directory".to_owned(),
            Err(error) => error.to_string(),
        };
        let usable = self.engine.workspaces.ensure(&workspace).is_ok() && path(&workspace).is_dir();
        let fallback = if usable { workspace } else { "/".into() };
        let mut shell = self.state.shell.clone();
        shell.cwd = fallback.clone();
        shell.variables.insert("PWD".into(), Variable::scalar("x", fallback.clone()));
        self.moved_to = Some(fallback);
        Ok((translate::facts(&shell), Some(("cwd".to_owned(), reason))))
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
