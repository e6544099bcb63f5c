//! Which node made a file beside a recording: what stayed on the node that had the session before is not missing, nor what a node
//! gave to a fork.

use crate::line::Line;
use serde_json::Value;

/// Type of the line that tells of another owner.
const OWNED: &str = "session_owned";
/// Types of lines with the state of a session, which name files that were made before.
const OF_STATE: [&str; 2] = [OWNED, crate::line::RECORDS_LOST];
/// Type of the line that tells of masked files, which were there when they were masked.
const SCRUBBED: &str = "scrubbed";
/// Type of the line that tells of a fork.
const FORKED: &str = "session_forked";
/// Why a node owns a session that came to it from another, or back to it after it lost its data directory.
const CAME: &str = "owner_gone";

/// When a file was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Made {
    /// With this line.
    At(u64),
    /// Before this line.
    Before(u64),
}

impl Made {
    /// Of a file that a line names, and that an earlier line may have named.
    pub(super) fn of(line: &Line, earlier: Option<Self>) -> Self {
        match (line.event_type.as_str(), earlier) {
            (SCRUBBED, _) => Self::At(line.seq),
            (_, Some(earlier)) => earlier,
            (of_type, None) if OF_STATE.contains(&of_type) => Self::Before(line.seq),
            (_, None) => Self::At(line.seq),
        }
    }
}

#[derive(Debug)]
struct Owner {
    from: u64,
    node: String,
    /// Whether the session came to it without the files that it had.
    came: bool,
}

/// What a node had of a session that went on without it: it gave the files to a fork.
#[derive(Debug)]
struct Given {
    node: String,
    /// Number of the last line that both have.
    through: u64,
}

/// The owners of a session as its lines tell, oldest first. The last one has the recording.
#[derive(Debug, Default)]
pub(super) struct Owners {
    all: Vec<Owner>,
    given: Vec<Given>,
}

impl Owners {
    /// Collects what a line tells.
    pub(super) fn line(&mut self, line: &Line) {
        if line.author.is_posted() {
            return;
        }
        let text = |name: &str| line.data.get(name).and_then(Value::as_str).map(str::to_owned);
        if line.event_type == OWNED
            && let Some(node) = text("node")
        {
            let came = line.data.get("reason").is_some_and(|reason| reason == CAME);
            self.all.push(Owner { from: line.seq, node, came });
        }
        if line.event_type == FORKED
            && let (Some(node), Some(through)) = (text("diverged_on"), line.data.get("at").and_then(Value::as_u64))
        {
            self.given.push(Given { node, through });
        }
    }

    /// Whether what was made then was made elsewhere, so that it need not be here.
    pub(super) fn made_elsewhere(&self, made: Made) -> bool {
        let Some(last) = self.all.last() else { return false };
        let seq = match made {
            Made::Before(seq) => return self.all.iter().any(|owner| owner.came && owner.from >= seq),
            Made::At(seq) => seq,
        };
        let Some(at) = self.all.iter().rposition(|owner| owner.from <= seq) else {
            // Nobody is named who had it before.
            return self.all[0].came;
        };
        let maker = &self.all[at];
        let was_given = self.given.iter().any(|given| given.node == maker.node && given.through >= seq);
        let mut node = &maker.node;
        let was_lost = self.all[at + 1..].iter().any(|owner| {
            let is_back = owner.came && owner.node == *node;
            node = &owner.node;
            is_back
        });
        was_given || was_lost || maker.node != last.node
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line::sample;
    use serde_json::json;

    fn owners(all: &[(u64, &str, bool)]) -> Owners {
        let all = all.iter().map(|&(from, node, came)| Owner { from, node: node.to_owned(), came }).collect();
        Owners { all, given: Vec::new() }
    }

    /// The bug: a node to which a session came back had given its files to a fork, and they were called missing.
    #[test]
    fn what_a_node_gave_to_a_fork_is_elsewhere() {
        let mut back = owners(&[(2, "a", false), (8, "b", true), (12, "a", true)]);
        assert!(!back.made_elsewhere(Made::At(5)));
        back.line(&sample(FORKED, json!({"session_id": "s.fork-1.a", "at": 6, "diverged_on": "a"})));
        assert!(back.made_elsewhere(Made::At(5)) && back.made_elsewhere(Made::At(6)));
        assert!(!back.made_elsewhere(Made::At(7)) && !back.made_elsewhere(Made::At(13)), "it made that afterwards");
        // A fork that somebody asked for is a copy.
        let mut copied = owners(&[(2, "a", false)]);
        copied.line(&sample(FORKED, json!({"session_id": "f", "at": 6})));
        assert!(!copied.made_elsewhere(Made::At(5)));
    }

    #[test]
    fn what_the_node_itself_made_is_here() {
        assert!(!Owners::default().made_elsewhere(Made::At(3)));
        let alone = owners(&[(2, "a", false)]);
        assert!(![1, 2, 9].into_iter().any(|seq| alone.made_elsewhere(Made::At(seq))));
        let moved = owners(&[(2, "a", false), (8, "b", true)]);
        assert!(moved.made_elsewhere(Made::At(5)) && moved.made_elsewhere(Made::Before(8)));
        assert!(!moved.made_elsewhere(Made::At(8)) && !moved.made_elsewhere(Made::Before(9)));
        let back = owners(&[(2, "a", false), (8, "b", true), (12, "a", true)]);
        assert!(!back.made_elsewhere(Made::At(5)) && back.made_elsewhere(Made::At(9)));
        assert!(!back.made_elsewhere(Made::At(12)));
    }

    #[test]
    fn what_nobody_had_when_a_node_came_is_elsewhere() {
        let begins = owners(&[(9, "b", true)]);
        assert!(begins.made_elsewhere(Made::At(5)) && begins.made_elsewhere(Made::Before(8)));
        let lost = owners(&[(2, "a", false), (8, "a", true)]);
        assert!(lost.made_elsewhere(Made::At(5)) && !lost.made_elsewhere(Made::At(8)));
    }
}
