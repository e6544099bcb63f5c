//! Which data directory this is. A directory that was renamed is the same; one that was copied, restored from a backup
//! or moved to another file system is another, with its own name for its processes, so that the daemon of a copy never
//! takes over or kills what belongs to the original. `identity.json` says where the directory was at the last start.
//!
//! Paths below the directory are stored as they were when they were written; [`Relocation`] rewrites those of former
//! locations when a session is read.

use crate::error::OpenError;
use crate::sealed::{self, Survives};
use serde::{Deserialize, Serialize};
use shellkeep_session::relocate::Relocation;
use shellkeep_session::{ByteString, Timestamp};
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// The file in a data directory.
pub const FILE: &str = "identity.json";
/// Version of the file. A newer one is rejected.
const FORMAT: u32 = 1;
/// How many former locations are remembered; paths of older ones are not relocated.
const MAX_FORMER: usize = 64;
/// Largest file that is read: all locations at their maximum length.
const MAX_BYTES: u64 = 1 << 20;

/// Where a data directory is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct DataLocation {
    /// Its real path.
    path: ByteString,
    device: u64,
    inode: u64,
    /// Devices and, on some file systems, inodes are renumbered at each boot.
    boot_id: String,
}

/// What a copy knows about the original.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopyOf {
    /// Where the original was.
    pub path: ByteString,
    /// When the copy was first used. Earlier sessions belong to the original too.
    pub since: Timestamp,
    /// Whether the host assigned the directories outside of the copy to the copy.
    #[serde(default)]
    pub took_workspaces: bool,
}

/// The contents of the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Identity {
    format: u32,
    id: String,
    /// The first id of it and of everything that it was copied from.
    lineage: String,
    place: DataLocation,
    /// Every path that it was reached by, the newest last.
    former: Vec<ByteString>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    copy_of: Option<CopyOf>,
}

/// How a data directory came to be where it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// It is where it was, or was renamed: its processes are its own.
    Same,
    /// It was moved to another file system or restored, and the original is gone. What still runs for the original is left
    /// alone.
    Moved,
    /// The original still exists, or cannot be checked.
    Copied,
}

/// What is found where the directory was at the last start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Original {
    /// The same data directory, or one made from it.
    There,
    /// Nothing, or something else.
    Gone,
    /// It cannot be checked.
    Unknown,
}

/// A data directory, as the daemon that has just locked it finds it.
#[derive(Debug)]
pub struct Home {
    identity: Identity,
    /// Whether a copy has taken over the directories outside of it.
    has_taken: AtomicBool,
    arrival: Arrival,
    relocation: Relocation,
}

impl Home {
    /// Determines which directory this is, and stores that. The caller holds the lock of the directory.
    pub(crate) fn settle(data_dir: &Path) -> Result<Self, OpenError> {
        let file = data_dir.join(FILE);
        let not_writable = |error: io::Error| OpenError::not_writable(&file, &error);
        let here = DataLocation::of(data_dir).map_err(not_writable)?;
        let recorded = load(&file)?;
        let (mut identity, arrival) = match recorded.clone() {
            None => {
                (Identity::first(data_dir, here.clone()).map_err(|error| not_writable(error.into()))?, Arrival::Same)
            }
            Some(recorded) => {
                let arrival = arrive(&recorded.place, &here, || look_at(&recorded));
                (recorded.arrived(arrival, here.clone()).map_err(|error| not_writable(error.into()))?, arrival)
            }
        };
        identity.remember(std::path::absolute(data_dir).ok().map(|path| ByteString(path.into_os_string().into_vec())));
        identity.remember(Some(here.path));
        if recorded.as_ref() != Some(&identity) {
            save(&file, &identity).map_err(not_writable)?;
        }
        let relocation = Relocation::new(&identity.former, &identity.place.path);
        let has_taken = AtomicBool::new(identity.copy_of.as_ref().is_some_and(|copy| copy.took_workspaces));
        Ok(Self { identity, has_taken, arrival, relocation })
    }

    /// The name under which its processes are found.
    pub fn id(&self) -> &str {
        &self.identity.id
    }

    /// How it came to be here.
    pub fn arrival(&self) -> Arrival {
        self.arrival
    }

    /// The original, as long as directories outside of the copy belong to it.
    pub fn yields_to(&self) -> Option<&CopyOf> {
        self.identity.copy_of.as_ref().filter(|_| !self.has_taken.load(Ordering::Relaxed))
    }

