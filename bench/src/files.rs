//! What was measured at each size of a tree of files, and `docs/files.md` with its pictures.

use crate::curves::{Curve, Panel, Tone, panels};
use crate::sizes::{Line, NONE, number, ratio, seconds, table};
use crate::stats::{Pair, Spread, digits};
use std::fmt::Write;

/// What was measured with so many files. Times in seconds.
#[derive(Debug, Clone)]
pub struct Point {
    pub files: usize,
    /// Bytes in them.
    pub bytes: u64,
    /// Everything for the first time, against git.
    pub first: Pair<f64>,
    /// `true` in a session with these, against one without files.
    pub unchanged: Pair<Spread>,
    /// `git add -A` and `git commit` when nothing changed.
    pub git_unchanged: f64,
    /// One changed file, against git.
    pub changed: Pair<f64>,
    /// Making and writing the files, on all processors.
    pub filled: f64,
    /// `cp -r`.
    pub copied: f64,
    /// A fork and its first command.
    pub forked: f64,
    /// A fork and its first two commands.
    pub forked_twice: f64,
    /// A rewind of one changed file.
    pub rewound_one: f64,
    /// A rewind of [`many`](Self::many) changed files.
    pub rewound_many: f64,
    pub many: usize,
}

impl Point {
    /// Nothing measured yet.
    pub fn new(files: usize, bytes: u64) -> Self {
        let nothing = f64::NAN;
        Self {
            files,
            bytes,
            first: Pair { floor: nothing, ours: nothing },
            unchanged: Pair { floor: NONE, ours: NONE },
            git_unchanged: nothing,
            changed: Pair { floor: nothing, ours: nothing },
            filled: nothing,
            copied: nothing,
            forked: nothing,
            forked_twice: nothing,
            rewound_one: nothing,
            rewound_many: nothing,
            many: 0,
        }
    }

    fn added(&self) -> f64 {
        self.unchanged.ours.p50 - self.unchanged.floor.p50
    }
}

const INTRODUCTION: &str = "# Files: what checkpoints cost as the tree grows

Written by `make bench`; do not edit. Checkpoints and forks of workspaces of growing size, through the library with everything
at its default, beside real `git` and `cp` in the same run on the same file system, in turns. The targets are judged in
`bench.md`.

Every tree has a hundred files a directory, 1 to 4 KB of source text each. It is written twice, once as a session's workspace
and once for git. Everything is in the page cache.

";

const READING: &str = "
Reading it:

- *Nothing changed* is `true` repeated in a session that is awake, in turns with a session of the same engine whose
  workspace is empty. *Added* is the difference between the medians.
- *One changed file* is, for git, `git add -A` and `git commit -qm x` after the file was changed. Ours is more than the
  checkpoint: it begins before the command that changes the file is sent and ends when the next command, a `true`, is answered.
  That command waits until the checkpoint is recorded. The changing command's own answer does not wait for it.
- *First checkpoint* was taken once: the first command in a directory with files waits until all are saved.
- *Fork* ends when the first command in it is answered. Its files are scanned at the same time, and the second command waits until
  this is done; the second line shows that. `cp -r` and fork take turns; the disk is synced before each. No copy is removed before
  the end, and few files should have been deleted in the minutes before: ext4 does not reuse their inodes at once and checks
  each of them whenever a file is created, which makes both sides slow.
- *Only making and writing* is the same files from memory, nothing read, on a thread for each processor: the least that a copy
  costs where the file system cannot share bytes between files. No fork that copies can be faster than that.
- *Rewind* ends when it is answered. Before it replaces anything, it scans every file of the tree.
- git has its defaults, with `gc` off so that it does not run during a commit. It does not sync a commit to the
  disk, and a small checkpoint of ours is not synced either; a first checkpoint of ours is, with its pack.
";

