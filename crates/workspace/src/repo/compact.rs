//! Makes a repository smaller. The new pack is complete, in place and on the disk before anything older is removed, so
//! that a crash at any moment leaves everything that is to be kept; the next time removes what is left over.

use super::deflate::Deflate;
use super::error::at;
use super::objects::{InPack, Objects};
use super::pack::{PackWriter, UNFINISHED};
use super::walk::{self, Wanted};
use super::{ObjectId, Reclaimed, Repo, RepoError, Result, delta};
use crate::fault::{Faults, Point};
use gix_pack::Bundle;
use gix_pack::data::entry::Header;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Longer chains of differences are slow to read.
const CHAIN_MOST: u32 = 24;

/// Objects outside this are written whole: shorter ones have nothing to gain, longer ones take much memory.
const DELTA_BYTES: std::ops::RangeInclusive<u64> = 64..=(8 << 20);

/// Objects above this are not read into memory.
const STREAM_BYTES: u64 = 8 << 20;

/// A pack with more than this part of all bytes is not written again only to gather small ones.
const BIG_PART: u64 = 4;

impl Repo {
    /// Drops the tags of all commits but these, and everything that only they held. Those that are gone already are passed
    /// over. Commits whose parents are gone are listed in `shallow`, so that git knows.
    pub fn thin(&mut self, keep: &[ObjectId]) -> Result<Reclaimed> {
        let keep = keep.iter().copied().filter(|id| self.objects.contains(*id)).collect();
        Compaction::begin(self)?.reclaim(Some(keep))
    }

    /// Puts everything that a tag holds into one pack and drops the rest.
    pub fn compact(&mut self) -> Result<Reclaimed> {
        Compaction::begin(self)?.reclaim(None)
    }

    /// Puts loose objects and small packs into one pack, and loose refs into one file; cheap, drops nothing.
    pub fn gather(&mut self) -> Result<Reclaimed> {
        Compaction::begin(self)?.gather()
    }
}

/// A repository that is being made smaller. Nothing waits to be published meanwhile.
struct Compaction<'a> {
    repo: &'a mut Repo,
    /// Bytes on the disk when it began.
    before: u64,
}

impl<'a> Compaction<'a> {
    fn begin(repo: &'a mut Repo) -> Result<Self> {
        if !repo.objects.gathered.is_empty() {
            return Err(RepoError::Unpublished);
        }
        repo.objects.stored.look_again()?;
        repo.space.forget();
        let before = repo.size();
        let compaction = Self { repo, before };
        compaction.strike()?;
        compaction.remove_unfinished()?;
        Ok(compaction)
    }

    fn gather(self) -> Result<Reclaimed> {
        let packs = self.repo.objects.stored.packs();
        let total: u64 = packs.iter().map(|pack| pack.pack.data_len() as u64).sum();
        let is_big = |pack: &&Arc<Bundle>| pack.pack.data_len() as u64 > total / BIG_PART;
        let (big, small): (Vec<_>, Vec<_>) = packs.iter().cloned().partition(|pack| is_big(&pack));
        let staying = Objects::ids_in(&big);
        let loose = self.repo.objects.stored.loose()?;
        let mut seen = HashSet::new();
        let mut wanted = Vec::new();
        for pack in &small {
            let mut entries: Vec<_> = pack.index.iter().map(|entry| (entry.pack_offset, entry.oid)).collect();
            // In their order: what an object differs from comes before it.
            entries.sort_unstable();
            wanted.extend(entries.into_iter().map(|(_, id)| id));
        }
        wanted.extend(loose.iter().map(|(id, _)| *id));
        wanted.retain(|id| !staying.contains(id) && seen.insert(*id));
        if small.len() > 1 || !loose.is_empty() {
            let wanted: Vec<_> = wanted.into_iter().map(|id| Wanted { id, like: None }).collect();
            let kept = self.write_all(&wanted)?;
            let old: Vec<PathBuf> = small.iter().map(|pack| pack.pack.path().to_owned()).collect();
            self.remove(&old, &loose, kept.as_deref())?;
        }
        self.repo.refs.pack(|_, _| true)?;
        self.end(0)
    }

