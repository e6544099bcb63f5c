//! What survives a killed daemon, a full disk, a broken backend and broken files.

use super::*;
use crate::ReadError;
use crate::fault::Point;
use std::fs::{self, OpenOptions};
use std::io::Write as _;

tell!(filesystem = "file://store", sqlite = "sqlite://store.db"; (
    a_killed_daemon_loses_nothing, a_clean_close_leaves_no_journal, a_torn_last_line_is_cut,
    a_corrupt_line_sets_its_session_aside, a_replayed_journal_changes_nothing, a_newer_journal_is_refused, a_journal_that_lost_records_is_refused,
    a_journal_of_another_store_is_refused, a_refusing_disk_loses_nothing_and_keeps_order, what_nothing_takes_is_counted,
    a_failing_backend_is_retried, a_closed_store_says_so, segments_rotate_and_are_removed,
    power_durability_waits_for_the_disk, a_session_made_anew_survives_replay,
    a_directory_that_is_a_file_is_refused, a_reader_needs_only_its_own_session,
    a_state_does_not_wait_for_the_backend
));

/// Appends while the backend takes nothing, so that everything is in the journal alone.
fn journalled_only(house: &House, tellers: &[&Teller]) -> Store {
    let store = house.open();
    store.faults().arm(Point::BackendApply, u64::MAX);
    for teller in tellers {
        teller.append_to(&store);
    }
    store
}

fn a_killed_daemon_loses_nothing(house: House) {
    let mut teller = Teller::lived("a");
    let open = teller.start(Some("req-2"));
    let store = journalled_only(&house, &[&teller]);
    let killed = house.after_kill();
    drop(store);
    let store = killed.open();
    teller.assert_in(&store);
    assert_eq!(wait(store.unfinished()).unwrap(), [id("a")]);
    teller.finish(&open, set("B", "2"));
    teller.append_last(&store).unwrap();
    drop(store);
    // The journal that the first store could not apply is still there for its own next start.
    let store = house.open();
    teller.append_last(&store).unwrap();
    teller.assert_in(&store);
}

fn a_clean_close_leaves_no_journal(house: House) {
    let store = house.open();
    let teller = Teller::lived("a");
    teller.append_to(&store);
    store.close().unwrap();
    assert!(house.segments().is_empty());
    drop(store);
    teller.assert_in(&house.open());
}

fn a_torn_last_line_is_cut(house: House) {
    let teller = Teller::lived("a");
    let store = journalled_only(&house, &[&teller]);
    let killed = house.after_kill();
    drop(store);
    let segment = killed.segments().pop().unwrap();
    let whole = fs::read(&segment).unwrap();
    OpenOptions::new().append(true).open(&segment).unwrap().write_all(b"{\"session_id\":\"a\",\"se").unwrap();
    crate::segment::repair(&killed.path().join("journal"), 1).unwrap();
    assert_eq!(fs::read(&segment).unwrap(), whole);
    OpenOptions::new().append(true).open(&segment).unwrap().write_all(b"{\"session_id\":\"a\",\"se").unwrap();
    let store = killed.open();
    teller.assert_in(&store);
    assert!(store.problems().is_empty());
}

fn a_corrupt_line_sets_its_session_aside(house: House) {
    let (broken, healthy) = (Teller::lived("a"), Teller::lived("b"));
    let store = journalled_only(&house, &[&broken, &healthy]);
    let killed = house.after_kill();
    drop(store);
    let segment = killed.segments().pop().unwrap();
    // The last record of `a`, so that no gap would tell. What is changed is a time, which any number can be.
    let mut lines: Vec<Vec<u8>> = fs::read(&segment).unwrap().split(|byte| *byte == b'\n').map(Vec::from).collect();
    let line = &mut lines[broken.records.len()];
    let at = line.windows(4).position(|window| window == b":13:").unwrap();
    line[at + 1] = b'0';
    fs::write(&segment, lines.join(&b'\n')).unwrap();
    let store = killed.open();
    assert!(matches!(wait(store.load(&id("a"))), Err(ReadError::Damaged { .. })));
    healthy.assert_in(&store);
    assert!(store.problems()[0].contains("session a cannot be read"), "{:?}", store.problems());
}

fn a_replayed_journal_changes_nothing(house: House) {
    let mut teller = Teller::lived("a");
    teller.start(None);
    let store = house.open();
    teller.append_to(&store);
    wait(store.flush()).unwrap();
    // The journal is put back behind the mark, as if the mark had not reached the disk.
    let lines = fs::read(house.segments().pop().unwrap()).unwrap();
    drop(store);
    let next = house.path().join("journal/0000000099.jsonl");
    fs::write(next, lines).unwrap();
    teller.assert_in(&house.open());
}

