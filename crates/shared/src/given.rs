//! Which nodes have given the tier their sessions. A tier that was emptied has another name than before
//! ([`Tier::incarnation`]), and lacks the sessions of every node that has not given them again. It is in a file, so
//! that a node that was restarted knows it too.
//!
//! [`Tier::incarnation`]: crate::tier::Tier::incarnation

use crate::LEASE;
use crate::note_file::{NoteFile, Unwritten};
use crate::tier::{NodeEntry, REMEMBERED};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// What is known of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen {
    /// The incarnation that it has given all of its sessions to.
    incarnation: String,
    /// When it was last alive, in days since 1970.
    day: u64,
}

/// Which nodes have given the tier their sessions.
#[derive(Debug)]
pub(crate) struct Given {
    file: NoteFile,
    /// This node.
    node: String,
    /// The tier's incarnation, once it is known.
    current: Option<String>,
    /// When that incarnation was first seen.
    since: Option<Instant>,
    /// All nodes that were seen, this one among them.
    nodes: BTreeMap<String, Seen>,
    /// How often the tier was emptied.
    emptied: u64,
}

/// A name for what a tier has, if it has none.
pub(crate) fn new_name(node: &str) -> String {
    format!("{}.{node}", since_1970().as_nanos())
}

fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

fn today() -> u64 {
    since_1970().as_secs() / DAY.as_secs()
}

impl Given {
    /// What is noted in a file, which may not exist.
    pub(crate) fn at(file: Option<PathBuf>, node: &str) -> Self {
        let file = NoteFile::at(file);
        let noted = |line: &str| {
            let mut words = line.split(' ');
            let (name, incarnation, day) = (words.next()?, words.next()?, words.next()?.parse().ok()?);
            Some((name.to_owned(), Seen { incarnation: incarnation.to_owned(), day }))
        };
        let nodes = file.read().lines().filter_map(noted).collect();
        Self { file, node: node.to_owned(), current: None, nodes, since: None, emptied: 0 }
    }

    /// This node.
    pub(crate) fn node(&self) -> &str {
        &self.node
    }

    /// The tier's incarnation, once it is known.
    pub(crate) fn current(&self) -> Option<String> {
        self.current.clone()
    }

    /// Whether nodes that are alive may not be known to the tier yet: it was emptied a moment ago.
    pub(crate) fn is_new(&self) -> bool {
        self.since.is_some_and(|since| since.elapsed() < LEASE)
    }

    /// How often the tier was emptied.
    pub(crate) fn emptied(&self) -> u64 {
        self.emptied
    }

    /// This is the tier's incarnation. Returns the one that this node has given its sessions to; one that never noted
    /// any has none to give again.
    pub(crate) fn found(&mut self, incarnation: &str) -> String {
        // One that never noted any has nothing to give.
        let has_given = self.nodes.get(&self.node).is_none_or(|seen| seen.incarnation == incarnation);
        if self.current.as_deref() != Some(incarnation) {
            if self.current.is_some() || !has_given {
                self.emptied += 1;
                tracing::warn!("the shared store was emptied; this node gives it its sessions again");
            }
            (self.current, self.since) = (Some(incarnation.to_owned()), Some(Instant::now()));
        }
        if !self.nodes.contains_key(&self.node) {
            self.gave(incarnation);
        }
        self.nodes.get(&self.node).map(|seen| seen.incarnation.clone()).unwrap_or_default()
    }

    /// This node has given all of its sessions. Returns whether that is new.
    pub(crate) fn gave(&mut self, incarnation: &str) -> bool {
        let gave = Seen { incarnation: incarnation.to_owned(), day: today() };
        let is_new = self.nodes.get(&self.node) != Some(&gave);
        if is_new {
            self.nodes.insert(self.node.clone(), gave);
            self.file.changed();
        }
        is_new
    }

    /// These nodes are alive.
    pub(crate) fn seen(&mut self, nodes: &[NodeEntry]) {
        let (before, day) = (self.nodes.clone(), today());
        for NodeEntry { name, given, .. } in nodes.iter().filter(|entry| entry.name != self.node) {
            match given {
                Some(incarnation) => {
                    self.nodes.insert(name.clone(), Seen { incarnation: incarnation.clone(), day });
                }
                // An older version does not say, and is not waited for.
                None => drop(self.nodes.remove(name)),
            }
        }
        let oldest = day.saturating_sub(REMEMBERED.as_secs() / DAY.as_secs());
        self.nodes.retain(|name, seen| *name == self.node || seen.day >= oldest);
        if self.nodes != before {
            self.file.changed();
        }
        self.file.try_again();
    }

    /// Whether this node has given all of its sessions to the tier as it is, as far as it knows that.
    pub(crate) fn has_given(&self) -> bool {
        let given = self.nodes.get(&self.node).map(|seen| &seen.incarnation);
        self.current.is_some() && given == self.current.as_ref()
    }

    /// Whether a tier of this incarnation lacks nothing.
    pub(crate) fn is_whole(&self, incarnation: &str) -> bool {
        self.nodes.values().all(|seen| seen.incarnation == incarnation)
    }

    /// The nodes whose sessions the tier lacks.
    pub(crate) fn lacking(&self) -> Vec<String> {
        let Some(current) = &self.current else { return Vec::new() };
        let lacking = self.nodes.iter().filter(|(_, seen)| seen.incarnation != *current);
        lacking.map(|(name, _)| name.clone()).collect()
    }

    /// What is to be written.
    pub(crate) fn unwritten(&mut self) -> Option<Unwritten> {
        let line = |(name, Seen { incarnation, day }): (&String, &Seen)| format!("{name} {incarnation} {day}\n");
        let Self { file, nodes, .. } = self;
        file.unwritten(|| nodes.iter().map(line).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str, given: Option<&str>) -> NodeEntry {
        NodeEntry { name: name.to_owned(), given: given.map(str::to_owned), ..NodeEntry::default() }
    }

    #[test]
    fn a_tier_that_was_emptied_lacks_what_nodes_have_not_given_again() {
        let mut given = Given::at(None, "n1");
        assert_eq!(given.found("a"), "a", "it has nothing to give");
        given.seen(&[entry("n1", Some("a")), entry("n2", Some("a")), entry("old", None)]);
        assert!(given.lacking().is_empty());
        assert_eq!((given.found("b").as_str(), given.emptied()), ("a", 1));
        given.seen(&[entry("old", None)]);
        assert_eq!((given.lacking(), given.has_given()), (vec!["n1".to_owned(), "n2".to_owned()], false));
        given.gave("b");
        assert!(given.has_given());
        assert_eq!(given.lacking(), ["n2"]);
        given.seen(&[entry("n2", Some("b"))]);
        assert!(given.lacking().is_empty());
    }

    #[test]
    fn a_node_that_was_restarted_knows_who_gave_what() {
        let folder = tempfile::TempDir::new().unwrap();
        let at = || Given::at(Some(folder.path().join("nodes.given")), "n1");
        let mut given = at();
        given.found("a");
        given.seen(&[entry("n2", Some("a"))]);
        given.unwritten().expect("it changed").write();
        assert!(given.unwritten().is_none(), "it is written");
        let mut again = at();
        assert_eq!((again.found("b").as_str(), again.emptied()), ("a", 1), "it has given nothing to this one");
        assert_eq!((again.found("b").as_str(), again.emptied()), ("a", 1), "it knows that already");
        assert_eq!(again.lacking(), ["n1", "n2"]);
        let mut same = at();
        same.found("a");
        assert_eq!((same.lacking(), same.emptied()), (Vec::new(), 0));
    }
}
