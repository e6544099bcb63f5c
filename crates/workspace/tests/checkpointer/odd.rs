//! Files that cannot be kept as they are: each is said, and none stops the others.

use crate::fixture::Room;
use shellkeep_workspace::checkpointer::{Checkpointer, Label, Limits, Reason};
use shellkeep_workspace::repo::Author;
use shellkeep_workspace::watch::Watcher;
use shellkeep_workspace::{diff, restore};
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Directories within each other that a checkpoint holds.
const DEEPEST: usize = 128;
/// Half of what the daemon's threads have. A release build, which has less on the stack in each function, needs a fraction.
const SMALL_STACK: usize = 1 << 20;

#[test]
fn sockets_and_pipes_are_said() {
    let mut room = Room::new();
    room.begin();
    let _listener = UnixListener::bind(room.path("socket")).unwrap();
    let pipe = Command::new("mkfifo").arg(room.path("pipe")).status().unwrap();
    assert!(pipe.success());
    room.write("file", "x");
    let left_out = room.save().unwrap().left_out;
    assert_eq!(left_out.total, 2);
    assert_eq!(left_out.first, [(b"pipe".to_vec(), Reason::Special), (b"socket".to_vec(), Reason::Special)]);
    fs::remove_file(room.path("pipe")).unwrap();
    room.write("pipe", "a file now");
    assert_eq!(room.save().unwrap().left_out.total, 1);
    // A pipe where rules are looked for does not make anybody wait.
    fs::create_dir(room.path("rules")).unwrap();
    assert!(Command::new("mkfifo").arg(room.path("rules/.gitignore")).status().unwrap().success());
    assert_eq!(room.save().unwrap().left_out.total, 2);
}

#[test]
fn a_big_file_is_not_kept_and_comes_back_when_it_is_small() {
    let mut room = Room::with(&Watcher::new(), Limits { max_file_bytes: 2 << 20, ..Limits::default() });
    room.write("big", &"x".repeat((2 << 20) + 1));
    room.write("streamed", &"y".repeat(2 << 20));
    room.begin();
    let saved = room.try_save().unwrap().unwrap();
    assert_eq!(saved.left_out.first, [(b"big".to_vec(), Reason::TooBig { bytes: (2 << 20) + 1 })]);
    assert_eq!(saved.counts.added, 1);
    room.write("big", "small");
    let saved = room.save().unwrap();
    assert_eq!((saved.counts.added, saved.left_out.total), (1, 0));
    room.write("big", &"x".repeat(3 << 20));
    let saved = room.try_save().unwrap().unwrap();
    assert_eq!((saved.counts.deleted, saved.left_out.total), (1, 1));
    room.assert_clean();
}

#[test]
fn a_file_that_is_written_all_the_time_is_taken_as_it_is_read() {
    let mut room = Room::new();
    room.write("quiet", "x");
    room.write("busy", "");
    room.begin();
    let is_over = Arc::new(AtomicBool::new(false));
    let writer = std::thread::spawn({
        let (path, is_over) = (room.path("busy"), Arc::clone(&is_over));
        move || {
            let mut file = fs::OpenOptions::new().append(true).open(path).unwrap();
            while !is_over.load(Ordering::Relaxed) {
                file.write_all(&[b'x'; 1000]).unwrap();
                if file.metadata().unwrap().len() > 1 << 19 {
                    file.set_len(0).unwrap();
                }
            }
            file.write_all(b"the end").unwrap();
        }
    });
    // The other file is in every checkpoint whatever this one does.
    let is_torn = |room: &mut Room| {
        let saved = room.try_save().unwrap();
        assert!(room.kept().contains_key("/quiet"));
        saved.is_some_and(|saved| saved.left_out.first == [(b"busy".to_vec(), Reason::ChangedWhileRead)])
    };
    while !is_torn(&mut room) {}
    is_over.store(true, Ordering::Relaxed);
    writer.join().unwrap();
    assert_eq!(room.save().unwrap().left_out.total, 0);
    room.assert_clean();
}

#[test]
fn links_lead_nowhere_and_deep_directories_end_somewhere() {
    let mut room = Room::new();
    symlink("..", room.path("up")).unwrap();
    symlink("/nowhere/at/all", room.path("dangling")).unwrap();
    symlink("self", room.path("self")).unwrap();
    let deep: PathBuf = std::iter::repeat_n("d", 200).collect();
    fs::create_dir_all(room.path(&deep)).unwrap();
    room.begin();
    let saved = room.try_save().unwrap().unwrap();
    assert_eq!(saved.counts.added, 3);
    assert_eq!((saved.left_out.total, saved.left_out.first[0].1), (1, Reason::TooDeep));
    room.checkpointer.rest();
    assert_eq!(room.try_save().unwrap(), None);
    room.assert_clean();
}

