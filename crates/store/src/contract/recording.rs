//! Recordings beside each backend: everything in order, nothing lost to a crash, and a disk that refuses holds no one up.

use super::*;
use crate::fault::Point;
use std::fs;

tell!(memory = "memory://", filesystem = "file://store", sqlite = "sqlite://store.db"; (
    every_record_has_a_line, messages_come_in_pages, lost_records_are_a_jump, a_destroyed_session_leaves_no_recording,
    what_could_not_be_read_again_is_refused, followers_hear_of_records, a_beginning_that_is_lost_is_made_up_for, what_cannot_be_written_is_told
));

mod journalled {
    use super::super::*;

    tell!(filesystem = "file://store", sqlite = "sqlite://store.db"; (
        a_killed_daemon_records_on, a_recording_that_failed_is_brought_up, one_bad_directory_holds_up_nobody_else,
        a_recording_left_behind_is_brought_up_by_the_next_daemon, too_far_behind_is_a_hole,
        a_backend_that_fails_every_other_time_gets_all, recordings_are_ahead_of_a_failing_backend
    ));

    use super::{
        a_backend_that_fails_every_other_time_gets_all, a_killed_daemon_records_on,
        a_recording_left_behind_is_brought_up_by_the_next_daemon, a_recording_that_failed_is_brought_up,
        one_bad_directory_holds_up_nobody_else, recordings_are_ahead_of_a_failing_backend, too_far_behind_is_a_hole,
    };
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    shellkeep_poll::until(what, || is_so().then_some(()));
}

fn every_record_has_a_line(house: House) {
    let store = house.open();
    let teller = Teller::told("a");
    teller.append_to(&store);
    teller.assert_recorded_in(&store);
    let recording = Recording::open(&store.recording(&id("a"))).unwrap();
    let types: Vec<String> = recording.lines(1).unwrap().map(|line| line.unwrap().event_type).collect();
    assert_eq!(types[..5], ["session_created", "shell_started", "run_started", "tool_call", "shell_stopped"]);
    assert_eq!(types[types.len() - 4..], ["llm_call", "message_added", "message_added", "agent_state_saved"]);
    let call = recording.line(4).unwrap().unwrap();
    assert_eq!((&call.data["parameters"]["command"], &call.data["output"]), (&"true".into(), &"hi\n".into()));
    let snapshot = fs::read_to_string(store.recording(&id("a")).join("config_snapshot.json")).unwrap();
    let snapshot: serde_json::Value = serde_json::from_str(&snapshot).unwrap();
    assert_eq!((&snapshot["agent"], &snapshot["agent_config"]["depth"]), (&"ann".into(), &1.into()));
    assert!(snapshot["shell"]["variables"]["HOME"].is_object());
}

fn messages_come_in_pages(house: House) {
    let store = house.open();
    let mut teller = Teller::begin("a", None);
    for number in 1..=10 {
        teller.message("user", &format!("message {number}"));
    }
    teller.append_to(&store);
    let seq_ids = |after, limit| -> Vec<u64> {
        wait(store.messages(&id("a"), after, limit)).unwrap().iter().map(|message| message.seq_id).collect()
    };
    assert_eq!(seq_ids(0, 3), [1, 2, 3]);
    assert_eq!(seq_ids(3, 100), (4..=10).collect::<Vec<_>>());
    assert!(seq_ids(10, 5).is_empty() && seq_ids(u64::MAX, 5).is_empty() && seq_ids(0, 0).is_empty());
    assert_eq!(wait(store.messages(&id("a"), 9, 1)).unwrap()[0].content, "message 10");
    assert!(wait(store.messages(&id("b"), 0, 9)).unwrap().is_empty());
    // Its conversation goes with it.
    teller.say(Event::SessionDestroyed);
    teller.append_last(&store).unwrap();
    Teller::begin("a", None).append_to(&store);
    assert!(seq_ids(0, 9).is_empty());
}

fn lost_records_are_a_jump(house: House) {
    let store = house.open();
    let mut teller = Teller::told("a");
    teller.lose(5);
    let run = teller.start(None);
    teller.finish(&run, set("AFTER", "1"));
    teller.append_to(&store);
    teller.assert_in(&store);
    let verdict = teller.verdict(&store);
    assert!(verdict.is_intact() && verdict.holes.len() == 1, "{verdict:?}");
    assert_eq!(verdict.holes[0].through - verdict.holes[0].from, 4);
}

