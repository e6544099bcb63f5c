//! Carries out an intent: renames, removals, permissions. Each action looks at what is there and can be repeated, so
//! after a crash all of them are simply done again.

use super::intent::{self, Action, Expected, Intent, Task};
use super::place::{Root, Spot};
use super::stage::Staged;
use super::stage_directory::StageDirectory;
use super::{KeptBack, RestoreError};
use crate::deep::remove_all;
use crate::fault::{Faults, Point};
use crate::meta::MODE_BITS;
use rustix::fs::{AtFlags, FileType, syncfs, unlinkat};
use rustix::io::Errno;
use std::collections::HashSet;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// What the owner must be allowed to do with a directory whose entries change.
const LOOSE: u32 = 0o700;
/// A file is not replaced so often in a row at just the wrong moments.
const ATTEMPTS: usize = 1000;
const CHANGED: &str = "it was changed after the last checkpoint";
const OCCUPIED: &str = "something that checkpoints do not save is in its place";
const ASIDE: &str = "it changed at that moment, and is there under a name that ends with shellkeep-kept and a number";

/// What was done. The intent stays until [`Applied::finish`], so that the caller can first write down that it happened;
/// after a crash before that, [`super::recover`] gives the note again.
#[derive(Debug)]
#[must_use = "the restore is repeated after a restart until it is finished"]
pub struct Applied {
    /// What is not as planned.
    pub kept_back: Vec<KeptBack>,
    /// Files, links and directories that were put in place.
    pub placed: u64,
    /// Those that were removed.
    pub removed: u64,
    home: PathBuf,
    stage: PathBuf,
}

impl Applied {
    /// Removes the intent and what is left of the stage.
    pub fn finish(self) -> io::Result<()> {
        // In this order: a stage without an intent is dropped, an intent without a stage would be carried out.
        intent::remove(&self.home)?;
        remove_all(&self.stage)
    }
}

/// Changes the workspace. `note` is the caller's own and comes back from [`super::recover`] after a crash. After an
/// error the intent stays: call `recover` when the cause is gone.
pub fn apply(mut staged: Staged, note: &[u8], faults: &Faults) -> Result<Applied, RestoreError> {
    staged.intent.note = note.to_vec();
    intent::save(&staged.home, &staged.intent).map_err(|error| {
        let _ = intent::remove(&staged.home);
        RestoreError::Stage(error)
    })?;
    staged.is_kept = true;
    let intent = staged.intent.clone();
    let mut applied = carry_out(&staged.workspace, &staged.home, intent, &staged.stage, faults)?;
    applied.kept_back.append(&mut staged.kept_back);
    Ok(applied)
}

pub(super) fn carry_out(
    workspace: &Path,
    home: &Path,
    intent: Intent,
    stage: &StageDirectory,
    faults: &Faults,
) -> Result<Applied, RestoreError> {
    stage.free_ballast();
    let mut applier = Applier::new(workspace, stage, &intent.tasks, faults).map_err(RestoreError::Apply)?;
    applier.run(&intent.tasks).map_err(RestoreError::Apply)?;
    keep_order(workspace, home).map_err(RestoreError::Apply)?;
    let Applier { kept_back, placed, removed, .. } = applier;
    let stage = intent.place.path(workspace, home);
    Ok(Applied { kept_back, placed, removed, home: home.to_owned(), stage })
}

/// On one file system the renames are on the disk before the removal of the intent is; on two only if we see to it.
fn keep_order(workspace: &Path, home: &Path) -> io::Result<()> {
    if fs::metadata(workspace)?.dev() != fs::metadata(home)?.dev() {
        syncfs(File::open(workspace)?)?;
    }
    Ok(())
}

/// The order of a restore: each phase makes room for the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Loosen,
    TakeOut,
    RemoveDirectories,
    PlaceDirectories,
    PlaceFiles,
    SetPermissions,
}

impl Phase {
    const ALL: [Self; 6] = [
        Self::Loosen,
        Self::TakeOut,
        Self::RemoveDirectories,
        Self::PlaceDirectories,
        Self::PlaceFiles,
        Self::SetPermissions,
    ];

