//! Colours, and what stands for them where there are none. Only the sixteen of the terminal's own palette, so that they
//! fit whatever its owner chose.

use ratatui::style::{Color, Modifier, Style};

/// From this share of a limit on, it is near.
const NEAR: f64 = 0.7;
/// From this share of a limit on, it is nearly reached.
const MET: f64 = 0.9;

/// How things look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Theme {
    colour: bool,
}

/// A severity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// Normal.
    Good,
    /// A warning.
    Near,
    Bad,
    /// Ended, or not relevant.
    Past,
}

impl Level {
    /// The level of a share of a limit.
    pub fn of(share: f64) -> Self {
        if share >= MET {
            Self::Bad
        } else if share >= NEAR {
            Self::Near
        } else {
            Self::Good
        }
    }
}

impl Theme {
    /// With colours or without.
    pub fn new(colour: bool) -> Self {
        Self { colour }
    }

    /// As the environment wishes: a `NO_COLOR` that is not empty means none.
    pub fn from_environment() -> Self {
        Self::new(std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()))
    }

    pub fn level(self, level: Level) -> Style {
        match level {
            Level::Good => self.painted(Color::Green),
            Level::Near => self.painted(Color::Yellow),
            Level::Bad => self.painted(Color::Red).add_modifier(Modifier::BOLD),
            Level::Past => self.faint(),
        }
    }

    /// Names of things, borders, what is there but is not the news.
    pub fn faint(self) -> Style {
        if self.colour { Style::new().fg(Color::DarkGray) } else { Style::new().add_modifier(Modifier::DIM) }
    }

    /// What leads the eye: titles, keys.
    pub fn accent(self) -> Style {
        self.painted(Color::Cyan).add_modifier(Modifier::BOLD)
    }

    pub fn figure(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    /// The selected row.
    pub fn selected(self) -> Style {
        if self.colour {
            Style::new().fg(Color::Black).bg(Color::Cyan)
        } else {
            Style::new().add_modifier(Modifier::REVERSED)
        }
    }

    /// What a search found.
    pub fn found(self) -> Style {
        if self.colour {
            Style::new().fg(Color::Black).bg(Color::Yellow)
        } else {
            Style::new().add_modifier(Modifier::REVERSED)
        }
    }

    /// In a colour, where there are colours.
    pub fn painted(self, colour: Color) -> Style {
        if self.colour { Style::new().fg(colour) } else { Style::new() }
    }
}
