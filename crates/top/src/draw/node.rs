//! The node in figures, gauges and a picture of its commands per second.

use super::parts::{Look, bar, framed, link, title};
use crate::app::{App, Link};
use crate::rates::WINDOW;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Sparkline};
use shellkeep_protocol::Node;
use shellkeep_terminal::theme::Level;
use shellkeep_terminal::words;

/// Cells between the two columns of figures.
const BETWEEN: u16 = 4;
/// Cells of a percentage with the blank before it.
const PERCENT: u16 = 6;
/// Cells of the rate where it stands before its picture.
const RATE: u16 = 22;
/// Levels that one row of the picture can show.
const LEVELS: u64 = 8;
/// Rates are drawn in thousandths, so that a slow daemon has a picture too.
const PARTS: f64 = 1000.0;

/// The node in one line: as many facts as fit, each whole.
pub fn line(frame: &mut Frame<'_>, area: Rect, app: &App, look: Look) {
    let (words, level) = link(app);
    let mut spans = vec![Span::styled(" shellkeep ", look.theme.accent())];
    spans.push(Span::styled(format!("● {words}"), look.theme.level(level)));
    let mut left = usize::from(area.width).saturating_sub(spans.iter().map(Span::width).sum());
    for fact in app.node.iter().flat_map(|node| facts(node, app)) {
        let pair = [Span::styled(" · ", look.theme.faint()), Span::raw(fact)];
        let width: usize = pair.iter().map(Span::width).sum();
        if width > left {
            break;
        }
        left -= width;
        spans.extend(pair);
    }
    frame.render_widget(Line::from(spans), area);
}

fn facts(node: &Node, app: &App) -> [String; 7] {
    [
        format!("up {}", words::span(node.uptime)),
        words::counted(node.sessions, "session"),
        words::counted(node.services, "service"),
        format!("{} commands/s", rate_words(app)),
        format!("{} waiting", words::count(node.waiting as u64)),
        format!("cpu pressure {}", words::percent(node.cpu_pressure)),
        format!("memory pressure {}", words::percent(node.memory_pressure)),
    ]
}

/// The node in a pane, with the commands per second in its last line unless they have a pane of their own.
pub fn pane(frame: &mut Frame<'_>, area: Rect, app: &App, look: Look, with_rate: bool) {
    let block = frame_of(app, look);
    let inside = block.inner(area);
    frame.render_widget(block, area);
    let Some(node) = &app.node else { return };
    let rows: [Rect; 6] = Layout::vertical([Constraint::Length(1); 6]).areas(inside);
    for (pair, row) in figures(node).into_iter().zip(rows) {
        for ((name, value), half) in pair.into_iter().zip(halves(row)) {
            figure(frame, half, name, value, look);
        }
    }
    let pressures = [("cpu pressure", node.cpu_pressure), ("mem pressure", node.memory_pressure)];
    for ((name, share), half) in pressures.into_iter().zip(halves(rows[4])) {
        gauge(frame, half, name, share, look);
    }
    if with_rate {
        let [name, picture] = Layout::horizontal([Constraint::Length(RATE), Constraint::Min(0)]).areas(rows[5]);
        figure(frame, Rect { width: name.width.saturating_sub(2), ..name }, "commands/s", rate_words(app), look);
        spark(frame, picture, app, look);
    } else {
        let [left, _] = halves(rows[5]);
        figure(frame, left, "commands", words::count(node.commands_total), look);
    }
}

/// The commands per second in a pane.
pub fn rate(frame: &mut Frame<'_>, area: Rect, app: &App, look: Look) {
    let minutes = WINDOW.as_secs() / 60;
    let heading = format!("commands/s {}", rate_words(app));
    let peak = format!(" peak {} in {minutes} min ", words::rate(app.rates.peak()));
    let block = framed(title(&heading, look), look).title(Line::styled(peak, look.theme.faint()).right_aligned());
    let inside = block.inner(area);
    frame.render_widget(block, area);
    spark(frame, inside, app, look);
}

