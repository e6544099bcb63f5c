//! Objects that wait for the checkpoint they belong to, and how they get on the disk: a few as loose files, many as a pack.

use super::deflate::{self, Deflate};
use super::error::at;
use super::objects::Objects;
use super::pack::{PackWriter, UNFINISHED, unique};
use super::{RepoError, Result};
use crate::fault::{Faults, Point};
use gix_hash::ObjectId;
use gix_object::Kind;
use gix_object::encode::loose_header;
use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// A checkpoint with more objects than this becomes a pack: a file for each would cost more to write and to keep.
const LOOSE_MOST: usize = 64;

/// More bytes than this do not wait in memory: they go to a pack at once, which nothing refers to yet.
const WAITING_BYTES: usize = 32 << 20;

/// A piece of a file that is streamed.
const PIECE: usize = 128 * 1024;

/// An object in memory.
#[derive(Debug)]
struct Waiting {
    id: ObjectId,
    kind: Kind,
    bytes: Vec<u8>,
}

/// A big file, in an unfinished object file of its own. Removed unless it was put in place.
#[derive(Debug)]
struct Streamed {
    path: PathBuf,
    in_place: bool,
}

impl Drop for Streamed {
    fn drop(&mut self) {
        if !self.in_place {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// What has gathered since the last checkpoint.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    waiting: Vec<Waiting>,
    /// Place in `waiting`.
    places: HashMap<ObjectId, usize>,
    streamed: HashMap<ObjectId, Streamed>,
    bytes: usize,
    /// Something is on the disk already that no tag holds.
    pub(super) loose_ends: bool,
}

/// What was put on the disk.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Written {
    pub(super) bytes: u64,
    pub(super) loose: u64,
    pub(super) packs: u64,
}

impl Written {
    pub(super) fn add(&mut self, other: Self) {
        self.bytes += other.bytes;
        self.loose += other.loose;
        self.packs += other.packs;
    }

    pub(super) fn since(self, earlier: Self) -> Self {
        Self { bytes: self.bytes - earlier.bytes, loose: self.loose - earlier.loose, packs: self.packs - earlier.packs }
    }
}

impl Gathered {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.streamed.is_empty() && !self.loose_ends
    }

    pub(super) fn contains(&self, id: ObjectId) -> bool {
        self.places.contains_key(&id) || self.streamed.contains_key(&id)
    }

    pub(super) fn read(&self, id: ObjectId) -> Option<(Kind, &[u8])> {
        let object = self.waiting.get(*self.places.get(&id)?)?;
        Some((object.kind, &object.bytes))
    }

    /// The unfinished file of a big one.
    pub(super) fn file_of(&self, id: ObjectId) -> Option<&Path> {
        self.streamed.get(&id).map(|streamed| streamed.path.as_path())
    }

    /// Takes an object that is not known yet; many bytes go to the disk at once.
    pub(super) fn add(
        &mut self,
        object: (ObjectId, Kind, Vec<u8>),
        objects: &Objects,
        faults: &Faults,
    ) -> Result<Written> {
        let (id, kind, bytes) = object;
        self.bytes += bytes.len();
        self.places.insert(id, self.waiting.len());
        self.waiting.push(Waiting { id, kind, bytes });
        if self.bytes < WAITING_BYTES {
            return Ok(Written::default());
        }
        self.loose_ends = true;
        self.write_waiting(objects, faults)
    }

    /// Takes `size` bytes of a file, a piece at a time. Gives the id, and whether it was not known before.
    pub(super) fn stream(
        &mut self,
        file: &mut File,
        size: u64,
        objects: &Objects,
        faults: &Faults,
    ) -> Result<ObjectId> {
        let path = objects.directory().join(format!("{UNFINISHED}obj_{}", unique()));
        let streamed = Streamed { path, in_place: false };
        let id = write_stream(&streamed.path, file, size)?;
        faults.check(Point::ObjectWritten).map_err(at(&streamed.path))?;
        if !self.contains(id) && !objects.contains(id) {
            self.streamed.insert(id, streamed);
        }
        Ok(id)
    }

