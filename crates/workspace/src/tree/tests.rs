//! Tests of single files: confined, whole, expected, paged.

use super::*;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use tempfile::TempDir;

fn tree() -> (TempDir, Tree) {
    let home = TempDir::new().unwrap();
    fs::create_dir(home.path().join("w")).unwrap();
    fs::write(home.path().join("secret"), "outside").unwrap();
    let tree = Tree::open(&home.path().canonicalize().unwrap().join("w")).unwrap();
    (home, tree)
}

fn put(bytes: &[u8]) -> Put<'_> {
    Put { bytes, mode: None, umask: None, expected: Expected::Anything, power: false }
}

fn read(tree: &Tree, path: &str) -> Result<Vec<u8>, TreeError> {
    tree.read(path.as_bytes(), 0, None, 1 << 20).map(|content| content.bytes)
}

#[test]
fn no_path_leads_out_of_the_workspace() {
    let (home, tree) = tree();
    let workspace = home.path().join("w");
    symlink("../secret", workspace.join("up")).unwrap();
    symlink(home.path().join("secret"), workspace.join("absolute")).unwrap();
    symlink("..", workspace.join("above")).unwrap();
    symlink("/proc/self/root", workspace.join("magic")).unwrap();
    for path in ["up", "absolute", "above/secret", "magic/etc/passwd"] {
        assert!(matches!(read(&tree, path), Err(TreeError::Outside)), "{path}: {:?}", read(&tree, path));
        let written = tree.write(path.as_bytes(), &put(b"x"));
        assert!(matches!(written, Err(TreeError::Outside)), "{path}: {written:?}");
    }
    for path in ["above/new", "above/d/new", "../w2/x"] {
        let written = tree.write(path.as_bytes(), &put(b"x"));
        assert!(matches!(written, Err(TreeError::Outside)), "{path}: {written:?}");
        assert!(matches!(tree.entry(path.as_bytes()), Err(TreeError::Outside)), "{path}");
    }
    assert!(matches!(tree.remove(b"above/secret", true, &Expected::Anything), Err(TreeError::Outside)));
    assert!(matches!(tree.list(b"above/w", b"", 10), Err(TreeError::Outside)));
    assert_eq!(fs::read(home.path().join("secret")).unwrap(), b"outside");
    // The links themselves are the workspace's.
    assert_eq!(tree.entry(b"up").unwrap().target.as_deref(), Some(b"../secret".as_slice()));
    tree.remove(b"above", true, &Expected::Anything).unwrap();
    assert!(home.path().join("secret").exists());
}

/// A directory on the way is swapped for a link and back, as fast as it goes, while files are written through it.
#[test]
fn a_directory_that_becomes_a_link_is_not_followed() {
    let (home, tree) = tree();
    let workspace = home.path().join("w");
    fs::create_dir(home.path().join("prey")).unwrap();
    fs::create_dir(workspace.join("d")).unwrap();
    symlink(home.path().join("prey"), workspace.join("trap")).unwrap();
    let swapping = workspace.clone();
    let attacker = std::thread::spawn(move || {
        let at = rustix::fs::open(&swapping, OFlags::PATH, Mode::empty()).unwrap();
        for _ in 0..20_000 {
            rustix::fs::renameat_with(&at, "d", &at, "trap", rustix::fs::RenameFlags::EXCHANGE).unwrap();
        }
    });
    let mut written = 0;
    while !attacker.is_finished() {
        written += usize::from(tree.write(b"d/file", &put(b"x")).is_ok());
    }
    attacker.join().unwrap();
    assert_eq!(fs::read_dir(home.path().join("prey")).unwrap().count(), 0, "{written} were written");
}

