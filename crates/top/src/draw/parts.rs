//! Pieces that all panes are drawn with.

use crate::app::{App, Link};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, BorderType, Padding, Paragraph};
use shellkeep_session::Timestamp;
use shellkeep_terminal::theme::{Level, Theme};

/// What the drawing needs beside the state.
#[derive(Debug, Clone, Copy)]
pub struct Look {
    /// The colours.
    pub theme: Theme,
    /// What time it is.
    pub now: Timestamp,
}

/// A pane with a title.
pub fn framed<'a>(title: impl Into<Line<'a>>, look: Look) -> Block<'a> {
    Block::bordered()
        .border_type(BorderType::Rounded)
        .border_style(look.theme.faint())
        .padding(Padding::horizontal(1))
        .title(title)
}

/// A title with room around it.
pub fn title(text: &str, look: Look) -> Line<'static> {
    Line::from(Span::styled(format!(" {text} "), look.theme.accent()))
}

/// A sentence in the middle of a pane where there is nothing else to show.
pub fn nothing(frame: &mut Frame<'_>, area: Rect, text: &str, style: Style) {
    let middle = Rect { y: area.y + area.height / 3, height: area.height - area.height / 3, ..area };
    let sentence = Paragraph::new(text).style(style).centered().wrap(ratatui::widgets::Wrap { trim: true });
    frame.render_widget(sentence, middle);
}

/// Whether the daemon answers, in words.
pub fn link(app: &App) -> (String, Level) {
    match &app.link {
        Link::Unknown => ("looking for the daemon".to_owned(), Level::Past),
        Link::Lost { .. } => ("no daemon; retrying".to_owned(), Level::Bad),
        Link::Up { .. } if app.node.as_ref().is_some_and(|node| !node.problems.is_empty()) => {
            ("degraded".to_owned(), Level::Near)
        }
        Link::Up { .. } => ("ready".to_owned(), Level::Good),
    }
}

/// A bar of `width` cells for a share. `open` is the share that is there to be used; the rest was taken away. What is
/// used, what is free and what is not to be had differ by their shape too, for those who see no colour.
pub fn bar(width: usize, share: f64, open: f64, look: Look) -> Vec<Span<'static>> {
    let cells = |share: f64| ((share.clamp(0.0, 1.0) * width as f64).round() as usize).min(width);
    // Something is more than nothing, and not everything is less than all.
    let mut used = cells(share);
    if share > 0.0 {
        used = used.max(1);
    }
    if share < 1.0 {
        used = used.min(width.saturating_sub(1));
    }
    let used = used.min(width);
    let open = cells(open).max(used);
    let level = if open == 0 { Level::Bad } else { Level::of(share / (open as f64 / width.max(1) as f64)) };
    vec![
        Span::styled("━".repeat(used), look.theme.level(level)),
        Span::styled("─".repeat(open - used), look.theme.faint()),
        Span::styled("╌".repeat(width - open), look.theme.level(Level::Near)),
    ]
}
