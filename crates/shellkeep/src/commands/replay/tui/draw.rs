//! Draws the player's screen.

use super::app::{App, Purpose};
use super::detail::hue;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect, Size};
use ratatui::style::{Color, Modifier};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, BorderType, Clear, Padding, Paragraph, Wrap};
use shellkeep_record::player::Summary;
use shellkeep_terminal::theme::{Level, Theme};
use shellkeep_terminal::words;

/// From this width on, list and event are side by side.
const WIDE: u16 = 72;
/// Most columns for an event's type in a list of this many columns; a wide one has room for all types.
const fn type_width(list: usize) -> usize {
    if list < 60 { 12 } else { 24 }
}

/// A key and what it does, in a word.
type Hint = (&'static str, &'static str);

const KEYS: &[Hint] = &[
    ("→", "next"),
    ("←", "back"),
    ("g", "go to"),
    ("t", "type"),
    ("/", "search"),
    ("s", "secrets"),
    ("o", "output"),
    ("?", "help"),
    ("q", "quit"),
];
const SEARCHING: &[Hint] =
    &[("n", "next match"), ("N", "match before"), ("Esc", "end search"), ("→", "next"), ("?", "help"), ("q", "quit")];
const OPENED: &[Hint] = &[("↑↓", "scroll"), ("space", "page"), ("Tab", "other stream"), ("?", "help"), ("q", "back")];

const HELP: &[Hint] = &[
    ("→ n space", "the next event; also ↓ and j"),
    ("← b", "the previous event; also ↑ and k"),
    ("Home End", "the first, the last event"),
    ("g", "go to an event by its number"),
    ("t", "the next event of a type"),
    ("/", "search by a regular expression"),
    ("n N", "while searching: the next match, the previous match"),
    ("PgDn PgUp", "scroll the event; d and u by half"),
    ("s", "show or hide secrets"),
    ("o Enter", "open the output in full; Tab for the other stream"),
    ("Esc", "end the search"),
    ("q", "back; from the list, quit"),
];

pub fn screen(frame: &mut Frame<'_>, app: &mut App, theme: Theme) {
    let [top, body, footer] =
        Layout::vertical([Constraint::Length(1), Constraint::Min(0), Constraint::Length(1)]).areas(frame.area());
    if app.opened.is_some() {
        heading(frame, top, app, theme);
        opened(frame, body, app, theme);
    } else {
        let [list, event] = places(body);
        let inside = Size::new(event.width.saturating_sub(4), event.height.saturating_sub(2));
        app.fit(usize::from(list.height.saturating_sub(2)), inside, theme);
        heading(frame, top, app, theme);
        rows(frame, list, app, theme);
        detail(frame, event, app, theme);
    }
    bottom(frame, footer, app, theme);
    if app.help {
        help(frame, theme);
    }
}

/// The areas of the list and of the event.
fn places(body: Rect) -> [Rect; 2] {
    if body.width >= WIDE {
        let list = (body.width / 2).min(80);
        Layout::horizontal([Constraint::Length(list), Constraint::Min(0)]).areas(body)
    } else {
        Layout::vertical([Constraint::Percentage(40), Constraint::Min(0)]).areas(body)
    }
}

fn heading(frame: &mut Frame<'_>, area: Rect, app: &App, theme: Theme) {
    let name = words::cut(&words::clean(&app.name), usize::from(area.width / 2));
    let place = format!(" {} of {}", words::count(app.player.seq()), words::count(app.last));
    let (words, level) =
        if app.player.is_hidden() { ("secrets hidden", Level::Good) } else { ("secrets shown", Level::Bad) };
    let mut left = Line::from(vec![
        Span::styled(" replay ", theme.accent()),
        Span::styled(name, theme.figure()),
        Span::styled(place, theme.faint()),
    ]);
    // As many of the totals as fit between the two.
    let mut room = usize::from(area.width).saturating_sub(left.width() + words.len() + 4);
    for figure in &app.totals {
        let total = format!(" · {figure}");
        let Some(rest) = room.checked_sub(Span::raw(total.as_str()).width()) else { break };
        room = rest;
        left.spans.push(Span::styled(total, theme.faint()));
    }
    frame.render_widget(left, area);
    frame.render_widget(Line::styled(format!("● {words} "), theme.level(level)).right_aligned(), area);
}