/// A link that was a file by the time it was read was an error of the server's.
#[test]
fn a_link_that_becomes_a_file_is_looked_at_again() {
    let (home, tree) = tree();
    let workspace = home.path().join("w");
    fs::write(workspace.join("file"), "x").unwrap();
    symlink("file", workspace.join("link")).unwrap();
    let swapping = workspace.clone();
    let attacker = std::thread::spawn(move || {
        let at = rustix::fs::open(&swapping, OFlags::PATH, Mode::empty()).unwrap();
        for _ in 0..20_000 {
            rustix::fs::renameat_with(&at, "file", &at, "link", rustix::fs::RenameFlags::EXCHANGE).unwrap();
        }
    });
    while !attacker.is_finished() {
        let is_whole = |entry: &Entry| (entry.kind == EntryKind::Symlink) == entry.target.is_some();
        match tree.entry(b"link") {
            Ok(entry) => assert!(is_whole(&entry), "{entry:?}"),
            Err(error) => assert!(matches!(error, TreeError::Unsteady), "{error:?}"),
        }
        match tree.list(b"", b"", 10) {
            Ok((entries, _)) => assert!(entries.iter().all(is_whole), "{entries:?}"),
            Err(error) => assert!(matches!(error, TreeError::Unsteady), "{error:?}"),
        }
    }
    attacker.join().unwrap();
}

#[test]
fn a_file_is_written_as_a_whole_and_keeps_its_permissions() {
    let (home, tree) = tree();
    let workspace = home.path().join("w");
    let written = tree.write(b"a/b/c.txt", &put(b"one")).unwrap();
    assert!(written.is_new);
    let path = workspace.join("a/b/c.txt");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o751)).unwrap();
    assert!(!tree.write(b"a/b/c.txt", &put(b"two")).unwrap().is_new);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o751);
    // Not what makes it run as its owner, who may be root.
    tree.write(b"a/b/c.txt", &Put { mode: Some(0o6600), ..put(b"three") }).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o600);
    assert_eq!(fs::read_dir(workspace.join("a/b")).unwrap().count(), 1, "something was left beside it");
    // A link in the workspace is written through.
    symlink("a/b/c.txt", workspace.join("link")).unwrap();
    tree.write(b"link", &put(b"four")).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"four");
    assert!(workspace.join("link").is_symlink());
    symlink("nothing", workspace.join("dangling")).unwrap();
    assert!(matches!(tree.write(b"dangling", &put(b"x")), Err(TreeError::Dangling)));
    assert!(matches!(read(&tree, "dangling"), Err(TreeError::Dangling)));
    assert!(matches!(tree.write(b"a", &put(b"x")), Err(TreeError::IsDirectory)));
    assert!(matches!(tree.write(b"dangling/x", &put(b"x")), Err(TreeError::NotFound)));
}

/// The daemon's own umask is narrower than that of the session whose file it is.
#[test]
fn new_files_and_directories_get_the_umask_that_is_given() {
    let (home, tree) = tree();
    let workspace = home.path().join("w");
    let mode = |path: &str| fs::metadata(workspace.join(path)).unwrap().permissions().mode() & 0o7777;
    fs::set_permissions(&workspace, fs::Permissions::from_mode(0o2755)).unwrap();
    for (umask, file, directory) in [(0o022, 0o644, 0o2755), (0o002, 0o664, 0o2775), (0o077, 0o600, 0o2700)] {
        let path = format!("{umask:o}/d/f");
        let of = Put { umask: Some(umask), ..put(b"x") };
        tree.write(path.as_bytes(), &of).unwrap();
        let found = (mode(&path), mode(&format!("{umask:o}")), mode(&format!("{umask:o}/d")));
        assert_eq!(found, (file, directory, directory), "{umask:o}");
        // What is there keeps its own, and what is asked for is given.
        fs::set_permissions(workspace.join(&path), fs::Permissions::from_mode(0o751)).unwrap();
        tree.write(path.as_bytes(), &of).unwrap();
        assert_eq!(mode(&path), 0o751);
        tree.write(path.as_bytes(), &Put { mode: Some(0o666), ..of }).unwrap();
        assert_eq!(mode(&path), 0o666);
    }
}