    /// The phases in which there is something to do for an action.
    fn of(action: &Action) -> &'static [Self] {
        match action {
            Action::Loosen { .. } => &[Self::Loosen, Self::SetPermissions],
            Action::TakeOut { .. } => &[Self::TakeOut],
            Action::RemoveDirectory => &[Self::RemoveDirectories],
            Action::PlaceDirectory { .. } => &[Self::PlaceDirectories, Self::SetPermissions],
            Action::Place { .. } | Action::Exchange { .. } => &[Self::PlaceFiles],
            Action::Mode { .. } => &[Self::SetPermissions],
        }
    }

    /// Whether it goes from the deepest path up; the others go from the top down.
    fn goes_up(self) -> bool {
        matches!(self, Self::RemoveDirectories | Self::SetPermissions)
    }
}

struct Applier<'a> {
    root: Root,
    stage: &'a StageDirectory,
    /// Paths that become directories.
    directories: HashSet<&'a [u8]>,
    /// Paths whose permissions are set in the end.
    modes: HashSet<&'a [u8]>,
    faults: &'a Faults,
    kept_back: Vec<KeptBack>,
    placed: u64,
    removed: u64,
}

/// What an action came to, beside errors that end everything.
enum Outcome {
    Done,
    Placed,
    Removed,
    Kept(&'static str),
}

impl<'a> Applier<'a> {
    fn new(workspace: &Path, stage: &'a StageDirectory, tasks: &'a [Task], faults: &'a Faults) -> io::Result<Self> {
        let paths =
            |is: fn(&Action) -> bool| tasks.iter().filter(move |task| is(&task.action)).map(|task| &task.path[..]);
        Ok(Self {
            root: Root::open(workspace)?,
            stage,
            directories: paths(|action| matches!(action, Action::PlaceDirectory { .. })).collect(),
            modes: paths(|action| matches!(action, Action::Mode { .. })).collect(),
            faults,
            kept_back: Vec::new(),
            placed: 0,
            removed: 0,
        })
    }

    fn run(&mut self, tasks: &[Task]) -> io::Result<()> {
        for phase in Phase::ALL {
            let mut some: Vec<_> =
                tasks.iter().enumerate().filter(|(_, task)| Phase::of(&task.action).contains(&phase)).collect();
            if phase.goes_up() {
                some.sort_by(|one, other| other.1.path.cmp(&one.1.path));
            }
            for (number, task) in some {
                self.faults.check(Point::Applying)?;
                let result = match phase {
                    Phase::SetPermissions => self.set_bits(task),
                    _ => self.act(number, task),
                };
                self.note(task, result)?;
            }
        }
        Ok(())
    }

    fn note(&mut self, task: &Task, result: Result<Outcome, Errno>) -> io::Result<()> {
        let reason = match result {
            Ok(Outcome::Done) => return Ok(()),
            Ok(Outcome::Placed) => {
                self.placed += 1;
                return Ok(());
            }
            Ok(Outcome::Removed) => {
                self.removed += 1;
                return Ok(());
            }
            Ok(Outcome::Kept(reason)) => reason,
            Err(error) => refusal(error).ok_or(error)?,
        };
        self.kept_back.push(KeptBack { path: task.path.clone(), reason });
        Ok(())
    }

    fn act(&self, number: usize, task: &Task) -> Result<Outcome, Errno> {
        match &task.action {
            // After a crash it may be gone already.
            Action::Loosen { bits } => {
                quiet(self.root.set_bits(&task.path, bits | LOOSE, |stat| stat.st_mode & MODE_BITS == *bits))
            }
            Action::TakeOut { old } => self.take_out(number, &task.path, old),
            Action::RemoveDirectory => self.remove_directory(&task.path),
            Action::Place { inode } => self.place(number, &task.path, *inode),
            Action::PlaceDirectory { inode, .. } => match self.place(number, &task.path, *inode)? {
                // One that is there already will do, with what is in it.
                Outcome::Kept(_) if is_directory(&self.root.spot(&task.path)?)? => Ok(Outcome::Done),
                other => Ok(other),
            },
            Action::Exchange { inode, old } => self.exchange(number, &task.path, *inode, old),
            Action::Mode { .. } => Ok(Outcome::Done),
        }
    }

