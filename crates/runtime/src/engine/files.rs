//! A session's files and history: checkpoints, differences, rewind.

mod branch;
mod single;

use super::access::{Access, Permitted};
use super::handle::Engine;
use super::parts::Parts;
use crate::actor::FilesTask;
use crate::checkpoints::commit_of;
use crate::file_views as views;
use crate::names::not_found;
use crate::ops::*;
use shellkeep_session::{ByteString, Cause, FilesAt, SessionId, Timestamp};
use shellkeep_workspace::diff::{self, PatchOptions, Repos};
use shellkeep_workspace::repo::{Kind, ObjectId, Repo, RepoError};
use std::collections::HashSet;
use std::sync::Arc;

/// Operations on a session's files and its time.
pub struct FileOps<'a> {
    access: &'a Access,
}

impl Engine {
    /// Operations on a session's files and its time.
    pub fn files(&self) -> FileOps<'_> {
        FileOps::of(&self.access)
    }
}

impl<'o> FileOps<'o> {
    pub(super) fn of(access: &'o Access) -> Self {
        Self { access }
    }

    /// The checkpoints of a session, oldest first, a page at a time.
    pub fn checkpoints<'a>(
        &'a self,
        id: &'a SessionId,
        after: u64,
        limit: usize,
    ) -> BoxFuture<'a, Result<CheckpointPage, OpError>> {
        Box::pin(async move {
            let Permitted { parts, id } = self.access.over(id)?;
            let asked = Timestamp::now();
            parts.files.settled(&id).await;
            let limit = limit.clamp(1, MAX_CHECKPOINT_PAGE);
            let mut checkpoints = parts.ctx.history.checkpoints_after(&id, after, limit + 1).await?;
            let has_more = checkpoints.len() > limit;
            checkpoints.truncate(limit);
            let next = if has_more { checkpoints.last().map(|last| last.seq) } else { None };
            let kept = match parts.files.with_repo(&id, |repo| repo.map(Repo::tags).transpose()).await {
                Ok(kept) => kept.unwrap_or_default(),
                Err(error) => {
                    // It may have been deleted since, and its name used again.
                    let is_same = parts.ctx.registry.snapshot(&id).await?.meta.created_at < asked;
                    return Err(if is_same { error } else { not_found(&id) });
                }
            };
            let kept: HashSet<String> = kept.into_iter().map(|(name, _)| name).collect();
            for view in &mut checkpoints {
                view.kept = kept.contains(&view.checkpoint.at.name);
                view.command = command_of(parts, &id, &view.checkpoint.cause).await?;
            }
            let current = parts.ctx.registry.snapshot(&id).await?.files;
            Ok(CheckpointPage { checkpoints, next, current })
        })
    }

    /// One checkpoint as in the list.
    pub fn checkpoint_at<'a>(
        &'a self,
        id: &'a SessionId,
        at: &'a FilesAt,
    ) -> BoxFuture<'a, Result<CheckpointView, OpError>> {
        Box::pin(async move {
            let Permitted { parts, id } = self.access.over(id)?;
            let mut view = parts.ctx.history.checkpoint_named(&id, &at.name).await?;
            let commit = commit_of(&view.checkpoint.at);
            let is_there =
                move |repo: Option<&Repo>| Ok(repo.zip(commit).is_some_and(|(repo, id)| repo.objects.contains(id)));
            view.kept = parts.files.with_repo(&id, is_there).await?;
            view.command = command_of(parts, &id, &view.checkpoint.cause).await?;
            Ok(view)
        })
    }

    /// Saves the files as they are now. `None` if nothing changed since the last checkpoint.
    pub fn checkpoint<'a>(&'a self, id: &'a SessionId) -> BoxFuture<'a, Result<Option<CheckpointView>, OpError>> {
        Box::pin(async move {
            let Permitted { parts, id } = self.access.over(id)?;
            self.access.audit("checkpoint", id.as_str());
            parts.files.ask(&id, FilesTask::Checkpoint).await
        })
    }

    /// How two states of the files differ.
    pub fn diff<'a>(&'a self, id: &'a SessionId, mut query: DiffQuery) -> BoxFuture<'a, Result<DiffView, OpError>> {
        Box::pin(async move {
            let Permitted { parts, id } = self.access.over(id)?;
            parts.files.settled(&id).await;
            if let Some(other) = &query.from_session {
                query.from_session = Some(self.access.over(other)?.id.into_owned());
            }
            if let Some(path) = &query.path {
                query.path = Some(ByteString(path_in(parts, &id, path).await?));
            }
            let to = match &query.to {
                Some(moment) => Some(parts.ctx.history.files_at(&id, moment).await?),
                None => None,
            };
            let (to_files, to_commit) = match to {
                Some(files) => (files.clone(), files.as_ref().and_then(commit_of)),
                None => (None, parts.files.ask(&id, FilesTask::Now).await?),
            };
            let from = match (&query.from_session, &query.from, &query.to) {
                (Some(other), moment, _) => in_other(parts, other, moment.as_ref()).await?,
                (None, Some(moment), _) => From::files(parts.ctx.history.files_at(&id, moment).await?),
                (None, None, None) => From::files(parts.ctx.registry.snapshot(&id).await?.files),
                (None, None, Some(_)) => From::Before,
            };
            // The name of the older side is needed only if the caller did not name it.
            let named = match &from {
                From::Before => named_commits(parts, &id).await?,
                From::Files { .. } => Vec::new(),
            };
            let mut masks = Vec::new();
            for of in query.from_session.iter().chain([id.as_ref()]) {
                // What a session is given may be in its files too.
                let mask = match query.redact {
                    true => Some(parts.ctx.secrets.masker(of).await?.redactor().clone()),
                    false => parts.ctx.secrets.mask_of(of).await?,
                };
                masks.extend(mask);
            }
            let faults = Arc::clone(parts.ctx.checkpoints.faults());
            let other = query.from_session.as_ref().map(|other| parts.ctx.checkpoints.repository(other));
            let compared = move |repo: Option<&Repo>| {
                let other = other.map(|other| Repo::open(&other, &faults)).transpose()?.flatten();
                // Without checkpoints, there are no files.
                let repos = repo.or(other.as_ref()).map(|new| Repos { old: other.as_ref().unwrap_or(new), new });
                let mut view = compare(repos, &named, from, (to_files, to_commit), &query)?;
                for mask in masks {
                    view.patch = view.patch.map(|patch| mask.redact(&patch));
                }
                Ok(view)
            };
            parts.files.with_repo(&id, compared).await
        })
    }

    /// When a path changed, oldest first.
    pub fn history<'a>(
        &'a self,
        id: &'a SessionId,
        path: &'a ByteString,
    ) -> BoxFuture<'a, Result<Vec<HistoryEntry>, OpError>> {
        Box::pin(async move {
            let Permitted { parts, id } = self.access.over(id)?;
            parts.files.settled(&id).await;
            let path = path_in(parts, &id, path).await?;
            let checkpoints = parts.ctx.history.checkpoints_after(&id, 0, usize::MAX).await?;
            parts
                .files
                .with_repo(&id, move |repo| {
                    let Some(repo) = repo else { return Ok(Vec::new()) };
                    let kept: Vec<(CheckpointView, ObjectId)> = checkpoints
                        .into_iter()
                        .filter_map(|view| Some((view.clone(), commit_of(&view.checkpoint.at)?)))
                        .filter(|(_, commit)| repo.objects.contains(*commit))
                        .collect();
                    let commits: Vec<ObjectId> = kept.iter().map(|(_, commit)| *commit).collect();
                    let found = diff::history(repo, &commits, &path)?;
                    Ok(views::history(repo, &kept, found))
                })
                .await
        })
    }

    /// A file as it was in a checkpoint.
    pub fn past_file<'a>(
        &'a self,
        id: &'a SessionId,
        at: &'a Moment,
        path: &'a ByteString,
    ) -> BoxFuture<'a, Result<PastFile, OpError>> {
        Box::pin(async move {
            let Permitted { parts, id } = self.access.over(id)?;
            parts.files.settled(&id).await;
            let path = path_in(parts, &id, path).await?;
            let text = String::from_utf8_lossy(&path).into_owned();
            let Some(files) = parts.ctx.history.files_at(&id, at).await? else {
                return Err(OpError::Checkpoint(CheckpointError::FileNotFound {
                    checkpoint: "the beginning".to_owned(),
                    path: text,
                }));
            };
            let missing =
                OpError::Checkpoint(CheckpointError::FileNotFound { checkpoint: files.name.clone(), path: text });
            let found = parts.files.with_repo(&id, move |repo| read_file(repo, files, &path)).await?;
            found.ok_or(missing)
        })
    }

    /// The disk usage of a session's checkpoints. With `thin`, prunes old ones according to the policy first.
    pub fn checkpoint_use<'a>(
        &'a self,
        id: &'a SessionId,
        thin: bool,
    ) -> BoxFuture<'a, Result<CheckpointUse, OpError>> {
        Box::pin(async move {
            let Permitted { parts, id } = self.access.over(id)?;
            let reclaimed = if thin { parts.files.ask(&id, FilesTask::Thin).await? } else { 0 };
            let (session_id, limit) = (id.clone().into_owned(), parts.ctx.checkpoints.config.bytes_per_session);
            let measure = move |repo: Option<&Repo>| {
                let Some(repo) = repo else { return Ok((0, 0)) };
                Ok((repo.tags()?.len() as u64, repo.size()))
            };
            let (checkpoints, bytes) = parts.files.with_repo(&id, measure).await?;
            Ok(CheckpointUse { session_id, checkpoints, bytes, limit, reclaimed })
        })
    }
}