fn framed<'a>(title: impl Into<Line<'a>>, theme: Theme) -> Block<'a> {
    Block::bordered()
        .border_type(BorderType::Rounded)
        .border_style(theme.faint())
        .padding(Padding::horizontal(1))
        .title(title)
}

fn rows(frame: &mut Frame<'_>, area: Rect, app: &App, theme: Theme) {
    let block = framed(Line::styled(" events ", theme.accent()), theme);
    let inside = block.inner(area);
    frame.render_widget(block, area);
    if app.rows.is_empty() {
        let words = Paragraph::new("nothing was recorded yet").style(theme.faint()).wrap(Wrap { trim: true });
        return frame.render_widget(words, inside);
    }
    let width = usize::from(inside.width);
    let window = app.list.window();
    let lines: Vec<Line<'_>> = app.rows[window.clone()]
        .iter()
        .zip(window)
        .map(|(row, place)| entry(row, place == app.list.selected, width, theme))
        .collect();
    frame.render_widget(Paragraph::new(lines), inside);
}

/// One row in the list: time, type, text, changed files, outcome.
fn entry(row: &Summary, selected: bool, width: usize, theme: Theme) -> Line<'static> {
    let time = row.timestamp.strftime("%H:%M:%S").to_string();
    // A command says what it is.
    let name = match row.run_id.is_some() || row.event_type == "run_started" {
        true => String::new(),
        false => format!("{} ", words::cut(&words::clean(&row.event_type), type_width(width))),
    };
    let outcome = match (&row.outcome, row.failed) {
        (Some(outcome), true) => format!(" {}", words::cut(outcome, 12)),
        (None, true) => " !".to_owned(),
        // Success is not shown.
        _ => String::new(),
    };
    let files = row.files.map_or_else(String::new, |files| format!(" {files}"));
    let width_of = |text: &str| Span::raw(text).width();
    let used = time.len() + 1 + width_of(&name) + files.len() + width_of(&outcome);
    let words = words::cut(&words::clean(&row.text), width.saturating_sub(used));
    let blank = width.saturating_sub(used + width_of(&words));
    let line = Line::from(vec![
        Span::styled(format!("{time} "), theme.faint()),
        Span::styled(name, hue(row.kind, theme)),
        Span::raw(format!("{words}{}", " ".repeat(blank))),
        Span::styled(files, theme.painted(Color::Yellow)),
        Span::styled(outcome, theme.level(Level::Bad)),
    ]);
    if !selected {
        return line;
    }
    // One style for the whole row; otherwise the styles of its parts would show.
    Line::styled(line.to_string(), theme.selected())
}

fn detail(frame: &mut Frame<'_>, area: Rect, app: &App, theme: Theme) {
    let title = format!(" event {} ", app.player.seq());
    let (lines, all) = app.detail();
    let mut block = framed(Line::styled(title, theme.accent()), theme);
    if all > lines.len() {
        let place = format!(" line {} to {} of {all} ", app.scroll + 1, app.scroll + lines.len());
        block = block.title_bottom(Line::styled(place, theme.faint()).right_aligned());
    }
    let inside = block.inner(area);
    frame.render_widget(block, area);
    let lines: Vec<Line<'_>> = lines.iter().map(|line| found(line, app.search.as_deref(), theme)).collect();
    frame.render_widget(Paragraph::new(lines), inside);
}

