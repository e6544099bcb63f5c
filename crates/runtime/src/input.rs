//! What a running command is sent to read: through a pipe or its terminal, in pieces that wait until it reads them.

use crate::shares::Share;
use crate::tasks;
use shellkeep_process::stdio::Writer;
use std::sync::Arc;
use tokio::sync::mpsc;

/// Pieces that may wait for a command that does not read.
const MOST_PIECES: usize = 64;
/// The end-of-file character of a terminal, which cannot be half closed.
const END_OF_INPUT: u8 = 4;

/// A piece of input.
pub(crate) struct Piece {
    pub bytes: Vec<u8>,
    /// Counts a large one as its sender's memory.
    pub share: Option<Share>,
}

/// The input of a command.
pub(crate) struct Input {
    /// None once it has ended.
    pieces: Option<mpsc::Sender<Piece>>,
    /// Its terminal. A pipe is not held here: it ends when its last holder drops it.
    terminal: Option<Arc<Writer>>,
}

impl Input {
    /// The input behind a writer, if it is open.
    pub fn new(writer: Option<Writer>, is_terminal: bool) -> Self {
        let writer = writer.map(Arc::new);
        let terminal = writer.as_ref().filter(|_| is_terminal).map(Arc::clone);
        Self { pieces: writer.map(spawn_writer), terminal }
    }

    /// The terminal, if it is one.
    pub fn terminal(&self) -> Option<&Writer> {
        self.terminal.as_deref()
    }

    /// Whether it cannot be seen: the terminal's echo is off.
    pub fn is_hidden(&self) -> bool {
        self.terminal().is_some_and(|terminal| !terminal.echoes())
    }

    /// Whether the command has not read what it was sent before.
    pub fn is_full(&self) -> bool {
        self.pieces.as_ref().is_some_and(|pieces| pieces.capacity() == 0)
    }

    /// Sends a piece, and the end of the input after it. Dropped if it is full: a command that does not read must not stop us.
    pub fn give(&mut self, mut piece: Piece, end: bool) {
        if end && self.terminal.is_some() {
            piece.bytes.push(END_OF_INPUT);
        }
        if let Some(pieces) = &self.pieces {
            let _ = pieces.try_send(piece);
        }
        if end && self.terminal.is_none() {
            self.pieces = None;
        }
    }
}

/// Writing to a command that does not read may block forever, so it has its own task. It ends with the pipe.
fn spawn_writer(writer: Arc<Writer>) -> mpsc::Sender<Piece> {
    let (sender, mut receiver) = mpsc::channel::<Piece>(MOST_PIECES);
    tasks::spawn(async move {
        while let Some(Piece { bytes, share }) = receiver.recv().await {
            if writer.write_all(&bytes).await.is_err() {
                break;
            }
            drop(share);
        }
    });
    sender
}
