//! The host token: from the environment, or generated once and kept in the data directory.

use crate::failure::Failure;
use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// Bytes of a generated token: those of a 256-bit key, which cannot be guessed.
const TOKEN_BYTES: usize = 32;

/// The shortest token that is accepted. Shorter ones can be guessed; this is a quarter of a generated one in hex.
const LEAST_CHARACTERS: usize = 16;

/// The host token: the given one, or that of the data directory, generated if there is none.
pub fn find(given: Option<String>, data: &Path) -> Result<String, Failure> {
    let file = path(data);
    let is_given = given.is_some();
    let token = match given {
        Some(token) => token,
        None => load_or_create(data)
            .map_err(|error| Failure::start(format!("cannot store the token in {}: {error}", file.display())))?,
    };
    if token.len() >= LEAST_CHARACTERS && token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Ok(token);
    }
    let (whose, advice) = if is_given {
        ("SHELLKEEP_TOKEN".to_owned(), "use a longer one, for example from `openssl rand -hex 32`".to_owned())
    } else {
        (format!("the token in {}", file.display()), "delete the file, and a new one is generated".to_owned())
    };
    Err(Failure::start(format!(
        "{whose} is invalid: a token has at least {LEAST_CHARACTERS} characters, all of them visible ASCII; {advice}"
    )))
}

/// Where the token of a data directory is.
pub fn path(data: &Path) -> PathBuf {
    data.join("token")
}

/// The token of a data directory; generated if there is none. A file that others can read is made private.
pub fn load_or_create(data: &Path) -> io::Result<String> {
    let path = path(data);
    if let Some(token) = load(data)? {
        let mode = fs::metadata(&path)?.permissions().mode();
        if mode & 0o077 != 0 {
            tracing::warn!(path = %path.display(), "other users could read the token file; it is now private");
            fs::set_permissions(&path, Permissions::from_mode(0o600))?;
        }
        return Ok(token);
    }
    let token = random()?;
    // Written to a temporary file and renamed: a crash in between must not leave an empty token.
    let fresh = data.join("token.new");
    let _ = fs::remove_file(&fresh);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&fresh)?;
    writeln!(file, "{token}")?;
    fs::rename(&fresh, &path)?;
    Ok(token)
}

/// The token of a data directory, if it has one.
pub fn load(data: &Path) -> io::Result<Option<String>> {
    match fs::read_to_string(path(data)) {
        Ok(text) if text.trim().is_empty() => Ok(None),
        Ok(text) => Ok(Some(text.trim().to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn random() -> io::Result<String> {
    let mut bytes = [0_u8; TOKEN_BYTES];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_made_once_and_kept_private() {
        let data = tempfile::tempdir().unwrap();
        let token = load_or_create(data.path()).unwrap();
        assert_eq!(token.len(), 2 * TOKEN_BYTES);
        fs::set_permissions(path(data.path()), Permissions::from_mode(0o644)).unwrap();
        assert_eq!(load_or_create(data.path()).unwrap(), token);
        assert_eq!(fs::metadata(path(data.path())).unwrap().permissions().mode() & 0o777, 0o600);
    }
}
