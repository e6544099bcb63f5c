//! What a copy of a workspace is told of its files.

use crate::fixture::Room;
use shellkeep_poll::pass;
use shellkeep_workspace::checkpointer::Limits;
use shellkeep_workspace::copy;
use std::fs::{self, File};
use std::time::{Duration, SystemTime};

fn copied(room: &Room, name: &str) -> Room {
    let above = room.workspace.parent().unwrap();
    let (workspace, home) = (above.join(name), above.join(format!("{name}-checkpoints")));
    copy::workspace(&room.workspace, &workspace, copy::TopMode::Same, &room.faults).unwrap();
    fs::create_dir(&home).unwrap();
    room.checkpointer.repo().unwrap().share_into(&home.join("repo.git")).unwrap();
    room.checkpointer.hand_down(&workspace, &home).unwrap();
    let mut copy = Room::at(&room.watcher, Limits::default(), workspace, home);
    copy.last = room.last;
    copy
}

#[test]
fn a_copy_is_what_was_kept_until_it_changes() {
    let mut room = Room::new();
    let old = SystemTime::now() - Duration::from_secs(1000);
    for number in 0..50 {
        room.write(&format!("d{}/f{number}", number % 5), &format!("text {number}"));
    }
    room.write("same", "one");
    File::options().write(true).open(room.path("same")).unwrap().set_modified(old).unwrap();
    // What changed less than 50 ms before it is read is read again in any case.
    pass(Duration::from_millis(60));
    room.save().unwrap();

    let mut fork = copied(&room, "fork");
    fork.begin();
    assert_eq!(fork.save(), None);
    fork.write("d1/f1", "other");
    fs::remove_file(fork.path("d2/f2")).unwrap();
    let saved = fork.save().unwrap();
    assert_eq!((saved.counts.added, saved.counts.changed, saved.counts.deleted), (0, 1, 1));

    // One that the original changed since it was kept is read in the copy, even with the same size and time.
    room.write("same", "two");
    File::options().write(true).open(room.path("same")).unwrap().set_modified(old).unwrap();
    room.write("d3/f3", "changed meanwhile");
    let mut late = copied(&room, "late");
    late.begin();
    assert_eq!(late.save().unwrap().counts.changed, 2);
    assert_eq!(room.save().unwrap().counts.changed, 2);
}
