//! The files that a command changed, on a page: their number in the row, their differences when it is open.

use super::escape::escape;
use crate::export::ansi;
use crate::export::frames::text;
use crate::export::options::Options;
use crate::export::patch::{Part, first_lines};
use crate::line::Line;
use crate::runs::FileCounts;
use std::fmt::Write as _;

/// The number of files: `+2 ~1 -1`.
pub(super) fn counts(checkpoint: &Line) -> String {
    FileCounts::of(checkpoint).to_string()
}

/// The files that a checkpoint has, and how they differ from the ones before.
pub(super) fn changed(html: &mut String, checkpoint: &Line, options: &Options<'_>) {
    let name = text(checkpoint.data.get("name"));
    let _ = writeln!(
        html,
        "<p class=\"facts\"><span>files <b>{}</b></span> <span>checkpoint <b>{}</b> (event {})</span></p>",
        counts(checkpoint),
        escape(&ansi::plain(&name)),
        checkpoint.seq
    );
    difference(html, checkpoint, options);
}

/// What a checkpoint changed, if its files are kept.
pub(super) fn difference(html: &mut String, checkpoint: &Line, options: &Options<'_>) {
    let Some(mut patch) = options.patches.and_then(|patches| patches.of_checkpoint(checkpoint)) else { return };
    if let Some(masker) = options.masker {
        patch.text = masker.mask_text(&patch.text);
    }
    let (lines, left) = first_lines(&patch);
    if !lines.is_empty() {
        html.push_str("<h4>changed files</h4>\n<pre class=\"diff\">");
        for (part, line) in lines {
            let line = escape(&visible(&line));
            let _ = match class(part) {
                "" => writeln!(html, "{line}"),
                class => writeln!(html, "<span class=\"{class}\">{line}</span>"),
            };
        }
        html.push_str("</pre>\n");
    }
    if let Some(left) = left {
        let _ = writeln!(html, "<p class=\"cut\">{}</p>", escape(&left));
    }
}

/// A line of a file without what a terminal would obey.
fn visible(line: &str) -> String {
    line.split('\t').map(ansi::plain).collect::<Vec<_>>().join("    ")
}

fn class(part: Part) -> &'static str {
    match part {
        Part::Head => "name",
        Part::Place => "at",
        Part::Added => "in",
        Part::Removed => "out",
        Part::Context => "",
    }
}
