//! A running command, watched: its output as it comes, then its result. A slow watcher reads later from what is kept
//! and never holds up the command.

use crate::cell::RunCell;
use crate::ops::{OpError, RunChunk, RunView, Stream};
use std::sync::Arc;

/// Most bytes handed to a watcher at once.
const CHUNK: usize = 64 << 10;

/// A running command, watched. `next` gives output as it comes and the result at the end, then `None`.
pub struct RunStream {
    source: Source,
    seen: [u64; 2],
}

enum Source {
    Live { cell: Arc<RunCell>, max_output: usize },
    Ended(std::vec::IntoIter<RunChunk>),
}

impl RunStream {
    pub(crate) fn live(cell: Arc<RunCell>, max_output: usize) -> Self {
        Self { source: Source::Live { cell, max_output }, seen: [0; 2] }
    }

    pub(crate) fn ended(view: RunView) -> Self {
        let mut chunks = Vec::new();
        if !view.stdout.bytes.is_empty() {
            chunks.push(RunChunk::Stdout(view.stdout.bytes.clone()));
        }
        if !view.stderr.bytes.is_empty() {
            chunks.push(RunChunk::Stderr(view.stderr.bytes.clone()));
        }
        chunks.push(RunChunk::Result(Box::new(view)));
        Self { source: Source::Ended(chunks.into_iter()), seen: [0; 2] }
    }

    /// The next piece.
    pub async fn next(&mut self) -> Option<Result<RunChunk, OpError>> {
        let (cell, max_output) = match &mut self.source {
            Source::Live { cell, max_output } => (Arc::clone(cell), *max_output),
            Source::Ended(chunks) => return chunks.next().map(Ok),
        };
        loop {
            let ended = cell.is_finished();
            for (index, stream) in [Stream::Stdout, Stream::Stderr].into_iter().enumerate() {
                match cell.read(stream, self.seen[index], CHUNK) {
                    Ok(bytes) if bytes.is_empty() => {}
                    Ok(bytes) => {
                        self.seen[index] += bytes.len() as u64;
                        return Some(Ok(match stream {
                            Stream::Stdout => RunChunk::Stdout(bytes),
                            Stream::Stderr => RunChunk::Stderr(bytes),
                        }));
                    }
                    Err(error) => {
                        self.source = Source::Ended(Vec::new().into_iter());
                        return Some(Err(OpError::StoreUnavailable { reason: error.to_string() }));
                    }
                }
            }
            if ended {
                self.source = Source::Ended(Vec::new().into_iter());
                return Some(Ok(RunChunk::Result(Box::new(cell.view(max_output)))));
            }
            cell.more_than(self.seen).await;
        }
    }
}