#[test]
fn what_is_on_the_way_is_named() {
    let (home, tree) = tree();
    let workspace = home.path().join("w");
    fs::create_dir(workspace.join("d")).unwrap();
    fs::write(workspace.join("d/file"), "x").unwrap();
    for path in ["d/file/a", "d/file/a/b/c"] {
        let written = tree.write(path.as_bytes(), &put(b"x"));
        assert!(matches!(&written, Err(TreeError::NotADirectory { above }) if above == b"d/file"), "{written:?}");
        assert!(matches!(read(&tree, path), Err(TreeError::NotFound)), "{path}");
    }
    symlink("loop", workspace.join("loop")).unwrap();
    let long = "n".repeat(300);
    for path in ["loop", "loop/x"] {
        assert!(matches!(tree.write(path.as_bytes(), &put(b"x")), Err(TreeError::LinkLoop)), "{path}");
        assert!(matches!(read(&tree, path), Err(TreeError::LinkLoop)), "{path}");
    }
    assert!(matches!(read(&tree, &long), Err(TreeError::NameTooLong)));
    assert!(matches!(tree.entry(long.as_bytes()), Err(TreeError::NameTooLong)));
    assert!(matches!(tree.remove(long.as_bytes(), true, &Expected::Anything), Err(TreeError::NameTooLong)));
}

#[test]
fn a_file_that_is_not_written_leaves_no_directories() {
    let (home, tree) = tree();
    let workspace = home.path().join("w");
    fs::create_dir(workspace.join("p")).unwrap();
    let long = "n".repeat(300);
    for path in [format!("p/q/r/{long}"), format!("p/q/{long}/f"), format!("a/b/{long}")] {
        let written = tree.write(path.as_bytes(), &put(b"x"));
        assert!(matches!(written, Err(TreeError::NameTooLong)), "{path}: {written:?}");
    }
    let expected = Expected::Sha256(sha256(b"old"));
    let written = tree.write(b"p/q/r/f", &Put { expected, ..put(b"x") });
    assert!(matches!(written, Err(TreeError::Unexpected { current: None })), "{written:?}");
    assert_eq!(fs::read_dir(workspace.join("p")).unwrap().count(), 0);
    assert_eq!(fs::read_dir(&workspace).unwrap().count(), 1);
    tree.write(b"p/q/r/f", &Put { expected: Expected::Nothing, ..put(b"x") }).unwrap();
    assert_eq!(read(&tree, "p/q/r/f").unwrap(), b"x");
}

#[test]
fn a_file_is_written_only_over_what_is_expected() {
    let (_home, tree) = tree();
    let expecting = |expected| Put { expected, ..put(b"new") };
    let missing = tree.write(b"f", &expecting(Expected::Sha256(sha256(b"old"))));
    assert!(matches!(missing, Err(TreeError::Unexpected { current: None })), "{missing:?}");
    tree.write(b"f", &Put { bytes: b"old", ..expecting(Expected::Nothing) }).unwrap();
    let there = tree.write(b"f", &expecting(Expected::Nothing));
    assert!(matches!(&there, Err(TreeError::Unexpected { current: Some(hash) }) if *hash == sha256(b"old")));
    let other = tree.write(b"f", &expecting(Expected::Sha256(sha256(b"other"))));
    assert!(matches!(other, Err(TreeError::Unexpected { .. })));
    assert_eq!(read(&tree, "f").unwrap(), b"old");
    tree.write(b"f", &expecting(Expected::Sha256(sha256(b"old")))).unwrap();
    assert_eq!(read(&tree, "f").unwrap(), b"new");
    tree.write(b"f", &Put { bytes: b"any", ..expecting(Expected::Something) }).unwrap();
    assert_eq!(read(&tree, "f").unwrap(), b"any");
    for path in ["none", "d/none"] {
        let missing = tree.write(path.as_bytes(), &expecting(Expected::Something));
        assert!(matches!(missing, Err(TreeError::Unexpected { current: None })), "{path}: {missing:?}");
    }
    assert_eq!(tree.list(b"", b"", 10).unwrap().0.len(), 1);
}

