//! Writes everything new beside the workspace, on the same file system, so that applying needs no room for bytes.

use super::intent::{self, Action, Expected, Intent, StageLocation, Task};
use super::place::Root;
use super::stage_directory::StageDirectory;
use super::{Item, KeptBack, PathChange, Plan, RestoreError};
use crate::deep::remove_all;
use crate::fault::{Faults, Point};
use crate::meta::MODE_BITS;
use crate::owner::Owner;
use crate::repo::Repo;
use crate::root;
use rustix::fs::{
    AtFlags, CWD, FallocateFlags, FileType, Mode, OFlags, StatxFlags, fallocate, mkdirat, statat, statx, symlinkat,
};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// What a new name may take in a directory, generously.
const BALLAST_PER_TASK: u64 = 512;
/// What a directory that grows takes at once, for a few of them.
const BALLAST_AT_LEAST: u64 = 256 << 10;
/// Up to this many files are synced one by one; with more it is cheaper to sync the file system.
const SYNCED_ALONE: usize = 64;
/// What the name of a stage in the workspace begins with; the name of `home` follows, which is the session's.
const IN_WORKSPACE: &str = ".shellkeep-stage-";
/// No one else's business while it is staged.
const PRIVATE: u32 = 0o700;
/// What the owner needs of a directory that is only on the way.
const ENTERED: u32 = 0o100;
/// statx reports the mount; rustix has no name for it.
const MOUNT: StatxFlags = StatxFlags::from_bits_retain(0x1000);

/// Everything is written and nothing is changed. Dropped without being applied, it is removed.
#[derive(Debug)]
pub struct Staged {
    pub(super) workspace: PathBuf,
    pub(super) home: PathBuf,
    pub(super) intent: Intent,
    pub(super) stage: StageDirectory,
    pub(super) is_kept: bool,
    /// What the plan kept back from the start.
    pub(super) kept_back: Vec<KeptBack>,
}

impl Drop for Staged {
    fn drop(&mut self) {
        if !self.is_kept {
            let _ = remove_all(&self.intent.place.path(&self.workspace, &self.home));
        }
    }
}

/// Writes what the plan needs. `repo` is the one that holds the new files; `home` is where the session's checkpoints are.
pub fn stage(repo: &Repo, workspace: &Path, home: &Path, plan: &Plan, faults: &Faults) -> Result<Staged, RestoreError> {
    if intent::load(home)?.is_some() {
        let error = io::Error::other("an earlier rewind is not complete; recover it first");
        return Err(RestoreError::Stage(error));
    }
    let owner = root::open(workspace, OFlags::PATH).and_then(Owner::of).map_err(RestoreError::Stage)?;
    drop_unfinished(workspace, home).map_err(RestoreError::Stage)?;
    let place = choose(workspace, home).map_err(RestoreError::Stage)?;
    let stage = StageDirectory::make(&place, workspace, home).map_err(RestoreError::Stage)?;
    let intent = Intent { note: Vec::new(), place, tasks: Vec::new() };
    let mut staged = Staged {
        workspace: workspace.to_owned(),
        home: home.to_owned(),
        intent,
        stage,
        is_kept: false,
        kept_back: plan.kept_back.clone(),
    };
    let mut stager = Stager { repo, stage: &staged.stage, owner, written: Vec::new() };
    // A workspace of another user's is not opened to others again, whatever it was before it was his.
    for step in plan.steps.iter().filter(|step| owner.is_none() || !step.path.is_empty()) {
        let number = staged.intent.tasks.len();
        staged.intent.tasks.push(stager.task(step, number)?);
        faults.check(Point::Staged).map_err(RestoreError::Stage)?;
    }
    let root = Root::open(workspace).map_err(RestoreError::Stage)?;
    let loosened = loosened(&root, plan).into_iter();
    let loosen = |(path, bits): (&[u8], u32)| Task { path: path.to_vec(), action: Action::Loosen { bits } };
    staged.intent.tasks.extend(loosened.map(loosen));
    stager.end(staged.intent.tasks.len()).map_err(RestoreError::Stage)?;
    Ok(staged)
}

/// Removes a stage whose intent was never written.
pub(super) fn drop_unfinished(workspace: &Path, home: &Path) -> io::Result<()> {
    intent::remove(home)?;
    let is_real = root::open(workspace, OFlags::PATH).is_ok();
    for place in [Some(StageLocation::Home), is_real.then(|| in_workspace(home))].into_iter().flatten() {
        match remove_all(&place.path(workspace, home)) {
            Err(error) if !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                // A workspace that nobody may enter is no rewind that was interrupted. If a stage is in it, making the next
                // one says so.
                let is_closed = error.kind() == io::ErrorKind::PermissionDenied;
                if place == StageLocation::Home || !is_closed {
                    return Err(error);
                }
            }
            _ => {}
        }
    }
    Ok(())
}

fn in_workspace(home: &Path) -> StageLocation {
    let name = home.file_name().map(OsStr::to_string_lossy).unwrap_or_default();
    StageLocation::Workspace { name: format!("{IN_WORKSPACE}{name}") }
}

/// The checkpoints' directory if a file can be renamed from there into the workspace.
fn choose(workspace: &Path, home: &Path) -> io::Result<StageLocation> {
    fs::create_dir_all(home)?;
    let mount = |path: &Path| {
        let about = statx(CWD, path, AtFlags::empty(), StatxFlags::BASIC_STATS | MOUNT)?;
        let mount = (about.stx_mask & MOUNT.bits() != 0).then_some(about.stx_mnt_id);
        Ok::<_, io::Error>((about.stx_dev_major, about.stx_dev_minor, mount))
    };
    Ok(if mount(workspace)? == mount(home)? { StageLocation::Home } else { in_workspace(home) })
}