/// The first records of a session were lost; the one that says so has all that they led to.
fn a_beginning_that_is_lost_is_made_up_for(house: House) {
    let store = house.open();
    let mut teller = Teller::told("a");
    let state = Box::new(teller.state.clone());
    teller.records.clear();
    teller.say(Event::RecordsLost { from: 1, reason: "the disk was full".to_owned(), state });
    teller.append_to(&store);
    teller.assert_in(&store);
    assert!(wait(store.first_shell(&id("a"))).unwrap().is_some());
    let run = teller.start(None);
    teller.append_last(&store).unwrap();
    teller.finish(&run, set("AFTER", "1"));
    teller.append_last(&store).unwrap();
    teller.assert_in(&store);
    assert!(teller.verdict(&store).is_intact());
}

fn a_destroyed_session_leaves_no_recording(house: House) {
    let store = house.open();
    let mut teller = Teller::told("a");
    teller.append_to(&store);
    teller.say(Event::SessionDestroyed);
    teller.append_last(&store).unwrap();
    wait(store.flush()).unwrap();
    assert!(!store.recording(&id("a")).exists());
    let anew = Teller::lived("a");
    anew.append_to(&store);
    anew.assert_recorded_in(&store);
    anew.assert_in(&store);
}

/// JSON that is nested deep can be written and not be read: it would have set its session aside at the next start.
fn what_could_not_be_read_again_is_refused(house: House) {
    let store = house.open();
    let mut teller = Teller::begin("a", None);
    let nested = |depth| (0..depth).fold(serde_json::Value::Null, |inner, _| serde_json::json!([inner]));
    teller.say(Event::Noted {
        event_type: "x_deep".to_owned(),
        data: nested(crate::depth::MAX_DEPTH),
        author: Default::default(),
    });
    teller.append_to(&store);
    teller.assert_in(&store);
    teller.assert_recorded_in(&store);
    teller.say(Event::Noted {
        event_type: "x_deep".to_owned(),
        data: nested(crate::depth::MAX_DEPTH + 1),
        author: Default::default(),
    });
    assert!(matches!(teller.append_last(&store), Err(AppendError::Invalid { .. })));
}

fn followers_hear_of_records(house: House) {
    let store = house.open();
    let mut teller = Teller::begin("a", None);
    teller.append_to(&store);
    let (mut one, other) = (store.followers().follow(&id("a")), store.followers().follow(&id("b")));
    teller.message("user", "hello");
    teller.append_last(&store).unwrap();
    wait(one.changed()).unwrap();
    assert_eq!(*one.borrow_and_update(), 2);
    assert!(!other.has_changed().unwrap());
    teller.assert_recorded_in(&store);
    drop(one);
    teller.message("user", "nobody hears this");
    teller.append_last(&store).unwrap();
    let again = store.followers().follow(&id("a"));
    assert_eq!(*again.borrow(), 0);
}

fn what_cannot_be_written_is_told(house: House) {
    let store = house.open();
    let mut teller = Teller::begin("a", None);
    store.faults().arm(Point::RecordWrite, u64::MAX);
    teller.append_to(&store);
    wait(store.flush()).unwrap();
    assert!(store.record_problem(&id("a")).unwrap().contains("injected fault"));
    assert_eq!(store.record_problem(&id("b")), None);
    assert!(store.problems()[0].contains("The recording of one session cannot be written"), "{:?}", store.problems());
    teller.assert_in(&store);
    store.faults().arm(Point::RecordWrite, 0);
    until("it recovers", || {
        teller.message("user", "more");
        teller.append_last(&store).unwrap();
        wait(store.flush()).unwrap();
        store.record_problem(&id("a")).is_none()
    });
    assert!(store.problems().is_empty(), "{:?}", store.problems());
    teller.assert_in(&store);
    let verdict = teller.verdict(&store);
    assert_eq!(verdict.bad, None);
    // Without a journal there is nothing to bring up from.
    assert_eq!(verdict.holes.is_empty(), house.url != "memory://");
}

