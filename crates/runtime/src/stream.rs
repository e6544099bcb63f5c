//! A running command as a stream: its output as it arrives, then its result. A slow watcher reads later from what is
//! kept and never delays the command.

use crate::cell::{End, RunCell};
use crate::ops::{OpError, RunChunk, RunView, Stream};
use shellkeep_session::RunId;
use std::sync::Arc;

/// Most bytes handed to a watcher at once.
const CHUNK: usize = 64 << 10;

/// A running command as a stream. `next` returns output as it arrives and the result at the end, then `None`.
pub struct RunStream {
    run_id: RunId,
    /// Number of the record of its start.
    seq: u64,
    source: Source,
    seen: [u64; 2],
    /// What was shown of a terminal after `seen`, before it was kept.
    ahead: Vec<u8>,
}

enum Source {
    Live { cell: Arc<RunCell>, max_output: usize, end: End },
    Ended(std::vec::IntoIter<RunChunk>),
}

impl RunStream {
    pub(crate) fn live(cell: Arc<RunCell>, max_output: usize, end: End) -> Self {
        let (run_id, seq) = (cell.start.run_id.clone(), cell.start.seq);
        Self { run_id, seq, source: Source::Live { cell, max_output, end }, seen: [0; 2], ahead: Vec::new() }
    }

    pub(crate) fn ended(view: RunView) -> Self {
        let run_id = view.run_id.clone();
        let seq = run_id.seq().unwrap_or(view.seq);
        let mut chunks = Vec::new();
        if !view.stdout.bytes.is_empty() {
            chunks.push(RunChunk::Stdout(view.stdout.bytes.clone()));
        }
        if !view.stderr.bytes.is_empty() {
            chunks.push(RunChunk::Stderr(view.stderr.bytes.clone()));
        }
        chunks.push(RunChunk::Result(Box::new(view)));
        Self { run_id, seq, source: Source::Ended(chunks.into_iter()), seen: [0; 2], ahead: Vec::new() }
    }

    /// Which run this is.
    pub fn run_id(&self) -> &RunId {
        &self.run_id
    }

    /// Number of the record of its start.
    pub fn seq(&self) -> u64 {
        self.seq
    }

    /// The run's current state, without waiting; `None` once the result was returned.
    pub fn now(&self) -> Option<RunView> {
        match &self.source {
            Source::Live { cell, max_output, .. } => Some(cell.view(*max_output)),
            Source::Ended(chunks) => result_in(chunks.as_slice()),
        }
    }

    /// What was written so far, its middle left out where it is long. `next` continues after it.
    pub fn catch_up(&mut self) -> Option<RunView> {
        let view = self.now()?;
        self.seen = [view.stdout.total, view.stderr.total];
        self.ahead.clear();
        if let Source::Ended(chunks) = &mut self.source {
            chunks.by_ref().take_while(|chunk| !matches!(chunk, RunChunk::Result(_))).for_each(drop);
        }
        Some(view)
    }

    /// Waits for the end and skips the output on the way; `None` once the result was returned. Cheaper than `next` for
    /// a caller that only wants the result.
    pub async fn result(&mut self) -> Option<RunView> {
        if let Source::Live { cell, .. } = &self.source {
            let cell = Arc::clone(cell);
            cell.finished().await;
        }
        let view = self.now();
        self.source = Source::Ended(Vec::new().into_iter());
        view
    }

    /// The next piece.
    pub async fn next(&mut self) -> Option<Result<RunChunk, OpError>> {
        let (cell, max_output, end) = match &mut self.source {
            Source::Live { cell, max_output, end } => (Arc::clone(cell), *max_output, *end),
            Source::Ended(chunks) => return chunks.next().map(Ok),
        };
        loop {
            let ended = cell.has_come_to(end);
            for (index, stream) in [Stream::Stdout, Stream::Stderr].into_iter().enumerate() {
                match cell.read(stream, self.seen[index], CHUNK) {
                    Ok(bytes) if bytes.is_empty() => {}
                    Ok(bytes) => {
                        self.seen[index] += bytes.len() as u64;
                        match (stream, self.without_shown(stream, bytes)) {
                            (_, bytes) if bytes.is_empty() => {}
                            (Stream::Stdout, bytes) => return Some(Ok(RunChunk::Stdout(bytes))),
                            (Stream::Stderr, bytes) => return Some(Ok(RunChunk::Stderr(bytes))),
                        }
                    }
                    Err(error) => {
                        self.source = Source::Ended(Vec::new().into_iter());
                        return Some(Err(OpError::StoreUnavailable { reason: error.to_string() }));
                    }
                }
            }
            if ended {
                // Beyond the quota only the tail was kept; a watcher gets it before the result.
                let tail = |stream| Some(cell.tail(stream)).filter(|tail| cell.is_finished() && !tail.is_empty());
                let mut last: Vec<RunChunk> = tail(Stream::Stdout).map(RunChunk::Stdout).into_iter().collect();
                last.extend(tail(Stream::Stderr).map(RunChunk::Stderr));
                last.push(RunChunk::Result(Box::new(cell.view(max_output))));
                let mut last = last.into_iter();
                let next = last.next();
                self.source = Source::Ended(last);
                return next.map(Ok);
            }
            if let Some(more) = self.more_ahead(&cell) {
                return Some(Ok(RunChunk::Stdout(more)));
            }
            cell.more_than(self.seen, Some(&self.ahead), end).await;
        }
    }

    /// What a terminal shows in addition to what was seen of it.
    fn more_ahead(&mut self, cell: &RunCell) -> Option<Vec<u8>> {
        let now = cell.ahead(self.seen[0])?;
        let more = now.strip_prefix(self.ahead.as_slice()).filter(|more| !more.is_empty())?.to_vec();
        self.ahead = now;
        Some(more)
    }

    /// What is kept now, without what was shown before. If it was masked meanwhile, it is shown from there on.
    fn without_shown(&mut self, stream: Stream, mut bytes: Vec<u8>) -> Vec<u8> {
        if stream == Stream::Stderr || self.ahead.is_empty() {
            return bytes;
        }
        let same = bytes.iter().zip(&self.ahead).take_while(|(kept, shown)| kept == shown).count();
        if same == bytes.len() {
            self.ahead.drain(..same);
        } else {
            self.ahead.clear();
        }
        bytes.drain(..same);
        bytes
    }
}

fn result_in(chunks: &[RunChunk]) -> Option<RunView> {
    chunks.iter().rev().find_map(|chunk| match chunk {
        RunChunk::Result(view) => Some((**view).clone()),
        RunChunk::Stdout(_) | RunChunk::Stderr(_) => None,
    })
}
