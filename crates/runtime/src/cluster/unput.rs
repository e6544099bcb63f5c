//! What is to be put of sessions where other nodes can read it. There is a file for each session from when something is to be
//! put until everything is there, so that a node that was killed and started again goes on with it.

use super::session_notes::SessionNotes;
use crate::tasks;
use shellkeep_session::{Claim, FilesAt, SessionId, Timestamp};
use shellkeep_store::Survives;
use std::io;
use std::path::{Path, PathBuf};

/// The folder of the data directory with the notes.
const FOLDER: &str = "uncopied-files";
/// From how many bytes on a note is written anew without what was put meanwhile: one of a session that is never done would grow
/// with each of its checkpoints.
const LARGE_NOTE: usize = 64 * 1024;
/// How a line of a note begins.
const CHECKPOINT: &str = "checkpoint";
const ATTACHED: &str = "attached";

/// The checkpoint that a session's files are at.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Order {
    pub claim: Claim,
    pub created_at: Timestamp,
    pub files: FilesAt,
}

/// A file that a record names.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Attachment {
    pub claim: Claim,
    pub created_at: Timestamp,
    pub path: PathBuf,
    pub hash: String,
}

/// What is to be put of a session.
#[derive(Debug, Default, PartialEq)]
pub(super) struct ToPut {
    pub checkpoint: Option<Order>,
    pub attachments: Vec<Attachment>,
    /// An earlier process noted it: another node may have the session by now.
    pub is_old: bool,
}

impl ToPut {
    pub(super) fn is_empty(&self) -> bool {
        self.checkpoint.is_none() && self.attachments.is_empty()
    }

    /// Adds what is newer. The newest checkpoint has everything of those before it.
    pub(super) fn add(&mut self, newer: Self) {
        self.checkpoint = newer.checkpoint.or(self.checkpoint.take());
        self.attachments.extend(newer.attachments);
        self.is_old |= newer.is_old;
    }

    /// The last claim under which something of it was made, and when its session was created.
    pub(super) fn origin(&self) -> Option<(&Claim, Timestamp)> {
        let of_checkpoint = self.checkpoint.as_ref().map(|order| (&order.claim, order.created_at));
        of_checkpoint.or_else(|| self.attachments.last().map(|file| (&file.claim, file.created_at)))
    }

    /// Itself as lines of a note. Paths are those below the data directory, which may be moved.
    fn lines(&self, data_dir: &Path) -> String {
        let checkpoint = self.checkpoint.iter().map(|Order { claim, created_at, files }| {
            format!("{CHECKPOINT}\t{claim}\t{created_at}\t{}\t{}\n", files.name, files.commit)
        });
        let attachments = self.attachments.iter().filter_map(|Attachment { claim, created_at, path, hash }| {
            let path = path.strip_prefix(data_dir).unwrap_or(path).to_str()?;
            Some(format!("{ATTACHED}\t{claim}\t{created_at}\t{hash}\t{path}\n"))
        });
        checkpoint.chain(attachments).collect()
    }

    /// What a note says. A line that was cut off, or that a later version wrote, says nothing.
    fn read(note: &str, data_dir: &Path) -> Self {
        let mut all = Self { is_old: true, ..Self::default() };
        for line in note.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')) {
            let parts: Vec<&str> = line.split('\t').collect();
            let [kind, claim, created_at, first, second] = parts[..] else { continue };
            let (Ok(claim), Ok(created_at)) = (claim.parse(), created_at.parse()) else { continue };
            let (first, second) = (first.to_owned(), second.to_owned());
            match kind {
                CHECKPOINT => {
                    let files = FilesAt { name: first, commit: second };
                    all.checkpoint = Some(Order { claim, created_at, files });
                }
                ATTACHED => {
                    let path = data_dir.join(second);
                    all.attachments.push(Attachment { claim, created_at, path, hash: first });
                }
                _ => {}
            }
        }
        all
    }
}

/// The notes. They survive a kill; they are not synced, because each checkpoint would wait for the disk. Whoever writes one may
/// wait for it, and the other tasks of its thread do not.
#[derive(Debug)]
pub(super) struct Unput {
    notes: SessionNotes,
    data_dir: PathBuf,
}

impl Unput {
    /// Those in a data directory.
    pub(super) fn at(data_dir: &Path) -> io::Result<Self> {
        let notes = SessionNotes::at(data_dir, FOLDER, Survives::Crash)?;
        Ok(Self { notes, data_dir: data_dir.to_owned() })
    }

