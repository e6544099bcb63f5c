//! The table: rows, how a target is judged, and its two shapes, on the terminal and in `docs/bench.md`.

use crate::files;
use crate::machine::Facts;
use crate::scale::Point;
use crate::stats::{Spread, digits, time};
use std::fmt::Write;
use tempfile::TempDir;

/// What a figure should be.
#[derive(Debug, Clone, Copy)]
pub enum Target {
    /// Ours over floor, for times.
    RatioAtMost(f64),
    /// Ours over floor, for speeds.
    RatioAtLeast(f64),
    /// Ours alone, in the row's unit.
    Below(f64),
    /// Ours alone, in the row's unit.
    AtLeast(f64),
    /// Ours above floor, in seconds.
    AddsAtMost(f64),
}

/// One line of the table.
#[derive(Debug)]
pub struct Row {
    what: String,
    floor: String,
    ours: String,
    /// Ours over floor, or above it where the target says so; ours alone where there is no floor.
    value: f64,
    has_floor: bool,
    target: Option<Target>,
}

impl Row {
    /// Times beside times.
    pub fn latency(what: String, floor: Spread, ours: Spread, target: impl Into<Option<Target>>) -> Self {
        let shown = |spread: Spread| format!("{} (p99 {})", time(spread.p50), time(spread.p99));
        let value = ours.p50 / floor.p50;
        Self { what, floor: shown(floor), ours: shown(ours), value, has_floor: true, target: target.into() }
    }

    /// Times of which there are too few to speak of a tail.
    pub fn medians(what: String, floor: f64, ours: f64, target: impl Into<Option<Target>>) -> Self {
        let (value, target) = (ours / floor, target.into());
        Self { what, floor: time(floor), ours: time(ours), value, has_floor: true, target }
    }

    /// Times beside times, where what counts is by how many seconds ours are longer.
    pub fn added(what: String, floor: Spread, ours: Spread, most: f64) -> Self {
        let value = ours.p50 - floor.p50;
        Self { value, ..Self::latency(what, floor, ours, Target::AddsAtMost(most)) }
    }

    /// A time for itself.
    pub fn lone_time(what: String, seconds: f64) -> Self {
        Self { ours: time(seconds), ..Self::alone(what, "s", seconds) }
    }

    /// Amounts beside amounts.
    pub fn rate(what: String, unit: &str, floor: f64, ours: f64, target: impl Into<Option<Target>>) -> Self {
        let shown = |amount: f64| format!("{} {unit}", digits(amount));
        let value = ours / floor;
        Self { what, floor: shown(floor), ours: shown(ours), value, has_floor: true, target: target.into() }
    }

    /// An amount that must stay below a limit.
    pub fn limit(what: String, amount: f64, unit: &str, limit: f64) -> Self {
        Self { target: Some(Target::Below(limit)), ..Self::alone(what, unit, amount) }
    }

    /// An amount that must reach something.
    pub fn least(what: String, amount: f64, unit: &str, least: f64) -> Self {
        Self { target: Some(Target::AtLeast(least)), ..Self::alone(what, unit, amount) }
    }

    /// An amount for itself.
    pub fn alone(what: String, unit: &str, amount: f64) -> Self {
        let ours = format!("{} {unit}", digits(amount));
        Self { what, floor: "–".to_owned(), ours, value: amount, has_floor: false, target: None }
    }

    fn cells(&self) -> [String; 6] {
        let ratio = match self.target {
            Some(Target::AddsAtMost(_)) if self.value < 0.0 => time(self.value),
            Some(Target::AddsAtMost(_)) => format!("+{}", time(self.value)),
            _ if self.has_floor => format!("{}×", digits(self.value)),
            _ => "–".to_owned(),
        };
        let (target, met) = match self.target {
            None => ("–".to_owned(), "–"),
            Some(Target::RatioAtMost(most)) => (format!("≤ {most}×"), yes_or_no(self.value <= most)),
            Some(Target::RatioAtLeast(least)) => (format!("≥ {least}×"), yes_or_no(self.value >= least)),
            Some(Target::Below(limit)) => (format!("< {limit}"), yes_or_no(self.value < limit)),
            Some(Target::AtLeast(least)) => (format!("≥ {}", digits(least)), yes_or_no(self.value >= least)),
            Some(Target::AddsAtMost(most)) => (format!("≤ +{}", time(most)), yes_or_no(self.value <= most)),
        };
        [self.what.clone(), self.floor.clone(), self.ours.clone(), ratio, target, met.to_owned()]
    }
}

