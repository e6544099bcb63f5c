//! The steps of a recording, in the order in which they started.

use crate::commands::replay::source::Events;
use shellkeep_record::Line;
use shellkeep_record::moment::is_file_change;
use shellkeep_record::player::{EventSource, Page, Player, Wanted};
use shellkeep_record::runs::is_run;
use shellkeep_session::Timestamp;
use std::collections::BTreeMap;

/// A step to repeat.
#[derive(Debug, Clone, PartialEq)]
pub enum ReplayAction {
    /// A command: the numbers of its start and of its end.
    Run {
        /// The event of its start.
        start: u64,
        /// The event of its end.
        end: u64,
        /// The events of what was typed into it.
        typed: Vec<u64>,
    },
    /// A command that moved to the background at its timeout.
    Background {
        /// The event of its start.
        start: u64,
        /// Seconds until it moved to the background.
        seconds: f64,
    },
    /// A file was written or removed through the API.
    File {
        seq: u64,
        /// The record of the checkpoint that has it; 0 if there is none.
        saved: u64,
    },
    /// The host asked for a clean shell.
    Restart { seq: u64 },
    /// The session was rewound.
    Rewind {
        seq: u64,
        /// The record that it was rewound to.
        to: u64,
    },
}

/// The kind of what a fork started with, where only its recording is known.
pub const FORKED_FILES: &str = "files that it was forked with: pass them with --from";

/// What is not repeated, by kind.
pub type LeftOut = BTreeMap<&'static str, u64>;

/// The plan of a recording. It holds numbers only, so that a long recording costs little.
#[derive(Debug, Default)]
pub struct Plan {
    /// What to do.
    pub steps: Vec<ReplayAction>,
    /// What is not repeated.
    pub left_out: LeftOut,
    /// Whether the session began with files, which are not in the recording itself.
    pub began_with_files: bool,
}

impl Plan {
    /// The record at which the first step starts.
    pub fn first(&self) -> u64 {
        self.steps.first().map_or(u64::MAX, |step| match step {
            ReplayAction::Run { start, .. } | ReplayAction::Background { start, .. } => *start,
            ReplayAction::File { seq, .. } | ReplayAction::Restart { seq } | ReplayAction::Rewind { seq, .. } => *seq,
        })
    }
}

/// A command that has started.
struct Begun {
    place: usize,
    at: Timestamp,
}

/// Reads a recording and plans its steps.
pub fn plan(player: &mut Player<Events>) -> Result<Plan, String> {
    player.jump(1)?;
    make(player.rest())
}

fn make<E>(lines: impl Iterator<Item = Result<Line, E>>) -> Result<Plan, E> {
    // A place is kept for each command where it started; it is filled when its end is seen.
    let mut places: Vec<Option<ReplayAction>> = Vec::new();
    let mut begun: BTreeMap<String, Begun> = BTreeMap::new();
    let mut left_out = LeftOut::new();
    let mut began_with_files = false;
    for line in lines {
        let line = line?;
        let run_id = line.data.get("run_id").and_then(|id| id.as_str()).unwrap_or_default();
        match line.event_type.as_str() {
            "run_started" => {
                begun.insert(run_id.to_owned(), Begun { place: places.len(), at: line.timestamp });
                places.push(Some(ReplayAction::Run { start: line.seq, end: 0, typed: Vec::new() }));
            }
            "run_detached" => {
                if let Some(Begun { place, at }) = begun.remove(run_id)
                    && let Some(ReplayAction::Run { start, typed, .. }) = &places[place]
                {
                    let (start, typed) = (*start, typed.len() as u64);
                    if typed > 0 {
                        *left_out.entry("input typed into commands in the background").or_default() += typed;
                    }
                    let seconds = line.timestamp.duration_since(at).as_secs_f64();
                    places[place] = Some(ReplayAction::Background { start, seconds });
                }
            }
            "tool_call" if is_run(&line) => {
                if let Some(Begun { place, .. }) = begun.remove(run_id) {
                    let kept = matches!(line.data["status"].as_str(), Some("exited" | "timed_out"));
                    match &mut places[place] {
                        Some(ReplayAction::Run { end, .. }) if kept => *end = line.seq,
                        step => {
                            *step = None;
                            *left_out.entry("commands that were interrupted or whose end is unknown").or_default() += 1;
                        }
                    }
                }
            }
            "session_restarted" => places.push(Some(ReplayAction::Restart { seq: line.seq })),
            "session_rewound" => {
                let to = line.data["to"].as_u64().unwrap_or(0);
                places.push(Some(ReplayAction::Rewind { seq: line.seq, to }));
            }
            "session_created" if line.data.get("forked_from").is_some() => {
                left_out.insert(FORKED_FILES, 1);
                began_with_files = true;
            }
            "run_input" => match begun.get(run_id).map(|begun| &mut places[begun.place]) {
                Some(Some(ReplayAction::Run { typed, .. })) => typed.push(line.seq),
                _ => *left_out.entry("input typed into commands in the background").or_default() += 1,
            },
            "tool_call" if is_file_change(&line) => places.push(Some(ReplayAction::File { seq: line.seq, saved: 0 })),
            "checkpoint_created" => {
                began_with_files |= line.data["cause"] == "base" && line.data["added"].as_u64() > Some(0);
                note_saved(&mut places, &line);
            }
            other => {
                if let Some(kind) = kind_left_out(other) {
                    *left_out.entry(kind).or_default() += 1;
                }
            }
        }
    }
    let unfinished = |step: &ReplayAction| matches!(step, ReplayAction::Run { end: 0, .. });
    let running = places.iter().flatten().filter(|step| unfinished(step)).count() as u64;
    if running > 0 {
        left_out.insert("commands that have not ended", running);
    }
    let steps = places.into_iter().flatten().filter(|step| !unfinished(step)).collect();
    Ok(Plan { steps, left_out, began_with_files })
}