    /// What an earlier process was to put, with the size of the note. One that cannot be read stays.
    pub(super) fn noted(&self) -> io::Result<Vec<(SessionId, ToPut, usize)>> {
        let read = |id: SessionId| match self.notes.text(&id) {
            Ok(note) => Some((id, ToPut::read(&note, &self.data_dir), note.len())),
            Err(error) => {
                tracing::warn!(session = %id, %error, "what is not copied for other nodes cannot be read");
                None
            }
        };
        Ok(self.notes.all()?.into_iter().filter_map(read).collect())
    }

    /// Notes more that is to be put. Returns how much larger the note is now.
    pub(super) fn add(&self, id: &SessionId, more: &ToPut) -> usize {
        let lines = more.lines(&self.data_dir);
        if !lines.is_empty() {
            told(id, tasks::in_place(|| self.notes.append(id, &lines)));
        }
        lines.len()
    }

    /// Writes a note of this size anew if it is large: this is all that is still to be put. Returns its size.
    pub(super) fn shorten(&self, id: &SessionId, size: usize, left: &ToPut) -> usize {
        if size < LARGE_NOTE {
            return size;
        }
        let lines = left.lines(&self.data_dir);
        // What is left may be as much: then it is written anew when there is as much again.
        let added = if lines.len() < LARGE_NOTE { lines.len() } else { 0 };
        told(id, tasks::in_place(|| self.notes.set(id, || Some(lines))));
        added
    }

    /// Everything was put.
    pub(super) fn remove(&self, id: &SessionId) {
        told(id, tasks::in_place(|| self.notes.set(id, || None)));
    }
}

fn told(id: &SessionId, changed: io::Result<()>) {
    if let Err(error) = changed {
        tracing::warn!(session = %id, %error, "the note of what is not copied for other nodes could not be changed");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn attached(data_dir: &Path, name: &str) -> Attachment {
        let (claim, created_at) = ("1.n1.x".parse().unwrap(), Timestamp::from_second(7).unwrap());
        Attachment { claim, created_at, path: data_dir.join("outputs/s").join(name), hash: "ab".to_owned() }
    }

    fn checkpoint(name: &str) -> ToPut {
        let (claim, created_at) = ("2.n1.x".parse().unwrap(), Timestamp::new(7, 123_456_789).unwrap());
        let files = FilesAt { name: name.to_owned(), commit: "cd".to_owned() };
        ToPut { checkpoint: Some(Order { claim, created_at, files }), ..ToPut::default() }
    }

    /// The bug: what could not be put was known only to the process, and forgotten when that was killed.
    #[test]
    fn what_is_to_be_put_is_known_after_a_restart() {
        let data = tempfile::TempDir::new().unwrap();
        let (unput, id) = (Unput::at(data.path()).unwrap(), SessionId::parse("s").unwrap());
        let files = ["r1.stdout", "r3.stderr"].map(|name| attached(data.path(), name));
        let mut to_put = ToPut::default();
        for more in [checkpoint("c1"), ToPut { attachments: files.into(), ..ToPut::default() }, checkpoint("c2")] {
            unput.add(&id, &more);
            to_put.add(more);
        }
        to_put.is_old = true;
        assert_eq!(to_put.origin().unwrap().0.to_string(), "2.n1.x");
        let note = data.path().join(FOLDER).join("s");
        let size = fs::read(&note).unwrap().len();
        // The process was killed while it wrote.
        fs::write(&note, [fs::read(&note).unwrap(), b"checkpoint\t2.n1.x\t1970-01".to_vec()].concat()).unwrap();
        let noted = Unput::at(data.path()).unwrap().noted().unwrap();
        assert_eq!(noted, [(id.clone(), to_put, size + 25)]);
        unput.remove(&id);
        assert!(unput.noted().unwrap().is_empty() && unput.add(&id, &ToPut::default()) == 0);
        assert!(unput.noted().unwrap().is_empty(), "nothing is to be put");
    }

    #[test]
    fn a_note_does_not_grow_with_what_was_put() {
        let data = tempfile::TempDir::new().unwrap();
        let (unput, id) = (Unput::at(data.path()).unwrap(), SessionId::parse("s").unwrap());
        let mut size = 0;
        for number in 0..5000 {
            let left = checkpoint(&format!("c{number}"));
            size += unput.add(&id, &left);
            size = unput.shorten(&id, size, &left);
        }
        let noted = unput.noted().unwrap().remove(0);
        assert_eq!(noted.1.checkpoint, checkpoint("c4999").checkpoint);
        assert!(noted.2 == size && size < LARGE_NOTE + 100, "{size} and {}", noted.2);
    }
}