    fn take_out(&self, number: usize, path: &[u8], old: &Expected) -> Result<Outcome, Errno> {
        let taken = Spot::new(&self.stage.old, &number.to_string())?;
        let is_taken = taken.stat().is_ok();
        let spot = match self.root.spot(path) {
            // Its directory is gone, and it with it.
            Err(Errno::NOENT) if !is_taken => return Ok(Outcome::Done),
            // Before a crash it was taken out, and its directory removed.
            Err(Errno::NOENT | Errno::NOTDIR) if is_taken && taken.is(old)? => return Ok(Outcome::Removed),
            Err(Errno::NOENT | Errno::NOTDIR) if is_taken => {
                return self.put_aside(&taken, self.root.spot(last(path))?);
            }
            other => other?,
        };
        if !is_taken {
            match spot.is(old) {
                Ok(true) => spot.move_to(&taken)?,
                Ok(false) if self.directories.contains(path) && is_directory(&spot)? => return Ok(Outcome::Done),
                Ok(false) => return Ok(Outcome::Kept(CHANGED)),
                Err(Errno::NOENT) => return Ok(Outcome::Done),
                Err(error) => return Err(error),
            }
        }
        if taken.is(old)? {
            return Ok(Outcome::Removed);
        }
        match taken.move_to(&spot) {
            Err(Errno::EXIST) => self.put_aside(&taken, spot),
            other => other.map(|()| Outcome::Kept(CHANGED)),
        }
    }

    /// Both what was taken out and what came in its place are the user's. Without a place it goes to the top.
    fn put_aside(&self, taken: &Spot, mut spot: Spot) -> Result<Outcome, Errno> {
        let inode = taken.stat()?.st_ino;
        spot.name.extend_from_slice(format!(".shellkeep-kept-{inode}").as_bytes());
        taken.move_to(&spot)?;
        Ok(Outcome::Kept(ASIDE))
    }

    fn remove_directory(&self, path: &[u8]) -> Result<Outcome, Errno> {
        let spot = match self.root.spot(path) {
            Err(Errno::NOENT | Errno::NOTDIR) => return Ok(Outcome::Done),
            other => other?,
        };
        match unlinkat(&spot.directory, spot.name.as_slice(), AtFlags::REMOVEDIR) {
            Ok(()) => Ok(Outcome::Removed),
            // Gone, or a file is in its place already.
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(Outcome::Done),
            Err(Errno::NOTEMPTY | Errno::EXIST) => {
                Ok(Outcome::Kept("the directory contains files that checkpoints do not save"))
            }
            Err(error) => Err(error),
        }
    }

    fn place(&self, number: usize, path: &[u8], inode: u64) -> Result<Outcome, Errno> {
        let staged = Spot::new(&self.stage.new, &number.to_string())?;
        match staged.stat() {
            Ok(stat) if stat.st_ino == inode => {}
            // It was put in its place before the crash.
            Ok(_) | Err(Errno::NOENT) => return Ok(Outcome::Placed),
            Err(error) => return Err(error),
        }
        let spot = self.root.spot(path)?;
        match staged.move_to(&spot) {
            // In a directory that nobody could read, what was thought gone may still be there.
            Err(Errno::EXIST) if staged.is_like(&spot) == Ok(true) => Ok(Outcome::Done),
            Err(Errno::EXIST) => Ok(Outcome::Kept(OCCUPIED)),
            other => other.map(|()| Outcome::Placed),
        }
    }

