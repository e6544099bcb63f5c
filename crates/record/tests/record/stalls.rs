//! A disk that refuses, and files that somebody else changed.

use crate::fixture::*;
use shellkeep_record::RecorderOptions;
use shellkeep_session::{Event, SessionState};
use std::fs::{self, OpenOptions};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

#[test]
fn a_stalled_session_goes_on_where_it_was() {
    let house = House::new();
    let refuses = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&refuses);
    let before_write = move || match asked.load(Ordering::Relaxed) {
        true => Err(io::Error::from(io::ErrorKind::StorageFull)),
        false => Ok(()),
    };
    let options = RecorderOptions { before_write: Some(Arc::new(before_write)), ..RecorderOptions::default() };
    let mut recorder = house.recorder_with(options);
    let told = story(40);
    take(&mut recorder, &told[..10]);
    refuses.store(true, Ordering::Relaxed);
    assert_eq!(take(&mut recorder, &told[10..20]).len(), 1);
    // It is told once, and nothing more is tried.
    assert!(take(&mut recorder, &told[20..25]).is_empty());
    assert_eq!(recorder.stalled().count(), 1);
    // Its files take bytes, and then not: it is told again.
    recorder.try_again(&id("a")).unwrap();
    assert_eq!(take(&mut recorder, &told[10..20]).len(), 1);
    let file = house.path().join("events.jsonl");
    fs::rename(&file, house.path().join("aside")).unwrap();
    fs::create_dir(&file).unwrap();
    assert!(recorder.try_again(&id("a")).is_err());
    fs::remove_dir(&file).unwrap();
    fs::rename(house.path().join("aside"), &file).unwrap();
    refuses.store(false, Ordering::Relaxed);
    recorder.try_again(&id("a")).unwrap();
    assert_eq!((recorder.stalled().count(), house.numbers().len()), (0, 10));
    take(&mut recorder, &told[10..]);
    house.assert_intact(40);
}

#[test]
fn what_cannot_be_brought_any_more_is_a_hole() {
    let house = House::new();
    let told = story(40);
    let mut recorder = house.recorder(4_000);
    take(&mut recorder, &told[..10]);
    take(&mut recorder, &told[15..]);
    let verdict = house.verify(40);
    assert_eq!((verdict.bad.clone(), verdict.is_intact()), (None, false));
    let hole = &verdict.holes[0];
    assert_eq!((hole.from, hole.through, hole.declared), (11, 15, false));
    assert_eq!(house.numbers()[9..12], [10, 11, 16]);
    // What comes late does not change that.
    take(&mut house.recorder(4_000), &told);
    assert_eq!(house.numbers()[9..12], [10, 11, 16]);
    assert_eq!(house.recording().line(12).unwrap(), None);
}

#[test]
fn lost_records_that_were_declared_are_no_damage() {
    let house = House::new();
    let told = story(20);
    let state = Box::new(SessionState::create(&told[0]).unwrap());
    let lost = record(16, Event::RecordsLost { from: 11, reason: "the disk was full".to_owned(), state });
    let mut recorder = house.recorder(4_000);
    take(&mut recorder, &told[..10]);
    take(&mut recorder, &[lost]);
    take(&mut recorder, &told[16..]);
    let verdict = house.verify(20);
    assert!(verdict.is_intact(), "{verdict:?}");
    let hole = &verdict.holes[0];
    assert_eq!((hole.from, hole.through, hole.declared), (11, 15, true));
    assert_eq!(hole.reason, "the disk was full");
    assert_eq!(house.lines()[10].event_type, "records_lost");
}

#[test]
fn a_file_that_somebody_cut_or_removed_gets_a_hole_and_goes_on() {
    let house = House::new();
    let told = story(40);
    let mut recorder = house.recorder(u64::MAX);
    take(&mut recorder, &told[..20]);
    let file = house.path().join("events.jsonl");
    let length = fs::metadata(&file).unwrap().len();
    OpenOptions::new().write(true).open(&file).unwrap().set_len(length - 3).unwrap();
    assert!(take(&mut recorder, &told[20..30]).is_empty());
    let verdict = house.verify(30);
    assert_eq!((verdict.bad, verdict.holes[0].from, verdict.holes[0].through), (None, 20, 20));
    // All of it.
    fs::remove_file(&file).unwrap();
    assert!(take(&mut recorder, &told[30..]).is_empty());
    let verdict = house.verify(40);
    assert_eq!((verdict.bad, verdict.holes[0].from, verdict.holes[0].through), (None, 1, 30));
}

/// A last line that nobody can read must not end the recording; verifying names it.
#[test]
fn a_broken_last_line_is_passed_over() {
    let house = House::new();
    let told = story(30);
    take(&mut house.recorder(u64::MAX), &told[..20]);
    let file = house.path().join("events.jsonl");
    let mut bytes = fs::read(&file).unwrap();
    let length = bytes.len();
    bytes[length - 60..length - 1].fill(b'#');
    fs::write(&file, bytes).unwrap();
    take(&mut house.recorder(u64::MAX), &told[20..]);
    let bad = house.verify(30).bad.unwrap();
    assert_eq!((bad.line_number, bad.seq), (20, Some(20)));
    assert_eq!(house.recording().last().unwrap().unwrap().seq, 30);
}
