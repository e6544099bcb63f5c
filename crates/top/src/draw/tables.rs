//! The lists: services, sessions, changes of limits.

use super::parts::{Look, framed, nothing};
use crate::app::{App, Tab};
use crate::columns::{self, Column, Fitted, GAP};
use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Row, Table};
use shellkeep_protocol::{LimitChange, Service, ServiceStatus, Session};
use shellkeep_terminal::list::List;
use shellkeep_terminal::theme::{Level, Theme};
use shellkeep_terminal::words;
use std::ops::Range;

const SERVICES: [Column; 11] = [
    Column::text("id", 3, 1),
    Column::text("session", 10, 2),
    Column::text("agent", 8, 7),
    Column::text("name", 10, 3),
    Column::text("status", 8, 0),
    Column::figures("pid", 7, 6),
    Column::text("ports", 6, 4),
    Column::figures("procs", 5, 9),
    Column::text("active", 8, 5),
    Column::figures("log", 9, 8),
    Column::figures("restarts", 8, 10),
];

const SESSIONS: [Column; 8] = [
    Column::text("session", 12, 0),
    Column::text("agent", 8, 3),
    Column::text("shell", 6, 1),
    Column::figures("pid", 7, 4),
    Column::text("active", 8, 2),
    Column::figures("records", 7, 6),
    Column::figures("shells", 6, 7),
    Column::text("cwd", 12, 5),
];

const CHANGES: [Column; 4] = [
    Column::text("when", 8, 2),
    Column::text("limit", 10, 0),
    Column::text("change", 12, 1),
    Column::text("reason", 12, 3),
];

/// A cell's text and look.
pub type Word = (String, Style);

/// The rows of a table.
pub struct Rows<'a> {
    pub words: &'a [Vec<Word>],
    /// Those to be seen.
    pub window: Range<usize>,
    pub selected: Option<usize>,
}

impl<'a> Rows<'a> {
    fn of_list(words: &'a [Vec<Word>], list: &List) -> Self {
        Self { words, window: list.window(), selected: Some(list.selected) }
    }
}

/// The lists under their headings, one of them open.
pub fn tabs(frame: &mut Frame<'_>, area: Rect, app: &App, look: Look) {
    let mut block = framed(headings(app, look), look);
    let note = note(app);
    if usize::from(area.width) > headings(app, look).width() + note.len() + 6 {
        block = block.title(Line::styled(format!(" {note} "), look.theme.faint()).right_aligned());
    }
    let inside = block.inner(area);
    frame.render_widget(block, area);
    match app.tab {
        Tab::Services if app.services.shown().is_empty() => {
            nothing(frame, inside, &no_services(app), look.theme.faint())
        }
        Tab::Services => services(frame, inside, app.services.shown(), &app.services.list, look),
        Tab::Sessions if app.sessions.page.sessions.is_empty() => {
            nothing(frame, inside, &no_sessions(app), look.theme.faint());
        }
        Tab::Sessions => sessions(frame, inside, app, look),
        Tab::Changes => changes(frame, inside, app, look),
    }
}

fn headings(app: &App, look: Look) -> Line<'static> {
    let node = app.node.as_ref();
    let mut spans = Vec::new();
    for (place, tab) in Tab::ALL.into_iter().enumerate() {
        let number = match tab {
            Tab::Services => node.map(|node| node.services),
            Tab::Sessions => node.map(|node| node.sessions),
            Tab::Changes => node.map(|node| node.quotas.changes.len()),
        };
        let number = number.map_or_else(String::new, |number| format!(" {}", words::count(number as u64)));
        let style = if tab == app.tab { look.theme.selected() } else { look.theme.faint() };
        spans.push(Span::raw(if place == 0 { "" } else { "─" }).style(look.theme.faint()));
        spans.push(Span::styled(format!(" {} {}{number} ", place + 1, tab.title()), style));
    }
    Line::from(spans)
}

/// What is shown of the list, in words.
fn note(app: &App) -> String {
    let filter = match app.filter() {
        "" => String::new(),
        filter => format!("/{} · ", words::cut(&words::clean(filter), 20)),
    };
    match app.tab {
        Tab::Services => format!("{filter}{}", app.services.order.words()),
        Tab::Sessions if app.sessions.is_searching() => format!("{filter}searching"),
        Tab::Sessions => {
            let (first, length) = (app.sessions.before, app.sessions.page.sessions.len());
            let more = if app.sessions.page.next.is_some() { " · more below" } else { "" };
            let count = |number: usize| words::count(number as u64);
            match length {
                0 => format!("{filter}none"),
                _ => format!("{filter}{} to {}{more}", count(first + 1), count(first + length)),
            }
        }
        Tab::Changes => "limits changed by the machine's pressure".to_owned(),
    }
}

fn no_services(app: &App) -> String {
    match (app.services.is_known(), app.services.filter.as_str()) {
        (false, _) => "…".to_owned(),
        (true, "") => "no running services; start one with `shellkeep services start -s NAME -- COMMAND`".to_owned(),
        (true, filter) => format!("no running service matches '{}'; Esc shows all", words::clean(filter)),
    }
}

fn no_sessions(app: &App) -> String {
    match (app.sessions.is_searching(), app.sessions.query.filter.as_str()) {
        (true, _) => "…".to_owned(),
        (false, "") => "no sessions yet; create one with `shellkeep run -s NAME -- COMMAND`".to_owned(),
        (false, filter) => {
            let searched = words::count(app.sessions.page.searched as u64);
            format!("none of {searched} sessions matches '{}'; Esc shows all", words::clean(filter))
        }
    }
}

