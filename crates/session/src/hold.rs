//! A person's hold on a session: while it lasts, only its holder runs commands, and what they change is remembered for
//! the agent.

use crate::run::NameChanges;
use crate::{Changes, Checkpoint, FilesAt, Notice, RunId, Timestamp};
use serde::{Deserialize, Serialize};

/// The event with which a hold begins or is extended.
pub const SESSION_HELD: &str = "session_held";
/// The event with which a hold ends.
pub const SESSION_RELEASED: &str = "session_released";

/// A hold on a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionHold {
    /// Hash of the id that the holder's requests carry.
    pub hold: String,
    /// Who holds it.
    pub holder: String,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// When it ends unless it is extended.
    pub until: Timestamp,
    /// Number of the record with which it began.
    #[serde(default)]
    pub since: u64,
    /// The session's files when it began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<FilesAt>,
    /// How many commands the holder ran.
    #[serde(default)]
    pub runs: u64,
    /// What they changed in the shell.
    #[serde(default)]
    pub changes: Changes,
    /// How many files they changed.
    #[serde(default)]
    pub files_changed: u64,
    /// Notices about an earlier hold, which the agent has not seen.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub untold: Vec<Notice>,
}

impl SessionHold {
    /// A command ended. One that began before the hold is not the holder's.
    pub(crate) fn ran(&mut self, run_id: &RunId, changes: &Changes) {
        if run_id.seq().is_some_and(|seq| seq > self.since) {
            self.runs += 1;
            add(&mut self.changes, changes);
        }
    }

    /// Files were saved.
    pub(crate) fn saved(&mut self, checkpoint: &Checkpoint) {
        if checkpoint.covers > self.since {
            self.files_changed += checkpoint.added + checkpoint.changed + checkpoint.deleted;
        }
    }
}

/// Adds later changes to earlier ones.
fn add(changes: &mut Changes, later: &Changes) {
    changes.cwd = later.cwd.clone().or_else(|| changes.cwd.take());
    changes.umask = later.umask.clone().or_else(|| changes.umask.take());
    changes.env.extend(later.env.clone());
    changes.options.extend(later.options.clone());
    let pairs = [
        (&mut changes.variables, &later.variables),
        (&mut changes.functions, &later.functions),
        (&mut changes.aliases, &later.aliases),
        (&mut changes.traps, &later.traps),
    ];
    for (names, later) in pairs {
        add_names(names, later);
    }
}

fn add_names(names: &mut NameChanges, later: &NameChanges) {
    let moved = |from: &mut Vec<String>, to: &mut Vec<String>, name: &String| {
        from.retain(|known| known != name);
        if !to.contains(name) {
            to.push(name.clone());
        }
    };
    later.set.iter().for_each(|name| moved(&mut names.unset, &mut names.set, name));
    later.unset.iter().for_each(|name| moved(&mut names.set, &mut names.unset, name));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_changes_win() {
        let names = |set: &[&str], unset: &[&str]| NameChanges {
            set: set.iter().map(|name| (*name).to_owned()).collect(),
            unset: unset.iter().map(|name| (*name).to_owned()).collect(),
        };
        let env = |value: Option<&str>| [("A".to_owned(), value.map(str::to_owned))].into();
        let mut changes = Changes {
            cwd: Some("/a".to_owned()),
            env: env(Some("1")),
            functions: names(&["f", "g"], &[]),
            ..Changes::default()
        };
        add(&mut changes, &Changes { env: env(None), functions: names(&["h"], &["f"]), ..Changes::default() });
        assert_eq!((changes.cwd.as_deref(), changes.env), (Some("/a"), env(None)));
        assert_eq!(changes.functions, names(&["g", "h"], &["f"]));
    }
}
