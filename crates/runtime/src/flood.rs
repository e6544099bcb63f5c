//! Much output, on its way to the disk. A write may wait for the disk, so what some steps of a command have brought is written
//! by a thread that may block, and the next step waits for that. A change of threads for each write would leave threads
//! behind, each with memory of its own.

use crate::cell::RunCell;
use crate::ops::Stream;
use crate::tasks;
use std::sync::Arc;
use tokio::task::JoinHandle;

/// From so many bytes in one step on, the output is much.
const MUCH: usize = 64 << 10;
/// From so many bytes on, what is held is written also if more is coming.
const ENOUGH: usize = 1 << 20;
/// Most that is held: more than that and a step. A step brings more only while it empties what a command leaves in its pipes.
const MOST_HELD: usize = 6 << 20;

/// The output of one command, while it is much.
#[derive(Debug, Default)]
pub struct Flood {
    /// Whether this step or the last one brought much.
    is_on: bool,
    brought: usize,
    held: Held,
    /// What is being written. Nothing is taken meanwhile.
    writing: Option<JoinHandle<Held>>,
}

/// Output in the order in which it came.
#[derive(Debug, Default)]
struct Held {
    bytes: Vec<u8>,
    pieces: Vec<(Stream, usize)>,
}

impl Held {
    /// Writes all of it. What is left is the memory, for the next.
    fn write(&mut self, cell: &RunCell) {
        let mut rest = &self.bytes[..];
        for (stream, length) in self.pieces.drain(..) {
            let (piece, after) = rest.split_at(length);
            cell.append(stream, piece);
            rest = after;
        }
        self.bytes.clear();
    }
}

impl Flood {
    /// Takes what a step brings.
    pub fn take(&mut self, cell: &RunCell, stream: Stream, bytes: &[u8]) {
        self.brought += bytes.len();
        // What a terminal asks for is answered in the step that brings it.
        self.is_on |= self.brought >= MUCH && !cell.is_terminal();
        if !self.is_on && !self.is_holding() {
            return cell.append(stream, bytes);
        }
        self.held.bytes.extend_from_slice(bytes);
        self.held.pieces.push((stream, bytes.len()));
        if self.held.bytes.len() > MOST_HELD {
            tasks::in_place(|| self.held.write(cell));
        }
    }

    /// Whether something was taken that nobody writes yet.
    pub fn is_holding(&self) -> bool {
        !self.held.pieces.is_empty()
    }

    /// A step is over, and perhaps the next one brings more at once.
    pub fn step_is_over(&mut self, cell: &Arc<RunCell>, has_more: bool) {
        self.is_on &= std::mem::take(&mut self.brought) >= MUCH;
        if !has_more || self.held.bytes.len() >= ENOUGH {
            self.begin_to_write(cell);
        }
    }

    /// Waits until all that was taken is written. Cancel-safe.
    pub async fn write_out(&mut self, cell: &Arc<RunCell>) {
        self.written().await;
        self.begin_to_write(cell);
        self.written().await;
    }

    /// Waits until nothing is being written. Cancel-safe.
    pub async fn written(&mut self) {
        if let Some(writing) = &mut self.writing {
            match writing.await {
                // While it is not much, the memory is given back: a command may live long, and there may be many.
                Ok(emptied) if self.is_on => self.held = emptied,
                Ok(_) => {}
                Err(error) => tracing::error!(%error, "output was lost"),
            }
            self.writing = None;
        }
    }

    fn begin_to_write(&mut self, cell: &Arc<RunCell>) {
        if self.is_holding() {
            let (cell, mut held) = (Arc::clone(cell), std::mem::take(&mut self.held));
            self.writing = Some(tasks::blocking(move || {
                held.write(&cell);
                held
            }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::NewCell;
    use shellkeep_session::{ByteString, RunId, Timestamp};
    use std::time::Duration;

    fn cell(directory: &tempfile::TempDir) -> Arc<RunCell> {
        let text = || ByteString::from("x");
        let new = NewCell {
            run_id: RunId::from_seq(1),
            seq: 1,
            command: text(),
            takes_input: false,
            terminal: None,
            is_merged: true,
            timeout: Duration::from_secs(1),
            started_at: Timestamp::UNIX_EPOCH,
            cwd: text(),
            by: None,
            directory: directory.path().into(),
            limit: u64::MAX,
            redactor: None,
            tool_name: None,
        };
        RunCell::new(new).0
    }

    fn written(cell: &RunCell) -> Vec<u8> {
        cell.read(Stream::Stdout, 0, usize::MAX).unwrap()
    }

    /// The bug: what was on its way when a command was killed with its session was lost, or came after the end.
    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn what_was_taken_is_written_in_its_order_before_the_end() {
        let directory = tempfile::tempdir().unwrap();
        let (cell, mut flood, mut expected) = (cell(&directory), Flood::default(), Vec::new());
        for (step, length) in [10, MUCH, 10, ENOUGH, 7, 3 * MUCH].into_iter().enumerate() {
            flood.written().await;
            for (stream, byte) in [(Stream::Stdout, b'a'), (Stream::Stderr, b'A')] {
                let bytes = vec![byte + step as u8; length];
                flood.take(&cell, stream, &bytes);
                expected.extend(bytes);
            }
            flood.step_is_over(&cell, true);
        }
        assert!(written(&cell).len() < expected.len() && flood.is_holding(), "the next step may bring more at once");
        flood.write_out(&cell).await;
        assert!(written(&cell) == expected && !flood.is_holding());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn no_more_is_held_than_there_may_be() {
        let directory = tempfile::tempdir().unwrap();
        let (cell, mut flood) = (cell(&directory), Flood::default());
        for _ in 0..3 * MOST_HELD / MUCH {
            flood.take(&cell, Stream::Stdout, &[b'x'; MUCH]);
            assert!(flood.held.bytes.len() <= MOST_HELD);
        }
        assert!(written(&cell).len() >= 2 * MOST_HELD);
        flood.write_out(&cell).await;
        assert_eq!(written(&cell).len(), 3 * MOST_HELD);
    }
}
