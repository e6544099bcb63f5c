//! Frames between us and the driver: a header with a nonce, a kind and a length, then the payload. Numbers are in the
//! machine's own order, because both ends are on one machine. `driver/wire.h` is the other side of this file.

/// Bytes of a nonce: enough that it cannot be guessed.
pub const NONCE_BYTES: usize = 16;
/// Bytes of a header.
pub const HEADER_BYTES: usize = NONCE_BYTES + 8;
/// Longest payload that is taken. The driver leaves out variables beyond `MOST_FRAME` in `capture.c`, which is less; a
/// longer frame is forged, and would have to be held in memory.
pub const MAX_PAYLOAD: usize = 64 << 20;

/// Most memory that what a payload lists may take. The shortest facts and elements take ten times their bytes, and all are
/// held before it is known that most do not fit into a session's state. The driver leaves out variables beyond
/// `MOST_MEMORY` in `capture.c`, which is less. Five million short positional parameters are above it; the state has no
/// room for a fifth of them.
pub const MAX_MEMORY: usize = 256 << 20;
/// What a text takes beside its bytes and the value that holds it: the allocator's own.
const TEXT_BYTES: usize = 24;

/// A frame says that it is longer than any frame may be.
#[derive(Debug, PartialEq, Eq)]
pub struct TooLong;

/// What the driver must echo, so that nothing a command writes can be taken for a result.
pub type Nonce = [u8; NONCE_BYTES];

/// Kinds of frames.
pub mod kind {
    /// The driver is there.
    pub const HELLO: u32 = 1;
    /// Become a session.
    pub const RESTORE: u32 = 2;
    /// Run a command.
    pub const RUN: u32 = 3;
    /// The directory for this call cannot be entered.
    pub const BAD_CWD: u32 = 4;
    /// Become a service.
    pub const SERVICE: u32 = 5;
    /// The deadline of a command or service has passed.
    pub const TOO_LATE: u32 = 6;
    /// Fork a shell.
    pub const FORK: u32 = 7;
    /// Put on a filter of system calls.
    pub const FILTER: u32 = 8;
    /// A command or service cannot be begun, for another reason than its directory.
    pub const REFUSED: u32 = 9;
    /// Enter a room.
    pub const ROOM: u32 = 17;
    /// Enter the part of a room that is no session's own.
    pub const ROOM_AHEAD: u32 = 18;
}

/// Builds a frame.
pub struct Writer {
    buffer: Vec<u8>,
}

impl Writer {
    /// Starts a frame.
    pub fn new(nonce: &Nonce, kind: u32) -> Self {
        let mut buffer = Vec::with_capacity(256);
        buffer.extend_from_slice(nonce);
        buffer.extend_from_slice(&kind.to_ne_bytes());
        buffer.extend_from_slice(&[0; 4]);
        Self { buffer }
    }

    /// Ends the frame.
    pub fn finish(mut self) -> Vec<u8> {
        let length = (self.buffer.len() - HEADER_BYTES) as u32;
        self.buffer[NONCE_BYTES + 4..HEADER_BYTES].copy_from_slice(&length.to_ne_bytes());
        self.buffer
    }

    /// One byte.
    pub fn tag(&mut self, tag: u8) -> &mut Self {
        self.buffer.push(tag);
        self
    }

    /// A number.
    pub fn u32(&mut self, value: u32) -> &mut Self {
        self.buffer.extend_from_slice(&value.to_ne_bytes());
        self
    }

    /// A large number.
    pub fn u64(&mut self, value: u64) -> &mut Self {
        self.buffer.extend_from_slice(&value.to_ne_bytes());
        self
    }

    /// Bytes to the end of the frame, whose length says how many.
    pub fn raw(&mut self, bytes: &[u8]) -> &mut Self {
        self.buffer.extend_from_slice(bytes);
        self
    }

    /// A length and bytes.
    pub fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.u32(bytes.len() as u32);
        self.buffer.extend_from_slice(bytes);
        self
    }

    /// A count and as many items.
    pub fn list<T>(&mut self, items: &[T], each: impl Fn(&mut Self, &T)) -> &mut Self {
        self.u32(items.len() as u32);
        for item in items {
            each(self, item);
        }
        self
    }
}

/// Reads a payload. Every method gives `None` past the end, and once what was read would take too much memory.
pub struct Reader<'a> {
    rest: &'a [u8],
    /// How much more memory what is read may take.
    memory: usize,
}

