//! The quotas: what is used, what is in force, what was configured.

use super::parts::{Look, bar, framed, title};
use crate::app::App;
use crate::quotas::{amount, full, label, sorted};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};
use shellkeep_protocol::Quota;
use shellkeep_terminal::theme::Level;
use shellkeep_terminal::words;

/// Cells of a name before its bar.
const NAME: usize = 12;
/// Cells of the figures behind a bar.
const FIGURES: usize = 18;

/// The quotas in a pane: those that are used up by and by with a bar, then the others as far as there is room.
pub fn pane(frame: &mut Frame<'_>, area: Rect, app: &App, look: Look) {
    let block = framed(title("quotas", look), look);
    let inside = block.inner(area);
    frame.render_widget(block, area);
    let Some(node) = &app.node else { return };
    let (used, fixed): (Vec<_>, Vec<_>) =
        sorted(&node.quotas.quotas).into_iter().partition(|(_, quota)| quota.used.is_some());
    let [bars, rest] =
        Layout::vertical([Constraint::Length(u16::try_from(used.len()).unwrap_or(u16::MAX)), Constraint::Min(0)])
            .areas(inside);
    for ((name, quota), row) in used.into_iter().zip(bars.rows()) {
        frame.render_widget(row_with_bar(name, quota, usize::from(row.width), look), row);
    }
    let half = inside.width.saturating_sub(2) / 2;
    for (place, (name, quota)) in fixed.into_iter().enumerate() {
        let (column, line) = (u16::from(place % 2 == 1), u16::try_from(place / 2).unwrap_or(u16::MAX));
        if line < rest.height {
            let cell = Rect { x: rest.x + column * (half + 2), y: rest.y + line, width: half, height: 1 };
            fixed_cell(frame, cell, name, quota, look);
        }
    }
}

fn row_with_bar(name: &str, quota: &Quota, width: usize, look: Look) -> Line<'static> {
    let used = quota.used.unwrap_or(0);
    let whole = full(quota).max(quota.limit).max(1) as f64;
    let level = if quota.limit == 0 { Level::Bad } else { Level::of(used as f64 / quota.limit as f64) };
    let style = if level == Level::Good { look.theme.figure() } else { look.theme.level(level) };
    let mark = if level == Level::Bad { "!" } else { " " };
    let figures = format!("{}/{}", amount(name, used), amount(name, quota.limit));
    let reduced = quota.limit < full(quota);
    let of = if reduced { format!(" of {}", amount(name, full(quota))) } else { String::new() };
    let room = FIGURES.max(figures.len() + of.len() + 1);
    let cells = width.saturating_sub(NAME + 1 + room + 1);
    let mut spans = vec![Span::styled(format!("{:<NAME$} ", words::cut(&label(name), NAME)), look.theme.faint())];
    spans.extend(bar(cells, used as f64 / whole, quota.limit as f64 / whole, look));
    let blank = room.saturating_sub(figures.len() + of.len());
    spans.push(Span::raw(" ".repeat(blank)));
    spans.push(Span::styled(figures, style));
    spans.push(Span::styled(of, look.theme.level(Level::Near)));
    spans.push(Span::styled(mark, style));
    Line::from(spans)
}

fn fixed_cell(frame: &mut Frame<'_>, area: Rect, name: &str, quota: &Quota, look: Look) {
    let value = amount(name, quota.limit);
    let changed = quota.limit != quota.configured;
    let style = if changed { look.theme.level(Level::Near) } else { look.theme.figure() };
    let room = usize::from(area.width).saturating_sub(value.len() + 1);
    frame.render_widget(Line::styled(words::cut(&label(name), room), look.theme.faint()), area);
    frame.render_widget(Line::styled(value, style).right_aligned(), area);
}