struct Stager<'a> {
    repo: &'a Repo,
    stage: &'a StageDirectory,
    /// Whom it is given to. Nobody reaches it before it is in its place.
    owner: Option<Owner>,
    /// The first ones, to be synced.
    written: Vec<File>,
}

impl Stager<'_> {
    fn task(&mut self, step: &PathChange, number: usize) -> Result<Task, RestoreError> {
        let action = match (&step.old, &step.new) {
            (Some(old), Some(new)) if old.is_same_but_bits(new) => Action::Mode { from: old.bits, to: new.bits },
            (Some(old), None) if old.is_directory() => Action::RemoveDirectory,
            (Some(old), None) => Action::TakeOut { old: expected(old) },
            (None, Some(new)) if new.is_directory() => {
                Action::PlaceDirectory { inode: self.write(new, number)?, bits: new.bits }
            }
            (None, Some(new)) => Action::Place { inode: self.write(new, number)? },
            (Some(old), Some(new)) if !old.is_directory() && !new.is_directory() => {
                Action::Exchange { inode: self.write(new, number)?, old: expected(old) }
            }
            _ => return Err(RestoreError::Stage(io::ErrorKind::InvalidInput.into())),
        };
        Ok(Task { path: step.path.clone(), action })
    }

    /// Writes one and gives its inode, by which it is known again after a crash.
    fn write(&mut self, item: &Item, number: usize) -> Result<u64, RestoreError> {
        let (place, name) = (&self.stage.new, number.to_string());
        let failed = |error: Errno| RestoreError::Stage(error.into());
        if item.is_directory() {
            mkdirat(place, &name, Mode::from_raw_mode(PRIVATE)).map_err(failed)?;
        } else if item.is_link() {
            let text = self.repo.objects.read_blob(item.id, None)?;
            symlinkat(OsStr::from_bytes(&text), place, &name).map_err(failed)?;
        } else {
            let mut file = self.stage.new_file(&name).map_err(RestoreError::Stage)?;
            match &item.bytes {
                Some(bytes) => file.write_all(bytes).map_err(RestoreError::Stage)?,
                None => self.copy(item, &mut file)?,
            }
            file.set_permissions(Permissions::from_mode(item.bits & MODE_BITS)).map_err(RestoreError::Stage)?;
            // The kernel stamps files with the time of its last tick. `make` must see a restored file as newer than what
            // was built from the one it replaces, also if that happened in the same tick.
            file.set_modified(SystemTime::now()).map_err(RestoreError::Stage)?;
            if self.written.len() <= SYNCED_ALONE {
                self.written.push(file);
            }
        }
        self.owner.map_or(Ok(()), |owner| owner.take_at(place, &name)).map_err(failed)?;
        Ok(statat(place, &name, AtFlags::SYMLINK_NOFOLLOW).map_err(failed)?.st_ino)
    }

    fn copy(&self, item: &Item, file: &mut File) -> Result<(), RestoreError> {
        // The repository says of an error in writing that it was its own; here it is the stage's.
        let mut told = Told { file, error: None };
        match (self.repo.objects.copy_blob(item.id, &mut told), told.error) {
            (Err(_), Some(error)) => Err(RestoreError::Stage(error)),
            (result, _) => Ok(result.map(drop)?),
        }
    }

    /// Sees to it that all is on the disk, and that there is room for the directories to grow.
    fn end(&self, tasks: usize) -> io::Result<()> {
        let ballast = self.stage.ballast()?;
        let room = BALLAST_AT_LEAST.min(tasks as u64 * BALLAST_AT_LEAST) + tasks as u64 * BALLAST_PER_TASK;
        match fallocate(&ballast, FallocateFlags::empty(), 0, room) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) | Ok(()) => {}
            Err(error) => return Err(error.into()),
        }
        if self.written.len() > SYNCED_ALONE {
            return self.stage.sync_all();
        }
        self.written.iter().try_for_each(File::sync_all)
    }
}

/// Remembers what the file system said.
struct Told<'a> {
    file: &'a mut File,
    error: Option<io::Error>,
}

impl io::Write for Told<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes).map_err(|error| {
            let kind = error.kind();
            self.error = Some(error);
            kind.into()
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn expected(item: &Item) -> Expected {
    Expected { is_link: item.is_link(), bits: item.bits, id: item.id }
}

/// Directories that a plan needs opened, with their permissions: those whose entries change, and those on the way there.
pub(super) fn loosened<'a>(root: &Root, plan: &'a Plan) -> Vec<(&'a [u8], u32)> {
    let mut needed: BTreeMap<&[u8], u32> = BTreeMap::new();
    for step in &plan.steps {
        let is_mode = matches!((&step.old, &step.new), (Some(old), Some(new)) if old.is_same_but_bits(new));
        let (mut path, mut need) = (step.path.as_slice(), if is_mode { ENTERED } else { PRIVATE });
        while !path.is_empty() {
            path = above(path);
            let known = needed.entry(path).or_default();
            if *known & need == need {
                break;
            }
            *known |= need;
            need = ENTERED;
        }
    }
    let forbids = |(path, need): (&'a [u8], u32)| {
        let stat = root.stat(path).ok()?;
        let (is_directory, bits) =
            (FileType::from_raw_mode(stat.st_mode) == FileType::Directory, stat.st_mode & MODE_BITS);
        (is_directory && bits & need != need).then_some((path, bits))
    };
    needed.into_iter().filter_map(forbids).collect()
}

pub(super) fn above(path: &[u8]) -> &[u8] {
    path.iter().rposition(|byte| *byte == b'/').map_or(b"", |slash| &path[..slash])
}
