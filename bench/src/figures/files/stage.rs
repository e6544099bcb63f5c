//! Two equal trees on one file system: one is a session's workspace, the other one git's.

use super::git::Git;
use super::tree;
use crate::fallible::Fallible;
use crate::library::{self, Library};
use crate::setup::Setup;
use crate::stats::{self, Pair, Rounds, Spread};
use shellkeep_runtime::{CheckpointView, Fork, Moment, Rewind};
use shellkeep_session::{Cause, SessionId};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const LIVE_SHELLS: usize = 8;
const SPARE_SHELLS: usize = 2;
/// Checkpoints that are looked through at once.
const PAGE: usize = 1000;

/// Both sides. The engine goes before its workspace does.
pub struct Stage {
    /// The engine, with everything at its default.
    pub library: Library,
    /// The session in the tree.
    pub session: SessionId,
    /// One with a workspace without files.
    empty: SessionId,
    /// The other side.
    pub git: Git,
    /// Files in each tree.
    pub files: usize,
    /// Bytes in them.
    pub bytes: u64,
    workspace: PathBuf,
    directory: TempDir,
}

impl Stage {
    /// Makes both trees; nothing of them is kept yet.
    pub fn make(setup: &Setup, files: usize) -> Fallible<Self> {
        let directory = tempfile::tempdir()?;
        let (workspace, other) = (directory.path().join("workspace"), directory.path().join("git"));
        let bytes = tree::write(&workspace, files)?;
        tree::write(&other, files)?;
        let git = Git::init(&other)?;
        let library = Library::start(&setup.bash, LIVE_SHELLS, SPARE_SHELLS)?;
        let (session, empty) = (library.create_in(&workspace)?, library.create()?);
        library.run(&empty, "true")?;
        tree::settle(directory.path())?;
        Ok(Self { library, session, empty, git, files, bytes, workspace, directory })
    }

    /// Git's first commit, and our first command: it is held until everything that is there is kept.
    pub fn first(&self) -> Fallible<Pair<f64>> {
        let start = Instant::now();
        self.library.run(&self.session, "true")?;
        let ours = start.elapsed();
        let kept = self.checkpoints(0)?;
        let whole = |view: &CheckpointView| {
            let checkpoint = &view.checkpoint;
            checkpoint.cause == Cause::Base && checkpoint.added == self.files as u64 && !checkpoint.overtaken
        };
        if kept.len() != 1 || !kept.iter().all(whole) {
            return Err(format!("the first checkpoint does not hold all files: {kept:?}").into());
        }
        tree::settle(self.directory.path())?;
        let theirs = self.git.commit()?;
        tree::settle(self.directory.path())?;
        Ok(Pair { floor: theirs.as_secs_f64(), ours: ours.as_secs_f64() })
    }

    /// `true` again and again, in turns: without files, and beside all of them.
    pub fn unchanged(&self, rounds: usize, commands: usize) -> Fallible<Pair<Spread>> {
        let (mut without, mut with) = (Rounds::default(), Rounds::default());
        let before = self.seq()?;
        for _ in 0..rounds {
            for (id, rounds) in [(&self.empty, &mut without), (&self.session, &mut with)] {
                rounds.turn(commands, |count| self.library.times(id, "true", "", count))?;
            }
        }
        match self.checkpoints(before)?.first() {
            None => Ok(Pair { floor: without.middle(), ours: with.middle() }),
            Some(view) => Err(format!("nothing changed, and yet: {view:?}").into()),
        }
    }

    /// What git takes to find that out.
    pub fn git_unchanged(&self, rounds: usize) -> Fallible<f64> {
        let times = (0..rounds).map(|_| self.git.commit_nothing());
        Ok(median(&times.collect::<Fallible<Vec<Duration>>>()?))
    }

    /// One file changes: git's `add` and `commit` alone; ours from before the command that changes it until the next
    /// command is answered. That one is held until the checkpoint is recorded, so nothing of it is outside of this.
    pub fn changed(&self, rounds: usize) -> Fallible<Pair<f64>> {
        let (mut theirs, mut ours) = (Vec::new(), Vec::new());
        let before = self.seq()?;
        for round in 0..rounds {
            let taken = self.change_one(round)?;
            theirs.push(taken.floor);
            ours.push(taken.ours);
        }
        self.each_kept(before, rounds)?;
        Ok(Pair { floor: median(&theirs), ours: median(&ours) })
    }

    /// Changes the same file on both sides and has it kept.
    pub fn change_one(&self, turn: usize) -> Fallible<Pair<Duration>> {
        let path = tree::path(tree::pick(turn, self.files));
        let line = format!("// turn {turn}");
        tree::append(&self.git.tree().join(&path), &line)?;
        let theirs = self.git.commit()?;
        let (id, command) = (self.session.clone(), format!("echo '{line}' >> {path}"));
        let ours = self.library.with(|engine| async move {
            let start = Instant::now();
            library::run(&engine, &id, &command).await?;
            library::run(&engine, &id, "true").await?;
            Ok(start.elapsed())
        })?;
        Ok(Pair { floor: theirs, ours })
    }

