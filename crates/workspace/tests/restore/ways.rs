//! Rewinds that nobody disturbs.

use crate::fixture::{Room, first, hidden, second};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;

#[test]
fn to_and_fro_everything_is_as_it_was_and_the_rest_is_not_touched() {
    let mut room = Room::new();
    hidden(&room);
    first(&room, 20);
    let one = room.save();
    let seen_one = room.seen();
    second(&room, 20);
    let two = room.save();
    let seen_two = room.seen();
    let git = fs::metadata(room.path(".git/config")).unwrap();
    for _ in 0..2 {
        assert_eq!(room.rewind(Some(one)), []);
        assert_eq!(room.seen(), seen_one);
        assert_eq!(room.save(), one);
        assert_eq!(room.rewind(Some(two)), []);
        assert_eq!(room.seen(), seen_two);
        assert_eq!(room.save(), two);
    }
    let after = fs::metadata(room.path(".git/config")).unwrap();
    assert_eq!((git.ino(), git.mtime(), git.ctime()), (after.ino(), after.mtime(), after.ctime()));
}

#[test]
fn the_plan_to_where_we_are_is_empty() {
    let mut room = Room::new();
    first(&room, 3);
    let one = room.save();
    assert!(room.plan(Some(one)).steps.is_empty());
    let inode = fs::metadata(room.path("same")).unwrap().ino();
    assert_eq!(room.rewind(Some(one)), []);
    assert_eq!(fs::metadata(room.path("same")).unwrap().ino(), inode);
}

#[test]
fn to_the_empty_workspace_and_back() {
    let mut room = Room::new();
    hidden(&room);
    let bare = room.seen();
    first(&room, 5);
    let one = room.save();
    let seen = room.seen();
    // It is a directory of the first checkpoint, and stays because of what is in it.
    let kept: Vec<_> = room.rewind(None).into_iter().map(|kept| kept.path).collect();
    assert_eq!(kept, [b"nested"]);
    assert_eq!(room.seen(), bare);
    assert_eq!(room.rewind(Some(one)), []);
    assert_eq!(room.seen(), seen);
}

#[test]
fn restored_files_are_newer_and_untouched_ones_are_not() {
    const FILES: usize = 50;
    let mut room = Room::new();
    let time = |room: &Room, name: &str| fs::metadata(room.path(name)).unwrap().modified().unwrap();
    let edit = |room: &Room, text: &str| (0..FILES).for_each(|n| room.write(format!("edited{n}"), text));
    edit(&room, "one");
    room.write("same", "same");
    let one = room.save();
    edit(&room, "two");
    room.save();
    let (same, newest) = (time(&room, "same"), (0..FILES).map(|n| time(&room, &format!("edited{n}"))).max().unwrap());
    assert_eq!(room.rewind(Some(one)), []);
    let times: BTreeSet<_> = (0..FILES).map(|n| time(&room, &format!("edited{n}"))).collect();
    assert!(*times.first().unwrap() > newest);
    // The kernel's own stamp is the time of its last tick, which many of them would share: with what is restored right
    // after something was built, too.
    assert_eq!(times.len(), FILES, "each has the time at which it was written");
    assert_eq!(time(&room, "same"), same);
}
