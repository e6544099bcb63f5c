//! What a session was at an earlier record.

use crate::fixture::*;
use shellkeep_record::Checkpoints;
use shellkeep_record::marks::EVERY;
use shellkeep_record::past::{PastError, Unsure};
use shellkeep_session::shell::Variable;
use shellkeep_session::{
    AgentState, Author, ByteString, Cause, Checkpoint, Content, Event, FilesAt, KvState, Record, SessionState,
    ShellState,
};

fn files(digit: &str) -> FilesAt {
    FilesAt { name: format!("tool_run_command_{digit}"), commit: digit.repeat(40) }
}

fn checkpoint(seq: u64, covers: u64, digit: &str) -> Record {
    let checkpoint = Checkpoint {
        at: files(digit),
        covers,
        cause: Cause::Manual,
        tool_name: None,
        added: 1,
        changed: 0,
        deleted: 0,
        bytes: 1,
        overtaken: false,
        left_out: Vec::new(),
        left_out_total: 0,
        uncertain: Vec::new(),
        uncertain_total: 0,
    };
    record(seq, Event::Checkpointed { checkpoint: Box::new(checkpoint) })
}

fn saved(seq: u64, version: u64, bytes: &[u8]) -> Record {
    let state = AgentState { version, media_type: "x/y".to_owned(), content: Content::Inline(bytes.into()) };
    record(seq, Event::AgentStateSaved { state: Box::new(state), author: Default::default() })
}

#[test]
fn the_past_is_what_the_state_was_then() {
    let house = House::new();
    let mut records = story(40);
    records.push(saved(41, 1, b"one\xff"));
    records.push(checkpoint(42, 41, "a"));
    records.push(started(43, "x"));
    records.push(finished(44, 43, b""));
    records.push(saved(45, 2, b"two"));
    records.push(checkpoint(46, 44, "b"));
    let mut shell = ShellState { cwd: "/back".into(), ..ShellState::default() };
    shell.variables.insert("BACK".into(), Variable::scalar("", "1"));
    records.push(record(
        47,
        Event::Rewound {
            to: 42,
            step: None,
            by: None,
            files: Some(files("a")),
            kept_back: Vec::new(),
            shell: Box::new(shell),
            agent_state: None,
            kv: None,
            notices: Vec::new(),
        },
    ));
    records.push(started(48, "y"));
    take(&mut house.recorder(4096), &records);
    let recording = house.recording();
    let mut state = SessionState::create(&records[0]).unwrap();
    for record in &records[1..] {
        state.apply(record).unwrap();
        let past = recording.past(record.seq).unwrap();
        assert_eq!((&past.shell, past.seq), (&state.shell, record.seq));
        assert_eq!(past.agent_state.as_ref(), state.agent_state.as_deref(), "{}", record.seq);
        let wanted = match record.seq {
            ..=40 => None,
            41..=43 | 47.. => Some(files("a")),
            // The checkpoint of what a command did comes after the command.
            _ => Some(files("b")),
        };
        assert_eq!(past.files, wanted, "{}", record.seq);
    }
    assert_eq!(recording.past(44).unwrap().shell.variables[&ByteString::from("COUNT")], Variable::scalar("", "44"));
}

#[test]
fn what_is_not_known_is_not_told() {
    let house = House::new();
    let mut records = story(10);
    let state = SessionState::create(&records[0]).unwrap();
    let shell = state.shell.clone();
    records.push(record(15, Event::RecordsLost { from: 11, reason: "full".to_owned(), state: Box::new(state) }));
    // A hole that nobody told of: 16 to 19 never came.
    records.push(started(20, "x"));
    records.push(record(21, Event::Restarted { shell: Box::default() }));
    take(&mut house.recorder(u64::MAX), &records);
    let recording = house.recording();
    assert!(recording.past(10).is_ok());
    // What the lost ones led to is told with them.
    assert_eq!(recording.past(15).unwrap().shell, shell);
    assert!(matches!(recording.past(20), Err(PastError::Hole { before: 16, .. })));
    assert_eq!(recording.past(21).unwrap().shell, ShellState::default());
    assert!(matches!(recording.past(22), Err(PastError::NoSuchRecord { seq: 22, last: 21 })));
    assert!(matches!(recording.past(0), Err(PastError::BeforeTheFirst)));
}

