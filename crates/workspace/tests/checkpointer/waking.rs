//! A session that rests and wakes, with its index and without; and one whose files were put to another checkpoint.

use crate::fixture::Room;
use shellkeep_workspace::checkpointer::Counts;
use std::fs;

fn room() -> Room {
    let mut room = Room::new();
    room.write("a/b/one", "1");
    room.write("a/two", "2");
    room.write("three", "3");
    room.begin();
    room.save().unwrap();
    room
}

#[test]
fn what_changed_while_it_rested_is_found_when_it_wakes() {
    for is_index_lost in [false, true] {
        let mut room = room();
        room.checkpointer.rest();
        assert_eq!(room.watcher.watches(), 0);
        assert!(!room.checkpointer.is_clean());
        if is_index_lost {
            fs::remove_file(room.home.join("index")).unwrap();
        }
        room.begin();
        if is_index_lost {
            assert_eq!(room.try_save().unwrap(), None);
        }
        room.checkpointer.rest();
        room.write("a/two", "2 again");
        fs::remove_file(room.path("three")).unwrap();
        room.write("a/c/four", "4");
        if is_index_lost {
            fs::write(room.home.join("index"), "nonsense").unwrap();
        }
        room.begin();
        assert!(!room.checkpointer.is_clean() && !room.checkpointer.needs_base());
        assert_eq!(room.save().unwrap().counts, Counts { added: 1, changed: 1, deleted: 1 });
        room.assert_clean();
    }
}

#[test]
fn a_change_within_the_clocks_grain_is_found_when_it_wakes() {
    let mut room = room();
    room.checkpointer.rest();
    // As if it had been written with the same size right after it was read, and the clock had not moved on.
    room.begin();
    room.write("a/two", "x");
    room.try_save().unwrap();
    room.checkpointer.rest();
    room.write("a/two", "y");
    room.begin();
    assert_eq!(room.save().unwrap().counts.changed, 1);
}

#[test]
fn files_of_another_checkpoint_are_no_change() {
    let mut room = room();
    let first = room.last.unwrap();
    room.write("a/b/one", "changed");
    room.write("new/file", "new");
    fs::remove_file(room.path("three")).unwrap();
    let second = room.save().unwrap().commit;
    // As a rewind would put them.
    room.write("a/b/one", "1");
    room.write("three", "3");
    fs::remove_dir_all(room.path("new")).unwrap();
    room.checkpointer.took(Some(first), []).unwrap();
    room.last = Some(first);
    assert_eq!(room.try_save().unwrap(), None);
    room.assert_clean();
    assert_eq!(room.kept(), room.there());
    // The next one follows the one that was gone back to.
    room.write("three", "3 again");
    let third = room.save().unwrap();
    assert_eq!(third.counts, Counts { added: 0, changed: 1, deleted: 0 });
    assert_eq!(room.checkpointer.repo().unwrap().objects.read_commit(third.commit).unwrap().parents, [first]);
    // A parent that the checkpointer was not told of is found out, and counted from.
    room.last = Some(second);
    assert_eq!(room.save().unwrap().counts, Counts { added: 1, changed: 1, deleted: 1 });
    // The empty workspace before the first.
    fs::remove_dir_all(room.path("a")).unwrap();
    fs::remove_file(room.path("three")).unwrap();
    room.checkpointer.took(None, []).unwrap();
    room.last = None;
    assert_eq!(room.try_save().unwrap(), None);
    room.write("other", "x");
    let fresh = room.save().unwrap();
    assert_eq!(fresh.counts, Counts { added: 1, changed: 0, deleted: 0 });
    assert!(room.checkpointer.repo().unwrap().objects.read_commit(fresh.commit).unwrap().parents.is_empty());
}

#[test]
fn what_was_thinned_away_is_read_again() {
    let mut room = room();
    let first = room.last.unwrap();
    room.write("three", "changed");
    let second = room.save().unwrap().commit;
    room.write("three", "3");
    room.checkpointer.begin().unwrap();
    room.checkpointer.repo_mut().unwrap().thin(&[second]).unwrap();
    assert_eq!(room.save().unwrap().counts.changed, 1);
    assert_ne!(room.last, Some(first));
    let said = room.git(&["fsck", "--strict", "--no-dangling", "--no-progress"]);
    assert!(said.is_empty(), "{said}");
}
