//! Differences, and patches that `git apply` takes.

use crate::fixture::{FILE, Files, Home, SCRIPT, files, git_in, read, run};
use shellkeep_workspace::diff::{self, ChangeKind, PatchOptions};
use shellkeep_workspace::repo::Kind;

const BINARY: PatchOptions = PatchOptions { context: 3, max_bytes: 8 << 20, binary: true };

/// Applies the patch from one to the other with the real git, both ways, and compares.
fn check(old: &Files, new: &Files) -> String {
    let mut home = Home::new();
    let from = home.save("old", old, &[]).unwrap();
    let to = home.save("new", new, &[from]).unwrap();
    let changes = diff::trees(&home.repo, Some(from), to).unwrap();
    let scratch = home.directory.path().join("scratch");
    std::fs::create_dir(&scratch).unwrap();
    run(git_in(&scratch).args(["init", "-q"]));
    let alternates = scratch.join(".git/objects/info/alternates");
    std::fs::write(&alternates, format!("{}\n", home.path().join("objects").display())).unwrap();
    let mut text = String::new();
    for changes in [changes.clone(), diff::pair_renames(changes)] {
        let patch = diff::patch(&home.repo, &changes, BINARY).unwrap();
        text = String::from_utf8_lossy(&patch.text).into_owned();
        let file = home.directory.path().join("patch");
        std::fs::write(&file, &patch.text).unwrap();
        let file = file.to_str().unwrap();
        let tree = |commit: &str| home.git(&["rev-parse", &format!("{commit}^{{tree}}")]).trim().to_owned();
        run(git_in(&scratch).args(["read-tree", &tree("old")]));
        if !patch.text.is_empty() {
            run(git_in(&scratch).args(["apply", "--cached", "--whitespace=nowarn", file]));
        }
        assert_eq!(listing(&scratch), home.git_bytes(&["ls-tree", "-r", "-z", "new"]), "{patch:?}");
        // Git itself gets a link that became a file wrong when it takes its own patch back.
        if changes.iter().any(|change| change.kind == ChangeKind::TypeChanged) {
            continue;
        }
        if !patch.text.is_empty() {
            run(git_in(&scratch).args(["apply", "--cached", "-R", "--whitespace=nowarn", file]));
        }
        assert_eq!(listing(&scratch), home.git_bytes(&["ls-tree", "-r", "-z", "old"]));
    }
    assert_eq!(read(&home.repo, to).unwrap(), *new);
    text
}

fn listing(scratch: &std::path::Path) -> Vec<u8> {
    let tree = run(git_in(scratch).arg("write-tree"));
    run(git_in(scratch).args(["ls-tree", "-r", "-z", String::from_utf8_lossy(&tree).trim()]))
}

fn with(files: &Files, path: &[u8], kind: Kind, bytes: &[u8]) -> Files {
    let mut files = files.clone();
    files.insert(path.to_vec(), (kind, bytes.to_vec()));
    files
}

#[test]
fn text_with_and_without_an_end() {
    let many: String = (0..200).map(|line| format!("line {line}\n")).collect();
    let changed = many.replace("line 10\n", "").replace("line 90\n", "x\ny\n").replace("line 95\n", "line 95!\n");
    check(&files(&[("a", &many)]), &files(&[("a", &changed)]));
    check(&files(&[("a", "one\ntwo")]), &files(&[("a", "one\ntwo\n")]));
    check(&files(&[("a", "one\ntwo\n")]), &files(&[("a", "one\n2")]));
    check(&files(&[("a", "no end"), ("b", "")]), &files(&[("a", "no end\nmore"), ("b", "filled\n"), ("c", "")]));
    check(&files(&[("gone", "a\nb\n"), ("stays", "1\n"), ("empty", "")]), &files(&[("stays", "1\n")]));
    let text = check(&files(&[("with space/a b", "1\n")]), &files(&[("with space/a b", "2\n"), ("c r", "a\r\nb\rc")]));
    assert!(text.contains("--- a/with space/a b\t\n"));
}

#[test]
fn modes_links_renames_and_bytes() {
    let base = files(&[("run", "#!/bin/sh\n"), ("a", "one\ntwo\nthree\n"), ("dir/x", "x\n")]);
    check(&base, &with(&base, b"run", SCRIPT, b"#!/bin/sh\n"));
    check(&base, &with(&base, b"run", SCRIPT, b"#!/bin/bash\n"));
    check(&base, &with(&base, b"link", Kind::Link, b"dir/x"));
    check(&with(&base, b"link", Kind::Link, b"a"), &with(&base, b"link", Kind::Link, b"run"));
    check(&base, &with(&base, b"a", Kind::Link, b"dir"));
    check(&with(&base, b"a", Kind::Link, b"dir"), &base);
    let bytes: Vec<u8> = (0..5000u32).map(|n| ((n * n) >> 3) as u8).collect();
    let text = check(&base, &with(&base, b"bin", FILE, &bytes));
    assert!(text.contains("GIT binary patch\nliteral 5000\n"));
    check(&with(&base, b"bin", FILE, &bytes), &with(&base, b"bin", FILE, &bytes[..77]));
    check(&with(&base, b"bin", FILE, b"\0"), &with(&base, b"bin", FILE, b"text now\n"));
    let mut moved = base.clone();
    let file = moved.remove(&b"a"[..]).unwrap();
    moved.insert(b"dir/moved".to_vec(), file);
    assert!(check(&base, &moved).contains("similarity index 100%\nrename from a\nrename to dir/moved\n"));
    // A directory becomes a file and back; empty directories are passed over.
    let mut flat = files(&[("dir", "a file now\n")]);
    flat.insert(b"hollow".to_vec(), (Kind::Directory, Vec::new()));
    check(&base, &flat);
    check(&flat, &base);
}