    fn exchange(&self, number: usize, path: &[u8], inode: u64, old: &Expected) -> Result<Outcome, Errno> {
        let staged = Spot::new(&self.stage.new, &number.to_string())?;
        let spot = self.root.spot(path)?;
        match staged.stat() {
            Err(Errno::NOENT) => return Ok(Outcome::Placed),
            Ok(stat) if stat.st_ino == inode => {
                match spot.is(old) {
                    Ok(true) => {}
                    Ok(false) => return Ok(Outcome::Kept(CHANGED)),
                    // Deleted meanwhile, or taken out before a crash: nothing is lost by putting the new one there.
                    Err(Errno::NOENT) => return self.place(number, path, inode),
                    Err(error) => return Err(error),
                }
                match staged.swap(&spot) {
                    Ok(()) => {}
                    // A file system that cannot swap: nothing is there in between.
                    Err(Errno::INVAL | Errno::NOSYS) => {
                        return match self.take_out(number, path, old)? {
                            Outcome::Removed => self.place(number, path, inode),
                            other => Ok(other),
                        };
                    }
                    Err(error) => return Err(error),
                }
            }
            other => drop(other?),
        }
        // It may have been written to right before the swap.
        if staged.is(old)? {
            return Ok(Outcome::Placed);
        }
        give_back(&staged, &spot, inode)?;
        Ok(Outcome::Kept(CHANGED))
    }

    /// Permissions in the end, from the deepest up: what would forbid further changes is set last.
    fn set_bits(&self, task: &Task) -> Result<Outcome, Errno> {
        let bits_of = |mode: u32| mode & MODE_BITS;
        match task.action {
            Action::PlaceDirectory { inode, bits } => {
                quiet(self.root.set_bits(&task.path, bits, |stat| stat.st_ino == inode))
            }
            Action::Loosen { bits } if !self.modes.contains(&task.path[..]) => {
                quiet(self.root.set_bits(&task.path, bits, |stat| bits_of(stat.st_mode) == bits | LOOSE))
            }
            Action::Mode { from, to } => {
                let mut is_done = false;
                let was_set = self.root.set_bits(&task.path, to, |stat| {
                    let now = bits_of(stat.st_mode);
                    let is_directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
                    is_done = now == to;
                    now == from || is_directory && now == from | LOOSE
                })?;
                Ok(if was_set || is_done { Outcome::Done } else { Outcome::Kept(CHANGED) })
            }
            _ => Ok(Outcome::Done),
        }
    }
}

/// Puts what was swapped out back in its place, where `ours` is. If something newer was put there in the meantime, that is
/// given back in turn: the last one stays, as it would have without us.
fn give_back(staged: &Spot, spot: &Spot, ours: u64) -> Result<(), Errno> {
    let mut there = ours;
    for _ in 0..ATTEMPTS {
        let back = staged.stat()?.st_ino;
        match staged.swap(spot) {
            // Deleted at that moment.
            Err(Errno::NOENT) => return staged.move_to(spot),
            other => other?,
        }
        if staged.stat()?.st_ino == there {
            return Ok(());
        }
        there = back;
    }
    Err(Errno::BUSY)
}

/// For permissions of what was kept back, or is gone by now: that was said already, or it does not matter.
fn quiet(result: Result<bool, Errno>) -> Result<Outcome, Errno> {
    match result {
        Ok(_) | Err(Errno::NOENT | Errno::NOTDIR) => Ok(Outcome::Done),
        Err(error) => Err(error),
    }
}

fn last(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or(path)
}

fn is_directory(spot: &Spot) -> Result<bool, Errno> {
    Ok(FileType::from_raw_mode(spot.stat()?.st_mode) == FileType::Directory)
}

/// Why one path cannot be changed, where the others still can. Other errors end everything, to be tried again.
pub(super) fn refusal(error: Errno) -> Option<&'static str> {
    Some(match error {
        Errno::ACCESS | Errno::PERM | Errno::ROFS => "it may not be changed",
        Errno::NOENT | Errno::NOTDIR | Errno::LOOP => "its directory does not exist",
        Errno::XDEV => "it is on another file system",
        Errno::BUSY | Errno::TXTBSY => "it is in use",
        Errno::NAMETOOLONG => "its name is too long here",
        _ => return None,
    })
}
