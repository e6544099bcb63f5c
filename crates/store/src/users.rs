//! Which user of the machine belongs to which agent, in one file of the data directory: users are the machine's, so nodes
//! that share a store do not share them. Lines are only added. A user is never given to anyone else, because files that it
//! owns may be anywhere.

use serde::{Deserialize, Serialize};
use shellkeep_session::{SessionId, Timestamp};
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

/// The file's name.
const NAME: &str = "users";
/// That of a file that is there from when a daemon first gives agents users until one no longer does. In it is how many were
/// given at least, in so many digits.
const IN_FORCE: &str = "users.on";
const DIGITS: usize = 10;

/// Whose a user is.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub enum UserHolder {
    /// An agent, with all its sessions.
    Agent { agent: String },
    /// A session without an agent. Another one may have the same name later, so the time is part of it.
    Session { session: SessionId, created_at: Timestamp },
}

/// A user, and whose it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserRecord {
    /// Its number.
    pub user: u32,
    /// Whose it is.
    pub of: UserHolder,
}

/// Where the records are. The daemon that holds the data directory is the only writer.
#[derive(Debug, Clone)]
pub struct UserFile {
    path: PathBuf,
    in_force: PathBuf,
}

impl UserFile {
    /// The file of a data directory.
    pub fn of(data_dir: &Path) -> Self {
        Self { path: data_dir.join(NAME), in_force: data_dir.join(IN_FORCE) }
    }

    /// Where the records are.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether agents had users under the last daemon.
    pub fn was_in_force(&self) -> bool {
        self.in_force.exists()
    }

    /// Notes for the next daemon whether agents have users now. It is on the disk when this returns. From when they first have,
    /// there is a list, so that one that is lost can be told from one that never was.
    pub fn set_in_force(&self, is_in_force: bool) -> io::Result<()> {
        if is_in_force {
            OpenOptions::new().append(true).create(true).open(&self.path)?;
            sync_directory_of(&self.path)?;
            // Also where it was: a daemon that was killed may have added a record and not noted it.
            let given = self.load()?.map_or(0, |records| records.len());
            self.note(given)?;
        } else if self.was_in_force() {
            std::fs::remove_file(&self.in_force)?;
        } else {
            return Ok(());
        }
        sync_directory_of(&self.in_force)
    }

    /// All records; `None` if there is no file. A line that was not written to its end was never used. Any other that cannot
    /// be read is an error, because its user could be given away again, and so is a user that two have.
    pub fn load(&self) -> io::Result<Option<Vec<UserRecord>>> {
        let text = match std::fs::read_to_string(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(self.unreadable(&error)),
        };
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        let read = |line: &str| serde_json::from_str(line).map_err(|error| self.unreadable(&error));
        let records: Vec<UserRecord> = whole.lines().map(read).collect::<io::Result<_>>()?;
        let mut holders = HashMap::new();
        for UserRecord { user, of } in &records {
            if holders.insert(user, of).is_some_and(|other| other != of) {
                return Err(self.unreadable(&format!("the user {user} is there twice, for different agents")));
            }
        }
        // Whoever is missing would get another user, and theirs another agent.
        let given = self.noted();
        if records.len() < given {
            let (found, mark) = (records.len(), self.in_force.display());
            return Err(self.unreadable(&format!(
                "{given} users were given, and {found} are in it; put it back, or remove {mark} and name other users in \
                 the setting `sandbox_users`"
            )));
        }
        Ok(Some(records))
    }

    /// Notes how many users were given. It is written over what was there, so that it is never empty.
    fn note(&self, given: usize) -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).create(true).truncate(false).open(&self.in_force)?;
        file.write_all(format!("{given:0DIGITS$}\n").as_bytes())?;
        file.sync_data()
    }

    /// How many were given at least, as it was noted.
    fn noted(&self) -> usize {
        std::fs::read_to_string(&self.in_force).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
    }

    fn unreadable(&self, error: &dyn std::fmt::Display) -> io::Error {
        io::Error::other(format!("{}: {error}", self.path.display()))
    }

    /// Adds a record, which is on the disk when this returns. After an error it may be there all the same: nobody else may
    /// get that user. However many there are, only the end of the file is read.
    pub fn add(&self, record: &UserRecord) -> io::Result<()> {
        let is_new = !self.path.exists();
        let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&self.path)?;
        let whole = whole_lines(&mut file)?;
        let mut line = serde_json::to_vec(record)?;
        line.push(b'\n');
        append(&mut file, whole, &line, |file| {
            file.sync_data()?;
            if is_new { sync_directory_of(&self.path) } else { Ok(()) }
        })?;
        if self.was_in_force() { self.note(self.noted() + 1) } else { Ok(()) }
    }
}

/// How long the whole lines of a file are together. Only one whose last line is torn is read.
fn whole_lines(file: &mut File) -> io::Result<u64> {
    let length = file.metadata()?.len();
    let mut last = [b'\n'];
    if length > 0 {
        file.read_exact_at(&mut last, length - 1)?;
    }
    if last == *b"\n" {
        return Ok(length);
    }
    let mut text = Vec::new();
    file.read_to_end(&mut text)?;
    Ok(text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1) as u64)
}

