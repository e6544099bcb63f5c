//! What a command reads from and writes to: pipes, files in memory, terminals.

use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, tcgetattr, tcsetattr};
use std::cell::RefCell;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Size of an output pipe whose command writes much: it then needs fewer switches between us and the command. The
/// kernel counts the sizes of all pipes of a user, by default up to 64 MiB, and a user over that gets tiny ones. So
/// only a pipe that is found full grows, and only until its command ends: an idle shell keeps its pipes.
const LARGE_PIPE: usize = 256 << 10;
/// The size that the kernel gives a pipe.
const USUAL_PIPE: usize = 64 << 10;
/// What is in a pipe of that size that its command has to wait for. A full one may hold less than its size.
const MUCH: usize = USUAL_PIPE / 2;
/// How much is read at once.
pub(crate) const READ_BYTES: usize = 256 << 10;
/// Most that is read of a stream between two looks at whether the command has ended, so that a flood cannot hide the end.
pub const MOST_AT_ONCE: usize = 2 * READ_BYTES;
/// Most that the kernel keeps of what was typed at a terminal.
const TYPED_AHEAD: usize = 4096;

thread_local! {
    /// Shared by all readers of a thread: output is handed on before the next read.
    static BUFFER: RefCell<Vec<u8>> = RefCell::new(vec![0; READ_BYTES]);
}

/// Lets the runtime tell us when a descriptor is ready. Only for the requested events: an unneeded one costs a wake-up
/// each.
pub fn watch<T: Into<OwnedFd> + AsRawFd>(source: T, interest: Interest) -> io::Result<AsyncFd<T>> {
    // SAFETY: `T` owns its descriptor, and the value stays inside the `AsyncFd` until that is dropped.
    Ok(unsafe { AsyncFd::register_with_interest(source, interest) }?)
}

/// The end of a pipe or terminal that we read.
#[derive(Debug)]
pub struct Reader {
    fd: AsyncFd<OwnedFd>,
    /// Whether it was asked to be large.
    is_large: AtomicBool,
}

/// What one attempt to read gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Read {
    /// Bytes were handed on.
    Bytes,
    /// Nothing yet.
    Empty,
    /// Everything was read, and the writer has closed.
    End,
}

impl Reader {
    fn new(fd: OwnedFd) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&fd, true)?;
        Ok(Self { fd: watch(fd, Interest::READABLE)?, is_large: AtomicBool::new(false) })
    }

    /// Makes its pipe large. A small one is only slower; users over their pipe quota keep it.
    fn grow(&self) {
        if !self.is_large.swap(true, Ordering::Relaxed) {
            let _ = rustix::pipe::fcntl_setpipe_size(&self.fd, LARGE_PIPE);
        }
    }

    /// Gives its pipe the usual size again: the command has ended.
    pub(crate) fn shrink(&self) {
        if self.is_large.swap(false, Ordering::Relaxed) {
            let _ = rustix::pipe::fcntl_setpipe_size(&self.fd, USUAL_PIPE);
        }
    }

    /// How much its pipe can hold, if it is one.
    pub(crate) fn capacity(&self) -> usize {
        rustix::pipe::fcntl_getpipe_size(&self.fd).unwrap_or(USUAL_PIPE)
    }

    /// Reads what is there now, without waiting, and hands it on.
    pub fn read_now(&self, sink: &mut (dyn FnMut(&[u8]) + Send)) -> Read {
        BUFFER.with_borrow_mut(|buffer| match rustix::io::read(self.fd.get_ref(), &mut buffer[..]) {
            Ok(0) => Read::End,
            Ok(length) => {
                if length >= MUCH {
                    self.grow();
                }
                sink(&buffer[..length]);
                Read::Bytes
            }
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Read::Empty,
            // A terminal whose other side is closed answers EIO.
            Err(_) => Read::End,
        })
    }

    /// Waits for something to read, and hands it on.
    pub fn poll_read(&self, cx: &mut Context<'_>, sink: &mut (dyn FnMut(&[u8]) + Send)) -> Poll<Read> {
        loop {
            let Poll::Ready(ready) = self.fd.poll_read_ready(cx) else { return Poll::Pending };
            let Ok(mut guard) = ready else { return Poll::Ready(Read::End) };
            match self.read_now(sink) {
                Read::Empty => guard.clear_ready(),
                other => return Poll::Ready(other),
            }
        }
    }

    /// Waits for something to read, and hands it on.
    pub async fn read(&self, mut sink: impl FnMut(&[u8]) + Send) -> Read {
        std::future::poll_fn(|cx| self.poll_read(cx, &mut sink)).await
    }
}

/// A pipe for output.
pub struct OutputPipe {
    pub ours: Reader,
    /// The command's end.
    pub theirs: OwnedFd,
}

impl OutputPipe {
    /// A new one.
    pub fn new() -> io::Result<Self> {
        let (reader, theirs) = pipe_with(PipeFlags::CLOEXEC)?;
        Ok(Self { ours: Reader::new(reader)?, theirs })
    }
}

/// The end of a pipe or terminal into which we write what a command reads.
#[derive(Debug)]
pub struct Writer {
    fd: AsyncFd<OwnedFd>,
}