/// A table of services.
pub fn services(frame: &mut Frame<'_>, area: Rect, services: &[Service], list: &List, look: Look) {
    let plain = Style::new();
    let faint = look.theme.faint();
    let word = |service: &Service| -> Vec<Word> {
        let ports: Vec<String> = service.ports.iter().map(u16::to_string).collect();
        let restarts = if service.restarts == 0 { faint } else { look.theme.level(Level::Near) };
        vec![
            (service.service_id.clone(), plain),
            (words::clean(&service.session_id), plain),
            (or_dash(service.agent.as_deref()), faint),
            (words::clean(&service.name), look.theme.figure()),
            (service.status.as_str().to_owned(), status(service.status, look.theme)),
            (service.pid.map_or_else(|| "–".to_owned(), |pid| pid.to_string()), plain),
            (ports.join(" "), look.theme.accent()),
            (words::count(service.processes as u64), plain),
            (words::ago(look.now, &service.last_active_at), plain),
            (words::bytes(service.log_bytes), plain),
            (service.restarts.to_string(), restarts),
        ]
    };
    let rows: Vec<Vec<Word>> = services.iter().map(word).collect();
    table(frame, area, &SERVICES, &Rows::of_list(&rows, list), look);
}

/// A status's look.
pub fn status(status: ServiceStatus, theme: Theme) -> Style {
    theme.level(match status {
        ServiceStatus::Running => Level::Good,
        ServiceStatus::Starting => Level::Near,
        ServiceStatus::Failed => Level::Bad,
        ServiceStatus::Exited | ServiceStatus::Stopped => Level::Past,
    })
}

fn sessions(frame: &mut Frame<'_>, area: Rect, app: &App, look: Look) {
    let plain = Style::new();
    let faint = look.theme.faint();
    let word = |session: &Session| -> Vec<Word> {
        let (shell, style) = if session.live {
            ("live", look.theme.level(Level::Good))
        } else {
            ("asleep", look.theme.level(Level::Past))
        };
        vec![
            (words::clean(&session.session_id), plain),
            (or_dash(session.agent.as_deref()), faint),
            (shell.to_owned(), style),
            (session.shell_pid.map_or_else(|| "–".to_owned(), |pid| pid.to_string()), plain),
            (words::ago(look.now, &session.last_active_at), plain),
            (words::count(session.seq), faint),
            (words::count(session.generation), faint),
            (words::clean(&session.cwd), faint),
        ]
    };
    let rows: Vec<Vec<Word>> = app.sessions.page.sessions.iter().map(word).collect();
    table(frame, area, &SESSIONS, &Rows::of_list(&rows, &app.sessions.list), look);
}

fn changes(frame: &mut Frame<'_>, area: Rect, app: &App, look: Look) {
    let known = app.node.as_ref().map(|node| node.quotas.changes.as_slice());
    let Some(changes @ [_, ..]) = known else {
        return nothing(frame, area, "no limit has changed; there is no pressure", look.theme.faint());
    };
    let word = |change: &LimitChange| -> Vec<Word> {
        let (sign, level) = if change.to < change.from { ("▼", Level::Near) } else { ("▲", Level::Good) };
        let amounts = format!("{} → {}", words::count(change.from), words::count(change.to));
        vec![
            (words::ago(look.now, &change.at), look.theme.faint()),
            (words::clean(&change.limit).replace('_', " "), Style::new()),
            (format!("{sign} {amounts}"), look.theme.level(level)),
            (words::clean(&change.reason), Style::new()),
        ]
    };
    let rows: Vec<Vec<Word>> = changes.iter().map(word).collect();
    table(frame, area, &CHANGES, &Rows::of_list(&rows, &app.changes), look);
}

fn or_dash(text: Option<&str>) -> String {
    text.map_or_else(|| "–".to_owned(), words::clean)
}

/// A table with the columns that fit.
pub fn table(frame: &mut Frame<'_>, area: Rect, columns: &[Column], rows: &Rows<'_>, look: Look) {
    let width = |place: usize| rows.words.iter().map(|row| Span::raw(&*row[place].0).width()).max().unwrap_or(0);
    let wanted: Vec<u16> = (0..columns.len()).map(|place| u16::try_from(width(place)).unwrap_or(u16::MAX)).collect();
    let kept = columns::fit(columns, &wanted, area.width);
    let line = |column: &Fitted, text: &str, style: Style| {
        let line = Line::styled(words::cut(text, usize::from(column.width)), style);
        Cell::from(if columns[column.place].right { line.right_aligned() } else { line })
    };
    let heading = kept.iter().map(|column| line(column, columns[column.place].title, look.theme.faint()));
    let Range { start, end } = rows.window;
    let shown = rows.words.iter().enumerate().take(end).skip(start).map(|(place, words)| {
        let selected = Some(place) == rows.selected;
        let cell = |column: &Fitted| {
            let (text, style) = &words[column.place];
            line(column, text, if selected { Style::new() } else { *style })
        };
        Row::new(kept.iter().map(cell).collect::<Vec<_>>()).style(if selected {
            look.theme.selected()
        } else {
            Style::new()
        })
    });
    let widths = kept.iter().map(|column| Constraint::Length(column.width));
    let table = Table::new(shown, widths).header(Row::new(heading.collect::<Vec<_>>())).column_spacing(GAP);
    frame.render_widget(table, area);
}
