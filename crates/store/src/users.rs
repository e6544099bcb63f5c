//! Which user of the machine belongs to which agent, in one file of the data directory: users are the machine's, so nodes
//! that share a store do not share them. Lines are only added. A user is never given to anyone else, because files that it
//! owns may be anywhere.

use serde::{Deserialize, Serialize};
use shellkeep_session::{SessionId, Timestamp};
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

/// The file's name.
pub const NAME: &str = "users";

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
}

impl UserFile {
    /// The file of a data directory.
    pub fn of(data_dir: &Path) -> Self {
        Self { path: data_dir.join(NAME) }
    }

    /// All records; none if there is no file. A line that was not written to its end was never used. Any other that cannot
    /// be read is an error: its user could be given away again.
    pub fn load(&self) -> io::Result<Vec<UserRecord>> {
        let text = match std::fs::read_to_string(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(self.unreadable(&error)),
        };
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        let read = |line: &str| serde_json::from_str(line).map_err(|error| self.unreadable(&error));
        whole.lines().map(read).collect()
    }

    fn unreadable(&self, error: &dyn std::fmt::Display) -> io::Error {
        io::Error::other(format!("{}: {error}", self.path.display()))
    }

    /// Adds a record, which is on the disk when this returns.
    pub fn add(&self, record: &UserRecord) -> io::Result<()> {
        let is_new = !self.path.exists();
        let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&self.path)?;
        let mut text = Vec::new();
        file.read_to_end(&mut text)?;
        let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1) as u64;
        file.set_len(whole)?;
        file.seek(SeekFrom::Start(whole))?;
        let mut line = serde_json::to_vec(record)?;
        line.push(b'\n');
        file.write_all(&line)?;
        file.sync_data()?;
        match self.path.parent().filter(|_| is_new) {
            Some(directory) => File::open(directory)?.sync_all(),
            None => Ok(()),
        }
    }
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
        assert_eq!(file.load().unwrap(), []);
        let session = UserHolder::Session { session: SessionId::parse("s").unwrap(), created_at: Timestamp::now() };
        let all = [record(7, "ann"), UserRecord { user: 8, of: session }, record(9, "a\n\"b")];
        for record in &all[..2] {
            file.add(record).unwrap();
        }
        let path = home.path().join(NAME);
        let mut torn = std::fs::read(&path).unwrap();
        torn.extend(b"{\"user\":9,\"of\":{\"age");
        std::fs::write(&path, &torn).unwrap();
        assert_eq!(file.load().unwrap(), all[..2]);
        file.add(&all[2]).unwrap();
        assert_eq!(file.load().unwrap(), all);
        std::fs::write(&path, "{\"user\":1}\n{}\n").unwrap();
        assert!(file.load().is_err());
    }
}
