//! `shellkeep backup`: copies the data directory, even while the daemon runs, so that it can be restored.

pub mod manifest;
mod tree;

use crate::cli::{ClientArgs, DaemonArgs};
use crate::client::{self, Client};
use crate::config::Settings;
use crate::failure::Failure;
use crate::terminal::{self, Progress};
use clap::{Args, ValueHint};
use manifest::{DATA, Kind};
use rustix::fs::{FlockOperation, flock, syncfs};
use rustix::io::Errno;
use serde::Serialize;
use serde_json::json;
use shellkeep_protocol::Readiness;
use shellkeep_session::ByteString;
use shellkeep_terminal::words;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use tree::Copier;

/// A daemon pauses writes for at most [`shellkeep_runtime::HOLD_LIMIT`]; this adds some time for the request.
const MARGIN: Duration = Duration::from_secs(5);
/// How often the last pass is tried; each has less to copy than the one before.
const ATTEMPTS: usize = 4;

/// The mark of a backup that is not complete. The one that writes it has its lock.
const UNFINISHED: &str = "shellkeep-backup.unfinished";

/// Arguments of `backup`.
#[derive(Debug, Args)]
#[command(
    after_help = "DEST must be missing or empty, or hold an interrupted backup (marked by `shellkeep-backup.unfinished`), which
is resumed. Missing parent directories are created. It becomes a directory with everything in the data directory: sessions,
recordings, outputs, checkpoints, workspaces, service logs, tokens and keys. It is as sensitive as the data directory;
only its owner can read it. It does not contain directories outside the data directory that sessions use.

The daemon may be running. For the last part of the copy it pauses writes: commands keep running, but those that need
the store wait. Afterwards every file is read again and compared.

Examples:
  shellkeep backup /backups/shellkeep-2026-11-16
  shellkeep backup --data /var/lib/shellkeep /backups/today --json
  shellkeep restore /backups/today --data /var/lib/shellkeep

Exit codes: 0 backed up and checked, 1 not backed up, 2 wrong usage."
)]
pub struct BackupArgs {
    /// Where the backup goes
    #[arg(value_name = "DEST", value_hint = ValueHint::DirPath)]
    dest: PathBuf,
    #[command(flatten)]
    client: ClientArgs,
}

/// What was done.
#[derive(Debug, Serialize)]
struct Report {
    path: String,
    data: String,
    files: u64,
    directories: u64,
    links: u64,
    bytes: u64,
    /// Sockets, pipes and devices.
    left_out: u64,
    /// Files of sessions that could not be copied.
    not_copied: manifest::LeftOut,
    /// Whether a daemon was running.
    live: bool,
    /// How long it paused writes.
    held_ms: u64,
    verified: bool,
    seconds: f64,
}