fn a_session_made_anew_survives_replay(house: House) {
    let mut first = Teller::lived("a");
    first.say(Event::SessionDestroyed);
    let second = Teller::lived("a");
    let store = house.open();
    first.append_to(&store);
    second.append_to(&store);
    wait(store.flush()).unwrap();
    let store_id = store_id(&house);
    drop(store);
    // The replay begins in the middle of the first life.
    let journal = house.path().join("journal");
    let mut segment = crate::segment::create(&journal, 99, &store_id, Default::default()).unwrap().file;
    for (record, number) in first.records[2..].iter().chain(&second.records).zip(1..) {
        let mut line = serde_json::to_vec(record).unwrap();
        crate::line::Body::of(&line).complete(&mut line, number);
        segment.write_all(&line).unwrap();
    }
    second.assert_in(&house.open());
}

/// The id of a store that is open, as its journal has it.
fn store_id(house: &House) -> String {
    let header = fs::read_to_string(house.segments().pop().unwrap()).unwrap();
    let header: serde_json::Value = serde_json::from_str(header.lines().next().unwrap()).unwrap();
    header["store"].as_str().unwrap().to_owned()
}

/// A line that is missing leaves no trace in its session if it was the last, and a changed name no trace in any.
fn a_journal_that_lost_records_is_refused(house: House) {
    let (one, other) = (Teller::lived("s1"), Teller::lived("s2"));
    let _store = journalled_only(&house, &[&one, &other]);
    let is_last_of_one = |line: &str| line.contains("\"s1\",\"seq\":5,");
    type Damage<'a> = (&'a str, &'a dyn Fn(&str) -> String);
    let damages: [Damage<'_>; 3] = [
        ("a line is gone", &|text| {
            text.lines().filter(|line| !is_last_of_one(line)).map(|line| format!("{line}\n")).collect()
        }),
        ("a name is another", &|text| {
            text.replace("{\"session_id\":\"s1\",\"seq\":5,", "{\"session_id\":\"s2\",\"seq\":5,")
        }),
        ("the end of a segment is gone", &|text| text.lines().take(4).map(|line| format!("{line}\n")).collect()),
    ];
    for (name, damage) in damages {
        let killed = house.after_kill();
        let path = killed.path();
        {
            let segment = path.join("journal/0000000001.jsonl");
            let text = fs::read_to_string(&segment).unwrap();
            if name.starts_with("the end") {
                let lines = text.lines().count() as u64 - 1;
                let after = crate::segment::After { segment: 1, lines };
                drop(crate::segment::create(&path.join("journal"), 2, &store_id(&house), after).unwrap());
            }
            fs::write(&segment, damage(&text)).unwrap();
        }
        let refused = killed.try_open().expect_err(name);
        assert!(matches!(&refused, OpenError::RecordsLost { .. }), "{name}: {refused}");
        let options = RecordOptions { accept_loss: true, ..RecordOptions::default() };
        let store = Store::open_with(killed.url, killed.path(), Durability::Process, options).unwrap();
        wait(store.flush()).unwrap();
    }
}

fn a_newer_journal_is_refused(house: House) {
    drop(house.open());
    fs::write(house.path().join("journal/0000000099.jsonl"), "{\"format\":7,\"store\":\"x\"}\n").unwrap();
    assert!(matches!(house.try_open(), Err(OpenError::NewerFormat { found: 7, ours: 6, .. })));
}

fn a_journal_of_another_store_is_refused(house: House) {
    drop(house.open());
    fs::write(house.path().join("journal/0000000099.jsonl"), "{\"format\":1,\"store\":\"x\"}\n").unwrap();
    assert!(matches!(house.try_open(), Err(OpenError::OtherStore { .. })));
}