fn yes_or_no(met: bool) -> &'static str {
    if met { "yes" } else { "**no**" }
}

/// Whose bar it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The machine's.
    Floor,
    /// Ours.
    Ours,
    /// Somebody else's.
    Peer,
}

/// One bar of the plot.
#[derive(Debug)]
pub struct Bar {
    /// What it says on the left.
    pub label: String,
    pub kind: Kind,
    /// How long.
    pub seconds: f64,
}

/// Everything that was measured.
#[derive(Debug)]
pub struct Report {
    /// The plot.
    pub bars: Vec<Bar>,
    /// Our median for `true`, for the peers to be compared with.
    pub ours_by_library: Option<f64>,
    /// The same over HTTP.
    pub ours_by_http: Option<f64>,
    /// What was measured at each number of sessions.
    pub scale: Vec<Point>,
    /// What was measured at each size of a tree of files.
    pub files: Vec<files::Point>,
    /// Large trees of files, to be removed after the last figure: file systems are slow for a while after that.
    pub leftovers: Vec<TempDir>,
    /// The peers' table, each row as many cells as [`PEER_HEAD`].
    pub peers: Vec<[String; 6]>,
    facts: Facts,
    quick: bool,
    rows: Vec<Row>,
    notes: Vec<String>,
}

const HEAD: [&str; 6] = ["what", "floor", "ours", "ours / floor", "target", "met"];
const PEER_HEAD: [&str; 6] =
    ["tool", "`true`", "times ours by HTTP", "times ours by library", "1 MiB of output", "a new session"];

impl Report {
    /// An empty one.
    pub fn new(facts: Facts, quick: bool) -> Self {
        Self {
            bars: Vec::new(),
            ours_by_library: None,
            ours_by_http: None,
            scale: Vec::new(),
            files: Vec::new(),
            leftovers: Vec::new(),
            peers: Vec::new(),
            facts,
            quick,
            rows: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Adds a line.
    pub fn row(&mut self, row: Row) {
        eprintln!("  {}", row.cells().join(" | "));
        self.rows.push(row);
    }

    /// Adds a sentence below the table.
    pub fn note(&mut self, sentence: String) {
        self.notes.push(sentence);
    }

    /// A figure that could not be taken is said, not left out.
    pub fn not_measured(&mut self, figure: &str, reason: &str) {
        self.note(format!("Not measured: {figure} ({}).", reason.lines().next().unwrap_or_default()));
    }

    /// The tables with columns in line.
    pub fn terminal(&self) -> String {
        let plain = |cells: Vec<[String; 6]>| -> Vec<[String; 6]> {
            cells.into_iter().map(|row| row.map(|cell| cell.replace("**", "").replace('`', ""))).collect()
        };
        let mut text = format!("{}\n\n", self.machine());
        text += &aligned(&plain(self.table()));
        if !self.peers.is_empty() {
            text += "\n";
            text += &aligned(&plain(self.peer_table()));
        }
        for note in &self.notes {
            let _ = writeln!(text, "\n{}", note.replace('`', ""));
        }
        text
    }

    /// `docs/bench.md`.
    pub fn markdown(&self) -> String {
        let mut text = String::from(INTRODUCTION);
        if self.quick {
            text += "This is a short run (`--quick`): fewer rounds, fewer sessions.\n\n";
        }
        let _ = writeln!(text, "{}\n", self.machine());
        text += &piped(&self.table());
        text += "\n![Latency of `true`, logarithmic](bench.svg)\n";
        if !self.peers.is_empty() {
            let _ = write!(text, "\n{PEERS}\n{}", piped(&self.peer_table()));
        }
        if !self.notes.is_empty() {
            text += "\n## Notes\n\n";
            for note in &self.notes {
                let _ = writeln!(text, "- {note}");
            }
        }
        text
    }

    /// What the figures are from, in a line.
    pub fn machine(&self) -> String {
        let Facts { cores, processor, kernel, bash, date, load } = &self.facts;
        format!("{date} · {cores} cores ({processor}) · Linux {kernel} · bash {bash} · load before the start {load}")
    }

    fn table(&self) -> Vec<[String; 6]> {
        std::iter::once(HEAD.map(str::to_owned)).chain(self.rows.iter().map(Row::cells)).collect()
    }

    fn peer_table(&self) -> Vec<[String; 6]> {
        std::iter::once(PEER_HEAD.map(str::to_owned)).chain(self.peers.iter().cloned()).collect()
    }
}

fn piped(rows: &[[String; 6]]) -> String {
    let mut text = String::new();
    for (index, row) in rows.iter().enumerate() {
        // A bar within a cell would end it.
        let _ = writeln!(text, "| {} |", row.each_ref().map(|cell| cell.replace('|', "\\|")).join(" | "));
        if index == 0 {
            text += "|---|---|---|---|---|---|\n";
        }
    }
    text
}

fn aligned(rows: &[[String; 6]]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..HEAD.len()).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        let _ = writeln!(text, "{}", cells.join("  ").trim_end());
    }
    text
}