/// `docs/files.md`.
pub fn markdown(points: &[Point], machine: &str, quick: bool) -> String {
    let mut text = String::from(INTRODUCTION);
    if quick {
        text += "This is a short run (`--quick`): smaller trees, fewer rounds.\n\n";
    }
    let _ = writeln!(text, "{machine}\n\n![Costs over the number of files](files.svg)\n");
    text + &table("files", points, |point| point.files, &LINES) + READING
}

const LINES: [Line<Point>; 20] = [
    ("MB in them", |point| number(point.bytes as f64 / 1e6)),
    ("nothing changed: `true`", |point| seconds(point.unchanged.ours.p50)),
    ("… without files", |point| seconds(point.unchanged.floor.p50)),
    ("… added", |point| seconds(point.added())),
    ("… `git add -A`, `git commit`", |point| seconds(point.git_unchanged)),
    ("one changed file", |point| seconds(point.changed.ours)),
    ("… `git add -A`, `git commit`", |point| seconds(point.changed.floor)),
    ("… against git", |point| ratio(point.changed)),
    ("fork and first command", |point| seconds(point.forked)),
    ("… and second command", |point| seconds(point.forked_twice)),
    ("… `cp -r`", |point| seconds(point.copied)),
    ("… first command against `cp -r`", |point| ratio(Pair { floor: point.copied, ours: point.forked })),
    ("… only making and writing the files", |point| seconds(point.filled)),
    ("… that against `cp -r`", |point| ratio(Pair { floor: point.copied, ours: point.filled })),
    ("first checkpoint", |point| seconds(point.first.ours)),
    ("… git's first `add -A`, `commit`", |point| seconds(point.first.floor)),
    ("… against git", |point| ratio(point.first)),
    ("rewind of one changed file", |point| seconds(point.rewound_one)),
    ("rewind of many changed files", |point| seconds(point.rewound_many)),
    ("… of how many", |point| (point.many > 0).then(|| digits(point.many as f64))),
];

/// `docs/files.svg`.
pub fn picture(points: &[Point]) -> String {
    let curve = |name, tone, value: fn(&Point) -> f64| {
        let points = points.iter().map(|point| (point.files, value(point))).collect();
        Curve { name, tone, points }
    };
    let panel = |title, logarithmic, curves| Panel { title, logarithmic, target: None, curves };
    let all = [
        panel(
            "A command that changes nothing, µs",
            false,
            vec![
                curve("without files", Tone::Floor, |point| point.unchanged.floor.p50 * 1e6),
                curve("beside so many", Tone::First, |point| point.unchanged.ours.p50 * 1e6),
            ],
        ),
        panel(
            "One changed file, milliseconds",
            true,
            vec![
                curve("git add -A, git commit", Tone::Floor, |point| point.changed.floor * 1e3),
                curve("shellkeep", Tone::First, |point| point.changed.ours * 1e3),
            ],
        ),
        panel(
            "A copy to work in, milliseconds",
            true,
            vec![
                curve("cp -r", Tone::Floor, |point| point.copied * 1e3),
                curve("fork, one command", Tone::First, |point| point.forked * 1e3),
                curve("two commands", Tone::Second, |point| point.forked_twice * 1e3),
            ],
        ),
        panel(
            "Everything for the first time, milliseconds",
            true,
            vec![
                curve("git add -A, git commit", Tone::Floor, |point| point.first.floor * 1e3),
                curve("shellkeep", Tone::First, |point| point.first.ours * 1e3),
            ],
        ),
    ];
    panels("What keeping files costs as the tree grows", "across: files in the workspace, logarithmic", &all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_measured_is_not_shown_as_a_number() {
        let mut points = vec![Point::new(100, 250_000), Point::new(50_000, 125_000_000)];
        points[1].changed = Pair { floor: 0.2, ours: 0.004 };
        let text = markdown(&points, "a machine", true);
        assert!(!text.contains("NaN") && !picture(&points).contains("NaN"), "{text}");
        assert!(text.contains("| … against git | – | 0.02× |"), "{text}");
        assert!(text.contains("| MB in them | 0.25 | 125 |"), "{text}");
    }
}
