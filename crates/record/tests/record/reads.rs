//! Reading by number, by page and from the end, over many small files.

use crate::fixture::*;
use shellkeep_record::{Filter, Line};
use shellkeep_session::{Event, Notice, NoticeCode};

#[test]
fn every_line_is_found_by_its_number_and_from_both_sides() {
    let house = House::new();
    let told = story(300);
    take(&mut house.recorder(15_000), &told);
    let recording = house.recording();
    assert!(recording.files().len() > 5);
    let all = house.lines();
    assert_eq!(all.len(), 300);
    for seq in 1..=300 {
        assert_eq!(recording.line(seq).unwrap().as_ref(), Some(&all[seq as usize - 1]));
        let before = recording.before(seq).unwrap();
        assert_eq!(before.as_ref(), (seq > 1).then(|| &all[seq as usize - 2]));
        let rest: Vec<Line> = recording.lines(seq).unwrap().take(3).map(Result::unwrap).collect();
        let from = seq as usize - 1;
        assert_eq!(rest, all[from..all.len().min(from + 3)]);
    }
    assert_eq!((recording.line(0).unwrap(), recording.line(301).unwrap()), (None, None));
    assert_eq!(recording.last().unwrap().as_ref(), all.last());
    assert_eq!(recording.count().unwrap(), 300);
}

#[test]
fn a_large_file_is_searched_by_halving() {
    let house = House::new();
    let mut told = story(3000);
    // Lines of very different lengths, some longer than what is read at once.
    for record in told.iter_mut().filter(|record| record.seq % 97 == 0) {
        let seq = record.seq;
        let data = serde_json::json!({"text": "x".repeat(seq as usize * 40)});
        record.event =
            shellkeep_session::Event::Noted { event_type: "x_long".to_owned(), data, author: Default::default() };
    }
    take(&mut house.recorder(u64::MAX), &told);
    let recording = house.recording();
    assert_eq!(recording.files().len(), 1);
    for seq in (1..=3000).step_by(7) {
        assert_eq!(recording.line(seq).unwrap().unwrap().seq, seq);
    }
}

#[test]
fn pages_follow_each_other_and_filters_see_only_their_types() {
    let house = House::new();
    take(&mut house.recorder(9_000), &story(100));
    let recording = house.recording();
    let (mut after, mut seen) = (0, Vec::new());
    loop {
        let page = recording.page(after, 7, &Filter::default()).unwrap();
        assert!(page.lines.len() <= 7);
        seen.extend(page.lines.iter().map(|line| line.seq));
        match page.next {
            Some(next) => after = next,
            None => break,
        }
    }
    assert_eq!(seen, (1..=100).collect::<Vec<u64>>());
    let types = vec!["llm_call".to_owned(), "session_created".to_owned()];
    let filter = Filter { types, ..Filter::default() };
    let page = recording.page(0, 5, &filter).unwrap();
    assert_eq!(page.lines.iter().map(|line| line.seq).collect::<Vec<_>>(), [1, 6, 12, 18, 24]);
    assert_eq!(page.next, Some(24));
    let last = recording.page(90, 5, &filter).unwrap();
    assert_eq!((last.lines.len(), last.next), (1, None));
    assert_eq!(recording.page(100, 5, &filter).unwrap(), Default::default());
}

#[test]
fn kinds_select_all_of_their_types_and_what_has_notices() {
    let house = House::new();
    let mut told = story(40);
    let notice = Notice { code: NoticeCode::ShellReplaced, message: "This is a new shell.".to_owned() };
    let stopped = |notices| Event::ShellStopped { reason: "idle".to_owned(), notices };
    told[19].event = stopped(vec![notice]);
    told[20].event = stopped(Vec::new());
    take(&mut house.recorder(9_000), &told);
    let found = |types: &[&str]| {
        let types = types.iter().map(|name| (*name).to_owned()).collect();
        let page = house.recording().page(0, 100, &Filter { types, ..Filter::default() }).unwrap();
        page.lines.iter().map(|line| line.seq).collect::<Vec<_>>()
    };
    for (types, expected) in [
        (&["shell"][..], &[20, 21][..]),
        (&["session"], &[1]),
        (&["session", "shell_stopped"], &[1, 20, 21]),
        (&["notice"], &[20]),
        (&["notice", "session"], &[1, 20]),
        (&["service"], &[]),
    ] {
        assert_eq!(found(types), expected, "{types:?}");
    }
}

#[test]
fn a_command_long_ago_is_found_in_the_recording() {
    let house = House::new();
    let mut recorder = house.recorder(3_000);
    take(&mut recorder, &[created(), started(2, "sleep 9 &")]);
    let rest: Vec<_> = story(30).into_iter().skip(2).filter(|record| record.seq < 30).collect();
    take(&mut recorder, &rest);
    drop(recorder);
    take(&mut house.recorder(3_000), &[finished(30, 2, b"done\n")]);
    assert_eq!(house.lines()[29].data["parameters"]["command"], "sleep 9 &");
    house.assert_intact(30);
}
