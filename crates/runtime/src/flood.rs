//! Much output, on its way to the disk. A write may wait for the disk, so what some steps of a command have brought is written
//! by a thread that may block, while the next ones bring more. A change of threads for each write would leave threads
//! behind, each with memory of its own; and buffers that grow leave their smaller selves to the allocator, so these do not.

use crate::cell::RunCell;
use crate::ops::Stream;
use crate::sync::lock;
use crate::tasks;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use tokio::task::JoinHandle;

/// From so many bytes in one step on, the output is much.
const MUCH: usize = 64 << 10;
/// From so many bytes on, what is held is written before more is read.
const ENOUGH: usize = 1 << 20;
/// Most that is held, and what a buffer has room for: what a step may bring of both streams fits as long as not enough is held.
const MOST_HELD: usize = ENOUGH + 2 * shellkeep_process::stdio::MOST_AT_ONCE;

/// The output of one command, while it is much.
#[derive(Debug, Default)]
pub struct Flood {
    taken: Taken,
    writing: Writing,
}

/// What was taken and nobody writes yet.
#[derive(Debug, Default)]
pub struct Taken {
    /// What this step has brought.
    brought: usize,
    held: Held,
    backlog: Arc<Backlog>,
}

/// The thread that writes, if one does.
#[derive(Debug, Default)]
pub struct Writing(Option<JoinHandle<()>>);

/// Output in the order in which it came.
#[derive(Debug, Default)]
struct Held {
    bytes: Vec<u8>,
    pieces: Vec<(Stream, usize)>,
}

impl Held {
    fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    fn push(&mut self, stream: Stream, bytes: &[u8]) {
        if self.bytes.capacity() == 0 {
            self.bytes.reserve_exact(MOST_HELD);
        }
        self.bytes.extend_from_slice(bytes);
        self.pieces.push((stream, bytes.len()));
    }

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

/// What waits to be written. Whoever writes takes it in its order, so it does not matter who does.
#[derive(Debug, Default)]
struct Backlog {
    line: Mutex<Line>,
    /// Held by who writes.
    turn: Mutex<()>,
}

#[derive(Debug, Default)]
struct Line {
    waiting: VecDeque<Held>,
    is_written: bool,
    spare: Option<Held>,
}

impl Backlog {
    fn is_empty(&self) -> bool {
        let line = lock(&self.line);
        line.waiting.is_empty() && !line.is_written
    }

    /// Takes it, and gives an empty one for it.
    fn push(&self, held: Held) -> Held {
        let mut line = lock(&self.line);
        line.waiting.push_back(held);
        line.spare.take().unwrap_or_default()
    }

    /// Writes until nothing waits.
    fn write(&self, cell: &RunCell) {
        let _turn = lock(&self.turn);
        while let Some(mut held) = self.next() {
            held.write(cell);
            lock(&self.line).spare = Some(held);
        }
    }

    fn next(&self) -> Option<Held> {
        let mut line = lock(&self.line);
        let next = line.waiting.pop_front();
        line.is_written = next.is_some();
        next
    }
}

impl Taken {
    /// Takes what a step brings.
    pub fn take(&mut self, cell: &RunCell, stream: Stream, bytes: &[u8]) {
        self.brought += bytes.len();
        let is_first = !self.is_holding() && self.backlog.is_empty();
        // What a terminal asks for is answered in the step that brings it.
        if is_first && (cell.is_terminal() || cell.takes_at_once(stream, bytes.len())) {
            return cell.append(stream, bytes);
        }
        // A step brings so much only while it empties what a command leaves in its pipes.
        if self.is_holding() && self.held.bytes.len() + bytes.len() > MOST_HELD {
            self.hand_over();
            tasks::in_place(|| self.backlog.write(cell));
        }
        self.held.push(stream, bytes);
    }

    /// Whether something was taken that nobody writes yet.
    pub fn is_holding(&self) -> bool {
        !self.held.is_empty()
    }

    /// Whether there is room for what a step may bring.
    pub fn has_room(&self) -> bool {
        self.held.bytes.len() < ENOUGH
    }

    /// Gives the memory back: a command may live long, and there may be many.
    fn give_back(&mut self) {
        self.held = Held::default();
        lock(&self.backlog.line).spare = None;
    }

    fn hand_over(&mut self) {
        let held = std::mem::take(&mut self.held);
        self.held = self.backlog.push(held);
    }
}

impl Writing {
    /// Whether one does, or did and nobody has looked since.
    pub fn has_begun(&self) -> bool {
        self.0.is_some()
    }

    /// Waits until nothing is being written. Cancel-safe.
    pub async fn written(&mut self) {
        if let Some(writing) = &mut self.0 {
            if let Err(error) = writing.await {
                tracing::error!(%error, "output was lost");
            }
            self.0 = None;
        }
    }

