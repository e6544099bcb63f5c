//! Prints checkpoints: a table, one with its files, and the history of a path.

use crate::commands::files::{print_changes, print_left};
use crate::commands::runs::show::LONGEST_COMMAND;
use crate::terminal::{self, Cell, Colour, Column, Table, TableArgs};
use shellkeep_protocol::{Checkpoint, CheckpointCause, CheckpointDetail, HistoryEntry};
use shellkeep_session::plan::first_line;
use shellkeep_terminal::words;

/// Letters of a command that tell which one it is.
const ENOUGH: usize = 40;
/// The tool of commands.
const RUN_COMMAND: &str = "run_command";

/// Checkpoints, one per row. `current` is the one that matches the files.
pub fn table(checkpoints: Vec<Checkpoint>, current: Option<&str>) {
    let rows = checkpoints.into_iter().map(|checkpoint| {
        let here = current == Some(checkpoint.checkpoint_id.as_str());
        let command = checkpoint.command.as_deref().unwrap_or_default();
        let command = first_line(command, LONGEST_COMMAND);
        let (by, files, mut remark) = (by(&checkpoint), counts(&checkpoint), remark(&checkpoint));
        if here {
            remark = format!("<- here {remark}").trim_end().to_owned();
        }
        [
            checkpoint.seq.to_string().into(),
            Cell::time(&checkpoint.created_at),
            checkpoint.checkpoint_id.into(),
            by.into(),
            files,
            Cell::size(checkpoint.bytes),
            Cell::coloured(remark, Some(Colour::Yellow)),
            Cell::from(command),
        ]
    });
    let columns = [
        Column::number("seq").if_room(),
        Column::word("time"),
        Column::word("checkpoint").if_room(),
        Column::word("by"),
        Column::word("files"),
        Column::number("size").if_room(),
        Column::word(""),
        Column::text("command").at_least(ENOUGH),
    ];
    terminal::table(columns, rows.collect());
}

/// One checkpoint and what it changed.
pub fn detail(detail: &CheckpointDetail) {
    let CheckpointDetail { checkpoint, files } = detail;
    let name = terminal::coloured(&checkpoint.checkpoint_id, Colour::Yellow);
    terminal::line(format!("{name} {}", remark(checkpoint)).trim_end());
    terminal::line(format!("commit {}", checkpoint.commit));
    terminal::line(format!("record {}, covers up to record {}", checkpoint.seq, checkpoint.covers));
    terminal::line(format!("taken {} for {}", terminal::moment(&checkpoint.created_at), by(checkpoint)));
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
        [
            entry.seq.to_string().into(),
            Cell::time(&entry.timestamp),
            entry.kind.to_string().into(),
            entry.size.map_or_else(Cell::dash, Cell::size),
            Cell::or_dash(entry.run_id),
            Cell::or_dash(entry.tool_name),
            entry.checkpoint_id.into(),
        ]
    });
    let columns = [
        Column::number("seq").if_room(),
        Column::word("time"),
        Column::word("change"),
        Column::number("size"),
        Column::word("run"),
        Column::text("tool").if_room(),
        Column::word("checkpoint").if_room(),
    ];
    terminal::show(&Table::new(columns, rows.collect()), TableArgs::default(), "it never changed in a checkpoint");
}

/// How many files were added, changed and deleted: all three for a program, those that are not zero for a person.
fn counts(checkpoint: &Checkpoint) -> Cell {
    let counts = [("+", checkpoint.added), ("~", checkpoint.changed), ("-", checkpoint.deleted)];
    let written = |is_all: bool| {
        let shown = counts.iter().filter(|(_, count)| is_all || *count > 0);
        shown.map(|(sign, count)| format!("{sign}{count}")).collect::<Vec<_>>().join(" ")
    };
    Cell::short(written(true), written(false))
}

/// What it was taken for. A run's number is enough: its command is in the same row.
fn by(checkpoint: &Checkpoint) -> String {
    match (checkpoint.cause, &checkpoint.tool_name, &checkpoint.run_id) {
        (CheckpointCause::Tool, Some(tool), Some(run)) if tool == RUN_COMMAND => run.clone(),
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
