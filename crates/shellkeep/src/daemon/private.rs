//! A data directory that only its owner can read. An existing one may have been created with another umask, or by an
//! earlier version.

use crate::failure::Failure;
use shellkeep_session::Sandbox;
use shellkeep_store::{OpenError, UserFile};
use std::fs::{self, DirBuilder, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// The rights that others must not have.
const OTHERS: u32 = 0o077;
/// Those that they have where users of agents pass: to enter it, not to list it.
const PASSING: u32 = 0o011;
/// What users of agents pass on the way to their own directories, besides the data directory itself.
const PASSED: [&str; 2] = ["homes", "workspaces"];
/// One of these is in every data directory that was used before.
const SIGNS: [&str; 6] = ["token", "shellkeep.db", "journal", "workspaces", "start.lock", "lock"];

/// Creates a directory that only its owner can enter, unless it exists.
pub fn make(path: &Path) -> Result<(), Failure> {
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(|error| {
        let place = path.display();
        if path.exists() && !path.is_dir() {
            return Failure::start(format!("{place} is not a directory; choose another with --data or --socket"));
        }
        Failure::start(format!("cannot create the directory {place}: {error}; choose another with --data or --socket"))
    })
}

/// Creates the data directory, or rejects one that is not ours. Another daemon may be using it.
pub fn make_data(path: &Path) -> Result<(), Failure> {
    make(path)?;
    let found = fs::metadata(path).map_err(|error| unreadable(path, &error))?;
    if found.mode() & OTHERS != 0 { refuse_if_shared(path, &found) } else { Ok(()) }
}

/// Makes the data directory private, which no other daemon uses: the directory itself and what is directly in it. Everything
/// deeper then cannot be reached. A store elsewhere is made private too. Where agents have users of their own, these may pass
/// it if they could before. `agents` is the sandbox that was asked for.
pub fn close_data(path: &Path, store: &str, agents: Option<Sandbox>) -> Result<(), Failure> {
    let place = path.display();
    if agents.is_none() && UserFile::of(path).was_in_force() {
        return Err(Failure::start(format!(
            "in {place}, each agent has its own user; start with `--sandbox-agents user` (or SHELLKEEP_SANDBOX_AGENTS), or \
             name another sandbox there, to run agents as the daemon's user again"
        )));
    }
    if agents == Some(Sandbox::User) && shellkeep_shared::is_shared(store) {
        return Err(Failure::start(
            "`--sandbox-agents user` cannot be used with a store that nodes share, because an agent has its user on one \
             machine only; use `fence` or `room`",
        ));
    }
    let unreadable = |error: io::Error| unreadable(path, &error);
    let found = fs::metadata(path).map_err(unreadable)?;
    let passing = if agents == Some(Sandbox::User) { PASSING } else { 0 };
    if found.mode() & OTHERS & !passing != 0 {
        close(path, &found).map_err(|error| Failure::start(format!("cannot make {place} private: {error}")))?;
    }
    for entry in fs::read_dir(path).map_err(unreadable)?.flatten() {
        let is_passed = PASSED.iter().any(|name| entry.file_name() == *name);
        if !is_passed || fs::symlink_metadata(entry.path()).is_ok_and(|found| found.mode() & OTHERS & !passing != 0) {
            close_below(&entry.path());
        }
    }
    close_store(store);
    Ok(())
}

fn unreadable(path: &Path, error: &io::Error) -> Failure {
    Failure::start(format!("cannot read {}: {error}", path.display()))
}

/// Why the store cannot be opened; if another daemon uses the data directory, with the command that stops it.
pub fn cannot_open(error: &OpenError, data: &Path) -> Failure {
    match error {
        OpenError::Locked { path, pid } if path.starts_with(data) => {
            let (who, data) = (pid.map(|pid| format!(" (pid {pid})")).unwrap_or_default(), data.display());
            Failure::start(format!(
                "another daemon{who} uses {data}; stop it with `shellkeep stop --data {data}`, or choose another directory \
                 with --data"
            ))
        }
        error => Failure::start(error),
    }
}

/// Makes a store elsewhere private, with SQLite's files next to it.
fn close_store(url: &str) {
    let Some((_, path)) = url.split_once("://").filter(|(scheme, _)| matches!(*scheme, "sqlite" | "file")) else {
        return;
    };
    for suffix in ["", "-wal", "-shm"] {
        close_below(&PathBuf::from(format!("{path}{suffix}")));
    }
}

fn close_below(path: &Path) {
    let Ok(found) = fs::symlink_metadata(path) else { return };
    let is_kept = found.is_dir() || found.is_file();
    if is_kept
        && found.mode() & OTHERS != 0
        && let Err(error) = close(path, &found)
    {
        tracing::warn!(path = %path.display(), %error, "other users can read this, and its permissions cannot be \
            changed");
    }
}

fn close(path: &Path, found: &Metadata) -> io::Result<()> {
    let mode = found.mode() & 0o777 & !OTHERS;
    fs::set_permissions(path, Permissions::from_mode(mode))?;
    tracing::warn!(path = %path.display(), was = format!("{:o}", found.mode() & 0o777), "was open to other users; it \
        is private now");
    Ok(())
}

/// `--data /tmp` by mistake must not make `/tmp` private.
fn refuse_if_shared(path: &Path, found: &Metadata) -> Result<(), Failure> {
    let place = path.display();
    let own = rustix::process::geteuid().as_raw();
    if found.uid() != own {
        let owner = found.uid();
        return Err(Failure::start(format!(
            "{place} is open to other users and belongs to user {owner}; choose your own directory with --data"
        )));
    }
    let mut names = fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.file_name()).peekable();
    let is_ours = names.peek().is_none() || names.any(|name| SIGNS.iter().any(|sign| name == *sign));
    if is_ours && found.mode() & 0o1002 == 0 {
        return Ok(());
    }
    Err(Failure::start(format!(
        "{place} is open to other users and contains other files; choose an empty directory with --data, or make it \
            private: chmod 700 {place}"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o777
    }

    #[test]
    fn what_was_open_is_closed() {
        let home = tempfile::tempdir().unwrap();
        let data = home.path().join("data");
        fs::create_dir_all(data.join("outputs/s")).unwrap();
        for file in ["shellkeep.db", "shellkeep.db-wal"] {
            fs::write(data.join(file), "").unwrap();
            fs::set_permissions(data.join(file), Permissions::from_mode(0o644)).unwrap();
        }
        for directory in [data.clone(), data.join("outputs")] {
            fs::set_permissions(directory, Permissions::from_mode(0o755)).unwrap();
        }
        make_data(&data).unwrap();
        close_data(&data, "", None).unwrap();
        assert_eq!((mode(&data), mode(&data.join("outputs"))), (0o700, 0o700));
        assert_eq!((mode(&data.join("shellkeep.db")), mode(&data.join("shellkeep.db-wal"))), (0o600, 0o600));
    }

    #[test]
    fn users_of_agents_pass_where_there_are_some() {
        let home = tempfile::tempdir().unwrap();
        let data = home.path().join("data");
        for directory in ["homes", "outputs", "workspaces"] {
            fs::create_dir_all(data.join(directory)).unwrap();
        }
        let all = [data.clone(), data.join("homes"), data.join("workspaces"), data.join("outputs")];
        let modes = |agents: Option<Sandbox>| {
            all.iter().for_each(|path| fs::set_permissions(path, Permissions::from_mode(0o711)).unwrap());
            close_data(&data, "", agents).unwrap();
            all.clone().map(|path| mode(&path))
        };
        // Also where some had users once.
        fs::write(data.join("users"), "").unwrap();
        assert_eq!(modes(None), [0o700; 4]);
        assert_eq!(modes(Some(Sandbox::User)), [0o711, 0o711, 0o711, 0o700]);
        fs::set_permissions(data.join("homes"), Permissions::from_mode(0o755)).unwrap();
        close_data(&data, "", Some(Sandbox::User)).unwrap();
        assert_eq!(mode(&data.join("homes")), 0o700);
        // Leaving them takes a word, and until then nothing changes.
        UserFile::of(&data).set_in_force(true).unwrap();
        assert_eq!(modes(Some(Sandbox::Fence)), [0o700; 4]);
        all.iter().for_each(|path| fs::set_permissions(path, Permissions::from_mode(0o711)).unwrap());
        assert!(close_data(&data, "", None).is_err());
        assert_eq!(all.clone().map(|path| mode(&path)), [0o711; 4]);
    }

    #[test]
    fn a_file_is_not_taken_for_a_data_directory() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let told = make_data(file.path()).unwrap_err().to_string();
        assert!(told.contains("is not a directory; choose another with --data"), "{told}");
    }

    #[test]
    fn a_directory_of_other_things_is_left_alone() {
        let home = tempfile::tempdir().unwrap();
        fs::set_permissions(home.path(), Permissions::from_mode(0o755)).unwrap();
        fs::write(home.path().join("thesis.tex"), "").unwrap();
        assert!(make_data(home.path()).is_err());
        assert_eq!(mode(home.path()), 0o755);
        // Like /tmp: any user may write there, even if it is empty now.
        let shared = home.path().join("shared");
        fs::create_dir(&shared).unwrap();
        fs::set_permissions(&shared, Permissions::from_mode(0o1777)).unwrap();
        assert!(make_data(&shared).is_err());
    }
}