    fn is_over(&self) -> bool {
        self.0.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

impl Flood {
    /// What takes the output of a step, and the writing that goes on beside it.
    pub fn parts(&mut self) -> (&mut Taken, &mut Writing) {
        (&mut self.taken, &mut self.writing)
    }

    /// A step is over, and perhaps the next one brings more at once.
    pub fn step_is_over(&mut self, cell: &Arc<RunCell>, has_more: bool) {
        let taken = &mut self.taken;
        let is_much = std::mem::take(&mut taken.brought) >= MUCH;
        if (has_more && is_much && taken.has_room()) || !self.writing.is_over() {
            return;
        }
        if taken.is_holding() {
            self.begin_to_write(cell);
        } else if !has_more {
            taken.give_back();
        }
    }

    /// Waits until all that was taken is written. Cancel-safe.
    pub async fn write_out(&mut self, cell: &Arc<RunCell>) {
        self.writing.written().await;
        self.begin_to_write(cell);
        self.writing.written().await;
    }

    fn begin_to_write(&mut self, cell: &Arc<RunCell>) {
        if self.taken.is_holding() {
            self.taken.hand_over();
        } else if self.taken.backlog.is_empty() {
            return;
        }
        let (cell, backlog) = (Arc::clone(cell), Arc::clone(&self.taken.backlog));
        self.writing = Writing(Some(tasks::blocking(move || backlog.write(&cell))));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::{OutputSpec, RunStart};
    use shellkeep_session::{ByteString, RunId, Timestamp};
    use std::fs::File;
    use std::io::Read;
    use std::sync::mpsc;
    use std::time::Duration;

    fn cell(directory: &tempfile::TempDir) -> Arc<RunCell> {
        let text = || ByteString::from("x");
        let start = RunStart {
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
            tool_name: None,
        };
        RunCell::new(start, OutputSpec { directory: directory.path().into(), limit: u64::MAX, redactor: None }).0
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
            flood.writing.written().await;
            for (stream, byte) in [(Stream::Stdout, b'a'), (Stream::Stderr, b'A')] {
                let bytes = vec![byte + step as u8; length];
                flood.taken.take(&cell, stream, &bytes);
                expected.extend(bytes);
            }
            flood.step_is_over(&cell, true);
        }
        assert!(
            written(&cell).len() < expected.len() && flood.taken.is_holding(),
            "the next step may bring more at once"
        );
        flood.write_out(&cell).await;
        assert!(written(&cell) == expected && !flood.taken.is_holding());
        let kept = |flood: &Flood| {
            let line = lock(&flood.taken.backlog.line);
            flood.taken.held.bytes.capacity() + line.spare.as_ref().map_or(0, |spare| spare.bytes.capacity())
        };
        assert!(kept(&flood) > 0, "it may go on");
        flood.step_is_over(&cell, false);
        assert_eq!(kept(&flood), 0, "a quiet command kept its buffers until its end");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn no_more_is_held_than_there_may_be() {
        let directory = tempfile::tempdir().unwrap();
        let (cell, mut flood) = (cell(&directory), Flood::default());
        for _ in 0..3 * MOST_HELD / MUCH {
            flood.taken.take(&cell, Stream::Stdout, &[b'x'; MUCH]);
            assert!(flood.taken.held.bytes.len() <= MOST_HELD);
        }
        assert!(written(&cell).len() >= 2 * MOST_HELD);
        flood.write_out(&cell).await;
        assert_eq!(written(&cell).len(), 3 * MOST_HELD);
    }

    /// The bug: as many readers as there are threads stopped all sessions while a disk was slow.
    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn who_reads_while_the_disk_is_slow_stops_no_other_task() {
        let directory = tempfile::tempdir().unwrap();
        // A pipe takes 64 KiB and then lets its writer wait.
        let path = directory.path().join("r1.stdout");
        let (kind, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR);
        rustix::fs::mknodat(rustix::fs::CWD, &path, kind, mode, 0).unwrap();
        let mut disk = File::options().read(true).write(true).open(&path).unwrap();
        let (cell, mut flood) = (cell(&directory), Flood::default());
        flood.taken.take(&cell, Stream::Stdout, &[b'x'; 4 * MUCH]);
        flood.step_is_over(&cell, false);
        disk.read_exact(&mut [0]).unwrap();

        let (tell, told) = mpsc::channel();
        let reader = Arc::clone(&cell);
        let reading = tasks::spawn(async move { reader.tail(Stream::Stdout) });
        let other = tasks::spawn(async move { tell.send(()) });
        let is_told = std::thread::spawn(move || {
            let is_told = told.recv_timeout(Duration::from_secs(10)).is_ok();
            disk.read_exact(&mut [0; 4 * MUCH - 1]).unwrap();
            is_told
        });
        assert!(is_told.join().unwrap(), "the other task had to wait for the disk");
        other.await.unwrap().unwrap();
        assert_eq!(reading.await.unwrap(), b"");
        flood.write_out(&cell).await;
        assert_eq!(cell.readable(), [4 * MUCH as u64, 0]);
    }
}
