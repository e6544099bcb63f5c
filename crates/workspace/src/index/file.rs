//! The index in a file, so that a session that wakes need not read every file again. It is a cache: a reader that finds it
//! missing, broken or of another version continues without it.

use super::{Base, Directory, Index, Leaf, Node, Stamp, Written};
use crate::repo::ObjectId;
use crate::scan::MAX_DEPTH;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;

/// What the file begins with. The number changes with the format; another one is not read.
const HEAD: &[u8] = b"shellkeep index 1\n";
/// Bytes of a hash.
const HASH: usize = 20;
/// A bigger file is not read: nothing that we write is so big.
const MAX_BYTES: u64 = 512 << 20;

/// Writes it under a temporary name and puts it in place, so that it is there whole or not at all.
pub(crate) fn store(index: &Index, path: &Path) -> io::Result<()> {
    let (Some(place), Some(base)) = (index.place, index.base) else { return remove(path) };
    let mut bytes = HEAD.to_vec();
    put_u64(&mut bytes, place.0);
    put_u64(&mut bytes, place.1);
    bytes.extend_from_slice(base.commit.as_slice());
    put_written(&mut bytes, Some(&base.written));
    put_directory(&mut bytes, &index.root);
    let sum = checksum(&bytes).ok_or_else(|| io::Error::other("no checksum"))?;
    bytes.extend_from_slice(sum.as_slice());
    let temporary = path.with_extension("new");
    let written = File::create(&temporary).and_then(|mut file| file.write_all(&bytes));
    written.and_then(|()| fs::rename(&temporary, path)).inspect_err(|_| {
        let _ = fs::remove_file(&temporary);
    })
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Reads it; None if there is none that is whole.
pub(crate) fn load(path: &Path) -> Option<Index> {
    if fs::metadata(path).ok()?.len() > MAX_BYTES {
        return None;
    }
    let bytes = fs::read(path).ok()?;
    let (body, sum) = bytes.split_at_checked(bytes.len().checked_sub(HASH)?)?;
    let mut rest = body.strip_prefix(HEAD)?;
    if checksum(body)?.as_slice() != sum {
        return None;
    }
    let place = (get_u64(&mut rest)?, get_u64(&mut rest)?);
    let base = Base { commit: get_id(&mut rest)?, written: get_written(&mut rest)?? };
    let root = get_directory(&mut rest, 0)?;
    let mut index = Index { root, place: Some(place), base: Some(base), ..Index::default() };
    index.recount();
    rest.is_empty().then_some(index)
}

fn checksum(bytes: &[u8]) -> Option<ObjectId> {
    let mut hasher = gix_hash::hasher(gix_hash::Kind::Sha1);
    hasher.update(bytes);
    hasher.try_finalize().ok()
}

fn put_u64(bytes: &mut Vec<u8>, number: u64) {
    bytes.extend_from_slice(&number.to_le_bytes());
}

fn put_u32(bytes: &mut Vec<u8>, number: u32) {
    bytes.extend_from_slice(&number.to_le_bytes());
}

fn put_id(bytes: &mut Vec<u8>, id: Option<&ObjectId>) {
    bytes.push(u8::from(id.is_some()));
    bytes.extend(id.into_iter().flat_map(|id| id.as_slice()));
}

fn put_written(bytes: &mut Vec<u8>, written: Option<&Written>) {
    put_id(bytes, written.map(|written| &written.tree));
    put_id(bytes, written.and_then(|written| written.meta.as_ref()));
}

fn put_directory(bytes: &mut Vec<u8>, directory: &Directory) {
    put_u32(bytes, directory.bits);
    put_u64(bytes, directory.inode);
    bytes.push(u8::from(directory.is_ignored));
    put_written(bytes, directory.written.as_ref());
    put_u32(bytes, directory.entries.len() as u32);
    for (name, node) in &directory.entries {
        // No file system has names of more than 255 bytes.
        bytes.extend_from_slice(&(name.len() as u16).to_le_bytes());
        bytes.extend_from_slice(name);
        match node {
            Node::Directory(below) => {
                bytes.push(1);
                put_directory(bytes, below);
            }
            Node::Leaf(leaf) => {
                bytes.push(0);
                put_leaf(bytes, leaf);
            }
        }
    }
}

fn put_leaf(bytes: &mut Vec<u8>, leaf: &Leaf) {
    put_u64(bytes, leaf.stamp.inode);
    put_u64(bytes, leaf.stamp.size);
    bytes.extend_from_slice(&leaf.stamp.modified.to_le_bytes());
    bytes.extend_from_slice(&leaf.stamp.changed.to_le_bytes());
    put_u32(bytes, leaf.stamp.mode);
    bytes.push(u8::from(leaf.is_sure) | u8::from(leaf.is_racy) << 1);
    put_id(bytes, leaf.id.as_ref());
}

fn get<'a>(rest: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, left) = rest.split_at_checked(length)?;
    *rest = left;
    Some(taken)
}

