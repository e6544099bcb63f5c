//! The directory that everything new is written to, held open from when it is made. In a workspace of somebody else's it is
//! still ours, and nobody else can enter it. Its owner can put something else in its place at any time; so its name is not
//! used again, except after a crash, and then what is found must be ours.

use super::intent::StageLocation;
use crate::deep::remove_all;
use crate::root;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, fstat, mkdirat, openat, unlinkat};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

/// What is staged, by the number of its task.
const NEW: &str = "new";
/// The same for what is taken out of the workspace.
const OLD: &str = "old";
/// Room for the directories' own growth while applying, freed right before.
const BALLAST: &str = "ballast";
/// What everybody but us could do with it.
const OTHERS: u32 = 0o077;
const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
const NEW_FILE: OFlags =
    OFlags::WRONLY.union(OFlags::CREATE).union(OFlags::EXCL).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// The directory of a stage.
#[derive(Debug)]
pub(super) struct StageDirectory {
    top: OwnedFd,
    /// What is staged, by the number of its task.
    pub new: OwnedFd,
    /// The same for what is taken out of the workspace.
    pub old: OwnedFd,
}

impl StageDirectory {
    /// Makes one where nothing is.
    pub fn make(place: &StageLocation, workspace: &Path, home: &Path) -> io::Result<Self> {
        let made = || {
            let above = above(place, workspace, home)?;
            mkdirat(&above, place.name(), Mode::RWXU)?;
            let top = enter(&above, place)?;
            for name in [NEW, OLD] {
                mkdirat(&top, name, Mode::RWXU)?;
            }
            Self::hold(top)
        };
        made().inspect_err(|_| drop(remove_all(&place.path(workspace, home))))
    }

    /// One that was left by a crash.
    pub fn open(place: &StageLocation, workspace: &Path, home: &Path) -> io::Result<Self> {
        Self::hold(enter(&above(place, workspace, home)?, place)?)
    }

    fn hold(top: OwnedFd) -> io::Result<Self> {
        let new = openat(&top, NEW, DIRECTORY, Mode::empty())?;
        let old = openat(&top, OLD, DIRECTORY, Mode::empty())?;
        Ok(Self { top, new, old })
    }

    /// A new file for what is staged, for us alone.
    pub fn new_file(&self, name: &str) -> io::Result<File> {
        Ok(File::from(openat(&self.new, name, NEW_FILE, Mode::RUSR | Mode::WUSR)?))
    }

    /// The file that holds room for applying.
    pub fn ballast(&self) -> io::Result<File> {
        Ok(File::from(openat(&self.top, BALLAST, NEW_FILE, Mode::RUSR | Mode::WUSR)?))
    }

    /// Frees that room.
    pub fn free_ballast(&self) {
        let _ = unlinkat(&self.top, BALLAST, AtFlags::empty());
    }

    /// Has everything on its file system written to the disk.
    pub fn sync_all(&self) -> io::Result<()> {
        Ok(rustix::fs::syncfs(&self.top)?)
    }
}

/// What the stage is in.
fn above(place: &StageLocation, workspace: &Path, home: &Path) -> io::Result<OwnedFd> {
    match place {
        // The way to the checkpoints is the host's, and may be a link.
        StageLocation::Home => {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            Ok(openat(CWD, home, flags, Mode::empty())?)
        }
        StageLocation::Workspace { .. } => root::open(workspace, OFlags::PATH),
    }
}

/// Opens the stage. In a workspace it must be ours, and ours alone.
fn enter(above: &OwnedFd, place: &StageLocation) -> io::Result<OwnedFd> {
    let top = openat(above, place.name(), DIRECTORY, Mode::empty())?;
    let found = fstat(&top)?;
    let is_ours = found.st_uid == rustix::process::geteuid().as_raw() && found.st_mode & OTHERS == 0;
    match place {
        StageLocation::Workspace { name } if !is_ours => {
            Err(io::Error::other(format!("something else was put in the place of {name} in the workspace; remove it")))
        }
        _ => Ok(top),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, chown, symlink};

    const NAME: &str = ".shellkeep-stage-s";

    #[test]
    fn what_is_put_in_its_place_is_not_written_to() {
        let temporary = tempfile::tempdir().unwrap();
        let temporary = temporary.path().canonicalize().unwrap();
        let at = |name: &str| temporary.join(name);
        for directory in ["workspace", "victim/new", "victim/old"] {
            fs::create_dir_all(at(directory)).unwrap();
        }
        let place = StageLocation::Workspace { name: NAME.to_owned() };
        let stage = StageDirectory::make(&place, &at("workspace"), &at("home")).unwrap();
        let named = at("workspace").join(NAME);
        fs::rename(&named, at("workspace/moved")).unwrap();
        symlink(at("victim"), &named).unwrap();
        stage.new_file("0").unwrap();
        stage.ballast().unwrap();
        assert!(at("workspace/moved/new/0").exists() && at("workspace/moved/ballast").exists());
        assert!(!at("victim/new/0").exists() && !at("victim/ballast").exists());
        let opened = || StageDirectory::open(&place, &at("workspace"), &at("home")).map(drop);
        assert!(opened().is_err(), "a link was followed");
        fs::remove_file(&named).unwrap();
        fs::rename(at("victim"), &named).unwrap();
        fs::set_permissions(&named, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(opened().is_err(), "others could enter it");
        fs::set_permissions(&named, fs::Permissions::from_mode(0o700)).unwrap();
        opened().unwrap();
        if rustix::process::geteuid().is_root() {
            chown(&named, Some(200_000), None).unwrap();
            assert!(opened().unwrap_err().to_string().contains("in the place of"));
        }
    }
}
