//! The user's own repositories in a workspace: their files are kept, they themselves are never touched.

use crate::fixture::{Room, git};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

fn bytes_below(directory: &Path, into: &mut BTreeMap<String, Vec<u8>>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            bytes_below(&path, into);
        } else {
            into.insert(path.display().to_string(), fs::read(&path).unwrap());
        }
    }
}

#[test]
fn a_repository_inside_is_kept_as_plain_files_while_git_runs_in_it() {
    let mut room = Room::new();
    room.write("project/src/main.rs", "fn main() {}");
    room.write("project/notes", "not added");
    let project = room.path("project");
    git(&project, &["init", "-q"]);
    git(&project, &["add", "src"]);
    git(&project, &["commit", "-qm", "first"]);
    room.write("project/src/main.rs", "fn main() { }");
    git(&project, &["add", "src"]);
    room.write("other/.git", "gitdir: ../project/.git/worktrees/other\n");
    room.write("other/file", "x");
    fs::write(project.join(".git/hooks/post-checkout"), "#!/bin/sh\ntouch ran\n").unwrap();
    let mut before = BTreeMap::new();
    bytes_below(&project.join(".git"), &mut before);

    let mut running = Command::new("git")
        .current_dir(&project)
        .args(["-c", "safe.directory=*", "cat-file", "--batch"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    room.begin();
    room.save().unwrap();
    let names = room.git(&["ls-tree", "-r", "--name-only", "HEAD"]);
    assert_eq!(names.lines().collect::<Vec<_>>(), ["other/file", "project/notes", "project/src/main.rs"]);
    assert!(!room.git(&["ls-tree", "-r", "HEAD"]).contains("160000"));
    room.write("project/src/main.rs", "fn main() {  }");
    room.save().unwrap();
    drop(running.stdin.take());
    assert!(running.wait().unwrap().success());

    let mut after = BTreeMap::new();
    bytes_below(&project.join(".git"), &mut after);
    assert_eq!(after, before);
    // What git does to its own files is none of a checkpoint's.
    git(&project, &["commit", "-qam", "second"]);
    assert_eq!(room.try_save().unwrap(), None);
    git(&project, &["checkout", "-q", "HEAD~1"]);
    assert_eq!(room.save().unwrap().counts.changed, 1);
}