fn a_refusing_disk_loses_nothing_and_keeps_order(house: House) {
    let store = house.open();
    let mut teller = Teller::begin("a", None);
    teller.append_to(&store);
    store.faults().arm(Point::JournalWrite, u64::MAX);
    for round in 0..20 {
        let run = teller.start(None);
        assert!(matches!(teller.append_last(&store), Err(AppendError::Retrying { .. })), "round {round}");
        teller.finish(&run, set("ROUND", &round.to_string()));
        assert!(matches!(teller.append_last(&store), Err(AppendError::Retrying { .. })), "round {round}");
    }
    assert!(store.problems()[0].contains("injected fault"), "{:?}", store.problems());
    // Readers see even what the journal refuses.
    teller.assert_in(&store);
    store.faults().arm(Point::JournalWrite, 0);
    wait(store.flush()).unwrap();
    assert!(store.problems().is_empty(), "{:?}", store.problems());
    teller.say(Event::ShellStarted { generation: 7 });
    teller.append_last(&store).unwrap();
    // Everything is in the journal now, in order.
    let journal = fs::read_to_string(house.segments().pop().unwrap()).unwrap();
    let told: Vec<Record> = journal.lines().skip(1).map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(told, teller.records);
    teller.assert_in(&store);
    store.close().unwrap();
    drop(store);
    teller.assert_in(&house.open());
}

/// A daemon that was stopped while its disk was full lost what was only in memory, and nobody could ask how much that was.
fn what_nothing_takes_is_counted(house: House) {
    let store = house.open();
    let mut teller = Teller::begin("a", None);
    teller.append_to(&store);
    wait(store.flush()).unwrap();
    assert_eq!(store.unwritten(), 0);
    for point in [Point::JournalWrite, Point::BackendApply] {
        store.faults().arm(point, u64::MAX);
    }
    let run = teller.start(None);
    teller.append_last(&store).unwrap_err();
    teller.finish(&run, set("ROUND", "1"));
    teller.append_last(&store).unwrap_err();
    wait(store.flush()).unwrap_err();
    assert_eq!(store.unwritten(), 2);
    // What the backend has is not lost, although the journal still refuses it.
    store.faults().arm(Point::BackendApply, 0);
    wait(store.flush_backend()).unwrap();
    assert_eq!(store.unwritten(), 0);
    store.faults().arm(Point::BackendApply, u64::MAX);
    teller.start(None);
    teller.append_last(&store).unwrap_err();
    store.close().unwrap_err();
    assert_eq!(store.unwritten(), 1);
}

fn a_failing_backend_is_retried(house: House) {
    let store = house.open();
    store.faults().arm(Point::BackendApply, 2);
    let teller = Teller::lived("a");
    teller.append_to(&store);
    let mut refused = 0;
    while let Err(error) = wait(store.runs(&id("a"), u64::MAX, 9)) {
        assert!(matches!(error, ReadError::Unavailable { .. }), "{error}");
        refused += 1;
    }
    assert!(refused <= 2);
    teller.assert_in(&store);
    assert!(store.problems().is_empty());
}

fn a_closed_store_says_so(house: House) {
    let store = house.open();
    store.close().unwrap();
    let teller = Teller::lived("a");
    assert_eq!(teller.append_last(&store), Err(AppendError::Closed));
    assert!(matches!(wait(store.load(&id("a"))), Err(ReadError::Unavailable { .. })));
    store.close().unwrap();
}

fn segments_rotate_and_are_removed(house: House) {
    let open = || {
        let options = RecordOptions::default();
        Store::open_in_segments(house.url, house.path(), Durability::Process, options, 2000).unwrap()
    };
    let store = open();
    store.faults().arm(Point::BackendApply, u64::MAX);
    let mut teller = Teller::lived("a");
    for n in 0..100 {
        let run = teller.start(None);
        teller.finish(&run, set("N", &n.to_string()));
    }
    teller.append_to(&store);
    assert!(house.segments().len() > 10);
    drop(store);
    let store = open();
    teller.assert_in(&store);
    wait(store.flush()).unwrap();
    assert_eq!(house.segments().len(), 1);
}

fn power_durability_waits_for_the_disk(house: House) {
    let store = Store::open(house.url, house.path(), Durability::Power).unwrap();
    let teller = Teller::lived("a");
    teller.append_to(&store);
    wait(store.sync()).unwrap();
    store.faults().arm(Point::JournalWrite, u64::MAX);
    let mut more = Teller::lived("b");
    more.say(Event::ShellStarted { generation: 2 });
    more.append_last(&store).unwrap_err();
    assert!(wait(store.sync()).is_err());
    store.faults().arm(Point::JournalWrite, 0);
    wait(store.sync()).unwrap();
    teller.assert_in(&store);
}

