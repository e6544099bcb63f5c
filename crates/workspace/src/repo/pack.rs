//! Writes a pack and its index. gix-pack can do so too, for what comes over a network or out of a walk over history, with
//! a dozen crates more; here the objects are at hand and a pack is a header, the objects, and a sum.

use super::error::at;
use super::{Result, deflate};
use crate::fault::{Faults, Point};
use flate2::Crc;
use gix_hash::ObjectId;
use gix_object::Kind;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, BufWriter, Read, Write};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// What begins the names of unfinished files, as git's own do, so that it passes over them and `git gc` removes them.
pub(super) const UNFINISHED: &str = "tmp_";

/// Part of a temporary file's name that no other process or thread uses.
pub(super) fn unique() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    format!("{}_{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

/// Where an object is in a pack.
struct Placed {
    id: ObjectId,
    offset: u64,
    crc: u32,
}

/// Writes to a file and keeps the sum and the place.
struct Summed {
    file: BufWriter<File>,
    sum: gix_hash::Hasher,
    offset: u64,
    crc: Crc,
}

impl Write for Summed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write_all(bytes)?;
        self.sum.update(bytes);
        self.crc.update(bytes);
        self.offset += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Summed {
    fn create(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
        let sum = gix_hash::hasher(gix_hash::Kind::Sha1);
        Ok(Self { file: BufWriter::with_capacity(128 * 1024, file), sum, offset: 0, crc: Crc::new() })
    }

    /// Writes the sum of all before it, and gives it back.
    fn close(self, durable: bool) -> io::Result<ObjectId> {
        let Self { mut file, sum, .. } = self;
        let sum = sum.try_finalize().map_err(|error| io::Error::other(error.to_string()))?;
        file.write_all(sum.as_slice())?;
        let file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
        // Read-only like git's own: what has a sum for a name never changes.
        file.set_permissions(Permissions::from_mode(0o444))?;
        if durable {
            file.sync_all()?;
        }
        Ok(sum)
    }
}

/// Removes unfinished files unless they were put in place.
struct Leftovers(Vec<PathBuf>);

impl Drop for Leftovers {
    fn drop(&mut self) {
        for path in &self.0 {
            let _ = fs::remove_file(path);
        }
    }
}

/// A pack that is being written. Dropped unfinished, it leaves nothing.
pub(super) struct PackWriter<'a> {
    directory: PathBuf,
    out: Summed,
    placed: Vec<Placed>,
    leftovers: Leftovers,
    faults: &'a Faults,
}

impl<'a> PackWriter<'a> {
    /// Begins a pack of `count` objects in `directory`.
    pub(super) fn begin(directory: &Path, count: usize, faults: &'a Faults) -> Result<Self> {
        let path = directory.join(format!("{UNFINISHED}pack_{}", unique()));
        let leftovers = Leftovers(vec![path.clone()]);
        let mut out = Summed::create(&path).map_err(at(&path))?;
        let count = u32::try_from(count).map_err(io::Error::other).map_err(at(&path))?;
        let header = [*b"PACK", 2u32.to_be_bytes(), count.to_be_bytes()].concat();
        out.write_all(&header).map_err(at(&path))?;
        Ok(Self { directory: directory.to_owned(), out, placed: Vec::new(), leftovers, faults })
    }

    /// Adds an object that is packed already; `size` is that of its bytes.
    pub(super) fn add(&mut self, id: ObjectId, kind: Kind, size: u64, packed: &[u8]) -> Result<()> {
        self.entry(id, &entry_header(type_number(kind), size), |out| out.write_all(packed))
    }

    /// Adds an object as it differs from one that this pack holds already.
    pub(super) fn add_delta(&mut self, id: ObjectId, base: u64, size: u64, packed: &[u8]) -> Result<()> {
        const OFS_DELTA: u8 = 6;
        let mut header = entry_header(OFS_DELTA, size);
        header.extend_from_slice(&distance(self.out.offset - base));
        self.entry(id, &header, |out| out.write_all(packed))
    }

    /// Adds an object, a piece at a time.
    pub(super) fn add_stream(&mut self, id: ObjectId, kind: Kind, size: u64, from: &mut dyn Read) -> Result<()> {
        self.entry(id, &entry_header(type_number(kind), size), |out| {
            let mut pack = flate2::write::ZlibEncoder::new(out, deflate::LEVEL);
            io::copy(from, &mut pack)?;
            pack.finish().map(|_| ())
        })
    }

