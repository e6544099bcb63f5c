//! What the screen looks like, at several sizes and in several states.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test says what it expected by panicking")]

use super::*;
use crate::commands::top::samples::{self, now};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;

fn drawn(app: &mut App, width: u16, height: u16, colour: bool) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    let look = Look { theme: Theme::new(colour), now: now() };
    terminal
        .draw(|frame| {
            layout::fit(app, frame.area());
            screen(frame, app, look);
        })
        .unwrap();
    terminal.backend().buffer().clone()
}

fn lines(app: &mut App, width: u16, height: u16) -> Vec<String> {
    let buffer = drawn(app, width, height, true);
    let row = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
    (0..height).map(row).collect()
}

#[test]
fn show() {
    let mut app = samples::app();
    for (w, h) in [(160, 24), (110, 24), (60, 30), (60, 20), (40, 10)] {
        println!("{}", lines(&mut app, w, h).join("\n"));
    }
}
