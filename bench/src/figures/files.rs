//! What is kept of files: what it costs a command that changes nothing, one changed file, a fork, a rewind, and how
//! that grows with the tree. Beside git and `cp -r` on equal trees of the same file system.

mod disk;
mod git;
mod stage;
mod tree;

use crate::fallible::Fallible;
use crate::files::Point;
use crate::report::{Report, Row, Target};
use crate::setup::Setup;
use crate::stats::digits;
use stage::Stage;
use tempfile::TempDir;

/// What a command that changes nothing may add to the next answer, in seconds.
const UNCHANGED: f64 = 1e-3;
/// One changed file in a large tree, against git.
const CHANGED: Target = Target::RatioAtMost(0.1);
/// See [`CHANGED`]; where a tree is small, git's time is that of starting it.
const LARGE: usize = 50_000;
/// Fork and first command, against `cp -r`, in a tree of [`FORKED`] files.
const FORK: Target = Target::RatioAtMost(0.333);
/// See [`FORK`].
const FORKED: usize = 10_000;
/// Turns of copying a tree that is larger than that; it takes seconds.
const LARGE_FORKS: usize = 3;
/// Files that a large rewind brings back.
const MANY_REWOUND: usize = 1_000;
/// Turns of it.
const REWINDS: usize = 5;

pub fn measure(setup: &Setup, report: &mut Report) -> Fallible<()> {
    report.note(format!("Files: {}, everything in one directory for temporary files.", git::version()));
    let largest = setup.effort.trees.iter().max().copied();
    for &files in setup.effort.trees {
        let (point, trees) = point(setup, files, largest == Some(files))?;
        report.leftovers.push(trees);
        for row in rows(&point, largest == Some(files)) {
            report.row(row);
        }
        eprintln!("  a tree of {files} files");
        report.files.push(point);
    }
    disk::measure(setup, report)
}

fn point(setup: &Setup, files: usize, is_largest: bool) -> Fallible<(Point, TempDir)> {
    let stage = Stage::make(setup, files)?;
    let effort = &setup.effort;
    let mut point = Point::new(files, stage.bytes);
    point.first = stage.first()?;
    point.unchanged = stage.unchanged(effort.rounds, effort.commands)?;
    point.git_unchanged = stage.git_unchanged(effort.tree_rounds)?;
    point.changed = stage.changed(effort.tree_rounds)?;
    let rounds = if files > FORKED { LARGE_FORKS.min(effort.tree_rounds) } else { effort.tree_rounds };
    [point.filled, point.copied, point.forked, point.forked_twice] = stage.forked(rounds)?;
    // After the forks: a rewind gives inodes back, see there.
    if is_largest {
        point.rewound_one = stage.rewound(1, REWINDS)?;
        point.many = MANY_REWOUND.min(files);
        point.rewound_many = stage.rewound(point.many, REWINDS)?;
    }
    Ok((point, stage.leave()))
}

/// What the table of all figures shows of a size: the fork of one, everything else of the largest.
fn rows(point: &Point, is_largest: bool) -> Vec<Row> {
    let count = digits(point.files as f64);
    let fork = |what: &str, ours: f64, (floor, time): (&str, f64), target: Option<Target>| {
        Row::medians(format!("fork of a workspace of {count} files and {what}; floor: {floor}"), time, ours, target)
    };
    let mut rows = Vec::new();
    if point.files == FORKED {
        let (copied, filled) =
            (("`cp -r`", point.copied), ("making and writing them, on all processors", point.filled));
        rows.push(fork("first command in it", point.forked, copied, Some(FORK)));
        rows.push(fork("first command in it", point.forked, filled, None));
        rows.push(fork("first two commands in it", point.forked_twice, copied, None));
    }
    if !is_largest {
        return rows;
    }
    let target = (point.files >= LARGE).then_some(CHANGED);
    rows.extend([
        Row::added(
            format!("`true`, library, in a workspace of {count} files; floor: in one without files"),
            point.unchanged.floor,
            point.unchanged.ours,
            UNCHANGED,
        ),
        Row::medians(
            format!(
                "one of {count} files changed by a command, kept, and the next `true` answered; floor: `git add -A`, `git commit`"
            ),
            point.changed.floor,
            point.changed.ours,
            target,
        ),
        Row::medians(
            format!("first checkpoint of {count} files, once; floor: git's first `add -A` and `commit`"),
            point.first.floor,
            point.first.ours,
            None,
        ),
        Row::lone_time(format!("rewind of one changed file among {count}"), point.rewound_one),
        Row::lone_time(
            format!("rewind of {} changed files among {count}", digits(point.many as f64)),
            point.rewound_many,
        ),
    ]);
    rows
}
