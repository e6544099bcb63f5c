//! Where a player gets its events.

use crate::line::Line;
use std::fmt;

/// Which events.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Of these types; of any if there are none.
    pub types: Vec<String>,
    /// Only those in which this regular expression is found.
    pub search: Option<String>,
}

impl Wanted {
    /// Events of one type.
    pub fn of_type(event_type: &str) -> Self {
        Self { types: vec![event_type.to_owned()], search: None }
    }

    /// Events in which something is found.
    pub fn with(search: &str) -> Self {
        Self { types: Vec::new(), search: Some(search.to_owned()) }
    }
}

/// Some events in a row.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Page {
    /// The events, by their numbers.
    pub lines: Vec<Line>,
    /// Behind which number to go on. None if there is nothing more.
    pub next: Option<u64>,
}

/// A recording somewhere.
pub trait EventSource {
    /// Why it cannot be read.
    type Error: fmt::Display;

    /// Wanted events behind a number: at most `limit`, fewer where they are large or far apart.
    fn page(&mut self, after: u64, limit: usize, wanted: &Wanted, hidden: bool) -> Result<Page, Self::Error>;

    /// Number of the last event; 0 if there is none.
    fn last(&mut self) -> Result<u64, Self::Error>;
}