impl<'a> Reader<'a> {
    /// Reads from the start of a payload.
    pub fn new(payload: &'a [u8]) -> Self {
        Self { rest: payload, memory: MAX_MEMORY }
    }

    /// Whether everything was read.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Counts memory for what is made of the bytes.
    pub fn spend(&mut self, bytes: usize) -> Option<()> {
        self.memory = self.memory.checked_sub(bytes)?;
        Some(())
    }

    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(taken)
    }

    /// One byte.
    pub fn u8(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    /// A number.
    pub fn u32(&mut self) -> Option<u32> {
        self.take(4)?.try_into().ok().map(u32::from_ne_bytes)
    }

    /// A large number.
    pub fn u64(&mut self) -> Option<u64> {
        self.take(8)?.try_into().ok().map(u64::from_ne_bytes)
    }

    /// A length and bytes.
    pub fn bytes(&mut self) -> Option<Vec<u8>> {
        let length = self.u32()? as usize;
        let taken = self.take(length)?;
        self.spend(TEXT_BYTES + length)?;
        Some(taken.to_vec())
    }

    /// A count and as many items.
    pub fn list<T>(&mut self, each: impl Fn(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let count = self.u32()?;
        let mut item = || {
            self.spend(size_of::<T>())?;
            each(self)
        };
        (0..count).map(|_| item()).collect()
    }
}

/// Takes the frame with this nonce out of what was received, if it is there in full. Anything before it was
/// written by the command, not by the driver, and is dropped.
pub fn take_frame(received: &mut Vec<u8>, nonce: &Nonce) -> Result<Option<(u32, Vec<u8>)>, TooLong> {
    let Some(start) = received.windows(NONCE_BYTES).position(|window| window == nonce) else {
        // The nonce may have begun to arrive; everything before that is junk and must not pile up.
        let junk = received.len().saturating_sub(NONCE_BYTES - 1);
        received.drain(..junk);
        return Ok(None);
    };
    let frame = &received[start..];
    let Some(header) = frame.get(..HEADER_BYTES) else { return Ok(None) };
    let number = |at: usize| header[at..at + 4].try_into().map(u32::from_ne_bytes).unwrap_or_default();
    let (kind, length) = (number(NONCE_BYTES), number(NONCE_BYTES + 4) as usize);
    if length > MAX_PAYLOAD {
        return Err(TooLong);
    }
    let Some(payload) = frame.get(HEADER_BYTES..HEADER_BYTES + length).map(<[u8]>::to_vec) else { return Ok(None) };
    received.clear();
    Ok(Some((kind, payload)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn junk_before_a_frame_is_dropped() {
        let nonce = [7; NONCE_BYTES];
        let mut writer = Writer::new(&nonce, kind::RUN);
        writer.bytes(b"payload");
        let frame = writer.finish();
        let mut received = b"status 0\n".to_vec();
        received.extend_from_slice(&[7; 5]);
        received.push(0);
        received.extend_from_slice(&frame);
        let mut partial = received[..received.len() - 1].to_vec();
        assert_eq!(take_frame(&mut partial, &nonce), Ok(None));
        let (kind, payload) = take_frame(&mut received, &nonce).unwrap().unwrap();
        assert_eq!((kind, Reader::new(&payload).bytes().unwrap()), (kind::RUN, b"payload".to_vec()));
    }

    #[test]
    fn a_frame_without_the_nonce_is_nothing() {
        let frame = Writer::new(&[1; NONCE_BYTES], kind::RUN).finish();
        assert_eq!(take_frame(&mut frame.clone(), &[2; NONCE_BYTES]), Ok(None));
    }

    #[test]
    fn a_frame_that_says_it_is_too_long_is_refused_at_once() {
        let nonce = [1; NONCE_BYTES];
        let mut frame = Writer::new(&nonce, kind::RUN).finish();
        for (length, answer) in
            [(MAX_PAYLOAD, Ok(None)), (MAX_PAYLOAD + 1, Err(TooLong)), (u32::MAX as usize, Err(TooLong))]
        {
            frame[NONCE_BYTES + 4..].copy_from_slice(&(length as u32).to_ne_bytes());
            assert_eq!(take_frame(&mut frame.clone(), &nonce), answer, "{length}");
        }
    }
}
