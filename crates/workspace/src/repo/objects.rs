//! Finds and reads objects: loose files and packs. Any number of threads may read beside each other.

use super::error::{at, damaged};
use super::{RepoError, Result};
use crate::sync::{read, write};
use flate2::read::ZlibDecoder;
use gix_hash::ObjectId;
use gix_object::Kind;
use gix_pack::Bundle;
use gix_pack::data::entry::Header;
use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, RwLock};

/// The longest header of a loose object: a kind, a size, a zero byte.
const HEADER_BYTES: usize = 32;

/// Packs as they were when the directory was last looked at.
type Packs = Arc<Vec<Arc<Bundle>>>;

/// The objects on the disk.
pub(super) struct Objects {
    directory: PathBuf,
    packs: RwLock<Packs>,
}

/// An object that is open to be read.
pub(super) struct Opened<'a> {
    pub(super) kind: Kind,
    pub(super) size: u64,
    pub(super) bytes: Box<dyn Read + 'a>,
}

/// Where an object is in a pack.
#[derive(Clone)]
pub(super) struct InPack {
    pub(super) pack: Arc<Bundle>,
    pub(super) place: u32,
}

impl InPack {
    pub(super) fn offset(&self) -> u64 {
        self.pack.index.pack_offset_at_index(self.place)
    }

    pub(super) fn entry(&self) -> Result<gix_pack::data::Entry> {
        self.pack.pack.entry(self.offset()).map_err(damaged)
    }
}

impl Objects {
    /// Those in `directory`, which is git's `objects`.
    pub(super) fn open(directory: PathBuf) -> Result<Self> {
        let objects = Self { directory, packs: RwLock::default() };
        objects.look_again()?;
        Ok(objects)
    }