/// Runs the part below as another user, to whom not everything is open. Root may read all, so only root can start it.
#[test]
fn an_unreadable_file_stays_as_it_was_kept_before() {
    const NOBODY: u32 = 65_534;
    if !rustix::process::getuid().is_root() {
        return as_nobody(&tempfile::tempdir().unwrap().keep());
    }
    let temporary = tempfile::tempdir().unwrap();
    std::os::unix::fs::chown(temporary.path(), Some(NOBODY), Some(NOBODY)).unwrap();
    // A copy of this program that others may reach.
    let program = temporary.path().join("program");
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let status = Command::new(&program)
        .args(["--exact", "odd::in_a_place_of_another_user", "--ignored", "--nocapture"])
        .env("SHELLKEEP_TEST_PLACE", temporary.path())
        .stdin(Stdio::null())
        .uid(NOBODY)
        .gid(NOBODY)
        .status()
        .unwrap();
    assert!(status.success());
    assert!(temporary.path().join("done").exists());
}

/// A look had 16 KiB on the stack for each directory within another. One request that named 125 of them ended the daemon,
/// and the next one when it woke the session.
#[test]
fn a_workspace_as_deep_as_is_kept_fits_on_a_small_stack() {
    let walk = || {
        let mut room = Room::new();
        room.begin();
        let kept = "d/".repeat(DEEPEST);
        room.write(&format!("{kept}file"), "kept");
        let saved = room.try_save().unwrap().unwrap();
        assert_eq!((saved.left_out.total, saved.counts.added), (0, 1));
        let last = saved.commit;
        room.write(&format!("{kept}d/d/d/file"), "too deep");
        fs::write(room.path(format!("{kept}file")), "changed").unwrap();
        let saved = room.try_save().unwrap().unwrap();
        let left_out = &saved.left_out.first;
        assert_eq!(*left_out, [(format!("{kept}d").into_bytes(), Reason::TooDeep)]);
        let repo = room.checkpointer.repo().unwrap();
        let path = format!("{kept}file").into_bytes();
        let changes = diff::trees(repo, Some(last), saved.commit).unwrap();
        assert_eq!(changes.iter().map(|change| &change.path).collect::<Vec<_>>(), [&path]);
        let plan = restore::plan(repo, None, Some(saved.commit)).unwrap();
        assert_eq!(plan.steps.len(), DEEPEST + 1);
        restore::strip(repo, None, &room.workspace).unwrap();
        assert!(!room.path(format!("{kept}file")).exists());
        assert!(room.path(format!("{kept}d/d/d/file")).exists());
        fs::remove_dir_all(room.path("d")).unwrap();
        let saved = room.try_save().unwrap().unwrap();
        assert_eq!(saved.counts.deleted, 1);
    };
    std::thread::Builder::new().stack_size(SMALL_STACK).spawn(walk).unwrap().join().unwrap();
}

#[test]
#[ignore = "a part of another test, which starts it as another user"]
fn in_a_place_of_another_user() {
    if let Some(place) = std::env::var_os("SHELLKEEP_TEST_PLACE") {
        as_nobody(&PathBuf::from(place));
    }
}

fn as_nobody(place: &std::path::Path) {
    let workspace = place.join("workspace");
    fs::create_dir_all(workspace.join("closed")).unwrap();
    fs::write(workspace.join("secret"), "kept").unwrap();
    fs::write(workspace.join("closed/file"), "kept too").unwrap();
    let mut checkpointer = Checkpointer::new(&Watcher::new(), workspace.clone(), place.join("home"), Limits::default());
    let author = Author { name: "t".to_owned(), email: "t@localhost".to_owned() };
    let label = |tag: &str| Label { tag: tag.to_owned(), message: String::new(), author: author.clone(), seconds: 1 };
    let first = checkpointer.save(&label("one"), None).unwrap().unwrap();
    let close = |name: &str, mode| fs::set_permissions(workspace.join(name), fs::Permissions::from_mode(mode)).unwrap();
    fs::write(workspace.join("secret"), "changed").unwrap();
    close("secret", 0o000);
    close("closed", 0o000);
    fs::write(workspace.join("new"), "never read").unwrap();
    close("new", 0o200);
    let second = checkpointer.save(&label("two"), Some(first.commit)).unwrap().unwrap();
    let names: Vec<&[u8]> = second.left_out.first.iter().map(|(path, _)| path.as_slice()).collect();
    assert_eq!(names, [&b"closed"[..], b"new", b"secret"]);
    assert!(second.left_out.first.iter().all(|(_, reason)| *reason == Reason::Unreadable));
    assert!(checkpointer.is_clean());
    let repo = checkpointer.repo().unwrap();
    let tree = repo.objects.read_tree(repo.objects.read_commit(second.commit).unwrap().tree).unwrap();
    let secret = tree.iter().find(|entry| entry.name == b"secret").unwrap();
    assert_eq!(repo.objects.read_blob(secret.id, None).unwrap(), b"kept");
    let closed = tree.iter().find(|entry| entry.name == b"closed").unwrap();
    assert_eq!(repo.objects.read_tree(closed.id).unwrap().len(), 1);
    assert!(!tree.iter().any(|entry| entry.name == b"new"));
    close("secret", 0o600);
    close("closed", 0o700);
    close("new", 0o600);
    let third = checkpointer.save(&label("three"), Some(second.commit)).unwrap().unwrap();
    assert_eq!((third.left_out.total, third.counts.added, third.counts.changed), (0, 1, 1));
    fs::write(place.join("done"), "").unwrap();
}
