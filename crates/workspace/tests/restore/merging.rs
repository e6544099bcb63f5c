//! What a fork did comes back.

use crate::fixture::{Room, Seen};
use shellkeep_workspace::copy;
use shellkeep_workspace::fault::Faults;
use shellkeep_workspace::merge::{self, Choice, Merge};
use shellkeep_workspace::repo::ObjectId;
use shellkeep_workspace::restore;
use std::fs;
use std::os::unix::fs::MetadataExt as _;

/// A session and its fork.
struct Pair {
    base: ObjectId,
    ours: Room,
    theirs: Room,
}

fn fork(make: impl FnOnce(&Room)) -> Pair {
    let mut ours = Room::new();
    make(&ours);
    let base = ours.save();
    let mut theirs = Room::new();
    copy::workspace(&ours.workspace, &theirs.workspace, copy::TopMode::Same, &Faults::default()).unwrap();
    fs::create_dir_all(&theirs.home).unwrap();
    ours.repo().share_into(&theirs.home.join("repo.git")).unwrap();
    theirs.now = Some(base);
    assert_eq!(theirs.save(), base);
    Pair { base, ours, theirs }
}

impl Pair {
    fn plan(&mut self, choice: Choice) -> Merge {
        let (ours, theirs) = (self.ours.save(), self.theirs.save());
        merge::plan(Some(self.base), (self.ours.repo(), Some(ours)), (self.theirs.repo(), Some(theirs)), choice)
            .unwrap()
    }

    fn apply(&mut self, merge: &Merge) -> Seen {
        let room = &self.ours;
        let staged =
            restore::stage(self.theirs.repo(), &room.workspace, &room.home, &merge.plan, &room.faults).unwrap();
        let applied = restore::apply(staged, b"", &room.faults).unwrap();
        assert_eq!(applied.kept_back, []);
        applied.finish().unwrap();
        room.assert_tidy();
        room.seen()
    }
}

fn text(room: &Room, name: &str) -> String {
    fs::read_to_string(room.path(name)).unwrap()
}

/// A fork may be closed to others that the session it came from is open to.
#[test]
fn who_may_enter_a_workspace_is_not_merged() {
    let mut pair = fork(|room| {
        room.write("file", "one");
        room.chmod("", 0o755);
    });
    pair.theirs.chmod("", 0o700);
    pair.theirs.write("file", "two");
    let merge = pair.plan(Choice::Neither);
    pair.apply(&merge);
    assert_eq!(text(&pair.ours, "file"), "two");
    assert_eq!(pair.ours.workspace.metadata().unwrap().mode() & 0o777, 0o755);
}

#[test]
fn changes_apart_come_together() {
    let lines: String = (0..20).map(|number| format!("{number}\n")).collect();
    let mut pair = fork(|room| {
        room.write("both", &lines);
        room.write("theirs/edited", "one");
        room.write("theirs/removed/x", "x");
        room.write("ours", "one");
        room.write("to_directory", "file");
        room.write("mode", "mode");
    });
    pair.ours.write("both", lines.replace("3\n", "three\n"));
    pair.ours.write("ours", "two");
    pair.ours.chmod("mode", 0o600);
    pair.ours.write("node_modules/x", "ignored");
    pair.theirs.write("both", lines.replace("15\n", "fifteen\n"));
    pair.theirs.write("theirs/edited", "two");
    fs::remove_dir_all(pair.theirs.path("theirs/removed")).unwrap();
    fs::remove_file(pair.theirs.path("to_directory")).unwrap();
    pair.theirs.write("to_directory/new/file", "new");
    pair.theirs.write("mode", "their bytes and our mode");
    let merge = pair.plan(Choice::Neither);
    assert_eq!(merge.conflicts, []);
    assert_eq!(merge.merged, [b"both"]);
    let seen = pair.apply(&merge);
    let both = text(&pair.ours, "both");
    assert!(both.contains("three\n") && both.contains("fifteen\n"), "{both}");
    assert_eq!(text(&pair.ours, "ours"), "two");
    assert_eq!(text(&pair.ours, "theirs/edited"), "two");
    assert_eq!(text(&pair.ours, "to_directory/new/file"), "new");
    assert_eq!(text(&pair.ours, "node_modules/x"), "ignored");
    assert!(!pair.ours.path("theirs/removed").exists());
    assert_eq!(seen[std::path::Path::new("mode")], (0o100_600, b"their bytes and our mode".to_vec()));
    // Once more it is nothing but what both have.
    let again = pair.plan(Choice::Neither);
    assert_eq!(again.conflicts.iter().map(|conflict| &conflict.path[..]).collect::<Vec<_>>(), [b""; 0]);
    assert_eq!(again.plan.steps, []);
}

#[test]
fn what_does_not_go_together_is_a_conflict_or_a_choice() {
    let make = || {
        let pair = fork(|room| {
            room.write("same_line", "one\n");
            room.write("removed_here", "one");
            room.write("removed_there", "one");
            room.write("folder/x", "x");
            room.write("binary", [0, 1]);
        });
        pair.ours.write("same_line", "ours\n");
        pair.theirs.write("same_line", "theirs\n");
        fs::remove_file(pair.ours.path("removed_here")).unwrap();
        pair.theirs.write("removed_here", "two");
        pair.ours.write("removed_there", "two");
        fs::remove_file(pair.theirs.path("removed_there")).unwrap();
        pair.ours.write("made", "ours");
        pair.theirs.write("made", "theirs");
        pair.ours.write("binary", [0, 2]);
        pair.theirs.write("binary", [0, 3]);
        pair
    };
    let mut pair = make();
    let merge = pair.plan(Choice::Neither);
    let paths: Vec<_> = merge.conflicts.iter().map(|conflict| conflict.path.escape_ascii().to_string()).collect();
    assert_eq!(paths, ["binary", "made", "removed_here", "removed_there", "same_line"]);
    assert!(!merge.is_clean());

    let before = pair.ours.seen();
    let merge = pair.plan(Choice::Ours);
    assert!(merge.is_clean());
    assert_eq!(pair.apply(&merge), before);

    let merge = pair.plan(Choice::Theirs);
    assert!(merge.is_clean());
    let expected = pair.theirs.seen();
    assert_eq!(pair.apply(&merge), expected);
}

#[test]
fn directories_that_are_gone_or_in_the_way() {
    let mut pair = fork(|room| {
        room.write("gone_here/x", "x");
        room.write("gone_there/x", "x");
        room.write("file_there/x", "x");
    });
    fs::remove_dir_all(pair.ours.path("gone_here")).unwrap();
    pair.theirs.write("gone_here/new", "new");
    fs::remove_dir_all(pair.theirs.path("gone_there")).unwrap();
    pair.ours.write("gone_there/new", "new");
    fs::remove_dir_all(pair.theirs.path("file_there")).unwrap();
    pair.theirs.write("file_there", "file");
    pair.ours.write("file_there/new", "new");
    let merge = pair.plan(Choice::Theirs);
    let paths: Vec<_> = merge.conflicts.iter().map(|conflict| conflict.path.escape_ascii().to_string()).collect();
    assert_eq!(paths, ["file_there", "gone_here/new"]);
    // What remains can be applied all the same.
    pair.apply(&merge);
    assert!(pair.ours.path("gone_there/new").exists() && !pair.ours.path("gone_there/x").exists());
    assert!(pair.ours.path("file_there/new").exists());
}
