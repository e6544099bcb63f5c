//! A sign of life on stderr for what takes more than a second.

use indicatif::{HumanBytes, ProgressBar};
use std::time::{Duration, Instant};

/// What takes longer deserves a sign of life.
const PATIENCE: Duration = Duration::from_secs(1);
/// How often it moves.
const STEP: Duration = Duration::from_millis(200);

/// Bytes that are done.
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

    /// From here on it is about something else.
    pub fn turn_to(&mut self, what: &'static str) {
        (self.what, self.bytes) = (what, 0);
    }

    pub fn add(&mut self, bytes: u64) {
        self.bytes += bytes;
        if self.begun.elapsed() < PATIENCE || self.told.elapsed() < STEP {
            return;
        }
        self.told = Instant::now();
        // It draws on a terminal only.
        let bar = self.bar.get_or_insert_with(ProgressBar::new_spinner);
        bar.set_message(format!("{}: {}", self.what, HumanBytes(self.bytes)));
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
