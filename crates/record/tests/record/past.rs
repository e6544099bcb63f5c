//! What a session was at an earlier record.

use crate::fixture::*;
use shellkeep_record::past::PastError;
use shellkeep_session::shell::Variable;
use shellkeep_session::{
    AgentState, ByteString, Cause, Checkpoint, Content, Event, FilesAt, Record, SessionState, ShellState,
};

fn files(digit: &str) -> FilesAt {
    FilesAt { name: format!("tool_run_command_{digit}"), commit: digit.repeat(40) }
}

fn checkpoint(seq: u64, covers: u64, digit: &str) -> Record {
    let checkpoint = Checkpoint {
        at: files(digit),
        covers,
        cause: Cause::Manual,
        added: 1,
        changed: 0,
        deleted: 0,
        bytes: 1,
        overtaken: false,
        left_out: Vec::new(),
        left_out_total: 0,
    };
    record(seq, Event::Checkpointed { checkpoint: Box::new(checkpoint) })
}

fn saved(seq: u64, version: u64, bytes: &[u8]) -> Record {
    let state = AgentState { version, media_type: "x/y".to_owned(), content: Content::Inline(bytes.into()) };
    record(seq, Event::AgentStateSaved { state: Box::new(state) })
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
            by: None,
            files: Some(files("a")),
            kept_back: Vec::new(),
            shell: Box::new(shell),
            agent_state: None,
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
    records.push(record(15, Event::RecordsLost { from: 11, reason: "full".to_owned(), state: Box::new(state) }));
    records.push(started(16, "x"));
    records.push(record(17, Event::Restarted { shell: Box::default() }));
    take(&mut house.recorder(u64::MAX), &records);
    let recording = house.recording();
    assert!(recording.past(10).is_ok());
    assert!(matches!(recording.past(16), Err(PastError::Hole { before: 15, .. })));
    assert_eq!(recording.past(17).unwrap().shell, ShellState::default());
    assert!(matches!(recording.past(18), Err(PastError::NoSuchRecord { seq: 18, last: 17 })));
    assert!(matches!(recording.past(0), Err(PastError::NoSuchRecord { .. })));
}