    /// Whether it is a tag with a message of its own.
    pub(super) fn is_annotated_tag(&self, id: ObjectId) -> bool {
        self.header(id).is_ok_and(|(kind, _)| kind == Kind::Tag)
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    pub(super) fn pack_directory(&self) -> PathBuf {
        self.directory.join("pack")
    }

    pub(super) fn packs(&self) -> Packs {
        read(&self.packs).clone()
    }

    /// Opens packs that are new and lets go of those that are gone.
    pub(super) fn look_again(&self) -> Result<()> {
        let known = self.packs();
        let directory = self.pack_directory();
        let mut packs = Vec::new();
        for entry in fs::read_dir(&directory).map_err(at(&directory))? {
            let path = entry.map_err(at(&directory))?.path();
            if path.extension().is_none_or(|ending| ending != "idx") || !path.with_extension("pack").exists() {
                continue;
            }
            match known.iter().find(|pack| pack.index.path() == path) {
                Some(pack) => packs.push(pack.clone()),
                None => packs.push(Arc::new(Bundle::at(&path, gix_hash::Kind::Sha1).map_err(damaged)?)),
            }
        }
        // Big ones first: most objects are there.
        packs.sort_by_key(|pack| std::cmp::Reverse(pack.index.num_objects()));
        *write(&self.packs) = Arc::new(packs);
        Ok(())
    }

    pub(super) fn loose_path(&self, id: ObjectId) -> PathBuf {
        let hex = id.to_string();
        self.directory.join(&hex[..2]).join(&hex[2..])
    }

    pub(super) fn in_packs(&self, id: ObjectId) -> Option<InPack> {
        self.packs().iter().find_map(|pack| pack.index.lookup(id).map(|place| InPack { pack: pack.clone(), place }))
    }

    /// Whether an object is there. A loose one without bytes is not: a power cut can leave that.
    pub(super) fn contains(&self, id: ObjectId) -> bool {
        let packs = read(&self.packs);
        packs.iter().any(|pack| pack.index.lookup(id).is_some())
            || fs::metadata(self.loose_path(id)).is_ok_and(|file| file.len() > 0)
    }

    /// All loose objects with their bytes on the disk.
    pub(super) fn loose(&self) -> Result<Vec<(ObjectId, PathBuf)>> {
        let mut found = Vec::new();
        for first in fs::read_dir(&self.directory).map_err(at(&self.directory))? {
            let first = first.map_err(at(&self.directory))?;
            let start = first.file_name().into_encoded_bytes();
            if start.len() != 2 || !start.iter().all(u8::is_ascii_hexdigit) {
                continue;
            }
            let directory = first.path();
            for rest in fs::read_dir(&directory).map_err(at(&directory))? {
                let rest = rest.map_err(at(&directory))?;
                let hex = [start.as_slice(), rest.file_name().as_encoded_bytes()].concat();
                found.extend(ObjectId::from_hex(&hex).ok().map(|id| (id, rest.path())));
            }
        }
        Ok(found)
    }

    /// Ids of everything in these packs.
    pub(super) fn ids_in(packs: &[Arc<Bundle>]) -> HashSet<ObjectId> {
        packs.iter().flat_map(|pack| pack.index.iter().map(|entry| entry.oid)).collect()
    }

    /// An object, whole.
    pub(super) fn read(&self, id: ObjectId) -> Result<(Kind, Vec<u8>)> {
        self.with(id, |found| match found {
            Found::Packed(place) => read_packed(place, id),
            Found::Loose(path) => {
                let Opened { kind, size, mut bytes } = open_loose(path)?;
                let mut all = Vec::with_capacity(usize::try_from(size).unwrap_or(0).min(1 << 26));
                bytes.read_to_end(&mut all).map_err(at(path))?;
                if all.len() as u64 != size {
                    return Err(damaged(format_args!("object {id} has {} bytes and says {size}", all.len())));
                }
                Ok((kind, all))
            }
        })
    }

    /// What an object is and how long, without its bytes where that is possible.
    pub(super) fn header(&self, id: ObjectId) -> Result<(Kind, u64)> {
        self.with(id, |found| match found {
            Found::Packed(place) => {
                let entry = place.entry()?;
                match entry.header.as_kind() {
                    Some(kind) => Ok((kind, entry.decompressed_size)),
                    None => read_packed(place, id).map(|(kind, bytes)| (kind, bytes.len() as u64)),
                }
            }
            Found::Loose(path) => open_loose(path).map(|object| (object.kind, object.size)),
        })
    }

    /// Writes an object's bytes to `to`, a piece at a time where that is possible.
    pub(super) fn copy(&self, id: ObjectId, to: &mut dyn Write) -> Result<(Kind, u64)> {
        self.open_with(id, |mut object| {
            let copied = io::copy(&mut object.bytes, to)
                .map_err(|source| RepoError::Io { path: PathBuf::from(id.to_string()), source })?;
            if copied != object.size {
                return Err(damaged(format_args!("object {id} has {copied} bytes and says {}", object.size)));
            }
            Ok((object.kind, copied))
        })
    }

    /// Opens an object for `read`.
    pub(super) fn open_with<T>(&self, id: ObjectId, read: impl FnOnce(Opened<'_>) -> Result<T>) -> Result<T> {
        // What it is found as may be gone right after, so the closure must run at most once: find first.
        let mut read = Some(read);
        self.with(id, |found| {
            let opened = match found {
                Found::Packed(place) => open_packed(place, id)?,
                Found::Loose(path) => open_loose(path)?,
            };
            match read.take() {
                Some(read) => read(opened),
                None => Err(RepoError::Missing { id }),
            }
        })
    }

    /// Looks for an object, and retries once: it may have been packed in the meantime.
    fn with<T>(&self, id: ObjectId, mut act: impl FnMut(&Found) -> Result<T>) -> Result<T> {
        for first in [true, false] {
            if let Some(place) = self.in_packs(id) {
                return act(&Found::Packed(place));
            }
            match act(&Found::Loose(self.loose_path(id))) {
                Err(RepoError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
                result => return result,
            }
            if first {
                self.look_again()?;
            }
        }
        Err(RepoError::Missing { id })
    }
}

enum Found {
    Packed(InPack),
    Loose(PathBuf),
}

/// Opens a file that holds one object.
pub(super) fn open_loose(path: &Path) -> Result<Opened<'static>> {
    let file = File::open(path).map_err(at(path))?;
    let mut bytes = BufReader::with_capacity(16 * 1024, ZlibDecoder::new(file));
    let mut header = Vec::with_capacity(HEADER_BYTES);
    while header.last() != Some(&0) && header.len() < HEADER_BYTES {
        let mut byte = [0];
        let read = bytes.read_exact(&mut byte);
        read.map_err(|_| damaged(format_args!("{} has no header", path.display())))?;
        header.push(byte[0]);
    }
    let (kind, size, _) = gix_object::decode::loose_header(&header).map_err(damaged)?;
    Ok(Opened { kind, size, bytes: Box::new(bytes) })
}

fn open_packed(place: &InPack, id: ObjectId) -> Result<Opened<'_>> {
    let entry = place.entry()?;
    match entry.header {
        Header::OfsDelta { .. } | Header::RefDelta { .. } => {
            let (kind, bytes) = read_packed(place, id)?;
            Ok(Opened { kind, size: bytes.len() as u64, bytes: Box::new(io::Cursor::new(bytes)) })
        }
        header => {
            let end = place.pack.pack.pack_end() as u64;
            let packed = place.pack.pack.entry_slice(entry.data_offset..end);
            let packed = packed.ok_or_else(|| damaged(format_args!("object {id} is cut off")))?;
            let kind = header.as_kind().ok_or_else(|| damaged(format_args!("object {id} has no kind")))?;
            Ok(Opened { kind, size: entry.decompressed_size, bytes: Box::new(ZlibDecoder::new(packed)) })
        }
    }
}

fn read_packed(place: &InPack, id: ObjectId) -> Result<(Kind, Vec<u8>)> {
    let mut bytes = Vec::new();
    let read =
        place.pack.get_object_by_index(place.place, &mut bytes, &mut Default::default(), &mut gix_pack::cache::Never);
    let kind = match read {
        Ok((data, _)) => data.kind,
        Err(error) => return Err(damaged(format_args!("object {id} cannot be read: {error}"))),
    };
    Ok((kind, bytes))
}
