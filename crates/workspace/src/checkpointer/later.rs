//! What changed between the time at which a checkpoint was due and the time at which it was made: the file system keeps
//! the time of a file's last change, and a file that was taken away leaves its time in the directory it was in.

use crate::index::{Index, Leaf, nanoseconds};
use rustix::fs::lstat;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// How many are listed; all are counted.
const NAMED: usize = 1000;

/// A checkpoint that was due when the daemon died.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Due {
    /// When what it is of ended, in nanoseconds since 1970. What the file system says changed by then, changed by then. Its
    /// clock has ticks of up to 10 ms: what another process changed in the tick of the end counts as changed before it,
    /// because what the command itself changed last has the same time.
    pub since: i64,
}

/// What changed after a checkpoint was due and before it was made: it was perhaps something else when it was due.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Later {
    /// The first of them, in order.
    pub first: Vec<Vec<u8>>,
    /// How many they are.
    pub total: u64,
}

/// What of the changes since the last checkpoint is younger than `due`.
pub(super) fn since(due: Due, index: &Index, workspace: &Path) -> Later {
    let mut paths: Vec<&Vec<u8>> = Vec::new();
    for (path, before) in &index.changes {
        let now = index.root.find(path);
        if *before == now.and_then(Leaf::told) {
            continue;
        }
        let changed = match now {
            Some(leaf) => leaf.stamp.changed,
            None => gone_by(workspace, path),
        };
        if changed > due.since {
            paths.push(path);
        }
    }
    paths.sort_unstable();
    let total = paths.len() as u64;
    Later { first: paths.into_iter().take(NAMED).cloned().collect(), total }
}

/// When a path was taken away, at the latest: when something last came to or went from the directory that it was in, or
/// the nearest above it that is still there. Not known: as late as can be.
fn gone_by(workspace: &Path, path: &[u8]) -> i64 {
    let place = workspace.join(OsStr::from_bytes(path));
    let above = place.ancestors().skip(1).take_while(|above| above.starts_with(workspace));
    let found = above.filter_map(|above| lstat(above).ok()).next();
    found.map_or(i64::MAX, |about| nanoseconds(about.st_mtime, about.st_mtime_nsec))
}
