//! The state of the player's screen. Keys change it and drawing reads it; it reads the recording when it learns its
//! size.

use super::changed::{self, Changed};
use super::detail;
use super::opened::Opened;
use super::wrap::wrap;
use crate::commands::replay::source::Events;
use ratatui::layout::Size;
use ratatui::text::Line;
use shellkeep_record::player::{Figure, Player, Rows, Summary, Totals, Wanted};
use shellkeep_session::Timestamp;
use shellkeep_terminal::list::List;
use shellkeep_terminal::theme::{Level, Theme};

/// Events of a recording up to which all of them are read for the totals.
const MOST_COUNTED: u64 = 2000;

/// What is said to the user.
pub struct Message {
    pub text: String,
    pub level: Level,
}

/// What a key does other than changing the screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Leave.
    Quit,
    /// Suspend (Ctrl-Z).
    Suspend,
}

/// The purpose of a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// A number to go to.
    Jump,
    /// A type to go to.
    Type,
    /// A text to search for.
    Search,
}

/// A prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    /// What it is for.
    pub purpose: Purpose,
    /// What was typed.
    pub text: String,
}

/// What the right side shows, laid out for one event and one width.
#[derive(Default)]
struct Shown {
    seq: u64,
    width: usize,
    hidden: bool,
    /// The files that the command changed, once they were asked for.
    files: Option<Changed>,
    lines: Vec<Line<'static>>,
}

/// Everything that is on the screen.
pub struct App {
    pub player: Player<Events>,
    pub name: String,
    pub totals: Vec<Figure>,
    /// When its first event was.
    pub began: Option<Timestamp>,
    /// Number of its last event.
    pub last: u64,
    /// Whether secrets stay hidden.
    pub locked: bool,
    /// The events in the list, as many as fit around the selected one.
    pub rows: Vec<Summary>,
    /// Which of them is selected, and which are visible.
    pub list: List,
    /// How far the right side is scrolled.
    pub scroll: usize,
    /// The search pattern.
    pub search: Option<String>,
    /// The current prompt.
    pub prompt: Option<Prompt>,
    /// Shown until the next key.
    pub message: Option<Message>,
    /// Whether the help is shown.
    pub help: bool,
    /// An output that is open in full.
    pub opened: Option<Opened>,
    /// Rows that the list has.
    height: usize,
    shown: Shown,
    /// Rows that the right side has.
    room: usize,
}

impl App {
    /// The screen at the first event.
    pub fn new(mut player: Player<Events>, locked: bool) -> Result<Self, String> {
        let last = player.last()?;
        let began = player.current().map(|line| line.timestamp);
        let name = player.source().name();
        let totals = if last <= MOST_COUNTED { totals(&mut player)? } else { Vec::new() };
        Ok(Self {
            player,
            name,
            totals,
            began,
            last,
            locked,
            rows: Vec::new(),
            list: List::default(),
            scroll: 0,
            search: None,
            prompt: None,
            message: None,
            help: false,
            opened: None,
            height: 0,
            shown: Shown::default(),
            room: 0,
        })
    }

    /// Sets the height of the list and the size of the event beside it, and reads what is needed to fill them.
    pub fn fit(&mut self, height: usize, detail: Size, theme: Theme) {
        let (width, room) = (usize::from(detail.width), usize::from(detail.height));
        self.room = room;
        if self.height != height {
            self.height = height;
            self.rows.clear();
        }
        let seq = self.player.seq();
        let place = self.rows.iter().position(|row| row.seq == seq);
        // In the middle of the known events nothing needs to be read.
        let known = place.is_some_and(|place| {
            (place > 0 || self.rows[0].seq <= 1) && (place + 1 < self.rows.len() || seq >= self.last)
        });
        if !known && let Err(error) = self.read_rows() {
            self.say(error, Level::Bad);
        }
        self.list.set_height(height);
        self.list.set_length(self.rows.len());
        if let Some(place) = self.rows.iter().position(|row| row.seq == seq) {
            self.list.select(place);
        }
        self.show(width, theme);
        self.scroll = self.scroll.min(self.shown.lines.len().saturating_sub(room));
    }

