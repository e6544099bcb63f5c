//! What git's trees cannot say: permission bits other than 644 and 755. They are kept in a side tree that a checkpoint's
//! commit names. It has the shape of the workspace, without the directories where there is nothing to say:
//!
//! - `modes`, a file: what is unusual in this directory, see [`Modes`];
//! - `+name`, a directory: the same for the directory `name` in it.

use crate::repo::{Entry, Kind, ObjectId, Repo, RepoError};
use std::collections::BTreeMap;

/// Permission bits, without the file type. Setuid, setgid and sticky are not kept and not brought back: who owns a file is
/// not kept either, so a rewind by a daemon that is root would make another user's setuid file root's.
pub(crate) const MODE_BITS: u32 = 0o777;
/// What git takes a directory, a file and a program to have.
pub const USUAL_DIRECTORY: u32 = 0o755;
/// What git takes a file to have.
pub const USUAL_FILE: u32 = 0o644;
/// What git takes a program to have.
pub const USUAL_PROGRAM: u32 = 0o755;
/// The file in each directory of the side tree.
const MODES: &[u8] = b"modes";
/// What the names of directories begin with there, so that one may be called `modes`.
const BELOW: u8 = b'+';

/// The permission bits of a directory and of the files in it. As text, a line each: `directory 775`, `files 664`,
/// `programs 775` where it is not what git takes them to be, then exceptions, `600 name`, in order of their names; `\\`
/// and `\n` stand for a backslash and a line break in a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Modes {
    /// Of the directory itself.
    pub directory: u32,
    /// Of files in it, unless they are exceptions.
    pub files: u32,
    /// Of files that their owner may run, unless they are exceptions.
    pub programs: u32,
    /// Files with other bits.
    pub exceptions: BTreeMap<Vec<u8>, u32>,
}

impl Default for Modes {
    fn default() -> Self {
        Self { directory: USUAL_DIRECTORY, files: USUAL_FILE, programs: USUAL_PROGRAM, exceptions: BTreeMap::new() }
    }
}

/// Whether a file with these bits is a program to git.
pub fn is_program(mode: u32) -> bool {
    mode & 0o100 != 0
}

impl Modes {
    /// What is to be said of a directory with these bits and these files.
    pub fn of<'a>(directory: u32, files: impl Iterator<Item = (&'a [u8], u32)> + Clone) -> Self {
        let most = |programs: bool, usual: u32| {
            let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
            files.clone().filter(|(_, mode)| is_program(*mode) == programs).for_each(|(_, mode)| {
                *counts.entry(mode).or_default() += 1;
            });
            counts.into_iter().max_by_key(|(mode, count)| (*count, *mode == usual)).map_or(usual, |(mode, _)| mode)
        };
        let mut modes =
            Self { directory, files: most(false, USUAL_FILE), programs: most(true, USUAL_PROGRAM), ..Self::default() };
        let unusual = files.clone().filter(|(_, mode)| *mode != modes.default_for(is_program(*mode)));
        modes.exceptions = unusual.map(|(name, mode)| (name.to_vec(), mode)).collect();
        modes
    }

    /// Whether all is as git takes it to be, so that nothing needs to be kept.
    pub fn is_usual(&self) -> bool {
        *self == Self::default()
    }

    /// The bits of a file.
    pub fn of_file(&self, name: &[u8], executable: bool) -> u32 {
        self.exceptions.get(name).copied().unwrap_or_else(|| self.default_for(executable))
    }

    fn default_for(&self, program: bool) -> u32 {
        if program { self.programs } else { self.files }
    }

    fn to_text(&self) -> Vec<u8> {
        let mut text = String::new();
        let usual = Self::default();
        for (word, mode, usual) in [
            ("directory", self.directory, usual.directory),
            ("files", self.files, usual.files),
            ("programs", self.programs, usual.programs),
        ] {
            if mode != usual {
                text.push_str(&format!("{word} {mode:o}\n"));
            }
        }
        let mut text = text.into_bytes();
        for (name, mode) in &self.exceptions {
            text.extend_from_slice(format!("{mode:o} ").as_bytes());
            for byte in name {
                match byte {
                    b'\\' => text.extend_from_slice(b"\\\\"),
                    b'\n' => text.extend_from_slice(b"\\n"),
                    other => text.push(*other),
                }
            }
            text.push(b'\n');
        }
        text
    }

    fn from_text(text: &[u8]) -> Option<Self> {
        let mut modes = Self::default();
        for line in text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let space = line.iter().position(|byte| *byte == b' ')?;
            let (word, rest) = (&line[..space], &line[space + 1..]);
            match word {
                b"directory" => modes.directory = octal(rest)?,
                b"files" => modes.files = octal(rest)?,
                b"programs" => modes.programs = octal(rest)?,
                mode => {
                    modes.exceptions.insert(unescape(rest)?, octal(mode)?);
                }
            }
        }
        Some(modes)
    }
}