/// The bug: a node that takes over a session of many records has one line in place of the first of them. It told neither where
/// the workspace was nor which version the keyed store had. So a rewind to a moment after it went to the directory of the old
/// node, and emptied the store.
#[test]
fn what_stands_for_missing_records_tells_the_workspace_and_the_keyed_store() {
    let house = House::new();
    let mut there = SessionState::create(&created()).unwrap();
    there.meta.workspace = "/n1/workspaces/a".into();
    there.shell.cwd = "/n1/workspaces/a/src".into();
    there.kv = KvState { version: 7, restored: None };
    let mut here = there.clone();
    here.meta.workspace = "/n2/workspaces/a".into();
    here.shell.cwd = "/n2/workspaces/a/src".into();
    let claim = "2.n2.7c01".parse().unwrap();
    let changed = Event::KvChanged { version: 8, changes: Vec::new(), author: Author::default() };
    let records = [
        record(600, Event::RecordsLost { from: 1, reason: "elsewhere".to_owned(), state: Box::new(there) }),
        started(601, "x"),
        finished(602, 601, b""),
        record(603, Event::Owned { claim, because: "owner_gone".to_owned(), state: Some(Box::new(here)) }),
        record(604, changed),
    ];
    take(&mut house.recorder(4096), &records);
    let recording = house.recording();
    for (seq, node, version) in [(600, "n1", 7), (602, "n1", 7), (603, "n2", 7), (604, "n2", 8)] {
        let mut past = recording.past(seq).unwrap();
        assert_eq!(past.workspace, Some(ByteString::from(format!("/{node}/workspaces/a"))), "{seq}");
        assert_eq!(past.kv_version, Some(version), "{seq}");
        past.move_to(&"/n2/workspaces/a".into());
        assert_eq!(past.shell.cwd, ByteString::from("/n2/workspaces/a/src"), "{seq}");
    }
}

/// Older programs left the keyed store out of such lines. Version 0 was taken for it, which is an empty store.
#[test]
fn the_version_of_the_keyed_store_is_unknown_where_no_line_tells_it() {
    let shell = serde_json::to_value(ShellState::default()).unwrap();
    let old = |seq, event_type: &str, mut data: serde_json::Value| {
        data["shell"] = shell.clone();
        data["files"] = serde_json::Value::Null;
        record(seq, Event::Noted { event_type: event_type.to_owned(), data, author: Author::default() })
    };
    let changed =
        |seq, version| record(seq, Event::KvChanged { version, changes: Vec::new(), author: Author::default() });
    let records = [
        created(),
        changed(2, 1),
        // The store is the same, whoever owns the session.
        old(3, "session_owned", serde_json::json!({"node": "n2", "workspace": "/w"})),
        old(4, "records_lost", serde_json::json!({"from": 4, "through": 3, "reason": "full"})),
        old(5, "session_owned", serde_json::json!({"node": "n3", "workspace": "/w"})),
        changed(6, 9),
    ];
    let house = House::new();
    take(&mut house.recorder(4096), &records);
    let recording = house.recording();
    let versions: Vec<_> = (1..=6).map(|seq| recording.past(seq).unwrap().kv_version).collect();
    assert_eq!(versions, [Some(0), Some(1), Some(1), None, None, Some(9)]);
}

