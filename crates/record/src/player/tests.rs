//! The laws of a player: where it is after each step, whatever is missing in the recording.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test says what it expected by panicking")]

use super::*;
use proptest::prelude::*;
use serde_json::json;
use shellkeep_session::Timestamp;
use std::convert::Infallible;

/// Events in memory, some of them missing, given out a few at a time.
#[derive(Debug)]
struct Shelf {
    lines: Vec<Line>,
    /// Most that it gives at a time, however many are asked for.
    most: usize,
}

fn line(seq: u64, event_type: &str) -> Line {
    let timestamp = Timestamp::from_second(i64::try_from(seq).unwrap()).unwrap();
    let data = json!({"text": format!("event {seq}"), "password": "hunter2hunter2"});
    Line { seq, event_type: event_type.to_owned(), timestamp, data, ..Line::default() }
}

fn shelf(seqs: &[u64], most: usize) -> Shelf {
    let of_type = |seq: u64| if seq.is_multiple_of(3) { "user_input" } else { "x_other" };
    Shelf { lines: seqs.iter().map(|seq| line(*seq, of_type(*seq))).collect(), most }
}

impl EventSource for Shelf {
    type Error = Infallible;

    fn page(&mut self, after: u64, limit: usize, wanted: &Wanted, hidden: bool) -> Result<Page, Infallible> {
        let fits = |line: &&Line| {
            let typed = wanted.types.is_empty() || wanted.types.contains(&line.event_type);
            let found = wanted.search.as_ref().is_none_or(|text| line.data["text"].as_str().unwrap().ends_with(text));
            line.seq > after && typed && found
        };
        let mut found: Vec<Line> = self.lines.iter().filter(fits).cloned().collect();
        let all = found.len();
        found.truncate(limit.min(self.most));
        let next = if found.len() < all { found.last().map(|line| line.seq) } else { None };
        if hidden {
            found.iter_mut().for_each(|line| line.data["password"] = json!("***"));
        }
        Ok(Page { lines: found, next })
    }

    fn last(&mut self) -> Result<u64, Infallible> {
        Ok(self.lines.last().map_or(0, |line| line.seq))
    }
}

fn open(seqs: &[u64], most: usize) -> Player<Shelf> {
    Player::open(shelf(seqs, most), true).unwrap()
}

#[test]
fn an_empty_recording_has_nowhere_to_go() {
    let mut player = open(&[], 10);
    assert_eq!((player.last().unwrap(), player.current(), player.seq()), (0, None, 0));
    assert!(!player.step().unwrap() && !player.back().unwrap() && !player.jump(5).unwrap());
    assert!(!player.find(&Wanted::of_type("x")).unwrap() && !player.find_back(&Wanted::of_type("x")).unwrap());
    assert_eq!(Rows::of(&mut player).around(5, 5).unwrap(), []);
    assert_eq!(player.rest().count(), 0);
}

#[test]
fn secrets_are_shown_when_asked_for_and_one_stays_where_one_is() {
    let mut player = open(&[1, 2, 3], 10);
    player.jump(2).unwrap();
    assert_eq!(player.current().unwrap().data["password"], "***");
    player.hide(false).unwrap();
    assert_eq!((player.seq(), &player.current().unwrap().data["password"]), (2, &json!("hunter2hunter2")));
    player.step().unwrap();
    assert_eq!(player.current().unwrap().data["password"], "hunter2hunter2");
    player.hide(true).unwrap();
    assert_eq!((player.seq(), &player.current().unwrap().data["password"]), (3, &json!("***")));
}

#[test]
fn fast_tells_the_key_events_only() {
    let mut player = open(&(1..=10).collect::<Vec<_>>(), 4);
    let told: Vec<u64> = player.fast().map(|summary| summary.unwrap().seq).collect();
    assert_eq!(told, [3, 6, 9]);
    assert_eq!(player.seq(), 1, "looking ahead does not move");
    player.jump(6).unwrap();
    assert_eq!(player.rest().map(|line| line.unwrap().seq).collect::<Vec<_>>(), [6, 7, 8, 9, 10]);
    let only = player.rest().only(Wanted::of_type("user_input"));
    assert_eq!(only.map(|line| line.unwrap().seq).collect::<Vec<_>>(), [6, 9]);
}

#[test]
fn a_large_hole_is_stepped_over_both_ways() {
    let mut player = open(&[1, 2, 1_000_000, 1_000_001], 10);
    player.jump(3).unwrap();
    assert_eq!(player.seq(), 1_000_000, "a missing number leads to the next");
    player.back().unwrap();
    assert_eq!(player.seq(), 2);
    player.step().unwrap();
    assert_eq!(player.seq(), 1_000_000);
    let rows: Vec<u64> = Rows::of(&mut player).around(5, 5).unwrap().iter().map(|row| row.seq).collect();
    assert_eq!(rows, [1, 2, 1_000_000, 1_000_001]);
}

/// Three commands: one that changed files, one that was typed into, one that runs.
fn commands() -> Player<Shelf> {
    let event = |seq: u64, event_type: &str, data: serde_json::Value| {
        let mut line = line(seq, event_type);
        line.data.as_object_mut().unwrap().extend(data.as_object().unwrap().clone());
        line
    };
    let started = |seq: u64, run: &str| event(seq, "run_started", json!({"run_id": run, "command": "make"}));
    let ended = |seq: u64, run: &str| {
        let data = json!({"tool_name": "run_command", "parameters": {"command": "make"}, "run_id": run,
            "status": "exited", "exit_code": 0});
        event(seq, "tool_call", data)
    };
    let files = json!({"name": "c", "cause": {"tool": {"run_id": "r2"}}, "added": 2, "changed": 0, "deleted": 1});
    let by_hand = json!({"name": "d", "cause": "manual", "added": 1});
    let lines = vec![
        line(1, "session_created"),
        started(2, "r2"),
        ended(3, "r2"),
        event(4, "checkpoint_created", files),
        started(5, "r5"),
        event(6, "run_input", json!({"run_id": "r5", "input": "y"})),
        ended(7, "r5"),
        event(8, "checkpoint_created", by_hand),
        started(9, "r9"),
    ];
    Player::open(Shelf { lines, most: 10 }, true).unwrap()
}

