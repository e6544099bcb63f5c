//! What lies over the rest, and the line at the bottom: keys, messages, questions, help.

use super::parts::{Look, framed, title};
use crate::app::{App, Purpose, Question, Tab};
use crate::views::View;
use ratatui::Frame;
use ratatui::layout::{Rect, Size};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Clear, Paragraph, Wrap};
use shellkeep_terminal::words;

/// A key and what it does, in a word.
type Hint = (&'static str, &'static str);

const SERVICES: &[Hint] = &[
    ("⏎", "inspect"),
    ("l", "log"),
    ("x", "stop"),
    ("/", "filter"),
    ("s", "sort"),
    ("Tab", "next"),
    ("?", "help"),
    ("q", "quit"),
];
const SESSIONS: &[Hint] = &[("⏎", "inspect"), ("/", "filter"), ("Tab", "next"), ("?", "help"), ("q", "quit")];
const CHANGES: &[Hint] = &[("Tab", "next"), ("?", "help"), ("q", "quit")];
const SESSION: &[Hint] = &[("⏎", "service"), ("l", "log"), ("x", "stop"), ("?", "help"), ("q", "back")];
const SERVICE: &[Hint] = &[("l", "log"), ("x", "stop"), ("?", "help"), ("q", "back")];
const LOG: &[Hint] =
    &[("f", "follow"), ("/", "search"), ("n", "next"), ("↑↓", "scroll"), ("x", "stop"), ("?", "help"), ("q", "back")];

const HELP: &[Hint] = &[
    ("1 2 3", "services, sessions, changes; Tab for the next"),
    ("↑ ↓ j k", "move; past the last session, to the next page"),
    ("space b", "one screen down, one up; also PgDn, PgUp"),
    ("g G", "to the first, to the last"),
    ("⏎", "inspect a session or a service"),
    ("/", "filter the list, @name for an agent's sessions; search a log"),
    ("s", "sort the services"),
    ("l", "follow the log of a service"),
    ("f", "in a log: toggle following"),
    ("n N", "in a log: the match above, the match below"),
    ("← →", "in a log: scroll sideways"),
    ("x", "stop a service, confirm with y"),
    ("q Esc", "back; from the lists, quit"),
];

/// The line at the bottom.
pub fn footer(frame: &mut Frame<'_>, area: Rect, app: &App, look: Look) {
    if let Some(prompt) = &app.prompt {
        let name = match prompt.purpose {
            Purpose::Filter => "filter",
            Purpose::Search => "search",
        };
        let line = Line::from(vec![
            Span::styled(format!(" {name} /"), look.theme.accent()),
            Span::raw(words::clean(&prompt.text)),
        ]);
        let end = area.x + u16::try_from(line.width()).unwrap_or(u16::MAX).min(area.width.saturating_sub(1));
        frame.render_widget(line, area);
        frame.set_cursor_position((end, area.y));
    } else if let Some(message) = &app.message {
        let text = words::cut(&words::clean(&message.text), usize::from(area.width.saturating_sub(2)));
        frame.render_widget(Line::styled(format!(" {text}"), look.theme.level(message.level)), area);
    } else {
        frame.render_widget(hints(hints_for(app), usize::from(area.width), look), area);
    }
}

fn hints_for(app: &App) -> &'static [Hint] {
    match (app.views.last(), app.tab) {
        (Some(View::Session(_)), _) => SESSION,
        (Some(View::Service(_)), _) => SERVICE,
        (Some(View::Log(_)), _) => LOG,
        (None, Tab::Services) => SERVICES,
        (None, Tab::Sessions) => SESSIONS,
        (None, Tab::Changes) => CHANGES,
    }
}

/// As many hints as fit, each whole. The last two, how to get help and how to get out, go last.
fn hints(hints: &[Hint], width: usize, look: Look) -> Line<'static> {
    let spans = |(key, word): &Hint| {
        let key = Span::styled(format!(" {key}"), look.theme.accent());
        [key, Span::styled(format!(" {word} "), look.theme.faint())]
    };
    let (others, last) = hints.split_at(hints.len().saturating_sub(2));
    let kept = (0..=others.len()).rev().map(|kept| {
        let shown = others[..kept].iter().chain(last);
        Line::from(shown.flat_map(spans).collect::<Vec<_>>())
    });
    // The blank behind the last one may be cut off.
    kept.into_iter().find(|line| line.width() <= width + 1).unwrap_or_default()
}

/// The question in the middle of the screen.
pub fn question(frame: &mut Frame<'_>, question: &Question, look: Look) {
    let Question { key, name } = question;
    let (service, session) = (words::clean(&key.service), words::clean(&key.session));
    let what = format!("Stop {service} ({}) of session {session} and everything it started?", words::clean(name));
    let keys = Line::from(vec![
        Span::styled("y", look.theme.accent()),
        Span::raw(" stop it    "),
        Span::styled("n", look.theme.accent()),
        Span::raw(" leave it"),
    ]);
    let lines = vec![Line::styled(what, look.theme.figure()), Line::default(), keys];
    popup(frame, "stop a service", lines, Size::new(56, 7), look);
}

/// The keys and what they do.
pub fn help(frame: &mut Frame<'_>, look: Look) {
    let mut lines: Vec<Line<'_>> = HELP
        .iter()
        .map(|(key, words)| Line::from(vec![Span::styled(format!("{key:<9}"), look.theme.accent()), Span::raw(*words)]))
        .collect();
    lines.push(Line::default());
    lines.push(Line::styled("any key closes this", look.theme.faint()));
    let height = u16::try_from(lines.len()).unwrap_or(u16::MAX).saturating_add(2);
    popup(frame, "keys", lines, Size::new(76, height), look);
}

fn popup(frame: &mut Frame<'_>, heading: &str, lines: Vec<Line<'_>>, size: Size, look: Look) {
    let screen = frame.area();
    let (width, height) = (size.width.min(screen.width), size.height.min(screen.height));
    let area = Rect { x: (screen.width - width) / 2, y: (screen.height - height) / 2, width, height };
    frame.render_widget(Clear, area);
    let block = framed(title(heading, look), look).border_style(look.theme.accent());
    frame.render_widget(Paragraph::new(lines).wrap(Wrap { trim: false }).block(block), area);
}
