//! The key of a data directory: 32 random bytes as hex in `record.key`, made at the first start.

use crate::open::OpenError;
use shellkeep_record::{Hash, Key};
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// Reads the key, or makes it.
pub(crate) fn read(data_dir: &Path) -> Result<Key, OpenError> {
    let path = data_dir.join("record.key");
    let not_writable = |error: io::Error| OpenError::not_writable(&path, &error);
    match fs::read_to_string(&path) {
        Ok(text) => match Hash::parse(text.trim()) {
            Some(key) => Ok(Key(key.0)),
            None => {
                let reason = "it is not a key of 64 hex digits, and without it no recording can be verified".to_owned();
                Err(OpenError::Corrupt { path, reason })
            }
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => make(&path).map_err(not_writable),
        Err(error) => Err(not_writable(error)),
    }
}

/// The file appears whole or not at all.
fn make(path: &Path) -> io::Result<Key> {
    let mut key = [0; 32];
    rustix::rand::getrandom(&mut key, rustix::rand::GetRandomFlags::empty())?;
    let temporary = path.with_extension("tmp");
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
    writeln!(file, "{}", Hash(key))?;
    file.sync_all()?;
    fs::rename(&temporary, path)?;
    Ok(Key(key))
}
