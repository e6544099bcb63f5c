//! Names that belong to one file: the first one copied is remembered, the others are linked to it.

use crate::sync::lock;
use rustix::fs::{AtFlags, Mode, OFlags, Stat, linkat, open};
use std::collections::HashMap;
use std::ffi::CStr;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Mutex;

/// Number of shards, each with its own lock, so that the threads rarely wait: some package managers link every file.
const PARTS: usize = 64;

/// By device and inode, the path of the first copy.
type First = HashMap<(u64, u64), Vec<u8>>;

/// Where the first copy of each file with several names is.
pub(super) struct Links {
    root: OwnedFd,
    parts: Vec<Mutex<First>>,
}

impl Links {
    pub fn new(root: &Path) -> io::Result<Self> {
        let root = open(root, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Self { root, parts: (0..PARTS).map(|_| Mutex::default()).collect() })
    }

    /// Links the name to the copy of the same file, or makes that copy. The lock is held meanwhile, or two threads
    /// would each make one.
    pub fn link_or(
        &self,
        stat: &Stat,
        path: &[u8],
        (directory, name): (BorrowedFd<'_>, &CStr),
        make: impl FnOnce() -> io::Result<u64>,
    ) -> io::Result<u64> {
        let part = usize::try_from(stat.st_ino % PARTS as u64).unwrap_or_default();
        let mut known = lock(&self.parts[part]);
        let key = (stat.st_dev, stat.st_ino);
        if let Some(first) = known.get(&key) {
            // Some file systems limit the links to a file; then it is copied.
            match linkat(&self.root, first.as_slice(), directory, name, AtFlags::empty()) {
                Ok(()) => return Ok(0),
                Err(rustix::io::Errno::MLINK) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let made = make()?;
        known.insert(key, path.to_vec());
        Ok(made)
    }
}
