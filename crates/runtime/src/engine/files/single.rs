//! Single files of a session's workspace: listed, read, written and removed, even while a command runs. File access
//! runs on blocking threads, and never outside the workspace.

use super::{FileOps, below};
use crate::actor::{FileChanged, Message};
use crate::engine::access::Permitted;
use crate::engine::parts::Parts;
use crate::ops::*;
use crate::sync::read;
use serde_json::{Value, json};
use shellkeep_process::own;
use shellkeep_record::Budget;
use shellkeep_session::bytes::map::key_text;
use shellkeep_session::{Author, ByteString, SessionId, SessionState};
use shellkeep_workspace::Usage;
use shellkeep_workspace::tree::{EntryKind, Put, Tree, TreeError};
use std::sync::Arc;
use std::time::Instant;

/// The tool name of a write in the recording.
const WRITE: &str = "write_file";
/// The tool name of a removal.
const REMOVE: &str = "remove_file";

/// A path in the workspace of a session.
#[derive(Clone)]
struct InWorkspace {
    state: SessionState,
    path: ByteString,
}

impl FileOps<'_> {
    /// What is at a path, and a page of what is in it if it is a directory.
    pub fn list<'a>(
        &'a self,
        id: &'a SessionId,
        path: &'a ByteString,
        after: ByteString,
        limit: usize,
    ) -> BoxFuture<'a, Result<FileListing, OpError>> {
        Box::pin(async move {
            let Permitted { parts, id } = self.access.over(id)?;
            let place = in_workspace(parts, &id, path).await?;
            let limit = limit.clamp(1, MAX_FILE_PAGE);
            let look = move |tree: &Tree, path: &[u8]| {
                let file = tree.entry(path)?;
                if file.kind != EntryKind::Directory {
                    return Ok(FileListing { file, files: None, next: None });
                }
                let (files, has_more) = tree.list(path, after.as_bytes(), limit)?;
                let last = files.last().map(|entry| entry.path.rsplit(|byte| *byte == b'/').next().unwrap_or_default());
                let next = last.filter(|_| has_more).map(ByteString::from);
                Ok(FileListing { file, next, files: Some(files) })
            };
            with_tree(parts, place, "could not be read", look).await
        })
    }

    /// Reads a file, or a part of it.
    pub fn read<'a>(
        &'a self,
        id: &'a SessionId,
        path: &'a ByteString,
        part: FilePart,
    ) -> BoxFuture<'a, Result<FileContent, OpError>> {
        Box::pin(async move {
            let Permitted { parts, id } = self.access.over(id)?;
            let place = in_workspace(parts, &id, path).await?;
            let FilePart { offset, limit } = part;
            let look = move |tree: &Tree, path: &[u8]| tree.read(path, offset, limit, MAX_FILE_BYTES as u64);
            with_tree(parts, place, "could not be read", look).await
        })
    }

    /// Writes a file.
    pub fn write<'a>(&'a self, id: &'a SessionId, write: WriteFile) -> BoxFuture<'a, Result<FileWritten, OpError>> {
        Box::pin(async move {
            let Permitted { parts, id } = self.access.over(id)?;
            self.access.audit(WRITE, id.as_str());
            let WriteFile { path, bytes, mode, expected } = write;
            let place = in_workspace(parts, &id, &path).await?;
            if names_directory(path.as_bytes()) {
                return Err(FileError::IsDirectory { path: text(&path) }.into());
            }
            let (path, size, power) = (place.path.clone(), bytes.len() as u64, parts.ctx.store.survives_power());
            let agent = parts.ctx.names.agent_of(&id);
            if parts.ctx.disk.check(&id, agent.as_deref(), Usage { bytes: size, files: 1 }).is_err() {
                // It may replace a file that is as large.
                let look = move |tree: &Tree, path: &[u8]| Ok(growth(tree, path, size));
                let more = with_tree(parts, place.clone(), "could not be read", look).await?;
                parts.ctx.disk.check(&id, agent.as_deref(), more)?;
            }
            parts.ctx.registry.ask(&id, Message::BeforeChange).await?;
            let began = Instant::now();
            // A new file gets the permissions that a command of the session would give it.
            let umask = place.state.shell.umask.or_else(own::callers_umask);
            let put = move |tree: &Tree, path: &[u8]| {
                let more = growth(tree, path, size);
                tree.write(path, &Put { bytes: &bytes, mode, umask, expected, power }).map(|written| (written, more))
            };
            let (written, more) = with_tree(parts, place, "could not be written", put).await?;
            parts.ctx.disk.wrote(&id, agent, more);
            let mut parameters = json!({"path": key_text(&path), "size": size, "sha256": written.sha256});
            if let Some(mode) = mode {
                parameters["mode"] = format!("{mode:04o}").into();
            }
            let posted = self.record(parts, &id, WRITE, parameters, began).await?;
            let (seq, notices) = (posted.last_seq, posted.notices);
            Ok(FileWritten { path, size, sha256: written.sha256, is_new: written.is_new, seq, notices })
        })
    }

    /// Removes a file, a link, or a directory.
    pub fn remove<'a>(&'a self, id: &'a SessionId, remove: RemoveFile) -> BoxFuture<'a, Result<FileRemoved, OpError>> {
        Box::pin(async move {
            let Permitted { parts, id } = self.access.over(id)?;
            self.access.audit(REMOVE, id.as_str());
            let RemoveFile { path, recursive, expected } = remove;
            let place = in_workspace(parts, &id, &path).await?;
            let path = place.path.clone();
            if path.as_bytes().is_empty() {
                let detail = "path: the workspace itself cannot be removed; delete the session instead".to_owned();
                return Err(OpError::Invalid { detail });
            }
            parts.ctx.registry.ask(&id, Message::BeforeChange).await?;
            let began = Instant::now();
            let remove = move |tree: &Tree, path: &[u8]| tree.remove(path, recursive, &expected);
            with_tree(parts, place, "could not be removed", remove).await?;
            let parameters = json!({"path": key_text(&path), "recursive": recursive});
            let posted = self.record(parts, &id, REMOVE, parameters, began).await?;
            Ok(FileRemoved { path, seq: posted.last_seq, notices: posted.notices })
        })
    }

    /// Records a change as a tool call of the session, and saves it in a checkpoint.
    async fn record(
        &self,
        parts: &Parts,
        id: &SessionId,
        tool_name: &'static str,
        parameters: Value,
        began: Instant,
    ) -> Result<Posted, OpError> {
        let data = json!({
            "tool_name": tool_name,
            "parameters": parameters,
            "output": null,
            "error": null,
            "duration": began.elapsed().as_secs_f64(),
        });
        let event = NewEvent { event_type: "tool_call".to_owned(), data };
        let author = Author::runtime(self.access.scope().token().map(str::to_owned));
        let change = FileChanged { tool_name, event, author };
        parts.ctx.registry.ask(id, |answer| Message::FileChanged { change, answer }).await
    }
}

