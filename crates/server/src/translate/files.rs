//! Checkpoints, differences, rewind, fork: between the wire and the runtime's vocabulary.

use super::check::decode;
use super::session::{named, session};
use crate::refusal::Refusal;
use shellkeep_protocol as wire;
use shellkeep_protocol::text;
use shellkeep_runtime::{
    ChangeKind, ChangedBy, CheckpointPage, CheckpointUse, CheckpointView, DEFAULT_CHECKPOINT_PAGE, DEFAULT_PATCH_BYTES,
    DiffView, FileChange, Fork, Forked, HistoryEntry, MAX_CHECKPOINT_PAGE, MAX_PATCH_BYTES, MergeBack, Merged, Moment,
    Rewind, Rewound, ServicesAfter, Side,
};
use shellkeep_session::{ByteString, Cause, FilesAt, LeftOut, Timestamp, typed_time};

/// The longest name of a moment; a checkpoint's own is shorter.
const MAX_MOMENT: usize = 255;

/// The name of the present, which is not a moment of the past.
const NOW: &str = "now";

/// A moment by its number or its name.
pub fn place(name: &str, place: &wire::Place) -> Result<Moment, Refusal> {
    match place {
        wire::Place::Seq(seq) => Ok(Moment::Seq(*seq)),
        wire::Place::Name(text) => moment(name, text),
    }
}

/// A moment by its number or its name, or `None` for the present.
pub fn place_or_now(name: &str, given: &wire::Place) -> Result<Option<Moment>, Refusal> {
    match given {
        wire::Place::Name(text) if text == NOW => Ok(None),
        other => place(name, other).map(Some),
    }
}

/// A moment by its name; see [`Moment::parse`].
pub fn moment(name: &str, text: &str) -> Result<Moment, Refusal> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    if text == NOW {
        let detail = format!("{name}: 'now' is not a moment of the past; use a run id (r12), -1, a time or latest");
        return Err(Refusal::invalid(detail));
    }
    if text.len() <= MAX_MOMENT {
        match Moment::parse(text) {
            Moment::Checkpoint(_) => {}
            moment => return Ok(moment),
        }
        if let Some(time) = typed_time::parse(text, Timestamp::now()) {
            return Ok(Moment::Time(time));
        }
    }
    if text.is_empty() || text.len() > MAX_MOMENT || !text.bytes().all(is_plain) {
        return Err(Refusal::invalid(format!(
            "{name}: '{}' is not a moment; use a run id (r12), the number of a record, -1 (before the last run that changed \
             something), a checkpoint's id, a commit or its beginning, latest, or a time: {}",
            text.escape_debug(),
            typed_time::EXAMPLES,
        )));
    }
    Ok(Moment::parse(text))
}

/// A moment by its name, or `None` for the present.
pub fn moment_or_now(name: &str, text: &str) -> Result<Option<Moment>, Refusal> {
    if text == NOW { Ok(None) } else { moment(name, text).map(Some) }
}

/// The number of checkpoints per page.
pub fn checkpoint_limit(limit: Option<usize>) -> Result<usize, Refusal> {
    match limit.unwrap_or(DEFAULT_CHECKPOINT_PAGE) {
        limit @ 1..=MAX_CHECKPOINT_PAGE => Ok(limit),
        limit => Err(Refusal::invalid(format!("limit: {limit} is not between 1 and {MAX_CHECKPOINT_PAGE}"))),
    }
}

/// The number of bytes of a patch; `None` without one.
pub fn patch_bytes(
    wanted: Option<wire::Switch>,
    max_bytes: Option<usize>,
    raw: bool,
) -> Result<Option<usize>, Refusal> {
    let default = if raw { MAX_PATCH_BYTES } else { DEFAULT_PATCH_BYTES };
    match max_bytes.unwrap_or(default) {
        bytes if bytes > MAX_PATCH_BYTES => Err(Refusal::invalid(format!(
            "max_bytes: {bytes} is more than {MAX_PATCH_BYTES}; select fewer files with \
                path"
        ))),
        bytes => Ok((raw || wanted.is_none_or(|wire::Switch(on)| on)).then_some(bytes)),
    }
}

