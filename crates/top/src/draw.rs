//! Draws the screen. Everything here reads the state and changes nothing.

pub mod inspect;
mod log;
mod node;
mod overlay;
mod parts;
mod quotas;
mod running;
mod tables;

use super::app::App;
use super::layout;
use super::views::View;
pub use parts::Look;
use ratatui::Frame;

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
    if let (Some(area), Some(node)) = (places.running, &app.node) {
        running::pane(frame, area, node, look);
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

#[cfg(test)]
mod tests;
