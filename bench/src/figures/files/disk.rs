//! A long session of small changes: what a thousand checkpoints take of the disk.

use super::stage::Stage;
use super::tree;
use crate::fallible::Fallible;
use crate::report::{Report, Row};
use crate::setup::Setup;
use std::time::Duration;

/// Files in the tree.
const FILES: usize = 100;

pub fn measure(setup: &Setup, report: &mut Report) -> Fallible<()> {
    let stage = Stage::make(setup, FILES)?;
    stage.first()?;
    let (count, before) = (setup.effort.checkpoints, stage.seq()?);
    let (mut theirs, mut ours) = (Duration::ZERO, Duration::ZERO);
    for turn in 0..count {
        let taken = stage.change_one(turn)?;
        theirs += taken.floor;
        ours += taken.ours;
    }
    stage.each_kept(before, count)?;
    let what = |when: &str| {
        format!("disk of {count} checkpoints of one changed file among {FILES}, {when}; floor: git, as many commits")
    };
    let kept = stage.library.data().join("checkpoints").join(stage.session.as_str());
    let sizes = || Fallible::Ok((tree::disk(&stage.git.repository())?, tree::disk(&kept)?));
    let (git, own) = sizes()?;
    report.row(Row::rate(what("as they lie"), "KiB", git, own, None));
    stage.git.gather()?;
    let id = stage.session.clone();
    stage.library.with(|engine| async move {
        engine.hibernate(&id).await?;
        // What is tidied when a session goes to sleep is done before anything else is done with its files.
        match engine.files().checkpoint(&id).await? {
            None => Ok(()),
            Some(view) => Err(format!("nothing changed, and yet: {view:?}").into()),
        }
    })?;
    let (git, own) = sizes()?;
    report.row(Row::rate(what("when the session has slept, `git gc`"), "KiB", git, own, None));
    let each = |total: Duration| total.as_secs_f64() / count as f64;
    let what =
        format!("one changed file among {FILES}, on average of these {count}; floor: `git add -A`, `git commit`");
    report.row(Row::medians(what, each(theirs), each(ours), None));
    Ok(())
}
