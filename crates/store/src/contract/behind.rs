//! The recorder is behind the backend: no one waits for it, and nothing is lost, doubled or left over.

use super::*;
use crate::fault::Point;
use shellkeep_record::scrub::redactor;
use std::fs;

tell!(filesystem = "file://store", sqlite = "sqlite://store.db"; (
    readers_do_not_wait_for_the_recorder, who_asks_for_one_recording_gets_it_first, a_killed_daemon_was_behind,
    a_stop_leaves_the_rest_to_the_next_daemon, a_session_that_is_gone_stays_gone, a_session_made_anew_has_one_life,
    a_scrub_waits_for_the_recorder, a_journal_that_refuses_while_it_is_behind, a_mark_of_another_store_is_not_believed,
    a_read_in_a_long_backlog_gets_what_is_its_own
));

/// A store whose recorder does not get its turns.
fn held(house: &House) -> Store {
    let store = house.open();
    store.faults().arm(Point::RecordTurn, u64::MAX);
    store
}

fn crowd(count: usize) -> Vec<Teller> {
    (0..count).map(|number| Teller::told(&format!("s{number}"))).collect()
}

fn has_recording(store: &Store, name: &str) -> bool {
    store.recording(&id(name)).join("events.jsonl").exists()
}

/// Everything is recorded, and the journal has nothing that is still needed.
fn assert_all_done(house: &House, store: Store, tellers: &[Teller]) {
    store.faults().arm(Point::RecordTurn, 0);
    wait(store.flush()).unwrap();
    for teller in tellers {
        teller.assert_recorded_in(&store);
        teller.assert_in(&store);
    }
    assert!(store.problems().is_empty(), "{:?}", store.problems());
    store.close().unwrap();
    assert!(house.segments().is_empty());
}

fn readers_do_not_wait_for_the_recorder(house: House) {
    let (store, tellers) = (held(&house), crowd(20));
    tellers.iter().for_each(|teller| teller.append_to(&store));
    tellers.iter().for_each(|teller| teller.assert_in(&store));
    assert_eq!(wait(store.list(None, None, 99)).unwrap().len(), 20);
    wait(store.flush_backend()).unwrap();
    assert!(!has_recording(&store, "s3"));
    assert_all_done(&house, store, &tellers);
}

fn who_asks_for_one_recording_gets_it_first(house: House) {
    let (store, mut tellers) = (held(&house), crowd(20));
    tellers.iter().for_each(|teller| teller.append_to(&store));
    // From the journal, from what is held, and again when there is more.
    tellers[7].assert_recorded_in(&store);
    wait(store.flush_backend()).unwrap();
    tellers[8].assert_recorded_in(&store);
    for teller in &mut tellers[6..9] {
        teller.message("user", "more");
        teller.append_last(&store).unwrap();
    }
    tellers[7].assert_recorded_in(&store);
    wait(store.flush_backend()).unwrap();
    tellers[7].assert_recorded_in(&store);
    tellers[8].assert_recorded_in(&store);
    assert!(!has_recording(&store, "s6"));
    assert_all_done(&house, store, &tellers);
}

fn a_killed_daemon_was_behind(house: House) {
    let (store, mut tellers) = (house.open(), crowd(20));
    tellers.iter().for_each(|teller| teller.append_to(&store));
    wait(store.flush()).unwrap();
    store.faults().arm(Point::RecordTurn, u64::MAX);
    for teller in &mut tellers {
        teller.message("user", "while it is behind");
        teller.append_last(&store).unwrap();
    }
    wait(store.flush_backend()).unwrap();
    tellers[3].assert_recorded_in(&store);
    let killed = house.after_kill();
    assert_all_done(&house, store, &tellers);
    // Its mark may be lost, or torn.
    for text in [None, Some(""), Some("{\"store\":")] {
        let again = killed.after_kill();
        if let Some(text) = text {
            fs::write(again.path().join("journal/recorded"), text).unwrap();
        }
        let store = again.open();
        tellers[5].assert_in(&store);
        assert_all_done(&again, store, &tellers);
    }
}

fn a_stop_leaves_the_rest_to_the_next_daemon(house: House) {
    let (store, tellers) = (held(&house), crowd(20));
    tellers.iter().for_each(|teller| teller.append_to(&store));
    store.close().unwrap();
    assert_eq!(house.segments().len(), 1);
    drop(store);
    let store = held(&house);
    tellers[5].assert_in(&store);
    assert!(!has_recording(&store, "s6"));
    assert_all_done(&house, store, &tellers);
}

