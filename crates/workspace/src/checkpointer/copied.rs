//! An index for a copy of a workspace. A copy keeps sizes and times, so what has those of a file that was kept, and that the
//! original still has as it was, has its content, and need not be read again.

use super::{Checkpointer, INDEX};
use crate::index::{self, Directory, Index, Node, Stamp};
use crate::root;
use crate::scan::open_directory;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, OFlags, fstat, statat};
use std::io;
use std::path::Path;

impl Checkpointer {
    /// Leaves in `home` what is known of a copy of the workspace as it was at the last checkpoint.
    pub fn hand_down(&self, copy: &Path, home: &Path) -> io::Result<()> {
        let Some(index) = self.live.as_ref().and_then(|live| live.settled_index()) else { return Ok(()) };
        let root = root::open(copy, OFlags::RDONLY)?;
        let original = root::open(&self.workspace, OFlags::RDONLY)?;
        let about = fstat(&root)?;
        let mut top = index.root.clone();
        adopt(&mut top, &root, &original);
        let place = Some((about.st_dev, about.st_ino));
        index::store(&Index { root: top, place, base: index.base, ..Index::default() }, &home.join(INDEX))
    }
}

/// Takes the stamps of what is the same; what is not keeps one that nothing on the disk has, and is read. Size and time of
/// a copy are not enough: who writes to the original may set its time back, but not that of its last change.
fn adopt(directory: &mut Directory, place: &OwnedFd, original: &OwnedFd) {
    if let Ok(about) = fstat(place) {
        directory.inode = about.st_ino;
    }
    for (name, node) in &mut directory.entries {
        match node {
            Node::Leaf(leaf) => {
                let stamp = |place: &OwnedFd| {
                    statat(place, &**name, AtFlags::SYMLINK_NOFOLLOW).map(|about| Stamp::of(&about)).ok()
                };
                let Some(new) = stamp(place) else { continue };
                let old = leaf.stamp;
                let same = (old.size, old.modified, old.mode) == (new.size, new.modified, new.mode);
                if same && stamp(original) == Some(old) && leaf.is_sure && !leaf.is_racy {
                    leaf.stamp = new;
                }
            }
            Node::Directory(below) => {
                if let (Ok(place), Ok(original)) =
                    (open_directory(place.as_fd(), name), open_directory(original.as_fd(), name))
                {
                    adopt(below, &place, &original);
                }
            }
        }
    }
}
