//! The screen of a terminal as a value: a run's output goes in, and what a person would see comes out. It answers what
//! programs ask their terminal, so that they work whether or not somebody looks.

mod drawing;
pub(crate) mod past;
mod rows;
pub mod sequences;
pub mod watched;

use crate::ops::{Key, ScreenCursor, ScreenRow, TerminalSize};
use avt::{ScreenKind, Terminal};
pub(crate) use drawing::Drawing;
use drawing::{CANCEL, Finder, Part};
use sequences::{Scanner, Sequence};
use shellkeep_redact::Redactor;
use shellkeep_session::unfinished;

/// What we are: a VT220 with colours.
const ATTRIBUTES: &str = "\x1b[?62;22c";
/// Everything works.
const STATUS: &str = "\x1b[0n";
/// Answers that may wait to be written; a program that asks more and reads nothing gets no more.
const MOST_ANSWERS: usize = 4096;

/// The screen of a terminal.
pub(crate) struct Screen {
    terminal: Terminal,
    finder: Finder,
    scanner: Scanner,
    /// The beginning of a character whose end has not arrived.
    cut: Vec<u8>,
    title: Option<String>,
    answers: Vec<u8>,
    version: u64,
    offset: u64,
}

/// What a screen shows.
pub(crate) struct Picture {
    pub(crate) size: TerminalSize,
    pub(crate) cursor: ScreenCursor,
    pub(crate) alternate: bool,
    pub(crate) title: Option<String>,
    pub(crate) rows: Vec<ScreenRow>,
    pub(crate) dump: String,
    pub(crate) version: u64,
    pub(crate) offset: u64,
    pub(crate) masked: bool,
}

impl Screen {
    /// An empty screen.
    pub fn new(size: TerminalSize) -> Self {
        let (rows, cols) = (usize::from(size.rows.max(1)), usize::from(size.cols.max(1)));
        let terminal = match Terminal::new(cols, rows) {
            Ok(terminal) => terminal,
            Err(_) => unreachable!("both sides are positive"),
        };
        Self {
            terminal,
            finder: Finder::default(),
            scanner: Scanner::default(),
            cut: Vec::new(),
            title: None,
            answers: Vec::new(),
            version: 0,
            offset: 0,
        }
    }

    /// Takes what the program wrote.
    pub fn feed(&mut self, bytes: &[u8]) {
        let mut drawing = self.take(bytes);
        while !drawing.is_done() {
            self.draw(&mut drawing, u64::MAX);
        }
    }

    /// Takes what the program wrote, to be drawn before anything else is taken. Bytes that are not UTF-8 become a replacement
    /// character each.
    pub fn take(&mut self, bytes: &[u8]) -> Drawing {
        self.version += 1;
        self.offset += bytes.len() as u64;
        self.cut.extend_from_slice(bytes);
        let whole = self.cut.len() - unfinished(&self.cut);
        let text = String::from_utf8_lossy(&self.cut[..whole]).into_owned();
        self.cut.drain(..whole);
        self.finder.drawing(text, self.terminal.size())
    }

    /// Draws some of it: no more sequences that take long, once those have changed this many cells.
    pub fn draw(&mut self, drawing: &mut Drawing, most: u64) {
        self.version += 1;
        let mut spent = 0;
        while spent < most && !drawing.is_done() {
            let Part { text, last, cost } = drawing.next();
            self.show(text);
            match last {
                Some("") => {
                    self.terminal.feed(CANCEL);
                    self.scanner.cancel();
                }
                last => self.show(last.unwrap_or_default()),
            }
            spent = spent.saturating_add(cost);
        }
    }

    fn show(&mut self, text: &str) {
        let mut drawn = 0;
        for (index, byte) in text.bytes().enumerate() {
            if let Some(sequence) = self.scanner.byte(byte) {
                // The answer depends on everything before the question, which ends with a byte that is a character.
                self.terminal.feed(&text[drawn..=index]);
                drawn = index + 1;
                self.on_sequence(sequence);
            }
        }
        self.terminal.feed(&text[drawn..]);
    }