#[test]
fn what_was_not_kept_before_the_next_command_began_is_not_certain() {
    let kept = |seq, covers, digit, overtaken| match checkpoint(seq, covers, digit).event {
        Event::Checkpointed { mut checkpoint } => {
            checkpoint.overtaken = overtaken;
            record(seq, Event::Checkpointed { checkpoint })
        }
        other => record(seq, other),
    };
    let begun = |seq, unkept| match started(seq, "true").event {
        Event::RunStarted { run_id, request_id, command, call, by, .. } => {
            record(seq, Event::RunStarted { run_id, request_id, command, call, by, files_unkept: unkept })
        }
        other => record(seq, other),
    };
    let records = vec![
        created(),
        begun(2, false),
        finished(3, 2, b""),
        checkpoint(4, 3, "a"),
        begun(5, false),
        finished(6, 5, b""),
        // The files of the run that ended with 6 were never kept.
        begun(7, true),
        finished(8, 7, b""),
        checkpoint(9, 8, "b"),
        begun(10, false),
        finished(11, 10, b""),
        // Those of this one were kept while the next ran.
        begun(12, true),
        kept(13, 11, "c", true),
        finished(14, 12, b""),
        begun(15, false),
    ];
    let house = House::new();
    take(&mut house.recorder(4096), &records);
    let recording = house.recording();
    let past = |seq| recording.past(seq).unwrap();
    assert_eq!((past(3).files, past(3).unsure), (Some(files("a")), Unsure::default()));
    let missing = Unsure { missing: true, next: Some(files("b")), ..Unsure::default() };
    assert_eq!((past(6).files, past(6).unsure), (Some(files("a")), missing));
    assert_eq!((past(8).files, past(8).unsure), (Some(files("b")), Unsure::default()));
    let overtaken = Unsure { overtaken: true, ..Unsure::default() };
    assert_eq!((past(11).files, past(11).unsure), (Some(files("c")), overtaken));
    // Nothing changed in the last one: the checkpoint before it is of it, too.
    assert!(!past(14).unsure.missing);
}

/// Records enough for several marks: runs, checkpoints and much else.
fn long(length: u64) -> Vec<Record> {
    let mut records = vec![created()];
    for seq in 2..=length {
        records.push(match seq % 5 {
            0 => started(seq, "x"),
            1 => finished(seq, seq - 1, b""),
            2 if seq % 3 == 0 => checkpoint(seq, seq - 1, &format!("{:x}", seq % 16)),
            3 if seq % 7 == 0 => saved(seq, seq, b"state"),
            _ => {
                let (event_type, data) = ("x_other".to_owned(), serde_json::json!({"n": seq}));
                record(seq, Event::Noted { event_type, data, author: Default::default() })
            }
        });
    }
    records
}

#[test]
fn with_marks_the_past_is_the_same_and_what_is_no_mark_is_passed_over() {
    let (house, length) = (House::new(), 5 * EVERY + 100);
    take(&mut house.recorder(200_000), &long(length));
    let recording = house.recording();
    let marks = house.marks();
    let seqs = [1, 2, EVERY - 1, EVERY, EVERY + 1, 2 * EVERY + 7, length - 1, length];
    let checkpoints = Checkpoints { recording: &recording, marks: &marks };
    let assert_same = || {
        for seq in seqs {
            assert_eq!(recording.past_with(seq, Some(&marks)).unwrap(), recording.past(seq).unwrap(), "{seq}");
        }
        let plain: Vec<u64> =
            house.lines().iter().filter(|line| line.event_type == "checkpoint_created").map(|line| line.seq).collect();
        let found =
            |after, most| -> Vec<u64> { checkpoints.after(after, most).unwrap().iter().map(|line| line.seq).collect() };
        assert_eq!(found(0, usize::MAX), plain);
        for after in [0, 10, EVERY, 3 * EVERY - 1, length - 20, length] {
            let rest: Vec<u64> = plain.iter().copied().filter(|seq| *seq > after).take(7).collect();
            assert_eq!(found(after, 7), rest, "{after}");
        }
        let newest = checkpoints.newest(|_| true).unwrap().unwrap();
        assert_eq!(Some(&newest.seq), plain.last());
        let first = checkpoints.newest(|line| line.seq == plain[0]).unwrap().unwrap();
        assert_eq!(first.seq, plain[0]);
        assert!(checkpoints.newest(|_| false).unwrap().is_none());
    };
    assert_same();
    let directory = house.marks_directory();
    let files = || {
        let mut files: Vec<_> = std::fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        files
    };
    assert_eq!(files().len(), 5);
    // Damaged, forged, missing, and that of another line.
    let all = files();
    let mut bytes = std::fs::read(&all[1]).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&all[1], bytes).unwrap();
    assert_same();
    std::fs::remove_file(&all[2]).unwrap();
    assert_same();
    std::fs::copy(&all[0], &all[3]).unwrap();
    assert_same();
    std::fs::write(&all[4], "").unwrap();
    assert_same();
}