/// Of writers that all expect the same, one wins each round, and what it wrote is there.
#[test]
fn one_of_many_writers_wins() {
    let (_home, tree) = tree();
    tree.write(b"f", &put(b"0")).unwrap();
    for _ in 0..50 {
        let before = tree.read(b"f", 0, None, 100).unwrap().sha256.unwrap();
        let bodies: Vec<String> = (0..4).map(|number| format!("{number} {before}")).collect();
        let won: Vec<&String> = std::thread::scope(|scope| {
            let (tree, before) = (&tree, &before);
            let writers: Vec<_> = bodies
                .iter()
                .map(|body| {
                    scope.spawn(move || {
                        let expected = Expected::Sha256(before.clone());
                        let written = tree.write(b"f", &Put { expected, ..put(body.as_bytes()) });
                        written.is_ok().then_some(body)
                    })
                })
                .collect();
            writers.into_iter().filter_map(|writer| writer.join().unwrap()).collect()
        });
        assert_eq!(won.len(), 1, "{won:?}");
        assert_eq!(read(&tree, "f").unwrap(), won[0].as_bytes());
    }
}

/// A removal removed whatever was there, also what somebody had written since the caller read it.
#[test]
fn a_file_is_removed_only_if_it_is_expected() {
    let (home, tree) = tree();
    let workspace = home.path().join("w");
    let remove = |path: &str, expected: Expected| tree.remove(path.as_bytes(), true, &expected);
    let hash = |text: &str| Expected::Sha256(sha256(text.as_bytes()));
    fs::write(workspace.join("f"), "new").unwrap();
    fs::create_dir(workspace.join("d")).unwrap();
    symlink("f", workspace.join("link")).unwrap();
    symlink("none", workspace.join("dangling")).unwrap();
    let other = |path: &str| match remove(path, hash("old")) {
        Err(TreeError::Unexpected { current }) => current,
        removed => panic!("{path}: {removed:?}"),
    };
    assert_eq!((other("f"), other("link")), (Some(sha256(b"new")), Some(sha256(b"new"))));
    assert_eq!((other("d"), other("dangling")), (None, None));
    assert!(matches!(remove("f", Expected::Nothing), Err(TreeError::Unexpected { current: Some(_) })));
    // That was a 404, and a 412 only for one that went away meanwhile.
    for expected in [hash("old"), Expected::Something] {
        assert!(matches!(remove("none", expected), Err(TreeError::Unexpected { current: None })));
    }
    assert!(matches!(remove("none", Expected::Anything), Err(TreeError::NotFound)));
    assert_eq!(tree.list(b"", b"", 10).unwrap().0.len(), 4, "something was removed, or left beside it");
    remove("link", hash("new")).unwrap();
    assert_eq!(read(&tree, "f").unwrap(), b"new");
    remove("f", hash("new")).unwrap();
    assert_eq!(tree.list(b"", b"", 10).unwrap().0.len(), 2, "something was left beside it");
}

/// Of a caller who removes what it has read and one who writes something new, the file of the second is there in the end.
#[test]
fn what_is_written_meanwhile_is_not_removed() {
    let (home, tree) = tree();
    let workspace = home.path().join("w");
    for round in 0..500 {
        tree.write(b"f", &put(b"old")).unwrap();
        fs::write(workspace.join("new"), format!("{round}")).unwrap();
        std::thread::scope(|scope| {
            let remover = scope.spawn(|| tree.remove(b"f", false, &Expected::Sha256(sha256(b"old"))));
            fs::rename(workspace.join("new"), workspace.join("f")).unwrap();
            let removed = remover.join().unwrap();
            let is_known = matches!(removed, Ok(()) | Err(TreeError::Unexpected { .. }));
            assert!(is_known, "{round}: {removed:?}");
        });
        assert_eq!(read(&tree, "f").unwrap(), format!("{round}").as_bytes(), "{round}");
    }
    assert_eq!(tree.list(b"", b"", 10).unwrap().0.len(), 1, "something was left beside it");
}