fn a_session_that_is_gone_stays_gone(house: House) {
    let (store, mut tellers) = (house.open(), crowd(3));
    tellers[0].append_to(&store);
    wait(store.flush()).unwrap();
    store.faults().arm(Point::RecordTurn, u64::MAX);
    tellers[1].append_to(&store);
    wait(store.flush_backend()).unwrap();
    tellers[2].append_to(&store);
    for teller in &mut tellers {
        teller.say(Event::SessionDestroyed);
        teller.append_last(&store).unwrap();
    }
    wait(store.flush_about(&id("s2"))).unwrap();
    assert!(!store.recording(&id("s2")).exists());
    let killed = house.after_kill();
    for (house, store) in [(&house, store), (&killed, killed.open())] {
        assert_all_done(house, store, &[]);
        let store = house.open();
        let left = |name: &&str| store.recording(&id(name)).exists();
        assert_eq!(["s0", "s1", "s2"].iter().filter(|name| left(name)).count(), 0);
    }
}

fn a_session_made_anew_has_one_life(house: House) {
    let store = held(&house);
    let mut first = Teller::told("a");
    (0..30).for_each(|_| first.message("user", "a long first life"));
    first.append_to(&store);
    wait(store.flush_backend()).unwrap();
    first.assert_recorded_in(&store);
    first.say(Event::SessionDestroyed);
    first.append_last(&store).unwrap();
    let mut second = Teller::begin("a", None);
    second.message("user", "a short second one");
    second.append_to(&store);
    second.assert_recorded_in(&store);
    let killed = house.after_kill();
    second.message("user", "that goes on");
    second.append_last(&store).unwrap();
    second.assert_recorded_in(&store);
    assert_all_done(&house, store, &[second]);
    let mut second = Teller::begin("a", None);
    second.message("user", "a short second one");
    let store = killed.open();
    second.assert_recorded_in(&store);
    assert_all_done(&killed, store, &[second]);
}

fn a_scrub_waits_for_the_recorder(house: House) {
    let secret = "kV9-behind-value-7731";
    let store = house.open();
    store.faults().arm(Point::RecordTurn, 5);
    let mut teller = Teller::told("a");
    teller.message("user", &format!("my key is {secret}"));
    teller.append_to(&store);
    let others = crowd(5);
    others.iter().for_each(|other| other.append_to(&store));
    let redactor = redactor([secret]).unwrap();
    let scrubbed = wait(store.scrub(&id("a"), &redactor, None)).unwrap().masked;
    assert_eq!(scrubbed.seqs, [teller.state.seq]);
    let journal: Vec<u8> = house.segments().iter().flat_map(|segment| fs::read(segment).unwrap()).collect();
    assert!(!String::from_utf8_lossy(&journal).contains(secret));
    let verdict = teller.verdict(&store);
    assert_eq!(verdict.lines, teller.state.seq);
    assert_all_done(&house, store, &others);
}

fn a_journal_that_refuses_while_it_is_behind(house: House) {
    let (store, mut tellers) = (held(&house), crowd(3));
    tellers.iter().for_each(|teller| teller.append_to(&store));
    wait(store.flush_backend()).unwrap();
    store.faults().arm(Point::JournalWrite, u64::MAX);
    for teller in &mut tellers {
        teller.message("user", "in memory");
        teller.append_last(&store).unwrap_err();
    }
    tellers.iter().for_each(|teller| teller.assert_in(&store));
    tellers[1].assert_recorded_in(&store);
    store.faults().arm(Point::RecordTurn, 0);
    wait(store.flush()).unwrap();
    store.faults().arm(Point::JournalWrite, 0);
    for teller in &mut tellers {
        teller.message("user", "in the journal again");
        // What waits goes first.
        let _ = teller.append_last(&store);
    }
    assert_all_done(&house, store, &tellers);
}

fn a_mark_of_another_store_is_not_believed(house: House) {
    let (store, tellers) = (held(&house), crowd(3));
    tellers.iter().for_each(|teller| teller.append_to(&store));
    store.close().unwrap();
    drop(store);
    let place = house.path().join("journal/recorded");
    let text = fs::read_to_string(&place).unwrap();
    let mut other: serde_json::Value = serde_json::from_str(&text).unwrap();
    other["store"] = "another".into();
    other["mark"]["offset"] = 1_000_000.into();
    fs::write(&place, other.to_string()).unwrap();
    let store = house.open();
    assert_all_done(&house, store, &tellers);
}

/// More than is read ahead waits for the backend; a session's state still has all that was appended.
fn a_read_in_a_long_backlog_gets_what_is_its_own(house: House) {
    let store = house.open();
    let mut first = Teller::told("a");
    (0..20).for_each(|_| first.message("user", "a long first life"));
    first.say(Event::SessionDestroyed);
    first.append_to(&store);
    let long = "x".repeat(10_000);
    let mut others = crowd(20);
    let mut second = Teller::begin("a", None);
    second.append_to(&store);
    others.iter().for_each(|other| other.append_to(&store));
    for number in 0..24 {
        for other in &mut others {
            other.message("user", &long);
            other.append_last(&store).unwrap();
        }
        second.message("user", &number.to_string());
        second.append_last(&store).unwrap();
        if number % 12 == 11 {
            second.assert_in(&store);
            assert_eq!(wait(store.messages(&id("a"), 0, 99)).unwrap().len(), number + 1);
        }
    }
    others.push(second);
    assert_all_done(&house, store, &others);
}
