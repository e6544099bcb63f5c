//! `shellkeep restore`: restores a data directory from a backup.

use super::backup::{manifest::Kind, restore_into};
use crate::cli::ClientArgs;
use crate::client;
use crate::failure::Failure;
use crate::terminal;
use clap::{Args, ValueHint};
use rustix::fs::{FlockOperation, Mode, OFlags, flock, open, syncfs};
use rustix::io::Errno;
use serde_json::json;
use shellkeep_terminal::words;
use std::ffi::OsString;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Arguments of `restore`.
#[derive(Debug, Args)]
#[command(
    after_help = "The data directory (--data DIR) must be missing or empty. Every file is checked while it is copied; if one is damaged, nothing is restored. The backup is not changed.

If the original data directory still exists, the restored one is a copy: it leaves the original's services alone, and
its sessions do not use directories outside of it until `shellkeep serve --take-workspaces`.

Examples:
  shellkeep restore /backups/today --data /var/lib/shellkeep
  shellkeep restore /backups/today --data /tmp/look && shellkeep sessions ls --data /tmp/look

Exit codes: 0 restored, 1 not restored, 2 wrong usage or not a backup."
)]
pub struct RestoreArgs {
    /// The backup
    #[arg(value_name = "SRC", value_hint = ValueHint::DirPath)]
    src: PathBuf,
    #[command(flatten)]
    client: ClientArgs,
}

pub fn execute(args: RestoreArgs) -> Result<ExitCode, Failure> {
    if !args.src.is_dir() {
        return Err(Failure::start(format!("there is no backup in {}: it is not a directory", args.src.display())));
    }
    let settings = client::settings(&args.client.daemon)?;
    let data = &settings.data.value;
    if data.exists() && !data.is_dir() {
        return Err(Failure::client(format!("{} is not a directory; choose another with --data", data.display())));
    }
    if fs::read_dir(data).is_ok_and(|mut entries| entries.next().is_some()) {
        return Err(Failure::client(format!(
            "{} is not empty; choose another directory with --data, or move it away",
            data.display()
        )));
    }
    let unfinished = Unfinished::make(data)?;
    let (head, entries) = restore_into(&args.src, &unfinished.path)?;
    unfinished.put_in_place(data).map_err(|error| Failure::client(format!("{}: {error}", data.display())))?;
    let files = entries.values().filter(|entry| matches!(entry.kind, Kind::File { .. })).count();
    if args.client.json {
        let of = head.data.to_text();
        terminal::json(
            &json!({"data": data, "files": files, "backup_of": of, "created_at": head.created_at.to_string()}),
        )?;
    } else {
        terminal::line(format!(
            "{} restored to {}, as of {}",
            words::counted(files, "file"),
            data.display(),
            head.created_at
        ));
        terminal::line(format!("start it with: shellkeep serve --data {}", data.display()));
    }
    Ok(ExitCode::SUCCESS)
}

/// A data directory under a temporary name until it is complete; removed if it never is. One that was left by a restore that
/// was killed is used again.
struct Unfinished {
    path: PathBuf,
    _lock: File,
}

impl Unfinished {
    fn make(data: &Path) -> Result<Self, Failure> {
        let failed = |error: io::Error| Failure::client(format!("cannot create {}: {error}", data.display()));
        let name = data.file_name().ok_or_else(|| failed(io::ErrorKind::InvalidInput.into()))?;
        if let Some(above) = data.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(above).map_err(failed)?;
        }
        let mut marked = OsString::from(".");
        marked.push(name);
        marked.push(".restoring");
        let path = data.with_file_name(marked);
        match DirBuilder::new().mode(0o700).create(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => made.map_err(failed)?,
        }
        let lock = Self::lock(&path)?;
        let unfinished = Self { path, _lock: lock };
        unfinished.clear().map_err(failed)?;
        Ok(unfinished)
    }

    /// The right to write there.
    fn lock(path: &Path) -> Result<File, Failure> {
        let (flags, place) = (OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC, path.display());
        let directory = open(path, flags, Mode::empty());
        let file = directory.map_err(|error| Failure::client(format!("cannot use {place}: {error}; remove it")))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => {
                Err(Failure::client(format!("another restore is writing to {place}; wait for it")))
            }
            // Some file systems have no locks for directories.
            _ => Ok(file.into()),
        }
    }

    fn clear(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                fs::remove_dir_all(entry.path())?;
            } else {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }

    fn put_in_place(self, data: &Path) -> io::Result<()> {
        syncfs(File::open(&self.path)?)?;
        // An empty directory is replaced.
        fs::rename(&self.path, data)
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        // Does not exist if it was renamed into place.
        let _ = fs::remove_dir_all(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A restore that was killed left a directory that made every later one fail with "File exists".
    #[test]
    fn what_a_killed_restore_left_is_used_again() {
        let home = tempfile::tempdir().unwrap();
        let (data, left) = (home.path().join("data"), home.path().join(".data.restoring"));
        fs::create_dir_all(left.join("sessions/s")).unwrap();
        fs::write(left.join("token"), "half").unwrap();
        let unfinished = Unfinished::make(&data).unwrap();
        assert_eq!(fs::read_dir(&left).unwrap().count(), 0);
        let second = Unfinished::make(&data).map(|_| ()).unwrap_err().to_string();
        assert!(second.contains("another restore is writing"), "{second}");
        assert!(left.exists(), "the second leaves the first alone");
        unfinished.put_in_place(&data).unwrap();
        assert!(data.is_dir() && !left.exists());
    }
}