/// The command of the run that a checkpoint was taken for.
async fn command_of(parts: &Parts, id: &SessionId, cause: &Cause) -> Result<Option<ByteString>, OpError> {
    let Cause::Tool { run_id, .. } = cause else { return Ok(None) };
    match parts.stored.run(id, run_id).await {
        Ok(run) => {
            let mut command = run.command;
            command.0.truncate(MAX_LISTED_COMMAND);
            Ok(Some(command))
        }
        // A fork has the checkpoints of its origin, but not its runs.
        Err(OpError::Run(RunError::NotFound { .. })) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The names of a session's checkpoints, by commit.
async fn named_commits(parts: &Parts, id: &SessionId) -> Result<Vec<FilesAt>, OpError> {
    let checkpoints = parts.ctx.history.checkpoints_after(id, 0, usize::MAX).await?;
    Ok(checkpoints.into_iter().map(|view| view.checkpoint.at).collect())
}

/// The older side of a comparison.
enum From {
    /// These; none is before the first.
    Files { files: Option<FilesAt>, commit: Option<ObjectId> },
    /// The parent of the newer one.
    Before,
}

impl From {
    fn files(files: Option<FilesAt>) -> Self {
        let commit = files.as_ref().and_then(commit_of);
        Self::Files { files, commit }
    }
}

/// Files of another session, as they were or as they are.
async fn in_other(parts: &Parts, other: &SessionId, moment: Option<&Moment>) -> Result<From, OpError> {
    parts.files.settled(other).await;
    Ok(match moment {
        Some(moment) => From::files(parts.ctx.history.files_at(other, moment).await?),
        None => From::Files { files: None, commit: parts.files.ask(other, FilesTask::Now).await? },
    })
}

fn compare(
    repos: Option<Repos<'_>>,
    named: &[FilesAt],
    from: From,
    (to_files, to): (Option<FilesAt>, Option<ObjectId>),
    query: &DiffQuery,
) -> Result<DiffView, RepoError> {
    let (from_files, from) = match (from, repos, to) {
        (From::Files { files, commit }, ..) => (files, commit),
        (From::Before, Some(Repos { new: repo, .. }), Some(to)) => {
            let parent =
                repo.objects.read_commit(to)?.parents.first().copied().filter(|parent| repo.objects.contains(*parent));
            let hex = parent.map(|parent| parent.to_string());
            let found = named.iter().find(|files| Some(&files.commit) == hex.as_ref()).cloned();
            (found, parent)
        }
        (From::Before, ..) => (None, None),
    };
    let mut view = DiffView { from: from_files, to: to_files, files: Vec::new(), patch: None, truncated: false };
    let Some(repos) = repos else {
        // It stayed on the node that the session was on.
        return to.or(from).map_or(Ok(view), |id| Err(RepoError::Missing { id }));
    };
    let changes = match (from, to) {
        (_, Some(to)) => diff::trees(repos, from, to)?,
        (Some(from), None) => diff::trees(repos, Some(from), shellkeep_workspace::repo::EMPTY_TREE)?,
        (None, None) => Vec::new(),
    };
    let mut changes = diff::pair_renames(changes);
    if let Some(path) = &query.path {
        changes.retain(|change| views::is_below(&change.path, path.as_bytes()));
    }
    let options = PatchOptions {
        max_bytes: query.patch.unwrap_or(DEFAULT_PATCH_BYTES).min(MAX_PATCH_BYTES),
        binary: query.binary,
        ..PatchOptions::default()
    };
    let patch = diff::patch(repos, &changes, options)?;
    view.files = views::with_lines(&changes, &patch.files);
    view.truncated = query.patch.is_some() && patch.left_out > 0;
    view.patch = query.patch.map(|_| patch.text);
    Ok(view)
}

fn read_file(repo: Option<&Repo>, files: FilesAt, path: &[u8]) -> Result<Option<PastFile>, RepoError> {
    let Some(commit) = commit_of(&files) else { return Ok(None) };
    let Some(repo) = repo else { return Err(RepoError::Missing { id: commit }) };
    let commit = repo.objects.read_commit(commit)?;
    let Some((entry, mode)) = views::find(repo, &commit, path)? else { return Ok(None) };
    let bytes = match entry.kind {
        Kind::Directory => return Ok(None),
        _ => repo.objects.read_blob(entry.id, None)?,
    };
    Ok(Some(PastFile { at: files, bytes, mode, is_link: entry.kind == Kind::Link }))
}

/// A path below a session's workspace, as a checkpoint names it.
async fn path_in(parts: &Parts, id: &SessionId, path: &ByteString) -> Result<Vec<u8>, OpError> {
    let workspace = parts.stored.load(id).await?.meta.workspace;
    let outside = || OpError::Invalid {
        detail: format!("path: '{}' is not in the session's workspace, {}", path.to_text(), workspace.to_text()),
    };
    below(path.as_bytes(), workspace.as_bytes()).ok_or_else(outside)
}

/// A path without `.`, `..` and redundant slashes, relative to the workspace. None if it leads out of it.
fn below(path: &[u8], workspace: &[u8]) -> Option<Vec<u8>> {
    let rest = match path.starts_with(b"/") {
        true => path.strip_prefix(workspace).filter(|rest| rest.is_empty() || rest.starts_with(b"/"))?,
        false => path,
    };
    let mut parts: Vec<&[u8]> = Vec::new();
    for part in rest.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join(&b'/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_stays_below_the_workspace() {
        let below = |path: &str| below(path.as_bytes(), b"/w/a").map(|path| String::from_utf8(path).unwrap());
        assert_eq!(below("src/x.rs").as_deref(), Some("src/x.rs"));
        assert_eq!(below("./src//x/../y/").as_deref(), Some("src/y"));
        assert_eq!((below("/w/a/x").as_deref(), below("/w/a").as_deref()), (Some("x"), Some("")));
        for wrong in ["..", "a/../../b", "/w/ab", "/etc/passwd"] {
            assert_eq!(below(wrong), None, "{wrong}");
        }
    }
}
