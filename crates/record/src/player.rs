//! Steps through a recording: forward, back, to a number, to the next event of a type, to a match, with secrets shown
//! or hidden; or only from one key event to the next.
//!
//! The player holds one event at a time. Events come from a [`EventSource`]: files on this machine, or pages of a daemon. So
//! a recording of a million events is played in the memory of one.

mod clock;
mod files;
mod rows;
mod source;
pub(crate) mod summary;
pub(crate) mod totals;

pub use clock::Pace;
pub use files::{Files, FilesError};
pub use rows::Rows;
pub use source::{EventSource, Page, Wanted};
pub use summary::{Kind, Summary, kind};
pub use totals::{Figure, Totals, span};

use crate::line::Line;
use std::collections::VecDeque;

/// Events asked for at a time where many are looked through.
const PAGE: usize = 100;
/// How far the first look back goes. Numbers that have no event make it look further.
const FIRST_LOOK_BACK: u64 = 16;

/// A recording that is being played.
#[derive(Debug)]
pub struct Player<S> {
    source: S,
    current: Option<Line>,
    hidden: bool,
}

impl<S: EventSource> Player<S> {
    /// Opens a recording at its first event, with secrets hidden or shown.
    pub fn open(source: S, hidden: bool) -> Result<Self, S::Error> {
        let mut player = Self { source, current: None, hidden };
        player.current = player.behind(0, &Wanted::default())?;
        Ok(player)
    }

    /// The event one is at. None in an empty recording.
    pub fn current(&self) -> Option<&Line> {
        self.current.as_ref()
    }

    /// Its number; 0 in an empty recording.
    pub fn seq(&self) -> u64 {
        self.current.as_ref().map_or(0, |line| line.seq)
    }

    /// Number of the last event that there is now: a session that goes on has more of them later.
    pub fn last(&mut self) -> Result<u64, S::Error> {
        self.source.last()
    }

    /// Goes on by one event. False at the end.
    pub fn step(&mut self) -> Result<bool, S::Error> {
        let next = self.behind(self.seq(), &Wanted::default())?;
        Ok(self.move_to(next))
    }

    /// Goes back by one event. False at the beginning.
    pub fn back(&mut self) -> Result<bool, S::Error> {
        let before = self.before(self.seq(), 1)?.pop();
        Ok(self.move_to(before))
    }

    /// Goes to the event of this number, or to the next one where it is missing, or to the last one.
    pub fn jump(&mut self, seq: u64) -> Result<bool, S::Error> {
        let found = self.behind(seq.saturating_sub(1), &Wanted::default())?;
        let found = match found {
            Some(line) => Some(line),
            None => self.before(u64::MAX, 1)?.pop(),
        };
        Ok(self.move_to(found))
    }

    /// Goes to the next event that is wanted. False, and nothing moves, if there is none.
    pub fn find(&mut self, wanted: &Wanted) -> Result<bool, S::Error> {
        let next = self.behind(self.seq(), wanted)?;
        Ok(self.move_to(next))
    }

    /// Goes back to the event before this one that is wanted. Looks through the recording from its beginning, because
    /// nothing says where such events are.
    pub fn find_back(&mut self, wanted: &Wanted) -> Result<bool, S::Error> {
        let here = self.seq();
        let (mut after, mut found) = (0, None);
        loop {
            let page = self.source.page(after, PAGE, wanted, self.hidden)?;
            let mut earlier = page.lines.into_iter().take_while(|line| line.seq < here).peekable();
            let any = earlier.peek().is_some();
            found = earlier.last().or(found);
            match page.next {
                // A page may be empty and still have a next one: it was long to look through.
                Some(next) if next < here && (any || next > after) => after = next,
                _ => break,
            }
        }
        Ok(self.move_to(found))
    }