/// A path of a query, as it was given.
pub fn path(text: Option<String>, base64: Option<String>) -> Result<Option<ByteString>, Refusal> {
    match (text, base64) {
        (Some(_), Some(_)) => Err(Refusal::invalid("pass path or path_base64, not both")),
        (Some(text), None) if text.contains('\0') => Err(Refusal::invalid("path: a path cannot contain the NUL byte")),
        (Some(text), None) => Ok(Some(text.into())),
        (None, Some(base64)) => {
            let bytes = decode("path_base64", &base64)?;
            if bytes.contains(&0) {
                return Err(Refusal::invalid("path_base64: a path cannot contain the NUL byte"));
            }
            Ok(Some(bytes.into()))
        }
        (None, None) => Ok(None),
    }
}

/// A request to rewind.
pub fn rewind(request: &wire::RewindRequest) -> Result<Rewind, Refusal> {
    Ok(Rewind {
        to: place("to", &request.to)?,
        dry_run: request.dry_run.unwrap_or(false),
        services: match request.services.unwrap_or_default() {
            wire::ServicesChoice::Leave => ServicesAfter::Leave,
            wire::ServicesChoice::Stop => ServicesAfter::Stop,
        },
        force: request.force.unwrap_or(false),
        hang_up: None,
    })
}

/// A request to fork.
pub fn fork(request: wire::ForkRequest) -> Result<Fork, Refusal> {
    let wire::ForkRequest { at, session_id, user_id, share_files } = request;
    let session_id = named(user_id.as_deref(), session_id)?;
    let user_id = user_id.filter(|_| session_id.is_some());
    // Without a moment, a fork starts from now.
    let at = at.map(|at| place_or_now("at", &at)).transpose()?.flatten();
    Ok(Fork { at, session_id, user_id, share_files: share_files.unwrap_or(false) })
}

/// A fork, for the caller.
pub fn forked(forked: Forked) -> wire::ForkResponse {
    let notices = forked.notices.into_iter().map(Into::into).collect();
    wire::ForkResponse { session: session(forked.session), notices }
}

/// A request to merge a fork back.
pub fn merge_back(request: wire::MergeBackRequest) -> MergeBack {
    MergeBack {
        dry_run: request.dry_run.unwrap_or(false),
        prefer: request.prefer.map(|side| match side {
            wire::Side::Fork => Side::Fork,
            wire::Side::Origin => Side::Origin,
        }),
    }
}

/// A checkpoint, for the caller.
pub fn checkpoint(view: CheckpointView) -> wire::Checkpoint {
    let CheckpointView { checkpoint, seq, at, kept, command } = view;
    let (cause, run_id, tool_name) = match checkpoint.cause {
        Cause::Tool { run_id, tool_name } => (wire::CheckpointCause::Tool, Some(run_id.into()), Some(tool_name)),
        Cause::Base => (wire::CheckpointCause::Base, None, None),
        Cause::Rewind => (wire::CheckpointCause::Rewind, None, None),
        Cause::Fork => (wire::CheckpointCause::Fork, None, None),
        Cause::Merge => (wire::CheckpointCause::Merge, None, None),
        Cause::Manual if checkpoint.tool_name.is_some() => (wire::CheckpointCause::Tool, None, checkpoint.tool_name),
        Cause::Manual => (wire::CheckpointCause::Manual, None, None),
        Cause::Outside => (wire::CheckpointCause::Outside, None, None),
    };
    wire::Checkpoint {
        checkpoint_id: checkpoint.at.name,
        commit: checkpoint.at.commit,
        seq,
        covers: checkpoint.covers,
        created_at: at.to_string(),
        cause,
        tool_name,
        run_id,
        command: command.map(|command| command.to_text().into_owned()),
        added: checkpoint.added,
        changed: checkpoint.changed,
        deleted: checkpoint.deleted,
        bytes: checkpoint.bytes,
        kept,
        overtaken: checkpoint.overtaken,
        left_out: checkpoint.left_out.into_iter().map(left_out).collect(),
        left_out_total: checkpoint.left_out_total,
        uncertain: checkpoint.uncertain.into_iter().map(left_out).collect(),
        uncertain_total: checkpoint.uncertain_total,
    }
}

/// A page of checkpoints, for the caller.
pub fn checkpoint_list(page: CheckpointPage) -> wire::CheckpointList {
    let checkpoints = page.checkpoints.into_iter().map(checkpoint).collect();
    wire::CheckpointList { checkpoints, next: page.next, current: page.current.map(|current| current.name) }
}

