//! For tests: wait with a deadline for something that sends no event. No other code of the tests sleeps; `crates/tidy`
//! checks that and lists who may poll.

use std::time::{Duration, Instant};

/// Far longer than anything takes that a test waits for, even on a busy machine.
pub const LONG: Duration = Duration::from_secs(60);
/// Least and most time between two looks.
const INTERVAL: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(50));

/// The time until the next look: a tenth of what was waited so far, so that a long wait takes little from what it waits for.
fn interval(waited: Duration) -> Duration {
    (waited / 10).clamp(INTERVAL.0, INTERVAL.1)
}

/// Looks again and again until something is there, and returns it.
///
/// # Panics
///
/// After [`LONG`].
pub fn until<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    until_within(LONG, what, look)
}

/// [`until`] with a deadline of its own.
///
/// # Panics
///
/// After `limit`.
pub fn until_within<T>(limit: Duration, what: &str, look: impl FnMut() -> Option<T>) -> T {
    attempt(limit, look).unwrap_or_else(|| panic!("waited {limit:?} in vain: {what}"))
}

/// [`until_within`] for cleanup, which must not panic: `None` after `limit`.
pub fn attempt<T>(limit: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let start = Instant::now();
    loop {
        // The last look is after the deadline, so that a thread that was not scheduled for long does not fail.
        let is_last = start.elapsed() >= limit;
        match look() {
            None if !is_last => std::thread::sleep(interval(start.elapsed())),
            found => return found,
        }
    }
}

/// [`until_within`] for looks that are awaited.
///
/// # Panics
///
/// After `limit`.
pub async fn until_async<T>(limit: Duration, what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let looking = async {
        let start = Instant::now();
        loop {
            if let Some(found) = look().await {
                return found;
            }
            tokio::time::sleep(interval(start.elapsed())).await;
        }
    };
    match tokio::time::timeout(limit, looking).await {
        Ok(found) => found,
        Err(_) => panic!("waited {limit:?} in vain: {what}"),
    }
}

/// Lets some time pass, for tests that kill at a moment which they vary. It waits for nothing.
pub fn pass(time: Duration) {
    std::thread::sleep(time);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_is_returned_and_what_does_not_is_named() {
        let mut looks = 0;
        let found = until("the third look", || {
            looks += 1;
            (looks == 3).then_some("found")
        });
        assert_eq!((found, looks), ("found", 3));
        assert_eq!(attempt(Duration::ZERO, || None::<()>), None);
        let failed = std::panic::catch_unwind(|| until_within(Duration::ZERO, "the moon", || None::<()>));
        let message = failed.err().and_then(|error| error.downcast_ref::<String>().cloned());
        assert_eq!(message.as_deref(), Some("waited 0ns in vain: the moon"));
    }
}
