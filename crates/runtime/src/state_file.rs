//! The files of agents' states that are too large for their record. A file is written atomically before the record that
//! names it, is never overwritten, and is compared with the length and hash in that record whenever it is read.

use shellkeep_session::{AgentState, Content};
use shellkeep_store::Durability;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;

/// Why a state cannot be read.
#[derive(Debug)]
pub(crate) enum ReadError {
    /// The file is gone: it was deleted to make room.
    Gone,
    /// The file does not match its record.
    Damaged(String),
    /// The system refused.
    Failed(io::Error),
}

/// The first version from `version` on that no file has. A crash before the record leaves a file without one, and
/// sessions of format 3 used numbers twice; neither may be overwritten.
pub(crate) fn free_version(directory: &Path, mut version: u64) -> u64 {
    while directory.join(AgentState::file_name(version)).exists() {
        version += 1;
    }
    version
}

/// Writes a file atomically. If it must survive a loss of power, it is on disk when this returns.
pub(crate) fn write(directory: &Path, version: u64, bytes: &[u8], durability: Durability) -> io::Result<Content> {
    let name = AgentState::file_name(version);
    fs::create_dir_all(directory)?;
    let draft = directory.join(format!("{name}.new"));
    let written = write_draft(&draft, bytes, durability).and_then(|()| fs::rename(&draft, directory.join(&name)));
    if let Err(error) = written {
        let _ = fs::remove_file(draft);
        return Err(error);
    }
    if durability == Durability::Power {
        sync_directory(directory)?;
    }
    Ok(Content::File { name, bytes: bytes.len() as u64, hash: Some(hash_of(bytes)) })
}

/// Links an old state under the file name of a new version. The bytes are the same, so they are not copied.
pub(crate) fn link(directory: &Path, from: &str, version: u64, durability: Durability) -> io::Result<String> {
    let name = AgentState::file_name(version);
    fs::hard_link(directory.join(from), directory.join(&name))?;
    if durability == Durability::Power {
        sync_directory(directory)?;
    }
    Ok(name)
}

/// Reads a file and compares it with what its record says.
pub(crate) fn read(path: &Path, length: u64, hash: Option<&str>) -> Result<Vec<u8>, ReadError> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(ReadError::Gone),
        Err(error) => return Err(ReadError::Failed(error)),
    };
    if bytes.len() as u64 != length {
        return Err(ReadError::Damaged(format!("its file has {} bytes instead of {length}", bytes.len())));
    }
    if hash.is_some_and(|hash| hash != hash_of(&bytes)) {
        return Err(ReadError::Damaged("its file does not match the recorded hash".to_owned()));
    }
    Ok(bytes)
}

/// What a file holds now, after it was masked.
pub(crate) fn measured(directory: &Path, name: String) -> io::Result<Content> {
    let bytes = fs::read(directory.join(&name))?;
    Ok(Content::File { name, bytes: bytes.len() as u64, hash: Some(hash_of(&bytes)) })
}

fn write_draft(draft: &Path, bytes: &[u8], durability: Durability) -> io::Result<()> {
    let mut file = File::create(draft)?;
    file.write_all(bytes)?;
    if durability == Durability::Power { file.sync_all() } else { Ok(()) }
}

fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

fn hash_of(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_only_as_it_was_saved_and_is_never_written_over() {
        let home = tempfile::tempdir().unwrap();
        let Content::File { name, bytes, hash } = write(home.path(), 1, b"first", Durability::Power).unwrap() else {
            panic!()
        };
        let path = home.path().join(&name);
        assert_eq!(read(&path, bytes, hash.as_deref()).unwrap(), b"first");
        assert_eq!(read(&path, bytes, None).unwrap(), b"first");
        assert_eq!((free_version(home.path(), 1), free_version(home.path(), 5)), (2, 5));
        assert_eq!(link(home.path(), &name, 2, Durability::Process).unwrap(), "agent_state.2");
        assert!(link(home.path(), &name, 2, Durability::Process).is_err());
        fs::write(&path, b"fIrst").unwrap();
        assert!(matches!(read(&path, bytes, hash.as_deref()), Err(ReadError::Damaged(_))));
        fs::write(&path, b"").unwrap();
        assert!(matches!(read(&path, bytes, None), Err(ReadError::Damaged(_))));
        fs::remove_file(&path).unwrap();
        assert!(matches!(read(&path, bytes, None), Err(ReadError::Gone)));
    }
}
