//! Nothing of the user's is lost: what no checkpoint holds stays, and is said.

use crate::fixture::Room;
use shellkeep_workspace::copy;
use shellkeep_workspace::fault::{Blow, Point};
use shellkeep_workspace::restore::{self, KeptBack};
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

fn paths(kept: &[KeptBack]) -> Vec<String> {
    kept.iter().map(|kept| String::from_utf8_lossy(&kept.path).into_owned()).collect()
}

#[test]
fn what_changed_after_the_checkpoint_is_not_overwritten() {
    let mut room = Room::new();
    for name in ["edited", "removed_later", "mode", "link", "untouched"] {
        room.write(name, "one");
    }
    let one = room.save();
    for name in ["edited", "untouched", "link", "new", "gone"] {
        room.write(name, "two");
    }
    room.chmod("mode", 0o600);
    room.save();
    room.write("edited", "three, by a service");
    room.write("new", "three");
    room.chmod("mode", 0o640);
    fs::remove_file(room.path("link")).unwrap();
    symlink("new", room.path("link")).unwrap();
    fs::remove_file(room.path("gone")).unwrap();
    let kept = room.rewind(Some(one));
    assert_eq!(paths(&kept), ["edited", "link", "mode", "new"]);
    assert_eq!(fs::read(room.path("edited")).unwrap(), b"three, by a service");
    assert_eq!(fs::read(room.path("untouched")).unwrap(), b"one");
    assert!(room.path("link").is_symlink());
}

#[test]
fn a_file_deleted_after_the_checkpoint_comes_back_as_it_was() {
    let mut room = Room::new();
    room.write("a/edited", "one");
    let one = room.save();
    room.write("a/edited", "two");
    room.save();
    fs::remove_file(room.path("a/edited")).unwrap();
    assert_eq!(room.rewind(Some(one)), []);
    assert_eq!(fs::read(room.path("a/edited")).unwrap(), b"one");
}

#[test]
fn directories_with_ignored_things_stay() {
    let mut room = Room::new();
    room.write("place", "a file");
    let one = room.save();
    fs::remove_file(room.path("place")).unwrap();
    room.write("place/code.py", "x");
    room.write("place/__pycache__/code.pyc", "compiled");
    room.write("package/.git/HEAD", "ref: x");
    room.write("package/code", "x");
    room.save();
    let kept = room.rewind(Some(one));
    assert_eq!(paths(&kept), ["package", "place", "place"]);
    assert_eq!(fs::read(room.path("place/__pycache__/code.pyc")).unwrap(), b"compiled");
    assert_eq!(fs::read(room.path("package/.git/HEAD")).unwrap(), b"ref: x");
    assert!(!room.path("place/code.py").exists() && !room.path("package/code").exists());
}

#[test]
fn a_file_that_is_ignored_now_and_was_kept_then_stays_as_it_is() {
    let mut room = Room::new();
    room.write("secrets", "old");
    room.write("other", "old");
    let one = room.save();
    fs::remove_file(room.path("secrets")).unwrap();
    room.write(".gitignore", "secrets\n");
    room.save();
    room.write("secrets", "new and ignored");
    room.save();
    assert_eq!(paths(&room.rewind(Some(one))), ["secrets"]);
    assert_eq!(fs::read(room.path("secrets")).unwrap(), b"new and ignored");
}

#[test]
fn a_link_on_the_way_leads_nowhere() {
    let mut room = Room::new();
    let outside = tempfile::tempdir().unwrap();
    room.write("sub/file", "one");
    let one = room.save();
    room.write("sub/file", "two");
    room.write("sub/more", "two");
    room.save();
    fs::rename(room.path("sub"), outside.path().join("sub")).unwrap();
    symlink(outside.path().join("sub"), room.path("sub")).unwrap();
    assert_eq!(paths(&room.rewind(Some(one))), ["sub/file", "sub/more"]);
    assert_eq!(fs::read(outside.path().join("sub/file")).unwrap(), b"two");
    assert!(outside.path().join("sub/more").exists());
}

#[test]
fn what_is_written_between_the_crash_and_the_recovery_stays() {
    let mut room = Room::new();
    for number in 0..10 {
        room.write(format!("edited{number}"), "one");
    }
    room.write("place", "a file");
    let one = room.save();
    for number in 0..10 {
        room.write(format!("edited{number}"), "two");
    }
    fs::remove_file(room.path("place")).unwrap();
    room.write("new", "two");
    room.save();
    // After all files are exchanged and before the end.
    let applied = room.try_rewind(Some(one)).unwrap();
    drop(applied);
    room.write("edited3", "three");
    room.write("new", "three");
    let (note, applied) = restore::recover(&room.workspace, &room.home, &room.faults).unwrap().unwrap();
    assert_eq!(note, b"note");
    applied.finish().unwrap();
    assert_eq!(fs::read(room.path("edited3")).unwrap(), b"three");
    assert_eq!(fs::read(room.path("new")).unwrap(), b"three");
    assert_eq!(fs::read(room.path("edited4")).unwrap(), b"one");
    room.assert_tidy();
}

