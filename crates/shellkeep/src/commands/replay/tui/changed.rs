//! The files that a command changed, as part of its event: how many, and how they differ.

use crate::commands::replay::source::Events;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use shellkeep_record::Line as Event;
use shellkeep_record::export::ansi;
use shellkeep_record::export::patch::{Part, Patch, first_lines};
use shellkeep_record::player::{Player, Rows};
use shellkeep_record::runs::FileCounts;
use shellkeep_terminal::theme::{Level, Theme};

/// The files of one event.
#[derive(Default)]
pub struct Changed {
    counts: Option<FileCounts>,
    /// How they differ, or why that is not known. None where there are no files, only a recording.
    patch: Option<Result<Patch, String>>,
}

/// The files that an event changed, read where they are kept.
pub fn files(event: &Event, player: &mut Player<Events>) -> Changed {
    let checkpoint = match event.event_type.as_str() {
        "checkpoint_created" => Ok(Some(event.clone())),
        _ => Rows::of(player).files_of(event),
    };
    let checkpoint = match checkpoint {
        Ok(Some(checkpoint)) => checkpoint,
        Ok(None) => return Changed::default(),
        Err(error) => return Changed { counts: None, patch: Some(Err(error)) },
    };
    let hidden = player.is_hidden();
    let patch = player.source().patch(&checkpoint, hidden).transpose();
    Changed { counts: Some(FileCounts::of(&checkpoint)), patch }
}

impl Changed {
    /// The files as lines of the screen. Nothing if none changed.
    pub fn lines(&self, theme: Theme) -> Vec<Line<'static>> {
        let mut lines = Vec::new();
        if let Some(counts) = self.counts {
            let title = format!("── changed files: {counts} ──");
            lines.push(Line::styled(title, theme.faint()));
        }
        match &self.patch {
            None => {}
            Some(Err(words)) => lines.push(Line::styled(ansi::plain(words), theme.level(Level::Near))),
            Some(Ok(patch)) => {
                let (shown, left) = first_lines(patch);
                lines.extend(shown.into_iter().map(|(part, line)| painted(part, &line, theme)));
                lines.extend(left.map(|words| Line::styled(words, theme.level(Level::Near))));
            }
        }
        if !lines.is_empty() {
            lines.push(Line::default());
        }
        lines
    }
}

fn painted(part: Part, line: &str, theme: Theme) -> Line<'static> {
    let style = match part {
        Part::Head => theme.figure().add_modifier(Modifier::BOLD),
        Part::Place => theme.painted(Color::Cyan),
        Part::Added => theme.painted(Color::Green),
        Part::Removed => theme.painted(Color::Red),
        Part::Context => Style::new(),
    };
    // A tab has no width of its own on a screen that is drawn cell by cell.
    let line: Vec<String> = line.split('\t').map(ansi::plain).collect();
    Line::from(Span::styled(line.join("    "), style))
}
