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
