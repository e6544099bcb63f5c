//! The rows of a screen: as styled text, and with secrets masked.

use crate::ops::{ScreenColour, ScreenCursor, ScreenRow, ScreenSpan, SpanStyle, row_text};
use avt::{Cell, Color, Line, Pen, Terminal};
use shellkeep_redact::Redactor;

/// The rows that are visible.
pub(super) fn of(terminal: &Terminal) -> Vec<ScreenRow> {
    terminal.screen().visible_lines().map(row).collect()
}

/// The rows with their secrets masked; `None` if there is no secret. A line that is longer than a row is masked as one,
/// and loses its colours if something in it is masked.
pub(super) fn masked(terminal: &Terminal, redactor: &Redactor) -> Option<Vec<ScreenRow>> {
    let cols = terminal.size().0;
    let (mut rows, mut any) = (Vec::new(), false);
    let mut waiting: Vec<&Line> = Vec::new();
    let lines: Vec<&Line> = terminal.screen().visible_lines().collect();
    for (index, line) in lines.iter().enumerate() {
        waiting.push(line);
        if line.is_wrapped() && index + 1 < lines.len() {
            continue;
        }
        let text: String = waiting.iter().flat_map(|line| line.chars()).collect();
        let hidden = redactor.redact_str(text.trim_end());
        if hidden == text.trim_end() {
            rows.extend(waiting.drain(..).map(row));
            continue;
        }
        any = true;
        let letters: Vec<char> = hidden.chars().collect();
        let mut pieces = letters.chunks(cols);
        for _ in waiting.drain(..) {
            let text: String = pieces.next().unwrap_or_default().iter().collect();
            rows.push(vec![ScreenSpan { text, style: SpanStyle::default() }]);
        }
    }
    any.then_some(rows)
}

/// Escape sequences that draw these rows without their colours.
pub(super) fn drawn(rows: &[ScreenRow], cursor: ScreenCursor) -> String {
    let text: Vec<String> = rows.iter().map(|row| row_text(row)).collect();
    let shown = if cursor.visible { "" } else { "\x1b[?25l" };
    format!("\x1b[H\x1b[2J{}\x1b[{};{}H{shown}", text.join("\r\n"), cursor.row + 1, cursor.col + 1)
}

fn row(line: &Line) -> ScreenRow {
    let mut spans: Vec<(Pen, String)> = Vec::new();
    let blank = Cell::default();
    let used = line.cells().iter().rposition(|cell| *cell != blank).map_or(0, |last| last + 1);
    // The second half of a wide character has no width of its own.
    for cell in line.cells()[..used].iter().filter(|cell| cell.width() > 0) {
        match spans.last_mut() {
            Some((pen, text)) if pen == cell.pen() => text.push(cell.char()),
            _ => spans.push((*cell.pen(), cell.char().to_string())),
        }
    }
    spans.into_iter().map(|(pen, text)| ScreenSpan { text, style: style(&pen) }).collect()
}

fn style(pen: &Pen) -> SpanStyle {
    SpanStyle {
        foreground: pen.foreground().map(colour),
        background: pen.background().map(colour),
        bold: pen.is_bold(),
        faint: pen.is_faint(),
        italic: pen.is_italic(),
        underline: pen.is_underline(),
        strikethrough: pen.is_strikethrough(),
        blink: pen.is_blink(),
        inverse: pen.is_inverse(),
    }
}

fn colour(colour: Color) -> ScreenColour {
    match colour {
        Color::Indexed(index) => ScreenColour::Indexed(index),
        Color::RGB(rgb) => ScreenColour::Rgb { red: rgb.r, green: rgb.g, blue: rgb.b },
    }
}
