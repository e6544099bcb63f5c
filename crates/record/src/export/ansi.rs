//! What a terminal makes of a command's output: colours are understood, lines are overwritten where a progress bar does so,
//! and everything else that could drive a terminal is left out.

use std::fmt::Write as _;
use vte::{Params, Parser, Perform};

/// Columns from one tab stop to the next.
const TAB: usize = 8;
/// Most columns of a line. A longer one is broken, so that a jump to the right costs no memory.
const MOST_COLUMNS: usize = 4096;
const ESCAPE: char = '\u{1b}';
const BACKSPACE: u8 = 8;
/// Last letters of the sequences that move the cursor, erase or colour. Those that ask the terminal something, or change it
/// for good, are not among them.
const HARMLESS: &str = "mABCDEFGHJKLMPSTXdf@`";

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Colour {
    /// The terminal's own.
    #[default]
    Default,
    /// One of the palette's 256.
    Palette(u8),
    /// Red, green and blue.
    Rgb(u8, u8, u8),
}

/// How a character looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Style {
    pub colour: Colour,
    /// The colour behind it.
    pub behind: Colour,
    pub bold: bool,
    pub dim: bool,
    pub italic: bool,
    pub underlined: bool,
    /// With the two colours exchanged.
    pub reversed: bool,
    /// Struck through.
    pub struck: bool,
}

/// Characters in a row that look alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// How they look.
    pub style: Style,
    pub text: String,
}

/// An output for a terminal, without what could do harm there: only text, colours and movements are left. Lines end as a
/// terminal without a driver needs it.
pub fn harmless(text: &str) -> String {
    let out = String::with_capacity(text.len() + text.len() / 16);
    let mut harmless = Harmless { out, is_screen: false };
    Parser::new().advance(&mut harmless, text.as_bytes());
    harmless.out
}

/// The output of a program on a terminal, piece by piece. It may also switch to the other screen, hide the cursor, scroll a
/// part of the screen and draw lines, which [`Pieces::finish`] takes back.
#[derive(Default)]
pub struct Pieces {
    parser: Parser,
}

impl Pieces {
    /// The next piece; what is cut at its end comes with the one after it.
    pub fn next(&mut self, bytes: &[u8]) -> String {
        let mut harmless = Harmless { out: String::with_capacity(bytes.len()), is_screen: true };
        self.parser.advance(&mut harmless, bytes);
        harmless.out
    }

    /// What brings the terminal back.
    pub fn finish(self) -> &'static str {
        "\u{1b}[r\u{1b}[?1049l\u{1b}[?25h\u{1b}(B\u{1b}[0m"
    }
}

/// An output as lines of a terminal that is as long as needed.
pub fn lines(text: &str) -> Vec<Vec<Span>> {
    let mut paper = Paper::default();
    Parser::new().advance(&mut paper, text.as_bytes());
    paper.finish()
}

/// One text without any escape, for a single line: a summary.
pub fn plain(text: &str) -> String {
    let mut plain = Plain { out: String::with_capacity(text.len()) };
    Parser::new().advance(&mut plain, text.as_bytes());
    plain.out
}

struct Harmless {
    out: String,
    /// Whether it may draw on a whole screen.
    is_screen: bool,
}

/// The modes that a program on a whole screen may set: the cursor, the other screen.
const SCREEN_MODES: [u16; 2] = [25, 1049];

impl Perform for Harmless {
    fn print(&mut self, c: char) {
        self.out.extend(visible(c));
    }

    fn execute(&mut self, byte: u8) {
        match byte {
            b'\n' if self.out.ends_with('\r') => self.out.push('\n'),
            b'\n' => self.out.push_str("\r\n"),
            b'\r' | b'\t' | BACKSPACE => self.out.push(byte.into()),
            // A bell and its like are heard, not seen.
            _ => {}
        }
    }

    fn esc_dispatch(&mut self, intermediates: &[u8], ignore: bool, last: u8) {
        let is_drawing = matches!((intermediates, last), (b"(", b'0' | b'B') | (b"", b'7' | b'8' | b'M'));
        if self.is_screen && !ignore && is_drawing {
            self.out.push(ESCAPE);
            self.out.extend(intermediates.iter().chain([&last]).map(|byte| char::from(*byte)));
        }
    }

    fn csi_dispatch(&mut self, params: &Params, intermediates: &[u8], ignore: bool, last: char) {
        if self.is_screen && !ignore && intermediates == b"?" && matches!(last, 'h' | 'l') {
            for mode in params.iter().flatten().filter(|mode| SCREEN_MODES.contains(mode)) {
                let _ = write!(self.out, "{ESCAPE}[?{mode}{last}");
            }
            return;
        }
        let is_harmless = HARMLESS.contains(last) || (self.is_screen && last == 'r');
        if ignore || !intermediates.is_empty() || !is_harmless {
            return;
        }
        self.out.extend([ESCAPE, '[']);
        for (index, param) in params.iter().enumerate() {
            for (part, number) in param.iter().enumerate() {
                let separator = match (index, part) {
                    (0, 0) => "",
                    (_, 0) => ";",
                    _ => ":",
                };
                // Writing to memory does not fail.
                let _ = write!(self.out, "{separator}{number}");
            }
        }
        self.out.push(last);
    }
}

