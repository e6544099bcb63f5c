//! Draws the screen. Everything here reads the state and changes nothing.

pub mod inspect;
mod log;
mod node;
mod overlay;
mod quotas;
mod tables;

use super::app::{App, Link};
use super::layout;
use super::theme::{Level, Theme};
use super::views::View;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, BorderType, Padding, Paragraph};
use shellkeep_session::Timestamp;

/// What the drawing needs beside the state.
#[derive(Debug, Clone, Copy)]
pub struct Look {
    /// The colours.
    pub theme: Theme,
    /// What time it is.
    pub now: Timestamp,
}

/// Draws everything.
pub fn screen(frame: &mut Frame<'_>, app: &App, look: Look) {
    let places = layout::places(frame.area(), app);
    if let Some(area) = places.line {
        node::line(frame, area, app, look);
    }
    if let Some(area) = places.node {
        node::pane(frame, area, app, look, places.rate.is_none());
    }
    if let Some(area) = places.rate {
        node::rate(frame, area, app, look);
    }
    if let Some(area) = places.quotas {
        quotas::pane(frame, area, app, look);
    }
    match app.views.last() {
        None => tables::tabs(frame, places.body, app, look),
        Some(View::Session(view)) => inspect::session(frame, places.body, view, look),
        Some(View::Service(view)) => inspect::service(frame, places.body, view, look),
        Some(View::Log(view)) => log::pane(frame, places.body, view, look),
    }
    overlay::footer(frame, places.footer, app, look);
    if let Some(question) = &app.question {
        overlay::question(frame, question, look);
    }
    if app.help {
        overlay::help(frame, look);
    }
}

/// A pane with a title.
fn framed<'a>(title: impl Into<Line<'a>>, look: Look) -> Block<'a> {
    Block::bordered()
        .border_type(BorderType::Rounded)
        .border_style(look.theme.faint())
        .padding(Padding::horizontal(1))
        .title(title)
}

/// A title with room around it.
fn title(text: &str, look: Look) -> Line<'static> {
    Line::from(Span::styled(format!(" {text} "), look.theme.accent()))
}

/// A sentence in the middle of a pane where there is nothing else to show.
fn nothing(frame: &mut Frame<'_>, area: Rect, text: &str, style: Style) {
    let middle = Rect { y: area.y + area.height / 3, height: area.height - area.height / 3, ..area };
    let sentence = Paragraph::new(text).style(style).centered().wrap(ratatui::widgets::Wrap { trim: true });
    frame.render_widget(sentence, middle);
}

/// Whether the daemon answers, in words.
fn link(app: &App) -> (String, Level) {
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
fn bar(width: usize, share: f64, open: f64, look: Look) -> Vec<Span<'static>> {
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

#[cfg(test)]
mod tests;