/// A line with the matches highlighted, if the pattern is plain text.
fn found(line: &Line<'static>, search: Option<&str>, theme: Theme) -> Line<'static> {
    let Some(search) = search.filter(|search| !search.is_empty()) else { return line.clone() };
    let mut spans = Vec::new();
    for span in &line.spans {
        let mut rest = span.content.as_ref();
        while let Some(place) = rest.find(search) {
            spans.push(Span::styled(rest[..place].to_owned(), span.style));
            spans.push(Span::styled(search.to_owned(), theme.found()));
            rest = &rest[place + search.len()..];
        }
        spans.push(Span::styled(rest.to_owned(), span.style));
    }
    Line::from(spans).style(line.style)
}

fn opened(frame: &mut Frame<'_>, area: Rect, app: &mut App, theme: Theme) {
    let Some(opened) = &mut app.opened else { return };
    let block = framed(Line::styled(format!(" {} ", opened.title()), theme.accent()), theme)
        .title_bottom(Line::styled(format!(" {} ", opened.place()), theme.faint()).right_aligned());
    let inside = block.inner(area);
    frame.render_widget(block, area);
    let rows = opened.rows(usize::from(inside.width), usize::from(inside.height), theme);
    frame.render_widget(Paragraph::new(rows.to_vec()), inside);
}

fn bottom(frame: &mut Frame<'_>, area: Rect, app: &App, theme: Theme) {
    if let Some(prompt) = &app.prompt {
        let name = match prompt.purpose {
            Purpose::Jump => "go to event",
            Purpose::Type => "next of type",
            Purpose::Search => "search",
        };
        let line =
            Line::from(vec![Span::styled(format!(" {name}: "), theme.accent()), Span::raw(words::clean(&prompt.text))]);
        let end = area.x + u16::try_from(line.width()).unwrap_or(u16::MAX).min(area.width.saturating_sub(1));
        frame.render_widget(line, area);
        frame.set_cursor_position((end, area.y));
    } else if let Some(message) = &app.message {
        let words = words::cut(&words::clean(&message.text), usize::from(area.width.saturating_sub(2)));
        frame.render_widget(Line::styled(format!(" {words}"), theme.level(message.level)), area);
    } else {
        let hints = match (&app.opened, &app.search) {
            (Some(_), _) => OPENED,
            (None, Some(_)) => SEARCHING,
            (None, None) => KEYS,
        };
        frame.render_widget(fitting(hints, usize::from(area.width), theme), area);
    }
}

/// As many hints as fit, each complete. The last two, help and quit, are dropped last.
fn fitting(hints: &[Hint], width: usize, theme: Theme) -> Line<'static> {
    let spans = |(key, word): &Hint| {
        [Span::styled(format!(" {key}"), theme.accent()), Span::styled(format!(" {word} "), theme.faint())]
    };
    let (others, last) = hints.split_at(hints.len().saturating_sub(2));
    let mut kept = (0..=others.len())
        .rev()
        .map(|kept| Line::from(others[..kept].iter().chain(last).flat_map(spans).collect::<Vec<_>>()));
    kept.find(|line| line.width() <= width + 1).unwrap_or_default()
}

fn help(frame: &mut Frame<'_>, theme: Theme) {
    let row =
        |(key, words): &Hint| Line::from(vec![Span::styled(format!("{key:<11}"), theme.accent()), Span::raw(*words)]);
    let mut lines: Vec<Line<'_>> = HELP.iter().map(row).collect();
    lines.push(Line::default());
    lines.push(Line::styled("any key closes this", theme.faint().add_modifier(Modifier::ITALIC)));
    let screen = frame.area();
    let height = u16::try_from(lines.len()).unwrap_or(u16::MAX).saturating_add(2).min(screen.height);
    let width = 68.min(screen.width);
    let area = Rect { x: (screen.width - width) / 2, y: (screen.height - height) / 2, width, height };
    frame.render_widget(Clear, area);
    let block = framed(Line::styled(" keys ", theme.accent()), theme).border_style(theme.accent());
    frame.render_widget(Paragraph::new(lines).wrap(Wrap { trim: false }).block(block), area);
}