#[test]
fn a_rewind_waits_for_the_one_before() {
    let mut room = Room::new();
    room.write("a", "one");
    let one = room.save();
    room.write("a", "two");
    room.save();
    room.faults.arm(Point::Applying, 1, 1, Blow::Error);
    assert!(matches!(room.try_rewind(Some(one)), Err(restore::RestoreError::Apply(_))));
    assert!(matches!(room.try_rewind(Some(one)), Err(restore::RestoreError::Stage(_))));
    let (_, applied) = restore::recover(&room.workspace, &room.home, &room.faults).unwrap().unwrap();
    applied.finish().unwrap();
    assert_eq!(fs::read(room.path("a")).unwrap(), b"one");
}

#[test]
fn what_is_replaced_at_the_very_moment_is_not_lost() {
    let mut room = Room::new();
    let commits = ["one", "two"].map(|text| {
        room.write("file", text);
        room.save()
    });
    for round in 0..60 {
        // The checkpoint right before is the other one, and the writer comes after it.
        let target = commits[round % 2];
        room.now = Some(commits[1 - round % 2]);
        room.write("file", if round % 2 == 0 { "two" } else { "one" });
        let plan = room.plan(Some(target));
        let staged = restore::stage(room.repo(), &room.workspace, &room.home, &plan, &room.faults).unwrap();
        let (path, new) = (room.path("file"), room.path("file.new"));
        let begun = std::sync::Barrier::new(2);
        let applied = std::thread::scope(|scope| {
            scope.spawn(|| {
                begun.wait();
                for number in 0..round * 3 {
                    fs::write(&new, format!("written {number}")).unwrap();
                    fs::rename(&new, &path).unwrap();
                }
            });
            begun.wait();
            restore::apply(staged, b"", &room.faults).unwrap()
        });
        applied.finish().unwrap();
        let last = if round == 0 { "one".to_owned() } else { format!("written {}", round * 3 - 1) };
        assert_eq!(fs::read_to_string(room.path("file")).unwrap(), last);
        room.assert_tidy();
    }
}

#[test]
fn setuid_is_neither_kept_nor_brought_back() {
    let mode = |room: &Room, name: &str| fs::metadata(room.path(name)).unwrap().permissions().mode() & 0o7777;
    let mut room = Room::new();
    room.write("tool", "one");
    room.chmod("tool", 0o4755);
    room.write("shared/file", "one");
    room.chmod("shared", 0o2775);
    let one = room.save();
    room.write("tool", "two");
    room.write("shared/file", "two");
    room.chmod("shared", 0o2770);
    room.save();
    assert_eq!(room.rewind(Some(one)), []);
    assert_eq!(fs::read(room.path("tool")).unwrap(), b"one");
    assert_eq!(mode(&room, "tool"), 0o755);
    // A directory that was there all the time keeps what its owner set.
    assert_eq!(mode(&room, "shared"), 0o2775);
    let fork = room.home.parent().unwrap().join("fork");
    room.chmod("tool", 0o6711);
    let copied = copy::workspace(&room.workspace, &fork, copy::TopMode::Same, &room.faults).unwrap();
    assert_eq!(copied.files, 2);
    let bits = |name: &str| fs::metadata(fork.join(name)).unwrap().permissions().mode() & 0o7777;
    assert_eq!((bits("tool"), bits("shared")), (0o711, 0o775));
}

/// What a checkpoint left out counted as not there, so a rewind removed what came later under that name, unsaid.
#[test]
fn what_was_there_and_not_saved_is_not_removed() {
    let mut room = Room::new();
    for name in ["pipe", "place"] {
        let path = room.path(name);
        assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
    }
    room.write("file", "one");
    let one = room.save();
    for name in ["pipe", "place"] {
        fs::remove_file(room.path(name)).unwrap();
    }
    room.write("pipe", "now a file");
    room.write("place/below", "now below");
    room.write("new", "new");
    let two = room.save();
    let kept = room.rewind(Some(one));
    assert_eq!(paths(&kept), ["pipe", "place", "place/below"]);
    assert_eq!(kept[0].reason, "it was there at that moment, but was not saved");
    assert_eq!(fs::read(room.path("pipe")).unwrap(), b"now a file");
    assert_eq!(fs::read(room.path("place/below")).unwrap(), b"now below");
    assert!(!room.path("new").exists());
    // A copy for an earlier moment keeps them, too.
    restore::strip(room.repo(), Some(one), &room.workspace).unwrap();
    assert!(room.path("pipe").exists() && room.path("place/below").exists());
    // Where all was saved, everything else goes.
    room.save();
    fs::remove_file(room.path("file")).unwrap();
    room.write("later", "later");
    room.save();
    assert_eq!(room.rewind(Some(two)), []);
    assert!(!room.path("later").exists() && room.path("new").exists());
}