fn octal(digits: &[u8]) -> Option<u32> {
    let text = std::str::from_utf8(digits).ok()?;
    // Checkpoints of earlier versions hold setuid, setgid and sticky bits; they are not brought back.
    u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o7777).map(|mode| mode & MODE_BITS)
}

fn unescape(text: &[u8]) -> Option<Vec<u8>> {
    let mut name = Vec::with_capacity(text.len());
    let mut bytes = text.iter();
    while let Some(byte) = bytes.next() {
        name.push(match (byte, *byte == b'\\') {
            (_, true) => match bytes.next()? {
                b'n' => b'\n',
                b'\\' => b'\\',
                _ => return None,
            },
            (other, false) => *other,
        });
    }
    Some(name)
}

/// What the side tree says of one directory.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Level {
    /// Its own bits and those of its files.
    pub modes: Modes,
    /// The side trees of directories in it; of one that is not here there is nothing to say.
    pub below: BTreeMap<Vec<u8>, ObjectId>,
}

/// Reads one level of a side tree. `None` is a directory of which there is nothing to say.
pub fn read(repo: &Repo, meta: Option<ObjectId>) -> Result<Level, RepoError> {
    let mut level = Level::default();
    let Some(meta) = meta else { return Ok(level) };
    for entry in repo.objects.read_tree(meta)? {
        if entry.kind == Kind::Directory {
            if let Some(name) = entry.name.strip_prefix(&[BELOW]) {
                level.below.insert(name.to_vec(), entry.id);
            }
        } else if entry.name == MODES {
            let text = repo.objects.read_blob(entry.id, None)?;
            let damaged = || RepoError::Damaged { reason: format!("the file modes {} cannot be read", entry.id) };
            level.modes = Modes::from_text(&text).ok_or_else(damaged)?;
        }
    }
    Ok(level)
}

/// Keeps one level; `None` if there is nothing to say.
pub fn write(repo: &mut Repo, level: &Level) -> Result<Option<ObjectId>, RepoError> {
    if level.modes.is_usual() && level.below.is_empty() {
        return Ok(None);
    }
    let mut entries = Vec::with_capacity(level.below.len() + 1);
    if !level.modes.is_usual() {
        let id = repo.objects.blob(&level.modes.to_text())?;
        entries.push(Entry { name: MODES.to_vec(), kind: Kind::File { executable: false }, id });
    }
    for (name, id) in &level.below {
        let mut marked = vec![BELOW];
        marked.extend_from_slice(name);
        entries.push(Entry { name: marked, kind: Kind::Directory, id: *id });
    }
    repo.objects.tree(&entries).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_read_as_they_were_written() {
        let files: [(&[u8], u32); 5] =
            [(b"a", 0o664), (b"b\\\n\xff x", 0o600), (b"c", 0o664), (b"run", 0o755), (b"own", 0o700)];
        let modes = Modes::of(0o775, files.into_iter());
        assert_eq!((modes.directory, modes.files, modes.programs), (0o775, 0o664, 0o755));
        let read = Modes::from_text(&modes.to_text()).unwrap();
        assert_eq!(read, modes);
        for (name, mode) in files {
            assert_eq!(read.of_file(name, is_program(mode)), mode);
        }
        assert!(Modes::of(0o755, [(&b"a"[..], 0o644)].into_iter()).is_usual());
        assert!(Modes::of(0o755, std::iter::empty()).to_text().is_empty());
        assert_eq!(Modes::from_text(b"files 99999\n"), None);
        assert_eq!(Modes::from_text(b"600 a\\x\n"), None);
    }
}