fn a_killed_daemon_records_on(house: House) {
    let store = house.open();
    let mut teller = Teller::told("a");
    teller.append_to(&store);
    wait(store.flush()).unwrap();
    store.faults().arm(Point::BackendApply, u64::MAX);
    store.faults().arm(Point::RecordWrite, u64::MAX);
    teller.message("user", "in the journal alone");
    teller.append_last(&store).unwrap();
    let killed = house.after_kill();
    drop(store);
    // A line that was being written.
    let file = killed.open().recording(&id("a")).join("events.jsonl");
    let torn = [fs::read(&file).unwrap(), b"{\"seq\":99,\"ev".to_vec()].concat();
    fs::write(&file, torn).unwrap();
    let store = killed.open();
    teller.say(Event::ShellStarted { generation: 9 });
    teller.append_last(&store).unwrap();
    teller.assert_recorded_in(&store);
    teller.assert_in(&store);
}

fn a_recording_that_failed_is_brought_up(house: House) {
    let store = house.open();
    let (mut one, mut other) = (Teller::told("a"), Teller::told("b"));
    one.append_to(&store);
    wait(store.flush()).unwrap();
    store.faults().arm(Point::RecordWrite, u64::MAX);
    other.append_to(&store);
    for number in 0..50 {
        for teller in [&mut one, &mut other] {
            teller.message("user", &number.to_string());
            teller.append_last(&store).unwrap();
        }
        wait(store.flush()).unwrap();
    }
    assert!(store.problems()[0].contains("The recording of 2 sessions"), "{:?}", store.problems());
    assert!(house.path().join("journal/behind").exists());
    store.faults().arm(Point::RecordWrite, 0);
    until("both recover", || ["a", "b"].iter().all(|name| store.record_problem(&id(name)).is_none()));
    one.assert_recorded_in(&store);
    other.assert_recorded_in(&store);
    assert!(!house.path().join("journal/behind").exists());
    store.close().unwrap();
    assert!(house.segments().is_empty());
}

fn one_bad_directory_holds_up_nobody_else(house: House) {
    let store = house.open();
    let (mut one, other) = (Teller::told("a"), Teller::told("b"));
    // Where the session's directory should be, there is a file; the filesystem backend needs the directory itself.
    let in_the_way = store.recording(&id("a"));
    let in_the_way = if house.url.starts_with("file") { in_the_way.join("events.jsonl") } else { in_the_way };
    if house.url.starts_with("file") {
        fs::create_dir_all(&in_the_way).unwrap();
    } else {
        fs::write(&in_the_way, "").unwrap();
    }
    one.append_to(&store);
    other.append_to(&store);
    wait(store.flush()).unwrap();
    assert!(store.record_problem(&id("a")).is_some());
    other.assert_recorded_in(&store);
    one.assert_in(&store);
    one.message("user", "on");
    one.append_last(&store).unwrap();
    if in_the_way.is_dir() {
        fs::remove_dir(&in_the_way).unwrap()
    } else {
        fs::remove_file(&in_the_way).unwrap()
    };
    until("it recovers", || store.record_problem(&id("a")).is_none());
    one.assert_recorded_in(&store);
}

fn a_recording_left_behind_is_brought_up_by_the_next_daemon(house: House) {
    let (mut one, other) = (Teller::told("a"), Teller::told("b"));
    let store = house.open();
    one.append_to(&store);
    other.append_to(&store);
    wait(store.flush()).unwrap();
    store.faults().arm(Point::RecordWrite, u64::MAX);
    for number in 0..20 {
        one.message("user", &number.to_string());
        one.append_last(&store).unwrap();
    }
    wait(store.flush()).unwrap();
    let killed = house.after_kill();
    // Closed or killed, it is the same to the next.
    drop(store);
    for house in [house, killed] {
        let store = house.open();
        one.assert_recorded_in(&store);
        other.assert_recorded_in(&store);
        one.assert_in(&store);
        store.close().unwrap();
        assert!(house.segments().is_empty());
    }
}

