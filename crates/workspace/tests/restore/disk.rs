//! A full disk fails while staging, with nothing changed; a workspace on another disk than the checkpoints is staged on
//! its own. The disk is a small one in memory, in a view of the file system of a child process of its own.

use crate::fixture::{Room, first, second};
use std::fs;
use std::os::unix::fs::{MetadataExt as _, chown, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

const DISK: &str = "SHELLKEEP_TEST_DISK";
/// Mounts a small disk and goes on as the program.
const MOUNT: &str = "mount -t tmpfs -o size=2m,mode=700 tmpfs \"$1\" && shift && exec \"$@\"";

/// Runs the ignored test of this name with a small disk mounted.
fn on_small_disk(name: &str) {
    let works = |args: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(args).args(["mount", "-t", "tmpfs", "tmpfs", "/mnt"]).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    let ways: [&[&str]; 2] = [&["--mount"], &["--user", "--map-root-user", "--mount"]];
    let Some(way) = ways.into_iter().find(|args| works(args)) else {
        assert!(std::env::var_os("CI").is_none(), "neither root nor a user namespace may mount here");
        eprintln!("skipped: neither root nor a user namespace may mount here");
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let mut command = Command::new("unshare");
    command.args(way).args(["sh", "-c", MOUNT, "sh"]).arg(directory.path()).arg(std::env::current_exe().unwrap());
    command.args(["--exact", name, "--ignored", "--nocapture"]).env(DISK, directory.path());
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

#[test]
fn a_full_disk_changes_nothing() {
    on_small_disk("disk::all_on_one_disk");
}

#[test]
fn a_workspace_on_another_disk() {
    on_small_disk("disk::workspace_on_another_disk");
}

#[test]
fn a_workspace_of_another_user_on_another_disk() {
    if rustix::process::geteuid().is_root() {
        on_small_disk("disk::workspace_of_another_user");
    }
}

#[test]
#[ignore = "run by the other"]
fn all_on_one_disk() {
    let Ok(disk) = std::env::var(DISK) else { return };
    let mut room = Room::at(Path::new(&disk));
    fills_up(&mut room);
}

#[test]
#[ignore = "run by the other"]
fn workspace_on_another_disk() {
    let Ok(disk) = std::env::var(DISK) else { return };
    let home = tempfile::tempdir().unwrap();
    let mut room = Room::in_two(&Path::new(&disk).join("workspace"), &home.path().join("checkpoints"));
    fills_up(&mut room);
}

/// What is brought back belongs to whom the workspace belongs.
#[test]
#[ignore = "run by the other"]
fn workspace_of_another_user() {
    const SOMEBODY: u32 = 200_000;
    let Ok(disk) = std::env::var(DISK) else { return };
    let home = tempfile::tempdir().unwrap();
    let mut room = Room::in_two(&Path::new(&disk).join("workspace"), &home.path().join("checkpoints"));
    chown(&room.workspace, Some(SOMEBODY), Some(SOMEBODY)).unwrap();
    room.write("d/file", "one");
    symlink("file", room.path("d/link")).unwrap();
    room.chmod("", 0o755);
    let one = room.save();
    room.chmod("", 0o700);
    let seen = room.seen();
    fs::remove_dir_all(room.path("d")).unwrap();
    room.save();
    assert_eq!(room.rewind(Some(one)), []);
    assert!(room.seen() == seen);
    for name in ["d", "d/file", "d/link"] {
        assert_eq!(room.path(name).symlink_metadata().unwrap().uid(), SOMEBODY, "{name}");
    }
    assert_eq!(room.workspace.metadata().unwrap().mode() & 0o777, 0o700, "it was opened to others");
}

/// Rewinds with less and less room, until there is enough again.
fn fills_up(room: &mut Room) {
    first(room, 40);
    room.write("big", vec![b'x'; 200_000]);
    let one = room.save();
    let seen_one = room.seen();
    second(room, 40);
    fs::remove_file(room.path("big")).unwrap();
    room.save();
    let seen_two = room.seen();
    let ballast = room.workspace.with_file_name("ballast");
    let mut failures = 0;
    for kilobytes in (0..2000).rev().step_by(20) {
        // As much as there is room for; the rest of the disk is what the rewind has.
        let _ = fs::write(&ballast, vec![b'x'; kilobytes * 1024]);
        match room.try_rewind(Some(one)) {
            Err(error) => {
                assert!(error.is_full(), "{error}");
                failures += 1;
                assert!(room.seen() == seen_two, "a full disk changed something");
                room.assert_tidy();
            }
            Ok(applied) => {
                assert_eq!(applied.kept_back, []);
                applied.finish().unwrap();
                assert!(room.seen() == seen_one);
                assert!(failures > 5, "{failures}");
                return room.assert_tidy();
            }
        }
    }
    panic!("there was never enough room");
}
