//! The escape sequences that ask a terminal something or set its title. They are found byte by byte, however a program's
//! output is split.

/// Bytes of a sequence that are looked at. The ones that matter are shorter, except for titles, which are cut.
const LONGEST: usize = 512;

/// A sequence that matters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sequence {
    /// "What are you?" (DA1).
    Attributes,
    /// "Do you work?" (DSR).
    Status,
    /// "Where is the cursor?" (CPR), in the form with `?` if it is private.
    CursorPosition { is_private: bool },
    /// The window has this title.
    Title(String),
}

impl Sequence {
    /// Whether the terminal must answer.
    pub fn is_query(&self) -> bool {
        !matches!(self, Self::Title(_))
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum State {
    #[default]
    Ground,
    Escape,
    Control,
    Command,
    CommandEscape,
    /// A string that means nothing to us.
    Text,
    TextEscape,
}

/// Finds sequences.
#[derive(Debug, Default)]
pub struct Scanner {
    state: State,
    /// The current sequence, without its first two bytes.
    body: Vec<u8>,
}

impl Scanner {
    /// Takes the next byte. Returns the sequence that it completes.
    pub fn byte(&mut self, byte: u8) -> Option<Sequence> {
        const ESCAPE: u8 = 0x1b;
        const BELL: u8 = 0x07;
        let is_cancel = matches!(byte, 0x18 | 0x1a);
        let mut found = None;
        self.state = match (self.state, byte) {
            (State::Ground, ESCAPE) | (State::Escape | State::Control, ESCAPE) => State::Escape,
            (State::Ground, _) => State::Ground,
            (_, _) if is_cancel => State::Ground,
            (State::Escape, b'[' | b']') => {
                self.body.clear();
                if byte == b'[' { State::Control } else { State::Command }
            }
            (State::Escape, b'P' | b'X' | b'^' | b'_') => State::Text,
            (State::Escape, b' '..=b'/') => State::Escape,
            (State::Escape, _) => State::Ground,
            (State::Control, b'@'..=b'~') => {
                found = query(&self.body, byte);
                State::Ground
            }
            (State::Command, BELL) | (State::CommandEscape, b'\\') => {
                found = title(&self.body);
                State::Ground
            }
            (State::Command, ESCAPE) => State::CommandEscape,
            (State::Control | State::Command, _) => {
                if self.body.len() < LONGEST {
                    self.body.push(byte);
                }
                self.state
            }
            (State::CommandEscape, _) => {
                // Another sequence begins before this one has ended.
                self.state = State::Escape;
                return self.byte(byte);
            }
            (State::Text, ESCAPE) => State::TextEscape,
            (State::Text, _) => State::Text,
            (State::TextEscape, b'\\') => State::Ground,
            (State::TextEscape, _) => State::Text,
        };
        found
    }

    /// The current sequence ends without effect.
    pub fn cancel(&mut self) {
        self.state = State::Ground;
    }

    /// Whether the last byte was not part of a sequence, or completed one.
    pub fn is_between(&self) -> bool {
        self.state == State::Ground
    }
}

fn query(body: &[u8], last: u8) -> Option<Sequence> {
    match (body, last) {
        (b"" | b"0", b'c') => Some(Sequence::Attributes),
        (b"5", b'n') => Some(Sequence::Status),
        (b"6", b'n') => Some(Sequence::CursorPosition { is_private: false }),
        (b"?6", b'n') => Some(Sequence::CursorPosition { is_private: true }),
        _ => None,
    }
}

fn title(body: &[u8]) -> Option<Sequence> {
    let title = body.strip_prefix(b"0;").or_else(|| body.strip_prefix(b"2;"))?;
    let visible = String::from_utf8_lossy(title).chars().filter(|c| !c.is_control()).collect();
    Some(Sequence::Title(visible))
}

/// A program's output without its queries, for a viewer's terminal: the daemon answers them, and a second answer would
/// be typed into the program.
#[derive(Debug, Default)]
pub struct WithoutQueries {
    scanner: Scanner,
    held: Vec<u8>,
}

impl WithoutQueries {
    /// Takes output and returns what to show. An incomplete sequence waits for its end.
    pub fn pass(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut shown = Vec::with_capacity(bytes.len());
        for byte in bytes {
            let found = self.scanner.byte(*byte);
            self.held.push(*byte);
            if found.is_some_and(|found| found.is_query()) {
                self.held.clear();
            } else if self.scanner.is_between() || self.held.len() > LONGEST {
                shown.append(&mut self.held);
            }
        }
        shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &[u8]) -> Vec<Sequence> {
        let mut scanner = Scanner::default();
        text.iter().filter_map(|byte| scanner.byte(*byte)).collect()
    }

    #[test]
    fn queries_and_titles_are_found_among_other_sequences() {
        let text = b"a\x1b[31mb\x1b[c\x1b[0c\x1b[>c\x1b[5n\x1b]0;one\x07\x1b]2;t\xc3\xb6\x1b\\\x1b]8;;http://x\x07\x1b[6n\x1b[?6n";
        let expected = [
            Sequence::Attributes,
            Sequence::Attributes,
            Sequence::Status,
            Sequence::Title("one".to_owned()),
            Sequence::Title("tö".to_owned()),
            Sequence::CursorPosition { is_private: false },
            Sequence::CursorPosition { is_private: true },
        ];
        assert_eq!(found(text), expected);
    }

    #[test]
    fn what_is_inside_a_string_or_cancelled_is_no_query() {
        assert_eq!(found(b"\x1bP1;[6n\x1b\\\x1b_x\x1b[6n\x1b\\\x1b[6\x18n\x1b]0;t\x18"), []);
        assert_eq!(found(b"\x1b]0;cut\x1b[6n"), [Sequence::CursorPosition { is_private: false }]);
        assert_eq!(found(b"\x1b(B\x1b[\x1b[5n"), [Sequence::Status]);
    }

    #[test]
    fn a_viewer_gets_everything_but_the_queries_however_it_is_split() {
        let text = b"x\x1b[31m\x1b[6ny\x1b]0;t\x07\x1b[c\x1b[2Jz\xff";
        let expected = b"x\x1b[31my\x1b]0;t\x07\x1b[2Jz\xff";
        for size in 1..=text.len() {
            let mut filter = WithoutQueries::default();
            let shown: Vec<u8> = text.chunks(size).flat_map(|piece| filter.pass(piece)).collect();
            assert_eq!(shown, expected, "pieces of {size}");
        }
        let long = [b"\x1b]".as_slice(), &[b'x'; 4 * LONGEST]].concat();
        let mut filter = WithoutQueries::default();
        assert!(filter.pass(&long).len() > 3 * LONGEST, "a sequence without an end is not kept forever");
    }
}