/// Writes a line after the whole ones, which are so long. One that could not be written or synced is taken out again: it was not
/// given to whom it was for.
fn append(file: &mut File, whole: u64, line: &[u8], sync: impl FnOnce(&File) -> io::Result<()>) -> io::Result<()> {
    file.set_len(whole)?;
    file.seek(SeekFrom::Start(whole))?;
    let added = file.write_all(line).and_then(|()| sync(file));
    // The first error is the one to tell of.
    added.inspect_err(|_| drop(file.set_len(whole)))
}

/// Has the names in a file's directory on the disk.
fn sync_directory_of(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), |directory| File::open(directory)?.sync_all())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(user: u32, agent: &str) -> UserRecord {
        UserRecord { user, of: UserHolder::Agent { agent: agent.to_owned() } }
    }

    #[test]
    fn records_come_back_and_a_torn_line_was_never_used() {
        let home = tempfile::tempdir().unwrap();
        let file = UserFile::of(home.path());
        assert_eq!(file.load().unwrap(), None);
        let session = UserHolder::Session { session: SessionId::parse("s").unwrap(), created_at: Timestamp::now() };
        let all = [record(7, "ann"), UserRecord { user: 8, of: session }, record(9, "a\n\"b")];
        for record in &all[..2] {
            file.add(record).unwrap();
        }
        let path = home.path().join(NAME);
        let mut torn = std::fs::read(&path).unwrap();
        torn.extend(b"{\"user\":9,\"of\":{\"age");
        std::fs::write(&path, &torn).unwrap();
        assert_eq!(file.load().unwrap().unwrap(), all[..2]);
        file.add(&all[2]).unwrap();
        assert_eq!(file.load().unwrap().unwrap(), all);
        std::fs::write(&path, "{\"user\":1}\n{}\n").unwrap();
        assert!(file.load().is_err());
    }

    #[test]
    fn a_record_is_added_without_reading_those_before() {
        let home = tempfile::tempdir().unwrap();
        let file = UserFile::of(home.path());
        file.set_in_force(true).unwrap();
        // More than could be read, in a file with one block on the disk.
        let length = 1 << 40;
        File::options().write(true).open(file.path()).unwrap().write_all_at(b"\n", length - 1).unwrap();
        file.add(&record(7, "ann")).unwrap();
        let added = file.path().metadata().unwrap().len() - length;
        assert_eq!((added, file.noted()), (serde_json::to_vec(&record(7, "ann")).unwrap().len() as u64 + 1, 1));
    }

    #[test]
    fn a_record_that_did_not_reach_the_disk_is_taken_out_again() {
        let home = tempfile::tempdir().unwrap();
        let file = UserFile::of(home.path());
        file.add(&record(7, "ann")).unwrap();
        let before = std::fs::read(file.path()).unwrap();
        let mut open = OpenOptions::new().write(true).open(file.path()).unwrap();
        let failed = append(&mut open, before.len() as u64, b"{\"user\":8}\n", |open| {
            assert!(open.metadata().unwrap().len() > before.len() as u64);
            Err(io::Error::other("the disk is gone"))
        });
        assert_eq!(failed.unwrap_err().to_string(), "the disk is gone");
        assert_eq!(std::fs::read(file.path()).unwrap(), before);
        assert_eq!(file.load().unwrap().unwrap(), [record(7, "ann")]);
    }

    #[test]
    fn a_user_that_two_agents_have_is_an_error() {
        let home = tempfile::tempdir().unwrap();
        let file = UserFile::of(home.path());
        file.add(&record(7, "ann")).unwrap();
        file.add(&record(7, "ann")).unwrap();
        assert_eq!(file.load().unwrap().unwrap().len(), 2);
        file.add(&record(7, "bob")).unwrap();
        assert!(file.load().unwrap_err().to_string().contains("the user 7 is there twice"));
    }

    #[test]
    fn a_list_that_was_cut_is_an_error() {
        let home = tempfile::tempdir().unwrap();
        let file = UserFile::of(home.path());
        file.add(&record(7, "ann")).unwrap();
        file.set_in_force(true).unwrap();
        file.add(&record(8, "bob")).unwrap();
        assert_eq!(file.load().unwrap().unwrap().len(), 2);
        let whole = std::fs::read_to_string(file.path()).unwrap();
        let first = &whole[..=whole.find('\n').unwrap()];
        for cut in ["", first, &whole[..whole.len() - 3]] {
            std::fs::write(file.path(), cut).unwrap();
            assert!(file.load().unwrap_err().to_string().contains("2 users were given"), "{cut}");
        }
        std::fs::write(file.path(), &whole).unwrap();
        assert!(file.load().is_ok());
    }

    #[test]
    fn the_next_daemon_counts_a_record_that_was_not_noted() {
        let home = tempfile::tempdir().unwrap();
        let file = UserFile::of(home.path());
        file.set_in_force(true).unwrap();
        file.add(&record(7, "ann")).unwrap();
        // Killed between the two writes.
        file.note(0).unwrap();
        file.set_in_force(true).unwrap();
        file.add(&record(8, "bob")).unwrap();
        assert_eq!(file.noted(), 2);
    }

    #[test]
    fn the_next_daemon_knows_whether_agents_had_users() {
        let home = tempfile::tempdir().unwrap();
        for is_in_force in [false, true, true, false, false] {
            UserFile::of(home.path()).set_in_force(is_in_force).unwrap();
            assert_eq!(UserFile::of(home.path()).was_in_force(), is_in_force);
        }
        assert_eq!(UserFile::of(home.path()).load().unwrap(), Some(Vec::new()));
    }
}