/// Notes which checkpoint has the files that were written before it.
fn note_saved(places: &mut [Option<ReplayAction>], checkpoint: &Line) {
    let covers = checkpoint.data["covers"].as_u64().unwrap_or(0);
    for place in places.iter_mut().rev() {
        match place {
            Some(ReplayAction::File { seq, saved }) if *saved == 0 && *seq <= covers => *saved = checkpoint.seq,
            // Those before it have theirs.
            Some(ReplayAction::File { saved, .. }) if *saved > 0 => break,
            _ => {}
        }
    }
}

/// What an event is counted as that is not repeated.
fn kind_left_out(event_type: &str) -> Option<&'static str> {
    match event_type {
        "service_started" => Some("services"),
        "user_input" | "llm_call" | "tool_call" | "final_output" | "state_transition" | "message_added" => {
            Some("events of the agent")
        }
        "hole" | "records_lost" => Some("holes in the recording"),
        other => other.starts_with("x_").then_some("events of the host"),
    }
}

/// The event of a number.
pub fn event(events: &mut Events, seq: u64) -> Result<Line, String> {
    let Page { lines, .. } = events.page(seq.saturating_sub(1), 1, &Wanted::default(), false)?;
    lines.into_iter().find(|line| line.seq == seq).ok_or_else(|| format!("event {seq} no longer exists"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use shellkeep_session::Author;
    use std::convert::Infallible;

    fn planned(events: &[(&str, Value)]) -> Plan {
        let line = |(place, (event_type, data)): (usize, &(&str, Value))| {
            let timestamp = Timestamp::from_second(place as i64).unwrap();
            let (seq, data) = (place as u64 + 1, data.clone());
            Ok::<_, Infallible>(Line {
                seq,
                event_type: (*event_type).to_owned(),
                timestamp,
                author: Author::runtime(None),
                data,
                ..Line::default()
            })
        };
        make(events.iter().enumerate().map(line)).unwrap()
    }

    fn end(run_id: &str, status: &str) -> (&'static str, Value) {
        ("tool_call", json!({"tool_name": "run_command", "run_id": run_id, "status": status}))
    }

    #[test]
    fn files_that_were_written_are_found_in_the_checkpoint_after_them() {
        let file = |name: &str| ("tool_call", json!({"tool_name": name, "parameters": {"path": "a"}}));
        let plan = planned(&[
            ("session_created", json!({})),
            file("write_file"),
            ("checkpoint_created", json!({"covers": 1})),
            ("checkpoint_created", json!({"covers": 2})),
            file("remove_file"),
            file("write_file"),
        ]);
        let file = |seq, saved| ReplayAction::File { seq, saved };
        assert_eq!(plan.first(), 2);
        assert_eq!(plan.steps, [file(2, 4), file(5, 0), file(6, 0)]);
        assert!(plan.left_out.is_empty(), "{:?}", plan.left_out);
    }

    #[test]
    fn what_a_session_began_with_is_known() {
        let base = |added: u64| ("checkpoint_created", json!({"covers": 1, "cause": "base", "added": added}));
        let later = ("checkpoint_created", json!({"covers": 3, "cause": "run", "added": 2}));
        let created = ("session_created", json!({}));
        let fork = ("session_created", json!({"forked_from": {"session_id": "a", "seq": 3}}));
        for (events, expected) in [
            ([created.clone(), base(1), later.clone()], true),
            ([created, base(0), later.clone()], false),
            ([fork, base(0), later], true),
        ] {
            assert_eq!(planned(&events).began_with_files, expected, "{events:?}");
        }
    }

    #[test]
    fn commands_are_done_in_the_order_of_their_starts() {
        let start = |id: &str| ("run_started", json!({"run_id": id, "command": "x"}));
        let plan = planned(&[
            ("session_created", json!({})),
            start("r2"),
            ("run_detached", json!({"run_id": "r2"})),
            start("r4"),
            end("r2", "exited"),
            end("r4", "exited"),
            ("session_restarted", json!({})),
            ("session_rewound", json!({"to": 6})),
            start("r8"),
            end("r8", "interrupted"),
            start("r10"),
            ("user_input", json!({"message": "hi"})),
            ("tool_call", json!({"tool_name": "run_command", "parameters": {"command": "posted"}})),
            ("service_started", json!({})),
            start("r14"),
            ("run_input", json!({"run_id": "r14", "input": "a", "bytes": 1})),
            end("r14", "timed_out"),
            ("run_input", json!({"run_id": "r2", "input": "b", "bytes": 1})),
        ]);
        let expected = [
            ReplayAction::Background { start: 2, seconds: 1.0 },
            ReplayAction::Run { start: 4, end: 6, typed: Vec::new() },
            ReplayAction::Restart { seq: 7 },
            ReplayAction::Rewind { seq: 8, to: 6 },
            ReplayAction::Run { start: 15, end: 17, typed: vec![16] },
        ];
        assert_eq!(plan.steps, expected);
        let left: Vec<(&str, u64)> = plan.left_out.into_iter().collect();
        let expected = [
            ("commands that have not ended", 1),
            ("commands that were interrupted or whose end is unknown", 1),
            ("events of the agent", 2),
            ("input typed into commands in the background", 1),
            ("services", 1),
        ];
        assert_eq!(left, expected);
    }
}