    /// What is wrong if the directory was removed or replaced while it is in use.
    pub fn problem(&self) -> Option<String> {
        let DataLocation { path: here, device, inode, .. } = &self.identity.place;
        let reason = match fs::symlink_metadata(here.as_path()) {
            Ok(about) if (about.dev(), about.ino()) == (*device, *inode) => return None,
            Ok(_) => "it was replaced by another directory".to_owned(),
            Err(error) => error.to_string(),
        };
        Some(format!(
            "the data directory {} is gone ({reason}): nothing new is stored. Stop the daemon, put the directory back \
                or restore a backup, and start it again",
            here.to_text()
        ))
    }

    /// Rewrites paths of its former locations.
    pub fn relocation(&self) -> &Relocation {
        &self.relocation
    }

    /// Assigns the directories outside of the copy to the copy.
    pub fn take_workspaces(&self) -> io::Result<()> {
        let mut identity = self.identity.clone();
        let Some(copy) = &mut identity.copy_of else { return Ok(()) };
        copy.took_workspaces = true;
        save(&self.identity.place.path.as_path().join(FILE), &identity)?;
        self.has_taken.store(true, Ordering::Relaxed);
        Ok(())
    }
}

/// The name under which the processes of a data directory's daemons are found; made from its path for one that has no
/// identity yet.
pub fn instance(data_dir: &Path) -> String {
    let id = load(&data_dir.join(FILE)).ok().flatten().map(|identity| identity.id);
    format!("shellkeep-{}", id.unwrap_or_else(|| id_of_path(data_dir)))
}

/// The name that daemons of earlier versions used.
fn id_of_path(data_dir: &Path) -> String {
    use std::hash::{DefaultHasher, Hash as _, Hasher as _};
    let path = fs::canonicalize(data_dir).unwrap_or_else(|_| data_dir.to_owned());
    // The hasher's keys are fixed, so the same directory always has the same name.
    let mut hasher = DefaultHasher::new();
    path.as_os_str().as_bytes().hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

fn new_id() -> rustix::io::Result<String> {
    let mut bytes = [0; 8];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    Ok(format!("{:016x}", u64::from_be_bytes(bytes)))
}

impl DataLocation {
    fn of(data_dir: &Path) -> io::Result<Self> {
        let path = fs::canonicalize(data_dir)?;
        let about = fs::metadata(&path)?;
        let boot_id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned();
        Ok(Self {
            path: ByteString(path.into_os_string().into_vec()),
            device: about.dev(),
            inode: about.ino(),
            boot_id,
        })
    }
}

impl Identity {
    /// For a directory that has none: a new one, or one of an earlier version, whose processes have the name of its path.
    fn first(data_dir: &Path, place: DataLocation) -> rustix::io::Result<Self> {
        let is_old = data_dir.join("journal").is_dir();
        let id = if is_old { id_of_path(data_dir) } else { new_id()? };
        let lineage = id.clone();
        Ok(Self { format: FORMAT, id, lineage, place, former: Vec::new(), copy_of: None })
    }

    fn arrived(mut self, arrival: Arrival, here: DataLocation) -> rustix::io::Result<Self> {
        if arrival != Arrival::Same {
            self.id = new_id()?;
        }
        if arrival == Arrival::Copied {
            let original = self.place.path.clone();
            self.copy_of = Some(CopyOf { path: original, since: Timestamp::now(), took_workspaces: false });
        }
        self.place = here;
        Ok(self)
    }

    fn remember(&mut self, path: Option<ByteString>) {
        let Some(path) = path.filter(|path| !self.former.contains(path)) else { return };
        self.former.push(path);
        let surplus = self.former.len().saturating_sub(MAX_FORMER);
        self.former.drain(..surplus);
    }
}

/// How a directory got from one location to another.
fn arrive(was: &DataLocation, is: &DataLocation, original: impl FnOnce() -> Original) -> Arrival {
    let same_path = was.path == is.path;
    let same_boot = was.boot_id == is.boot_id;
    match (same_path, was.inode == is.inode && (same_path || was.device == is.device)) {
        // A file system that was mounted again may have another number.
        (true, true) => Arrival::Same,
        // Nothing of the last boot is running, and its process ids mean nothing now.
        (true, false) if !same_boot => Arrival::Same,
        // Put in the place of the original, which is gone.
        (true, false) => Arrival::Moved,
        (false, is_same) => match (original(), is_same && same_boot) {
            (Original::Gone, true) => Arrival::Same,
            (Original::Gone, false) => Arrival::Moved,
            (Original::There | Original::Unknown, _) => Arrival::Copied,
        },
    }
}

fn look_at(recorded: &Identity) -> Original {
    let original = recorded.place.path.as_path();
    match fs::symlink_metadata(original) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Original::Gone,
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => return Original::Gone,
        Err(_) => return Original::Unknown,
        Ok(_) => {}
    }
    match load(&original.join(FILE)) {
        Ok(None) => Original::Gone,
        Ok(Some(found)) if found.lineage == recorded.lineage => Original::There,
        Ok(Some(_)) => Original::Gone,
        Err(_) => Original::Unknown,
    }
}