pub fn execute(args: BackupArgs) -> Result<ExitCode, Failure> {
    let report = client::block_on(back_up(&args))?;
    if args.client.json {
        terminal::json(&report)?;
    } else {
        let Report { files, bytes, path, left_out, .. } = &report;
        terminal::line(format!(
            "{} ({}) in {path}, all read again and compared",
            words::counted(*files as usize, "file"),
            words::bytes(*bytes)
        ));
        if *left_out > 0 {
            terminal::line(format!("left out: {left_out} (sockets, pipes, devices)"));
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn back_up(args: &BackupArgs) -> Result<Report, Failure> {
    let begun = Instant::now();
    let settings = client::settings(&args.client.daemon)?;
    let data = settings.data.value.canonicalize().map_err(|error| {
        Failure::client(format!("there is no data directory {}: {error}", settings.data.value.display()))
    })?;
    if !data.is_dir() {
        return Err(Failure::client(format!("{} is not a directory, so it is not a data directory", data.display())));
    }
    check_store(&settings, &data)?;
    let dest = Dest::make(&args.dest, &data)?;
    let mut progress = Progress::new("copying");
    let files = dest.path.join(DATA);
    let mut copier = Copier::new(&data, &files, &mut progress);
    let failed = |error: io::Error| Failure::client(format!("the backup failed: {error}"));
    let (live, held) = match lock(&data)? {
        Some(_lock) => {
            copier.pass().map_err(failed)?;
            (false, Duration::ZERO)
        }
        None => {
            copier.pass().map_err(failed)?;
            (true, last_pass(&args.client.daemon, &data, &mut copier).await?)
        }
    };
    let (entries, left_out) = (std::mem::take(&mut copier.entries), copier.left_out);
    progress.turn_to("comparing");
    syncfs(File::open(&files).map_err(failed)?).map_err(|error| failed(error.into()))?;
    tree::check(&files, &entries, &mut progress).map_err(Failure::client)?;
    manifest::write(&dest.path, ByteString(data.as_os_str().as_bytes().to_vec()), &entries).map_err(failed)?;
    let path = dest.keep().map_err(failed)?;
    let mut report = Report {
        path: path.display().to_string(),
        data: data.display().to_string(),
        files: 0,
        directories: 0,
        links: 0,
        bytes: 0,
        left_out,
        not_copied: entries.left_out.clone(),
        live,
        held_ms: u64::try_from(held.as_millis()).unwrap_or(u64::MAX),
        verified: true,
        seconds: begun.elapsed().as_secs_f64(),
    };
    for entry in entries.values() {
        match &entry.kind {
            Kind::Directory => report.directories += 1,
            Kind::Link { .. } => report.links += 1,
            Kind::File { bytes, .. } => (report.files, report.bytes) = (report.files + 1, report.bytes + bytes),
        }
    }
    Ok(report)
}

/// Data that is stored elsewhere would be missing.
fn check_store(settings: &Settings, data: &Path) -> Result<(), Failure> {
    let url = &settings.store.value;
    let place = url.split_once("://").map(|(_, path)| path).filter(|path| !path.is_empty());
    match place.map(|path| settings.data.value.join(path)) {
        Some(path) if path.starts_with(data) || path.starts_with(&settings.data.value) => Ok(()),
        Some(path) => Err(Failure::client(format!(
            "the store is at {}, outside the data directory; stop the daemon and copy both yourself",
            path.display()
        ))),
        None => Err(Failure::client(format!("the store {url} keeps nothing that could be backed up"))),
    }
}

/// The lock of the data directory, if no daemon holds it.
fn lock(data: &Path) -> Result<Option<File>, Failure> {
    let failed = |error: io::Error| Failure::client(format!("{}: {error}", data.join("lock").display()));
    let file = match File::open(data.join("lock")) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(Failure::client(format!("{} is not a data directory: it has no lock", data.display())));
        }
        other => other.map_err(failed)?,
    };
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(file)),
        Err(Errno::WOULDBLOCK) => Ok(None),
        Err(error) => Err(failed(error.into())),
    }
}

/// Copies what has changed while the daemon pauses writes; returns how long that took.
async fn last_pass(args: &DaemonArgs, data: &Path, copier: &mut Copier<'_>) -> Result<Duration, Failure> {
    let args = DaemonArgs { no_start: true, ..args.clone() };
    let mut client = Client::open(&args).await?;
    let ready: Readiness = client.get("/readyz").await?;
    let holder = fs::read_to_string(data.join("lock")).unwrap_or_default();
    if holder.trim() != ready.pid.to_string() {
        return Err(Failure::client(format!(
            "the daemon that answers is not the one that uses {} (pid {}); name its socket with --socket",
            data.display(),
            holder.trim()
        )));
    }
    for _ in 0..ATTEMPTS {
        let mut client = client.another().await.map_err(Failure::client)?;
        let mut events = client.post_events("/v1/hold", &json!({})).await?;
        let held = terminal::patiently("waiting for the daemon to pause writes", events.next()).await?;
        if held.is_none_or(|event| event.name != "held") {
            return Err(Failure::client("the daemon did not pause writes; try again"));
        }
        let begun = Instant::now();
        copier.pass().map_err(|error| Failure::client(format!("the backup failed: {error}")))?;
        let took = begun.elapsed();
        if took + MARGIN < shellkeep_runtime::HOLD_LIMIT {
            return Ok(took);
        }
    }
    Err(Failure::client("the daemon writes more than can be copied during a pause; stop it for the backup"))
}

/// The directory of a backup; removed unless the backup completes. One that was killed leaves its mark, so that it is not taken
/// for whole and the next one can use the directory.
struct Dest {
    path: PathBuf,
    is_kept: bool,
    _lock: File,
}