struct Plain {
    out: String,
}

impl Perform for Plain {
    fn print(&mut self, c: char) {
        self.out.extend(visible(c));
    }

    fn execute(&mut self, byte: u8) {
        if matches!(byte, b'\n' | b'\r' | b'\t' | BACKSPACE) {
            self.out.push(' ');
        }
    }
}

impl Perform for Paper {
    fn print(&mut self, c: char) {
        visible(c).into_iter().for_each(|c| self.put(c));
    }

    fn execute(&mut self, byte: u8) {
        match byte {
            b'\n' => self.feed(),
            b'\r' => self.column = 0,
            b'\t' => self.column = (self.column / TAB + 1) * TAB,
            BACKSPACE => self.column = self.column.saturating_sub(1),
            _ => {}
        }
    }

    fn csi_dispatch(&mut self, params: &Params, intermediates: &[u8], ignore: bool, last: char) {
        if !ignore && intermediates.is_empty() {
            self.obey(params, last);
        }
    }
}

/// What is shown for a character. One that reorders text could make a line say what it does not.
fn visible(c: char) -> Option<char> {
    let reorders = matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}');
    let shown = if reorders { char::REPLACEMENT_CHARACTER } else { c };
    (!c.is_control()).then_some(shown)
}

/// Lines that are written, the last one with a cursor in it.
#[derive(Default)]
struct Paper {
    done: Vec<Vec<Span>>,
    line: Vec<(char, Style)>,
    column: usize,
    style: Style,
}

impl Paper {
    fn put(&mut self, c: char) {
        if self.column >= MOST_COLUMNS {
            self.feed();
        }
        if self.line.len() <= self.column {
            self.line.resize(self.column + 1, (' ', Style::default()));
        }
        self.line[self.column] = (c, self.style);
        self.column += 1;
    }

    fn feed(&mut self) {
        self.done.push(spans(&self.line));
        self.line.clear();
        self.column = 0;
    }

    fn obey(&mut self, params: &Params, last: char) {
        let number = || params.iter().flatten().next().map_or(0, |number| usize::from(*number));
        let steps = || number().clamp(1, MOST_COLUMNS);
        match last {
            'm' => self.style.change(params.iter().flatten().copied()),
            'C' => self.column = (self.column + steps()).min(MOST_COLUMNS),
            'D' => self.column = self.column.saturating_sub(steps()),
            'G' | '`' => self.column = steps() - 1,
            'K' => match number() {
                0 => self.line.truncate(self.column),
                1 => {
                    let end = self.column.min(self.line.len());
                    self.line[..end].fill((' ', Style::default()));
                }
                _ => self.line.clear(),
            },
            // Upwards and downwards there is nothing: what was written stays to be read.
            _ => {}
        }
    }

    fn finish(mut self) -> Vec<Vec<Span>> {
        if !self.line.is_empty() {
            self.feed();
        }
        self.done
    }
}

fn spans(line: &[(char, Style)]) -> Vec<Span> {
    line.chunk_by(|(_, one), (_, other)| one == other)
        .map(|run| Span { style: run[0].1, text: run.iter().map(|(c, _)| *c).collect() })
        .collect()
}

impl Style {
    /// Obeys the numbers of a sequence that ends with `m`.
    fn change(&mut self, mut numbers: impl Iterator<Item = u16>) {
        while let Some(number) = numbers.next() {
            match number {
                0 => *self = Self::default(),
                1 => self.bold = true,
                2 => self.dim = true,
                3 => self.italic = true,
                4 => self.underlined = true,
                7 => self.reversed = true,
                9 => self.struck = true,
                22 => (self.bold, self.dim) = (false, false),
                23 => self.italic = false,
                24 => self.underlined = false,
                27 => self.reversed = false,
                29 => self.struck = false,
                30..=37 => self.colour = Colour::Palette(low(number - 30)),
                38 => self.colour = extended(&mut numbers).unwrap_or(self.colour),
                39 => self.colour = Colour::Default,
                40..=47 => self.behind = Colour::Palette(low(number - 40)),
                48 => self.behind = extended(&mut numbers).unwrap_or(self.behind),
                49 => self.behind = Colour::Default,
                90..=97 => self.colour = Colour::Palette(low(number - 90 + 8)),
                100..=107 => self.behind = Colour::Palette(low(number - 100 + 8)),
                _ => {}
            }
        }
    }
}

/// `5;N` or `2;R;G;B`.
fn extended(numbers: &mut impl Iterator<Item = u16>) -> Option<Colour> {
    match numbers.next()? {
        5 => numbers.next().map(|number| Colour::Palette(low(number))),
        2 => Some(Colour::Rgb(low(numbers.next()?), low(numbers.next()?), low(numbers.next()?))),
        _ => None,
    }
}

