//! The intent file: everything that is needed to complete a restore whose staging is complete. It is written whole and
//! renamed into its place, so it is there or it is not.
//!
//! As text it is a list of fields, each `LENGTH:BYTES,`; the first is the format's name and version. Numbers are decimal.

use super::RestoreError;
use crate::meta::MODE_BITS;
use crate::repo::ObjectId;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// The name of the stage in `home`.
const IN_HOME: &str = "stage";
const FORMAT: &[u8] = b"shellkeep rewind 1";
const NAME: &str = "rewind";
const UNFINISHED: &str = "rewind.new";

/// What must be at a path, or else it is kept back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Expected {
    pub is_link: bool,
    pub bits: u32,
    pub id: ObjectId,
}

/// One thing to do. What is staged has the number of its task as its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Action {
    /// Take a file out of the workspace.
    TakeOut { old: Expected },
    /// Remove a directory if it is empty.
    RemoveDirectory,
    /// Put a staged file or link where nothing is.
    Place { inode: u64 },
    /// Put a staged directory where nothing is; one that is there already will do.
    PlaceDirectory { inode: u64, bits: u32 },
    /// Put a staged file or link where another is.
    Exchange { inode: u64, old: Expected },
    /// Set permissions.
    Mode { from: u32, to: u32 },
    /// The directory is read-only; it is made writable temporarily.
    Loosen { bits: u32 },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Task {
    pub path: Vec<u8>,
    pub action: Action,
}

/// Where the stage is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum StageLocation {
    /// Beside the checkpoints.
    Home,
    /// In the workspace itself, because the checkpoints are on another file system.
    Workspace { name: String },
}

impl StageLocation {
    pub fn path(&self, workspace: &Path, home: &Path) -> PathBuf {
        match self {
            Self::Home => home.join(self.name()),
            Self::Workspace { .. } => workspace.join(self.name()),
        }
    }

