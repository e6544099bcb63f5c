//! A recording that is larger than the memory a player may take. One test only: it looks at the memory of its process.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test says what it expected by panicking")]

use serde_json::json;
use shellkeep_record::Line;
use shellkeep_record::player::{Files, Player, Rows, Wanted};
use shellkeep_session::Timestamp;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;

/// Lines of the recording, in four files.
const LINES: u64 = 40_000;
/// Bytes of a line's output.
const OUTPUT: usize = 1000;
/// What playing it may take, in KiB: far less than the recording's 48 MB.
const MOST_GROWTH: u64 = 16 << 10;

fn event(seq: u64, output: &str) -> Line {
    let (event_type, data) = match seq % 10 {
        0 => ("user_input", json!({"message": format!("question {seq}")})),
        _ => (
            "tool_call",
            json!({"tool_name": "run_command", "parameters": {"command": format!("step {seq}")}, "output": output,
                "run_id": format!("r{seq}"), "status": "exited", "exit_code": 0, "duration": 0.5}),
        ),
    };
    let timestamp = Timestamp::from_second(i64::try_from(seq).unwrap()).unwrap();
    Line { seq, event_type: event_type.to_owned(), timestamp, data, ..Line::default() }
}

fn write(directory: &Path) {
    let output = "all is well \n".repeat(OUTPUT / 13);
    for (number, from) in (1..=LINES).step_by(LINES as usize / 4).enumerate() {
        let name = if number == 0 { "events.jsonl".to_owned() } else { format!("events_{number}.jsonl") };
        let mut file = BufWriter::new(File::create(directory.join(name)).unwrap());
        let mut bytes = Vec::new();
        for seq in from..from + LINES / 4 {
            bytes.clear();
            event(seq, &output).write_to(&mut bytes).unwrap();
            file.write_all(&bytes).unwrap();
        }
        file.flush().unwrap();
    }
}

/// The most memory that the process has had, in KiB.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("Linux tells it");
    line.split_whitespace().next().unwrap().parse().unwrap()
}

#[test]
fn a_large_recording_is_played_in_little_memory() {
    let directory = tempfile::tempdir().unwrap();
    write(directory.path());
    let before = peak();
    let mut player = Player::open(Files::open(directory.path()).unwrap(), true).unwrap();
    assert_eq!(player.last().unwrap(), LINES);
    for seq in [LINES, 1, LINES / 2, LINES / 4, LINES / 4 + 1, 77] {
        player.jump(seq).unwrap();
        assert_eq!(player.seq(), seq);
        let rows = Rows::of(&mut player).around(50, 50).unwrap();
        assert!(rows.iter().any(|row| row.seq == seq) && rows.len() >= 51, "{}", rows.len());
    }
    assert!(player.back().unwrap() && player.seq() == 76);
    // Masking is tried by others; here it would only take long.
    player.hide(false).unwrap();
    assert!(player.find(&Wanted::with(&format!("question {}\\b", LINES - 10))).unwrap());
    assert_eq!(player.seq(), LINES - 10);
    assert!(player.find_back(&Wanted::with("question 40$")).unwrap());
    assert_eq!(player.seq(), 40);
    player.jump(1).unwrap();
    assert_eq!(
        player.fast().filter(|told| told.as_ref().unwrap().event_type == "user_input").count() as u64,
        LINES / 10
    );
    let growth = peak() - before;
    assert!(growth < MOST_GROWTH, "playing took {growth} KiB");
}