    /// The terminal has another size.
    pub fn resize(&mut self, size: TerminalSize) {
        self.version += 1;
        self.terminal.resize(size.cols.into(), size.rows.into());
    }

    /// What to write to the program as the terminal's answers.
    pub fn take_answers(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.answers)
    }

    /// What the keys send, as the program asked for it.
    pub fn sent_by(&self, keys: &[Key]) -> Vec<u8> {
        let (application, mut sent) = (self.terminal.cursor_key_app_mode(), Vec::new());
        keys.iter().for_each(|key| key.send(application, &mut sent));
        sent
    }

    /// Grows with every change.
    pub fn version(&self) -> u64 {
        self.version
    }

    pub fn size(&self) -> TerminalSize {
        let (cols, rows) = self.terminal.size();
        let side = |side| u16::try_from(side).unwrap_or(u16::MAX);
        TerminalSize { rows: side(rows), cols: side(cols) }
    }

    /// What it shows, with secrets masked if there is a redactor.
    pub(crate) fn picture(&self, redactor: Option<&Redactor>) -> Picture {
        let cursor = self.terminal.cursor();
        let cursor = ScreenCursor { row: cursor.row, col: cursor.col, visible: cursor.visible };
        let plain = rows::of(&self.terminal);
        let hidden = redactor.and_then(|redactor| rows::masked(&self.terminal, redactor));
        let masked = hidden.is_some();
        let dump = hidden.as_ref().map_or_else(|| self.terminal.dump(), |rows| rows::drawn(rows, cursor));
        Picture {
            size: self.size(),
            cursor,
            alternate: self.terminal.active_screen_kind() == ScreenKind::Alternate,
            title: self.title.as_ref().map(|title| redactor.map_or_else(|| title.clone(), |by| by.redact_str(title))),
            rows: hidden.unwrap_or(plain),
            dump,
            version: self.version,
            offset: self.offset,
            masked,
        }
    }

    fn on_sequence(&mut self, sequence: Sequence) {
        let answer = match sequence {
            Sequence::Title(title) => {
                self.title = Some(title).filter(|title| !title.is_empty());
                return;
            }
            Sequence::Attributes => ATTRIBUTES.to_owned(),
            Sequence::Status => STATUS.to_owned(),
            Sequence::CursorPosition { is_private } => {
                let (cursor, cols) = (self.terminal.cursor(), self.terminal.size().0);
                let (row, col) = (cursor.row + 1, cursor.col.min(cols - 1) + 1);
                if is_private { format!("\x1b[?{row};{col}R") } else { format!("\x1b[{row};{col}R") }
            }
        };
        if self.answers.len() < MOST_ANSWERS {
            self.answers.extend_from_slice(answer.as_bytes());
        }
    }
}

