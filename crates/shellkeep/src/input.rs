//! What a command sends from here: all of stdin or of a file, up to a limit.

use crate::failure::Failure;
use rustix::fs::{FileType, fstat, tell};
use rustix::io::ioctl_fionread;
use shellkeep_terminal::words;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// All of stdin. `too_long` is said of more than `limit` bytes.
pub fn stdin(limit: usize, too_long: &str) -> Result<Vec<u8>, Failure> {
    whole("stdin", Ok(io::stdin().lock()), limit)?.ok_or_else(|| Failure::client(too_long))
}

/// Whether stdin is a pipe or a file in which there is something to read. Nothing is read.
pub fn is_waiting() -> bool {
    let stdin = io::stdin();
    let Ok(found) = fstat(&stdin) else { return false };
    match FileType::from_raw_mode(found.st_mode) {
        FileType::Fifo => ioctl_fionread(&stdin).is_ok_and(|bytes| bytes > 0),
        FileType::RegularFile => {
            let length = u64::try_from(found.st_size).unwrap_or(0);
            tell(&stdin).is_ok_and(|at| at < length)
        }
        _ => false,
    }
}

/// All of a file, or of stdin if none is named. `whose` says what the limit is one of.
pub fn file_or_stdin(path: Option<&Path>, limit: usize, whose: &str) -> Result<Vec<u8>, Failure> {
    let name = path.map_or_else(|| "stdin".to_owned(), |path| path.display().to_string());
    let bytes = match path {
        Some(path) => whole(&name, File::open(path), limit)?,
        None => whole(&name, Ok(io::stdin().lock()), limit)?,
    };
    let most = words::bytes(limit as u64);
    bytes.ok_or_else(|| Failure::client(format!("{name} is larger than {most}, the limit {whose}")))
}

/// `None` if there are more bytes than `limit`.
fn whole(name: &str, source: io::Result<impl Read>, limit: usize) -> Result<Option<Vec<u8>>, Failure> {
    let mut bytes = Vec::new();
    let read = source.and_then(|source| source.take(limit as u64 + 1).read_to_end(&mut bytes));
    read.map_err(|error| Failure::client(format!("cannot read {name}: {error}")))?;
    Ok((bytes.len() <= limit).then_some(bytes))
}
