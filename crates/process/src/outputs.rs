//! The outputs of a shell's commands or of a program, as we read them.

use crate::stdio::{MOST_AT_ONCE, READ_BYTES, Read, Reader};
use std::task::{Context, Poll};
use tokio::time::Instant;

/// So many reads of a stream between two looks at whether the command has ended, if they bring little.
const READS_AT_ONCE: usize = 16;

/// Which output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// The ends that we read. An output that has none goes where the other goes, or to a terminal, or it has ended.
#[derive(Debug, Default)]
pub(crate) struct Outputs {
    pub(crate) stdout: Option<Reader>,
    pub(crate) stderr: Option<Reader>,
}

impl Outputs {
    fn each(&mut self) -> [(&mut Option<Reader>, Stream); 2] {
        [(&mut self.stdout, Stream::Stdout), (&mut self.stderr, Stream::Stderr)]
    }

    /// Hands on what they have now; whether it was anything. What never stops is left for the next time, so that others
    /// get their turn, and one that has ended is dropped.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>, sink: &mut (dyn FnMut(Stream, &[u8]) + Send)) -> bool {
        let mut any = false;
        for (slot, stream) in self.each() {
            let mut brought = 0;
            for _ in 0..READS_AT_ONCE {
                let Some(reader) = slot.as_ref().filter(|_| brought + READ_BYTES <= MOST_AT_ONCE) else { break };
                let mut sink = |bytes: &[u8]| {
                    brought += bytes.len();
                    sink(stream, bytes);
                };
                match reader.poll_read(cx, &mut sink) {
                    Poll::Ready(Read::Bytes) => any = true,
                    Poll::Ready(Read::End) => *slot = None,
                    Poll::Ready(Read::Empty) | Poll::Pending => break,
                }
            }
        }
        any
    }

    /// The command has ended: reads what is left. One that another process may hold, which `held` says of each, is read until
    /// the deadline and then given away, because later output belongs to no later command. May be dropped and called again.
    pub(crate) async fn drain(
        &mut self,
        mut held: [bool; 2],
        deadline: Instant,
        sink: &mut (dyn FnMut(Stream, &[u8]) + Send),
    ) -> Vec<Reader> {
        for ((slot, stream), held) in self.each().into_iter().zip(&mut held) {
            let Some(reader) = slot else { continue };
            let mut sink = |bytes: &[u8]| sink(stream, bytes);
            let mut last = read_own(reader, &mut sink);
            // Something else writes, and may never stop.
            *held |= last == Read::Bytes;
            if *held && last != Read::End && read_until(reader, deadline, &mut sink).await {
                last = Read::End;
            }
            if last == Read::End {
                *slot = None;
            }
        }
        let mut late = Vec::new();
        for ((slot, _), held) in self.each().into_iter().zip(held) {
            match slot {
                Some(_) if held => late.extend(slot.take()),
                Some(reader) => reader.shrink(),
                None => {}
            }
        }
        late
    }
}

/// Reads what is in a pipe: no more than it holds can be of a command that has ended. What the last read gave.
fn read_own(reader: &Reader, sink: &mut (dyn FnMut(&[u8]) + Send)) -> Read {
    let (most, mut brought) = (reader.capacity(), 0);
    let mut last = Read::Bytes;
    while last == Read::Bytes && brought <= most {
        last = reader.read_now(&mut |bytes| {
            brought += bytes.len();
            sink(bytes);
        });
    }
    last
}

/// Reads until the end of a pipe, at most until the deadline. Whether it has ended.
async fn read_until(reader: &Reader, deadline: Instant, sink: &mut (dyn FnMut(&[u8]) + Send)) -> bool {
    let until_end = async {
        loop {
            if reader.read(&mut *sink).await == Read::End {
                return true;
            }
            // A pipe that always has something is never waited for.
            if Instant::now() >= deadline {
                return false;
            }
        }
    };
    tokio::time::timeout_at(deadline, until_end).await.unwrap_or(false)
}
