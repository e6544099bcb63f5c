//! What is left out, and what stays though a rule would leave it out.

use crate::fixture::{Room, Thing};
use shellkeep_workspace::checkpointer::Counts;
use std::fs;

const CACHE: &str = "Signature: 8a477f597d28d172789f06886806bc55\n# by cargo\n";

fn names(room: &Room) -> Vec<String> {
    let is_file = |(name, thing): (String, Thing)| (!matches!(thing, Thing::Directory { .. })).then_some(name);
    room.kept().into_iter().filter_map(is_file).collect()
}

#[test]
fn folders_that_can_be_made_again_are_neither_kept_nor_watched() {
    let mut room = Room::new();
    for path in ["node_modules/x/y", ".git/config", "a/.git/HEAD", "a/__pycache__/m.pyc", "a/m.pyc", "a/m.py"] {
        room.write(path, "x");
    }
    room.write("target/CACHEDIR.TAG", CACHE);
    room.write("target/debug/program", "x");
    room.write("odd/CACHEDIR.TAG", "not one");
    room.write("env/pyvenv.cfg", "home = /usr/bin");
    room.write("env/bin/python", "x");
    room.write(".shellkeep-stage-1/file", "x");
    room.begin();
    assert!(room.checkpointer.needs_base());
    room.try_save().unwrap().unwrap();
    assert!(!room.checkpointer.needs_base());
    assert_eq!(names(&room), ["/a/m.py", "/odd/CACHEDIR.TAG"]);
    assert_eq!(room.watcher.watches(), 3);
    room.write("target/debug/program", "y");
    room.write("node_modules/x/z", "x");
    room.assert_clean();
    // News of one that is left out are looked at, and are nothing.
    room.write(".git/config", "y");
    fs::create_dir(room.path("a/node_modules")).unwrap();
    assert_eq!(room.try_save().unwrap(), None);
    room.assert_clean();
    // Made while we watch, as cargo does.
    fs::create_dir(room.path("build")).unwrap();
    room.write("build/CACHEDIR.TAG", CACHE);
    room.write("build/a/b", "x");
    assert_eq!(room.try_save().unwrap(), None);
    room.write("build/a/c", "x");
    room.assert_clean();
    // Without the mark it is a directory like others.
    fs::remove_dir_all(room.path("build")).unwrap();
    room.write("build/a/b", "x");
    room.try_save().unwrap().unwrap();
    assert!(names(&room).contains(&"/build/a/b".to_owned()));
    // What is in the repository of checkpoints already stays there; what comes after the mark does not.
    room.write("build/CACHEDIR.TAG", CACHE);
    room.write("build/a/b", "changed");
    room.write("build/a/new", "x");
    assert_eq!(room.try_save().unwrap().unwrap().counts, Counts { added: 0, changed: 1, deleted: 0 });
    room.checkpointer.scan_everything();
    assert_eq!(room.try_save().unwrap(), None);
}

#[test]
fn a_rule_that_changes_changes_what_is_kept_below_it() {
    let mut room = Room::new();
    room.write("a/one.log", "1");
    room.write("a/b/two.log", "2");
    room.begin();
    room.try_save().unwrap().unwrap();
    // Kept before, so kept on; what is new is left out.
    room.write(".gitignore", "*.log\nout/\n!a/b/keep.log\n");
    room.write("a/one.log", "1 again");
    room.write("a/b/three.log", "3");
    room.write("a/b/keep.log", "k");
    room.write("a/b/out/x", "x");
    assert_eq!(room.try_save().unwrap().unwrap().counts, Counts { added: 2, changed: 1, deleted: 0 });
    assert_eq!(names(&room), ["/.gitignore", "/a/b/keep.log", "/a/b/two.log", "/a/one.log"]);
    let watches = room.watcher.watches();
    // Deleted, it is forgotten: the same name is left out when it comes again.
    fs::remove_file(room.path("a/one.log")).unwrap();
    assert_eq!(room.try_save().unwrap().unwrap().counts.deleted, 1);
    room.write("a/one.log", "1");
    assert_eq!(room.try_save().unwrap(), None);
    // The rules go: everything comes in, and is watched.
    fs::remove_file(room.path(".gitignore")).unwrap();
    room.save().unwrap();
    assert_eq!(room.watcher.watches(), watches + 1);
    room.write("a/b/out/x", "y");
    assert_eq!(room.save().unwrap().counts.changed, 1);
    // A rule far below, and one that brings back what our own list leaves out.
    room.write("a/b/.gitignore", "out\n");
    room.write(".gitignore", "!node_modules/\n");
    room.write("node_modules/own.js", "x");
    room.write("a/b/out/y", "new");
    room.write("out/z", "not below it");
    room.try_save().unwrap().unwrap();
    let names = names(&room);
    assert!(names.contains(&"/node_modules/own.js".to_owned()) && names.contains(&"/out/z".to_owned()), "{names:?}");
    assert!(names.contains(&"/a/b/out/x".to_owned()) && !names.contains(&"/a/b/out/y".to_owned()), "{names:?}");
    room.write("a/b/out/x", "z");
    assert_eq!(room.try_save().unwrap().unwrap().counts.changed, 1);
}

#[test]
fn what_was_never_saved_does_not_count_as_kept() {
    let mut room = Room::new();
    room.write("build/a/b", "x");
    room.write("x.log", "x");
    room.begin();
    room.write(".gitignore", "*.log\nbuild/\n");
    room.try_save().unwrap().unwrap();
    assert_eq!(names(&room), ["/.gitignore"]);
    assert_eq!(room.watcher.watches(), 1);
}