fn low(number: u16) -> u8 {
    u8::try_from(number).unwrap_or(u8::MAX)
}

/// Red, green and blue of a colour of the palette, in the shades that most terminals have.
pub fn rgb(number: u8) -> (u8, u8, u8) {
    const BASIC: [(u8, u8, u8); 16] = [
        (0x1c, 0x1c, 0x1c),
        (0xc5, 0x30, 0x30),
        (0x2f, 0x85, 0x3a),
        (0xb0, 0x7d, 0x10),
        (0x2b, 0x6c, 0xc4),
        (0x9b, 0x3f, 0xb5),
        (0x17, 0x87, 0x8f),
        (0xb8, 0xb8, 0xb8),
        (0x76, 0x76, 0x76),
        (0xe0, 0x4f, 0x4f),
        (0x48, 0xa8, 0x55),
        (0xc9, 0x98, 0x28),
        (0x4f, 0x8f, 0xe6),
        (0xb9, 0x62, 0xd1),
        (0x32, 0xa5, 0xad),
        (0xee, 0xee, 0xee),
    ];
    match number {
        0..=15 => BASIC[usize::from(number)],
        16..=231 => {
            let level = |step: u8| if step == 0 { 0 } else { 55 + 40 * step };
            let cube = number - 16;
            (level(cube / 36), level(cube / 6 % 6), level(cube % 6))
        }
        _ => {
            let grey = 8 + 10 * (number - 232);
            (grey, grey, grey)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(lines: &[Vec<Span>]) -> Vec<String> {
        lines.iter().map(|line| line.iter().map(|span| span.text.as_str()).collect()).collect()
    }

    #[test]
    fn colours_are_understood() {
        let red = Style { colour: Colour::Palette(1), bold: true, ..Style::default() };
        let found = lines("a\u{1b}[1;31mb\u{1b}[0mc\u{1b}[38;5;200md\u{1b}[48;2;1;2;3me");
        let styles: Vec<Style> = found[0].iter().map(|span| span.style).collect();
        let pink = Style { colour: Colour::Palette(200), ..Style::default() };
        assert_eq!(
            styles,
            [Style::default(), red, Style::default(), pink, Style { behind: Colour::Rgb(1, 2, 3), ..pink }]
        );
        assert_eq!(text(&found), ["abcde"]);
        let broken = lines("\u{1b}[38mx\u{1b}[38;5my\u{1b}[999999999999mz");
        assert_eq!(text(&broken), ["xyz"]);
    }

    #[test]
    fn a_progress_bar_leaves_its_last_state() {
        assert_eq!(text(&lines("10%\r50%\r100%\ndone")), ["100%", "done"]);
        assert_eq!(text(&lines("longer\rab\u{1b}[K\n")), ["ab"]);
        assert_eq!(text(&lines("abc\u{8}\u{8}X\tend")), ["aXc     end"]);
        assert_eq!(text(&lines("a\n\nb\n")), ["a", "", "b"]);
        assert_eq!(text(&lines("")), Vec::<String>::new());
    }

    #[test]
    fn what_drives_a_terminal_is_left_out() {
        let evil = "\u{1b}]52;c;c2VjcmV0\u{7}\u{1b}]0;title\u{1b}\\\u{1b}[6n\u{1b}[?1049h\u{1b}[21t\u{1b}Pq\u{1b}\\\u{9b}c\u{7}ok\u{1b}[32m!\u{1b}[2A";
        assert_eq!(harmless(evil), "cok\u{1b}[32m!\u{1b}[2A");
        assert_eq!(text(&lines(evil)), ["cok!"]);
        assert_eq!(plain("one\ntwo\u{1b}[1m\u{202e}"), "one two\u{fffd}");
        assert_eq!(harmless("a\nb\r\nc"), "a\r\nb\r\nc");
    }

    #[test]
    fn a_far_jump_costs_little() {
        let jumped = lines("\u{1b}[99999999Cx");
        assert!(jumped.iter().flatten().map(|span| span.text.len()).sum::<usize>() <= MOST_COLUMNS + 1);
        assert_eq!(
            (rgb(1), rgb(16), rgb(231), rgb(255)),
            ((0xc5, 0x30, 0x30), (0, 0, 0), (255, 255, 255), (238, 238, 238))
        );
    }

    proptest! {
        #[test]
        fn any_text_ends_and_nothing_of_it_is_a_control(input in "(\\PC|\u{1b}|\\[|\\]|[0-9;:mK]|\r|\n|\t|\u{8}|\u{7}|\u{9b}){0,80}") {
            for span in lines(&input).iter().flatten() {
                prop_assert!(!span.text.chars().any(char::is_control), "{:?}", span.text);
            }
            prop_assert!(!plain(&input).chars().any(char::is_control));
            let once = harmless(&input);
            prop_assert_eq!(harmless(&once), once, "what is harmless stays as it is");
        }
    }
}
