//! A second repository that has what the first has: for other machines, and back.

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
fn a_claim_has_folders_of_its_own_and_pruned_checkpoints_leave_them() {
    let mut home = Home::new();
    let directory = home.directory.path().join("blobs");
    let faults = home.faults.clone();
    let blobs = Blobs::open(directory.clone()).unwrap().of("s", "7");
    let (one, first) = saved(&mut home, "one", &[("a", "secret")], &[]);
    assert_eq!(blobs.put(&home.repo, "1.n1.x", &faults).unwrap(), "1.n1.x-1");
    assert_eq!(read(&blobs.find(one, None, &faults).unwrap().unwrap(), one).unwrap(), first);
    let (two, second) = saved(&mut home, "two", &[("a", "plain")], &[one]);
    assert_eq!(blobs.put(&home.repo, "1.n1.x", &faults).unwrap(), "1.n1.x-1");
    // A folder is written anew without what was purged, and the old one goes when the new one is noted.
    home.repo.thin(&[two]).unwrap();
    assert_eq!(blobs.put(&home.repo, "1.n1.x", &faults).unwrap(), "1.n1.x-2");
    assert!(blobs.find(one, Some("1.n1.x-1"), &faults).unwrap().is_some());
    blobs.tidy("1.n1.x-2", &faults).unwrap();
    assert!(blobs.find(one, Some("1.n1.x-1"), &faults).unwrap().is_none());
    assert_eq!(read(&blobs.find(two, Some("1.n1.x-2"), &faults).unwrap().unwrap(), two).unwrap(), second);
    // The next owner's folder replaces it only with all of its checkpoints.
    let mut next = Home::new();
    saved(&mut next, "three", &[("b", "new")], &[]);
    assert_eq!(blobs.put(&next.repo, "2.n2.y", &faults).unwrap(), "2.n2.y-1");
    blobs.tidy("2.n2.y-1", &faults).unwrap();
    assert!(blobs.find(two, None, &faults).unwrap().is_some());
    blobs.find(two, None, &faults).unwrap().unwrap().mirror_into(&mut next.repo).unwrap();
    blobs.put(&next.repo, "2.n2.y", &faults).unwrap();
    blobs.tidy("2.n2.y-1", &faults).unwrap();
    let left: Vec<_> =
        std::fs::read_dir(directory.join("s/7")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["2.n2.y-1"]);
    fsck(&directory.join("s/7/2.n2.y-1"));
    blobs.remove().unwrap();
    assert!(!directory.join("s").exists());
    // A file system that is not mounted is not written to.
    std::fs::remove_dir_all(&directory).unwrap();
    std::fs::create_dir(&directory).unwrap();
    assert!(matches!(blobs.put(&next.repo, "2.n2.y", &faults), Err(BlobError::NotThere { .. })));
}
