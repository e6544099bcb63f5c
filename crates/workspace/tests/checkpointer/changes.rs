//! What was told by the kernel is found and saved, and nothing else is looked for.

use crate::fixture::{Room, Thing};
use shellkeep_workspace::checkpointer::{Counts, Limits, Trouble};
use shellkeep_workspace::fault::Faults;
use shellkeep_workspace::restore;
use shellkeep_workspace::watch::Watcher;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

#[test]
fn each_kind_of_change_makes_one_checkpoint_and_none_makes_none() {
    let mut room = Room::new();
    room.begin();
    assert!(room.checkpointer.needs_base(), "an empty workspace has no checkpoint either");
    assert_eq!(room.try_save().unwrap(), None);
    assert!(room.checkpointer.repo().is_none(), "nothing to keep needs no repository");

    room.write("src/main.rs", "fn main() {}");
    assert!(!room.checkpointer.is_clean());
    let saved = room.save().unwrap();
    assert_eq!(saved.counts, Counts { added: 1, changed: 0, deleted: 0 });
    assert!(saved.bytes_written > 0 && saved.left_out.total == 0);
    room.assert_clean();

    room.write("src/main.rs", "fn main() { }");
    room.write("src/lib.rs", "");
    assert_eq!(room.save().unwrap().counts, Counts { added: 1, changed: 1, deleted: 0 });
    fs::set_permissions(room.path("src/lib.rs"), fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(room.save().unwrap().counts, Counts { added: 0, changed: 1, deleted: 0 });
    symlink("main.rs", room.path("src/link")).unwrap();
    assert_eq!(room.save().unwrap().counts.added, 1);
    fs::create_dir_all(room.path("empty/below")).unwrap();
    assert_eq!(room.save().unwrap().counts, Counts::default());
    fs::set_permissions(room.path("empty"), fs::Permissions::from_mode(0o700)).unwrap();
    room.save().unwrap();
    fs::set_permissions(&room.workspace, fs::Permissions::from_mode(0o711)).unwrap();
    room.save().unwrap();
    fs::remove_dir_all(room.path("src")).unwrap();
    assert_eq!(room.save().unwrap().counts, Counts { added: 0, changed: 0, deleted: 3 });
    room.assert_clean();
    let said = room.git(&["fsck", "--strict", "--no-dangling", "--no-progress"]);
    assert!(said.is_empty(), "{said}");
    assert_eq!(room.git(&["log", "--format=%s"]).lines().count(), 8);
    assert!(room.git(&["log", "-1", "--format=%b"]).contains("Ignored-By-Default: node_modules/"));
}

#[test]
fn a_change_that_is_undone_is_none() {
    let mut room = Room::new();
    room.write("a", "one");
    room.begin();
    room.save().unwrap();
    room.write("a", "two");
    room.write("a", "one");
    room.write("b", "x");
    fs::remove_file(room.path("b")).unwrap();
    assert!(!room.checkpointer.is_clean());
    assert_eq!(room.try_save().unwrap(), None);
    room.assert_clean();
}

#[test]
fn a_directory_that_was_filled_before_it_could_be_watched_is_seen_whole() {
    let mut room = Room::new();
    room.begin();
    room.write("a/b/c/d/file", "deep");
    room.save().unwrap();
    room.write("a/b/c/d/file", "deeper");
    room.write("a/b/other", "x");
    assert_eq!(room.save().unwrap().counts, Counts { added: 1, changed: 1, deleted: 0 });
    room.assert_clean();
}

#[test]
fn renamed_directories_are_known_under_their_new_names() {
    let mut room = Room::new();
    room.write("a/x/one", "1");
    room.write("b/two", "2");
    room.begin();
    room.save().unwrap();
    let watches = room.watcher.watches();
    // Both ways: the new name before the old one in order, and after it.
    fs::rename(room.path("a"), room.path("c")).unwrap();
    fs::rename(room.path("b"), room.path("0")).unwrap();
    room.write("c/x/one", "1 again");
    assert_eq!(room.save().unwrap().counts, Counts { added: 2, changed: 0, deleted: 2 });
    assert_eq!(room.watcher.watches(), watches);
    room.assert_clean();
    room.write("c/x/one", "later");
    room.write("0/two", "later");
    assert_eq!(room.save().unwrap().counts.changed, 2);

    // Swapped, and one put into the other, and what was in it changed on the way.
    fs::rename(room.path("c"), room.path("t")).unwrap();
    fs::rename(room.path("0"), room.path("c")).unwrap();
    fs::rename(room.path("t"), room.path("0")).unwrap();
    fs::rename(room.path("c"), room.path("0/x/c")).unwrap();
    room.save().unwrap();
    room.write("0/x/c/two", "moved");
    assert_eq!(room.save().unwrap().counts.changed, 1);
    assert_eq!(room.watcher.watches(), watches);

    // Away and back, with a change while it was outside.
    let outside = tempfile::tempdir_in(room.home.parent().unwrap()).unwrap();
    fs::rename(room.path("0"), outside.path().join("0")).unwrap();
    assert_eq!(room.save().unwrap().counts.deleted, 2);
    assert_eq!(room.watcher.watches(), 1);
    fs::write(outside.path().join("0/x/one"), "outside").unwrap();
    room.assert_clean();
    fs::rename(outside.path().join("0"), room.path("0")).unwrap();
    assert_eq!(room.save().unwrap().counts.added, 2);
}

#[test]
fn a_directory_becomes_a_file_a_link_and_a_directory_again() {
    let mut room = Room::new();
    room.write("a/file", "1");
    room.begin();
    room.save().unwrap();
    fs::remove_dir_all(room.path("a")).unwrap();
    room.write("a", "a file");
    assert_eq!(room.save().unwrap().counts, Counts { added: 1, changed: 0, deleted: 1 });
    fs::remove_file(room.path("a")).unwrap();
    symlink("/usr", room.path("a")).unwrap();
    assert_eq!(room.save().unwrap().counts.changed, 1);
    assert_eq!(room.kept()["/a"], Thing::Link { target: b"/usr".to_vec() });
    fs::remove_file(room.path("a")).unwrap();
    room.write("a/file", "2");
    room.save().unwrap();
    room.write("a/file", "3");
    assert_eq!(room.save().unwrap().counts.changed, 1);
}

#[test]
fn the_root_may_be_missing_replaced_and_moved() {
    let mut room = Room::new();
    fs::remove_dir(&room.workspace).unwrap();
    room.begin();
    assert!(room.checkpointer.is_clean() || room.try_save().unwrap().is_none());
    fs::create_dir(&room.workspace).unwrap();
    room.write("a/file", "1");
    assert!(!room.checkpointer.is_clean());
    room.save().unwrap();
    room.assert_clean();
    // Replaced by another that looks alike.
    let aside = room.home.parent().unwrap().join("aside");
    fs::rename(&room.workspace, &aside).unwrap();
    room.write("a/file", "2");
    assert!(!room.checkpointer.is_clean());
    assert_eq!(room.save().unwrap().counts.changed, 1);
    room.write("a/file", "3");
    assert_eq!(room.save().unwrap().counts.changed, 1);
    // A root that is gone is no word about the files in it.
    fs::remove_dir_all(&room.workspace).unwrap();
    for _ in 0..2 {
        assert!(!room.checkpointer.is_clean());
        assert!(matches!(room.try_save(), Err(Trouble::Gone { .. })));
    }
    fs::rename(&aside, &room.workspace).unwrap();
    assert_eq!(room.save().unwrap().counts.changed, 1);
    room.assert_clean();
}

#[test]
fn a_root_that_became_a_link_is_not_followed() {
    let mut room = Room::new();
    room.write("a", "1");
    room.begin();
    let kept = room.save().unwrap().commit;
    room.write("a", "2");
    room.save().unwrap();
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("a"), "somebody else's").unwrap();
    let aside = room.home.parent().unwrap().join("aside");
    fs::rename(&room.workspace, &aside).unwrap();
    symlink(outside.path(), &room.workspace).unwrap();
    assert!(!room.checkpointer.is_clean());
    let refused = room.try_save().unwrap_err().to_string();
    assert!(refused.contains("symbolic link"), "{refused}");
    // Nor is anything written through it.
    let faults = Faults::default();
    let repo = room.checkpointer.repo().unwrap();
    let plan = restore::plan(repo, repo.head().unwrap(), Some(kept)).unwrap();
    assert_eq!(plan.steps.len(), 1);
    let staged = restore::stage(repo, &room.workspace, &room.home, &plan, &faults);
    assert!(staged.unwrap_err().to_string().contains("symbolic link"));
    assert!(restore::preview(&room.workspace, &plan).is_err());
    assert_eq!(fs::read_to_string(outside.path().join("a")).unwrap(), "somebody else's");
    fs::remove_file(&room.workspace).unwrap();
    fs::rename(&aside, &room.workspace).unwrap();
    assert_eq!(room.try_save().unwrap(), None);
    room.assert_clean();
}

