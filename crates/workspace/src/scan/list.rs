//! What is in a directory, and what that says about it.

use crate::ignored::{
    CACHE_MARK, CACHE_SIGNATURE, ENVIRONMENT_MARK, MAX_RULES_BYTES, RULES_FILE, RulesUse, TooManyRules,
};
use ignore::gitignore::Gitignore;
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, openat, statat};
use rustix::io::Errno;
use std::fs::File;
use std::io::Read as _;
use std::mem::MaybeUninit;
use std::sync::Arc;

/// Room for names as the kernel gives them.
const NAMES_BYTES: usize = 16 << 10;

/// The names in a directory, sorted.
pub(super) struct Seen {
    names: Vec<Box<[u8]>>,
}

/// Lists an open directory.
pub(super) fn list(place: &OwnedFd) -> Result<Seen, Errno> {
    let mut names: Vec<Box<[u8]>> = Vec::new();
    // Not on the stack: a look calls itself for each directory within another, each with what is inlined here.
    let mut room: Vec<MaybeUninit<u8>> = vec![MaybeUninit::uninit(); NAMES_BYTES];
    let mut reader = RawDir::new(place, &mut room);
    while let Some(entry) = reader.next() {
        match entry?.file_name().to_bytes() {
            b"." | b".." => {}
            name => names.push(name.into()),
        }
    }
    names.sort_unstable();
    // A directory that changes while it is listed may show a name twice.
    names.dedup();
    Ok(Seen { names })
}

impl Seen {
    pub fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.names.iter().map(|name| &**name)
    }

    pub fn has(&self, name: &[u8]) -> bool {
        self.names.binary_search_by(|one| (**one).cmp(name)).is_ok()
    }

    /// The rules that the directory has for what is in it, if there is room for them.
    pub fn rules(&self, place: &OwnedFd, held: &mut RulesUse) -> Result<Option<Arc<Gitignore>>, TooManyRules> {
        if !self.has(RULES_FILE.as_bytes()) {
            return Ok(None);
        }
        match begin_of(place, RULES_FILE, MAX_RULES_BYTES) {
            Some(text) if (text.len() as u64) < MAX_RULES_BYTES => held.compile(&text),
            Some(_) => Err(TooManyRules),
            None => Ok(None),
        }
    }

    /// Whether a file in it says that all of it can be made again.
    pub fn is_marked(&self, place: &OwnedFd) -> bool {
        let is_cache =
            || begin_of(place, CACHE_MARK, CACHE_SIGNATURE.len() as u64).is_some_and(|begin| begin == CACHE_SIGNATURE);
        let is_environment = || {
            let about = statat(place, ENVIRONMENT_MARK, AtFlags::SYMLINK_NOFOLLOW);
            about.is_ok_and(|about| FileType::from_raw_mode(about.st_mode) == FileType::RegularFile)
        };
        (self.has(CACHE_MARK.as_bytes()) && is_cache()) || (self.has(ENVIRONMENT_MARK.as_bytes()) && is_environment())
    }
}

/// The first bytes of a file. Opened so that a pipe of that name does not make us wait.
fn begin_of(place: &OwnedFd, name: &str, most: u64) -> Option<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(openat(place, name, flags, Mode::empty()).ok()?);
    let mut bytes = Vec::new();
    (&file).take(most).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}