    fn reclaim(self, keep: Option<BTreeSet<ObjectId>>) -> Result<Reclaimed> {
        let is_kept = |name: &str, id: ObjectId| match &keep {
            Some(keep) => {
                !name.starts_with("refs/tags/") || keep.contains(&id) || self.repo.objects.stored.is_annotated_tag(id)
            }
            None => true,
        };
        let mut roots: BTreeSet<ObjectId> =
            self.repo.refs.all()?.into_iter().filter(|(name, id)| is_kept(name, *id)).map(|(_, id)| id).collect();
        roots.extend(keep.iter().flatten());
        let head = self.repo.refs.head()?.filter(|head| keep.as_ref().is_none_or(|keep| keep.contains(head)));
        roots.extend(head);
        let held = walk::everything(self.repo, &roots)?;
        let old: Vec<PathBuf> =
            self.repo.objects.stored.packs().iter().map(|pack| pack.pack.path().to_owned()).collect();
        let loose = self.repo.objects.stored.loose()?;
        let kept = self.write_all(&held.wanted)?;
        self.strike()?;
        // Both lists at first: until the tags are gone, git still looks at what is to be dropped.
        let both: BTreeSet<ObjectId> = self.repo.refs.shallow()?.union(&held.shallow).copied().collect();
        self.repo.refs.set_shallow(&both)?;
        self.strike()?;
        if self.repo.refs.head()? != head {
            self.repo.refs.set_head(head)?;
        }
        let tags = self.repo.refs.pack(is_kept)?;
        self.strike()?;
        self.repo.refs.set_shallow(&held.shallow)?;
        self.remove(&old, &loose, kept.as_deref())?;
        self.end(tags)
    }

    fn end(self, tags: u64) -> Result<Reclaimed> {
        self.repo.objects.stored.look_again()?;
        self.repo.space.forget();
        Ok(Reclaimed { before: self.before, after: self.repo.size(), tags })
    }

    fn strike(&self) -> Result<()> {
        self.repo.faults.check(Point::Compacting).map_err(at(&self.repo.directory))
    }

    fn write_all(&self, wanted: &[Wanted]) -> Result<Option<PathBuf>> {
        let stored = &self.repo.objects.stored;
        write_pack(stored, &stored.pack_directory(), wanted, &self.repo.faults)
    }

    /// Removes packs and loose objects that are in the pack `kept` now, or in nothing that is kept.
    fn remove(&self, packs: &[PathBuf], loose: &[(ObjectId, PathBuf)], kept: Option<&Path>) -> Result<()> {
        for pack in packs.iter().filter(|pack| Some(pack.as_path()) != kept) {
            self.strike()?;
            // The index first: a pack without one is not looked at.
            for ending in ["idx", "pack", "rev", "mtimes", "bitmap", "keep"] {
                remove_file(&pack.with_extension(ending))?;
            }
        }
        let mut directories = BTreeSet::new();
        for (number, (_, path)) in loose.iter().enumerate() {
            if number % 64 == 0 {
                self.strike()?;
            }
            remove_file(path)?;
            directories.extend(path.parent());
        }
        for directory in directories {
            // One that is not empty stays.
            let _ = fs::remove_dir(directory);
        }
        Ok(())
    }

    /// Removes what crashes left: only one writes here, and it has begun nothing.
    fn remove_unfinished(&self) -> Result<()> {
        for directory in [self.repo.objects.stored.directory().to_owned(), self.repo.objects.stored.pack_directory()] {
            for entry in fs::read_dir(&directory).map_err(at(&directory))? {
                let path = entry.map_err(at(&directory))?.path();
                let name = path.file_name().unwrap_or_default().as_encoded_bytes();
                let lonely =
                    path.extension().is_some_and(|ending| ending == "pack") && !path.with_extension("idx").exists();
                if name.starts_with(UNFINISHED.as_bytes()) || lonely {
                    remove_file(&path)?;
                }
            }
        }
        Ok(())
    }
}

/// Writes these objects into one pack in `directory`, and makes sure that they are all in it, on the disk.
pub(super) fn write_pack(
    objects: &Objects,
    directory: &Path,
    wanted: &[Wanted],
    faults: &Faults,
) -> Result<Option<PathBuf>> {
    if wanted.is_empty() {
        return Ok(None);
    }
    let writer = PackWriter::begin(directory, wanted.len(), faults)?;
    let (places, layouts) = (HashMap::new(), HashMap::new());
    let mut copier = Copier { objects, writer, deflate: Deflate::new(), places, layouts };
    for wanted in wanted {
        copier.copy(*wanted)?;
    }
    let path = copier.writer.finish(true)?;
    let pack = Bundle::at(&path, gix_hash::Kind::Sha1).map_err(super::damaged)?;
    match wanted.iter().find(|wanted| pack.index.lookup(wanted.id).is_none()) {
        Some(lost) => Err(super::damaged(format_args!("object {} was not packed", lost.id))),
        None => Ok(Some(path)),
    }
}

/// Which object of a pack begins where.
type Layout = Vec<(u64, u32)>;

/// Copies objects into a new pack, as they are where that is possible.
struct Copier<'a> {
    objects: &'a Objects,
    writer: PackWriter<'a>,
    deflate: Deflate,
    /// Where in the new pack, and how many others must be read before.
    places: HashMap<ObjectId, (u64, u32)>,
    layouts: HashMap<PathBuf, Layout>,
}