/// A path that a caller gave, from the workspace on.
async fn in_workspace(parts: &Parts, id: &SessionId, path: &ByteString) -> Result<InWorkspace, OpError> {
    let state = parts.stored.load(id).await?;
    parts.ctx.data_dir.check_taken(&state, None)?;
    match below(path.as_bytes(), state.meta.workspace.as_bytes()) {
        Some(path) => Ok(InWorkspace { state, path: ByteString(path) }),
        None => Err(outside(&state, path).into()),
    }
}

/// Whether a path can only be a directory's: it ends with a slash, or with `.` or `..`.
fn names_directory(path: &[u8]) -> bool {
    matches!(path.rsplit(|byte| *byte == b'/').next(), None | Some(b"" | b"." | b".."))
}

fn outside(state: &SessionState, path: &ByteString) -> FileError {
    FileError::Outside { path: text(path), workspace: state.meta.workspace.to_text().into_owned() }
}

fn text(path: &ByteString) -> String {
    if path.as_bytes().is_empty() { ".".to_owned() } else { path.to_text().into_owned() }
}

/// What a file of this size at a path takes more than what is there.
fn growth(tree: &Tree, path: &[u8], size: u64) -> Usage {
    match tree.entry(path) {
        Ok(there) => Usage { bytes: size.saturating_sub(there.size), files: 0 },
        Err(_) => Usage { bytes: size, files: 1 },
    }
}

/// Does something with a path of a workspace, on a blocking thread.
async fn with_tree<T: Send + 'static>(
    parts: &Parts,
    place: InWorkspace,
    what: &'static str,
    work: impl FnOnce(&Tree, &[u8]) -> Result<T, TreeError> + Send + 'static,
) -> Result<T, OpError> {
    let (ctx, agent) = (Arc::clone(&parts.ctx), place.state.meta.agent.clone());
    let job = move |_: &Budget| {
        // A backup closes the gate briefly.
        let _open = read(&ctx.checkpoints.gate);
        let workspace = &place.state.meta.workspace;
        let opened = match place.state.generation {
            // One of a session that never had a shell may not be there yet.
            0 => ctx.workspaces.ensure(workspace),
            _ => Ok(()),
        };
        let tree = opened.and_then(|()| Tree::open(workspace.as_path()));
        let done = tree.map_err(TreeError::Io).and_then(|tree| work(&tree, place.path.as_bytes()));
        done.map_err(|error| refused(error, &place, what))
    };
    parts.work.long(agent.as_deref(), job).await?
}

fn refused(error: TreeError, place: &InWorkspace, what: &'static str) -> OpError {
    let path = text(&place.path);
    OpError::File(match error {
        TreeError::Outside => outside(&place.state, &place.path),
        TreeError::NotFound => FileError::NotFound { path },
        TreeError::Dangling => FileError::Dangling { path },
        TreeError::IsDirectory => FileError::IsDirectory { path },
        TreeError::NotAFile => FileError::NotAFile { path },
        TreeError::NotADirectory { above } => FileError::NotADirectory { path, above: text(&ByteString(above)) },
        TreeError::LinkLoop => FileError::LinkLoop { path },
        TreeError::Unsteady => FileError::Unsteady { path },
        TreeError::NameTooLong => {
            let detail = "path: it is too long; usually a name has at most 255 bytes and a path 4095".to_owned();
            return OpError::Invalid { detail };
        }
        TreeError::NotEmpty => FileError::NotEmpty { path },
        TreeError::TooLarge { size } => FileError::TooLarge { path, size, limit: MAX_FILE_BYTES as u64 },
        TreeError::Unexpected { current } => FileError::Unexpected { path, current },
        TreeError::Io(error) => {
            let reason = (&error as &(dyn std::error::Error + 'static)).into();
            let session_id = place.state.meta.session_id.to_string();
            return OpError::Checkpoint(CheckpointError::Failed {
                session_id,
                what,
                reason,
                state: "nothing was changed",
            });
        }
    })
}