fn load(file: &Path) -> Result<Option<Identity>, OpenError> {
    sealed::read_format(file, FORMAT, MAX_BYTES)
}

/// The file is written atomically.
fn save(file: &Path, identity: &Identity) -> io::Result<()> {
    sealed::write(file, identity, Survives::Power)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(path: &str, device: u64, inode: u64, boot: &str) -> DataLocation {
        DataLocation { path: path.into(), device, inode, boot_id: boot.to_owned() }
    }

    #[test]
    fn what_became_of_a_directory_is_told_by_its_path_inode_and_original() {
        let was = place("/a", 1, 2, "x");
        let cases = [
            ("the same", place("/a", 1, 2, "x"), Original::There, Arrival::Same),
            ("after a boot", place("/a", 7, 8, "y"), Original::There, Arrival::Same),
            ("mounted again", place("/a", 7, 2, "x"), Original::There, Arrival::Same),
            ("put in its place", place("/a", 1, 9, "x"), Original::There, Arrival::Moved),
            ("renamed", place("/b", 1, 2, "x"), Original::Gone, Arrival::Same),
            ("renamed, and another put in its place", place("/b", 1, 2, "x"), Original::There, Arrival::Copied),
            ("moved to another file system", place("/b", 5, 6, "x"), Original::Gone, Arrival::Moved),
            ("restored on another machine", place("/b", 1, 2, "y"), Original::Gone, Arrival::Moved),
            ("copied", place("/b", 1, 3, "x"), Original::There, Arrival::Copied),
            ("copied, then booted", place("/b", 1, 3, "y"), Original::There, Arrival::Copied),
            ("copied from a place that nobody may see", place("/b", 1, 3, "x"), Original::Unknown, Arrival::Copied),
        ];
        for (what, is, original, arrival) in cases {
            assert_eq!(arrive(&was, &is, || original), arrival, "{what}");
        }
    }

    fn copy(from: &Path, to: &Path) {
        fs::create_dir(to).unwrap();
        fs::copy(from.join(FILE), to.join(FILE)).unwrap();
    }

    #[test]
    fn a_copy_has_a_name_of_its_own_and_a_renamed_one_keeps_its() {
        let home = tempfile::tempdir().unwrap();
        let [a, b, c] = ["a", "b", "c"].map(|name| home.path().join(name));
        fs::create_dir(&a).unwrap();
        let first = Home::settle(&a).unwrap();
        assert_eq!((first.arrival(), Home::settle(&a).unwrap().id()), (Arrival::Same, first.id()));
        copy(&a, &b);
        let copied = Home::settle(&b).unwrap();
        assert_eq!(copied.arrival(), Arrival::Copied);
        assert_ne!(copied.id(), first.id());
        let told = copied.yields_to().unwrap();
        assert_eq!((&told.path, told.took_workspaces), (&first.identity.place.path, false));
        copied.take_workspaces().unwrap();
        // Once decided, it stays so; the original is not asked again.
        let again = Home::settle(&b).unwrap();
        assert_eq!((again.arrival(), again.id()), (Arrival::Same, copied.id()));
        assert!(again.yields_to().is_none() && copied.yields_to().is_none());
        assert_eq!(Home::settle(&a).unwrap().id(), first.id());
        fs::rename(&a, &c).unwrap();
        // Someone began anew where it was.
        fs::create_dir(&a).unwrap();
        assert_ne!(Home::settle(&a).unwrap().id(), first.id());
        let renamed = Home::settle(&c).unwrap();
        assert_eq!((renamed.arrival(), renamed.id()), (Arrival::Same, first.id()));
        // The original is gone from where it was: a copy of it is its successor, with its own processes.
        let d = home.path().join("d");
        copy(&c, &d);
        fs::remove_dir_all(&c).unwrap();
        let moved = Home::settle(&d).unwrap();
        assert_eq!((moved.arrival(), moved.yields_to()), (Arrival::Moved, None));
        assert_ne!(moved.id(), first.id());
        let mut old = ByteString::from(a.canonicalize().unwrap_or(a).to_str().unwrap());
        moved.relocation().path(&mut old);
        assert_eq!(old, d.canonicalize().unwrap().to_str().unwrap().into());
    }

    #[test]
    fn what_cannot_be_read_is_refused() {
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join(FILE), "{").unwrap();
        assert!(matches!(Home::settle(home.path()), Err(OpenError::Corrupt { .. })));
        fs::write(home.path().join(FILE), r#"{"format": 2}"#).unwrap();
        assert!(matches!(Home::settle(home.path()), Err(OpenError::NewerFormat { .. })));
    }
}
