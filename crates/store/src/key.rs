//! The keys of a data directory, created at the first start: `record.key`, from which the salts of recordings follow,
//! and the signing key. Each is 32 random bytes as hex in a file that only its owner may read.

use crate::error::OpenError;
use shellkeep_record::{Hash, Key, PublicKey, Signer};
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// The signing key, unless the host keeps it elsewhere.
const SIGNING_KEY: &str = "sign.key";

/// The public key, for checking recordings on this machine.
pub const PUBLIC_KEY: &str = "sign.pub";

/// Permission bits of group and others.
const OTHERS: u32 = 0o077;

/// Reads the key that proves recordings, or creates it.
pub(crate) fn read(data_dir: &Path) -> Result<Key, OpenError> {
    let path = data_dir.join("record.key");
    let lost = "without it no recording can be verified";
    match parse(&path, lost)? {
        Some(key) => Ok(Key(key)),
        None => make().and_then(|key| keep(&path, &key).map(|()| Key(key))).map_err(not_writable(&path)),
    }
}

/// Reads the signing key, or creates it. `before_first` is called with a new key before it is stored: if that fails,
/// the next start repeats it.
pub(crate) fn signer(
    data_dir: &Path,
    elsewhere: Option<&Path>,
    before_first: impl FnOnce(&Signer) -> io::Result<()>,
) -> Result<Signer, OpenError> {
    let path = elsewhere.map_or_else(|| data_dir.join(SIGNING_KEY), Path::to_owned);
    let signer = match parse(&path, "recordings cannot be signed without it")? {
        Some(seed) => {
            check_mode(&path)?;
            Signer::from_seed(&seed)
        }
        None => {
            let new = make().and_then(|seed| {
                let signer = Signer::from_seed(&seed);
                before_first(&signer)?;
                keep(&path, &seed)?;
                Ok(signer)
            });
            new.map_err(not_writable(&path))?
        }
    };
    let public = data_dir.join(PUBLIC_KEY);
    publish(&public, &signer.public_key()).map_err(not_writable(&public))?;
    Ok(signer)
}

/// A key in a file, if there is one.
fn parse(path: &Path, lost: &str) -> Result<Option<[u8; 32]>, OpenError> {
    match fs::read_to_string(path) {
        Ok(text) => match Hash::parse(text.trim()) {
            Some(key) => Ok(Some(key.0)),
            None => {
                let reason = format!("it is not a key of 64 hex digits, and {lost}");
                Err(OpenError::Corrupt { path: path.to_owned(), reason })
            }
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(OpenError::not_writable(path, &error)),
    }
}

/// A key that others can read is not trustworthy.
fn check_mode(path: &Path) -> Result<(), OpenError> {
    let mode = fs::metadata(path).map_err(|error| OpenError::not_writable(path, &error))?.permissions().mode();
    if mode & OTHERS == 0 {
        return Ok(());
    }
    let error = io::Error::other(format!("its mode is {:o} and others can read it; chmod 600 it", mode & 0o777));
    Err(OpenError::not_writable(path, &error))
}

fn not_writable(path: &Path) -> impl Fn(io::Error) -> OpenError {
    let path: PathBuf = path.to_owned();
    move |error| OpenError::not_writable(&path, &error)
}

fn make() -> io::Result<[u8; 32]> {
    let mut key = [0; 32];
    rustix::rand::getrandom(&mut key, rustix::rand::GetRandomFlags::empty())?;
    Ok(key)
}

/// The file is written atomically.
fn keep(path: &Path, key: &[u8; 32]) -> io::Result<()> {
    write_whole(path, &Hash(*key).to_string())
}

fn publish(path: &Path, key: &PublicKey) -> io::Result<()> {
    let text = key.to_string();
    if fs::read_to_string(path).is_ok_and(|known| known.trim() == text) {
        return Ok(());
    }
    write_whole(path, &text)
}

fn write_whole(path: &Path, text: &str) -> io::Result<()> {
    let temporary = path.with_extension("tmp");
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
    writeln!(file, "{text}")?;
    file.sync_all()?;
    fs::rename(&temporary, path)?;
    path.parent().map_or(Ok(()), |directory| fs::File::open(directory)?.sync_all())
}
