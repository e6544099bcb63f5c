//! What every place for blobs does, whether it is a directory or a store of objects.

use crate::fixture::{Files, Home, files, read};
use shellkeep_workspace::blobs::Blobs;
use shellkeep_workspace::repo::ObjectId;
use std::fs;

fn saved(home: &mut Home, tag: &str, list: &[(&str, &str)], parents: &[ObjectId]) -> (ObjectId, Files) {
    let files = files(list);
    (home.save(tag, &files, parents).unwrap(), files)
}

/// A claim has folders of its own, and pruned checkpoints leave them. `open` opens the place as a node does that just started.
pub fn checkpoints(open: impl Fn() -> Blobs) {
    let (mut home, first_node) = (Home::new(), open().of("s", "7"));
    let faults = home.faults.clone();
    // What another node finds.
    let found = |commit: ObjectId, noted: Option<&str>| {
        let there = open().of("s", "7").find(commit, noted, &faults).unwrap();
        there.map(|there| (read(&there, commit).unwrap(), there.tags().unwrap().len()))
    };
    let (one, first) = saved(&mut home, "one", &[("a", "secret")], &[]);
    assert_eq!(found(one, None), None);
    assert_eq!(first_node.put(&home.repo, "1.n1.x", &faults).unwrap(), "1.n1.x-1");
    assert_eq!(found(one, None), Some((first.clone(), 1)));
    let (two, second) = saved(&mut home, "two", &[("a", "plain"), ("b/c", "more")], &[one]);
    assert_eq!(first_node.put(&home.repo, "1.n1.x", &faults).unwrap(), "1.n1.x-1");
    assert_eq!(found(two, Some("1.n1.x-1")), Some((second.clone(), 2)));
    // The node is started again, and goes on in the same folder.
    let first_node = open().of("s", "7");
    let (three, third) = saved(&mut home, "three", &[("a", "plain"), ("d", "last")], &[two]);
    assert_eq!(first_node.put(&home.repo, "1.n1.x", &faults).unwrap(), "1.n1.x-1");
    assert_eq!(found(three, None), Some((third.clone(), 3)));
    // A folder is written anew without what was purged, and the old one goes when the new one is noted.
    home.repo.thin(&[two, three]).unwrap();
    assert_eq!(first_node.put(&home.repo, "1.n1.x", &faults).unwrap(), "1.n1.x-2");
    assert_eq!(found(one, Some("1.n1.x-1")), Some((first, 3)));
    first_node.tidy("1.n1.x-2", &faults).unwrap();
    assert_eq!(found(one, Some("1.n1.x-1")), None);
    assert_eq!(found(two, Some("1.n1.x-2")), Some((second.clone(), 2)));
    // The next owner's folder replaces it only with all of its checkpoints.
    let (mut next, second_node) = (Home::new(), open().of("s", "7"));
    saved(&mut next, "four", &[("b", "new")], &[]);
    assert_eq!(second_node.put(&next.repo, "2.n2.y", &faults).unwrap(), "2.n2.y-1");
    second_node.tidy("2.n2.y-1", &faults).unwrap();
    assert_eq!(found(two, None), Some((second.clone(), 2)));
    second_node.find(two, None, &faults).unwrap().unwrap().mirror_into(&mut next.repo).unwrap();
    second_node.put(&next.repo, "2.n2.y", &faults).unwrap();
    second_node.tidy("2.n2.y-1", &faults).unwrap();
    assert_eq!(found(two, Some("1.n1.x-2")), Some((second, 3)), "in the new folder");
    // A node was stopped before it tidied, and another one has the same checkpoints by now: its folder was removed.
    let third_node = open().of("s", "7");
    assert_eq!(third_node.put(&next.repo, "3.n3.z", &faults).unwrap(), "3.n3.z-1");
    second_node.tidy("2.n2.y-1", &faults).unwrap();
    let noted = third_node.find(two, Some("3.n3.z-1"), &faults).unwrap().unwrap();
    assert!(noted.directory().ends_with("3.n3.z-1"), "{}", noted.directory().display());
    // Another session of the name has a part of its own.
    assert!(open().of("s", "8").find(two, None, &faults).unwrap().is_none());
    second_node.remove().unwrap();
    assert_eq!(found(two, None), None);
}

/// Files that records name are found by their hashes, by all nodes.
pub fn attached(open: impl Fn() -> Blobs) {
    let here = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = here.path().join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let session = open().of("s", "7");
    let large = "x".repeat(3 << 20);
    for _ in 0..2 {
        session.attach(&file("r1.out", &large), "aa", "1.n1.x").unwrap();
        session.attach(&file("state", "two"), "bb", "1.n1.x").unwrap();
    }
    let to = here.path().join("back/of/it");
    assert!(open().bring_attached("s", "aa", &to).unwrap());
    assert_eq!(fs::read_to_string(&to).unwrap(), large);
    assert!(!open().bring_attached("s", "cc", &here.path().join("none")).unwrap());
    assert!(!open().bring_attached("t", "aa", &here.path().join("none")).unwrap());
    let all = here.path().join("all");
    fs::create_dir(&all).unwrap();
    open().bring_all_attached("s", &all).unwrap();
    assert_eq!(fs::read_to_string(all.join("state")).unwrap(), "two");
    assert_eq!(fs::read_dir(&all).unwrap().count(), 2);
    open().detach("s", &["state".to_owned()]).unwrap();
    assert!(!open().bring_attached("s", "bb", &here.path().join("none")).unwrap());
    session.detach_all().unwrap();
    assert!(!open().bring_attached("s", "aa", &here.path().join("none")).unwrap());
}