/// A difference, for the caller.
pub fn diff(view: DiffView) -> wire::DiffResponse {
    let (patch, patch_base64) = match view.patch.map(text::encode) {
        Some((patch, base64)) => (Some(patch), base64),
        None => (None, None),
    };
    wire::DiffResponse {
        from: view.from.map(checkpoint_name),
        to: view.to.map(checkpoint_name),
        files: view.files.into_iter().map(file_change).collect(),
        patch,
        patch_base64,
        truncated: view.truncated,
    }
}

/// Files that changed, for the caller.
pub fn file_changes(changes: Vec<FileChange>) -> Vec<wire::FileChange> {
    changes.into_iter().map(file_change).collect()
}

/// When a path changed, for the caller.
pub fn file_history(entries: Vec<HistoryEntry>) -> wire::FileHistory {
    let entry = |entry: HistoryEntry| wire::HistoryEntry {
        checkpoint_id: entry.at.name,
        commit: entry.at.commit,
        seq: entry.seq,
        timestamp: entry.time.to_string(),
        run_id: entry.run_id.map(Into::into),
        tool_name: entry.tool_name,
        kind: change_kind(entry.kind),
        size: entry.size,
    };
    wire::FileHistory { changes: entries.into_iter().map(entry).collect() }
}

/// What a rewind did, for the caller.
pub fn rewound(rewound: Rewound, dry_run: bool) -> wire::RewindResponse {
    let (undone, undone_kind) = match rewound.undone {
        None => (None, None),
        Some(ChangedBy::Run(run_id)) => (Some(run_id.into()), Some(wire::UndoneKind::Run)),
        Some(ChangedBy::File) => (None, Some(wire::UndoneKind::File)),
        Some(ChangedBy::Kv) => (None, Some(wire::UndoneKind::Kv)),
        Some(ChangedBy::Merge) => (None, Some(wire::UndoneKind::Merge)),
        Some(ChangedBy::Rewind) => (None, Some(wire::UndoneKind::Rewind)),
    };
    wire::RewindResponse {
        to: rewound.to,
        after_run: rewound.after_run.map(Into::into),
        seq: rewound.seq,
        undo: rewound.undo,
        undone,
        undone_kind,
        dry_run,
        files: file_changes(rewound.files),
        files_total: rewound.files_total,
        kept_back: rewound.kept_back.into_iter().map(left_out).collect(),
        uncertain: rewound.uncertain.into_iter().map(left_out).collect(),
        uncertain_total: rewound.uncertain_total,
        of_others: rewound.of_others.into_iter().map(left_out).collect(),
        shell: rewound.shell.into(),
        cwd: rewound.cwd.to_text().into_owned(),
        agent_state_version: rewound.agent_state,
        kv_version: rewound.kv_version,
        services_stopped: rewound.services_stopped.into_iter().map(Into::into).collect(),
        notices: rewound.notices.into_iter().map(Into::into).collect(),
    }
}

/// What a merge did, for the caller.
pub fn merged(merged: Merged, dry_run: bool) -> wire::MergeBackResponse {
    wire::MergeBackResponse {
        into: merged.into.into(),
        seq: merged.seq,
        undo: merged.undo,
        dry_run,
        files: file_changes(merged.files),
        files_total: merged.files_total,
        conflicts: merged.conflicts.into_iter().map(left_out).collect(),
        notices: merged.notices.into_iter().map(Into::into).collect(),
    }
}

/// What checkpoints use now that old ones were pruned, for the caller.
pub fn checkpoints_thinned(usage: CheckpointUse) -> wire::CheckpointUsage {
    wire::CheckpointUsage { reclaimed: Some(usage.reclaimed), ..checkpoint_usage(usage) }
}

/// What checkpoints use, for the caller.
pub fn checkpoint_usage(usage: CheckpointUse) -> wire::CheckpointUsage {
    wire::CheckpointUsage {
        session_id: usage.session_id.into(),
        checkpoints: usage.checkpoints,
        bytes: usage.bytes,
        limit: usage.limit,
        reclaimed: None,
    }
}

fn checkpoint_name(at: FilesAt) -> wire::CheckpointName {
    wire::CheckpointName { checkpoint_id: at.name, commit: at.commit }
}

