//! What a checkpoint does not hold though no one asked for that, and why.

use crate::ignored::RULES_FILE;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Bound;

/// How many paths a checkpoint names; the others are only counted.
const NAMED: usize = 20;

/// Why something is not in a checkpoint, or not as it is now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// We may not read it. What was known of it before is kept.
    Unreadable,
    /// It is bigger than a file may be.
    TooBig {
        /// How big.
        bytes: u64,
    },
    /// A socket, a pipe or a device: nothing that can be kept.
    Special,
    /// It was being written to. What was read is kept, and it is read again next time.
    ChangedWhileRead,
    /// Another file system is mounted there.
    OtherFileSystem,
    /// It is nested too deep.
    TooDeep,
    /// A file with rules, which were not read because there are too many.
    TooManyRules,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable => f.write_str("unreadable; the previously saved version is kept"),
            Self::TooBig { bytes } => write!(f, "too big to be kept ({bytes} bytes)"),
            Self::Special => f.write_str("a socket, pipe or device"),
            Self::ChangedWhileRead => f.write_str("changed while it was read"),
            Self::OtherFileSystem => f.write_str("on another file system"),
            Self::TooDeep => f.write_str("nested too deep"),
            Self::TooManyRules => f.write_str("too many rules"),
        }
    }
}

/// What a checkpoint does not hold.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LeftOut {
    /// Paths, in their order, and why; at most twenty.
    pub first: Vec<(Vec<u8>, Reason)>,
    /// How many there are in all.
    pub total: u64,
}

/// What is left out now, kept up with each look.
#[derive(Debug, Default)]
pub(crate) struct Omissions {
    paths: BTreeMap<Vec<u8>, Reason>,
    /// Directories whose own rules were not read.
    unread_rules: BTreeSet<Vec<u8>>,
}

impl Omissions {
    pub fn add(&mut self, path: &[u8], reason: Reason) {
        self.paths.insert(path.to_vec(), reason);
    }

    /// Whether the rules of the directory at this path were read.
    pub fn rules_read(&mut self, path: &[u8], read: bool) {
        match read {
            true => self.unread_rules.remove(path),
            false => self.unread_rules.insert(path.to_vec()),
        };
    }

    /// The files with rules that were not read.
    pub fn unread_rules(&self) -> LeftOut {
        let name = |directory: &Vec<u8>| {
            let slash: &[u8] = if directory.is_empty() { b"" } else { b"/" };
            ([directory.as_slice(), slash, RULES_FILE.as_bytes()].concat(), Reason::TooManyRules)
        };
        LeftOut {
            first: self.unread_rules.iter().take(NAMED).map(name).collect(),
            total: self.unread_rules.len() as u64,
        }
    }

    /// This path, and all below it, are looked at anew.
    pub fn clear(&mut self, path: &[u8]) {
        if self.paths.is_empty() {
            return;
        }
        if path.is_empty() {
            return self.paths.clear();
        }
        self.paths.remove(path);
        let mut below = path.to_vec();
        below.push(b'/');
        let range = self.paths.range::<[u8], _>((Bound::Included(below.as_slice()), Bound::Unbounded));
        let gone: Vec<Vec<u8>> =
            range.map(|(path, _)| path).take_while(|path| path.starts_with(&below)).cloned().collect();
        gone.iter().for_each(|path| {
            self.paths.remove(path);
        });
    }

    /// All of them.
    pub fn paths(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.paths.keys().map(Vec::as_slice)
    }

    pub fn told(&self) -> LeftOut {
        let first = self.paths.iter().take(NAMED).map(|(path, reason)| (path.clone(), *reason)).collect();
        LeftOut { first, total: self.paths.len() as u64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clearing_a_directory_clears_what_is_below_and_nothing_beside() {
        let mut omissions = Omissions::default();
        for path in ["a", "a/b", "a/b/c", "a.b", "ab"] {
            omissions.add(path.as_bytes(), Reason::Special);
        }
        omissions.clear(b"a/b");
        omissions.clear(b"a");
        let told = omissions.told();
        assert_eq!(told.total, 2);
        assert_eq!(told.first.iter().map(|(path, _)| path.as_slice()).collect::<Vec<_>>(), [&b"a.b"[..], b"ab"]);
    }
}
