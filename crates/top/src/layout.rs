//! Where things are on the screen, by its size.

use super::app::App;
use super::views::View;
use ratatui::layout::{Constraint, Layout, Rect};

/// From this width on, the quotas stand beside the node.
const WIDE: u16 = 104;
/// From this width on, the commands per second have a picture of their own.
const WIDEST: u16 = 150;
/// Height of the panes at the top, with their borders.
pub const HEADER: u16 = 8;
/// Height of the quotas where they stand below the node: the ones with a bar, and borders.
const QUOTAS: u16 = 5;
/// Height of the commands that run: a heading, three of them, and borders.
const RUNNING: u16 = 6;
/// From this height on, they have a place of their own and more room, whether some run or not.
const TALL: u16 = 36;
/// Their height there.
const RUNNING_TALL: u16 = 12;
/// The least height that the list needs to be of use.
const BODY: u16 = 8;

/// The places.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Places {
    /// The node in one line, where there is no room for more.
    pub line: Option<Rect>,
    pub node: Option<Rect>,
    /// Commands per second.
    pub rate: Option<Rect>,
    pub quotas: Option<Rect>,
    /// The commands that run.
    pub running: Option<Rect>,
    /// The list, or what was opened.
    pub body: Rect,
    /// Keys, messages, the line that is typed.
    pub footer: Rect,
}

/// Divides the screen.
pub fn places(area: Rect, app: &App) -> Places {
    let log = matches!(app.views.last(), Some(View::Log(_)));
    let wide = area.width >= WIDE;
    let room = area.height.saturating_sub(BODY + 1);
    let header = match room {
        // A log is read; it gets the room.
        _ if log => 1,
        _ if room < HEADER => 1,
        _ if wide || room < HEADER + QUOTAS => HEADER,
        _ => HEADER + QUOTAS,
    };
    let [top, body, footer] =
        Layout::vertical([Constraint::Length(header), Constraint::Min(0), Constraint::Length(1)]).areas(area);
    let mut places = Places { footer, ..Places::default() };
    let has_commands = app.node.as_ref().is_some_and(|node| !node.commands.is_empty());
    let running = match body.height {
        _ if log || app.node.is_none() => 0,
        height if area.height >= TALL && height >= BODY + RUNNING_TALL => RUNNING_TALL,
        height if has_commands && height >= BODY + RUNNING => RUNNING,
        _ => 0,
    };
    let [above, body] = Layout::vertical([Constraint::Length(running), Constraint::Min(0)]).areas(body);
    places.running = (running > 0).then_some(above);
    places.body = body;
    if header == 1 {
        places.line = Some(top);
    } else if area.width >= WIDEST {
        let parts = [Constraint::Length(58), Constraint::Min(20), Constraint::Length(54)];
        let [node, rate, quotas] = Layout::horizontal(parts).areas(top);
        (places.node, places.rate, places.quotas) = (Some(node), Some(rate), Some(quotas));
    } else if wide {
        let [node, quotas] = Layout::horizontal([Constraint::Min(0), Constraint::Length(46)]).areas(top);
        (places.node, places.quotas) = (Some(node), Some(quotas));
    } else {
        let [node, quotas] = Layout::vertical([Constraint::Length(HEADER), Constraint::Min(0)]).areas(top);
        places.node = Some(node);
        // Where there is room for one of the two, what happens now comes before what may happen.
        let quotas = (quotas.height > 2).then_some(quotas);
        match has_commands && places.running.is_none() {
            true => places.running = quotas,
            false => places.quotas = quotas,
        }
    }
    places
}

/// Tells the lists how much room they have.
pub fn fit(app: &mut App, area: Rect) {
    let places = places(area, app);
    let inside = usize::from(places.body.height.saturating_sub(2));
    let rows = inside.saturating_sub(1);
    app.services.list.set_height(rows);
    app.sessions.list.set_height(rows);
    app.changes.set_height(rows);
    match app.views.last_mut() {
        Some(View::Log(log)) => log.set_height(inside),
        Some(View::Session(view)) => view.list.set_height(inside.saturating_sub(super::draw::inspect::FACTS + 1)),
        Some(View::Service(view)) => {
            let most = super::draw::inspect::SERVICE_LINES.saturating_sub(inside);
            view.scroll = view.scroll.min(u16::try_from(most).unwrap_or(u16::MAX));
        }
        None => {}
    }
}