const INTRODUCTION: &str = "# Benchmark

Written by `make bench`; do not edit. Every figure is compared with a floor measured in the same run: floor and ours
took turns, and the median of the rounds is shown. Times are medians, with the 99th percentile in brackets. A
target that was missed is marked **no**.

The floors: a *raw eval loop* is `bash --norc --noprofile` that reads a line from a pipe, evaluates it, and writes `$?` to
another descriptor (no state, no limits, nothing stored); *waking* is a bare bash that is started, sources a file with
the same variables and functions, runs `true` and dumps its state to a file; *output* is `bash -c` piped to a reader that
counts; *live sessions* are as many raw loops, driven by two threads on epoll; *files* are beside `git add -A` and
`git commit` on an equal tree, and beside `cp -r`, as in `files.md`. Ours is the engine in the same process with the
SQLite store, or the daemon over its Unix socket with one blocking keep-alive client.

";

const PEERS: &str = "## Other tools

Each through its own interface, in a Python of its own (`bench/peers.py`).
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_judged_by_its_kind() {
        let met = |row: Row| row.cells()[5].clone();
        let rate = |ours, target| Row::rate(String::new(), "x", 10.0, ours, target);
        assert_eq!(met(rate(20.0, Some(Target::RatioAtMost(2.0)))), "yes");
        assert_eq!(met(rate(21.0, Some(Target::RatioAtMost(2.0)))), "**no**");
        assert_eq!(met(rate(4.9, Some(Target::RatioAtLeast(0.5)))), "**no**");
        assert_eq!(met(Row::limit(String::new(), 15.9, "MiB", 16.0)), "yes");
        assert_eq!(met(Row::alone(String::new(), "x", 1.0)), "–");
        let spread = |seconds| Spread { p50: seconds, p99: seconds };
        let added = |ours| Row::added(String::new(), spread(50e-6), spread(ours), 1e-3).cells();
        assert_eq!(added(52e-6)[3..], ["+2.00 µs", "≤ +1.00 ms", "yes"].map(str::to_owned));
        assert_eq!(added(49e-6)[3..], ["-1.00 µs", "≤ +1.00 ms", "yes"].map(str::to_owned));
        assert_eq!(added(1.1e-3)[3..], ["+1.05 ms", "≤ +1.00 ms", "**no**"].map(str::to_owned));
    }

    #[test]
    fn a_bar_in_a_cell_does_not_end_it() {
        let rows = [["a | b"; 6].map(str::to_owned)];
        assert!(piped(&rows).starts_with("| a \\| b | "));
    }
}