    /// Where the next object will be.
    pub(super) fn offset(&self) -> u64 {
        self.out.offset
    }

    fn entry(&mut self, id: ObjectId, header: &[u8], body: impl FnOnce(&mut Summed) -> io::Result<()>) -> Result<()> {
        let offset = self.out.offset;
        self.out.crc.reset();
        let written = self.out.write_all(header).and_then(|()| body(&mut self.out));
        written.map_err(at(&self.leftovers.0[0]))?;
        self.placed.push(Placed { id, offset, crc: self.out.crc.sum() });
        Ok(())
    }

    /// Puts the pack in place and gives its path. `durable` waits for the disk: before other copies are removed.
    pub(super) fn finish(mut self, durable: bool) -> Result<PathBuf> {
        let unfinished = self.leftovers.0[0].clone();
        let sum = self.out.close(durable).map_err(at(&unfinished))?;
        let unfinished_index = unfinished.with_file_name(format!("{UNFINISHED}idx_{}", unique()));
        self.leftovers.0.push(unfinished_index.clone());
        write_index(&unfinished_index, &mut self.placed, sum, durable).map_err(at(&unfinished_index))?;
        self.faults.check(Point::PackWritten).map_err(at(&unfinished))?;
        let pack = self.directory.join(format!("pack-{sum}.pack"));
        let index = pack.with_extension("idx");
        fs::rename(&unfinished, &pack).map_err(at(&pack))?;
        // The index comes last: a pack without one is not looked at.
        fs::rename(&unfinished_index, &index).map_err(at(&index))?;
        self.leftovers.0.clear();
        if durable {
            File::open(&self.directory).and_then(|directory| directory.sync_all()).map_err(at(&self.directory))?;
        }
        Ok(pack)
    }
}

fn write_index(path: &Path, placed: &mut [Placed], pack: ObjectId, durable: bool) -> io::Result<()> {
    /// Offsets from here on are in a table of their own.
    const LONG: u64 = 1 << 31;
    placed.sort_unstable_by_key(|object| object.id);
    let mut out = Summed::create(path)?;
    out.write_all(b"\xfftOc\0\0\0\x02")?;
    let mut below = 0;
    for first in 0..=255u8 {
        below += placed[below..].iter().take_while(|object| object.id.first_byte() == first).count();
        out.write_all(&u32::try_from(below).map_err(io::Error::other)?.to_be_bytes())?;
    }
    placed.iter().try_for_each(|object| out.write_all(object.id.as_slice()))?;
    placed.iter().try_for_each(|object| out.write_all(&object.crc.to_be_bytes()))?;
    let mut long = Vec::new();
    for object in placed.iter() {
        let short = if object.offset < LONG {
            object.offset
        } else {
            long.push(object.offset);
            LONG | (long.len() as u64 - 1)
        };
        out.write_all(&u32::try_from(short).map_err(io::Error::other)?.to_be_bytes())?;
    }
    long.iter().try_for_each(|offset| out.write_all(&offset.to_be_bytes()))?;
    out.write_all(pack.as_slice())?;
    out.close(durable).map(|_| ())
}

fn type_number(kind: Kind) -> u8 {
    match kind {
        Kind::Commit => 1,
        Kind::Tree => 2,
        Kind::Blob => 3,
        Kind::Tag => 4,
    }
}

/// Type and size, seven bits a byte, four in the first.
fn entry_header(type_number: u8, size: u64) -> Vec<u8> {
    let mut header = vec![(type_number << 4) | (size & 15) as u8];
    let mut rest = size >> 4;
    while rest > 0 {
        if let Some(last) = header.last_mut() {
            *last |= 0x80;
        }
        header.push((rest & 0x7f) as u8);
        rest >>= 7;
    }
    header
}

/// How far back a base is, in git's own way of writing it.
fn distance(mut back: u64) -> Vec<u8> {
    let mut bytes = vec![(back & 0x7f) as u8];
    while back >= 0x80 {
        back = (back >> 7) - 1;
        bytes.push(0x80 | (back & 0x7f) as u8);
    }
    bytes.reverse();
    bytes
}
