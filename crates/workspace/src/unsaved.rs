//! What a checkpoint left out though it was there (too large, unreadable, no file), as the message of its commit names it. A
//! rewind to it must not take such a path for one that did not exist, and remove what is there now.

use crate::repo::{ObjectId, Repo, RepoError};
use std::collections::BTreeSet;

/// Begins the line with the default rules, after which the paths are named. Nothing that a caller writes into a message
/// comes later.
pub(crate) const RULES: &str = "Ignored-By-Default: ";
const TOTAL: &str = "Left-Out: ";
const PATH: &str = "Left-Out-Path: ";

/// Paths that a message names. Threat: a program that makes pipes without end, and with them a long message in each
/// checkpoint. A rewind to one that names not all of them removes nothing.
const MAX_PATHS: usize = 1000;
/// The same for their bytes.
const MAX_BYTES: usize = 64 << 10;

const WAS_THERE: &str = "it was there at that moment, but was not saved";
const MAY_HAVE_BEEN: &str = "it may have been there at that moment, where not everything could be saved";

/// The lines of a message about what a checkpoint leaves out.
pub(crate) fn lines<'a>(paths: impl ExactSizeIterator<Item = &'a [u8]>) -> String {
    if paths.len() == 0 {
        return String::new();
    }
    let mut text = format!("{TOTAL}{}\n", paths.len());
    for path in paths.take(MAX_PATHS) {
        let line = format!("{PATH}{}\n", encode(path));
        if text.len() + line.len() > MAX_BYTES {
            break;
        }
        text.push_str(&line);
    }
    text
}

/// What one checkpoint left out.
#[derive(Debug, Default)]
pub(crate) struct Unsaved {
    paths: BTreeSet<Vec<u8>>,
    /// Whether there was more than these.
    is_more: bool,
}

impl Unsaved {
    /// Of a commit; nothing of none.
    pub fn of(repo: &Repo, commit: Option<ObjectId>) -> Result<Self, RepoError> {
        let Some(commit) = commit else { return Ok(Self::default()) };
        Ok(Self::read(&repo.objects.read_commit(commit)?.message))
    }

    fn read(message: &str) -> Self {
        let mark = format!("\n{RULES}");
        let ours = message.rfind(&mark).map_or("", |at| &message[at + mark.len()..]);
        let (mut paths, mut total) = (BTreeSet::new(), 0);
        for line in ours.lines() {
            if let Some(path) = line.strip_prefix(PATH) {
                paths.extend(decode(path));
            } else if let Some(number) = line.strip_prefix(TOTAL) {
                total = number.parse().unwrap_or(usize::MAX);
            }
        }
        let is_more = paths.len() < total;
        Self { paths, is_more }
    }

    /// A file or link was saved at this path, so nothing was below it, and an older version of it is there.
    pub fn was_saved(&mut self, path: &[u8]) {
        self.paths.remove(path);
    }

    /// Why what is at a path now may have been there.
    pub fn why(&self, path: &[u8]) -> Option<&'static str> {
        if self.paths.contains(path) {
            return Some(WAS_THERE);
        }
        (self.is_more || self.names(path)).then_some(MAY_HAVE_BEEN)
    }

    /// Whether a path is named, or a directory that it is in.
    pub fn names(&self, path: &[u8]) -> bool {
        let above = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| &path[..at]);
        above.chain([path]).any(|one| self.paths.contains(one))
    }
}

/// A path as one line of text.
fn encode(path: &[u8]) -> String {
    let mut text = String::with_capacity(path.len());
    for chunk in path.utf8_chunks() {
        for letter in chunk.valid().chars() {
            match letter {
                '\\' => text.push_str("\\\\"),
                control if control.is_ascii_control() => text.push_str(&format!("\\x{:02x}", u32::from(control))),
                other => text.push(other),
            }
        }
        chunk.invalid().iter().for_each(|byte| text.push_str(&format!("\\x{byte:02x}")));
    }
    text
}

fn decode(text: &str) -> Option<Vec<u8>> {
    let mut parts = text.split('\\');
    let mut path = parts.next()?.as_bytes().to_vec();
    while let Some(part) = parts.next() {
        if part.is_empty() {
            // Two in a row are one.
            path.push(b'\\');
            path.extend_from_slice(parts.next()?.as_bytes());
            continue;
        }
        let digits = part.strip_prefix('x')?.get(..2)?;
        path.push(u8::from_str_radix(digits, 16).ok()?);
        path.extend_from_slice(&part.as_bytes()[3..]);
    }
    Some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(paths: &[&[u8]]) -> String {
        format!("Run 1\n\n{RULES}node_modules/\n{}", lines(paths.iter().copied()))
    }

    #[test]
    fn what_was_left_out_is_read_as_it_was_written() {
        let paths: [&[u8]; 7] =
            [b"a b", b"new\nline", b"\\", b"\\x41\\\\", b"\xff\xfe/x", "\u{fc} ".as_bytes(), b"cr\r"];
        for path in paths {
            assert_eq!(decode(&encode(path)).as_deref(), Some(path));
        }
        let unsaved = Unsaved::read(&message(&paths));
        assert!(!unsaved.is_more);
        assert!(paths.iter().all(|path| unsaved.why(path) == Some(WAS_THERE)));
        assert_eq!(unsaved.why(b"a b/below"), Some(MAY_HAVE_BEEN));
        assert_eq!((unsaved.why(b"a"), unsaved.why(b"a b.c"), unsaved.why(b"x")), (None, None, None));
        assert!(Unsaved::read(&message(&[])).why(b"a").is_none());
    }

    /// A person writes the first part of a message.
    #[test]
    fn only_our_own_lines_count() {
        let message = format!("{PATH}a\n\n{RULES}\n{TOTAL}7\n\n{RULES}x/\n");
        assert!(Unsaved::read(&message).why(b"a").is_none());
    }

    #[test]
    fn when_not_all_are_named_any_path_may_be_one() {
        let many: Vec<Vec<u8>> = (0..=MAX_PATHS).map(|number| number.to_string().into_bytes()).collect();
        let long = vec![b'x'; MAX_BYTES];
        for paths in [many.iter().map(Vec::as_slice).collect::<Vec<_>>(), vec![long.as_slice()]] {
            let message = message(&paths);
            assert!(message.len() < MAX_BYTES + 100);
            assert_eq!(Unsaved::read(&message).why(b"other"), Some(MAY_HAVE_BEEN));
        }
    }
}