impl Copier<'_> {
    fn copy(&mut self, wanted: Wanted) -> Result<()> {
        let place = self.writer.offset();
        let packed = self.objects.in_packs(wanted.id);
        let depth = match self.copy_delta(wanted.id, packed.as_ref())? {
            Some(depth) => depth,
            None => match self.write_delta(wanted)? {
                Some(depth) => depth,
                None => self.copy_whole(wanted.id, packed.as_ref()).map(|()| 0)?,
            },
        };
        self.places.insert(wanted.id, (place, depth));
        Ok(())
    }

    /// Copies a difference as it is, if what it differs from is in the new pack already.
    fn copy_delta(&mut self, id: ObjectId, packed: Option<&InPack>) -> Result<Option<u32>> {
        let Some(packed) = packed else { return Ok(None) };
        let entry = packed.entry()?;
        let base = match entry.header {
            Header::OfsDelta { base_distance } => {
                let offset = packed.offset().saturating_sub(base_distance);
                let layout = self.layout(packed);
                let place = layout.binary_search_by_key(&offset, |(offset, _)| *offset).map(|place| layout[place].1);
                place.ok().map(|place| packed.pack.index.oid_at_index(place).to_owned())
            }
            Header::RefDelta { base_id } => Some(base_id),
            _ => None,
        };
        let Some((offset, depth)) = base.and_then(|base| self.places.get(&base).copied()) else { return Ok(None) };
        if depth >= CHAIN_MOST {
            return Ok(None);
        }
        let bytes = self.raw(packed, entry.data_offset)?;
        self.writer.add_delta(id, offset, entry.decompressed_size, bytes)?;
        Ok(Some(depth + 1))
    }

    /// Writes an object as it differs from a newer one in its place.
    fn write_delta(&mut self, wanted: Wanted) -> Result<Option<u32>> {
        let Some(like) = wanted.like else { return Ok(None) };
        let Some((offset, depth)) = self.places.get(&like).copied().filter(|(_, depth)| *depth < CHAIN_MOST) else {
            return Ok(None);
        };
        for id in [wanted.id, like] {
            if !DELTA_BYTES.contains(&self.objects.header(id)?.1) {
                return Ok(None);
            }
        }
        let (_, base) = self.objects.read(like)?;
        let (_, target) = self.objects.read(wanted.id)?;
        let Some(delta) = delta::encode(&base, &target) else { return Ok(None) };
        let packed = self.deflate.pack(&[&delta]);
        self.writer.add_delta(wanted.id, offset, delta.len() as u64, &packed)?;
        Ok(Some(depth + 1))
    }

    fn copy_whole(&mut self, id: ObjectId, packed: Option<&InPack>) -> Result<()> {
        if let Some(packed) = packed {
            let entry = packed.entry()?;
            if let Some(kind) = entry.header.as_kind() {
                let bytes = self.raw(packed, entry.data_offset)?;
                return self.writer.add(id, kind, entry.decompressed_size, bytes);
            }
        }
        let (_, size) = self.objects.header(id)?;
        if size > STREAM_BYTES {
            let writer = &mut self.writer;
            let stream = |mut object: super::objects::Opened<'_>| {
                writer.add_stream(id, object.kind, object.size, &mut object.bytes)
            };
            return self.objects.open_with(id, stream);
        }
        let (kind, bytes) = self.objects.read(id)?;
        let packed = self.deflate.pack(&[&bytes]);
        self.writer.add(id, kind, bytes.len() as u64, &packed)
    }

    /// An entry's packed bytes: from behind its header to the next entry.
    fn raw<'p>(&mut self, packed: &'p InPack, from: u64) -> Result<&'p [u8]> {
        let end = packed.pack.pack.pack_end() as u64;
        let offset = packed.offset();
        let layout = self.layout(packed);
        let next = layout.partition_point(|(other, _)| *other <= offset);
        let until = layout.get(next).map_or(end, |(offset, _)| *offset);
        packed.pack.pack.entry_slice(from..until).ok_or_else(|| super::damaged("a pack is shorter than its index says"))
    }

    fn layout(&mut self, packed: &InPack) -> &Layout {
        self.layouts.entry(packed.pack.index.path().to_owned()).or_insert_with(|| {
            let index = &packed.pack.index;
            let mut layout: Layout =
                (0..index.num_objects()).map(|place| (index.pack_offset_at_index(place), place)).collect();
            layout.sort_unstable();
            layout
        })
    }
}

fn remove_file(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(at(path)(error)),
        _ => Ok(()),
    }
}