    /// A change that was not kept, or not in time, must not count as a quick one.
    pub fn each_kept(&self, after: u64, count: usize) -> Fallible<()> {
        let kept = self.checkpoints(after)?;
        let good = |view: &&CheckpointView| {
            let checkpoint = &view.checkpoint;
            (checkpoint.added, checkpoint.changed, checkpoint.deleted) == (0, 1, 0) && !checkpoint.overtaken
        };
        match kept.iter().filter(good).count() {
            good if good == count && kept.len() == count => Ok(()),
            good => Err(format!("of {count} changes {good} were kept as they should, in {}", kept.len()).into()),
        }
    }

    /// Only making and writing the files, `cp -r`, a fork until its first command is answered, and until its second is: that
    /// one is held until the fork's files have been looked at.
    ///
    /// Copies stay where they are until everything is measured: for minutes ext4 steps over each inode that was given
    /// back, one by one, and a copy made after another was removed takes many times as long.
    pub fn forked(&self, rounds: usize) -> Fallible<[f64; 4]> {
        let (mut filled, mut copies, mut firsts, mut seconds) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for round in 0..rounds {
            tree::settle(self.directory.path())?;
            filled.push(tree::fill(&self.directory.path().join(format!("filled-{round}")), self.files)?);
            tree::settle(self.directory.path())?;
            copies.push(self.copy(round)?);
            tree::settle(self.directory.path())?;
            let (first, second) = self.fork(round)?;
            firsts.push(first);
            seconds.push(second);
        }
        Ok([filled, copies, firsts, seconds].map(|times| median(&times)))
    }

    fn copy(&self, round: usize) -> Fallible<Duration> {
        let to = self.directory.path().join(format!("copy-{round}"));
        let mut command = Command::new("cp");
        command.arg("-r").arg(&self.workspace).arg(&to).stdin(Stdio::null());
        let start = Instant::now();
        let status = command.status()?;
        let elapsed = start.elapsed();
        if !status.success() || !to.join(tree::path(self.files - 1)).exists() {
            return Err(format!("cp -r failed: {status}").into());
        }
        Ok(elapsed)
    }

    fn fork(&self, round: usize) -> Fallible<(Duration, Duration)> {
        let id = self.session.clone();
        let (fork, first, second) = self.library.with(|engine| async move {
            let start = Instant::now();
            let fork = engine.files().fork(&id, Fork::default()).await?.session.meta.session_id;
            library::run(&engine, &fork, "true").await?;
            let first = start.elapsed();
            library::run(&engine, &fork, "true").await?;
            Ok((fork, first, start.elapsed()))
        })?;
        // In its own directory, and all of it.
        self.library.run(&fork, &format!("[[ -f {} ]]", tree::path(self.files - 1)))?;
        let own = self.library.data().join("workspaces").join(fork.as_str());
        std::fs::rename(own, self.directory.path().join(format!("fork-{round}")))?;
        self.library.destroy(&fork)?;
        Ok((first, second))
    }

    /// Changes `count` files with a command and takes that back.
    pub fn rewound(&self, count: usize, rounds: usize) -> Fallible<f64> {
        let mut times = Vec::new();
        for round in 0..rounds {
            let before = self.seq()?;
            self.library.run(&self.session, &tree::change_command(count, &format!("// rewound {round}")))?;
            // Answered when that is kept.
            self.library.run(&self.session, "true")?;
            let id = self.session.clone();
            let request = Rewind::to(Moment::Seq(before));
            let (rewound, elapsed) = self.library.with(|engine| async move {
                let start = Instant::now();
                let rewound = engine.files().rewind(&id, request).await?;
                Ok((rewound, start.elapsed()))
            })?;
            if rewound.files_total != count as u64 || !rewound.kept_back.is_empty() {
                return Err(format!("a rewind changed {} files, not {count}", rewound.files_total).into());
            }
            times.push(elapsed);
        }
        Ok(median(&times))
    }

    /// Ends the engine and leaves the trees, to be removed when nothing is measured any more.
    pub fn leave(self) -> TempDir {
        self.directory
    }

    /// Number of the session's last record.
    pub fn seq(&self) -> Fallible<u64> {
        let id = self.session.clone();
        self.library.with(|engine| async move { Ok(engine.get(&id).await?.seq) })
    }

    /// The session's checkpoints after a record.
    fn checkpoints(&self, mut after: u64) -> Fallible<Vec<CheckpointView>> {
        let id = self.session.clone();
        self.library.with(move |engine| async move {
            let mut all = Vec::new();
            loop {
                let page = engine.files().checkpoints(&id, after, PAGE).await?;
                all.extend(page.checkpoints);
                match page.next {
                    Some(next) => after = next,
                    None => return Ok(all),
                }
            }
        })
    }
}

fn median(times: &[Duration]) -> f64 {
    stats::median(times.iter().map(Duration::as_secs_f64).collect())
}
