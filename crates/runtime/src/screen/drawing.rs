//! How much work it is to draw some output. A few bytes can change every cell of a screen, or print a character 65,535
//! times, so the length of the output does not say.

use avt::parser::{DecMode, DecModes, EdScope, Function, Parser};
use std::collections::VecDeque;
use std::ops::Range;

/// From so many cells on, a sequence is dear: more than a row, less than a small screen.
const DEAR: u64 = 512;
/// Most cells that the dear sequences of what is drawn at once may change: some hundred screens of the largest size, a
/// quarter of a second. Of more, the first ones are left out: what they draw is drawn over.
const MOST: u64 = 32 << 20;
/// What a new cell costs compared to one that is changed.
const NEW: u64 = 4;
/// Ends a sequence without carrying it out.
pub(super) const CANCEL: &str = "\x18";

/// Output that is to be drawn.
#[derive(Debug)]
pub(crate) struct Drawing {
    text: String,
    /// How much of it is drawn.
    done: usize,
    /// The last characters of dear sequences, and the cells that each changes.
    dear: VecDeque<(Range<usize>, u64)>,
    cost: u64,
    /// How many of these cells are still to be left out.
    surplus: u64,
}

/// A part of it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Part<'a> {
    pub(super) text: &'a str,
    /// The character after it, with which a dear sequence ends; none at the end. Empty if the sequence is left out.
    pub(super) last: Option<&'a str>,
    pub(super) cost: u64,
}

impl Drawing {
    /// How many cells its dear sequences change, those that are left out excepted.
    pub(crate) fn cost(&self) -> u64 {
        self.cost.min(MOST)
    }

    pub(crate) fn is_done(&self) -> bool {
        self.done == self.text.len()
    }

    /// The next part to draw.
    pub(super) fn next(&mut self) -> Part<'_> {
        let start = self.done;
        let Some((end, cost)) = self.dear.pop_front() else {
            self.done = self.text.len();
            return Part { text: &self.text[start..], last: None, cost: 0 };
        };
        self.done = end.end;
        let text = &self.text[start..end.start];
        if self.surplus == 0 {
            return Part { text, last: Some(&self.text[end]), cost };
        }
        self.surplus = self.surplus.saturating_sub(cost);
        Part { text, last: Some(""), cost: 0 }
    }
}

/// Finds the dear sequences of a terminal's output, however it is split.
#[derive(Debug, Default)]
pub(super) struct Finder {
    parser: Parser,
    /// Whether the last character was no part of a sequence.
    is_between: bool,
}

impl Finder {
    /// What is to be drawn on a screen of this size.
    pub(super) fn drawing(&mut self, text: String, size: (usize, usize)) -> Drawing {
        let mut dear = VecDeque::new();
        let (mut cost, mut at) = (0, 0);
        while at < text.len() {
            if self.is_between {
                // Text alone is cheap. Sequences begin with an escape, or with a control character of two bytes.
                let begin = text.as_bytes()[at..].iter().position(|byte| matches!(byte, 0x1b | 0xc2));
                at = begin.map_or(text.len(), |begin| at + begin);
            }
            let Some(next) = text[at..].chars().next() else { break };
            let end = at + next.len_utf8();
            let function = self.parser.feed(next);
            self.is_between = matches!(function, Some(Function::Print(_)));
            let cells = function.map_or(0, |function| cells(&function, size));
            if cells >= DEAR {
                dear.push_back((at..end, cells));
                cost += cells;
            }
            at = end;
        }
        Drawing { text, done: 0, dear, cost, surplus: cost.saturating_sub(MOST) }
    }
}

/// How many cells a function changes, at most, where that is more than a row or two.
fn cells(function: &Function, (cols, rows): (usize, usize)) -> u64 {
    let (cols, rows) = (cols as u64, rows as u64);
    let all = cols * rows;
    match function {
        // Where a row ends, the screen scrolls.
        Function::Rep(count) => u64::from((*count).max(1)) * (2 + rows / cols.max(1)),
        Function::Ed(EdScope::Below | EdScope::Above | EdScope::All) | Function::Decaln => all,
        Function::Ris => NEW * all,
        Function::Decset(modes) | Function::Decrst(modes) if is_other_screen(modes) => NEW * all,
        Function::Su(count) | Function::Sd(count) | Function::Il(count) | Function::Dl(count) => {
            u64::from((*count).max(1)).min(rows) * (cols + rows)
        }
        _ => 0,
    }
}

fn is_other_screen(modes: &DecModes) -> bool {
    modes.as_slice().iter().any(|mode| matches!(mode, DecMode::AltScreenBuffer | DecMode::SaveCursorAltScreenBuffer))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LARGE: (usize, usize) = (500, 500);

    fn drawing(text: &str) -> Drawing {
        Finder::default().drawing(text.to_owned(), LARGE)
    }

    #[test]
    fn dear_is_what_changes_many_cells_however_it_is_written_and_split() {
        for (text, expected) in [
            ("text\r\n\x1b[31mred\x1b[K\x1b[5;5H\x1b[10Cx\x1b[3X\x1b[1b", 0),
            ("\x1b[J", 250_000),
            ("x\x1b[0;1;2\x1b[2Jy", 250_000),
            ("\u{9b}2J", 250_000),
            ("\x1bc\x1b#8", 1_250_000),
            ("x\x1b[65535b", 196_605),
            ("\x1b[600S\x1b[500L", 1_000_000),
            ("\x1b[?25h\x1b[?25;1049h", 1_000_000),
            ("\x1b]0;\x1b[2J", 250_000),
            ("\x1b]0;[2J\x07", 0),
        ] {
            assert_eq!(drawing(text).cost, expected, "{text:?}");
            let mut finder = Finder::default();
            let pieces = text.chars().map(|one| finder.drawing(one.to_string(), LARGE).cost);
            assert_eq!(pieces.sum::<u64>(), expected, "{text:?} in pieces");
        }
        assert_eq!(Finder::default().drawing("\x1b[2J".repeat(9), (10, 3)).cost, 0);
    }

    #[test]
    fn of_too_much_the_last_is_drawn() {
        let mut drawing = drawing(&"ab\x1b[2J".repeat(200));
        assert_eq!((drawing.cost(), drawing.cost), (MOST, 50_000_000));
        let mut drawn = String::new();
        while !drawing.is_done() {
            let Part { text, last, .. } = drawing.next();
            drawn.push_str(text);
            drawn.push_str(last.unwrap_or_default());
        }
        assert_eq!(drawn.matches("ab").count(), 200);
        assert_eq!(drawn.matches('J').count(), 134);
        assert!(drawn.ends_with("ab\x1b[2J"));
    }
}
