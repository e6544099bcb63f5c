//! The commands that run: which session, for how long, and what.

use super::parts::{Look, framed, nothing, title};
use super::tables::{Rows, Word, table};
use crate::columns::Column;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use shellkeep_protocol::{Node, RunningCommand};
use shellkeep_terminal::words;

const COLUMNS: [Column; 5] = [
    Column::figures("for", 6, 0),
    Column::text("session", 8, 1),
    Column::text("agent", 8, 4),
    Column::text("run", 3, 3),
    Column::text("command", 12, 2),
];

/// The commands that run longest, as many as there is room for.
pub fn pane(frame: &mut Frame<'_>, area: Rect, node: &Node, look: Look) {
    let rows = usize::from(area.height.saturating_sub(3));
    let hidden = node.running.max(node.commands.len()).saturating_sub(rows);
    let more = if hidden > 0 { format!(" · {} more", words::count(hidden as u64)) } else { String::new() };
    let heading =
        format!("running {} of {}{more}", words::count(node.running as u64), words::count(node.running_limit as u64));
    let block = framed(title(&heading, look), look);
    let inside = block.inner(area);
    frame.render_widget(block, area);
    if node.commands.is_empty() {
        return nothing(frame, inside, "no command is running", look.theme.faint());
    }
    let word = |command: &RunningCommand| -> Vec<Word> {
        let dash = || "–".to_owned();
        vec![
            (words::span(command.seconds), look.theme.accent()),
            (words::clean(&command.session_id), look.theme.figure()),
            (command.agent.as_deref().map_or_else(dash, words::clean), look.theme.faint()),
            (command.run_id.clone(), look.theme.faint()),
            (words::clean(&command.command), Style::new()),
        ]
    };
    let shown: Vec<Vec<Word>> = node.commands.iter().take(rows).map(word).collect();
    let rows = Rows { words: &shown, window: 0..shown.len(), selected: None };
    table(frame, inside, &COLUMNS, &rows, look);
}