    /// Shows or hides secrets. The event one is at is read again.
    pub fn hide(&mut self, hidden: bool) -> Result<(), S::Error> {
        self.hidden = hidden;
        if let Some(seq) = self.current.as_ref().map(|line| line.seq) {
            self.current = self.behind(seq.saturating_sub(1), &Wanted::default())?;
        }
        Ok(())
    }

    /// Whether secrets are hidden.
    pub fn is_hidden(&self) -> bool {
        self.hidden
    }

    /// All events from this one on, each once, without moving.
    pub fn rest(&mut self) -> Rest<'_, S> {
        let after = self.seq().saturating_sub(1);
        Rest { player: self, wanted: Wanted::default(), after: Some(after), ready: VecDeque::new() }
    }

    /// The key events from this one on, in short: messages, commands, answers and failures.
    pub fn fast(&mut self) -> impl Iterator<Item = Result<Summary, S::Error>> + '_ {
        self.rest().map(|line| line.map(|line| Summary::of(&line))).filter(|told| match told {
            Ok(summary) => summary.is_key(),
            Err(_) => true,
        })
    }

    /// Where the events come from.
    pub fn source(&mut self) -> &mut S {
        &mut self.source
    }

    fn move_to(&mut self, line: Option<Line>) -> bool {
        let found = line.is_some();
        if found {
            self.current = line;
        }
        found
    }

    /// The first wanted event behind a number.
    fn behind(&mut self, mut after: u64, wanted: &Wanted) -> Result<Option<Line>, S::Error> {
        loop {
            let page = self.source.page(after, 1, wanted, self.hidden)?;
            match (page.lines.into_iter().next(), page.next) {
                (Some(line), _) => return Ok(Some(line)),
                (None, Some(next)) if next > after => after = next,
                (None, _) => return Ok(None),
            }
        }
    }

    /// Up to `count` events before a number, in their order. Numbers without events make it look further back.
    fn before(&mut self, seq: u64, count: usize) -> Result<Vec<Line>, S::Error> {
        let seq = seq.min(self.source.last()?.saturating_add(1)).max(1);
        let mut reach = (count as u64).max(1);
        loop {
            let from = seq.saturating_sub(reach.saturating_add(1));
            let mut found = VecDeque::new();
            let mut after = from;
            loop {
                // A number has at most one event, so no more than these are asked for.
                let limit = usize::try_from(seq - 1 - after).unwrap_or(PAGE).clamp(1, PAGE);
                let page = self.source.page(after, limit, &Wanted::default(), self.hidden)?;
                let next = page.next.filter(|next| *next > after);
                for line in page.lines {
                    if line.seq < seq {
                        found.push_back(line);
                    }
                    if found.len() > count {
                        found.pop_front();
                    }
                }
                match next {
                    Some(next) if next + 1 < seq => after = next,
                    _ => break,
                }
            }
            if found.len() >= count || from == 0 {
                return Ok(found.into());
            }
            reach = reach.saturating_mul(4).max(FIRST_LOOK_BACK);
        }
    }
}

/// Events from one on. See [`Player::rest`].
pub struct Rest<'a, S> {
    player: &'a mut Player<S>,
    wanted: Wanted,
    /// Where the next page begins; nothing behind the last one.
    after: Option<u64>,
    ready: VecDeque<Line>,
}

impl<S> Rest<'_, S> {
    /// Only events like these.
    pub fn only(mut self, wanted: Wanted) -> Self {
        self.wanted = wanted;
        self
    }
}

impl<S: EventSource> Iterator for Rest<'_, S> {
    type Item = Result<Line, S::Error>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(line) = self.ready.pop_front() {
                return Some(Ok(line));
            }
            let after = self.after?;
            match self.player.source.page(after, PAGE, &self.wanted, self.player.hidden) {
                Ok(page) => {
                    self.after = page.next.filter(|next| *next > after);
                    self.ready = page.lines.into();
                }
                Err(error) => {
                    self.after = None;
                    return Some(Err(error));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