/// While the backend takes nothing, a session of which nothing waits can be read, and one of which something does cannot:
/// it would be an old state. Afterwards both are as acknowledged.
fn a_reader_needs_only_its_own_session(house: House) {
    let store = house.open();
    let (mut waiting, resting) = (Teller::lived("a"), Teller::lived("b"));
    waiting.append_to(&store);
    resting.append_to(&store);
    wait(store.flush()).unwrap();
    store.faults().arm(Point::BackendApply, u64::MAX);
    waiting.say(Event::ShellStarted { generation: 2 });
    waiting.append_last(&store).unwrap();
    resting.assert_in(&store);
    assert!(matches!(wait(store.runs(&id("a"), u64::MAX, 9)), Err(ReadError::Unavailable { .. })));
    // Also when applying has failed already.
    resting.assert_in(&store);
    assert!(matches!(wait(store.list(None, None, 9)), Err(ReadError::Unavailable { .. })));
    store.faults().arm(Point::BackendApply, 0);
    waiting.assert_in(&store);
    assert!(store.problems().is_empty());
    // What was read ahead is applied once, no matter who asked for it.
    waiting.say(Event::ShellStarted { generation: 3 });
    waiting.append_last(&store).unwrap();
    resting.assert_in(&store);
    drop(store);
    waiting.assert_in(&house.open());
}

/// The state of a session is that of its last record, however much of it the backend has.
fn a_state_does_not_wait_for_the_backend(house: House) {
    let store = house.open();
    let (mut known, mut deleted) = (Teller::lived("known"), Teller::lived("deleted"));
    known.append_to(&store);
    deleted.append_to(&store);
    wait(store.flush()).unwrap();
    store.faults().arm(Point::BackendApply, u64::MAX);
    let run_id = known.start(None);
    known.finish(&run_id, set("B", "2"));
    known.records[known.records.len() - 2..].iter().for_each(|record| store.append(record).unwrap());
    known.assert_in(&store);
    deleted.say(Event::SessionDestroyed);
    deleted.append_last(&store).unwrap();
    assert_eq!(wait(store.load(&id("deleted"))).unwrap(), None);
    let again = Teller::told("deleted");
    again.append_to(&store);
    let unknown = Teller::lived("unknown");
    unknown.append_to(&store);
    let is_right = |store: &Store| [&known, &again, &unknown].into_iter().for_each(|teller| teller.assert_in(store));
    is_right(&store);
    // What is wrong with a session, only the backend says.
    let mut broken = Teller::lived("broken");
    broken.records.remove(1);
    broken.append_to(&store);
    assert!(matches!(wait(store.load(&id("broken"))), Err(ReadError::Unavailable { .. })));
    is_right(&store);
    store.faults().arm(Point::BackendApply, 0);
    wait(store.flush()).unwrap();
    is_right(&store);
    assert!(matches!(wait(store.load(&id("broken"))), Err(ReadError::Damaged { .. })));
}

fn a_directory_that_is_a_file_is_refused(house: House) {
    let path = house.path().join("file");
    fs::write(&path, "").unwrap();
    let Err(error) = Store::open(house.url, &path, Durability::Process) else { panic!("it is a file") };
    assert!(matches!(error, OpenError::NotWritable { .. }), "{error}");
}

#[test]
fn a_file_that_is_no_database_is_refused() {
    let house = House::new("sqlite://store.db");
    fs::write(house.path().join("store.db"), "this is no database, and long enough to see that ".repeat(100)).unwrap();
    assert!(matches!(house.try_open(), Err(OpenError::Corrupt { .. })));
}

#[test]
fn a_newer_database_is_refused() {
    let house = House::new("sqlite://store.db");
    drop(house.open());
    let db = rusqlite::Connection::open(house.path().join("store.db")).unwrap();
    db.execute("UPDATE meta SET value = '7' WHERE key = 'format'", []).unwrap();
    assert!(matches!(house.try_open(), Err(OpenError::NewerFormat { found: 7, ours: 6, .. })));
}

#[test]
fn a_newer_directory_is_refused() {
    let house = House::new("file://store");
    drop(house.open());
    let path = house.path().join("store/applied.json");
    // A newer program may put its checksum elsewhere, and its format is still recognised.
    fs::write(&path, "{\"format\": 7, \"id\": \"x\", \"mark\": {\"segment\": 1, \"offset\": 0}}").unwrap();
    assert!(matches!(house.try_open(), Err(OpenError::NewerFormat { found: 7, ours: 6, .. })));
}

