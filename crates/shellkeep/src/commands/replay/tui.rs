//! The player on a terminal: events on the left, the selected one on the right.

mod app;
mod changed;
mod detail;
mod draw;
mod keys;
mod opened;
mod wrap;

use super::source::Events;
use crate::failure::Failure;
use app::{App, Effect};
use ratatui::crossterm::event::{Event, KeyEventKind};
use shellkeep_record::player::Player;
use shellkeep_terminal::Signals;
use shellkeep_terminal::screen::{self, Screen};
use shellkeep_terminal::theme::Theme;
use std::process::ExitCode;

/// Exit codes of a program that a signal ended, as shells report it.
const SIGNALLED: u8 = 128;

/// Shows the player until it is left. `locked` keeps secrets hidden whatever key is pressed.
pub async fn run(player: Player<Events>, locked: bool) -> Result<ExitCode, Failure> {
    let mut app = App::new(player, locked).map_err(Failure::client)?;
    let mut signals = Signals::listen().map_err(Failure::client)?;
    let unusable = |error| Failure::client(format!("cannot use the terminal: {error}; try --fast"));
    let mut screen = Screen::open().map_err(unusable)?;
    let mut keys = screen::events();
    let theme = Theme::from_environment();
    loop {
        let drawn = screen.draw(|frame| draw::screen(frame, &mut app, theme));
        drawn.map_err(|error| Failure::client(format!("the terminal is gone: {error}")))?;
        let event = tokio::select! {
            event = keys.recv() => event.ok_or_else(|| Failure::client("the terminal is gone"))?,
            number = signals.next() => return Ok(ExitCode::from(SIGNALLED + number)),
        };
        let effect = match event {
            Event::Key(key) if key.kind != KeyEventKind::Release => app.on_key(key),
            // A new size is detected when the screen is drawn.
            _ => None,
        };
        match effect {
            Some(Effect::Quit) => return Ok(ExitCode::SUCCESS),
            Some(Effect::Suspend) => screen.suspend().map_err(Failure::client)?,
            None => {}
        }
    }
}
