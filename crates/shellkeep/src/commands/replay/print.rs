//! Prints events as lines, for programs and for people.

use super::source::Events;
use crate::failure::Failure;
use crate::terminal::{self, Colour};
use serde::Serialize;
use shellkeep_record::player::{Figure, Player, Summary, Totals, span};
use shellkeep_record::runs::{FileCounts, with_files};
use shellkeep_terminal::words;
use std::io::{self, BufWriter, IsTerminal as _, Write};
use std::process::ExitCode;

/// Columns before the text of an event: number, time and type.
const MARGIN: usize = 36;
/// Minimum number of columns for the text of an event.
const NARROWEST: usize = 12;

/// Which events are printed, and for whom.
#[derive(Debug, Clone, Copy)]
pub struct Style {
    /// Only the key ones.
    pub fast: bool,
    pub json: bool,
}

/// Prints events; for a person, with totals at the end.
pub fn print(player: &mut Player<Events>, Style { fast, json }: Style) -> Result<ExitCode, Failure> {
    let mut out = BufWriter::new(io::stdout().lock());
    let mut totals = Totals::default();
    let written = if fast {
        each(with_files(player.rest()), |(line, files)| {
            let mut summary = Summary::of(&line);
            summary.files = files.as_ref().map(FileCounts::of);
            std::iter::once(&line).chain(&files).for_each(|line| totals.add(line));
            key(&mut out, &summary, json)
        })
    } else {
        each(player.rest(), |line| {
            totals.add(&line);
            if json { object(&mut out, &line) } else { row(&mut out, &Summary::of(&line)) }
        })
    };
    let written = written.and_then(|()| sum(&mut out, &totals, json).map_err(Stop::Unread));
    match written.and_then(|()| out.flush().map_err(Stop::Unread)) {
        Ok(()) => Ok(ExitCode::SUCCESS),
        // A closed pipe is not an error.
        Err(Stop::Unread(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
        Err(Stop::Unread(error)) => Err(Failure::client(error)),
        Err(Stop::Source(words)) => Err(Failure::client(words)),
    }
}

/// Prints an event if it is a key event.
fn key(out: &mut impl Write, summary: &Summary, json: bool) -> io::Result<()> {
    match (summary.is_key(), json) {
        (false, _) => Ok(()),
        (true, true) => object(out, summary),
        (true, false) => row(out, summary),
    }
}

/// The totals, in one line for a person.
fn sum(out: &mut impl Write, totals: &Totals, json: bool) -> io::Result<()> {
    let figures: Vec<String> = totals.figures().iter().map(Figure::to_string).collect();
    if json || figures.is_empty() || !io::stdout().is_terminal() {
        return Ok(());
    }
    let width = terminal::width().unwrap_or(usize::MAX);
    let mut line = String::new();
    writeln!(out)?;
    for (place, figure) in figures.iter().enumerate() {
        let comma = if place + 1 < figures.len() { "," } else { "" };
        // A line breaks between two figures, not within one.
        if !line.is_empty() && words::width(&line) + 1 + words::width(figure) + comma.len() > width {
            writeln!(out, "{line}")?;
            line.clear();
        }
        let gap = if line.is_empty() { "" } else { " " };
        line += &format!("{gap}{figure}{comma}");
    }
    writeln!(out, "{line}")
}

enum Stop {
    Unread(io::Error),
    Source(String),
}

fn each<T>(
    items: impl Iterator<Item = Result<T, String>>,
    mut write: impl FnMut(T) -> io::Result<()>,
) -> Result<(), Stop> {
    for item in items {
        write(item.map_err(Stop::Source)?).map_err(Stop::Unread)?;
    }
    Ok(())
}

fn object(out: &mut impl Write, value: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *out, value)?;
    out.write_all(b"\n")
}

/// One event per line: columns for a person, tabs for a program.
pub fn row(out: &mut impl Write, summary: &Summary) -> io::Result<()> {
    let Summary { seq, event_type, timestamp, text, .. } = summary;
    let mut how = summary.outcome.clone().unwrap_or_default();
    if let Some(seconds) = summary.seconds {
        let gap = if how.is_empty() { "" } else { ", " };
        how += &format!("{gap}{}", span(seconds));
    }
    if let Some(files) = summary.files {
        let gap = if how.is_empty() { "" } else { ", " };
        how += &format!("{gap}{files}");
    }
    if !io::stdout().is_terminal() {
        return writeln!(out, "{seq}\t{timestamp}\t{event_type}\t{text}\t{how}");
    }
    let time = timestamp.strftime("%H:%M:%S");
    // One line per event: the text is shortened, the outcome is not.
    let before = format!("{seq:>5}  {time}  {event_type:<18} ");
    let taken = words::width(&before) + words::width(&how) + 2;
    let text = match terminal::width() {
        Some(width) => words::cut(text, width.saturating_sub(taken).max(NARROWEST)),
        None => text.clone(),
    };
    let how = match (how.is_empty(), summary.failed) {
        (true, _) => String::new(),
        (false, true) => terminal::coloured(&format!("  {how}"), Colour::Red),
        (false, false) => terminal::coloured(&format!("  {how}"), Colour::Green),
    };
    let kind = terminal::coloured(&format!("{event_type:<18}"), Colour::Yellow);
    writeln!(out, "{seq:>5}  {time}  {kind} {text}{how}")?;
    for notice in &summary.notices {
        let room = terminal::width().map_or(usize::MAX, |width| width.saturating_sub(MARGIN).max(NARROWEST));
        writeln!(out, "{:>mark$} {}", "⚠", words::cut(notice, room), mark = MARGIN - 1)?;
    }
    Ok(())
}
