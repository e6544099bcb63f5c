//! Limits that are met, and disks that are full: it is said, nothing is lost, and the next save goes on.

use crate::fixture::Room;
use shellkeep_workspace::checkpointer::{Checkpointer, Limits, Trouble};
use shellkeep_workspace::fault::{Blow, Point};
use shellkeep_workspace::watch::Watcher;
use std::fs;
use std::time::Duration;

#[test]
fn a_full_disk_at_any_point_costs_one_checkpoint_and_no_file() {
    for point in [Point::ObjectWritten, Point::PackWritten, Point::BeforeTag] {
        for files in [3, 200] {
            for nth in [1, 2, 5] {
                let mut room = Room::new();
                room.begin();
                room.write("first", "x");
                room.save().unwrap();
                for number in 0..files {
                    room.write(&format!("{}/{number}", number % 7), &number.to_string());
                }
                room.faults.arm(point, nth, 1, Blow::Full);
                if let Err(trouble) = room.try_save() {
                    assert!(matches!(&trouble, Trouble::Repo(error) if error.is_full()), "{trouble}");
                    assert!(!room.checkpointer.is_clean());
                    room.write("0/0", "changed meanwhile");
                    fs::remove_file(room.path("1/1")).unwrap();
                    assert_eq!(room.save().unwrap().counts.added, files - 1);
                }
                room.faults.disarm(point);
                room.assert_clean();
                let said = room.git(&["fsck", "--strict", "--no-dangling", "--no-progress"]);
                assert!(said.is_empty(), "{said}");
            }
        }
    }
}

#[test]
fn a_session_that_rests_after_a_full_disk_wakes_with_all_its_changes() {
    let mut room = Room::new();
    room.begin();
    room.write("first", "x");
    room.save().unwrap();
    room.write("second", "x");
    room.faults.arm(Point::ObjectWritten, 1, u64::MAX, Blow::Full);
    assert!(room.try_save().is_err());
    room.checkpointer.rest();
    room.faults.disarm(Point::ObjectWritten);
    room.begin();
    assert!(!room.checkpointer.is_clean());
    assert_eq!(room.save().unwrap().counts.added, 1);
}

#[test]
fn a_checkpoint_that_takes_too_long_goes_on_next_time() {
    let mut room = Room::with(&Watcher::new(), Limits { time: Duration::ZERO, ..Limits::default() });
    for number in 0..100 {
        room.write(&format!("{}/{number}", number % 10), &number.to_string());
    }
    room.begin();
    assert!(matches!(room.try_save(), Err(Trouble::TooSlow { .. })));
    assert!(!room.checkpointer.is_clean());
    // The checkpointer is the same with more time; what it knows came from the index, which names what was read.
    let home = room.home.clone();
    room.checkpointer = Checkpointer::new(&room.watcher, room.workspace.clone(), home, Limits::default());
    room.begin();
    assert_eq!(room.save().unwrap().counts.added, 100);
}

#[test]
fn a_workspace_with_too_many_files_is_not_kept_and_says_so() {
    let watcher = Watcher::new();
    let mut room = Room::with(&watcher, Limits { files: 20, ..Limits::default() });
    room.begin();
    for number in 0..15 {
        room.write(&number.to_string(), "x");
    }
    room.save().unwrap();
    for number in 0..15 {
        room.write(&format!("more/{number}"), "x");
    }
    for _ in 0..2 {
        assert!(matches!(room.try_save(), Err(Trouble::TooManyFiles { limit: 20 })));
        assert!(!room.checkpointer.is_clean());
    }
    assert_eq!(watcher.watches(), 0);
    fs::remove_dir_all(room.path("more")).unwrap();
    room.write("more/one", "x");
    // It waits a while before it looks again, unless the session wakes anew.
    room.checkpointer.rest();
    room.begin();
    assert_eq!(room.save().unwrap().counts.added, 1);
    room.assert_clean();
}

#[test]
fn a_full_repository_takes_no_more_until_there_is_room() {
    let mut room = Room::new();
    room.write("a", "x");
    room.begin();
    room.save().unwrap();
    let limits = Limits { repo_bytes: 1, ..Limits::default() };
    let (workspace, home) = (room.workspace.clone(), room.home.clone());
    room.checkpointer = Checkpointer::new(&room.watcher, workspace.clone(), home.clone(), limits);
    room.begin();
    room.write("a", "y");
    assert!(matches!(room.try_save(), Err(Trouble::Full { limit: 1, .. })));
    assert!(!room.checkpointer.is_clean());
    room.checkpointer.rest();
    room.checkpointer = Checkpointer::new(&room.watcher, workspace, home, Limits::default());
    assert_eq!(room.save().unwrap().counts.changed, 1);
}