fn too_far_behind_is_a_hole(house: House) {
    let options = RecordOptions { behind_bytes: 10_000, ..RecordOptions::default() };
    let open =
        || Store::open_in_segments(house.url, house.path(), Durability::Process, options.clone(), 2_000).unwrap();
    let store = open();
    let mut teller = Teller::told("a");
    teller.append_to(&store);
    wait(store.flush()).unwrap();
    store.faults().arm(Point::RecordWrite, u64::MAX);
    for number in 0..500 {
        teller.message("user", &number.to_string());
        teller.append_last(&store).unwrap();
    }
    wait(store.flush()).unwrap();
    // The journal does not grow without an end.
    assert!(house.segments().len() < 10, "{}", house.segments().len());
    store.faults().arm(Point::RecordWrite, 0);
    until("it recovers", || store.record_problem(&id("a")).is_none());
    let verdict = teller.verdict(&store);
    assert_eq!((verdict.bad.clone(), verdict.holes.len(), verdict.is_intact()), (None, 1, false));
    assert!(!verdict.holes[0].declared && verdict.lines > 30, "{verdict:?}");
    teller.assert_in(&store);
}

fn a_backend_that_fails_every_other_time_gets_all(house: House) {
    let store = house.open();
    store.faults().arm_every(Point::BackendApply, 2);
    store.faults().arm_every(Point::RecordWrite, 2);
    let mut teller = Teller::told("a");
    teller.append_to(&store);
    for number in 0..30 {
        teller.message("user", &number.to_string());
        teller.append_last(&store).unwrap();
        // Every other one is refused; the next is not.
        until("it is taken", || wait(store.flush()).is_ok());
    }
    until("it recovers", || store.record_problem(&id("a")).is_none() && wait(store.flush()).is_ok());
    until("it is read", || wait(store.load(&id("a"))).is_ok_and(|state| state.as_ref() == Some(&teller.state)));
    store.faults().arm_every(Point::RecordWrite, 0);
    until("it recovers for good", || store.record_problem(&id("a")).is_none());
    teller.assert_recorded_in(&store);
}

/// Who follows a session sees its lines although the backend takes nothing, and the backend gets them once it does.
fn recordings_are_ahead_of_a_failing_backend(house: House) {
    let store = house.open();
    store.faults().arm(Point::BackendApply, u64::MAX);
    let teller = Teller::told("a");
    teller.append_to(&store);
    teller.assert_recorded_in(&store);
    store.faults().arm(Point::BackendApply, 0);
    teller.assert_in(&store);
    teller.assert_recorded_in(&store);
}

#[test]
fn what_is_masked_before_it_is_written_is_in_no_recording() {
    let secret = "kV9-write-value-7731";
    let redactor = shellkeep_redact::Redactor::new(&Default::default()).unwrap().with_secrets([secret]).unwrap();
    let house = House::new("sqlite://store.db");
    let options = RecordOptions { redactor: Some(redactor), ..RecordOptions::default() };
    let store = Store::open_with(house.url, house.path(), Durability::Process, options).unwrap();
    let mut teller = Teller::told("a");
    let run = teller.start(None);
    let mut delta = set("PLAIN", secret);
    delta.variables.insert("DB_PASSWORD".into(), Some(Variable::scalar("x", "short")));
    teller.finish(&run, delta);
    teller.message("user", &format!("it is {secret}"));
    teller.append_to(&store);
    // The proof is of what was written.
    teller.assert_recorded_in(&store);
    let directory = store.recording(&id("a"));
    for file in ["events.jsonl", "config_snapshot.json"] {
        let text = fs::read_to_string(directory.join(file)).unwrap();
        assert!(!text.contains(secret) && !text.contains("\"short\""), "{file}");
    }
    // The state is not masked: a shell is restored from it.
    teller.assert_in(&store);
}

#[test]
fn without_recordings_there_are_no_files() {
    let house = House::new("sqlite://store.db");
    let store = Store::open_with(house.url, house.path(), Durability::Process, RecordOptions::off()).unwrap();
    let teller = Teller::told("a");
    teller.append_to(&store);
    teller.assert_in(&store);
    wait(store.flush_about(&id("a"))).unwrap();
    assert!(!store.recording(&id("a")).exists());
}
