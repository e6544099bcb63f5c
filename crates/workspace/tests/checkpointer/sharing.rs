//! Many checkpointers and one watcher: each is told its own, whoever reads the news.

use crate::fixture::Room;
use shellkeep_workspace::checkpointer::{Limits, Trouble};
use shellkeep_workspace::watch::Watcher;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

#[test]
fn two_checkpointers_of_one_directory_and_one_of_a_part_of_it() {
    let mut first = Room::new();
    let place = first.home.parent().unwrap().to_owned();
    first.write("part/below/file", "1");
    let watcher = Arc::clone(&first.watcher);
    let mut second = Room::at(&watcher, Limits::default(), first.workspace.clone(), place.join("second"));
    let mut part = Room::at(&watcher, Limits::default(), first.path("part"), place.join("third"));
    for room in [&mut first, &mut second, &mut part] {
        room.begin();
        room.save().unwrap();
    }
    assert_eq!(watcher.watches(), 3);
    first.write("part/below/file", "2");
    assert!(!first.checkpointer.is_clean() && !second.checkpointer.is_clean() && !part.checkpointer.is_clean());
    first.save().unwrap();
    assert!(first.checkpointer.is_clean() && !second.checkpointer.is_clean());
    second.save().unwrap();
    part.save().unwrap();
    // One that rests takes nothing from the others.
    first.checkpointer.rest();
    assert_eq!(watcher.watches(), 3);
    second.write("part/below/file", "3");
    second.save().unwrap();
    part.save().unwrap();
    second.checkpointer.rest();
    assert_eq!(watcher.watches(), 2);
    // The root of one is an ordinary directory of the other.
    first.begin();
    fs::rename(first.path("part"), first.path("moved")).unwrap();
    first.save().unwrap();
    assert!(matches!(part.try_save(), Err(Trouble::Gone { .. })));
    first.write("moved/below/file", "4");
    first.save().unwrap();
    assert!(!part.checkpointer.is_clean());
    drop((first, second, part));
    assert_eq!(watcher.watches(), 0);
}

#[test]
fn a_crowd_on_one_watcher_comes_and_goes_while_others_drain() {
    let watcher = Watcher::new();
    let is_over = Arc::new(AtomicBool::new(false));
    let drainers: Vec<_> = (0..2)
        .map(|_| {
            let (watcher, is_over) = (Arc::clone(&watcher), Arc::clone(&is_over));
            std::thread::spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    watcher.drain();
                }
            })
        })
        .collect();
    let workers: Vec<_> = (0..4)
        .map(|_| {
            let watcher = Arc::clone(&watcher);
            std::thread::spawn(move || {
                for _ in 0..4 {
                    let mut room = Room::with(&watcher, Limits::default());
                    room.begin();
                    for turn in 0..5 {
                        room.write(&format!("{turn}/a/file"), "x");
                        room.write("same", &turn.to_string());
                        assert!(!room.checkpointer.is_clean());
                        room.save().unwrap();
                        room.assert_clean();
                    }
                    room.checkpointer.rest();
                    // What was written a moment ago is read again.
                    assert_eq!(room.try_save().unwrap(), None);
                    room.assert_clean();
                }
            })
        })
        .collect();
    workers.into_iter().for_each(|worker| worker.join().unwrap());
    is_over.store(true, Ordering::Relaxed);
    drainers.into_iter().for_each(|drainer| drainer.join().unwrap());
    assert_eq!(watcher.watches(), 0);
}
