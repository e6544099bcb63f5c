//! The keyed store of a session where all nodes can read it: as a log, to which its owner writes each change before it is
//! recorded, and from which the next owner makes the store again.

use super::files::SharedFiles;
use crate::sync::read;
use crate::tasks;
use shellkeep_session::{SessionId, SessionState};
use shellkeep_store::keyed::{self, LogKeeper, LogPlace};
use shellkeep_store::{Keyed, KeyedError};
use shellkeep_workspace::blobs::KeyedObjects;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How often to look for the log again if its last owner replaced it meanwhile.
const ATTEMPTS: u32 = 3;

/// What became of the keyed store of a session that this node took over.
#[derive(Debug)]
pub(super) enum Keys {
    /// It was never used.
    Unused,
    /// It is here.
    All,
    /// The last changes are missing.
    Part,
    /// None of it is here.
    Missing,
}

/// Where the log of a session's keyed store is and who writes to it; none if nodes share no directory. `seq` is the number of the
/// record that tells of the next part, and `after` what the log has before it.
pub(crate) fn place(
    files: &SharedFiles,
    state: &SessionState,
    seq: u64,
    after: u64,
) -> Option<Result<LogPlace, String>> {
    let claim = state.claims.last()?.clone();
    let blobs = files.of(&state.meta.session_id, state.meta.created_at);
    let keeper = blobs.keyed_objects().map(|objects| Arc::new(Keeper(objects)) as Arc<dyn LogKeeper>);
    let directory = blobs.keyed().map_err(|error| error.to_string());
    Some(directory.map(|directory| LogPlace { directory, claim, seq, after, keeper }))
}

/// Brings logs to a store of objects.
#[derive(Debug)]
struct Keeper(KeyedObjects);

impl LogKeeper for Keeper {
    fn names(&self) -> io::Result<Vec<String>> {
        self.0.names().map_err(io::Error::other)
    }

    fn keep(&self, name: &str, file: &Path) -> io::Result<()> {
        self.0.keep(name, file).map_err(io::Error::other)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.0.remove(name).map_err(io::Error::other)
    }
}

/// Makes the keyed store of a session that this node takes over.
pub(super) async fn bring(files: Option<&SharedFiles>, data_dir: &str, state: &SessionState) -> Keys {
    if state.kv.is_unused() {
        return Keys::Unused;
    }
    let Some(files) = files else { return Keys::Missing };
    let id = &state.meta.session_id;
    let blobs = files.of(id, state.meta.created_at);
    let brought = match blobs.keyed().map_err(|error| error.to_string()) {
        Ok(from) => {
            let (to, gate) = (home(data_dir, id), files.gate());
            let (claims, recorded) = (state.claims.clone(), state.kv);
            let bringing = tasks::blocking(move || {
                let _open = read(&gate);
                let draft = draft_of(&to);
                blobs.fetch_keyed().map_err(io::Error::other)?;
                let replayed = retried(|| {
                    remove(&draft)?;
                    Keyed::replay(&draft, &from, &claims, recorded)
                })?;
                if replayed.is_some() {
                    remove(&to)?;
                    std::fs::rename(&draft, &to)?;
                }
                Ok::<_, KeyedError>(replayed)
            });
            bringing.await.map_err(|error| error.to_string()).and_then(|done| done.map_err(|error| error.to_string()))
        }
        Err(reason) => Err(reason),
    };
    match brought {
        Ok(Some(replayed)) if replayed.is_complete => Keys::All,
        Ok(Some(_)) => Keys::Part,
        Ok(None) => Keys::Missing,
        Err(reason) => {
            tracing::error!(session = %id, reason, "the keyed store of a session that moved here could not be brought");
            Keys::Missing
        }
    }
}

fn home(data_dir: &str, id: &SessionId) -> PathBuf {
    keyed::directory(Path::new(data_dir), id.as_str())
}

/// Where a store is made before it takes its place. No session is named like this: an id does not begin with a dot.
fn draft_of(home: &Path) -> PathBuf {
    let name = home.file_name().unwrap_or_default().to_string_lossy();
    home.with_file_name(format!(".{name}"))
}

fn remove(directory: &Path) -> io::Result<()> {
    match std::fs::remove_dir_all(directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Tries again what failed because a file was replaced meanwhile.
fn retried<T>(mut work: impl FnMut() -> Result<T, KeyedError>) -> Result<T, KeyedError> {
    for _ in 1..ATTEMPTS {
        match work() {
            Err(KeyedError::Io(error)) if error.kind() == io::ErrorKind::NotFound => {}
            done => return done,
        }
    }
    work()
}