impl std::fmt::Debug for Screen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Screen").field("size", &self.size()).field("version", &self.version).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SMALL: TerminalSize = TerminalSize { rows: 3, cols: 10 };

    fn lines(screen: &Screen) -> Vec<String> {
        screen.picture(None).rows.iter().map(|row| crate::ops::row_text(row)).collect()
    }

    fn fed(text: &[u8]) -> Screen {
        let mut screen = Screen::new(SMALL);
        screen.feed(text);
        screen
    }

    #[test]
    fn a_program_gets_answers_about_the_screen_as_it_was_at_the_question() {
        let mut screen = fed(b"ab\x1b[6n\r\ncde\x1b[6n\x1b[5n\x1b[c\x1b[2J");
        assert_eq!(screen.take_answers(), b"\x1b[1;3R\x1b[2;4R\x1b[0n\x1b[?62;22c");
        assert!(screen.take_answers().is_empty());
        let mut full = fed(b"0123456789\x1b[6n");
        assert_eq!(full.take_answers(), b"\x1b[1;10R", "a cursor after the last column is in the last column");
        let mut flood = fed(&b"\x1b[c".repeat(10_000));
        assert!(flood.take_answers().len() < 2 * MOST_ANSWERS);
    }

    #[test]
    fn the_screen_is_what_a_person_sees() {
        let screen = fed(b"\x1b]0;mine\x07one\r\n\x1b[1;31mtwo\x1b[0m\x1b[3;1H\x1b(0qq\x1b(B\xff");
        let picture = screen.picture(None);
        assert_eq!(lines(&screen), ["one", "two", "──\u{fffd}"]);
        assert_eq!((picture.title.as_deref(), picture.alternate), (Some("mine"), false));
        assert_eq!(picture.cursor, ScreenCursor { row: 2, col: 3, visible: true });
        assert!(picture.rows[1][0].style.bold && !picture.masked);
        let full = fed(b"shell\x1b[?1049h\x1b[?25l\x1b[Hvim");
        let picture = full.picture(None);
        assert_eq!((lines(&full)[0].as_str(), picture.alternate, picture.cursor.visible), ("vim", true, false));
        let mut restored = Screen::new(SMALL);
        restored.feed(picture.dump.as_bytes());
        restored.feed(b"\x1b[?1049l");
        assert_eq!(lines(&restored)[0], "shell");
    }

    /// Some kilobytes of such sequences took ten seconds of a thread that others needed.
    #[test]
    fn what_is_left_out_was_drawn_over() {
        let size = TerminalSize { rows: 500, cols: 500 };
        for (flood, times) in [("x\x1b[65535b", 6000), ("x\x1b[2J", 16_000), ("x\x1bc\x1b[6n", 10_000)] {
            let mut screen = Screen::new(size);
            let mut drawing = screen.take(flood.repeat(times).as_bytes());
            let mut steps = 0;
            while !drawing.is_done() {
                screen.draw(&mut drawing, 1 << 20);
                steps += 1;
            }
            assert!((10..100).contains(&steps), "{steps}");
            screen.feed(b"\x1b[0m\x1b[2J\x1b[Hdone\x1b[6n");
            assert_eq!(lines(&screen)[0], "done");
        }
    }

    #[test]
    fn a_new_size_is_a_change() {
        let mut screen = fed(b"0123456789ab");
        let before = screen.version();
        screen.resize(TerminalSize { rows: 4, cols: 20 });
        assert_eq!(screen.size(), TerminalSize { rows: 4, cols: 20 });
        assert!(lines(&screen).contains(&"0123456789ab".to_owned()), "{:?}", lines(&screen));
        assert!(screen.version() > before);
    }

    #[test]
    fn a_secret_is_masked_even_where_a_row_ends_inside_it() {
        let redactor = Redactor::new(&Default::default()).unwrap().with_secrets(["horse-battery"]).unwrap();
        let screen = fed(b"say horse-battery");
        assert_eq!(lines(&screen), ["say horse-", "battery", ""]);
        let picture = screen.picture(Some(&redactor));
        let shown: Vec<String> = picture.rows.iter().map(|row| crate::ops::row_text(row)).collect();
        assert_eq!(
            (shown.as_slice(), picture.masked),
            (["say ***".to_owned(), String::new(), String::new()].as_slice(), true)
        );
        assert!(picture.dump.contains("***") && !picture.dump.contains("horse") && !picture.dump.contains("battery"));
        let clean = fed(b"nothing");
        assert!(!clean.picture(Some(&redactor)).masked);
    }

    proptest! {
        #[test]
        fn the_screen_does_not_depend_on_how_output_is_split(
            bytes in proptest::collection::vec(prop_oneof![any::<u8>(), Just(0x1b), Just(b'['), Just(0xc3), Just(b'6')], 0..200),
            size in 1_usize..7,
        ) {
            let mut whole = fed(&bytes);
            let mut pieces = Screen::new(SMALL);
            bytes.chunks(size).for_each(|piece| pieces.feed(piece));
            prop_assert_eq!(lines(&whole), lines(&pieces));
            prop_assert_eq!(whole.take_answers(), pieces.take_answers());
        }
    }
}
