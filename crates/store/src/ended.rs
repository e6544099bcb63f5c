//! `ended/ID`: an empty file for each session that was ended, so that these are found without reading all sessions. It
//! is a hint; the session's state says whether it is still ended. Only the name matters, so a file cannot be half
//! written and needs no checksum.

use shellkeep_session::SessionId;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// The directory of a data directory.
#[derive(Debug, Clone)]
pub struct EndedSessions {
    directory: PathBuf,
}

impl EndedSessions {
    pub fn of(data_dir: &Path) -> Self {
        Self { directory: data_dir.join("ended") }
    }

    /// Adds a session.
    pub fn add(&self, id: &SessionId) -> io::Result<()> {
        fs::create_dir_all(&self.directory)?;
        File::create(self.directory.join(id.as_str())).map(drop)
    }

    /// Removes a session, if it is listed.
    pub fn remove(&self, id: &SessionId) -> io::Result<()> {
        match fs::remove_file(self.directory.join(id.as_str())) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// All sessions that are listed.
    pub fn list(&self) -> io::Result<Vec<SessionId>> {
        let entries = match fs::read_dir(&self.directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        Ok(entries.flatten().filter_map(|entry| SessionId::parse(entry.file_name().to_str()?).ok()).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_listed_until_it_is_removed() {
        let home = tempfile::tempdir().unwrap();
        let (ended, id) = (EndedSessions::of(home.path()), SessionId::parse("a.b").unwrap());
        assert!(ended.list().unwrap().is_empty());
        ended.add(&id).unwrap();
        ended.add(&id).unwrap();
        assert_eq!(ended.list().unwrap(), std::slice::from_ref(&id));
        ended.remove(&id).unwrap();
        ended.remove(&id).unwrap();
        assert!(ended.list().unwrap().is_empty());
    }
}
