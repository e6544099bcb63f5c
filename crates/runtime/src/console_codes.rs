//! Codes with which a browser gets a token for the console. Each works once, and for a minute.

use crate::ops::ConsoleRight;
use crate::sync::lock;
use std::sync::Mutex;
use std::time::Duration;
use tokio::time::Instant;

/// How long a code works: the time in which a browser starts.
pub const CODE_LIFETIME: Duration = Duration::from_secs(60);
/// Most codes that wait at a time; one more replaces the oldest.
const MOST_CODES: usize = 32;

/// The codes that wait for a browser.
#[derive(Default)]
pub(crate) struct ConsoleCodes {
    waiting: Mutex<Vec<Code>>,
}

struct Code {
    /// Hashes compare in constant time.
    hash: blake3::Hash,
    right: ConsoleRight,
    until: Instant,
}

impl ConsoleCodes {
    /// Remembers a new code.
    pub(crate) fn add(&self, code: &str, right: ConsoleRight) {
        let mut waiting = lock(&self.waiting);
        if waiting.len() == MOST_CODES {
            waiting.remove(0);
        }
        waiting.push(Code { hash: blake3::hash(code.as_bytes()), right, until: Instant::now() + CODE_LIFETIME });
    }

    /// Uses a code up. `None` if it is unknown, used or too old.
    pub(crate) fn redeem(&self, code: &str) -> Option<ConsoleRight> {
        let hash = blake3::hash(code.as_bytes());
        let now = Instant::now();
        let mut waiting = lock(&self.waiting);
        waiting.retain(|code| code.until > now);
        let place = waiting.iter().position(|code| code.hash == hash)?;
        Some(waiting.remove(place).right)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_code_works_for_a_minute() {
        let codes = ConsoleCodes::default();
        codes.add("old", ConsoleRight::Act);
        tokio::time::advance(CODE_LIFETIME / 2).await;
        codes.add("new", ConsoleRight::Watch);
        tokio::time::advance(CODE_LIFETIME / 2).await;
        assert_eq!(codes.redeem("old"), None);
        assert_eq!(codes.redeem("new"), Some(ConsoleRight::Watch));
        assert_eq!(codes.redeem("new"), None);
    }

    #[tokio::test(start_paused = true)]
    async fn the_oldest_of_too_many_codes_is_replaced() {
        let codes = ConsoleCodes::default();
        (0..=MOST_CODES).for_each(|number| codes.add(&number.to_string(), ConsoleRight::Act));
        assert_eq!(codes.redeem("0"), None);
        assert_eq!(codes.redeem("1"), Some(ConsoleRight::Act));
    }
}
