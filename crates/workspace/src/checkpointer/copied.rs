//! An index for a copy of a workspace. A copy keeps sizes and times, so what has those of a file that was kept has its
//! content, and need not be read again.

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
        let about = fstat(&root)?;
        let mut top = index.root.clone();
        adopt(&mut top, &root);
        let place = Some((about.st_dev, about.st_ino));
        index::store(&Index { root: top, place, base: index.base, ..Index::default() }, &home.join(INDEX))
    }
}

/// Takes the stamps of what is the same; what is not keeps one that nothing on the disk has, and is read.
fn adopt(directory: &mut Directory, place: &OwnedFd) {
    if let Ok(about) = fstat(place) {
        directory.inode = about.st_ino;
    }
    for (name, node) in &mut directory.entries {
        match node {
            Node::Leaf(leaf) => {
                let Ok(about) = statat(place, &**name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
                let (old, new) = (leaf.stamp, Stamp::of(&about));
                let same = (old.size, old.modified, old.mode) == (new.size, new.modified, new.mode);
                if same && leaf.is_sure && !leaf.is_racy {
                    leaf.stamp = new;
                }
            }
            Node::Directory(below) => {
                if let Ok(place) = open_directory(place.as_fd(), name) {
                    adopt(below, &place);
                }
            }
        }
    }
}
