//! Who uses the tier at a moment: the ship's thread, or a task that appends on a connection of its own. A command waits for
//! two appends, and through the thread each of them would wake two threads more than the round trip itself does.

use crate::tier::{Down, Pipe, PipeError};

/// Whose turn it is. The thread and the task never use the tier at the same time: what one of them was told would be older
/// than what the other has done since.
#[derive(Default)]
pub(crate) struct Turns {
    /// Number of the turn that has begun and not ended.
    current: Option<u64>,
    /// How many have begun.
    begun: u64,
    /// The thread waits for its turn. It is the next one: leases must be renewed, however much is appended.
    is_wanted: bool,
    /// The pipe, while the task does not use it.
    pipe: Option<Box<dyn Pipe>>,
    has_pipe: bool,
    /// What the task found out.
    silent: Option<Down>,
}

impl Turns {
    /// Whether the task appends.
    pub(crate) fn has_pipe(&self) -> bool {
        self.has_pipe
    }

    /// The task appends from now on.
    pub(crate) fn set_pipe(&mut self, pipe: Box<dyn Pipe>) {
        (self.pipe, self.has_pipe) = (Some(pipe), true);
    }

    /// The thread appends from now on.
    pub(crate) fn drop_pipe(&mut self) {
        (self.pipe, self.has_pipe) = (None, false);
    }

    /// That the server was silent, if the task found that out.
    pub(crate) fn take_silent(&mut self) -> Option<Down> {
        self.silent.take()
    }

    fn begin(&mut self) -> u64 {
        self.begun += 1;
        self.current = Some(self.begun);
        self.begun
    }

    /// Begins a turn of the thread, unless the task has one; then it is the thread's when that has ended.
    pub(crate) fn begin_thread(&mut self) -> bool {
        self.is_wanted = self.current.is_some();
        if !self.is_wanted {
            self.begin();
        }
        !self.is_wanted
    }

    /// The same, whether or not the task has one: its answer comes too late, and its pipe is not used again.
    pub(crate) fn begin_thread_anyway(&mut self) {
        self.drop_pipe();
        self.is_wanted = false;
        self.begin();
    }

    /// Whether the thread waits for its turn.
    pub(crate) fn is_wanted(&self) -> bool {
        self.is_wanted
    }

    /// The thread's turn ends.
    pub(crate) fn end_thread(&mut self) {
        self.current = None;
    }

    /// Whether the task may begin a turn.
    pub(crate) fn is_for_task(&self) -> bool {
        self.current.is_none() && !self.is_wanted && self.pipe.is_some()
    }

    /// Begins a turn of the task, if it may have one.
    pub(crate) fn begin_task(&mut self) -> Option<(u64, Box<dyn Pipe>)> {
        if !self.is_for_task() {
            return None;
        }
        let pipe = self.pipe.take()?;
        Some((self.begin(), pipe))
    }

    /// A turn of the task ends with its pipe, or with why that is not used again. Returns whether it was still the task's turn.
    pub(crate) fn end_task(&mut self, number: u64, pipe: Result<Box<dyn Pipe>, PipeError>) -> bool {
        if self.current != Some(number) {
            return false;
        }
        self.current = None;
        match pipe {
            Ok(pipe) => self.set_pipe(pipe),
            Err(PipeError::Broken { reason }) => {
                tracing::debug!(reason, "the connection for appends broke");
                self.drop_pipe();
            }
            Err(PipeError::Silent(down)) => {
                self.silent = Some(down);
                self.drop_pipe();
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tier::{Append, Appending};
    use std::time::Duration;

    struct Nothing;

    impl Pipe for Nothing {
        fn append<'a>(&'a mut self, _: &'a [Append], _: Duration) -> Appending<'a> {
            Box::pin(async { Ok(Vec::new()) })
        }
    }

    #[test]
    fn the_thread_is_next_when_it_waits() {
        let mut turns = Turns::default();
        assert!(turns.begin_task().is_none(), "there is no pipe");
        turns.set_pipe(Box::new(Nothing));
        let (number, pipe) = turns.begin_task().unwrap();
        assert!(!turns.begin_thread());
        assert!(turns.end_task(number, Ok(pipe)));
        assert!(turns.begin_task().is_none(), "the thread waits");
        assert!(turns.begin_thread());
        assert!(turns.begin_task().is_none(), "the thread has its turn");
        turns.end_thread();
        assert!(turns.begin_task().is_some());
    }

    #[test]
    fn an_answer_after_the_turn_does_not_count() {
        let mut turns = Turns::default();
        turns.set_pipe(Box::new(Nothing));
        let (number, pipe) = turns.begin_task().unwrap();
        turns.begin_thread_anyway();
        assert!(!turns.end_task(number, Ok(pipe)) && !turns.has_pipe());
        turns.end_thread();
        turns.set_pipe(Box::new(Nothing));
        let (number, _) = turns.begin_task().unwrap();
        let down = Down::new("silent");
        assert!(turns.end_task(number, Err(PipeError::Silent(down.clone()))) && !turns.has_pipe());
        assert_eq!((turns.take_silent(), turns.take_silent()), (Some(down), None));
    }
}