/// One session's row or file is broken; the session says so, others continue, and it can be destroyed.
fn one_broken_session(house: House, break_it: impl FnOnce(&Path)) {
    let store = house.open();
    let (mut broken, mut healthy) = (Teller::lived("a"), Teller::lived("b"));
    broken.append_to(&store);
    healthy.append_to(&store);
    store.close().unwrap();
    drop(store);
    break_it(house.path());
    let store = house.open();
    assert!(matches!(wait(store.load(&id("a"))), Err(ReadError::Damaged { .. })));
    for teller in [&mut broken, &mut healthy] {
        teller.say(Event::ShellStarted { generation: 2 });
        teller.append_last(&store).unwrap();
    }
    healthy.assert_in(&store);
    assert!(matches!(wait(store.load(&id("a"))), Err(ReadError::Damaged { .. })));
    assert!(wait(store.list(None, None, 9)).unwrap()[0].damaged.is_some());
    broken.say(Event::SessionDestroyed);
    broken.append_last(&store).unwrap();
    assert_eq!(wait(store.load(&id("a"))).unwrap(), None);
}

#[test]
fn a_broken_row_is_one_sessions_damage() {
    for sql in [
        "UPDATE sessions SET rest = '{' WHERE id = 'a'",
        "UPDATE sessions SET pending = x'00' WHERE id = 'a'",
        "UPDATE sessions SET seq = 'x' WHERE id = 'a'",
    ] {
        one_broken_session(House::new("sqlite://store.db"), |path| {
            let db = rusqlite::Connection::open(path.join("store.db")).unwrap();
            assert_eq!(db.execute(sql, []).unwrap(), 1);
        });
    }
}

#[test]
fn a_broken_file_is_one_sessions_damage() {
    for name in ["state.json", "meta.json"] {
        one_broken_session(House::new("file://store"), |path| {
            fs::write(path.join("store/sessions/a").join(name), "{").unwrap();
        });
    }
}

/// A store that vanished is not taken for a new one.
#[test]
fn a_missing_store_beside_old_data_is_refused() {
    for (url, file) in [("sqlite://store.db", "store.db"), ("file://store", "store/applied.json")] {
        for empty in [false, true] {
            let house = House::new(url);
            let store = house.open();
            Teller::lived("a").append_to(&store);
            store.close().unwrap();
            drop(store);
            let path = house.path().join(file);
            fs::remove_file(&path).unwrap();
            if empty {
                fs::write(&path, "").unwrap();
            }
            let refused = house.try_open().expect_err(url);
            assert!(matches!(&refused, OpenError::StoreMissing { .. }), "{url}: {refused}");
            // What an older program left has no word that a store was made, but recordings.
            fs::remove_file(house.path().join("store.json")).unwrap();
            assert!(matches!(house.try_open(), Err(OpenError::StoreMissing { .. })), "{url}");
            let options = RecordOptions { accept_loss: true, ..RecordOptions::default() };
            let store = Store::open_with(url, house.path(), Durability::Process, options).unwrap();
            // What a file:// store has of its sessions is in their own directories.
            assert_eq!(wait(store.load(&id("a"))).unwrap().is_some(), url.starts_with("file"), "{url}");
        }
    }
}

/// After a failed sync nothing is trusted that was written since the last good one: it is written again, elsewhere.
#[test]
fn a_failed_sync_is_told_and_what_it_was_about_is_written_again() {
    for url in ["sqlite://store.db", "file://store"] {
        let house = House::new(url);
        let store = Store::open(url, house.path(), Durability::Power).unwrap();
        let mut teller = Teller::begin("a", None);
        teller.append_to(&store);
        wait(store.sync()).unwrap();
        store.faults().arm(Point::BackendApply, u64::MAX);
        let run = teller.start(None);
        teller.append_last(&store).unwrap();
        store.faults().arm(Point::JournalSync, 2);
        let is_told = || store.problems().iter().any(|problem| problem.contains("synced to disk"));
        assert!(wait(store.sync()).is_err());
        assert!(is_told(), "{:?}", store.problems());
        teller.finish(&run, set("A", "1"));
        teller.append_last(&store).unwrap();
        // No one asks for it: it is tried again by itself.
        shellkeep_poll::until("the sync is repeated", || (!is_told()).then_some(()));
        let last = house.segments().pop().unwrap();
        let text = fs::read_to_string(&last).unwrap();
        assert!(last.ends_with("0000000002.jsonl") && text.lines().count() == 3, "{text}");
        // What the disk has of the first segment no longer matters after the last good sync.
        let killed = house.after_kill();
        let first = killed.path().join("journal/0000000001.jsonl");
        let mut bytes = fs::read(&first).unwrap();
        bytes.extend_from_slice(&[0; 200]);
        fs::write(&first, bytes).unwrap();
        teller.assert_in(&killed.open());
        store.faults().arm(Point::BackendApply, 0);
        teller.assert_in(&store);
    }
}
