//! A recorder may die anywhere, with a line half written. The records come again from the journal, and afterwards nothing
//! is missing, nothing is double, and the chain holds.

use crate::fixture::*;
use proptest::prelude::*;
use shellkeep_record::{RecorderOptions, Recording};
use shellkeep_session::Event;
use std::fs::{self, OpenOptions};
use std::io::Write as _;

#[derive(Debug, Clone)]
struct Life {
    /// Records in each batch.
    batches: Vec<usize>,
    /// How far back the next life begins.
    back: usize,
    /// Bytes of the next line that got through.
    torn: usize,
}

fn life() -> impl Strategy<Value = Life> {
    (prop::collection::vec(1..9usize, 1..5), 0..12usize, 0..400usize).prop_map(|(batches, back, torn)| Life {
        batches,
        back,
        torn,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_recorder_may_die_anywhere(lives in prop::collection::vec(life(), 1..6), segment in 1_000..20_000u64) {
        let told = story(120);
        let house = House::new();
        let whole = House::new();
        take(&mut whole.recorder(segment), &told);
        let lines = whole.lines();
        let mut done: usize = 0;
        for life in lives {
            let mut recorder = house.recorder(segment);
            let mut at = done.saturating_sub(life.back);
            for batch in life.batches {
                let end = (at + batch).min(told.len());
                prop_assert!(take(&mut recorder, &told[at..end]).is_empty());
                at = end;
                done = done.max(at);
            }
            drop(recorder);
            // The next line, as far as it came.
            if let Some(next) = lines.get(done) {
                let mut line = Vec::new();
                next.write_to(&mut line).unwrap();
                let files = house.recording().files().to_vec();
                let mut file = OpenOptions::new().append(true).open(files.last().unwrap()).unwrap();
                file.write_all(&line[..life.torn.min(line.len() - 1)]).unwrap();
            }
        }
        take(&mut house.recorder(segment), &told);
        house.assert_intact(120);
        prop_assert_eq!(house.lines(), lines);
        for (one, other) in house.recording().files().iter().zip(whole.recording().files()) {
            prop_assert!(fs::read(one).unwrap() == fs::read(other).unwrap());
        }
    }
}

#[test]
fn a_session_made_anew_replaces_the_old_one_and_survives_replay() {
    let house = House::new();
    let mut first = story(30);
    first.push(record(31, Event::SessionDestroyed));
    let mut second = story(12);
    for record in &mut second {
        record.at = at(1000 + record.seq);
    }
    let mut recorder = house.recorder(2_000);
    take(&mut recorder, &first);
    assert!(!house.path().exists());
    take(&mut recorder, &second);
    house.assert_intact(12);
    let files = || -> Vec<_> { house.recording().files().iter().map(|file| fs::read(file).unwrap()).collect() };
    let whole = files();
    drop(recorder);
    // The journal comes again from somewhere in the first life.
    let both: Vec<_> = first.into_iter().chain(second).collect();
    for from in [0, 5, 29, 30, 31, 35] {
        take(&mut house.recorder(2_000), &both[from..]);
        assert_eq!(files(), whole, "from {from}");
    }
    // Without the destruction the first line tells that it is another session.
    take(&mut house.recorder(2_000), &story(3));
    assert_eq!(house.numbers(), [1, 2, 3]);
    house.assert_intact(3);
}

/// An agent removed its session and made it anew. However often the journal comes again, and wherever the daemon died while
/// it moved the files, both recordings are there and whole.
#[test]
fn what_an_agent_removed_is_kept_and_survives_replay() {
    for died_after in [None, Some(0), Some(1), Some(usize::MAX)] {
        let house = House::new();
        let graves = house.directory.path().join("graves");
        let recorder = || {
            let options = RecorderOptions { deleted: Some(graves.clone()), ..RecorderOptions::default() };
            house.recorder_with(RecorderOptions { segment_bytes: 2_000, ..options })
        };
        let mut first = story(30);
        let kept_as = id("a.deleted.1");
        let removed = Event::SessionDeleted { by: Some("tok".to_owned()), kept_as: kept_as.clone() };
        let mut second = story(12);
        for record in &mut second {
            record.at = at(1000 + record.seq);
        }
        take(&mut recorder(), &first);
        first.push(record(31, removed));
        if let Some(count) = died_after {
            // Some files are moved; the line that tells of the removal is written, as it is before the first of them.
            let unfinished = graves.join("a.deleted.1/recording.part");
            take(&mut recorder(), &first);
            let there = graves.join("a.deleted.1/recording");
            fs::create_dir_all(house.path()).unwrap();
            fs::create_dir_all(&unfinished).unwrap();
            let files = Recording::open(&there).unwrap().files().to_vec();
            for (index, file) in files.iter().enumerate() {
                let to = if index < count { unfinished.clone() } else { house.path() };
                fs::rename(file, to.join(file.file_name().unwrap())).unwrap();
            }
            fs::remove_dir_all(&there).unwrap();
        }
        let mut living = recorder();
        take(&mut living, &first[30..]);
        take(&mut living, &second);
        drop(living);
        let check = |from: usize| {
            house.assert_intact(12);
            let grave = Recording::open(&graves.join("a.deleted.1/recording")).unwrap();
            let verdict = shellkeep_record::verify(&grave, Some(&session_key()), Some(31)).unwrap();
            assert!(verdict.is_intact() && verdict.lines == 31, "{died_after:?} from {from}: {verdict:?}");
            assert_eq!(grave.last().unwrap().unwrap().event_type, "session_deleted");
        };
        check(usize::MAX);
        let both: Vec<_> = first.into_iter().chain(second).collect();
        for from in [0, 5, 29, 30, 31, 35] {
            take(&mut recorder(), &both[from..]);
            check(from);
        }
    }
}

/// A loss of power took the end of the journal and not that of the recording. The session goes on from where the journal
/// ends, with other records of the same numbers.
#[test]
fn what_the_journal_lost_gives_way_to_what_came_instead() {
    for segment in [2_000, u64::MAX] {
        let house = House::new();
        let told = story(40);
        take(&mut house.recorder(segment), &told);
        let mut other = story(34);
        other[29..].iter_mut().for_each(|record| record.at = at(5000 + record.seq));
        // What the journal still has comes again, and then what is new.
        take(&mut house.recorder(segment), &other[25..29]);
        assert_eq!(house.numbers().len(), 40);
        take(&mut house.recorder(segment), &other[29..]);
        house.assert_intact(34);
        assert_eq!(house.lines()[33].timestamp, at(5034));
    }
}

#[test]
fn many_sessions_share_few_open_files() {
    let house = House::new();
    let options = shellkeep_record::RecorderOptions { open_files: 8, ..Default::default() };
    let mut recorder = house.recorder_with(options);
    let of = |session: usize| {
        let mut told = story(20);
        told.iter_mut().for_each(|record| record.session_id = id(&format!("s{session}")));
        told
    };
    let stories: Vec<_> = (0..50).map(of).collect();
    for seq in 0..20 {
        let batch: Vec<_> = stories.iter().map(|told| &told[seq]).collect();
        assert!(recorder.take(&batch).is_empty());
    }
    for session in 0..50 {
        let name = id(&format!("s{session}"));
        let recording = shellkeep_record::Recording::open(&recorder.directory(&name)).unwrap();
        let verdict = shellkeep_record::verify(&recording, Some(&recorder.session_key(&name)), Some(20)).unwrap();
        assert_eq!((verdict.bad, verdict.lines), (None, 20));
    }
}