#[test]
fn odd_names() {
    let odd: [&[u8]; 6] =
        [b"new\nline", b"\"quoted\" \\ back", b"\xff\xfe bytes", "ünïcode".as_bytes(), b"tab\there", b" lead"];
    let old: Files = odd.iter().map(|name| (name.to_vec(), (FILE, b"old\n".to_vec()))).collect();
    let new: Files = odd.iter().map(|name| (name.to_vec(), (FILE, b"new\n".to_vec()))).collect();
    check(&old, &new);
    check(&old, &Files::new());
    check(&Files::new(), &new);
    let moved: Files = odd.iter().map(|name| ([b"to/", *name].concat(), (FILE, [b"old\n", *name].concat()))).collect();
    let from: Files = odd.iter().map(|name| (name.to_vec(), (FILE, [b"old\n", *name].concat()))).collect();
    check(&from, &moved);
}

#[test]
fn changes_say_what_happened() {
    let mut home = Home::new();
    let mut old = files(&[("same/deep/a", "1"), ("b", "2"), ("c", "3"), ("d/e", "4"), ("f/only", "5"), ("g", "6")]);
    old.insert(b"hollow".to_vec(), (Kind::Directory, Vec::new()));
    let mut new = files(&[("same/deep/a", "1"), ("b", "two"), ("hollow/full", "7"), ("d", "now a file"), ("new", "3")]);
    new.insert(b"f".to_vec(), (Kind::Directory, Vec::new()));
    new.insert(b"g".to_vec(), (Kind::Link, b"6".to_vec()));
    let from = home.save("old", &old, &[]).unwrap();
    let to = home.save("new", &new, &[from]).unwrap();
    let changes = diff::trees(&home.repo, Some(from), to).unwrap();
    let told: Vec<(&str, ChangeKind)> =
        changes.iter().map(|change| (std::str::from_utf8(&change.path).unwrap(), change.kind)).collect();
    use ChangeKind::{Added, Changed, Deleted, TypeChanged};
    let expected = [
        ("b", Changed),
        ("c", Deleted),
        ("d", Added),
        ("d/e", Deleted),
        ("f", Added),
        ("f/only", Deleted),
        ("g", TypeChanged),
        ("hollow", Deleted),
        ("hollow/full", Added),
        ("new", Added),
    ];
    assert_eq!(told, expected);
    let paired = diff::pair_renames(changes);
    assert_eq!(paired.len(), expected.len() - 1);
    assert_eq!(paired.last().unwrap().renamed_from.as_deref(), Some(&b"c"[..]));
    let all = diff::trees(&home.repo, None, from).unwrap();
    assert_eq!(all.len(), old.len());
    let patch = diff::patch(&home.repo, &all, PatchOptions { max_bytes: 400, ..PatchOptions::default() }).unwrap();
    assert!(patch.text.len() <= 400 && patch.left_out > 0);
    assert_eq!(patch.files.len() as u64 + patch.left_out, 6);
}

#[test]
fn the_history_of_a_path() {
    let mut home = Home::new();
    let steps = [
        files(&[("d/a", "1"), ("b", "1")]),
        files(&[("d/a", "1"), ("b", "2")]),
        files(&[("d/a", "2"), ("b", "2")]),
        files(&[("b", "2")]),
        files(&[("d/a", "2"), ("b", "3")]),
    ];
    let commits: Vec<_> = steps.iter().map(|step| home.save("step", step, &[]).unwrap()).collect();
    let places = |path: &[u8]| -> Vec<(usize, bool)> {
        let history = diff::history(&home.repo, &commits, path).unwrap();
        history.into_iter().map(|(place, side)| (place, side.is_some())).collect()
    };
    assert_eq!(places(b"d/a"), [(0, true), (2, true), (3, false), (4, true)]);
    assert_eq!(places(b"d"), places(b"d/a"));
    assert_eq!(places(b"b"), [(0, true), (1, true), (4, true)]);
    assert_eq!(places(b"b/none"), []);
    assert_eq!(places(b"").len(), 5);
    let entry = diff::entry(&home.repo, commits[0], b"d/a").unwrap().unwrap();
    assert_eq!(home.repo.objects.read_blob(entry.id, None).unwrap(), b"1");
}
