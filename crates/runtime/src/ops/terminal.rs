//! The terminal of a run: its size, and what its screen shows.

use shellkeep_process::TerminalSize;
use shellkeep_session::RunId;
use std::time::Duration;

/// Most rows or columns of a terminal: two screens of this size take about 10 MB.
pub const MAX_TERMINAL_SIDE: u16 = 500;

/// Read the screen of a run.
#[derive(Debug, Clone)]
pub struct ScreenQuery {
    /// What to wait for first.
    pub wait: ScreenWait,
    /// How long to wait at most.
    pub timeout: Duration,
}

/// What a reader of a screen waits for. The end of the run ends every wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScreenWait {
    /// Nothing: the screen as it is.
    Nothing,
    /// A version other than this one; other than the current one if none is given.
    Change { since: Option<u64> },
    /// No change for this long.
    Quiet(Duration),
    /// A text on the screen that matches this regular expression.
    Match(String),
}

/// Default number of screens per page.
pub const DEFAULT_SCREEN_PAGE: usize = 100;
/// Maximum number of screens per page.
pub const MAX_SCREEN_PAGE: usize = 1000;

/// Read the screens that a run with a terminal had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PastScreenQuery {
    /// The moment of the first one, since the run started.
    pub from: Duration,
    /// Most screens to return.
    pub limit: usize,
    /// Whether secrets are masked.
    pub redact: bool,
}

/// The screens that a run with a terminal had, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PastScreens {
    pub run_id: RunId,
    pub screens: Vec<PastScreen>,
    /// The moment of the screen after the last one here.
    pub next: Option<Duration>,
}

/// A screen as it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PastScreen {
    /// When it was drawn, since the run started.
    pub at: Duration,
    pub size: TerminalSize,
    pub cursor: ScreenCursor,
    /// Whether the program used the alternate screen, as full-screen programs do.
    pub alternate: bool,
    /// The rows that differ from those of the screen before it, with their places.
    pub changed: Vec<(usize, ScreenRow)>,
}

/// What a screen shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScreenView {
    pub run_id: RunId,
    pub size: TerminalSize,
    pub cursor: ScreenCursor,
    /// Whether the program uses the alternate screen, as full-screen programs do.
    pub alternate: bool,
    /// The window title that the program set.
    pub title: Option<String>,
    /// One for each row, from the top.
    pub rows: Vec<ScreenRow>,
    /// Escape sequences that draw this screen on a terminal of the same size.
    pub dump: String,
    /// Grows with every change.
    pub version: u64,
    /// Bytes of output that are in it.
    pub offset: u64,
    /// Whether a secret was masked.
    pub masked: bool,
    /// Whether the run has not ended.
    pub running: bool,
    /// Whether the wait reached its timeout.
    pub timed_out: bool,
}

impl ScreenView {
    /// The rows as text, without blanks at their ends.
    pub fn lines(&self) -> Vec<String> {
        self.rows.iter().map(|row| row_text(row)).collect()
    }
}

/// Where the cursor is, counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScreenCursor {
    pub row: usize,
    pub col: usize,
    pub visible: bool,
}

/// A row: pieces of text, each in one style. Blanks at the end are left out.
pub type ScreenRow = Vec<ScreenSpan>;

/// Text in one style.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScreenSpan {
    pub text: String,
    pub style: SpanStyle,
}

/// How text looks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SpanStyle {
    pub foreground: Option<ScreenColour>,
    pub background: Option<ScreenColour>,
    pub bold: bool,
    pub faint: bool,
    pub italic: bool,
    pub underline: bool,
    pub strikethrough: bool,
    pub blink: bool,
    pub inverse: bool,
}

/// A colour of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScreenColour {
    /// Of the palette of 256.
    Indexed(u8),
    Rgb {
        red: u8,
        green: u8,
        blue: u8,
    },
}

/// The text of a row.
pub fn row_text(row: &[ScreenSpan]) -> String {
    let text: String = row.iter().map(|span| span.text.as_str()).collect();
    text.trim_end().to_owned()
}
