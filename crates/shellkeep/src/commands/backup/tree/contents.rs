//! The contents of one file: copied and hashed, with its holes as holes. A session makes a file of eight terabytes that takes
//! no space (`truncate`), and its copy must take none either.

use super::Kind;
use crate::terminal::Progress;
use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

/// Bytes that are copied at a time.
pub(super) const PIECE: usize = 256 << 10;
/// What the system calls a block, whatever the file system's own are.
const BLOCK: u64 = 512;

/// Copies as many bytes of a file as it had when it was looked at; it may be growing. Its holes are taken from `holes`, how many
/// bytes of them may still be hashed; one that has more is refused with `FBIG`.
pub(super) fn copy(
    from: &File,
    about: &Metadata,
    to: &Path,
    holes: &mut u64,
    progress: &mut Progress,
) -> io::Result<Kind> {
    let out = OpenOptions::new().write(true).create_new(true).mode(0o600).open(to)?;
    let mut copying = Copying { from, out, hasher: blake3::Hasher::new(), piece: vec![0; PIECE], holes, progress };
    let size = about.len();
    // Some file systems also say this of what they compress. They have no holes there then.
    let may_have_holes = about.blocks().saturating_mul(BLOCK) < size;
    let bytes = if may_have_holes { copying.with_holes(size)? } else { copying.bytes(size)? };
    Ok(Kind::File { bytes, hash: copying.hasher.finalize().to_hex().to_string() })
}

struct Copying<'a> {
    from: &'a File,
    out: File,
    hasher: blake3::Hasher,
    piece: Vec<u8>,
    holes: &'a mut u64,
    progress: &'a mut Progress,
}

impl Copying<'_> {
    /// Copies up to so many bytes from where both files are, fewer if there are no more.
    fn bytes(&mut self, count: u64) -> io::Result<u64> {
        let mut done = 0;
        while done < count {
            let most = length(count - done);
            let read = self.from.read(&mut self.piece[..most])?;
            if read == 0 {
                break;
            }
            self.out.write_all(&self.piece[..read])?;
            self.hasher.update(&self.piece[..read]);
            self.progress.add(read as u64);
            done += read as u64;
        }
        Ok(done)
    }

    fn with_holes(&mut self, size: u64) -> io::Result<u64> {
        let mut at = 0;
        while at < size {
            let start = match seek(self.from, SeekFrom::Data(at)) {
                Ok(start) => start.clamp(at, size),
                // A hole to its end.
                Err(Errno::NXIO) => size,
                // It cannot tell holes from bytes: all of it is bytes.
                Err(_) => at,
            };
            self.hole(start - at)?;
            if start == size {
                break;
            }
            // At least one byte, in case that it became a hole meanwhile.
            let end = seek(self.from, SeekFrom::Hole(start)).map_or(size, |end| end.clamp(start + 1, size));
            seek(self.from, SeekFrom::Start(start))?;
            seek(&self.out, SeekFrom::Start(start))?;
            let done = self.bytes(end - start)?;
            if done < end - start {
                // It was cut off meanwhile.
                return Ok(start + done);
            }
            at = end;
        }
        self.out.set_len(size)?;
        Ok(size)
    }

    /// Nothing is written for it, and its hash is that of zeros.
    fn hole(&mut self, mut count: u64) -> io::Result<()> {
        *self.holes = self.holes.checked_sub(count).ok_or(Errno::FBIG)?;
        self.piece[..length(count)].fill(0);
        while count > 0 {
            let most = length(count);
            self.hasher.update(&self.piece[..most]);
            self.progress.add(most as u64);
            count -= most as u64;
        }
        Ok(())
    }
}

/// So many bytes, as far as they fit into a piece.
fn length(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX).min(PIECE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::FileExt as _;

    fn copied(from: &Path, to: &Path, mut holes: u64) -> io::Result<Kind> {
        let file = File::open(from).unwrap();
        copy(&file, &file.metadata().unwrap(), to, &mut holes, &mut Progress::new("copying"))
    }

    /// A session's `truncate -s 8T` had the backup write eight terabytes of zeros.
    #[test]
    fn holes_stay_holes_and_the_hash_is_that_of_the_contents() {
        let home = tempfile::tempdir().unwrap();
        let (from, to) = (home.path().join("from"), home.path().join("to"));
        let file = File::create(&from).unwrap();
        file.set_len(8 << 20).unwrap();
        file.write_all_at(b"in the middle", 3 << 20).unwrap();
        drop(file);
        let contents = fs::read(&from).unwrap();
        let hash = blake3::hash(&contents).to_hex().to_string();
        assert_eq!(copied(&from, &to, u64::MAX).unwrap(), Kind::File { bytes: 8 << 20, hash });
        assert_eq!(fs::read(&to).unwrap(), contents);
        let blocks = |path: &Path| fs::metadata(path).unwrap().blocks();
        if blocks(&from) * BLOCK < 1 << 20 {
            assert!(blocks(&to) * BLOCK < 1 << 20, "{} blocks", blocks(&to));
        }
    }

    #[test]
    fn more_holes_than_may_be_hashed_are_refused() {
        let home = tempfile::tempdir().unwrap();
        let (from, to) = (home.path().join("from"), home.path().join("to"));
        File::create(&from).unwrap().set_len(8 << 40).unwrap();
        let refused = copied(&from, &to, 1 << 30).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(Errno::FBIG.raw_os_error()), "{refused}");
    }
}