impl Dest {
    fn make(dest: &Path, data: &Path) -> Result<Self, Failure> {
        let refused =
            |reason: &str| Failure::client(format!("cannot write the backup to {}: {reason}", dest.display()));
        let path = std::path::absolute(dest).map_err(|error| refused(&error.to_string()))?;
        if path.exists() && !path.is_dir() {
            return Err(refused("it is not a directory"));
        }
        let is_left = path.join(UNFINISHED).is_file();
        if !is_left && fs::read_dir(&path).is_ok_and(|mut entries| entries.next().is_some()) {
            return Err(refused("it is not empty; choose a new directory"));
        }
        let above = path.ancestors().skip(1).find_map(|above| above.canonicalize().ok());
        if above.is_some_and(|above| above.starts_with(data)) {
            return Err(refused("it is inside the data directory"));
        }
        let mut private = DirBuilder::new();
        private.mode(0o700).recursive(true);
        private.create(&path).map_err(|error| refused(&error.to_string()))?;
        let own = fs::Permissions::from_mode(0o700);
        fs::set_permissions(&path, own).map_err(|error| refused(&error.to_string()))?;
        let mark = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path.join(UNFINISHED));
        let lock = mark.map_err(|error| refused(&error.to_string()))?;
        if flock(&lock, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) {
            return Err(refused("another backup is being written there"));
        }
        let made = Self { path, is_kept: false, _lock: lock };
        made.clear().map_err(|error| refused(&error.to_string()))?;
        private.create(made.path.join(DATA)).map_err(|error| refused(&error.to_string()))?;
        Ok(made)
    }

    /// Removes what a backup writes, except for the mark that it is unfinished.
    fn clear(&self) -> io::Result<()> {
        let data = fs::remove_dir_all(self.path.join(DATA));
        let manifests = manifest::FILES.map(|name| fs::remove_file(self.path.join(name)));
        let is_real = |error: &io::Error| error.kind() != io::ErrorKind::NotFound;
        std::iter::once(data).chain(manifests).find(|removed| removed.as_ref().is_err_and(is_real)).unwrap_or(Ok(()))
    }

    fn keep(mut self) -> io::Result<PathBuf> {
        fs::remove_file(self.path.join(UNFINISHED))?;
        self.is_kept = true;
        Ok(self.path.clone())
    }
}

impl Drop for Dest {
    fn drop(&mut self) {
        if !self.is_kept && self.clear().is_ok() {
            let _ = fs::remove_file(self.path.join(UNFINISHED)).and_then(|()| fs::remove_dir(&self.path));
        }
    }
}

/// Reads a backup and restores it to a data directory. For `restore`.
pub fn restore_into(backup: &Path, to: &Path) -> Result<(manifest::Head, manifest::Entries), Failure> {
    let (head, entries) = manifest::read(backup)?;
    let mut progress = Progress::new("restoring");
    tree::restore(&backup.join(DATA), &entries, to, &mut progress).map_err(Failure::client)?;
    Ok((head, entries))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A backup that was killed left a directory that looked like one and in which no other could be made.
    #[test]
    fn what_a_killed_backup_left_is_marked_and_used_again() {
        let home = tempfile::tempdir().unwrap();
        let (data, path) = (home.path().join("data"), home.path().join("backup"));
        let dest = Dest::make(&path, &data).unwrap();
        fs::write(path.join(DATA).join("token"), "half").unwrap();
        assert!(path.join(UNFINISHED).exists());
        let second = Dest::make(&path, &data).map(|_| ()).unwrap_err().to_string();
        assert!(second.contains("another backup is being written there"), "{second}");
        // As if it had been killed.
        let copy = home.path().join("left");
        fs::create_dir_all(copy.join(DATA)).unwrap();
        for name in [UNFINISHED, "data/token"] {
            fs::copy(path.join(name), copy.join(name)).unwrap();
        }
        drop(dest);
        assert!(!path.exists());
        let again = Dest::make(&copy, &data).unwrap();
        assert_eq!(fs::read_dir(copy.join(DATA)).unwrap().count(), 0);
        assert_eq!(again.keep().unwrap(), copy);
        assert!(!copy.join(UNFINISHED).exists());
        let whole = Dest::make(&copy, &data).map(|_| ()).unwrap_err().to_string();
        assert!(whole.contains("it is not empty"), "{whole}");
    }
}
