//! What happened at the terminal of a run, and when: how much it wrote, and its sizes. The text itself is the run's output.

use serde::{Deserialize, Serialize};
use std::mem;
use std::time::Duration;

/// Most events of a run. With more, neighbours are joined, so a recording stays small however long a program draws.
pub const MOST_TERMINAL_EVENTS: usize = 2000;
/// What is written within this many milliseconds is one event: nobody sees it come apart.
const SHORTEST_STEP: u64 = 10;

/// What happened at the terminal of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TerminalEvents {
    /// Its size at first.
    pub rows: u16,
    pub cols: u16,
    /// In order.
    pub events: Vec<TerminalEvent>,
}

/// One event, in the shape of an asciicast (version 3): `[12, "o", 40]` is 40 bytes of output 12 ms after the event before
/// it, `[5, "r", "80x24"]` is a new size of 80 columns and 24 rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "Written", try_from = "Written")]
pub struct TerminalEvent {
    /// Milliseconds since the event before it, or since the start.
    pub after_ms: u64,
    pub change: TerminalChange,
}

/// What an event changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TerminalChange {
    /// This many bytes of the run's output were written.
    Output { bytes: u64 },
    /// It has another size.
    Resize { rows: u16, cols: u16 },
}

type Written = (u64, String, Datum);

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Datum {
    Bytes(u64),
    Size(String),
}

impl From<TerminalEvent> for Written {
    fn from(event: TerminalEvent) -> Self {
        let (code, datum) = match event.change {
            TerminalChange::Output { bytes } => ("o", Datum::Bytes(bytes)),
            TerminalChange::Resize { rows, cols } => ("r", Datum::Size(format!("{cols}x{rows}"))),
        };
        (event.after_ms, code.to_owned(), datum)
    }
}

impl TryFrom<Written> for TerminalEvent {
    type Error = String;

    fn try_from((after_ms, code, datum): Written) -> Result<Self, String> {
        let size = |text: &str| {
            let (cols, rows) = text.split_once('x')?;
            Some(TerminalChange::Resize { rows: rows.parse().ok()?, cols: cols.parse().ok()? })
        };
        let change = match (code.as_str(), &datum) {
            ("o", Datum::Bytes(bytes)) => Some(TerminalChange::Output { bytes: *bytes }),
            ("r", Datum::Size(text)) => size(text),
            _ => None,
        };
        let change = change.ok_or_else(|| format!("'{code}' is not an event of a terminal"))?;
        Ok(Self { after_ms, change })
    }
}

/// Collects what happens at a terminal.
#[derive(Debug, Clone)]
pub struct TerminalLog {
    rows: u16,
    cols: u16,
    /// Milliseconds since the start, and what happened then.
    events: Vec<(u64, TerminalChange)>,
    bytes: u64,
    step: u64,
}

impl TerminalLog {
    /// Of a terminal of this size.
    pub fn new(rows: u16, cols: u16) -> Self {
        Self { rows, cols, events: Vec::new(), bytes: 0, step: SHORTEST_STEP }
    }

    /// The output has `total` bytes by now.
    pub fn output(&mut self, since_start: Duration, total: u64) {
        let bytes = total.saturating_sub(self.bytes);
        if bytes > 0 {
            self.bytes = total;
            self.add(since_start, TerminalChange::Output { bytes });
        }
    }

    /// It has another size by now.
    pub fn resize(&mut self, since_start: Duration, rows: u16, cols: u16) {
        self.add(since_start, TerminalChange::Resize { rows, cols });
    }

    /// What happened.
    pub fn events(&self) -> TerminalEvents {
        let mut before = 0;
        let events = self.events.iter().map(|(at, change)| {
            let after_ms = at - mem::replace(&mut before, *at);
            TerminalEvent { after_ms, change: *change }
        });
        TerminalEvents { rows: self.rows, cols: self.cols, events: events.collect() }
    }

    fn add(&mut self, since_start: Duration, change: TerminalChange) {
        let at = u64::try_from(since_start.as_millis()).unwrap_or(u64::MAX);
        let at = at.max(self.events.last().map_or(0, |(last, _)| *last));
        join(&mut self.events, (at, change), self.step);
        while self.events.len() > MOST_TERMINAL_EVENTS {
            self.step *= 2;
            for event in mem::take(&mut self.events) {
                join(&mut self.events, event, self.step);
            }
        }
    }
}

/// Adds an event, or joins it with the one of its kind in the same step: at most one of each kind remains in a step.
fn join(events: &mut Vec<(u64, TerminalChange)>, (at, change): (u64, TerminalChange), step: u64) {
    let same_step = events.iter_mut().rev().take(2).take_while(|(earlier, _)| earlier / step == at / step);
    for (_, other) in same_step {
        match (other, change) {
            (TerminalChange::Output { bytes: sum }, TerminalChange::Output { bytes }) => *sum += bytes,
            (TerminalChange::Resize { rows, cols }, TerminalChange::Resize { rows: new_rows, cols: new_cols }) => {
                (*rows, *cols) = (new_rows, new_cols);
            }
            _ => continue,
        }
        return;
    }
    events.push((at, change));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_have_the_shape_of_an_asciicast() {
        let mut log = TerminalLog::new(24, 80);
        log.output(Duration::from_millis(12), 40);
        log.output(Duration::from_millis(13), 50);
        log.resize(Duration::from_millis(2000), 30, 100);
        log.output(Duration::from_millis(2500), 51);
        log.output(Duration::from_millis(2600), 51);
        let events = log.events();
        let written = serde_json::to_string(&events).unwrap();
        assert_eq!(written, r#"{"rows":24,"cols":80,"events":[[12,"o",50],[1988,"r","100x30"],[500,"o",1]]}"#);
        assert_eq!(serde_json::from_str::<TerminalEvents>(&written).unwrap(), events);
        for wrong in [r#"[1,"x",2]"#, r#"[1,"o","2"]"#, r#"[1,"r","80"]"#, r#"[1,"r",3]"#] {
            assert!(serde_json::from_str::<TerminalEvent>(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_program_that_draws_for_days_has_few_events_and_no_byte_is_lost() {
        let mut log = TerminalLog::new(24, 80);
        for tick in 0..50_000_u64 {
            log.output(Duration::from_millis(tick * 20), tick + 1);
            if tick % 3 == 0 {
                log.resize(Duration::from_millis(tick * 20), 24, 80 + u16::try_from(tick % 9).unwrap());
            }
        }
        let events = log.events().events;
        assert!(events.len() <= MOST_TERMINAL_EVENTS, "{}", events.len());
        let bytes = events.iter().map(|event| match event.change {
            TerminalChange::Output { bytes } => bytes,
            TerminalChange::Resize { .. } => 0,
        });
        assert_eq!(bytes.sum::<u64>(), 50_000);
        let time: u64 = events.iter().map(|event| event.after_ms).sum();
        assert!((900_000..=1_000_000).contains(&time), "{time} ms");
    }
}