fn get_u64(rest: &mut &[u8]) -> Option<u64> {
    Some(u64::from_le_bytes(get(rest, 8)?.try_into().ok()?))
}

fn get_u32(rest: &mut &[u8]) -> Option<u32> {
    Some(u32::from_le_bytes(get(rest, 4)?.try_into().ok()?))
}

fn get_byte(rest: &mut &[u8]) -> Option<u8> {
    get(rest, 1).map(|byte| byte[0])
}

fn get_id(rest: &mut &[u8]) -> Option<ObjectId> {
    ObjectId::try_from(get(rest, HASH)?).ok()
}

/// The outer option says whether it could be read.
fn get_maybe_id(rest: &mut &[u8]) -> Option<Option<ObjectId>> {
    if get_byte(rest)? == 0 { Some(None) } else { get_id(rest).map(Some) }
}

fn get_written(rest: &mut &[u8]) -> Option<Option<Written>> {
    let tree = get_maybe_id(rest)?;
    let meta = get_maybe_id(rest)?;
    Some(tree.map(|tree| Written { tree, meta }))
}

fn get_directory(rest: &mut &[u8], depth: usize) -> Option<Directory> {
    if depth > MAX_DEPTH {
        return None;
    }
    let (bits, inode) = (get_u32(rest)?, get_u64(rest)?);
    let is_ignored = get_byte(rest)? != 0;
    let written = get_written(rest)?;
    let mut directory = Directory { bits, inode, is_ignored, written, ..Directory::default() };
    for _ in 0..get_u32(rest)? {
        let length = u16::from_le_bytes(get(rest, 2)?.try_into().ok()?);
        let name: Box<[u8]> = get(rest, usize::from(length))?.into();
        let node = match get_byte(rest)? {
            0 => Node::Leaf(get_leaf(rest)?),
            _ => Node::Directory(Box::new(get_directory(rest, depth + 1)?)),
        };
        directory.entries.insert(name, node);
    }
    Some(directory)
}

fn get_leaf(rest: &mut &[u8]) -> Option<Leaf> {
    let (inode, size) = (get_u64(rest)?, get_u64(rest)?);
    let (modified, changed) = (get_u64(rest)?.cast_signed(), get_u64(rest)?.cast_signed());
    let mode = get_u32(rest)?;
    let flags = get_byte(rest)?;
    let id = get_maybe_id(rest)?;
    let stamp = Stamp { inode, size, modified, changed, mode };
    Some(Leaf { stamp, id, is_sure: flags & 1 != 0, is_racy: flags & 2 != 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(byte: u8) -> ObjectId {
        ObjectId::try_from(&[byte; HASH][..]).unwrap()
    }

    fn index() -> Index {
        let stamp = Stamp { inode: 7, size: 3, modified: -5, changed: 1 << 60, mode: 0o100_600 };
        let leaf = Leaf { stamp, id: Some(id(3)), is_sure: true, is_racy: false };
        let new = Leaf { id: None, is_sure: false, is_racy: true, ..leaf };
        let mut below = Directory { bits: 0o700, inode: 8, is_ignored: true, ..Directory::default() };
        below.entries.insert(b"\xff\n".as_slice().into(), Node::Leaf(new));
        let written = Written { tree: id(1), meta: Some(id(2)) };
        let mut root = Directory { bits: 0o755, inode: 9, written: Some(written), ..Directory::default() };
        root.entries.insert(b"a".as_slice().into(), Node::Leaf(leaf));
        root.entries.insert(b"b".as_slice().into(), Node::Directory(Box::new(below)));
        let base = Base { commit: id(4), written };
        Index { root, place: Some((5, 9)), base: Some(base), files: 2, ..Index::default() }
    }

    #[test]
    fn an_index_is_read_as_it_was_written_and_a_broken_one_not_at_all() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("index");
        assert!(load(&path).is_none());
        let index = index();
        store(&index, &path).unwrap();
        assert_eq!(format!("{:?}", load(&path).unwrap()), format!("{index:?}"));

        let whole = fs::read(&path).unwrap();
        for length in (0..whole.len()).step_by(5) {
            fs::write(&path, &whole[..length]).unwrap();
            assert!(load(&path).is_none(), "{length}");
        }
        for place in (0..whole.len()).step_by(3) {
            let mut broken = whole.clone();
            broken[place] ^= 0x11;
            fs::write(&path, &broken).unwrap();
            assert!(load(&path).is_none(), "{place}");
        }
        // Without a checkpoint there is nothing worth keeping.
        store(&Index { base: None, ..index }, &path).unwrap();
        assert!(!path.exists());
    }
}
