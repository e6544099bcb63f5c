//! A second repository that has what the first has: for other machines, and back.

use crate::blobs;
use crate::fixture::{Files, Home, files, read};
use shellkeep_workspace::blobs::{BlobError, Blobs};
use shellkeep_workspace::repo::{ObjectId, Repo};
use std::path::Path;

fn saved(home: &mut Home, tag: &str, list: &[(&str, &str)], parents: &[ObjectId]) -> (ObjectId, Files) {
    let files = files(list);
    (home.save(tag, &files, parents).unwrap(), files)
}

fn fsck(path: &Path) {
    let output = std::process::Command::new("git").arg("-C").arg(path).args(["fsck", "--strict"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn only_what_is_lacking_is_brought_and_a_pruned_history_is_whole_there() {
    let mut home = Home::new();
    let (one, first) = saved(&mut home, "one", &[("a", "1"), ("b/c", "2")], &[]);
    let (two, second) = saved(&mut home, "two", &[("a", "1"), ("b/c", "2"), ("d", "3")], &[one]);
    home.repo.thin(&[two]).unwrap();
    let mut other = Repo::create(&home.directory.path().join("other.git"), &home.faults).unwrap();
    let all = home.repo.mirror_into(&mut other).unwrap();
    assert_eq!(all.tags, 1);
    assert_eq!(read(&other, two).unwrap(), second);
    assert_eq!(home.repo.mirror_into(&mut other).unwrap(), Default::default());
    // One new file: itself, two directories above it, the commit.
    let (three, third) = saved(&mut home, "three", &[("a", "1"), ("b/c", "2"), ("b/e", "4"), ("d", "3")], &[two]);
    let more = home.repo.mirror_into(&mut other).unwrap();
    assert_eq!((more.tags, more.objects), (1, 4));
    assert_eq!(read(&other, three).unwrap(), third);
    fsck(other.directory());
    // And back, to a repository that has something of its own.
    let mut third_home = Home::new();
    saved(&mut third_home, "own", &[("x", "y")], &[]);
    other.mirror_into(&mut third_home.repo).unwrap();
    assert_eq!(read(&third_home.repo, three).unwrap(), third);
    assert_eq!(third_home.repo.tags().unwrap().len(), 3);
    assert!(!third_home.repo.objects.contains(one), "what was pruned does not come back: {first:?}");
    third_home.fsck();
}

#[test]
fn checkpoints_are_kept_in_a_directory() {
    let directory = tempfile::tempdir().unwrap();
    blobs::checkpoints(|| Blobs::open(directory.path().to_owned()).unwrap());
    assert!(!directory.path().join("s").exists(), "everything was removed");
}

#[test]
fn attached_files_are_kept_in_a_directory() {
    let directory = tempfile::tempdir().unwrap();
    blobs::attached(|| Blobs::open(directory.path().to_owned()).unwrap());
}

#[test]
fn a_directory_is_a_repository_for_git_and_is_not_written_to_if_it_is_not_mounted() {
    let mut home = Home::new();
    let directory = home.directory.path().join("blobs");
    let faults = home.faults.clone();
    let blobs = Blobs::open(directory.clone()).unwrap().of("s", "7");
    saved(&mut home, "one", &[("a", "1")], &[]);
    blobs.put(&home.repo, "2.n2.y", &faults).unwrap();
    let left: Vec<_> =
        std::fs::read_dir(directory.join("s/7")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["2.n2.y-1"]);
    fsck(&directory.join("s/7/2.n2.y-1"));
    std::fs::remove_dir_all(&directory).unwrap();
    std::fs::create_dir(&directory).unwrap();
    assert!(matches!(blobs.put(&home.repo, "2.n2.y", &faults), Err(BlobError::NotThere { .. })));
}
