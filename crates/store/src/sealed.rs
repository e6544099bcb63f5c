//! Small files next to the journal: one JSON object with its checksum, replaced atomically.

use crate::error::OpenError;
use crate::sum::{self, Unsealed};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use shellkeep_session::Json as _;
use std::borrow::Cow;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// What a write must survive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Survives {
    /// A crash of the daemon.
    Crash,
    /// A power failure: the file and its directory are synced.
    Power,
}

/// Encodes an object with its checksum.
pub(crate) fn encode<T: Serialize>(value: &T) -> io::Result<Vec<u8>> {
    Ok(sum::seal(serde_json::to_vec_pretty(value)?))
}

/// Decodes an object. A checksum that does not match is an error; older versions wrote none.
pub(crate) fn decode<T: DeserializeOwned>(bytes: Vec<u8>) -> io::Result<T> {
    Ok(serde_json::from_slice(&opened(bytes)?)?)
}

/// The object's JSON.
fn opened(bytes: Vec<u8>) -> io::Result<Vec<u8>> {
    match sum::unseal(bytes) {
        Unsealed::Checked(bytes) | Unsealed::Without(bytes) => Ok(bytes),
        Unsealed::Broken => Err(io::Error::new(io::ErrorKind::InvalidData, sum::MISMATCH)),
    }
}

/// The same for a file that may be truncated: older versions did not replace it atomically, and a power failure can
/// truncate a file that was not synced, or fill it with zeros. `None` if so.
pub(crate) fn decode_whole<T: DeserializeOwned>(bytes: Vec<u8>) -> io::Result<Option<T>> {
    if bytes.first() == Some(&0) {
        return Ok(None);
    }
    match decode(bytes) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        decoded => decoded.map(Some),
    }
}

/// Reads a file; `None` if there is none.
pub(crate) fn read<T: DeserializeOwned>(path: &Path) -> io::Result<Option<T>> {
    match fs::read(path) {
        Ok(bytes) => decode(bytes).map(Some).map_err(|error| named(path, &error)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads a file with a `format` field of at most `format`; `None` if there is none. A file larger than `max_bytes` is
/// not ours.
pub(crate) fn read_format<T: DeserializeOwned>(
    path: &Path,
    format: u32,
    max_bytes: u64,
) -> Result<Option<T>, OpenError> {
    let corrupt = |reason: String| OpenError::Corrupt { path: path.to_owned(), reason };
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(OpenError::not_writable(path, &error)),
    };
    let mut bytes = Vec::new();
    let read = file.take(max_bytes + 1).read_to_end(&mut bytes);
    read.map_err(|error| OpenError::not_writable(path, &error))?;
    if bytes.len() as u64 > max_bytes {
        return Err(corrupt(format!("it is larger than {max_bytes} bytes")));
    }
    // The version first: a newer file may have anything else in it.
    let json = opened(bytes).map_err(|error| corrupt(error.to_string()))?;
    let whole = Value::from_json(&json).map_err(|error| corrupt(error.to_string()))?;
    let found = whole.get("format").and_then(Value::as_u64).unwrap_or(0);
    if found > u64::from(format) {
        let found = u32::try_from(found).unwrap_or(u32::MAX);
        return Err(OpenError::NewerFormat { place: path.to_owned(), found, ours: format });
    }
    serde_json::from_slice(&json).map(Some).map_err(|error| corrupt(error.to_string()))
}

/// Replaces a file atomically, also across a crash. Only the owner may read it.
pub(crate) fn write<T: Serialize>(path: &Path, value: &T, survives: Survives) -> io::Result<()> {
    let bytes = encode(value)?;
    let draft = draft(path);
    // One that a crash left may have any mode.
    let _ = fs::remove_file(&draft);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
    file.write_all(&bytes)?;
    if survives == Survives::Power {
        file.sync_all()?;
    }
    fs::rename(&draft, path)?;
    match path.parent() {
        Some(directory) if survives == Survives::Power => File::open(directory)?.sync_all(),
        _ => Ok(()),
    }
}

/// Begins with a dot, so that a draft which a crash left is not taken for one of the directory's files.
fn draft(path: &Path) -> PathBuf {
    path.with_file_name(format!(".{}.new", name(path)))
}

fn name(path: &Path) -> Cow<'_, str> {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy()
}

fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", name(path)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_file_is_private_and_a_changed_one_is_refused() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("x.json");
        assert_eq!(read::<BTreeMap<String, u64>>(&path).unwrap(), None);
        let value = BTreeMap::from([("a".to_owned(), 7)]);
        for survives in [Survives::Crash, Survives::Power] {
            write(&path, &value, survives).unwrap();
            assert_eq!(read(&path).unwrap(), Some(value.clone()));
        }
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 1, "a draft was left");
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.replace('7', "8")).unwrap();
        let error = read::<BTreeMap<String, u64>>(&path).unwrap_err();
        assert!(error.to_string().starts_with("x.json: its checksum"), "{error}");
    }
}
