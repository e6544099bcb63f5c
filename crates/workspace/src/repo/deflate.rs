//! zlib, with its state kept from one object to the next: making one costs more than packing a small file.

use flate2::{Compress, Compression, FlushCompress, Status};

/// A command may wait for a checkpoint, so speed is preferred over size.
pub(super) const LEVEL: Compression = Compression::new(1);

/// Packs bytes, one object after another.
pub(super) struct Deflate {
    state: Compress,
}

impl Deflate {
    pub(super) fn new() -> Self {
        Self { state: Compress::new(LEVEL, true) }
    }

    /// The packed form of these pieces, one after the other.
    pub(super) fn pack(&mut self, pieces: &[&[u8]]) -> Vec<u8> {
        self.state.reset();
        let size: usize = pieces.iter().map(|piece| piece.len()).sum();
        let mut out = Vec::with_capacity(size / 2 + 64);
        for piece in pieces {
            self.feed(piece, &mut out, FlushCompress::None);
        }
        self.feed(&[], &mut out, FlushCompress::Finish);
        out
    }

    fn feed(&mut self, mut piece: &[u8], out: &mut Vec<u8>, flush: FlushCompress) {
        loop {
            if out.capacity() - out.len() < 64 {
                out.reserve(out.len().max(1024));
            }
            let before = self.state.total_in();
            let status = self.state.compress_vec(piece, out, flush);
            let taken = usize::try_from(self.state.total_in() - before).unwrap_or(piece.len());
            piece = &piece[taken.min(piece.len())..];
            let done = match flush {
                FlushCompress::Finish => matches!(status, Ok(Status::StreamEnd) | Err(_)),
                _ => piece.is_empty(),
            };
            if done {
                return;
            }
        }
    }
}

/// Packs many objects' bytes on as many threads as help; the result is in the order of `objects`.
pub(super) fn pack_all(objects: &[&[u8]]) -> Vec<Vec<u8>> {
    /// Less than this is done before a thread has begun.
    const WORTH_A_THREAD: usize = 256 * 1024;
    /// More would take the machine from those whose commands run.
    const THREADS: usize = 4;

    let total: usize = objects.iter().map(|bytes| bytes.len()).sum();
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(THREADS).min(total / WORTH_A_THREAD);
    let pack_some = |some: &[&[u8]]| {
        let mut deflate = Deflate::new();
        some.iter().map(|bytes| deflate.pack(&[bytes])).collect::<Vec<_>>()
    };
    if threads < 2 {
        return pack_some(objects);
    }
    std::thread::scope(|scope| {
        let mut parts = Vec::with_capacity(threads);
        let mut rest = objects;
        let mut share = 0;
        for left in (1..=threads).rev() {
            // By bytes, not by count: one long file would leave the others waiting.
            let goal = (total - share) / left;
            let mut sum = 0;
            let end = rest.iter().position(|bytes| {
                sum += bytes.len();
                sum >= goal
            });
            let cut = if left == 1 { rest.len() } else { end.map_or(rest.len(), |place| place + 1) };
            let (part, after) = rest.split_at(cut);
            share += part.iter().map(|bytes| bytes.len()).sum::<usize>();
            rest = after;
            parts.push((part, scope.spawn(move || pack_some(part))));
        }
        // A thread that could not finish leaves its part to this one.
        parts.into_iter().flat_map(|(part, thread)| thread.join().unwrap_or_else(|_| pack_some(part))).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;

    #[test]
    fn what_is_packed_comes_out_in_order() {
        let objects: Vec<Vec<u8>> = (0..700u32).map(|n| n.to_le_bytes().repeat((n as usize * 37) % 5000)).collect();
        let packed = pack_all(&objects.iter().map(Vec::as_slice).collect::<Vec<_>>());
        assert_eq!(packed.len(), objects.len());
        for (packed, bytes) in packed.iter().zip(&objects) {
            let mut out = Vec::new();
            flate2::read::ZlibDecoder::new(packed.as_slice()).read_to_end(&mut out).unwrap();
            assert_eq!(&out, bytes);
        }
        let noise: Vec<u8> = (0..100_000u64).map(|n| (n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8).collect();
        let packed = Deflate::new().pack(&[b"blob 3\0", &noise]);
        let mut out = Vec::new();
        flate2::read::ZlibDecoder::new(packed.as_slice()).read_to_end(&mut out).unwrap();
        assert_eq!(out.strip_prefix(b"blob 3\0"), Some(noise.as_slice()));
    }
}