#[test]
fn a_command_has_one_row() {
    const ROWS: [u64; 6] = [1, 3, 6, 7, 8, 9];
    let mut player = commands();
    let mut visited = vec![player.seq()];
    while Rows::of(&mut player).step().unwrap() {
        visited.push(player.seq());
    }
    assert_eq!(visited, ROWS, "the end of a command, or its start while it runs");
    assert!(Rows::of(&mut player).last().unwrap());
    let mut visited = vec![player.seq()];
    while Rows::of(&mut player).back().unwrap() {
        visited.insert(0, player.seq());
    }
    assert_eq!(visited, ROWS);
    for at in ROWS {
        player.jump(at).unwrap();
        let rows = Rows::of(&mut player).around(9, 9).unwrap();
        assert_eq!(rows.iter().map(|row| row.seq).collect::<Vec<_>>(), ROWS);
        assert_eq!(rows[1].files.map(|files| files.to_string()).as_deref(), Some("+2 -1"));
        assert_eq!(rows[3].files, None, "the checkpoint by hand has a row of its own");
        let near = Rows::of(&mut player).around(1, 1).unwrap();
        assert!(near.len() <= 3 && near.iter().any(|row| row.seq == at), "{near:?}");
    }
    // An event without a row is shown when it is asked for by its number.
    player.jump(2).unwrap();
    let rows = Rows::of(&mut player).around(9, 9).unwrap();
    assert_eq!(rows.iter().map(|row| row.seq).collect::<Vec<_>>(), [1, 2, 3, 6, 7, 8, 9]);
}

#[test]
fn the_files_of_a_command_are_found_by_its_end() {
    let mut player = commands();
    let mut files_of = |seq: u64| {
        player.jump(seq).unwrap();
        let line = player.current().cloned().unwrap();
        Rows::of(&mut player).files_of(&line).unwrap().map(|line| line.seq)
    };
    assert_eq!((files_of(3), files_of(7), files_of(2), files_of(1)), (Some(4), None, None, None));
}

#[test]
fn a_search_finds_rows() {
    let mut player = commands();
    // Events 2 and 5 are starts of commands that ended, and 4 is the checkpoint of one.
    let found = |player: &mut Player<Shelf>, digit: &str, back: bool| {
        let found = Rows::of(player).find(&Wanted::with(digit), back).unwrap();
        found.then(|| player.seq())
    };
    assert_eq!(found(&mut player, "4", false), None);
    assert_eq!(player.seq(), 1, "nothing moved");
    assert_eq!(found(&mut player, "7", false), Some(7));
    assert_eq!(found(&mut player, "5", true), None);
    assert_eq!((found(&mut player, "3", true), player.seq()), (Some(3), 3));
}

/// A way to go.
#[derive(Debug, Clone)]
enum Move {
    Step,
    Back,
    Jump(u64),
    Type,
    TypeBack,
    Search(u64),
}

fn moves() -> impl Strategy<Value = Move> {
    prop_oneof![
        Just(Move::Step),
        Just(Move::Back),
        (0u64..130).prop_map(Move::Jump),
        Just(Move::Type),
        Just(Move::TypeBack),
        (0u64..10).prop_map(Move::Search),
    ]
}

proptest! {
    /// A list and a place in it is all that a player is.
    #[test]
    fn it_moves_as_in_a_list(
        seqs in proptest::collection::btree_set(1u64..120, 1..80),
        most in 1usize..12,
        ways in proptest::collection::vec(moves(), 0..40),
    ) {
        let seqs: Vec<u64> = seqs.into_iter().collect();
        let mut player = open(&seqs, most);
        let mut at = 0usize;
        for way in ways {
            let typed = |seq: &u64| seq.is_multiple_of(3);
            let (moved, goal) = match way {
                Move::Step => (player.step().unwrap(), (at + 1 < seqs.len()).then_some(at + 1)),
                Move::Back => (player.back().unwrap(), at.checked_sub(1)),
                Move::Jump(to) => {
                    let goal = seqs.iter().position(|seq| *seq >= to).unwrap_or(seqs.len() - 1);
                    (player.jump(to).unwrap(), Some(goal))
                }
                Move::Type => {
                    let goal = (at + 1..seqs.len()).find(|place| typed(&seqs[*place]));
                    (player.find(&Wanted::of_type("user_input")).unwrap(), goal)
                }
                Move::TypeBack => {
                    let goal = (0..at).rev().find(|place| typed(&seqs[*place]));
                    (player.find_back(&Wanted::of_type("user_input")).unwrap(), goal)
                }
                Move::Search(digit) => {
                    let goal = (at + 1..seqs.len()).find(|place| seqs[*place] % 10 == digit);
                    (player.find(&Wanted::with(&digit.to_string())).unwrap(), goal)
                }
            };
            prop_assert_eq!(moved, goal.is_some());
            at = goal.unwrap_or(at);
            prop_assert_eq!(player.seq(), seqs[at]);
            let (before, after) = (at.min(most), (seqs.len() - 1 - at).min(7));
            let rows: Vec<u64> = Rows::of(&mut player).around(before, 7).unwrap().iter().map(|row| row.seq).collect();
            prop_assert_eq!(&rows[..], &seqs[at - before..=at + after]);
        }
    }
}
