//! Breaks lines at the width of the screen, so that all of them can be scrolled.

use ratatui::text::{Line, Span};

/// The lines, none wider than this. Characters keep their styles.
pub fn wrap(lines: Vec<Line<'static>>, width: usize) -> Vec<Line<'static>> {
    let width = width.max(1);
    let mut wrapped = Vec::with_capacity(lines.len());
    for line in lines {
        if line.width() <= width {
            wrapped.push(line);
        } else {
            broken(&line, width, &mut wrapped);
        }
    }
    wrapped
}

fn broken(line: &Line<'static>, width: usize, wrapped: &mut Vec<Line<'static>>) {
    let mut row: Vec<Span<'static>> = Vec::new();
    let mut column = 0;
    for span in &line.spans {
        let mut text = String::new();
        for c in span.content.chars() {
            let cells = cells(c);
            if column + cells > width && column > 0 {
                row.push(Span::styled(std::mem::take(&mut text), span.style));
                wrapped.push(Line::from(std::mem::take(&mut row)).style(line.style));
                column = 0;
            }
            text.push(c);
            column += cells;
        }
        if !text.is_empty() {
            row.push(Span::styled(text, span.style));
        }
    }
    wrapped.push(Line::from(row).style(line.style));
}

/// How wide a character is.
fn cells(c: char) -> usize {
    if c.is_ascii() { 1 } else { Span::raw(c.to_string()).width() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::style::{Color, Style};

    #[test]
    fn nothing_is_lost_and_nothing_is_too_wide() {
        let red = Style::new().fg(Color::Red);
        let line = Line::from(vec![Span::raw("ab"), Span::styled("cdefg", red), Span::raw("日本語")]);
        let rows = wrap(vec![line, Line::raw(""), Line::raw("x")], 4);
        let text: Vec<String> = rows.iter().map(ToString::to_string).collect();
        assert_eq!(text, ["abcd", "efg", "日本", "語", "", "x"]);
        assert!(rows.iter().all(|row| row.width() <= 4));
        assert_eq!(rows[0].spans[1].style, red);
        assert_eq!(wrap(vec![Line::raw("日")], 1).len(), 1, "a wide one on a narrow screen is shown all the same");
    }
}