impl Writer {
    fn new(fd: OwnedFd) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&fd, true)?;
        Ok(Self { fd: watch(fd, Interest::WRITABLE)? })
    }

    /// Whether what is written can be seen: a terminal without echo hides it, as at a password prompt. A
    /// pipe hides nothing.
    pub fn echoes(&self) -> bool {
        // Asked about our side of a terminal, the kernel reports the settings of the command's side.
        tcgetattr(self.fd.get_ref()).map_or(true, |modes| modes.local_modes.contains(LocalModes::ECHO))
    }

    /// Changes a terminal's size. The kernel tells the program with SIGWINCH.
    pub fn resize(&self, size: TerminalSize) -> io::Result<()> {
        Ok(rustix::termios::tcsetwinsize(self.fd.get_ref(), size.window())?)
    }

    /// Writes all of it, waiting for the reader where it is slow.
    pub async fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let mut guard = self.fd.writable().await?;
            match guard.try_io(|fd| Ok(rustix::io::write(fd.get_ref(), bytes)?)) {
                Ok(Ok(written)) => bytes = &bytes[written..],
                Ok(Err(error)) => return Err(error),
                Err(_would_block) => {}
            }
        }
        Ok(())
    }
}

/// A pipe for input.
pub struct InputPipe {
    pub ours: Writer,
    /// The command's end.
    pub theirs: OwnedFd,
}

impl InputPipe {
    /// A new one.
    pub fn new() -> io::Result<Self> {
        let (theirs, writer) = pipe_with(PipeFlags::CLOEXEC)?;
        Ok(Self { ours: Writer::new(writer)?, theirs })
    }
}

/// Given input: a file in memory, so that no task has to feed it and its size does not matter.
pub fn given_input(bytes: &[u8]) -> io::Result<OwnedFd> {
    let file = memfd_create("stdin", MemfdFlags::CLOEXEC)?;
    let mut rest = bytes;
    while !rest.is_empty() {
        let written = rustix::io::write(&file, rest)?;
        rest = &rest[written..];
    }
    rustix::fs::seek(&file, rustix::fs::SeekFrom::Start(0))?;
    Ok(file)
}

/// The size of a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TerminalSize {
    pub rows: u16,
    pub cols: u16,
}

impl Default for TerminalSize {
    fn default() -> Self {
        Self { rows: 24, cols: 80 }
    }
}

impl TerminalSize {
    fn window(self) -> rustix::termios::Winsize {
        rustix::termios::Winsize { ws_row: self.rows, ws_col: self.cols, ws_xpixel: 0, ws_ypixel: 0 }
    }
}

/// A terminal.
pub struct Terminal {
    /// Ours, to read.
    pub output: Reader,
    /// Ours, to write.
    pub input: Writer,
    /// The command's side.
    pub theirs: OwnedFd,
}

impl Terminal {
    /// A new one.
    pub fn new(size: TerminalSize) -> io::Result<Self> {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
        grantpt(&master)?;
        unlockpt(&master)?;
        let name = ptsname(&master, Vec::new())?;
        let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NOCTTY | rustix::fs::OFlags::CLOEXEC;
        let theirs = rustix::fs::open(&*name, flags, rustix::fs::Mode::empty())?;
        rustix::termios::tcsetwinsize(&master, size.window())?;
        let input = Writer::new(master.try_clone()?)?;
        Ok(Self { output: Reader::new(master)?, input, theirs })
    }
}

/// The command's side of a terminal, held by us too: the kernel drops what was typed when nobody holds it.
#[derive(Debug)]
pub struct CommandTerminal(OwnedFd);

impl CommandTerminal {
    pub(crate) fn new(side: OwnedFd) -> Self {
        Self(side)
    }

    /// What was typed and not read. Nothing if the terminal does not echo: that may be a password.
    pub fn unread(self) -> Vec<u8> {
        let Ok(before) = tcgetattr(&self.0) else { return Vec::new() };
        if !before.local_modes.contains(LocalModes::ECHO) {
            return Vec::new();
        }
        let mut at_once = before.clone();
        // By lines the last one could not be read, as it has no end.
        at_once.local_modes.remove(LocalModes::ICANON);
        at_once.special_codes[SpecialCodeIndex::VMIN] = 0;
        at_once.special_codes[SpecialCodeIndex::VTIME] = 0;
        let mut unread = vec![0; TYPED_AHEAD];
        let read = tcsetattr(&self.0, OptionalActions::Now, &at_once)
            .and_then(|()| rustix::io::read(&self.0, &mut unread[..]));
        // A process that the command left behind may still use it.
        let _ = tcsetattr(&self.0, OptionalActions::Now, &before);
        unread.truncate(read.unwrap_or(0));
        unread
    }
}

/// What is typed at the terminal that controls this process. Nothing is read before it is asked for, and reading without
/// waiting is the mode of this descriptor alone.
pub fn own_terminal() -> io::Result<Reader> {
    let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::NOCTTY | rustix::fs::OFlags::CLOEXEC;
    Reader::new(rustix::fs::open("/dev/tty", flags, rustix::fs::Mode::empty())?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::pipe::fcntl_getpipe_size;

    /// All pipes had 256 KiB for as long as their shell lived: 128 idle sessions used up what the kernel gives one
    /// user, and every other pipe of that user was tiny.
    #[tokio::test]
    async fn a_pipe_is_large_only_while_much_is_written() {
        let OutputPipe { ours: reader, theirs: writer } = OutputPipe::new().unwrap();
        let size = || fcntl_getpipe_size(&writer).unwrap();
        let usual = size();
        assert!(usual <= USUAL_PIPE, "{usual}");
        let mut total = 0;
        for piece in [1, MUCH - 1, MUCH] {
            assert_eq!(size(), usual);
            assert_eq!(rustix::io::write(&writer, &vec![b'x'; piece]).unwrap(), piece);
            assert_eq!(reader.read_now(&mut |bytes| total += bytes.len()), Read::Bytes);
        }
        assert_eq!((total, size()), (2 * MUCH, LARGE_PIPE));
        reader.shrink();
        assert_eq!(size(), usual);
    }
}