fn frame_of(app: &App, look: Look) -> Block<'static> {
    let (words, level) = link(app);
    let mut about = "shellkeep".to_owned();
    if let Link::Up { version, pid } = &app.link {
        about.push_str(&format!(" {} · pid {pid}", words::clean(version)));
    }
    if let Some(node) = &app.node {
        about.push_str(&format!(" · up {}", words::span(node.uptime)));
    }
    let style = look.theme.level(level);
    let block = framed(title(&about, look), look).title(Line::styled(format!(" ● {words} "), style).right_aligned());
    match problem(app) {
        Some(reason) => block.title_bottom(Line::styled(format!(" {} ", words::clean(reason)), style)),
        None => block,
    }
}

/// What is wrong, if anything is.
fn problem(app: &App) -> Option<&str> {
    match &app.link {
        Link::Lost { reason } => Some(reason),
        _ => app.node.as_ref().and_then(|node| node.problems.first()).map(String::as_str),
    }
}

fn figures(node: &Node) -> [[(&'static str, String); 2]; 4] {
    let count = |number: usize| words::count(number as u64);
    let queue = match node.waiting {
        0 => "0".to_owned(),
        waiting => format!("{} of {}", count(waiting), words::counted(node.agents_waiting, "agent")),
    };
    let shells = format!("{} live · {} spare", count(node.live_shells), count(node.spare_shells));
    let running = format!("{} of {}", count(node.running), count(node.running_limit));
    [
        [("sessions", count(node.sessions)), ("shells", shells)],
        [("services", count(node.services)), ("processes", words::count(node.processes))],
        [("running", running), ("queue", queue)],
        [("daemon memory", words::bytes(node.memory)), ("free memory", words::percent(node.memory_free))],
    ]
}

fn halves(row: Rect) -> [Rect; 2] {
    let width = row.width.saturating_sub(BETWEEN) / 2;
    [Rect { width, ..row }, Rect { x: row.x + width + BETWEEN.min(row.width), width, ..row }]
}

fn figure(frame: &mut Frame<'_>, area: Rect, name: &str, value: String, look: Look) {
    let room = usize::from(area.width).saturating_sub(name.len() + 1);
    frame.render_widget(Line::styled(name.to_owned(), look.theme.faint()), area);
    frame.render_widget(Line::styled(words::cut(&value, room), look.theme.figure()).right_aligned(), area);
}

fn gauge(frame: &mut Frame<'_>, area: Rect, name: &str, share: f64, look: Look) {
    let width = usize::from(area.width.saturating_sub(PERCENT)).saturating_sub(name.len() + 1);
    let mut spans = vec![Span::styled(format!("{name} "), look.theme.faint())];
    spans.extend(bar(width, share, 1.0, look));
    frame.render_widget(Line::from(spans), area);
    let level = Level::of(share);
    let style = if level == Level::Good { look.theme.figure() } else { look.theme.level(level) };
    frame.render_widget(Line::styled(words::percent(share), style).right_aligned(), area);
}

fn rate_words(app: &App) -> String {
    app.rates.current().map_or_else(|| "–".to_owned(), words::rate)
}

fn spark(frame: &mut Frame<'_>, area: Rect, app: &App, look: Look) {
    let levels = LEVELS * u64::from(area.height.max(1));
    let most = ((app.rates.peak() * PARTS) as u64).max(levels);
    // Nothing is a thin line; only where no one looked there is no line.
    let least = most.div_ceil(levels);
    let columns = app.rates.columns(usize::from(area.width));
    let data: Vec<Option<u64>> =
        columns.into_iter().map(|rate| rate.map(|rate| ((rate * PARTS) as u64).max(least))).collect();
    let picture = Sparkline::default().data(data).max(most).style(look.theme.level(Level::Good));
    frame.render_widget(picture.absent_value_symbol(" "), area);
}
