//! What is written is what git reads.

use crate::fixture::{FILE, Files, Home, SCRIPT, files, git_in, read, run, unfinished, write};
use shellkeep_workspace::repo::{Author, Commit, Entry, Kind, Repo, RepoError, hash_blob};
use std::io::{Seek as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;

/// One of each: kinds, odd names, depth, nothing in it.
fn odd_files() -> Files {
    let mut odd = files(&[("a.txt", "text\n"), ("deep/er/still/file", "x"), ("a", ""), ("a-b/c", "1"), ("a.b/c", "2")]);
    odd.insert(b"run.sh".to_vec(), (SCRIPT, b"#!/bin/sh\n".to_vec()));
    odd.insert(b"link".to_vec(), (Kind::Link, b"deep/er".to_vec()));
    odd.insert(b"new\nline \"quoted\" \\ \xff\xfe".to_vec(), (FILE, b"\0binary\xff".to_vec()));
    odd.insert(b"empty".to_vec(), (Kind::Directory, Vec::new()));
    odd.insert(b"deep/empty too".to_vec(), (Kind::Directory, Vec::new()));
    odd.insert(b"sub/.gitmodules".to_vec(), (FILE, b"[submodule \"x/../y\"]\n url = -evil\n broken".to_vec()));
    odd.insert(b".gitattributes".to_vec(), (FILE, b"* text eol=crlf ident\n".to_vec()));
    odd.insert(b"dollar".to_vec(), (FILE, b"$Id$\nx\r\ny\n".to_vec()));
    odd
}

/// Names that git would refuse.
fn refused_names() -> Files {
    let names: [&[u8]; 7] = [b"n/.GIT/config", b"git~1", b".git ", b"%41", b"w\\.git", b"n/\xe2\x80\x8c.git", b"%"];
    let mut refused: Files = names.iter().map(|name| (name.to_vec(), (FILE, name.to_vec()))).collect();
    refused.insert(b".gitmodules".to_vec(), (Kind::Link, b"elsewhere".to_vec()));
    refused
}

#[test]
fn git_reads_what_was_written_and_finds_no_fault() {
    let mut home = Home::new();
    let first = home.save("base_1", &odd_files(), &[]).unwrap();
    let second = home.save("tool_bash_2", &files(&[("only", "this\n")]), &[first]).unwrap();
    home.save("tool_bash_2", &odd_files(), &[first]).unwrap();
    home.fsck();
    assert_eq!(home.git(&["tag", "--list"]), "base_1\ntool_bash_2\ntool_bash_2-2\n");
    assert_eq!(home.git(&["show", "base_1:deep/er/still/file"]), "x");
    assert_eq!(home.git(&["log", "--graph", "--all", "--format=%an <%ae> %s %ct"]).lines().count(), 4);
    assert!(home.git(&["log", "--format=%B", "-1"]).starts_with("checkpoint\n\nof "), "HEAD is the last one");
    assert_eq!(home.git(&["rev-parse", "tool_bash_2"]).trim(), second.to_string());
    home.reopen();
    assert_eq!(read(&home.repo, first).unwrap(), odd_files());
    assert_eq!(home.repo.find("tool_bash_2").unwrap(), Some(second));
    assert_eq!(home.repo.find(&second.to_string()[..8]).unwrap(), Some(second));
    assert_eq!(home.repo.find("no such").unwrap(), None);
}

#[test]
fn git_checks_out_the_bytes_as_they_were() {
    let mut home = Home::new();
    let mut all = odd_files();
    all.extend(refused_names());
    let commit = home.save("base", &all, &[]).unwrap();
    home.fsck();
    assert_eq!(read(&home.repo, commit).unwrap(), all);
    let scratch = home.directory.path().join("scratch");
    std::fs::create_dir(&scratch).unwrap();
    let work_tree = format!("--work-tree={}", scratch.display());
    let git_dir = format!("--git-dir={}", home.path().display());
    run(git_in(&scratch).args([&git_dir, &work_tree, "checkout", "-q", "base", "--", "."]));
    for (path, (kind, bytes)) in odd_files() {
        let path = scratch.join(std::ffi::OsStr::from_bytes(&path));
        match kind {
            Kind::File { executable } => {
                assert_eq!(std::fs::read(&path).unwrap(), bytes, "{}", path.display());
                assert_eq!(path.metadata().unwrap().permissions().mode() & 0o100 != 0, executable);
            }
            Kind::Link => assert_eq!(std::fs::read_link(&path).unwrap().as_os_str().as_bytes(), bytes),
            // Git has no empty directories; ours do it no harm.
            Kind::Directory => assert!(!path.exists()),
        }
    }
    assert_eq!(std::fs::read(scratch.join("%2egit ")).unwrap(), b".git ");
}

#[test]
fn many_objects_become_a_pack_and_few_become_files() {
    let mut home = Home::new();
    let many: Files = (0..500).map(|n| (format!("d{}/f{n}", n % 7).into_bytes(), (FILE, vec![b'x'; n]))).collect();
    let first = home.save("base", &many, &[]).unwrap();
    let packs = || std::fs::read_dir(home.path().join("objects/pack")).unwrap().count();
    assert_eq!(packs(), 2, "a pack and its index");
    let mut changed = many.clone();
    changed.insert(b"d3/f3".to_vec(), (FILE, b"changed".to_vec()));
    assert_eq!(packs(), 2);
    let second = home.save("next", &changed, &[first]).unwrap();
    // The file, its directory, the root, the commit.
    assert!(home.git(&["count-objects", "-v"]).starts_with("count: 4\n"));
    home.fsck();
    assert_eq!((read(&home.repo, first).unwrap(), read(&home.repo, second).unwrap()), (many, changed));
    let written = home.repo.written();
    home.save("again", &read(&home.repo, second).unwrap(), &[first]).unwrap();
    assert!(home.repo.written() - written < 400, "only a commit is new");
    assert_eq!(unfinished(&home.path()), Vec::<std::path::PathBuf>::new());
}

#[test]
fn big_files_are_streamed() {
    let mut home = Home::new();
    let bytes: Vec<u8> = (0..3_000_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&bytes).unwrap();
    file.rewind().unwrap();
    let id = home.repo.objects.blob_of(&mut file, bytes.len() as u64).unwrap();
    assert_eq!(id, hash_blob(&bytes).unwrap());
    assert_eq!(home.repo.objects.read_blob(id, None).unwrap(), bytes, "readable before it is published");
    let tree = home.repo.objects.tree(&[Entry { name: b"big".to_vec(), kind: FILE, id }]).unwrap();
    let commit = Commit {
        tree,
        meta: Some(tree),
        parents: Vec::new(),
        author: Author { name: "a<b>\nparent x".to_owned(), email: String::new() },
        seconds: -5,
        message: "zero\0byte".to_owned(),
    };
    let commit = home.repo.objects.commit(&commit).unwrap();
    home.repo.publish("big", commit).unwrap();
    home.fsck();
    assert_eq!(home.git_bytes(&["show", "big:big"]), bytes);
    let mut copied = Vec::new();
    assert_eq!(home.repo.objects.copy_blob(id, &mut copied).unwrap(), bytes.len() as u64);
    assert!(copied == bytes);
    assert_eq!(home.repo.objects.blob_size(id).unwrap(), bytes.len() as u64);
    assert!(matches!(home.repo.objects.read_blob(id, Some(1000)), Err(RepoError::TooBig { .. })));
    let back = home.repo.objects.read_commit(commit).unwrap();
    assert_eq!((back.meta, back.seconds, back.author.name.as_str()), (Some(tree), 0, "abparent x"));
    // The same again is not kept twice, and a file that became shorter is told.
    file.rewind().unwrap();
    assert_eq!(home.repo.objects.blob_of(&mut file, bytes.len() as u64).unwrap(), id);
    file.rewind().unwrap();
    assert!(matches!(home.repo.objects.blob_of(&mut file, bytes.len() as u64 + 1), Err(RepoError::Short)));
    file.rewind().unwrap();
    file.set_len(10).unwrap();
    assert!(matches!(home.repo.objects.blob_of(&mut file, 11), Err(RepoError::Short)));
    home.repo.abandon();
    assert!(unfinished(&home.path()).is_empty());
}

#[test]
fn what_no_directory_can_hold_is_refused() {
    let mut home = Home::new();
    let id = home.repo.objects.blob(b"x").unwrap();
    let entry = |name: &[u8]| Entry { name: name.to_vec(), kind: FILE, id };
    assert!(matches!(home.repo.objects.tree(&[entry(b"a"), entry(b"a")]), Err(RepoError::Name { .. })));
    assert!(matches!(home.repo.objects.tree(&[entry(b"a/b")]), Err(RepoError::Name { .. })));
    let missing = Entry { id: hash_blob(b"never kept").unwrap(), ..entry(b"a") };
    assert!(matches!(home.repo.objects.tree(&[missing]), Err(RepoError::Missing { .. })));
    assert!(home.repo.publish("tag", id).is_err(), "only a commit is a checkpoint");
    let tree = write(&mut home.repo, &files(&[("a", "1")])).unwrap();
    home.repo.abandon();
    assert!(!home.repo.objects.contains(tree));
    assert!(matches!(home.repo.objects.read_commit(id), Err(RepoError::Damaged { .. })));
}

#[test]
fn several_threads_read_beside_each_other() {
    let mut home = Home::new();
    let many: Files = (0..300).map(|n| (format!("f{n}").into_bytes(), (FILE, vec![n as u8; 2000]))).collect();
    let commit = home.save("base", &many, &[]).unwrap();
    let repo = &home.repo;
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..4).map(|_| scope.spawn(|| read(repo, commit).unwrap())).collect();
        readers.into_iter().for_each(|reader| assert_eq!(reader.join().unwrap(), many));
    });
}

#[test]
fn a_repository_is_there_or_it_is_not() {
    let home = Home::new();
    assert!(Repo::open(&home.directory.path().join("none"), &home.faults).unwrap().is_none());
    assert!(Repo::create(&home.directory.path().join("no/such/parent"), &home.faults).is_ok());
    home.fsck();
    assert_eq!((home.repo.head().unwrap(), home.repo.tags().unwrap()), (None, Vec::new()));
}
