//! The screen of a running command, shared by the task that drives the command and everyone who looks at it.

use super::{Drawing, Picture, Screen};
use crate::ops::{Key, OpError, ScreenWait, TerminalSize, row_text};
use crate::sync::lock;
use crate::tasks;
use shellkeep_record::{Budget, Pattern};
use shellkeep_redact::Redactor;
use shellkeep_session::{TerminalEvents, TerminalLog};
use std::sync::Mutex;
use std::time::Instant;
use tokio::sync::Notify;

/// Cells that are changed at once by a thread that others need: some milliseconds.
const AT_ONCE: u64 = 1 << 20;

/// Held by who draws what takes longer.
static TURN: Mutex<()> = Mutex::new(());

/// A screen that others watch.
#[derive(Debug)]
pub struct WatchedScreen {
    shown: Mutex<Shown>,
    changed: Notify,
}

struct Shown {
    screen: Screen,
    redactor: Option<Redactor>,
    /// What happened here since the run started.
    log: TerminalLog,
    started: Instant,
}

impl std::fmt::Debug for Shown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.screen.fmt(f)
    }
}

impl WatchedScreen {
    /// An empty screen of a run that starts now. `redactor` masks what others see.
    pub fn new(size: TerminalSize, redactor: Option<Redactor>) -> Self {
        let log = TerminalLog::new(size.rows, size.cols);
        let shown = Shown { screen: Screen::new(size), redactor, log, started: Instant::now() };
        Self { shown: Mutex::new(shown), changed: Notify::new() }
    }

    /// Takes output; the run has `kept` bytes of it by now.
    pub fn feed(&self, bytes: &[u8], kept: u64) {
        let mut shown = lock(&self.shown);
        let since_start = shown.started.elapsed();
        shown.log.output(since_start, kept);
        let mut drawing = shown.screen.take(bytes);
        if drawing.cost() <= AT_ONCE {
            shown.screen.draw(&mut drawing, u64::MAX);
            drop(shown);
        } else {
            drop(shown);
            tasks::in_place(|| self.draw_in_turns(drawing));
        }
        self.changed.notify_waiters();
    }

    /// Draws what takes long, one step at a time: others look at this screen in between, and all screens share one processor
    /// for it, because what draws is not what the agents' processes are limited in.
    fn draw_in_turns(&self, mut drawing: Drawing) {
        while !drawing.is_done() {
            let _turn = lock(&TURN);
            lock(&self.shown).screen.draw(&mut drawing, AT_ONCE);
        }
    }

    /// Takes a new size.
    pub fn resize(&self, size: TerminalSize) {
        let mut shown = lock(&self.shown);
        let since_start = shown.started.elapsed();
        shown.log.resize(since_start, size.rows, size.cols);
        shown.screen.resize(size);
        drop(shown);
        self.changed.notify_waiters();
    }

    /// What happened here. The run has `kept` bytes of output in the end.
    pub fn events(&self, kept: u64) -> TerminalEvents {
        let mut shown = lock(&self.shown);
        let since_start = shown.started.elapsed();
        shown.log.output(since_start, kept);
        shown.log.events()
    }

    /// Masks with these secrets from now on.
    pub fn mask_with(&self, redactor: &Redactor) {
        lock(&self.shown).redactor = Some(redactor.clone());
    }

    /// What to write to the program as the terminal's answers.
    pub fn take_answers(&self) -> Vec<u8> {
        lock(&self.shown).screen.take_answers()
    }

    /// What the keys send.
    pub fn sent_by(&self, keys: &[Key]) -> Vec<u8> {
        lock(&self.shown).screen.sent_by(keys)
    }

    /// What others see.
    pub(crate) fn picture(&self) -> Picture {
        let shown = lock(&self.shown);
        shown.screen.picture(shown.redactor.as_ref())
    }

    /// Waits for what the reader asked for.
    pub async fn wait(&self, wait: &ScreenWait) -> Result<(), OpError> {
        match wait {
            ScreenWait::Nothing => {}
            ScreenWait::Change { since } => self.other_than(since.unwrap_or_else(|| self.version())).await,
            ScreenWait::Quiet(quiet) => {
                while tokio::time::timeout(*quiet, self.other_than(self.version())).await.is_ok() {}
            }
            ScreenWait::Match(pattern) => {
                let pattern = Pattern::standing(pattern)
                    .map_err(|error| OpError::Invalid { detail: format!("wait: the pattern is {error}") })?;
                loop {
                    let version = self.version();
                    let lines: Vec<String> = self.picture().rows.iter().map(|row| row_text(row)).collect();
                    if pattern.is_in(lines.join("\n").as_bytes(), &Budget::default()).unwrap_or(false) {
                        return Ok(());
                    }
                    self.other_than(version).await;
                }
            }
        }
        Ok(())
    }

    fn version(&self) -> u64 {
        lock(&self.shown).screen.version()
    }

    async fn other_than(&self, version: u64) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if self.version() != version {
                return;
            }
            changed.await;
        }
    }
}
