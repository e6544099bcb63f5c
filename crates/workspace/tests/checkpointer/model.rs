//! Whatever is done to a workspace, in whatever order: each checkpoint holds what is on the disk then.

use crate::fixture::Room;
use proptest::prelude::*;
use shellkeep_workspace::checkpointer::Limits;
use shellkeep_workspace::watch::Watcher;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

const NAMES: [&[u8]; 8] = [b"a", b"b", b"line\nbreak", b"\xff\xfe", b".GIT", b"%41", b"modes", b"+a"];
const MODES: [u32; 6] = [0o644, 0o755, 0o600, 0o444, 0o4750, 0o664];

#[derive(Debug, Clone)]
enum Step {
    Write { at: Vec<usize>, byte: u8, length: usize },
    Append { at: Vec<usize>, byte: u8 },
    Remove { at: Vec<usize> },
    Rename { from: Vec<usize>, to: Vec<usize> },
    Chmod { at: Vec<usize>, mode: usize },
    Symlink { at: Vec<usize>, to: usize },
    Directory { at: Vec<usize> },
    Hide { at: Vec<usize>, below: Vec<usize> },
    Save,
    Rest,
    LoseIndex,
    ScanEverything,
}

fn place() -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(0..NAMES.len(), 1..4)
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => (place(), any::<u8>(), 0..3000_usize).prop_map(|(at, byte, length)| Step::Write { at, byte, length }),
        2 => (place(), any::<u8>()).prop_map(|(at, byte)| Step::Append { at, byte }),
        3 => place().prop_map(|at| Step::Remove { at }),
        4 => (place(), place()).prop_map(|(from, to)| Step::Rename { from, to }),
        2 => (place(), 0..MODES.len()).prop_map(|(at, mode)| Step::Chmod { at, mode }),
        2 => (place(), 0..NAMES.len()).prop_map(|(at, to)| Step::Symlink { at, to }),
        3 => place().prop_map(|at| Step::Directory { at }),
        1 => (place(), place()).prop_map(|(at, below)| Step::Hide { at, below }),
        5 => Just(Step::Save),
        1 => Just(Step::Rest),
        1 => Just(Step::LoseIndex),
        1 => Just(Step::ScanEverything),
    ]
}

fn path(room: &Room, at: &[usize]) -> PathBuf {
    at.iter().fold(room.workspace.clone(), |path, name| path.join(OsStr::from_bytes(NAMES[*name])))
}

fn remove(path: &Path) {
    match fs::symlink_metadata(path) {
        Ok(about) if about.is_dir() => fs::remove_dir_all(path).unwrap(),
        Ok(_) => fs::remove_file(path).unwrap(),
        Err(_) => {}
    }
}

/// What cannot be done (no such directory, a directory into itself) is not done; the disk is what counts.
fn act(room: &mut Room, step: &Step) {
    match step {
        Step::Write { at, byte, length } => {
            let path = path(room, at);
            let _ = fs::create_dir_all(path.parent().unwrap());
            // Through a link one could write outside.
            if !path.is_symlink() {
                let _ = fs::write(path, vec![*byte; *length]);
            }
        }
        Step::Append { at, byte } => {
            let path = path(room, at);
            if path.is_file() && !path.is_symlink() {
                let mut bytes = fs::read(&path).unwrap();
                bytes.push(*byte);
                fs::write(&path, bytes).unwrap();
            }
        }
        Step::Remove { at } => remove(&path(room, at)),
        Step::Rename { from, to } => {
            let _ = fs::rename(path(room, from), path(room, to));
        }
        Step::Chmod { at, mode } => {
            let path = path(room, at);
            if !path.is_symlink() && path.exists() {
                fs::set_permissions(path, fs::Permissions::from_mode(MODES[*mode])).unwrap();
            }
        }
        Step::Symlink { at, to } => {
            let path = path(room, at);
            remove(&path);
            let _ = symlink(OsStr::from_bytes(NAMES[*to]), path);
        }
        Step::Directory { at } => {
            let path = path(room, at);
            if !path.is_dir() {
                remove(&path);
            }
            let _ = fs::create_dir_all(path);
        }
        Step::Hide { at, below } => {
            // All at once to the checkpointer: made, filled, moved, and something else in its place.
            let (path, away) = (path(room, at), path(room, below));
            let _ = fs::create_dir_all(path.join("inner/most"));
            let _ = fs::write(path.join("inner/most/file"), b"hidden");
            if fs::rename(&path, &away).is_ok() {
                let _ = fs::write(&path, b"instead");
            }
        }
        Step::Save => {
            room.save();
            room.assert_clean();
        }
        Step::Rest => rest(room),
        Step::LoseIndex => {
            rest(room);
            let _ = fs::remove_file(room.home.join("index"));
        }
        Step::ScanEverything => room.checkpointer.scan_everything(),
    }
}

fn rest(room: &mut Room) {
    room.checkpointer.rest();
    assert_eq!(room.watcher.watches(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_checkpoint_is_what_was_there(steps in prop::collection::vec(step(), 1..60)) {
        let mut room = Room::new();
        room.begin();
        for step in &steps {
            act(&mut room, step);
        }
        room.save();
        room.assert_clean();
        if room.last.is_some() {
            let said = room.git(&["fsck", "--strict", "--no-dangling", "--no-progress"]);
            assert!(said.is_empty(), "{said}");
        }
    }

    #[test]
    fn also_where_nothing_can_be_watched(steps in prop::collection::vec(step(), 1..40)) {
        let mut room = Room::with(&Watcher::with_limit(0), Limits::default());
        for step in steps.iter().filter(|step| !matches!(step, Step::Save)) {
            act(&mut room, step);
        }
        room.save();
        assert_eq!(room.try_save().unwrap(), None);
    }
}