fn file_change(change: FileChange) -> wire::FileChange {
    let (path, path_base64) = text::encode(change.path.0);
    let (renamed_from, renamed_from_base64) = match change.renamed_from.map(|path| text::encode(path.0)) {
        Some((path, base64)) => (Some(path), base64),
        None => (None, None),
    };
    wire::FileChange {
        path,
        path_base64,
        kind: change_kind(change.kind),
        renamed_from,
        renamed_from_base64,
        insertions: change.insertions,
        deletions: change.deletions,
        binary: change.binary,
    }
}

fn left_out(left_out: LeftOut) -> wire::LeftOut {
    let (path, path_base64) = text::encode(left_out.path.0);
    wire::LeftOut { path, path_base64, reason: left_out.reason }
}

fn change_kind(kind: ChangeKind) -> wire::ChangeKind {
    match kind {
        ChangeKind::Added => wire::ChangeKind::Added,
        ChangeKind::Modified => wire::ChangeKind::Modified,
        ChangeKind::Deleted => wire::ChangeKind::Deleted,
        ChangeKind::Renamed => wire::ChangeKind::Renamed,
        ChangeKind::TypeChanged => wire::ChangeKind::TypeChanged,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shellkeep_session::RunId;

    #[test]
    fn a_moment_is_a_number_a_name_or_a_word() {
        let seq = |text: &str| matches!(moment("to", text), Ok(Moment::Seq(_)));
        let name = |text: &str| matches!(moment("to", text), Ok(Moment::Checkpoint(_)));
        assert!(seq("0") && seq("12"));
        // A full commit that consists only of digits is larger than any record number.
        assert!(name("1234567890123456789012345678901234567890") && name("12ab") && name("manual_20261115T1.5Z-2"));
        let is = |text: &str, wanted: Moment| moment("to", text).unwrap() == wanted;
        assert!(is("r12", Moment::Run(RunId::from_seq(12))) && is("-2", Moment::Back(2)));
        assert!(is("2026-11-16T08:00:00+01:00", Moment::Time("2026-11-16T07:00:00Z".parse().unwrap())));
        assert!(name("r") && name("r1x") && name("-") && name("12-3"));
        let time = |text: &str| matches!(moment("to", text), Ok(Moment::Time(_)));
        assert!(time("16:36") && time("2h ago") && time("yesterday") && time("2026-11-16 16:36") && time("10m"));
        assert!(name("latest") && moment_or_now("to", "now").unwrap().is_none());
        for wrong in ["", "now", "a b", "../x", "a\u{e9}", "x/y", "25:99", "16:36 pm", &"a".repeat(256)] {
            assert_eq!(moment("to", wrong).unwrap_err().problem().code, "invalid_request", "{wrong}");
        }
        assert!(moment("to", "16.36 h").unwrap_err().problem().detail.contains("16:36"));
    }

    #[test]
    fn a_path_of_any_bytes_comes_in_and_goes_out() {
        let given = path(None, Some("YS//".to_owned())).unwrap().unwrap();
        assert_eq!(given.as_bytes(), b"a/\xff");
        let change = FileChange {
            path: given,
            kind: ChangeKind::Added,
            renamed_from: None,
            insertions: None,
            deletions: None,
            binary: false,
        };
        assert_eq!(file_change(change).path_base64.as_deref(), Some("YS//"));
        assert!(path(Some("a".to_owned()), Some("YQ==".to_owned())).is_err());
        for (text, base64) in [(Some("a\0"), None), (None, Some("AA=="))] {
            let refused = path(text.map(str::to_owned), base64.map(str::to_owned)).unwrap_err();
            assert!(refused.problem().detail.ends_with("a path cannot contain the NUL byte"), "{}", refused.problem());
        }
    }

    #[test]
    fn a_patch_is_bounded() {
        assert_eq!(patch_bytes(None, None, false).unwrap(), Some(DEFAULT_PATCH_BYTES));
        assert_eq!(patch_bytes(Some(wire::Switch(false)), None, false).unwrap(), None);
        assert_eq!(patch_bytes(Some(wire::Switch(false)), None, true).unwrap(), Some(MAX_PATCH_BYTES));
        assert!(patch_bytes(None, Some(MAX_PATCH_BYTES + 1), false).is_err());
    }
}
