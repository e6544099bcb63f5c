//! Prints checkpoints: a table, one with its files, and the history of a path.

use crate::commands::files::{print_changes, print_left};
use crate::terminal::{self, Cell, Colour, Column};
use shellkeep_protocol::{Checkpoint, CheckpointCause, CheckpointDetail, HistoryEntry};
use shellkeep_session::plan::shorten;
use shellkeep_terminal::words;

/// Checkpoints, one per row. `current` is the one that matches the files.
pub fn table(checkpoints: Vec<Checkpoint>, current: Option<&str>) {
    let rows = checkpoints.into_iter().map(|checkpoint| {
        let here = current == Some(checkpoint.checkpoint_id.as_str());
        let command = checkpoint.command.as_deref().map(shorten).unwrap_or_default();
        let [added, changed, deleted] = [checkpoint.added, checkpoint.changed, checkpoint.deleted];
        let (by, mut remark) = (by(&checkpoint), remark(&checkpoint));
        if here {
            remark = format!("<- you are here {remark}").trim_end().to_owned();
        }
        [
            checkpoint.seq.to_string().into(),
            Cell::time(&checkpoint.created_at),
            checkpoint.checkpoint_id.into(),
            by.into(),
            Cell::coloured(format!("+{added} ~{changed} -{deleted}"), None),
            Cell::size(checkpoint.bytes),
            Cell::coloured(remark, Some(Colour::Yellow)),
            Cell::from(command),
        ]
    });
    let columns = [
        Column::number("seq").if_room(),
        Column::word("time"),
        Column::id("checkpoint").if_room(),
        Column::word("by"),
        Column::word("files"),
        Column::number("size").if_room(),
        Column::word(""),
        Column::text("command"),
    ];
    terminal::table(columns, rows.collect());
}

/// One checkpoint and what it changed.
pub fn detail(detail: &CheckpointDetail) {
    let CheckpointDetail { checkpoint, files } = detail;
    terminal::line(format!("{} {}", terminal::coloured(&checkpoint.checkpoint_id, Colour::Yellow), remark(checkpoint)));
    terminal::line(format!("commit {}", checkpoint.commit));
    terminal::line(format!("record {}, covers up to record {}", checkpoint.seq, checkpoint.covers));
    terminal::line(format!("taken {} for {}", checkpoint.created_at, by(checkpoint)));
    if let Some(command) = &checkpoint.command {
        terminal::line(format!("command: {}", terminal::harmless(command)));
    }
    terminal::line(format!(
        "files: {} added, {} changed, {} deleted; {} on disk",
        checkpoint.added,
        checkpoint.changed,
        checkpoint.deleted,
        words::bytes(checkpoint.bytes)
    ));
    print_changes(files, files.len() as u64);
    what_is_missing(checkpoint);
}

/// What a checkpoint does not contain.
pub fn what_is_missing(checkpoint: &Checkpoint) {
    print_left("not kept", &checkpoint.left_out, checkpoint.left_out_total);
}

/// When a path changed, one change per row.
pub fn history(changes: Vec<HistoryEntry>) {
    let rows = changes.into_iter().map(|entry| {
        let size = entry.size.map_or_else(|| "-".to_owned(), size);
        let (run, tool) = (entry.run_id.unwrap_or_else(dash), entry.tool_name.unwrap_or_else(dash));
        [entry.seq.to_string(), time(&entry.timestamp), entry.kind.to_string(), size, run, tool, entry.checkpoint_id]
    });
    terminal::table(["seq", "time", "change", "size", "run", "tool", "checkpoint"], rows.collect());
}

fn by(checkpoint: &Checkpoint) -> String {
    match (checkpoint.cause, &checkpoint.tool_name, &checkpoint.run_id) {
        (CheckpointCause::Tool, Some(tool), Some(run)) => format!("{tool} {run}"),
        (CheckpointCause::Tool, Some(tool), None) => tool.clone(),
        (cause, ..) => cause.to_string(),
    }
}

fn remark(checkpoint: &Checkpoint) -> String {
    let mut words = Vec::new();
    if !checkpoint.kept {
        words.push("pruned".to_owned());
    }
    if checkpoint.left_out_total > 0 {
        words.push(format!("{} not kept", checkpoint.left_out_total));
    }
    if checkpoint.overtaken {
        words.push("overtaken".to_owned());
    }
    words.join(", ")
}

/// To the second for a person, in full for a program.
fn time(at: &str) -> String {
    let short = at.get(..19).filter(|_| terminal::is_terminal());
    short.map_or_else(|| at.to_owned(), |short| short.replace('T', " "))
}

/// In units for a person, in bytes for a program.
fn size(bytes: u64) -> String {
    if terminal::is_terminal() { words::bytes(bytes) } else { bytes.to_string() }
}

fn dash() -> String {
    "-".to_owned()
}