    /// Puts everything on the disk. After an error what is not there yet still waits.
    pub(super) fn write(&mut self, objects: &Objects, faults: &Faults) -> Result<Written> {
        let mut written = self.write_waiting(objects, faults)?;
        while let Some(id) = self.streamed.keys().next().copied() {
            if let Some(streamed) = self.streamed.get_mut(&id) {
                let bytes = fs::metadata(&streamed.path).map_err(at(&streamed.path))?.len();
                put_in_place(&streamed.path, &objects.loose_path(id))?;
                streamed.in_place = true;
                written.add(Written { bytes, loose: 1, packs: 0 });
            }
            self.streamed.remove(&id);
        }
        Ok(written)
    }

    fn write_waiting(&mut self, objects: &Objects, faults: &Faults) -> Result<Written> {
        let written = match self.waiting.len() {
            0 => return Ok(Written::default()),
            count if count > LOOSE_MOST => self.write_pack(objects, faults)?,
            _ => self.write_loose(objects, faults)?,
        };
        self.waiting.clear();
        self.places.clear();
        self.bytes = 0;
        Ok(written)
    }

    fn write_loose(&self, objects: &Objects, faults: &Faults) -> Result<Written> {
        let mut deflate = Deflate::new();
        let mut written = Written::default();
        for Waiting { id, kind, bytes } in &self.waiting {
            let packed = deflate.pack(&[&loose_header(*kind, bytes.len() as u64), bytes]);
            let path = objects.directory().join(format!("{UNFINISHED}obj_{}", unique()));
            let mut unfinished = Streamed { path, in_place: false };
            let mut file = create(&unfinished.path).map_err(at(&unfinished.path))?;
            file.write_all(&packed).map_err(at(&unfinished.path))?;
            faults.check(Point::ObjectWritten).map_err(at(&unfinished.path))?;
            put_in_place(&unfinished.path, &objects.loose_path(*id))?;
            unfinished.in_place = true;
            written.add(Written { bytes: packed.len() as u64, loose: 1, packs: 0 });
        }
        Ok(written)
    }

    fn write_pack(&self, objects: &Objects, faults: &Faults) -> Result<Written> {
        let bytes: Vec<&[u8]> = self.waiting.iter().map(|object| object.bytes.as_slice()).collect();
        let packed = deflate::pack_all(&bytes);
        let mut writer = PackWriter::begin(&objects.pack_directory(), self.waiting.len(), faults)?;
        for (object, packed) in self.waiting.iter().zip(&packed) {
            writer.add(object.id, object.kind, object.bytes.len() as u64, packed)?;
        }
        let bytes = writer.offset();
        writer.finish(false)?;
        objects.look_again()?;
        Ok(Written { bytes, loose: 0, packs: 1 })
    }
}

/// Read-only like git's own: what has its sum for a name never changes.
fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o444).open(path)
}

/// Moves an unfinished object file to its place, whose directory may not be there yet.
fn put_in_place(unfinished: &Path, place: &Path) -> Result<()> {
    match fs::rename(unfinished, place) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let directory = place.parent().unwrap_or(place);
            match fs::create_dir(directory) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(at(directory)(error)),
                _ => fs::rename(unfinished, place).map_err(at(place)),
            }
        }
        result => result.map_err(at(place)),
    }
}

/// Writes an object file out of `size` bytes of another, and gives its id.
fn write_stream(path: &Path, from: &mut File, size: u64) -> Result<ObjectId> {
    let header = loose_header(Kind::Blob, size);
    let mut sum = gix_hash::hasher(gix_hash::Kind::Sha1);
    sum.update(&header);
    let mut pack = flate2::write::ZlibEncoder::new(create(path).map_err(at(path))?, deflate::LEVEL);
    pack.write_all(&header).map_err(at(path))?;
    let mut piece = vec![0; PIECE];
    let mut left = size;
    while left > 0 {
        let wanted = usize::try_from(left).unwrap_or(PIECE).min(PIECE);
        // What cannot be read is the workspace's file, not this one: no path, the caller knows it.
        let read = from.read(&mut piece[..wanted]);
        let count = match read {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(source) => return Err(RepoError::Source { source }),
            Ok(0) => return Err(RepoError::Short),
            Ok(count) => count,
        };
        sum.update(&piece[..count]);
        pack.write_all(&piece[..count]).map_err(at(path))?;
        left -= count as u64;
    }
    pack.finish().map_err(at(path))?;
    sum.try_finalize().map_err(super::error::damaged)
}
