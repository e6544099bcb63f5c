//! Recordings that were made before there were signatures.

use crate::heads::{Heads, NewHead, Note};
use crate::read::Recording;
use crate::sign::Signer;
use shellkeep_session::{SessionId, Timestamp};
use std::io;
use std::path::Path;

/// Signs them as they are, and returns how many. Called once, when the signing key is made.
pub fn sign_old(root: &Path, signer: &Signer) -> io::Result<usize> {
    let mut count = 0;
    let entries = match std::fs::read_dir(root) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        Err(error) => return Err(error),
    };
    for entry in entries {
        let directory = entry?.path();
        let name = directory.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let Ok(session_id) = SessionId::parse(name) else { continue };
        let last = Recording::open(&directory).and_then(|recording| recording.last());
        let mut heads = Heads::open(&directory, &session_id)?;
        if let (Ok(Some(line)), None) = (last, heads.last()) {
            let new = NewHead { seq: line.through(), hash: line.proof.hash, note: Some(Note::Unsigned) };
            heads.add(new, signer, Timestamp::now())?;
            count += 1;
        }
    }
    Ok(count)
}
