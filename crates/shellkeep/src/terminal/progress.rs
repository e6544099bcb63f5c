//! A line of progress on stderr for what takes more than a second.

use super::PATIENCE;
use indicatif::ProgressBar;
use shellkeep_terminal::words;
use std::time::{Duration, Instant};

/// How often it moves.
const STEP: Duration = Duration::from_millis(200);

/// What is being done, and how many bytes of it are done.
pub struct Progress {
    what: &'static str,
    bytes: u64,
    begun: Instant,
    told: Instant,
    bar: Option<ProgressBar>,
}

impl Progress {
    pub fn new(what: &'static str) -> Self {
        Self { what, bytes: 0, begun: Instant::now(), told: Instant::now(), bar: None }
    }

    /// The same line for the next part of the work.
    pub fn turn_to(&mut self, what: &'static str) {
        (self.what, self.bytes) = (what, 0);
    }

    pub fn add(&mut self, bytes: u64) {
        self.bytes += bytes;
        if self.begun.elapsed() < PATIENCE || self.told.elapsed() < STEP {
            return;
        }
        self.told = Instant::now();
        // It draws only on a terminal.
        let bar = self.bar.get_or_insert_with(ProgressBar::new_spinner);
        bar.set_message(format!("{}: {}", self.what, words::bytes(self.bytes)));
        bar.tick();
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
