//! An agent's output, split into lines. A line that is too long is skipped.

/// Longest line of an agent, without its end.
pub const MAX_LINE: usize = 1 << 20;

/// A line, or that there was one which is too long.
#[derive(Debug, PartialEq, Eq)]
pub enum Cut {
    /// A line, without its end.
    Line(Vec<u8>),
    /// One that was longer than [`MAX_LINE`].
    TooLong,
}

/// Bytes that are not yet lines.
#[derive(Debug, Default)]
pub struct Lines {
    bytes: Vec<u8>,
    /// Where the first line begins that was not given yet.
    start: usize,
    /// Up to where they were looked at and have no line's end.
    seen: usize,
    /// Whether what comes up to the next line's end belongs to a line that is too long.
    skipping: bool,
}

impl Lines {
    /// Takes what was read.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.start);
        self.seen -= self.start;
        self.start = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// The next complete line.
    pub fn next(&mut self) -> Option<Cut> {
        loop {
            let Some(found) = self.bytes[self.seen..].iter().position(|byte| *byte == b'\n') else {
                self.seen = self.bytes.len();
                self.skipping |= self.seen - self.start > MAX_LINE;
                if self.skipping {
                    self.start = self.seen;
                }
                return None;
            };
            let end = self.seen + found;
            let line = &self.bytes[self.start..end];
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            let is_too_long = std::mem::take(&mut self.skipping) || line.len() > MAX_LINE;
            // Empty lines say nothing.
            let is_empty = line.iter().all(u8::is_ascii_whitespace);
            let line = if is_too_long { Vec::new() } else { line.to_vec() };
            (self.start, self.seen) = (end + 1, end + 1);
            if is_too_long {
                return Some(Cut::TooLong);
            }
            if !is_empty {
                return Some(Cut::Line(line));
            }
        }
    }

    /// What came after the last line's end, when nothing will follow.
    pub fn rest(&mut self) -> Option<Cut> {
        self.push(b"\n");
        self.next()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(lines: &mut Lines) -> Vec<Cut> {
        std::iter::from_fn(|| lines.next()).collect()
    }

    fn line(text: &str) -> Cut {
        Cut::Line(text.as_bytes().to_vec())
    }

    #[test]
    fn lines_are_whole_however_the_bytes_are_cut() {
        let text = b"one\n\n  \r\ntwo\r\nthree";
        for size in 1..=text.len() {
            let (mut lines, mut found) = (Lines::default(), Vec::new());
            for piece in text.chunks(size) {
                lines.push(piece);
                found.extend(all(&mut lines));
            }
            assert_eq!(found, [line("one"), line("two")], "{size}");
            assert_eq!(lines.rest(), Some(line("three")), "{size}");
            assert_eq!(lines.rest(), None);
        }
    }

    #[test]
    fn a_line_that_is_too_long_is_passed_over_and_takes_no_room() {
        let mut lines = Lines::default();
        for _ in 0..64 {
            lines.push(&[b'x'; 1 << 18]);
            assert_eq!(lines.next(), None);
            assert!(lines.bytes.capacity() <= 4 * MAX_LINE);
        }
        lines.push(b"y\nnext\n");
        assert_eq!(all(&mut lines), [Cut::TooLong, line("next")]);
        lines.push(&vec![b'z'; MAX_LINE]);
        lines.push(b"\n");
        assert!(matches!(lines.next(), Some(Cut::Line(found)) if found.len() == MAX_LINE));
        lines.push(&vec![b'z'; MAX_LINE + 1]);
        lines.push(b"\nafter\n");
        assert_eq!(all(&mut lines), [Cut::TooLong, line("after")]);
    }
}
