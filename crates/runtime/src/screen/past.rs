//! The screens of a run that has ended: its output is drawn again, a piece at a time, as it was written.

use super::{Picture, Screen};
use crate::ops::{PastScreen, PastScreenQuery, PastScreens, ScreenRow, TerminalSize};
use shellkeep_record::Budget;
use shellkeep_redact::Redactor;
use shellkeep_session::{RunId, TerminalChange, TerminalEvents};
use std::io;
use std::mem;
use std::time::Duration;

/// Draws the screens that a query asks for. `read` returns bytes of the run's output.
pub(crate) fn screens(
    run_id: &RunId,
    terminal: &TerminalEvents,
    query: PastScreenQuery,
    redactor: Option<&Redactor>,
    read: impl Fn(u64, usize) -> io::Result<Vec<u8>>,
    budget: &Budget,
) -> io::Result<PastScreens> {
    let mut screen = Screen::new(TerminalSize { rows: terminal.rows, cols: terminal.cols });
    let mut drawn = Drawn { screens: Vec::new(), rows: Vec::new(), redactor };
    let (mut at, mut offset, mut next) = (Duration::ZERO, 0, None);
    for event in &terminal.events {
        if budget.is_spent() {
            // Nobody waits for it any more.
            break;
        }
        let time = at.saturating_add(Duration::from_millis(event.after_ms));
        if time > query.from && drawn.screens.is_empty() {
            drawn.add(at, &screen);
        }
        if drawn.screens.len() >= query.limit {
            next = Some(time);
            break;
        }
        match event.change {
            TerminalChange::Output { bytes } => {
                screen.feed(&read(offset, usize::try_from(bytes).unwrap_or(usize::MAX))?);
                offset += bytes;
            }
            TerminalChange::Resize { rows, cols } => screen.resize(TerminalSize { rows, cols }),
        }
        at = time;
        if at > query.from {
            drawn.add(at, &screen);
        }
    }
    if drawn.screens.is_empty() {
        drawn.add(at, &screen);
    }
    Ok(PastScreens { run_id: run_id.clone(), screens: drawn.screens, next })
}

/// What was drawn so far.
struct Drawn<'a> {
    screens: Vec<PastScreen>,
    /// The rows of the last one.
    rows: Vec<ScreenRow>,
    redactor: Option<&'a Redactor>,
}

impl Drawn<'_> {
    fn add(&mut self, at: Duration, screen: &Screen) {
        let Picture { size, cursor, alternate, rows, .. } = screen.picture(self.redactor);
        let before = mem::replace(&mut self.rows, rows);
        let rows = self.rows.iter().enumerate();
        let changed = rows.filter(|(place, row)| before.get(*place) != Some(*row));
        let changed = changed.map(|(place, row)| (place, row.clone())).collect();
        self.screens.push(PastScreen { at, size, cursor, alternate, changed });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::row_text;
    use shellkeep_session::TerminalLog;

    const OUTPUT: &[u8] = b"qv7-kpx\r\n\x1b[?1049h\x1b[Hone\x1b[2;1Htwo\x1b[?1049l";

    /// A shell, a program that draws twice and is resized, and the shell again.
    fn terminal() -> TerminalEvents {
        let at = Duration::from_millis;
        let mut log = TerminalLog::new(3, 10);
        log.output(at(100), 9);
        log.output(at(1000), 23);
        log.output(at(2000), 32);
        log.resize(at(3000), 4, 20);
        log.output(at(4000), OUTPUT.len() as u64);
        log.events()
    }

    fn drawn(from: u64, limit: usize, redactor: Option<&Redactor>) -> PastScreens {
        let query = PastScreenQuery { from: Duration::from_millis(from), limit, redact: redactor.is_some() };
        let read = |offset: u64, length: usize| {
            let start = OUTPUT.len().min(offset as usize);
            Ok(OUTPUT[start..OUTPUT.len().min(start + length)].to_vec())
        };
        let run_id = RunId::parse("r3").unwrap();
        screens(&run_id, &terminal(), query, redactor, read, &Budget::unlimited()).unwrap()
    }

    fn told(screen: &PastScreen) -> (u128, bool, u16, Vec<(usize, String)>) {
        let rows = screen.changed.iter().map(|(place, row)| (*place, row_text(row))).collect();
        (screen.at.as_millis(), screen.alternate, screen.size.rows, rows)
    }

    fn row(place: usize, text: &str) -> (usize, String) {
        (place, text.to_owned())
    }

    #[test]
    fn every_screen_is_there_with_the_rows_that_changed() {
        let all = drawn(0, 100, None);
        let expected = [
            (0, false, 3, vec![row(0, ""), row(1, ""), row(2, "")]),
            (100, false, 3, vec![row(0, "qv7-kpx")]),
            (1000, true, 3, vec![row(0, "one")]),
            (2000, true, 3, vec![row(1, "two")]),
            (3000, true, 4, vec![row(3, "")]),
            (4000, false, 4, vec![row(0, "qv7-kpx"), row(1, "")]),
        ];
        assert_eq!(all.screens.iter().map(told).collect::<Vec<_>>(), expected);
        assert_eq!(all.next, None);
    }

    #[test]
    fn a_page_begins_with_the_screen_of_its_moment() {
        let page = drawn(2500, 2, None);
        let expected =
            [(2000, true, 3, vec![row(0, "one"), row(1, "two"), row(2, "")]), (3000, true, 4, vec![row(3, "")])];
        assert_eq!(page.screens.iter().map(told).collect::<Vec<_>>(), expected);
        assert_eq!(page.next, Some(Duration::from_millis(4000)));
        // All pages together are the whole.
        let (mut from, mut times) = (Some(0), Vec::new());
        while let Some(start) = from {
            let page = drawn(start, 1, None);
            times.extend(page.screens.iter().map(|screen| screen.at.as_millis()));
            from = page.next.map(|next| next.as_millis() as u64);
        }
        assert_eq!(times, [0, 100, 1000, 2000, 3000, 4000]);
        assert_eq!(drawn(99_000, 5, None).screens.iter().map(told).next().unwrap().0, 4000);
    }

    #[test]
    fn secrets_are_masked() {
        let redactor = Redactor::new(&Default::default()).unwrap().with_secrets(["qv7-kpx"]).unwrap();
        let shown = drawn(0, 2, Some(&redactor));
        assert_eq!(told(&shown.screens[1]).3, [row(0, "***")]);
    }
}