    fn read_rows(&mut self) -> Result<(), String> {
        // The event stays on its row of the screen.
        let above = self.list.selected.saturating_sub(self.list.offset);
        self.last = self.player.last()?;
        self.rows = Rows::of(&mut self.player).around(self.height.max(1), self.height.max(1))?;
        let place = self.rows.iter().position(|row| row.seq == self.player.seq()).unwrap_or(0);
        self.list.offset = place.saturating_sub(above);
        Ok(())
    }

    fn show(&mut self, width: usize, theme: Theme) {
        let Some(line) = self.player.current() else { return };
        let (seq, hidden) = (line.seq, self.player.is_hidden());
        if (self.shown.seq, self.shown.hidden) != (seq, hidden) || self.shown.files.is_none() {
            let line = line.clone();
            self.shown.files = Some(changed::files(&line, &mut self.player));
            self.shown.width = 0;
        }
        let Some(line) = self.player.current() else { return };
        if self.shown.width != width {
            let files = self.shown.files.take().unwrap_or_default();
            let lines = wrap(detail::lines(line, &files, self.began, theme), width);
            self.shown = Shown { seq, width, hidden, files: Some(files), lines };
        }
    }

    /// The visible lines of the right side, and the total number.
    pub fn detail(&self) -> (&[Line<'static>], usize) {
        let all = &self.shown.lines;
        let end = (self.scroll + self.room).min(all.len());
        (&all[self.scroll.min(end)..end], all.len())
    }

    /// Scrolls the right side.
    pub fn scroll(&mut self, rows: isize) {
        self.scroll = self.scroll.saturating_add_signed(rows);
    }

    /// Rows of the right side.
    pub fn room(&self) -> usize {
        self.room
    }

    /// Moves, or says that there is nothing further.
    pub fn go(&mut self, way: impl FnOnce(&mut Player<Events>) -> Result<bool, String>, nowhere: &str) {
        match way(&mut self.player) {
            Ok(true) => self.scroll = 0,
            Ok(false) => self.say(nowhere.to_owned(), Level::Near),
            Err(error) => self.say(error, Level::Bad),
        }
    }

    /// Shows or hides secrets.
    pub fn toggle_secrets(&mut self) {
        if self.locked {
            return self.say("--redact keeps secrets hidden".to_owned(), Level::Near);
        }
        let hidden = !self.player.is_hidden();
        self.opened = None;
        self.rows.clear();
        match self.player.hide(hidden) {
            Ok(()) if hidden => self.say("secrets are hidden".to_owned(), Level::Good),
            Ok(()) => self.say("secrets are shown; s hides them".to_owned(), Level::Near),
            Err(error) => self.say(error, Level::Bad),
        }
    }

    /// Searches forward, or backward.
    pub fn search_on(&mut self, back: bool) {
        let Some(text) = self.search.clone() else {
            return self.say("no search pattern; type / and a regular expression".to_owned(), Level::Near);
        };
        let wanted = Wanted::with(&text);
        if back {
            self.go(|player| Rows::of(player).find(&wanted, true), &format!("no match for '{text}' before this event"));
        } else {
            self.go(|player| Rows::of(player).find(&wanted, false), &format!("no match for '{text}' after this event"));
        }
    }

    /// Opens the output of the event in full.
    pub fn open_output(&mut self) {
        let Some(line) = self.player.current().cloned() else { return };
        let hidden = self.player.is_hidden();
        match Opened::open(line, hidden, self.player.source()) {
            Ok(opened) => self.opened = Some(opened),
            Err(words) => self.say(words, Level::Near),
        }
    }

    /// Shows a message until the next key.
    pub fn say(&mut self, text: String, level: Level) {
        self.message = Some(Message { text, level });
    }
}

/// The totals of all events.
fn totals(player: &mut Player<Events>) -> Result<Vec<Figure>, String> {
    let mut totals = Totals::default();
    for line in player.rest() {
        totals.add(&line?);
    }
    Ok(totals.figures())
}
