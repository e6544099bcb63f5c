//! Prints runs for people.

use crate::commands::files::shown_path;
use crate::terminal::{self, Cell, Colour, Column, Table, TableArgs};
use shellkeep_protocol::{RunDetail, RunList, RunResponse, RunStatus, RunSummary};
use shellkeep_session::plan::first_line;
use shellkeep_terminal::words;

/// Letters of a command in a table; a narrow terminal shows fewer.
pub const LONGEST_COMMAND: usize = 200;

/// The runs of a session, one per row, newest first.
pub fn table(list: RunList) {
    let columns = [
        Column::word("run"),
        Column::word("started"),
        Column::number("took"),
        Column::word("result"),
        Column::text("command"),
    ];
    terminal::table(columns, list.runs.iter().map(cells).collect());
    if let Some(next) = list.next.filter(|_| terminal::is_terminal()) {
        terminal::notice(&format!("there are older ones: --before {next}, or --limit N"));
    }
}

/// The runs of all sessions, one per row, newest first.
pub fn table_of_all(list: RunList) {
    let columns = [
        Column::id("session"),
        Column::word("run"),
        Column::word("started"),
        Column::number("took"),
        Column::word("result"),
        Column::text("command"),
    ];
    let rows = list.runs.iter().map(|run| {
        let [id, started, took, result, command] = cells(run);
        [run.session_id.clone().into(), id, started, took, result, command]
    });
    let table = Table::new(columns, rows.collect());
    terminal::show(&table, TableArgs::default(), "no runs");
    if list.next.is_some() && terminal::is_terminal() {
        terminal::notice("there are older ones: --limit N");
    }
}

fn cells(run: &RunSummary) -> [Cell; 5] {
    [
        run.run_id.clone().into(),
        Cell::time(&run.started_at),
        took(run.duration_ms).into(),
        result(run),
        Cell::from(one_line(run)),
    ]
}

/// One run.
pub fn detail(detail: &RunDetail) {
    let RunDetail { run, command, started_at } = detail;
    let status = how_it_ended(run.status, run.exit_code, run.signal.as_deref());
    terminal::line(format!("{} {status}", terminal::coloured(&run.run_id, Colour::Yellow)));
    let took_or_runs = if run.status == RunStatus::Running { "running for" } else { "took" };
    terminal::line(format!("started {}, {took_or_runs} {}", terminal::moment(started_at), took(run.duration_ms)));
    terminal::line(format!(
        "wrote {} to stdout, {} to stderr",
        words::bytes(run.stdout_bytes),
        words::bytes(run.stderr_bytes)
    ));
    if run.status != RunStatus::Running {
        terminal::line(format!("record {}, in {}", run.seq, shown_path(&run.cwd)));
    }
    if let Some(by) = &run.by {
        terminal::line(format!("requested by token {by}"));
    }
    terminal::line("command:");
    terminal::harmless(command).lines().for_each(|line| terminal::line(format!("  {line}")));
    run.notices.iter().for_each(|notice| terminal::notice(&notice.message));
}

/// A run's status, as a sentence for stderr.
pub fn sentence(run: &RunResponse) -> String {
    format!("{} {}", run.run_id, how_it_ended(run.status, run.exit_code, run.signal.as_deref()))
}

/// How a run ended.
pub fn how_it_ended(status: RunStatus, exit_code: Option<i32>, signal: Option<&str>) -> String {
    let code = exit_code.map_or_else(|| "no exit code".to_owned(), |code| format!("exit code {code}"));
    match (status, signal) {
        (RunStatus::Running, _) => "is running".to_owned(),
        (RunStatus::Exited, _) => format!("ended with {code}"),
        (RunStatus::TimedOut, _) => format!("was killed at its timeout ({code})"),
        (RunStatus::Interrupted, Some(signal)) => format!("was interrupted by {signal} ({code})"),
        (RunStatus::Interrupted, None) => format!("was interrupted ({code})"),
        (RunStatus::Lost, _) => "was lost: the daemon stopped while it ran, so its outcome is unknown".to_owned(),
    }
}

/// How a run ended, in a word: an exit code, or what else happened.
pub fn result(run: &RunSummary) -> Cell {
    let red = |word: &str| Cell::coloured(word, Some(Colour::Red));
    match (run.status, run.exit_code) {
        (RunStatus::Running, _) if run.background => Cell::coloured("background", Some(Colour::Yellow)),
        (RunStatus::Running, _) => Cell::coloured("running", Some(Colour::Green)),
        (RunStatus::Exited, Some(0)) => Cell::new("0"),
        (RunStatus::Exited, Some(code)) => red(&code.to_string()),
        (RunStatus::Exited, None) => red("?"),
        (RunStatus::TimedOut, _) => red("timed out"),
        (RunStatus::Interrupted, _) => red(run.signal.as_deref().unwrap_or("interrupted")),
        (RunStatus::Lost, _) => red("lost"),
    }
}

/// A command on one line.
pub fn one_line(run: &RunSummary) -> String {
    let text = first_line(&run.command, LONGEST_COMMAND);
    if run.command_bytes > run.command.len() && text.len() == run.command.len() { format!("{text}…") } else { text }
}

/// How long it took: exact while that is short.
pub fn took(milliseconds: f64) -> String {
    match milliseconds {
        ms if ms < 1000.0 => format!("{ms:.0} ms"),
        ms if ms < 60_000.0 => format!("{:.1} s", ms / 1000.0),
        ms => words::span(ms / 1000.0),
    }
}
