//! How long records accumulate before the backend and the recordings get them.

use std::time::{Duration, Instant};

/// While there is little to do: the row of a busy session is then written once for many commands.
const LEAST: Duration = Duration::from_millis(100);

/// However much there is to do: a session that is loaded is folded from what has accumulated, as long as that is not too
/// much (`AHEAD_BYTES`).
const MOST: Duration = Duration::from_millis(250);

/// How much longer than the work itself the pause after it is. A thousand busy sessions are a thousand rows and signatures,
/// whether each has had one command since or several.
const PAUSE: u32 = 4;

/// When what has accumulated must be applied.
#[derive(Debug, Default)]
pub(super) struct Gather {
    due: Option<Instant>,
    worked: Duration,
}

impl Gather {
    /// When it must be applied, for records that have just arrived or arrived before.
    pub(super) fn due(&mut self, now: Instant) -> Instant {
        let pause = (self.worked * PAUSE).clamp(LEAST, MOST);
        *self.due.get_or_insert_with(|| {
            self.worked = Duration::ZERO;
            now + pause
        })
    }

    /// Readers were busy for so long.
    pub(super) fn worked(&mut self, time: Duration) {
        self.worked += time;
    }

    /// Everything is applied.
    pub(super) fn applied(&mut self) {
        self.due = None;
    }

    /// There is nothing to do.
    pub(super) fn idle(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_is_as_long_as_the_work_asks_for() {
        let (mut gather, now) = (Gather::default(), Instant::now());
        for (work, pause) in [(0, LEAST), (24, LEAST), (50, Duration::from_millis(200)), (3_000, MOST)] {
            gather.worked(Duration::from_millis(work));
            assert_eq!(gather.due(now), now + pause, "{work} ms");
            gather.worked(Duration::from_millis(1_000));
            assert_eq!(gather.due(now + LEAST), now + pause, "what is due does not wait longer");
            gather.idle();
        }
    }

    #[test]
    fn work_counts_once() {
        let (mut gather, now) = (Gather::default(), Instant::now());
        gather.worked(MOST);
        assert_eq!(gather.due(now), now + MOST);
        gather.applied();
        assert_eq!(gather.due(now), now + LEAST);
    }
}
