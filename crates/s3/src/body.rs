//! A part of a file as the body of a request. It is read as it is sent, so a large pack needs no memory.

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll};

/// How many bytes are read at a time.
const AT_ONCE: u64 = 256 << 10;

/// A part of a file; nothing if it has no file.
pub(crate) struct Part {
    file: Option<File>,
    left: u64,
}

impl Part {
    pub(crate) fn empty() -> Self {
        Self { file: None, left: 0 }
    }

    pub(crate) fn of(path: &Path, range: Range<u64>) -> io::Result<Self> {
        let mut file = File::open(path)?;
        file.seek(SeekFrom::Start(range.start))?;
        Ok(Self { file: Some(file), left: range.end.saturating_sub(range.start) })
    }
}

impl Body for Part {
    type Data = Bytes;
    type Error = io::Error;

    // The thread belongs to this client, so it may wait for the disk.
    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let Self { file, left } = &mut *self;
        let Some(file) = file.as_mut().filter(|_| *left > 0) else { return Poll::Ready(None) };
        let mut bytes = vec![0; usize::try_from((*left).min(AT_ONCE)).unwrap_or_default()];
        let read = file.read_exact(&mut bytes).map(|()| {
            *left -= bytes.len() as u64;
            Frame::data(Bytes::from(bytes))
        });
        Poll::Ready(Some(read))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}
