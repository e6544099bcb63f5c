//! Differences in a repository as callers see them.

use crate::ops::{ChangeKind, CheckpointView, FileChange, HistoryEntry, MAX_NAMED_FILES};
use shellkeep_session::{ByteString, Cause, Checkpoint, LeftOut, RunId};
use shellkeep_workspace::diff::{self, Change, FilePatch, Side};
use shellkeep_workspace::meta;
use shellkeep_workspace::repo::{Commit, Entry, Kind, ObjectId, Repo, RepoError};
use shellkeep_workspace::restore::{Item, KeptBack, Plan};
use std::collections::HashMap;

/// The first files that a plan changes, and their total number. Directories are not listed.
pub(crate) fn plan_views(plan: &Plan) -> (Vec<FileChange>, u64) {
    let mut views: Vec<FileChange> = Vec::new();
    let is_file = |item: &Option<Item>| item.as_ref().is_some_and(|item| item.kind != Kind::Directory);
    for step in plan.steps.iter().filter(|step| is_file(&step.old) || is_file(&step.new)) {
        let kind = match (is_file(&step.old), is_file(&step.new)) {
            (true, true) => ChangeKind::Modified,
            (true, false) => ChangeKind::Deleted,
            _ => ChangeKind::Added,
        };
        match views.last_mut() {
            // A change of kind is a removal followed by an addition.
            Some(last) if last.path.as_bytes() == step.path => last.kind = ChangeKind::TypeChanged,
            _ => views.push(FileChange {
                path: ByteString(step.path.clone()),
                kind,
                renamed_from: None,
                insertions: None,
                deletions: None,
                binary: false,
            }),
        }
    }
    let total = views.len() as u64;
    views.truncate(MAX_NAMED_FILES);
    (views, total)
}

/// Paths that are not changed.
pub(crate) fn kept_back(paths: &[KeptBack]) -> Vec<LeftOut> {
    let told = |kept: &KeptBack| LeftOut { path: ByteString(kept.path.clone()), reason: kept.reason.to_owned() };
    paths.iter().take(MAX_NAMED_FILES).map(told).collect()
}

/// Changes with the lines that a patch counted.
pub(crate) fn with_lines(changes: &[Change], patches: &[FilePatch]) -> Vec<FileChange> {
    let counted: HashMap<&[u8], &FilePatch> = patches.iter().map(|patch| (patch.path.as_slice(), patch)).collect();
    changes.iter().map(|change| view(change, counted.get(change.path.as_slice()).copied())).collect()
}

fn view(change: &Change, patch: Option<&FilePatch>) -> FileChange {
    let counted = patch.filter(|patch| !patch.binary);
    FileChange {
        path: ByteString(change.path.clone()),
        kind: kind(change),
        renamed_from: change.renamed_from.clone().map(ByteString),
        insertions: counted.map(|patch| patch.insertions),
        deletions: counted.map(|patch| patch.deletions),
        binary: patch.is_some_and(|patch| patch.binary),
    }
}

fn kind(change: &Change) -> ChangeKind {
    match change.kind {
        _ if change.renamed_from.is_some() => ChangeKind::Renamed,
        diff::ChangeKind::Added => ChangeKind::Added,
        diff::ChangeKind::Changed => ChangeKind::Modified,
        diff::ChangeKind::Deleted => ChangeKind::Deleted,
        diff::ChangeKind::TypeChanged => ChangeKind::TypeChanged,
    }
}

/// Whether a path is another, or below it.
pub(crate) fn is_below(path: &[u8], above: &[u8]) -> bool {
    let above = above.strip_suffix(b"/").unwrap_or(above);
    above.is_empty() || path.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
}

/// In which checkpoints a path changed.
pub(crate) fn history(
    repo: &Repo,
    checkpoints: &[(CheckpointView, ObjectId)],
    found: Vec<(usize, Option<Side>)>,
) -> Vec<HistoryEntry> {
    let mut before: Option<Side> = None;
    let mut entries = Vec::new();
    for (index, side) in found {
        let Some((CheckpointView { checkpoint, seq, at, .. }, _)) = checkpoints.get(index) else { continue };
        let (run_id, tool_name) = caused_by(checkpoint);
        let is_file = |side: &Side| side.kind != Kind::Directory;
        entries.push(HistoryEntry {
            at: checkpoint.at.clone(),
            seq: *seq,
            time: *at,
            run_id,
            tool_name,
            kind: match (&before, &side) {
                (None, _) => ChangeKind::Added,
                (Some(_), None) => ChangeKind::Deleted,
                (Some(old), Some(new)) if is_same_kind(old.kind, new.kind) => ChangeKind::Modified,
                (Some(_), Some(_)) => ChangeKind::TypeChanged,
            },
            size: side.as_ref().filter(|side| is_file(side)).and_then(|side| repo.objects.blob_size(side.id).ok()),
        });
        before = side;
    }
    entries
}

fn is_same_kind(old: Kind, new: Kind) -> bool {
    matches!((old, new), (Kind::File { .. }, Kind::File { .. })) || old == new
}

/// An entry of a commit and its permissions.
pub(crate) fn find(repo: &Repo, commit: &Commit, path: &[u8]) -> Result<Option<(Entry, u32)>, RepoError> {
    let (mut tree, mut side) = (commit.tree, commit.meta);
    let mut parts = path.split(|byte| *byte == b'/').peekable();
    while let Some(part) = parts.next() {
        let Some(entry) = repo.objects.read_tree(tree)?.into_iter().find(|entry| entry.name == part) else {
            return Ok(None);
        };
        let level = meta::read(repo, side)?;
        if parts.peek().is_none() {
            let mode = level.modes.of_file(part, entry.kind == Kind::File { executable: true });
            return Ok(Some((entry, mode)));
        }
        if entry.kind != Kind::Directory {
            return Ok(None);
        }
        (tree, side) = (entry.id, level.below.get(part).copied());
    }
    Ok(None)
}

/// The run and its tool, if a tool call was the cause. Some tools run no command.
fn caused_by(checkpoint: &Checkpoint) -> (Option<RunId>, Option<String>) {
    match &checkpoint.cause {
        Cause::Tool { run_id, tool_name } => (Some(run_id.clone()), Some(tool_name.clone())),
        _ => (None, checkpoint.tool_name.clone()),
    }
}