#[test]
fn a_full_queue_makes_one_look_at_everything() {
    let limit: usize = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap().trim().parse().unwrap();
    let mut room = Room::new();
    room.write("a/first", "1");
    room.write("b/second", "1");
    room.begin();
    room.save().unwrap();
    // Two files in turn, so that the kernel cannot join the news; nobody reads them.
    let open = |name: &str| fs::OpenOptions::new().append(true).open(room.path(name)).unwrap();
    let (first, second) = (open("a/first"), open("b/second"));
    for _ in 0..limit {
        std::io::Write::write_all(&mut &first, b"x").unwrap();
        std::io::Write::write_all(&mut &second, b"y").unwrap();
    }
    // These come after the queue is full.
    room.write("c/d/lost", "nobody was told");
    fs::remove_file(room.path("b/second")).unwrap();
    assert!(!room.checkpointer.is_clean());
    assert_eq!(room.save().unwrap().counts, Counts { added: 1, changed: 1, deleted: 1 });
    room.assert_clean();
    room.write("c/d/lost", "and again");
    assert_eq!(room.save().unwrap().counts.changed, 1);
}

#[test]
fn without_watches_every_save_looks_at_everything() {
    for limit in [0, 3] {
        let watcher = Watcher::with_limit(limit);
        let mut room = Room::with(&watcher, Limits::default());
        for number in 0..6 {
            room.write(&format!("{number}/file"), "1");
        }
        room.begin();
        assert_eq!(watcher.watches(), 0, "what is of no use is given back");
        room.save().unwrap();
        assert!(!room.checkpointer.is_clean() && room.checkpointer.may_have_news());
        assert_eq!(room.try_save().unwrap(), None);
        room.write("5/file", "2");
        fs::remove_dir_all(room.path("0")).unwrap();
        assert_eq!(room.save().unwrap().counts, Counts { added: 0, changed: 1, deleted: 1 });
    }
}

#[test]
fn what_nobody_is_told_of_is_found_by_a_look_at_everything() {
    let mut room = Room::new();
    room.write("a", "one");
    room.begin();
    room.save().unwrap();
    let elsewhere = room.home.parent().unwrap().join("elsewhere");
    fs::hard_link(room.path("a"), &elsewhere).unwrap();
    room.try_save().unwrap();
    fs::write(&elsewhere, "two").unwrap();
    assert!(room.checkpointer.is_clean());
    room.checkpointer.scan_everything();
    assert!(!room.checkpointer.is_clean());
    assert_eq!(room.save().unwrap().counts.changed, 1);
}

#[test]
fn the_listening_thread_keeps_the_queue_short() {
    let limit: usize = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap().trim().parse().unwrap();
    let mut room = Room::new();
    room.watcher.listen().unwrap();
    room.begin();
    for number in 0..limit / 8 {
        room.write(&format!("{}/{number}", number % 10), "x");
    }
    assert_eq!(room.save().unwrap().counts.added, (limit / 8) as u64);
    room.assert_clean();
}
