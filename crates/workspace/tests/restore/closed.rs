//! Directories and files that the daemon may not read. Root may read all, so these parts run as another user.

use crate::fixture::Room;
use shellkeep_workspace::restore::{self, Plan};
use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

const NOBODY: u32 = 65_534;
const PLACE: &str = "SHELLKEEP_TEST_PLACE";

/// Runs the ignored test of this name as a user to whom not everything is open, or the part itself if this is one.
fn as_another_user(name: &str, part: fn(&Path)) {
    let temporary = tempfile::tempdir().unwrap();
    if !rustix::process::getuid().is_root() {
        return part(temporary.path());
    }
    chown(temporary.path(), Some(NOBODY), Some(NOBODY)).unwrap();
    // A copy of this program that others may reach.
    let program = temporary.path().join("program");
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = Command::new(&program);
    command.args(["--exact", name, "--ignored", "--nocapture"]).env(PLACE, temporary.path());
    let output = command.stdin(Stdio::null()).uid(NOBODY).gid(NOBODY).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

fn place() -> Option<PathBuf> {
    std::env::var_os(PLACE).map(PathBuf::from)
}

/// As if time had passed: the clock of a file system is too coarse to tell what happens in a row apart.
fn later(path: PathBuf) {
    File::open(path).unwrap().set_modified(SystemTime::now() + Duration::from_secs(60)).unwrap();
}

/// A directory that became unreadable was no change. An undo of `chmod 000 A` therefore took back the command before it,
/// which had made the files in A, and deleted them.
#[test]
fn closing_a_directory_is_undone() {
    as_another_user("closed::closing_a_directory_as_another_user", closing_a_directory);
}

#[test]
#[ignore = "run by the other"]
fn closing_a_directory_as_another_user() {
    place().iter().for_each(|place| closing_a_directory(place));
}

fn closing_a_directory(place: &Path) {
    type Change = fn(&mut Room);
    let changes: [(Change, bool); 6] = [
        (|room| room.chmod("A", 0o000), true),
        (|room| room.chmod("A", 0o111), true),
        (
            |room| {
                fs::remove_dir_all(room.path("A")).unwrap();
                fs::create_dir(room.path("A")).unwrap();
                later(room.path("A"));
                room.chmod("A", 0o000);
            },
            false,
        ),
        (
            |room| {
                fs::remove_file(room.path("A/A")).unwrap();
                later(room.path("A"));
                room.chmod("A", 0o000);
            },
            false,
        ),
        (
            // What is below is changed back through all that is closed above it.
            |room| {
                room.write("A/B/b", "other");
                room.save();
                room.chmod("A", 0o000);
            },
            false,
        ),
        (
            |room| {
                fs::remove_file(room.path("t")).unwrap();
                fs::create_dir(room.path("t")).unwrap();
                room.chmod("t", 0o000);
            },
            false,
        ),
    ];
    for (number, (change, is_known)) in changes.into_iter().enumerate() {
        let mut room = Room::at(&place.join(number.to_string()));
        room.write("A/A", "a");
        room.write("A/B/b", "b");
        room.write("t", "t");
        let open = room.save();
        let before = room.seen();
        change(&mut room);
        let closed = room.save();
        assert_ne!(closed, open, "change {number} is none");
        assert_eq!(room.rewind(Some(open)), [], "change {number}");
        assert_eq!(room.seen(), before, "change {number}");
        if is_known {
            let bits = |room: &Room| fs::metadata(room.path("A")).unwrap().permissions().mode() & 0o777;
            assert_eq!(room.save(), open);
            assert_eq!(room.rewind(Some(closed)), []);
            assert_ne!(bits(&room), 0o755, "change {number} was not made again");
            assert_eq!(room.rewind(Some(open)), []);
            assert_eq!(room.seen(), before, "change {number}, again");
        }
    }
}

/// The stage of an interrupted rewind was looked for in a workspace that nobody may enter, and the answer was that an
/// earlier rewind was not complete, which was false.
#[test]
fn a_closed_workspace_is_no_interrupted_rewind() {
    as_another_user("closed::a_closed_workspace_as_another_user", a_closed_workspace);
}

#[test]
#[ignore = "run by the other"]
fn a_closed_workspace_as_another_user() {
    place().iter().for_each(|place| a_closed_workspace(place));
}

fn a_closed_workspace(place: &Path) {
    let mut room = Room::at(place);
    room.write("f", "f");
    let open = room.save();
    let before = room.seen();
    // It can still be listed, so closing it this far is a change that can be undone.
    room.chmod("", 0o644);
    assert_ne!(room.save(), open);
    let nothing = restore::recover(&room.workspace, &room.home, &room.faults).unwrap();
    assert!(nothing.is_none());
    let applied = room.try_rewind(Some(open)).unwrap();
    assert_eq!(applied.kept_back, []);
    applied.finish().unwrap();
    assert_eq!(room.seen(), before);
}

/// A file that a rewind puts there may be one that the daemon cannot read. The next checkpoint had the bytes of before the
/// rewind for it, and undoing the rewind gave the old bytes the new permissions and reported success.
#[test]
fn what_a_rewind_puts_there_is_known_unread() {
    as_another_user("closed::what_a_rewind_puts_there_as_another_user", what_a_rewind_puts_there);
}

#[test]
#[ignore = "run by the other"]
fn what_a_rewind_puts_there_as_another_user() {
    place().iter().for_each(|place| what_a_rewind_puts_there(place));
}

fn what_a_rewind_puts_there(place: &Path) {
    let mut room = Room::at(place);
    let remove = |room: &Room| {
        fs::remove_file(room.path("f")).unwrap();
        fs::remove_dir_all(room.path("d")).unwrap();
    };
    room.write("f", "old");
    room.write("d/g", "old");
    room.save();
    room.chmod("f", 0o111);
    room.chmod("d/g", 0o111);
    let old = room.save();
    remove(&room);
    room.write("f", "new");
    let new = room.save();
    assert_eq!(room.rewind(Some(old)), []);
    // Nothing has changed since, also as far as it cannot be read.
    let rewound = room.save();
    assert_eq!(restore::plan(room.repo(), Some(old), Some(rewound)).unwrap(), Plan::default());
    // It cannot be compared with what is to be replaced, so it stays, and that is said.
    let kept: Vec<_> = room.rewind(Some(new)).into_iter().map(|kept| kept.path).collect();
    assert_eq!(kept, [b"d".to_vec(), b"d/g".to_vec(), b"f".to_vec()]);
    room.chmod("f", 0o644);
    assert_eq!(fs::read(room.path("f")).unwrap(), b"old");
    remove(&room);
}

/// A file that was written and then closed had its old bytes in the checkpoint, so taking that back was only a change of
/// permissions: the new bytes stayed, and success was reported.
#[test]
fn what_could_not_be_compared_is_said() {
    as_another_user("closed::what_could_not_be_compared_as_another_user", what_could_not_be_compared);
}

#[test]
#[ignore = "run by the other"]
fn what_could_not_be_compared_as_another_user() {
    place().iter().for_each(|place| what_could_not_be_compared(place));
}

fn what_could_not_be_compared(place: &Path) {
    let mut room = Room::at(place);
    room.write("f", "old");
    let old = room.save();
    room.write("f", "new");
    room.chmod("f", 0o000);
    room.save();
    let kept = room.rewind(Some(old));
    assert_eq!(
        kept.iter().map(|kept| (&kept.path[..], kept.reason)).collect::<Vec<_>>(),
        [(&b"f"[..], "it could not be read, so only its permissions are changed back")]
    );
    // Now it can be read, and what is in it is a change like any other.
    assert_eq!(fs::read(room.path("f")).unwrap(), b"new");
    assert_ne!(room.save(), old);
    assert_eq!(room.rewind(Some(old)), []);
    assert_eq!(fs::read(room.path("f")).unwrap(), b"old");
}