#[test]
fn directories_are_listed_a_page_at_a_time() {
    let (home, tree) = tree();
    let workspace = home.path().join("w");
    for name in ["b", "a", "d", "c", "e"] {
        fs::write(workspace.join(name), name).unwrap();
    }
    fs::create_dir(workspace.join("sub")).unwrap();
    fs::write(workspace.join("sub/x"), "").unwrap();
    let names =
        |entries: &[Entry]| entries.iter().map(|e| String::from_utf8(e.path.clone()).unwrap()).collect::<Vec<_>>();
    let (first, more) = tree.list(b"", b"", 2).unwrap();
    assert_eq!((names(&first), more), (vec!["a".to_owned(), "b".to_owned()], true));
    let (rest, more) = tree.list(b"", b"b", 10).unwrap();
    assert_eq!((names(&rest).join(" "), more), ("c d e sub".to_owned(), false));
    assert_eq!(names(&tree.list(b"sub", b"", 10).unwrap().0), ["sub/x"]);
    assert_eq!((rest[3].kind, first[0].size, first[0].kind), (EntryKind::Directory, 1, EntryKind::File));
    assert_eq!(tree.entry(b"").unwrap().kind, EntryKind::Directory);
    assert!(matches!(tree.list(b"a", b"", 10), Err(TreeError::NotFound)));
}

#[test]
fn parts_of_a_file_are_read_and_large_ones_only_in_parts() {
    let (home, tree) = tree();
    fs::write(home.path().join("w/f"), "0123456789").unwrap();
    let part = tree.read(b"f", 3, Some(4), 100).unwrap();
    assert_eq!((part.bytes.as_slice(), part.size, part.sha256), (b"3456".as_slice(), 10, None));
    assert_eq!(tree.read(b"f", 0, Some(99), 100).unwrap().sha256, Some(sha256(b"0123456789")));
    assert_eq!(tree.read(b"f", 99, None, 100).unwrap().bytes, b"");
    assert!(matches!(tree.read(b"f", 0, None, 9), Err(TreeError::TooLarge { size: 10 })));
    assert_eq!(tree.read(b"f", 1, None, 9).unwrap().bytes, b"123456789");
    assert!(matches!(read(&tree, "none"), Err(TreeError::NotFound)));
    assert!(matches!(read(&tree, ""), Err(TreeError::IsDirectory)));
    // A pipe is not waited for.
    rustix::fs::mknodat(rustix::fs::CWD, home.path().join("w/pipe"), FileType::Fifo, Mode::from_raw_mode(0o600), 0)
        .unwrap();
    assert!(matches!(read(&tree, "pipe"), Err(TreeError::NotAFile)));
    assert!(matches!(tree.write(b"pipe", &put(b"x")), Err(TreeError::NotAFile)));
}

#[test]
fn what_is_removed_is_the_name_and_not_what_it_points_to() {
    let (home, tree) = tree();
    let workspace = home.path().join("w");
    fs::create_dir_all(workspace.join("d/e")).unwrap();
    fs::write(workspace.join("d/f"), "").unwrap();
    symlink(home.path(), workspace.join("d/e/out")).unwrap();
    assert!(matches!(tree.remove(b"d", false, &Expected::Anything), Err(TreeError::NotEmpty)));
    tree.remove(b"d/f", false, &Expected::Anything).unwrap();
    tree.remove(b"d", true, &Expected::Anything).unwrap();
    assert!(home.path().join("secret").exists() && !workspace.join("d").exists());
    assert!(matches!(tree.remove(b"d", true, &Expected::Anything), Err(TreeError::NotFound)));
}
