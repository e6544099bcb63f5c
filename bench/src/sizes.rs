//! A table of figures over growing sizes, as the pages about many sessions and about many files have it.

use crate::stats::{Pair, Spread, digits, time};
use std::fmt::Write;

/// A spread of nothing.
pub const NONE: Spread = Spread { p50: f64::NAN, p99: f64::NAN };

/// A line of the table: what it is, and how a point shows it.
pub type Line<P> = (&'static str, fn(&P) -> Option<String>);

/// The table, with a column for each size. `what` grows.
pub fn table<P>(what: &str, points: &[P], size: fn(&P) -> usize, lines: &[Line<P>]) -> String {
    let heads: Vec<String> = points.iter().map(|point| digits(size(point) as f64)).collect();
    let mut text = format!("| {what} | {} |\n|---{}|\n", heads.join(" | "), "|---:".repeat(points.len()));
    for (what, show) in lines {
        let cells: Vec<String> = points.iter().map(|point| show(point).unwrap_or_else(|| "–".to_owned())).collect();
        let _ = writeln!(text, "| {what} | {} |", cells.join(" | "));
    }
    text
}

/// What was not measured is not shown.
pub fn number(value: f64) -> Option<String> {
    value.is_finite().then(|| digits(value))
}

pub fn seconds(value: f64) -> Option<String> {
    value.is_finite().then(|| time(value))
}

pub fn ratio(pair: Pair<f64>) -> Option<String> {
    number(pair.ours / pair.floor).map(|ratio| ratio + "×")
}