    pub fn name(&self) -> &str {
        match self {
            Self::Home => IN_HOME,
            Self::Workspace { name } => name,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Intent {
    /// The caller's own.
    pub note: Vec<u8>,
    pub place: StageLocation,
    pub tasks: Vec<Task>,
}

/// Writes it down; from here on the restore is carried out, whatever happens.
pub(super) fn save(home: &Path, intent: &Intent) -> io::Result<()> {
    let unfinished = home.join(UNFINISHED);
    let mut file = File::create(&unfinished)?;
    file.write_all(&encode(intent))?;
    file.sync_all()?;
    fs::rename(&unfinished, home.join(NAME))?;
    File::open(home)?.sync_all()
}

pub(super) fn load(home: &Path) -> Result<Option<Intent>, RestoreError> {
    let damaged = |reason: String| RestoreError::Intent { reason };
    match fs::read(home.join(NAME)) {
        Ok(bytes) => decode(&bytes).map(Some).map_err(damaged),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(damaged(error.to_string())),
    }
}

/// Removes it, and one that was not finished.
pub(super) fn remove(home: &Path) -> io::Result<()> {
    for name in [NAME, UNFINISHED] {
        match fs::remove_file(home.join(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

fn encode(intent: &Intent) -> Vec<u8> {
    let mut out = Fields::default();
    out.bytes(FORMAT);
    out.bytes(&intent.note);
    out.bytes(match &intent.place {
        StageLocation::Home => b"",
        StageLocation::Workspace { name } => name.as_bytes(),
    });
    out.number(intent.tasks.len() as u64);
    for task in &intent.tasks {
        out.bytes(&task.path);
        match &task.action {
            Action::TakeOut { old } => {
                out.bytes(b"take");
                out.expected(old);
            }
            Action::RemoveDirectory => out.bytes(b"rmdir"),
            Action::Place { inode } => {
                out.bytes(b"place");
                out.number(*inode);
            }
            Action::PlaceDirectory { inode, bits } => {
                out.bytes(b"mkdir");
                out.number(*inode);
                out.number(u64::from(*bits));
            }
            Action::Exchange { inode, old } => {
                out.bytes(b"swap");
                out.number(*inode);
                out.expected(old);
            }
            Action::Mode { from, to } => {
                out.bytes(b"mode");
                out.number(u64::from(*from));
                out.number(u64::from(*to));
            }
            Action::Loosen { bits } => {
                out.bytes(b"loosen");
                out.number(u64::from(*bits));
            }
        }
    }
    out.0
}

#[derive(Default)]
struct Fields(Vec<u8>);

impl Fields {
    fn bytes(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(format!("{}:", bytes.len()).as_bytes());
        self.0.extend_from_slice(bytes);
        self.0.push(b',');
    }

    fn number(&mut self, number: u64) {
        self.bytes(number.to_string().as_bytes());
    }

    fn expected(&mut self, expected: &Expected) {
        self.bytes(if expected.is_link { b"link" } else { b"file" });
        self.number(u64::from(expected.bits));
        self.bytes(expected.id.to_hex().to_string().as_bytes());
    }
}

fn decode(bytes: &[u8]) -> Result<Intent, String> {
    let mut reader = Reader(bytes);
    if reader.bytes()? != FORMAT {
        return Err("it was written by another version".to_owned());
    }
    let note = reader.bytes()?.to_vec();
    let place = match reader.text()? {
        "" => StageLocation::Home,
        name => StageLocation::Workspace { name: name.to_owned() },
    };
    let count = reader.number()?;
    let mut tasks = Vec::new();
    for _ in 0..count {
        let path = reader.bytes()?.to_vec();
        let action = match reader.bytes()? {
            b"take" => Action::TakeOut { old: reader.expected()? },
            b"rmdir" => Action::RemoveDirectory,
            b"place" => Action::Place { inode: reader.number()? },
            b"mkdir" => Action::PlaceDirectory { inode: reader.number()?, bits: reader.bits()? },
            b"swap" => Action::Exchange { inode: reader.number()?, old: reader.expected()? },
            b"mode" => Action::Mode { from: reader.bits()?, to: reader.bits()? },
            b"loosen" => Action::Loosen { bits: reader.bits()? },
            other => return Err(format!("unknown action {}", other.escape_ascii())),
        };
        tasks.push(Task { path, action });
    }
    Ok(Intent { note, place, tasks })
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn bytes(&mut self) -> Result<&'a [u8], String> {
        let cut = || "it ends early".to_owned();
        let colon = self.0.iter().position(|byte| *byte == b':').ok_or_else(cut)?;
        let length = std::str::from_utf8(&self.0[..colon]).ok().and_then(|digits| digits.parse::<usize>().ok());
        let rest = &self.0[colon + 1..];
        let length = length.filter(|length| rest.get(*length) == Some(&b',')).ok_or_else(cut)?;
        self.0 = &rest[length + 1..];
        Ok(&rest[..length])
    }

    fn text(&mut self) -> Result<&'a str, String> {
        std::str::from_utf8(self.bytes()?).map_err(|error| error.to_string())
    }

    fn number(&mut self) -> Result<u64, String> {
        self.text()?.parse().map_err(|_| "a number is invalid".to_owned())
    }

    fn bits(&mut self) -> Result<u32, String> {
        let bits = self.number()?;
        // Earlier versions wrote down setuid bits too.
        let bits = u32::try_from(bits).ok().filter(|bits| *bits <= 0o7777);
        bits.map(|bits| bits & MODE_BITS).ok_or_else(|| "permissions are none".to_owned())
    }

    fn expected(&mut self) -> Result<Expected, String> {
        let is_link = self.bytes()? == b"link";
        let bits = self.bits()?;
        let id = ObjectId::from_hex(self.bytes()?).map_err(|error| error.to_string())?;
        Ok(Expected { is_link, bits, id })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_intent_is_read_as_it_was_written_and_not_if_cut() {
        let id = ObjectId::from_hex(b"0123456789012345678901234567890123456789").unwrap();
        let old = Expected { is_link: true, bits: 0o644, id };
        let actions = [
            Action::TakeOut { old },
            Action::RemoveDirectory,
            Action::Place { inode: 7 },
            Action::PlaceDirectory { inode: 8, bits: 0o755 },
            Action::Exchange { inode: u64::MAX, old: Expected { is_link: false, ..old } },
            Action::Mode { from: 0, to: 0o777 },
            Action::Loosen { bits: 0o500 },
        ];
        let task = |action| Task { path: b"odd\n\xff,5:/x".to_vec(), action };
        let place = StageLocation::Workspace { name: ".shellkeep-stage-1".to_owned() };
        let intent = Intent { note: b"\0note".to_vec(), place, tasks: actions.into_iter().map(task).collect() };
        let bytes = encode(&intent);
        assert_eq!(decode(&bytes).unwrap(), intent);
        for length in 0..bytes.len() {
            assert!(decode(&bytes[..length]).is_err(), "{length}");
        }
        assert!(decode(b"18:shellkeep rewind 2,").unwrap_err().contains("version"));
    }
}
