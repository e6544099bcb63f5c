//! What checkpoints need outside of a session: where they are stored, their limits, and the one watcher of all
//! workspaces.

use crate::cell::RunCell;
use crate::ops::{CheckpointConfig, DEFAULT_TOOL};
use shellkeep_session::{ByteString, Cause, FilesAt, SessionId, Timestamp};
use shellkeep_workspace::checkpointer::{Checkpointer, Label, Limits};
use shellkeep_workspace::fault::Faults;
use shellkeep_workspace::repo::ObjectId;
use shellkeep_workspace::watch::Watcher;
use std::path::{Path, PathBuf};
use std::sync::{Arc, RwLock};

/// The author address of commits; it does not exist.
const EMAIL: &str = "shellkeep@localhost";

/// Where and how files are saved.
#[derive(Debug)]
pub(crate) struct Checkpoints {
    /// The settings.
    pub(crate) config: CheckpointConfig,
    home: PathBuf,
    /// All work with files goes through it; a backup closes it briefly.
    pub(crate) gate: Arc<RwLock<()>>,
    watcher: Arc<Watcher>,
    faults: Arc<Faults>,
}

/// Why a checkpoint is taken, and what caused it.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    /// What for.
    pub(crate) cause: Cause,
    /// Number of the last record whose file changes it contains.
    pub(crate) covers: u64,
    /// The first line of the message.
    pub(crate) title: String,
    /// The tool that changed the files, if it was one that runs no command.
    pub(crate) tool_name: Option<&'static str>,
}

impl Wanted {
    /// A command has ended. Its text is only in the recording, where a secret in it can be masked.
    pub(crate) fn after_run(cell: &RunCell, covers: u64) -> Self {
        let (run_id, tool_name) =
            (cell.start.run_id.clone(), cell.start.tool_name.as_deref().unwrap_or(DEFAULT_TOOL).to_owned());
        let title = format!("{tool_name} {run_id}");
        Self { cause: Cause::Tool { run_id, tool_name }, covers, title, tool_name: None }
    }

    /// Another reason than a command.
    pub(crate) fn for_other(cause: Cause, covers: u64) -> Self {
        let title = match &cause {
            Cause::Tool { run_id, .. } => format!("after {run_id}"),
            Cause::Base => "before the first command".to_owned(),
            Cause::Rewind => "before a rewind".to_owned(),
            Cause::Fork => "as forked".to_owned(),
            Cause::Merge => "after a merge".to_owned(),
            Cause::Manual => "as asked for".to_owned(),
            Cause::Outside => "changed outside this session".to_owned(),
        };
        Self { cause, covers, title, tool_name: None }
    }

    /// A tool that runs no command has changed a file.
    pub(crate) fn after_change(tool_name: &'static str, covers: u64) -> Self {
        Self { cause: Cause::Manual, covers, title: tool_name.to_owned(), tool_name: Some(tool_name) }
    }

    /// The commit's message.
    pub(crate) fn label(&self, id: &SessionId, agent: Option<&str>) -> Label {
        let at = Timestamp::now();
        let mut message = format!("{}\n\nSession: {id}\n", self.title);
        if let Cause::Tool { run_id, tool_name } = &self.cause {
            message.push_str(&format!("Run: {run_id}\nTool: {tool_name}\n"));
        }
        let prefix = match self.tool_name {
            Some(tool_name) => {
                message.push_str(&format!("Tool: {tool_name}\n"));
                format!("tool_{tool_name}_")
            }
            None => self.cause.prefix(),
        };
        message.push_str(&format!("Covers: {}\n", self.covers));
        Label {
            tag: format!("{prefix}{}", at.strftime("%Y%m%dT%H%M%S%.6fZ")),
            message,
            author: shellkeep_workspace::repo::Author {
                name: agent.unwrap_or("shellkeep").to_owned(),
                email: EMAIL.to_owned(),
            },
            seconds: at.as_second(),
        }
    }
}

impl Checkpoints {
    /// All of them below a data directory.
    pub(crate) fn new(data_dir: &Path, config: CheckpointConfig) -> Self {
        let (watcher, faults) = (Watcher::new(), Arc::default());
        if config.on
            && let Err(error) = watcher.listen()
        {
            tracing::warn!(%error, "no thread watches workspaces; workspaces are scanned after each command");
        }
        Self { config, home: data_dir.join("checkpoints"), gate: Arc::default(), watcher, faults }
    }

    /// The directory of all checkpoints.
    pub(crate) fn all(&self) -> &Path {
        &self.home
    }

    /// The directory of a session's checkpoints.
    pub(crate) fn home(&self, id: &SessionId) -> PathBuf {
        self.home.join(id.as_str())
    }

    /// Where its repository is.
    pub(crate) fn repository(&self, id: &SessionId) -> PathBuf {
        self.home(id).join(shellkeep_workspace::checkpointer::REPOSITORY)
    }

    /// Switches for tests.
    pub(crate) fn faults(&self) -> &Arc<Faults> {
        &self.faults
    }

    /// The checkpointer of a session's files. Nothing is scanned yet.
    pub(crate) fn checkpointer(&self, id: &SessionId, workspace: &ByteString) -> Checkpointer {
        let limits = Limits {
            max_file_bytes: self.config.max_file_bytes,
            repo_bytes: self.config.bytes_per_session,
            files: self.config.max_files,
            time: self.config.time,
        };
        Checkpointer::with_faults(&self.watcher, path(workspace).to_owned(), self.home(id), limits, &self.faults)
    }
}

/// The commit of a checkpoint.
pub(crate) fn commit_of(files: &FilesAt) -> Option<ObjectId> {
    ObjectId::from_hex(files.commit.as_bytes()).ok()
}

pub(crate) fn path(bytes: &ByteString) -> &Path {
    bytes.as_path()
}
